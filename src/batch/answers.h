#pragma once

#include <breccia/status.h>

#include <cstdint>

#include "base/bytes.h"
#include "batch/reads.h"
#include "batch/results.h"

namespace breccia::batch {

/// Shorter values are copied all the same: whoever reads them finds them side by side, and not one
/// in each line of the cache.
inline constexpr std::size_t kInPlaceBytesMin = 64;

/// Takes results of reads, in any order, and puts each where it belongs: to the batch, or into an
/// array of the caller's.
/// Shape   the reads are prepared; each gets one result.
/// Owner   the reads and the arena live longer.
/// Threads one owner; reads may be shared among any number of these.
class Answers {
 public:
  /// `arena` is for values that go to the batch; null if none are added.
  Answers(Reads* reads, ResultArena* arena)
      : reads_(reads), results_(reads->results()), codes_(reads->codes()), arena_(arena) {}

  /// An outcome without a value.
  void add(std::uint64_t i, Status::Code code) {
    BRECCIA_ASSERT(code != Status::Code::kOk);
    if (goes_to_batch(i)) {
      results_[i] = {nullptr, 0, code};
    } else {
      put_code(i, code);
    }
  }
  /// A value that lies elsewhere.
  void add_value(std::uint64_t i, const Slice& value) {
    if (goes_to_batch(i)) {
      keep(i, value);
    } else {
      put_value(i, value);
    }
  }
  /// A value that lies in memory which the batch holds.
  void add_place(std::uint64_t i, const Slice& value) {
    if (value.size() >= kInPlaceBytesMin && goes_to_batch(i)) {
      results_[i] = {value.data(), static_cast<std::uint32_t>(value.size()), Status::Code::kOk};
    } else {
      add_value(i, value);
    }
  }
  /// A value of 8 bytes that lives as long as the batch's results.
  void add_number(std::uint64_t i, const std::uint64_t* number) {
    add_result(i, {reinterpret_cast<const char*>(number), sizeof *number, Status::Code::kOk});
  }
  void add_result(std::uint64_t i, const ReadResult& result) {
    if (goes_to_batch(i)) {
      results_[i] = result;
    } else if (result.code != Status::Code::kOk) {
      put_code(i, result.code);
    } else {
      put_value(i, {result.data, result.bytes});
    }
  }

 private:
  [[nodiscard]] bool goes_to_batch(std::uint64_t i) {
    if (i < stretch_.begin || i >= stretch_.end) stretch_ = reads_->stretch_at(i);
    return stretch_.into.found == nullptr;
  }
  void keep(std::uint64_t i, const Slice& value) {
    BRECCIA_ASSERT(arena_ != nullptr);
    char* const copy = arena_->allocate(value.size());
    base::copy_inline(copy, value.data(), value.size());
    results_[i] = {copy, static_cast<std::uint32_t>(value.size()), Status::Code::kOk};
  }
  void put_code(std::uint64_t i, Status::Code code) {
    BRECCIA_ASSERT(stretch_.begin <= i && i < stretch_.end);
    stretch_.into.found[i - stretch_.begin] = code == Status::Code::kOk ? 1 : 0;
    codes_[i] = static_cast<std::uint8_t>(code);
  }
  void put_value(std::uint64_t i, const Slice& value) {
    // It would be cut, or leave bytes of another value.
    if (value.size() != stretch_.into.width) return put_code(i, Status::Code::kInvalidArgument);
    base::copy_inline(stretch_.place(i), value.data(), value.size());
    put_code(i, Status::Code::kOk);
  }

  Reads* reads_;
  ReadResult* results_;
  std::uint8_t* codes_;
  ResultArena* arena_;
  Stretch stretch_;
};

}  // namespace breccia::batch
