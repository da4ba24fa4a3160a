#pragma once

#include <breccia/status.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/prefetch.h"
#include "batch/selection.h"
#include "exec/host_vector.h"
#include "record/record.h"

namespace breccia::batch {

struct ReadResult {
  const char* data;
  std::uint32_t bytes;
  Status::Code code;
};

/// What a range request found: key and value of 8 bytes each, one entry behind the other, or
/// records as they stand in the log, which hold key and value.
struct RangeResult {
  const std::uint64_t* pairs;  // null: records
  const std::byte* const* records;
  std::uint32_t count;
  Status::Code code;
};

/// Key and value of entry `j`.
[[nodiscard]] inline std::pair<Slice, Slice> range_entry(const RangeResult& range,
                                                         std::uint64_t j) {
  BRECCIA_ASSERT(j < range.count);
  if (range.pairs != nullptr) {
    const auto* const pair = reinterpret_cast<const char*>(range.pairs + 2 * j);
    return {Slice(pair, 8), Slice(pair + 8, 8)};
  }
  // Entries lie all over the log; whoever reads them in order finds the next ones in cache.
  constexpr std::uint64_t kAhead = 12;
  if (j + kAhead < range.count) base::prefetch(range.records[j + kAhead]);
  const std::byte* const record = range.records[j];
  const record::RecordHeader header = record::record_header(record);
  return {Slice(record::record_key(record), header.key_bytes()),
          Slice(record::record_value(record), header.value_bytes)};
}

/// A Status of that code, as RocksDB would return it for a lookup.
[[nodiscard]] Status status_of(Status::Code code);

/// Gives the chosen ones of `to` (null: all) the results that come next in `from`, those behind the
/// first *given; bytes stay where they are.
template <class Result>
void hand_over_results(const exec::HostVector<Result>& from, std::uint64_t* given,
                       const Flags* chosen, exec::HostVector<Result>* to) {
  if (chosen == nullptr) {
    BRECCIA_ASSERT(*given + to->size() <= from.size());
    std::copy_n(from.data() + *given, to->size(), to->data());
    *given += to->size();
    return;
  }
  BRECCIA_ASSERT(chosen->size() == to->size());
  for (std::uint64_t i = 0; i < to->size(); ++i) {
    if ((*chosen)[i] == 0) continue;
    BRECCIA_ASSERT(*given < from.size());
    to->data()[i] = from[(*given)++];
  }
}

/// Memory for the values of one thread's share of a batch's results. Blocks stay where they are;
/// they come from the pool of host memory, which keeps them for other batches: a batch's first
/// results do not wait for the system to make pages.
/// Threads one owner.
class ResultArena {
 public:
  ResultArena() = default;
  ResultArena(const ResultArena&) = delete;
  ResultArena& operator=(const ResultArena&) = delete;
  ~ResultArena();

  /// Never null, not even for no bytes.
  /// Errors  std::bad_alloc.
  char* allocate(std::uint64_t bytes) {
    if (bytes > room_ || next_ == nullptr) take_block(bytes);
    BRECCIA_ASSERT(next_ != nullptr && bytes <= room_);
    char* const memory = next_;
    next_ += bytes;
    room_ -= bytes;
    return memory;
  }
  /// All that is left of a block, `bytes` at least; close() gives back the end of it, which was not
  /// used.
  /// Errors  std::bad_alloc.
  [[nodiscard]] std::span<char> open(std::uint64_t bytes) {
    char* const first = allocate(bytes);
    const std::span<char> rest(first, bytes + room_);
    next_ += room_;
    room_ = 0;
    return rest;
  }
  void close(std::uint64_t unused) {
    BRECCIA_ASSERT(next_ != nullptr && room_ == 0);
    next_ -= unused;
    room_ = unused;
  }
  /// Forgets the values; the blocks are used again.
  void clear();

 private:
  struct Block {
    char* memory;
    std::uint64_t bytes;
  };
  void take_block(std::uint64_t bytes);

  std::vector<Block> blocks_;
  std::size_t used_ = 0;  // blocks_[0..used_) hold values
  char* next_ = nullptr;
  std::uint64_t room_ = 0;
};

}  // namespace breccia::batch
