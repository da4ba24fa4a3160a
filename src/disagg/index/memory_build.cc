#include "disagg/index/memory_build.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/assert.h"
#include "disagg/block.h"

namespace breccia::disagg {

namespace {

/// Keys whose buckets are on their way into the cache while one goes into its.
constexpr std::size_t kAhead = 8;

}  // namespace

Status MemoryBuild::tend() {
  if (is_over_) return Status::OK();
  scan_.tend();
  BRECCIA_TRY(put_found());
  if (scan_.is_over() && scan_.found().empty()) settle();
  return Status::OK();
}

fabric::TimeUs MemoryBuild::wake() const {
  return contested_.empty() ? scan_.wake() : std::min(scan_.wake(), settle_again_);
}

Status MemoryBuild::put_found() {
  std::deque<ValueEntry>& found = scan_.found();
  for (; !found.empty(); found.pop_front()) {
    if (found.size() > kAhead) table_->prefetch(found[kAhead].id);
    const ValueEntry& one = found.front();
    last_ = std::max(last_, one.sequence);
    if (table_->find(one.id).has_value()) {
      contested_.push_back(one);
      continue;
    }
    if (table_->free_buckets() == 0 && table_->wants_bucket(one.id)) {
      if (table_->will_grow()) return Status::OK();
      return Status::MemoryLimit("the hash index is too small", "make it larger");
    }
    BRECCIA_TRY(table_->put(one.id, location_in(one.slot)).status());
  }
  return Status::OK();
}

/// Of the keys that have several.
void MemoryBuild::settle() {
  if (port_->now_us() < settle_again_) return;
  while (!contested_.empty()) {
    if (!settle(contested_.back())) {
      settle_again_ = port_->now_us() + options_.again_us;
      return;
    }
    contested_.pop_back();
  }
  is_over_ = true;
}

/// The later write is the key's. False: the one in the table cannot be read now.
bool MemoryBuild::settle(const ValueEntry& other) {
  const auto now = table_->find(other.id);
  BRECCIA_ASSERT(now.has_value());
  // What was lost with its server is not known any more: lookups say so.
  if (memory_->is_lost(now->node)) return true;
  std::uint64_t sequence = 0;
  std::array<std::byte, sizeof sequence> bytes;
  const MemoryPeers::BlockRead read{now->offset() + BlockHeader::kSequenceOffset, bytes};
  const fabric::TimeUs until = port_->now_us() + options_.read_us;
  if (!memory_->read(now->node, {&read, 1}, options_.read_us / 2, until).ok()) return false;
  std::memcpy(&sequence, bytes.data(), sizeof sequence);
  if (other.sequence <= sequence) {
    lose(other.slot, other.sequence);
    return true;
  }
  lose(slot_of(0, *now), sequence);
  const auto put = table_->put(other.id, location_in(other.slot));
  BRECCIA_ASSERT(put.ok());  // in the place of the other one
  return true;
}

void MemoryBuild::lose(Slot slot, std::uint64_t sequence) {
  losers_[location_in(slot).node].add(slot).add(sequence + 1);
}

}  // namespace breccia::disagg
