#include "batch/results.h"

#include <algorithm>

#include "base/assert.h"
#include "record/record.h"

namespace breccia::batch {

std::pair<Slice, Slice> range_entry(const RangeResult& range, std::uint64_t j) {
  BRECCIA_ASSERT(j < range.count);
  if (range.pairs != nullptr) {
    const auto* const pair = reinterpret_cast<const char*>(range.pairs + 2 * j);
    return {Slice(pair, 8), Slice(pair + 8, 8)};
  }
  // Entries lie all over the log; whoever reads them in order finds the next ones in cache.
  constexpr std::uint64_t kAhead = 12;
  if (j + kAhead < range.count) __builtin_prefetch(range.records[j + kAhead]);
  const std::byte* const record = range.records[j];
  const record::RecordHeader header = record::record_header(record);
  return {Slice(record::record_key(record), header.key_bytes()),
          Slice(record::record_value(record), header.value_bytes)};
}

Status status_of(Status::Code code) {
  constexpr char kWhere[] = "in the tree below";
  switch (code) {
    case Status::Code::kOk:
      return Status::OK();
    case Status::Code::kNotFound:
      return Status::NotFound();
    case Status::Code::kCorruption:
      return Status::Corruption(kWhere);
    case Status::Code::kNotSupported:
      return Status::NotSupported(kWhere);
    case Status::Code::kInvalidArgument:
      return Status::InvalidArgument(kWhere);
    case Status::Code::kIncomplete:
      return Status::Incomplete(kWhere);
    case Status::Code::kTimedOut:
      return Status::TimedOut(kWhere);
    case Status::Code::kAborted:
      return Status::MemoryLimit();  // of lookups, nothing else is
    case Status::Code::kBusy:
      return Status::Busy(kWhere);
    case Status::Code::kTryAgain:
      return Status::TryAgain(kWhere);
    default:
      return Status::IOError(kWhere);
  }
}

void ResultArena::take_block(std::uint64_t bytes) {
  constexpr std::uint64_t kFirstBytes = 256;  // many batches hold one value
  constexpr std::uint64_t kGrowthBytesMax = 64 << 20;
  while (used_ < blocks_.size() && blocks_[used_].bytes < bytes) ++used_;
  if (used_ == blocks_.size()) {
    const std::uint64_t grown =
        blocks_.empty() ? kFirstBytes : std::min(blocks_.back().bytes * 2, kGrowthBytesMax);
    const std::uint64_t size = std::max(bytes, grown);
    blocks_.push_back({std::make_unique_for_overwrite<char[]>(size), size});
  }
  BRECCIA_ASSERT(used_ < blocks_.size() && blocks_[used_].bytes >= bytes);
  next_ = blocks_[used_].memory.get();
  room_ = blocks_[used_].bytes;
  ++used_;
}

void ResultArena::clear() {
  used_ = 0;
  next_ = nullptr;
  room_ = 0;
}

}  // namespace breccia::batch
