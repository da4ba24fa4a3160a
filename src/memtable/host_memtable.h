#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/random.h"
#include "record/entry_columns.h"
#include "wal/segment_table.h"

namespace breccia::memtable {

/// The memtable of the CPU path: a skip list of log records, every version of every key.
/// Order: key ascending, then position descending. Keys and values lie in the log; a node holds the
/// key's first word, so that most comparisons stay in the node.
///
/// Threads one inserter at a time, any number of readers beside it. A reader that starts after an
///         insert returned sees its entry.
/// Source  skip list: Pugh 1990, with p = 1/4 and towers of at most 12. Readers take no locks, as
///         nodes are published by release stores and never removed.
class HostMemtable {
 private:
  struct Node;
  static constexpr int kHeightMax = 12;

 public:
  HostMemtable();
  ~HostMemtable();
  HostMemtable(const HostMemtable&) = delete;
  HostMemtable& operator=(const HostMemtable&) = delete;

  /// Adds the record at `record`, which lies at `position` in `segment`.
  void insert(const std::byte* record, std::uint64_t position, const wal::SegmentPtr& segment) {
    insert_at(find_place(record, position), record, position, segment);
  }

  /// Where an entry will stand: on each level the last node before it when it was looked for. That
  /// stays before it, as no node is removed; others may come between.
  class Place {
    friend class HostMemtable;
    Node* before_[kHeightMax];
    int height_;  // levels that were looked at
  };
  /// The place of the record at `record`, which lies at `position` and is not there yet.
  /// Threads any number, beside an inserter.
  [[nodiscard]] Place find_place(const std::byte* record, std::uint64_t position) const;
  /// insert() where the place was looked for before. Looks again if much has come between.
  /// Shape   `place` of this memtable, for this record.
  void insert_at(const Place& place, const std::byte* record, std::uint64_t position,
                 const wal::SegmentPtr& segment);

  /// The newest version of `key` below position `bound`.
  struct Hit {
    const std::byte* record;  // null if there is none
    std::uint64_t payload;    // position | operation
  };
  [[nodiscard]] Hit find(const Slice& key, std::uint64_t bound) const;

  /// A walk over the entries in memtable order. Entries that are inserted meanwhile may be met.
  /// Threads one owner; beside an inserter.
  class Cursor {
   public:
    explicit Cursor(const HostMemtable& memtable) : memtable_(&memtable) {}
    [[nodiscard]] bool valid() const { return node_ != nullptr; }
    /// Shape   valid().
    [[nodiscard]] Slice key() const;
    [[nodiscard]] std::uint64_t payload() const;
    /// To the first entry of `key` whose payload is below `bound`, or what comes behind it.
    void seek(const Slice& key, std::uint64_t bound);
    void seek_to_first();
    void seek_to_last();
    void next();
    /// Cost    one walk from the top.
    void prev();

   private:
    const HostMemtable* memtable_;
    const Node* node_ = nullptr;
  };

  /// True if there are merge operands in it. Not while somebody inserts.
  [[nodiscard]] bool has_merges() const { return has_merges_; }
  [[nodiscard]] std::uint64_t count() const { return count_.load(std::memory_order_acquire); }

  /// Adds all entries in run order to `columns`. Not while somebody inserts.
  /// Errors  false: out of memory.
  [[nodiscard]] bool export_to(record::EntryColumns* columns) const;

 private:
  class Arena;

  [[nodiscard]] static bool sorts_before(const Node* node, std::uint64_t head, const Slice& key,
                                         std::uint64_t payload);
  [[nodiscard]] Node* first_not_before(std::uint64_t head, const Slice& key, std::uint64_t payload,
                                       Node** before) const;
  [[nodiscard]] bool catch_up(const Place& place, int height, std::uint64_t head, const Slice& key,
                              std::uint64_t payload, Node** before) const;
  [[nodiscard]] bool is_between(const Node* before, std::uint64_t head, const Slice& key,
                                std::uint64_t payload, const Node* behind) const;
  [[nodiscard]] const Node* last_before(const Slice& key, std::uint64_t payload) const;
  [[nodiscard]] int random_height();

  std::unique_ptr<Arena> arena_;
  Node* root_;
  std::atomic<int> height_{1};
  std::atomic<std::uint64_t> count_{0};
  bool has_merges_ = false;
  base::Random random_;
  std::vector<wal::SegmentPtr> segments_;  // keep the records alive
};

}  // namespace breccia::memtable
