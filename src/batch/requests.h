#pragma once

#include <breccia/family.h>
#include <breccia/status.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "record/key_columns.h"
#include "wal/format.h"

namespace breccia::batch {

/// Memory for the values of one thread's share of a batch's results. Blocks stay where they are.
/// Threads one owner.
class ResultArena {
 public:
  /// Never null, not even for no bytes.
  char* allocate(std::uint64_t bytes) {
    if (bytes > room_ || next_ == nullptr) take_block(bytes);
    char* const memory = next_;
    next_ += bytes;
    room_ -= bytes;
    return memory;
  }
  /// Forgets the values; the blocks are used again.
  void clear();

 private:
  struct Block {
    std::unique_ptr<char[]> memory;
    std::uint64_t bytes;
  };
  void take_block(std::uint64_t bytes);

  std::vector<Block> blocks_;
  std::size_t used_ = 0;  // blocks_[0..used_) hold values
  char* next_ = nullptr;
  std::uint64_t room_ = 0;
};

struct ReadResult {
  const char* data;
  std::uint32_t bytes;
  Status::Code code;
};

/// A Status of that code, as RocksDB would return it for a lookup.
[[nodiscard]] Status status_of(Status::Code code);

/// The writes of a batch to one column family: log records and columns.
/// Threads one owner.
class Writes {
 public:
  Writes(FamilyId family, exec::HostMemory& memory)
      : family_(family), records_(memory), keys_(memory), offsets_(memory), numbers_(memory) {}

  /// Errors  false: out of memory; nothing was added.
  [[nodiscard]] bool add(const record::RecordHeader& header, const Slice& key, const Slice& value);
  /// Adds copies of the writes of another batch, to the same family.
  /// Errors  false: out of memory; these writes are of no use any more.
  [[nodiscard]] bool append(const Writes& other);
  void clear();

  [[nodiscard]] FamilyId family() const { return family_; }
  /// The records, one behind the other. Those of a family other than the default one begin with
  /// a record that names it.
  [[nodiscard]] const std::byte* records() const { return records_.data(); }
  [[nodiscard]] std::byte* records() { return records_.data(); }
  [[nodiscard]] std::uint64_t record_bytes() const { return records_.size(); }
  [[nodiscard]] std::uint32_t record_count() const { return record_count_; }
  /// Keys of the point operations, and of each its record's offset in records() | its operation.
  [[nodiscard]] record::KeyColumnsRef keys() const { return keys_.ref(); }
  [[nodiscard]] const std::uint64_t* offsets() const { return offsets_.data(); }
  [[nodiscard]] std::uint64_t point_count() const { return keys_.count(); }
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

  /// Exchanges numbers() for others, one for each point operation; set_operation does the rest.
  /// Shape   only_numbers().
  void swap_numbers(exec::HostVector<std::uint64_t>* numbers);
  /// Makes point operation `i` an `op` of its number, in the place of a value of 8 bytes.
  /// Threads any number, of different operations.
  void set_operation(std::uint64_t i, record::Op op);
  /// To be called when set_operation has changed how many merges there are.
  void set_merges(std::uint64_t merges) { merges_ = merges; }

  /// Where records() begin among the records of the whole batch; set by Requests::lay_out.
  [[nodiscard]] std::uint64_t base() const { return base_; }

 private:
  friend class Requests;
  /// Shape   there is room.
  void add_record(const record::RecordHeader& header, const Slice& key, const Slice& value);
  void add_number(record::Op op, const Slice& value);

  const FamilyId family_;
  exec::HostVector<std::byte> records_;
  record::KeyColumns keys_;
  exec::HostVector<std::uint64_t> offsets_;
  exec::HostVector<std::uint64_t> numbers_;
  std::uint32_t record_count_ = 0;
  std::vector<std::uint64_t> range_deletes_;
  std::uint64_t merges_ = 0;
  std::uint64_t deletes_ = 0;
  bool only_numbers_ = true;
  std::uint64_t base_ = 0;
};

/// The lookups of a batch in one column family, and their results.
/// Threads one owner; results of different reads may be written by several threads.
class Reads {
 public:
  Reads(FamilyId family, exec::HostMemory& memory)
      : family_(family),
        keys_(memory),
        after_(memory),
        found_(memory),
        numbers_(memory),
        bounds_(memory),
        results_(memory) {}

  /// `after`: bytes of the family's records that came before the lookup in the batch.
  /// Errors  false: out of memory; nothing was added.
  [[nodiscard]] bool add(const Slice& key, std::uint64_t after);
  /// Adds the lookups of another batch behind `before` bytes of the family's records; of that
  /// batch's own records the first `skip` bytes are not there then.
  /// Errors  as Writes::append.
  [[nodiscard]] bool append(const Reads& other, std::uint64_t before, std::uint64_t skip);
  /// Copies the results of the next lookups that were appended to those that they came from.
  void hand_over(Reads* to);
  void clear();
  /// Makes room for the results; every one of them must then be written. False: out of memory.
  [[nodiscard]] bool prepare(bool with_bounds);

  [[nodiscard]] FamilyId family() const { return family_; }
  [[nodiscard]] std::uint64_t count() const { return keys_.count(); }
  [[nodiscard]] record::KeyColumnsRef keys() const { return keys_.ref(); }
  [[nodiscard]] const std::uint64_t* after() const { return after_.data(); }
  /// Room for every read's payload, as a search wants it.
  [[nodiscard]] std::uint64_t* found() { return found_.data(); }
  /// Room for every read's value of 8 bytes; null: out of memory.
  [[nodiscard]] std::uint64_t* make_numbers();
  /// Bounds of the reads, filled by the engine.
  [[nodiscard]] std::uint64_t* bounds() { return bounds_.data(); }
  [[nodiscard]] ReadResult* results() { return results_.data(); }
  [[nodiscard]] const ReadResult* results() const { return results_.data(); }
  [[nodiscard]] std::uint64_t result_count() const { return results_.size(); }

 private:
  const FamilyId family_;
  record::KeyColumns keys_;
  exec::HostVector<std::uint64_t> after_;
  exec::HostVector<std::uint64_t> found_;
  exec::HostVector<std::uint64_t> numbers_;
  exec::HostVector<std::uint64_t> bounds_;
  exec::HostVector<ReadResult> results_;
  std::uint64_t handed_over_ = 0;
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
[[nodiscard]] std::pair<Slice, Slice> range_entry(const RangeResult& range, std::uint64_t j);

/// The range requests of a batch in one column family, and their results.
/// Threads one owner; results of different ranges may be written by several threads.
class Ranges {
 public:
  Ranges(FamilyId family, exec::HostMemory& memory)
      : family_(family),
        begin_(memory),
        end_(memory),
        limits_(memory),
        after_(memory),
        bounds_(memory),
        results_(memory),
        memory_(memory) {}

  /// `after` as for Reads.
  /// Errors  false: out of memory; nothing was added.
  [[nodiscard]] bool add(const Slice& begin, const Slice& end, std::uint32_t limit,
                         std::uint64_t after);
  /// As those of Reads.
  [[nodiscard]] bool append(const Ranges& other, std::uint64_t before, std::uint64_t skip);
  void hand_over(Ranges* to);
  void clear();
  /// As Reads::prepare.
  [[nodiscard]] bool prepare(bool with_bounds);

  [[nodiscard]] FamilyId family() const { return family_; }
  [[nodiscard]] std::uint64_t count() const { return limits_.size(); }
  [[nodiscard]] record::KeyColumnsRef begin() const { return begin_.ref(); }
  [[nodiscard]] record::KeyColumnsRef end() const { return end_.ref(); }
  [[nodiscard]] const std::uint32_t* limits() const { return limits_.data(); }
  /// What a walk costs for each run beyond the first, in lookups: of a range one to find its begin,
  /// and one for every kEntriesPerProbe entries that may lie in it.
  [[nodiscard]] std::uint64_t probes() const { return probes_; }
  [[nodiscard]] const std::uint64_t* after() const { return after_.data(); }
  [[nodiscard]] std::uint64_t* bounds() { return bounds_.data(); }
  /// Room for `count` more pairs of results, until the next prepare or clear; null: out of memory.
  [[nodiscard]] std::uint64_t* make_pairs(std::uint64_t count);
  [[nodiscard]] RangeResult* results() { return results_.data(); }
  [[nodiscard]] const RangeResult* results() const { return results_.data(); }
  [[nodiscard]] std::uint64_t result_count() const { return results_.size(); }

 private:
  const FamilyId family_;
  record::KeyColumns begin_;
  record::KeyColumns end_;
  static constexpr std::uint64_t kEntriesPerProbe = 8;

  exec::HostVector<std::uint32_t> limits_;
  std::uint64_t probes_ = 0;
  exec::HostVector<std::uint64_t> after_;
  exec::HostVector<std::uint64_t> bounds_;
  exec::HostVector<RangeResult> results_;
  std::uint64_t handed_over_ = 0;
  exec::HostMemory& memory_;
  std::deque<exec::HostVector<std::uint64_t>> pairs_;
};

/// A batch as the engine sees it.
/// Threads one owner; during a submit, the engine.
class Requests {
 public:
  /// `memory` lives at least as long as the requests.
  explicit Requests(std::shared_ptr<exec::HostMemory> memory);

  /// Errors  InvalidArgument: over a limit, or a range that ends before it begins; MemoryLimit.
  ///         Nothing was added.
  Status add_write(record::Op op, FamilyId family, const Slice& key, const Slice& value);
  Status add_read(FamilyId family, const Slice& key);
  Status add_range(FamilyId family, const Slice& begin, const Slice& end, std::uint32_t limit);
  /// Adds all requests of another batch behind those that are here, as if each had been added.
  /// What was put together so is for the engine: result() and range_result() do not know it.
  /// Errors  false: out of memory; these requests are of no use any more.
  [[nodiscard]] bool append(const Requests& other);
  /// Copies to one of the batches that were appended its results, which lie in this one's memory.
  /// Shape   called for each of them in the order of append(), after its prepare_results().
  void hand_over(Requests* to);
  void clear();

  /// The writes by family; families without any may be among them.
  [[nodiscard]] const std::vector<std::unique_ptr<Writes>>& writes() const { return writes_; }
  [[nodiscard]] const std::vector<std::unique_ptr<Reads>>& reads() const { return reads_; }
  [[nodiscard]] const std::vector<std::unique_ptr<Ranges>>& ranges() const { return ranges_; }

  [[nodiscard]] std::uint64_t write_count() const { return write_count_; }
  [[nodiscard]] std::uint64_t read_count() const { return reads_at_.count; }
  [[nodiscard]] std::uint64_t range_count() const { return ranges_at_.count; }
  [[nodiscard]] std::uint64_t record_bytes() const { return record_bytes_; }
  [[nodiscard]] std::uint32_t record_count() const;
  /// True if every record is a point operation or names a family: the frame may hold descriptors.
  [[nodiscard]] bool only_points() const;

  /// True if there is anything but point operations of the default family.
  [[nodiscard]] bool is_mixed() const;

  /// Gives each family's records their place in the frame, the default family's first, and makes
  /// room for flat_records(). False: out of memory.
  [[nodiscard]] bool lay_out();
  /// All records, one behind the other, as they are now; after lay_out().
  [[nodiscard]] const std::byte* flat_records();
  /// Where the records of `family` begin in the frame, after lay_out(); 0 if it has none.
  [[nodiscard]] std::uint64_t base_of(FamilyId family) const;

  /// Makes room for the results of all reads gathered by `parts` threads. False: out of memory.
  [[nodiscard]] bool prepare_results(std::size_t parts, bool with_bounds);
  [[nodiscard]] std::size_t arena_count() const { return arenas_.size(); }
  [[nodiscard]] ResultArena& arena(std::size_t part) { return *arenas_[part]; }
  /// The result of read `i` in arrival order over all families.
  [[nodiscard]] const ReadResult& result(std::uint64_t i) const;
  [[nodiscard]] const RangeResult& range_result(std::uint64_t i) const;
  /// Results that there are, of reads and of ranges: 0 before the batch was submitted.
  [[nodiscard]] std::uint64_t result_count() const;
  [[nodiscard]] std::uint64_t range_result_count() const;
  /// How many of the reads needed the tree below.
  [[nodiscard]] std::uint64_t from_tree() const { return from_tree_.load(); }
  /// Threads any.
  void note_from_tree(std::uint64_t reads) { from_tree_ += reads; }
  /// Keeps what results point to until the next submit or clear().
  void hold(std::shared_ptr<const void> memory) { held_ = std::move(memory); }

 private:
  /// Where requests of one kind, in arrival order, lie among the parts of their families.
  struct Places {
    std::uint64_t count = 0;
    /// Index of the part, and place in it; empty while all are of one family.
    std::vector<std::pair<std::uint32_t, std::uint32_t>> at;

    void reserve_one(std::size_t parts);
    void add(std::size_t parts, std::size_t part, std::uint64_t place);
    [[nodiscard]] std::pair<std::uint32_t, std::uint64_t> of(std::uint64_t i) const;
    void clear();
  };

  [[nodiscard]] std::uint64_t record_bytes_of(FamilyId family) const;
  [[nodiscard]] bool full(std::uint64_t more_bytes) const;
  /// The writes if they are all of one family, else null.
  [[nodiscard]] const Writes* only_writes() const;

  std::shared_ptr<exec::HostMemory> memory_;  // first: the arrays give their memory back to it
  std::vector<std::unique_ptr<Writes>> writes_;
  Writes* last_writes_ = nullptr;  // those that the last write went to
  std::vector<std::unique_ptr<Reads>> reads_;
  std::vector<std::unique_ptr<Ranges>> ranges_;
  std::uint64_t write_count_ = 0;
  std::uint64_t record_bytes_ = 0;
  exec::HostVector<std::byte> flat_;  // the records of several families
  Places reads_at_;
  Places ranges_at_;
  std::shared_ptr<const void> held_;
  std::atomic<std::uint64_t> from_tree_{0};
  std::vector<std::unique_ptr<ResultArena>> arenas_;
};

/// Requests of the calling thread's own, empty: their memory is used again, and no request outlives
/// the call that adds it.
[[nodiscard]] Requests& thread_requests();

}  // namespace breccia::batch
