#pragma once

#include <breccia/family.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/assert.h"
#include "batch/columns.h"
#include "batch/results.h"
#include "batch/writes.h"
#include "exec/host_vector.h"
#include "record/key_columns.h"

namespace breccia::batch {

/// Neighbouring reads whose values go to the same place: into arrays of the caller's, or, without
/// `found`, to the batch.
struct Stretch {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  ValueArray into;

  /// Where the value of read `i` goes, in the caller's array.
  [[nodiscard]] char* place(std::uint64_t i) const {
    BRECCIA_ASSERT(begin <= i && i < end && into.found != nullptr);
    return static_cast<char*>(into.values) + static_cast<std::ptrdiff_t>(i - begin) * into.stride;
  }
};

/// The lookups of a batch in one column family, and their results.
/// Threads one owner; results of different reads may be written by several threads.
class Reads {
 public:
  Reads(FamilyId family, exec::HostMemory& memory)
      : family_(family),
        keys_(memory),
        after_(memory),
        numbers_(memory),
        bounds_(memory),
        results_(exec::plain_host_memory()),
        codes_(exec::plain_host_memory()) {}

  /// `after`: bytes of the family's records that came before the lookup in the batch.
  /// Errors  false: out of memory; nothing was added.
  [[nodiscard]] bool add(const Slice& key, std::uint64_t after) {
    if (!make_room_for_after(1, after) || !keys_.append(key.data(), key.size())) return false;
    add_after(after);
    return true;
  }
  /// Room for more lookups at most like those that are there, all of them behind records of the
  /// family, or none.
  struct Row {
    record::KeyRow keys;
    std::uint64_t* after = nullptr;  // null: they come behind no record
  };
  /// As of KeyColumns::row().
  /// Shape   count() > 0; `behind_records`, if any is.
  [[nodiscard]] Row row(std::uint64_t more, bool behind_records) {
    BRECCIA_ASSERT(behind_records || after_.size() == 0);
    if (!behind_records) return {keys_.row(more)};
    more = std::min(more, after_.capacity() - after_.size());
    return {keys_.row(more), after_.data() + after_.size()};
  }
  void count_written(const Row& row) {
    const std::uint64_t before = count();
    keys_.count_written(row.keys);
    if (row.after == nullptr) {
      after_none_ += count() - before;
    } else {
      (void)after_.extend(count() - before);
      BRECCIA_ASSERT(row.after == after_.data() + after_.size());
    }
    BRECCIA_ASSERT(after_none_ + after_.size() == count());
  }
  /// Adds lookups in one go. Their values go into `into`, unless that has no `found`. `in_place`:
  /// the keys may stay in the caller's array until somebody wants them in columns.
  /// Errors  false, std::bad_alloc: out of memory; nothing was added.
  [[nodiscard]] bool add(const KeyArray& keys, std::uint64_t after, const ValueArray& into,
                         bool in_place);
  /// Adds the lookups of another batch, or the chosen ones (null: all); `before` says behind how
  /// many bytes of the family's records each comes to stand. Their values go to the batch, and into
  /// arrays when they are handed over.
  /// Errors  as Writes::append.
  [[nodiscard]] bool append(const Reads& other, const Flags* chosen, BytesBefore* before);
  /// Copies the results of the next lookups that were appended to those that they came from.
  /// Shape   after prepare() of both.
  void hand_over(Reads* to, const Flags* chosen);
  void clear();
  /// Makes room for the results; every one of them must then be written. False: out of memory.
  [[nodiscard]] bool prepare(bool with_bounds);

  [[nodiscard]] FamilyId family() const { return family_; }
  [[nodiscard]] std::uint64_t count() const { return keys_.count(); }
  [[nodiscard]] record::KeyColumnsRef keys() const {
    settle();
    return keys_.ref();
  }
  /// All keys, if they lie in an array of the caller's, one behind the other, and their columns are
  /// not written yet; or null. Each has 8 or each has 16 bytes, and is aligned to as many.
  [[nodiscard]] const std::uint64_t* rows() const {
    return rows_.count() == count() ? reinterpret_cast<const std::uint64_t*>(rows_.data())
                                    : nullptr;
  }
  /// Writes the columns of what lies in such an array.
  void settle() const;
  /// The columns, whose keys from such an array are there if settle() or write_keys() wrote them.
  [[nodiscard]] record::KeyColumnsRef columns() const { return keys_.ref(); }
  /// Writes the columns of keys [begin, end), if they lie in such an array.
  /// Threads any number, of different keys.
  void write_keys(std::uint64_t begin, std::uint64_t end) const;
  /// Bytes of the family's records that came before read `i`.
  [[nodiscard]] std::uint64_t after(std::uint64_t i) const {
    BRECCIA_ASSERT(i < count());
    return i < after_none_ ? 0 : after_[i - after_none_];
  }
  /// Room for every read's value of 8 bytes; null: out of memory.
  [[nodiscard]] std::uint64_t* make_numbers();
  /// Bounds of the reads, filled by the engine.
  [[nodiscard]] std::uint64_t* bounds() { return bounds_.data(); }
  /// The reads around read `i` that have their values in the same place.
  [[nodiscard]] Stretch stretch_at(std::uint64_t i) const;
  /// Of each read, its result, if that goes to the batch.
  [[nodiscard]] ReadResult* results() { return results_.data(); }
  /// Of each read, its code, if its value goes into an array.
  [[nodiscard]] std::uint8_t* codes() { return codes_.data(); }
  [[nodiscard]] ReadResult result(std::uint64_t i) const {
    BRECCIA_ASSERT(i < result_count_);
    return arrays_.empty() ? results_[i] : result_beside_arrays(i);
  }
  [[nodiscard]] std::uint64_t result_count() const { return result_count_; }

 private:
  /// False if memory is exhausted.
  [[nodiscard]] bool make_room_for_after(std::uint64_t more, std::uint64_t after) {
    return after == 0 || after_.reserve(after_.size() + more);
  }
  /// Shape   there is room.
  void add_after(std::uint64_t after) {
    if (after == 0) {
      BRECCIA_ASSERT(after_.size() == 0);
      ++after_none_;
    } else {
      BRECCIA_ASSERT(after_.size() == 0 || after_[after_.size() - 1] <= after);
      after_.push(after);
    }
  }
  [[nodiscard]] ReadResult result_beside_arrays(std::uint64_t i) const;

  const FamilyId family_;
  mutable record::KeyColumns keys_;
  mutable BytesColumn rows_;               // the first keys, if they lie in the caller's array
  std::uint64_t after_none_ = 0;           // the first reads, before which there is no record
  exec::HostVector<std::uint64_t> after_;  // of the others
  exec::HostVector<std::uint64_t> numbers_;
  exec::HostVector<std::uint64_t> bounds_;
  exec::HostVector<ReadResult> results_;  // no device writes these, nor codes_
  std::vector<Stretch> arrays_;           // those that go into arrays, in their order
  std::uint64_t array_reads_ = 0;
  exec::HostVector<std::uint8_t> codes_;
  std::uint64_t result_count_ = 0;
  std::uint64_t handed_over_ = 0;
};

}  // namespace breccia::batch
