#include "disagg/index/memory_build.h"

#include <limits>

#include "base/assert.h"
#include "disagg/block.h"

namespace breccia::disagg {

namespace {

/// Keys whose buckets are on their way into the cache while one goes into its, and those of them
/// whose buckets are there, and say what else is needed.
constexpr std::size_t kAhead = 16;
constexpr std::size_t kPlacesAhead = 8;
/// Of a turn, in which the server is to hear what comes, and to say that it lives.
constexpr std::size_t kPutAtOnce = 16 << 10;
constexpr std::size_t kSettleAtOnce = 256;
/// Of a message, or two.
constexpr std::size_t kLosersAtOnce = 4096;

}  // namespace

Status MemoryBuild::tend() {
  if (is_over_) return Status::OK();
  scan_.tend();
  BRECCIA_TRY(put_found());
  if (scan_.is_over() && scan_.found().empty()) settle();
  return Status::OK();
}

fabric::TimeUs MemoryBuild::wake() const {
  if (!scan_.is_over()) return scan_.has_found() && !waits_for_room_ ? 0 : scan_.wake();
  return waits_for_room_ ? std::numeric_limits<fabric::TimeUs>::max() : settle_again_;
}

Status MemoryBuild::put_found() {
  std::deque<ValueEntry>& found = scan_.found();
  waits_for_room_ = false;
  for (std::size_t n = 0; n < kPutAtOnce && !found.empty(); ++n, found.pop_front()) {
    if (found.size() > kAhead) table_->prefetch(found[kAhead].id);
    if (found.size() > kPlacesAhead) table_->prefetch_place(found[kPlacesAhead].id);
    const ValueEntry& one = found.front();
    last_ = std::max(last_, one.sequence);
    if (table_->find(one.id).has_value()) {
      note_rival(one);
      continue;
    }
    if (table_->free_buckets() == 0 && table_->wants_bucket(one.id)) {
      waits_for_room_ = table_->will_grow();
      if (waits_for_room_) return Status::OK();
      return Status::MemoryLimit("the hash index is too small", "make it larger");
    }
    BRECCIA_TRY(table_->put(one.id, location_in(one.slot)).status());
  }
  return Status::OK();
}

/// Of three values the one that is neither in the table nor the latest beside it is none.
void MemoryBuild::note_rival(const ValueEntry& one) {
  const auto [found, is_new] = rivals_.try_emplace({one.id.hash, one.id.proof}, one);
  if (is_new) return;
  ValueEntry earlier = one;
  if (one.sequence > found->second.sequence) std::swap(earlier, found->second);
  losers_.push_back({.slot = earlier.slot, .sequence = earlier.sequence});
}

/// Of some of the keys that have several.
void MemoryBuild::settle() {
  if (port_->now_us() < settle_again_) return;
  std::vector<ValueEntry> some;
  for (const auto& [id, rival] : rivals_) {
    if (some.size() == kSettleAtOnce) break;
    some.push_back(rival);
  }
  std::vector<std::uint64_t> sequences;
  if (!read_sequences(some, &sequences)) {
    settle_again_ = port_->now_us() + options_.again_us;
    return;
  }
  for (std::size_t i = 0; i < some.size(); ++i) {
    settle(some[i], sequences[i]);
    rivals_.erase({some[i].id.hash, some[i].id.proof});
  }
  is_over_ = rivals_.empty();
}

/// Of the values that these keys have in the table; of a server that was lost none can be later, as
/// lookups are to say that it was. False: they cannot be read now.
bool MemoryBuild::read_sequences(std::span<const ValueEntry> others,
                                 std::vector<std::uint64_t>* sequences) {
  sequences->assign(others.size(), std::numeric_limits<std::uint64_t>::max());
  MemoryPeers::ReadsByNode of_node;
  for (std::size_t i = 0; i < others.size(); ++i) {
    const auto now = table_->find(others[i].id);
    BRECCIA_ASSERT(now.has_value());
    if (!memory_->is_kept(now->node)) continue;
    of_node[now->node].push_back({now->offset() + BlockHeader::kSequenceOffset,
                                  std::as_writable_bytes(std::span(*sequences).subspan(i, 1))});
  }
  return memory_->read(of_node, options_.read_us).ok();
}

/// The later write is the key's. `sequence` is that of the value in the table.
void MemoryBuild::settle(const ValueEntry& other, std::uint64_t sequence) {
  const auto now = table_->find(other.id);
  BRECCIA_ASSERT(now.has_value());
  if (other.sequence <= sequence) {
    losers_.push_back({.slot = other.slot, .sequence = other.sequence});
    return;
  }
  losers_.push_back({.slot = slot_of(0, *now), .sequence = sequence});
  const auto put = table_->put(other.id, location_in(other.slot));
  BRECCIA_ASSERT(put.ok());  // in the place of the other one
}

Telling::News MemoryBuild::take_losers() {
  Telling::News news;
  const std::size_t count = std::min(kLosersAtOnce, losers_.size());
  for (const Loser& one : std::span(losers_).last(count)) {
    Telling::news_for(location_in(one.slot).node, shard_, &news)
        .add(one.slot)
        .add(one.sequence + 1);
  }
  losers_.resize(losers_.size() - count);
  return news;
}

}  // namespace breccia::disagg
