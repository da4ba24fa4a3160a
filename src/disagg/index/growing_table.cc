#include "disagg/index/growing_table.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <span>

#include "base/assert.h"
#include "base/memory.h"
#include "disagg/watermark.h"

namespace breccia::disagg {

namespace {

using fabric::TimeUs;

/// Whether a table is made by now is looked at so often.
constexpr TimeUs kMakeUs = 1000;
/// Of chains, which may be empty, so many are told at once.
constexpr std::size_t kChainsToldMax = 1 << 16;
/// Behind that time a larger table is tried again.
constexpr TimeUs kAgainUs = 5'000'000;

Watermark* watermark_in(fabric::Region* region) {
  return reinterpret_cast<Watermark*>(region->bytes().data());
}

std::span<Bucket> buckets_in(fabric::Region* region, const TableShape& shape) {
  BRECCIA_ASSERT(region->bytes().size() ==
                 sizeof(Watermark) + std::uint64_t{shape.buckets} * sizeof(Bucket));
  return {reinterpret_cast<Bucket*>(region->bytes().data() + sizeof(Watermark)), shape.buckets};
}

/// Where the hashes of a chain begin.
std::uint64_t position_of(std::uint32_t chain, std::uint32_t bits) {
  return bits == 0 ? 0 : std::uint64_t{chain} << (64 - bits);
}

}  // namespace

Result<std::unique_ptr<GrowingTable>> GrowingTable::make(fabric::Port* port,
                                                         const Options& options) {
  BRECCIA_ASSERT(options.bucket_bits <= kBitsMax && options.bucket_bits_max <= kBitsMax);
  std::unique_ptr<GrowingTable> made(new GrowingTable(port, options));
  BRECCIA_TAKE(made->now_,
               made->make_one({.bucket_bits = options.bucket_bits,
                               .buckets = (1U << options.bucket_bits) + options.more_buckets}));
  made->now_->table = fill(*made->now_);
  made->set_watermark(0);
  return made;
}

/// Without what fill() makes.
Result<GrowingTable::One> GrowingTable::make_one(const TableShape& shape) const {
  One one{.shape = shape, .region = {}, .table = {}};
  BRECCIA_TAKE(one.region,
               port_->make_region(sizeof(Watermark) + std::uint64_t{shape.buckets} * sizeof(Bucket),
                                  fabric::Access::kRead));
  return one;
}

std::unique_ptr<HashTable> GrowingTable::fill(const One& one) {
  return std::make_unique<HashTable>(buckets_in(one.region.get(), one.shape), one.shape);
}

// ---- growing -----------------------------------------------------------------------------------

bool GrowingTable::is_to_grow() const {
  const TableShape& shape = now_->shape;
  if (shape.bucket_bits >= options_.bucket_bits_max) return false;
  const std::uint64_t first = std::uint64_t{1} << shape.bucket_bits;
  const bool is_filled = 100 * size() > options_.full_percent * Bucket::kSlots * first;
  return is_filled || 2 * free_buckets() < shape.buckets - first;
}

Status GrowingTable::begin() {
  BRECCIA_ASSERT(!next_.has_value() && !before_.has_value());
  // A small table may have many more buckets than chains, a large one need not.
  const std::uint32_t bits = now_->shape.bucket_bits + 1;
  const std::uint32_t first = 1U << bits;
  const std::uint32_t more = std::max(first / 4, options_.more_buckets);
  BRECCIA_TAKE(next_, make_one({.bucket_bits = bits, .buckets = first + more}));
  copied_ = 0;
  if (options_.makes_aside) {
    making_ = std::async(std::launch::async, [this] { return fill(*next_); });
  } else {
    next_->table = fill(*next_);
  }
  return Status::OK();
}

void GrowingTable::tend(TimeUs told_until) {
  const TimeUs now = port_->now_us();
  if (before_.has_value() && now >= before_until_) before_.reset();
  if (making_.valid()) {
    if (making_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
    const Status made = base::or_memory_limit([&] {
      next_->table = making_.get();
      return Status::OK();
    });
    if (!made.ok()) return give_up();
  } else if (!next_.has_value() && !before_.has_value() && now >= begin_again_ && is_to_grow()) {
    const Status begun = base::or_memory_limit([&] { return begin(); });
    if (begun.ok()) return;
    spdlog::warn("the hash index cannot grow: {}", begun.ToString());
    return give_up();
  }
  if (!next_.has_value()) return;
  copy(options_.chains_at_once);
  if (next_.has_value() && copied_ == 1U << now_->shape.bucket_bits) change_over(told_until);
}

TimeUs GrowingTable::wake() const {
  TimeUs first = before_.has_value() ? before_until_ : std::numeric_limits<TimeUs>::max();
  if (making_.valid()) {
    first = std::min(first, port_->now_us() + kMakeUs);
  } else if (next_.has_value()) {
    first = 0;
  } else if (!before_.has_value() && is_to_grow()) {
    first = std::min(first, begin_again_);
  }
  return first;
}

bool GrowingTable::will_grow() const {
  const bool may_grow = now_->shape.bucket_bits < options_.bucket_bits_max;
  if (next_.has_value() || !may_grow) return next_.has_value();
  return before_.has_value() || (is_to_grow() && port_->now_us() >= begin_again_);
}

/// What has changed since a chain was copied went to both.
void GrowingTable::copy(std::size_t chains) {
  const std::uint32_t end = 1U << now_->shape.bucket_bits;
  std::vector<std::pair<KeyId, Slot>> entries;
  for (std::size_t n = 0; n < chains && copied_ < end; ++n, ++copied_) {
    entries.clear();
    now_->table->append_chain(copied_, &entries);
    for (const auto& [id, slot] : entries) {
      if (next_->table->put(id, location_in(slot)).ok()) continue;
      return give_up();
    }
  }
}

/// There is no memory, or its chains have more holes than there is room for.
void GrowingTable::give_up() {
  next_.reset();
  begin_again_ = port_->now_us() + kAgainUs;
}

void GrowingTable::change_over(TimeUs told_until) {
  BRECCIA_ASSERT(next_->table->size() == now_->table->size());
  before_ = std::exchange(now_, std::exchange(next_, std::nullopt));
  before_until_ = told_until;
  if (port_->now_us() >= told_until) before_.reset();
  set_watermark(watermark_);
  ++number_;
}

// ---- entries -----------------------------------------------------------------------------------

bool GrowingTable::takes(const KeyId& id) const {
  return !before_.has_value() || before_->table->free_buckets() > 0 ||
         !before_->table->wants_bucket(id);
}

/// Who reads the table before finds a chain torn until both tables have a change: nobody sees it
/// there as it was when somebody has seen it here as it is.
class GrowingTable::Torn {
 public:
  Torn(std::optional<One>* table, const KeyId& id) : table_(table), id_(id) {
    if (table_->has_value()) (*table_)->table->tear(id_);
  }
  ~Torn() {
    if (table_->has_value()) (*table_)->table->mend(id_);
  }
  Torn(const Torn&) = delete;
  Torn& operator=(const Torn&) = delete;

 private:
  std::optional<One>* const table_;
  const KeyId id_;
};

Result<std::optional<Location>> GrowingTable::put(const KeyId& id, const Location& location) {
  BRECCIA_ASSERT(takes(id));
  const Torn torn(&before_, id);
  BRECCIA_TAKE(const std::optional<Location> before, now_->table->put(id, location));
  const bool is_copied = next_.has_value() && next_->table != nullptr;
  if (is_copied && !next_->table->put(id, location).ok()) give_up();
  if (before_.has_value()) BRECCIA_ASSERT(before_->table->put(id, location).ok());
  return before;
}

std::optional<Location> GrowingTable::erase(const KeyId& id) {
  const Torn torn(&before_, id);
  if (next_.has_value() && next_->table != nullptr) next_->table->erase(id);
  if (before_.has_value()) before_->table->erase(id);
  return now_->table->erase(id);
}

std::uint64_t GrowingTable::append_chains(std::uint64_t position, std::size_t entries_max,
                                          std::vector<std::pair<KeyId, Slot>>* entries) const {
  const TableShape& shape = now_->shape;
  const std::uint32_t end = 1U << shape.bucket_bits;
  std::uint32_t chain = shape.first_bucket(position);
  for (std::size_t n = 0; n < kChainsToldMax && chain < end; ++n) {
    if (entries->size() >= entries_max) break;
    now_->table->append_chain(chain++, entries);
  }
  return chain == end ? 0 : position_of(chain, shape.bucket_bits);
}

void GrowingTable::set_watermark(std::uint64_t sequence) {
  watermark_ = sequence;
  watermark_in(now_->region.get())->set(sequence);
}

}  // namespace breccia::disagg
