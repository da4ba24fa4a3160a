#pragma once

#include <breccia/family.h>
#include <breccia/status.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/limits.h"
#include "batch/device_columns.h"
#include "batch/ranges.h"
#include "batch/reads.h"
#include "batch/results.h"
#include "batch/selection.h"
#include "batch/writes.h"

/// A batch: per column family three parts, each of columns that a submit handles as a whole.
///
/// What comes as arrays (columns.h) makes the same columns, in one pass.
///
///   Writes   records: name? record record ...      as they stand in the log, 8-byte aligned
///            keys, offsets, numbers                one of each for every point operation
///            range_deletes                         offsets of the other records
///   Reads    keys, after; results                  one of each for every lookup
///   Ranges   begin, end, limits, after; results    one of each for every range
///
/// `after` is the number of the family's record bytes that came before: it orders reads among
/// writes. Requests::Places says which lookup of the batch is which of whose. A result points to
/// memory that others hold: a value in one of the batch's arenas, in its numbers or in the log,
/// entries of a range in the log or in its pairs, or any in another batch's (Requests::hold).
///
/// Batches are joined and divided by copying requests behind those of another one, all or the
/// chosen ones, and by handing the results back in the same order (append, hand_over).

namespace breccia::batch {

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
  /// The same for all requests of columns: all are added, or none.
  /// Shape   `op` is a point operation; of deletions the values are of no bytes. limits[begins], or
  ///         limits[1] for all. `into` without `found`: results go to the batch.
  /// Errors  InvalidArgument also where columns differ in their counts, or offsets fall, or values
  ///         in `into` would overlap.
  Status add_writes(record::Op op, FamilyId family, const BytesColumn& keys,
                    const BytesColumn& values);
  Status add_reads(FamilyId family, const BytesColumn& keys, const ValueArray& into);
  Status add_ranges(FamilyId family, const BytesColumn& begins, const BytesColumn& ends,
                    std::span<const std::uint32_t> limits);
  /// Adds all requests of another batch behind those that are here, as if each had been added.
  /// What was put together so is for the engine: result() and range_result() do not know it.
  /// Shape   what comes together is within the limits of a batch.
  /// Errors  false, std::bad_alloc: out of memory; these requests are of no use any more.
  [[nodiscard]] bool append(const Requests& other) { return join(other, nullptr); }
  /// The same for the chosen ones.
  [[nodiscard]] bool append(const Requests& other, const Selection& chosen) {
    return join(other, &chosen);
  }
  /// Copies to one of the batches that were appended its results, which lie in this one's memory:
  /// whoever wants them keeps that, too (hold).
  /// Shape   called for each of them in the order of append(), after prepare_results() of both.
  void hand_over(Requests* to) { give_results(to, nullptr); }
  /// The same for the chosen ones; the others' results are as they were.
  void hand_over(Requests* to, const Selection& chosen) { give_results(to, &chosen); }
  /// Whether values of lookups may stay in the log (Batch::SetValuesInPlace); clear() keeps it.
  void set_values_in_place(bool in_place) { values_in_place_ = in_place; }
  [[nodiscard]] bool values_in_place() const { return values_in_place_; }
  /// Whether records of writes and keys of lookups that come as columns may be made when they are
  /// asked for (Batch::SetColumnsInPlace); clear() keeps it.
  void set_columns_in_place(bool in_place) { columns_in_place_ = in_place; }
  /// A selection of these requests in which none is chosen.
  [[nodiscard]] Selection none_chosen() const;
  void clear();

  /// The writes by family; families without any may be among them.
  [[nodiscard]] const std::vector<std::unique_ptr<Writes>>& writes() const { return writes_; }
  [[nodiscard]] const std::vector<std::unique_ptr<Reads>>& reads() const {
    settle();
    return reads_;
  }
  [[nodiscard]] const std::vector<std::unique_ptr<Ranges>>& ranges() const { return ranges_; }

  [[nodiscard]] std::uint64_t write_count() const { return write_count_; }
  [[nodiscard]] std::uint64_t read_count() const {
    return reads_at_.count + (row_.begun - row_.reads.keys.left);
  }
  [[nodiscard]] std::uint64_t range_count() const { return ranges_at_.count; }
  [[nodiscard]] std::uint64_t record_bytes() const { return record_bytes_; }
  [[nodiscard]] std::uint32_t record_count() const;
  /// True if every record is a point operation or names a family: the frame may hold descriptors.
  [[nodiscard]] bool only_points() const;

  /// True if there is anything but point operations of the default family.
  [[nodiscard]] bool is_mixed() const;

  /// Gives each family's records their place in the frame, the default family's first.
  void lay_out();
  /// Bytes [begin, end) of all records, one behind the other, as they are now: where they lie, or
  /// in `room`, if they had to be brought together.
  /// Shape   after lay_out(); room[end - begin].
  /// Threads any number.
  [[nodiscard]] const std::byte* bytes(std::uint64_t begin, std::uint64_t end,
                                       std::byte* room) const;
  /// Where the records of `family` begin in the frame, after lay_out(); 0 if it has none.
  [[nodiscard]] std::uint64_t base_of(FamilyId family) const;

  /// Makes room for the results of all reads gathered by `parts` threads. False: out of memory.
  [[nodiscard]] bool prepare_results(std::size_t parts, bool with_bounds);
  [[nodiscard]] std::size_t arena_count() const { return arenas_.size(); }
  [[nodiscard]] ResultArena& arena(std::size_t part) { return *arenas_[part]; }
  /// The result of read `i` in arrival order over all families.
  /// Shape   i below what there is of them, and the batch was submitted.
  [[nodiscard]] ReadResult result(std::uint64_t i) const {
    const auto [part, place] = reads_at_.of(i);
    BRECCIA_ASSERT(part < reads_.size());
    return reads_[part]->result(place);
  }
  [[nodiscard]] const RangeResult& range_result(std::uint64_t i) const {
    const auto [part, place] = ranges_at_.of(i);
    BRECCIA_ASSERT(part < ranges_.size() && place < ranges_[part]->result_count());
    return std::as_const(*ranges_[part]).results()[place];
  }
  /// Results that there are, of reads and of ranges: 0 before the batch was submitted.
  [[nodiscard]] std::uint64_t result_count() const;
  [[nodiscard]] std::uint64_t range_result_count() const;
  /// Sends values of lookups to arrays on a device; once all reads have their results.
  void deliver() { on_device_.deliver(); }
  /// How many of the reads needed the tree below.
  [[nodiscard]] std::uint64_t from_tree() const { return from_tree_.load(); }
  /// Threads any.
  void note_from_tree(std::uint64_t reads) { from_tree_ += reads; }
  /// Keeps what results point to until the next submit or clear(). There is one such memory: parts
  /// of a batch are kept together, as members of what is given here.
  void hold(std::shared_ptr<const void> memory) { held_ = std::move(memory); }

 private:
  /// Where requests of one kind, in arrival order, lie among the parts of their families.
  struct Places {
    std::uint64_t count = 0;
    /// Index of the part, and place in it; empty while all are of one family.
    std::vector<std::pair<std::uint32_t, std::uint32_t>> at;

    /// Room for what the next add() does.
    void reserve(std::size_t parts, std::uint64_t more) {
      if (parts > 1 && at.capacity() < count + more) {
        at.reserve(std::max<std::size_t>({2 * count, count + more, 8}));
      }
    }
    /// Adds requests that lie from `place` on.
    void add(std::size_t parts, std::size_t part, std::uint64_t place, std::uint64_t more) {
      BRECCIA_ASSERT(part < parts && place <= count);
      if (parts > 1) add_at(part, place, more);
      count += more;
      BRECCIA_ASSERT(at.empty() ? parts == 1 : at.size() == count);
    }
    [[nodiscard]] std::pair<std::uint32_t, std::uint64_t> of(std::uint64_t i) const {
      BRECCIA_ASSERT(i < count);
      if (at.empty()) return {0, i};
      return at[i];
    }
    void clear();

   private:
    void add_at(std::size_t part, std::uint64_t place, std::uint64_t more);
  };

  /// Lookups that are written where they come to stand, and counted when somebody asks for them.
  /// Writes may come between them.
  struct Row {
    FamilyId family = kDefaultFamily;
    Reads::Row reads;
    const Writes* writes = nullptr;  // of the family, if there are any
    std::uint64_t begun = 0;         // what there was room for at first; 0: there is no row
  };

  /// add_write(), add_read() of any other than most are.
  Status add_another_write(record::Op op, FamilyId family, const Slice& key, const Slice& value);
  Status add_another_read(FamilyId family, const Slice& key);
  void open_row();
  /// Counts the lookups of the row and closes it.
  void settle() const;
  Status add_host_writes(record::Op op, FamilyId family, const BytesColumn& keys,
                         const BytesColumn& values);
  Status add_host_reads(FamilyId family, const BytesColumn& keys, const ValueArray& into);
  Status add_host_ranges(FamilyId family, const BytesColumn& begins, const BytesColumn& ends,
                         std::span<const std::uint32_t> limits);
  [[nodiscard]] bool join(const Requests& other, const Selection* chosen);
  void give_results(Requests* to, const Selection* chosen);
  /// What becomes of the reads of `other` in `family` behind what is here.
  [[nodiscard]] BytesBefore bytes_before(FamilyId family, const Requests& other,
                                         const Selection* chosen) const;
  /// Index of the family's part in writes_; their count if there is none.
  [[nodiscard]] std::size_t writes_of(FamilyId family) const;
  [[nodiscard]] std::uint64_t record_bytes_of(FamilyId family) const {
    if (last_writes_ != nullptr && last_writes_->family() == family) {
      return last_writes_->record_bytes();
    }
    const std::size_t part = writes_.empty() ? 0 : writes_of(family);
    return part == writes_.size() ? 0 : writes_[part]->record_bytes();
  }
  /// The family's part, which is made if it is not there.
  [[nodiscard]] Writes& writes_to(FamilyId family);
  /// Counts the single requests before which nothing but their sizes must be looked at.
  void count_easy() {
    constexpr std::uint64_t kAtOnce = 4096;
    BRECCIA_ASSERT(write_count_ + read_count() + range_count() <= limits::kBatchRequestsMax);
    easy_ =
        std::min(kAtOnce, limits::kBatchRequestsMax - write_count_ - read_count() - range_count());
  }
  /// True if there is no room for more requests, of any kind.
  [[nodiscard]] bool too_many(std::uint64_t more) const {
    const std::uint64_t count = write_count_ + read_count() + range_count();
    BRECCIA_ASSERT(count <= limits::kBatchRequestsMax);
    return more > limits::kBatchRequestsMax - count;
  }
  /// True if there is no room for more requests, `more_writes` of them writes of so many bytes.
  [[nodiscard]] bool full(std::uint64_t more, std::uint64_t more_writes,
                          std::uint64_t more_bytes) const {
    BRECCIA_ASSERT(record_bytes_ <= limits::kFrameBytesMax);
    if (too_many(more)) return true;
    // Room in the frame for its header, alignment, descriptors, family names and commit record.
    constexpr std::uint64_t kFrameSlack = 1024;
    const std::uint64_t families = 16 * (writes_.size() + 1);
    return record_bytes_ + more_bytes + 4 * (write_count_ + more_writes) + families + kFrameSlack >
           limits::kFrameBytesMax;
  }
  std::shared_ptr<exec::HostMemory> memory_;  // first: the arrays give their memory back to it
  DeviceColumns on_device_;
  std::vector<std::unique_ptr<Writes>> writes_;
  Writes* last_writes_ = nullptr;  // those that the last write went to
  std::vector<std::unique_ptr<Reads>> reads_;
  std::vector<std::unique_ptr<Ranges>> ranges_;
  std::uint64_t write_count_ = 0;
  std::uint64_t record_bytes_ = 0;
  std::uint64_t easy_ = 0;  // see count_easy()
  mutable Row row_;
  mutable Places reads_at_;
  Places ranges_at_;
  std::shared_ptr<const void> held_;
  bool values_in_place_ = false;
  bool columns_in_place_ = false;
  std::atomic<std::uint64_t> from_tree_{0};
  std::vector<std::unique_ptr<ResultArena>> arenas_;
};

/// Requests of the calling thread's own, empty: their memory is used again, and no request outlives
/// the call that adds it.
[[nodiscard]] Requests& thread_requests();

}  // namespace breccia::batch
