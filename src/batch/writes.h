#pragma once

#include <breccia/family.h>
#include <breccia/status.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "base/streamed_bytes.h"
#include "batch/columns.h"
#include "batch/selection.h"
#include "exec/host_vector.h"
#include "record/key_columns.h"
#include "record/record.h"

namespace breccia::batch {

/// The writes of a batch to one column family: log records and columns.
/// Threads one owner.
class Writes {
 public:
  Writes(FamilyId family, exec::HostMemory& memory)
      : family_(family), records_(memory), keys_(memory), offsets_(memory), numbers_(memory) {}

  /// Errors  false: out of memory; nothing was added.
  [[nodiscard]] bool add(const record::RecordHeader& header, const Slice& key, const Slice& value) {
    if (!takes(header)) return add_another(header, key, value);
    push(header, key, value);
    return true;
  }
  /// Adds point operations, in one go what add() does for each.
  /// `in_place`: their records may stay in the caller's arrays, until somebody asks for them.
  /// Errors  false, std::bad_alloc: out of memory; nothing was added.
  [[nodiscard]] bool add(record::Op op, const RecordArray& records, bool in_place);
  /// Adds copies of the writes of another batch, to the same family.
  /// Errors  false: out of memory; these writes are of no use any more.
  [[nodiscard]] bool append(const Writes& other);
  /// Adds copies of the chosen ones.
  [[nodiscard]] bool append(const Writes& other, const ChosenWrites& chosen);
  void clear();

  [[nodiscard]] FamilyId family() const { return family_; }
  /// Bytes [begin, end) of the records, which stand one behind the other; those of a family other
  /// than the default one begin with a record that names it. Where they lie, or in `room`, if the
  /// caller's arrays have some of them.
  /// Shape   room[end - begin].
  /// Threads any number, behind settle().
  [[nodiscard]] const std::byte* bytes(std::uint64_t begin, std::uint64_t end,
                                       std::byte* room) const;
  /// All of the records where they lie.
  /// Shape   gather() has been called since the last add().
  [[nodiscard]] const std::byte* records() const {
    BRECCIA_ASSERT(!in_arrays_.has_value());
    settle();
    return records_.data();
  }
  /// Copies the records that the caller's arrays have. False: out of memory.
  [[nodiscard]] bool gather() const;
  /// Brings what is still on its way into the records. Requests::lay_out does it, so that any
  /// number of threads may read them behind it.
  void settle() const {
    if (stream_ != nullptr) stream_.reset();
  }
  [[nodiscard]] std::uint64_t record_bytes() const { return records_.size() + array_bytes_; }
  [[nodiscard]] std::uint32_t record_count() const { return record_count_; }
  /// Keys of the point operations, and of each its record's offset in records() | its operation.
  [[nodiscard]] record::KeyColumnsRef keys() const { return keys_.ref(); }
  [[nodiscard]] const std::uint64_t* offsets() const { return offsets_.data(); }
  [[nodiscard]] std::uint64_t point_count() const { return keys_.count(); }
  /// Point operations and range deletions.
  [[nodiscard]] std::uint64_t request_count() const {
    return point_count() + range_deletes_.size();
  }
  /// Of each range deletion, its record's offset in records().
  [[nodiscard]] const std::vector<std::uint64_t>& range_deletes() const { return range_deletes_; }
  [[nodiscard]] std::uint64_t merges() const { return merges_; }
  /// Of single keys, both kinds.
  [[nodiscard]] std::uint64_t deletes() const { return deletes_; }
  /// True if every put's and every operand's value has 8 bytes.
  [[nodiscard]] bool only_numbers() const { return only_numbers_; }
  /// These values of the point operations; null unless only_numbers().
  [[nodiscard]] const std::uint64_t* numbers() const {
    return only_numbers_ ? numbers_.data() : nullptr;
  }

  /// Exchanges numbers() for others, one for each point operation; write_record() does the rest.
  /// Shape   only_numbers().
  void swap_numbers(exec::HostVector<std::uint64_t>* numbers);
  /// Makes point operation `i` an `op`; its record stays what it is until write_record(). Threads
  /// any number, of different operations, as the next one.
  void set_operation(std::uint64_t i, record::Op op) {
    BRECCIA_ASSERT(i < point_count() && record::is_point(op));
    offsets_.data()[i] = record::position_of(offsets_[i]) | static_cast<std::uint64_t>(op);
  }
  /// Brings operation `i` and its number into its record, in the place of a value of 8 bytes.
  void write_record(std::uint64_t i);
  /// To be called when set_operation has changed how many merges there are.
  void set_merges(std::uint64_t merges) { merges_ = merges; }

  /// Where records() begin among the records of the whole batch; set by Requests::lay_out.
  [[nodiscard]] std::uint64_t base() const { return base_; }

 private:
  friend class Requests;
  /// Whether a record that names the family comes first.
  [[nodiscard]] bool needs_name() const { return record_bytes() == 0 && family_ != kDefaultFamily; }
  /// True if a write can be pushed as it is: one of those that are there already, with room for it.
  [[nodiscard]] bool takes(const record::RecordHeader& header) const {
    const bool is_number = header.value_bytes == sizeof(std::uint64_t);
    return pushes_ > 0 && record::is_point(header.op()) && (is_number || !only_numbers_) &&
           records_.has_room(header.record_bytes()) && keys_.takes(header.key_bytes());
  }
  /// Adds a write in one go.
  /// Shape   takes(header).
  void push(const record::RecordHeader& header, const Slice& key, const Slice& value) {
    const record::Op op = header.op();
    const std::uint64_t bytes = header.record_bytes();
    BRECCIA_INVARIANT(takes(header) && key.size() == header.key_bytes());
    --pushes_;
    *offsets_.take(1) = records_.size() | static_cast<std::uint64_t>(op);
    if (only_numbers_) std::memcpy(numbers_.take(1), value.data(), sizeof(std::uint64_t));
    merges_ += op == record::Op::kMerge ? 1 : 0;
    deletes_ += record::is_deletion(op) ? 1 : 0;
    ++record_count_;
    keys_.push(key.data(), key.size());
    std::byte* const place = records_.take(bytes);
    std::byte* const record = stream_ == nullptr ? place : stream_->next(bytes);
    record::write_record(record, header, key.data(), key.size(), value.data(), value.size());
  }
  /// Counts the writes of which push() needs to ask nothing but their sizes.
  void count_pushes();
  /// add() of any other.
  [[nodiscard]] bool add_another(const record::RecordHeader& header, const Slice& key,
                                 const Slice& value);
  [[nodiscard]] bool make_room(std::uint64_t bytes);
  /// Shape   there is room.
  void add_name();
  void add_record(const record::RecordHeader& header, const Slice& key, const Slice& value);
  void add_number(record::Op op, const Slice& value);

  /// Records of so large a batch leave the caches before a submit copies them: they go past those.
  static constexpr std::uint64_t kStreamedFrom = 16 << 20;

  /// Records that are still in arrays of the caller's.
  struct InArrays {
    record::Op op;
    RecordArray records;
  };

  const FamilyId family_;
  mutable exec::HostVector<std::byte> records_;
  mutable std::optional<InArrays> in_arrays_;  // the last records, behind records_
  mutable std::uint64_t array_bytes_ = 0;      // that those will take
  /// Writes behind the records that are there; null while they are few.
  mutable std::unique_ptr<base::StreamedBytes> stream_;
  record::KeyColumns keys_;
  exec::HostVector<std::uint64_t> offsets_;
  exec::HostVector<std::uint64_t> numbers_;
  std::uint64_t pushes_ = 0;  // see count_pushes()
  std::uint32_t record_count_ = 0;
  std::vector<std::uint64_t> range_deletes_;
  std::uint64_t merges_ = 0;
  std::uint64_t deletes_ = 0;
  bool only_numbers_ = true;
  std::uint64_t base_ = 0;
};

/// Steps from record to record of a family's writes.
/// Owner   the writes and the flags live longer.
/// Threads one owner.
class RecordWalk {
 public:
  RecordWalk(const Writes* writes, const ChosenWrites* chosen) : writes_(writes), chosen_(chosen) {}

  /// Offset of the next record.
  [[nodiscard]] std::uint64_t at() const { return at_; }
  /// Goes on behind the next record; true if that is a chosen request.
  bool step();

 private:
  const Writes* writes_;
  const ChosenWrites* chosen_;
  std::uint64_t at_ = 0;
  std::uint64_t points_ = 0;
  std::uint64_t range_deletes_ = 0;
};

/// What the `after` of a family's reads becomes where they are added behind other requests.
/// Owner   as RecordWalk.
/// Threads one owner.
class BytesBefore {
 public:
  /// `own`: the bytes of the family's records that are there. Behind them come those of `added`, or
  /// the chosen ones (null: all). `added` is null if the batch that is added has none.
  BytesBefore(FamilyId family, std::uint64_t own, const Writes* added, const ChosenWrites* chosen);

  /// For a read that came after `after` bytes of `added`.
  /// Shape   `after` never falls from call to call.
  /// Bound   every record of `added` is looked at once, where not all are chosen.
  [[nodiscard]] std::uint64_t of(std::uint64_t after);

 private:
  const std::uint64_t name_bytes_;  // of the record that names the family
  const std::uint64_t own_;
  const std::uint64_t added_bytes_;
  const bool all_;
  RecordWalk walk_;
  std::uint64_t chosen_bytes_ = 0;  // without the name
};

}  // namespace breccia::batch
