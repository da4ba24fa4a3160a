#pragma once

#include <breccia/family.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/assert.h"
#include "cache/key_filter.h"
#include "cache/miss_meter.h"
#include "exec/host_vector.h"
#include "memtable/host_memtable.h"
#include "memtable/tombstones.h"
#include "ordered/order_index.h"
#include "residency/file_set.h"
#include "runs/backend.h"
#include "tree/tree_state.h"
#include "wal/format.h"
#include "wal/segment_table.h"

namespace breccia::batch {
class Requests;
}

namespace rocksdb {
class ColumnFamilyHandle;
class MergeOperator;
}  // namespace rocksdb

namespace breccia::ordered {

/// A run's payloads in run order, in memory that its device writes at full speed.
using Payloads = exec::HostVector<std::uint64_t>;
using PayloadsPtr = std::shared_ptr<const Payloads>;

/// Entries in run order as the host reads them: the columns of a run in its own memory; a batch's
/// descriptors, which lie in the log (its records begin at `records`); or payloads.
struct Order {
  runs::RunPtr columns = nullptr;  // its host_view() is not null; or null, as the next ones
  const std::uint32_t* descriptors = nullptr;
  std::uint64_t records = 0;
  PayloadsPtr payloads = nullptr;
  std::shared_ptr<IndexPlace> index = nullptr;  // copies of an order share it; null without keys

  std::uint64_t count = 0;
  std::uint64_t begin = 0;  // positions of all entries lie in [begin, end)
  std::uint64_t end = 0;

  /// Null if the host reads keys from the log.
  [[nodiscard]] const runs::RunRef* host_view() const {
    return columns == nullptr ? nullptr : columns->host_view();
  }
  /// Payload of entry `i` in run order.
  [[nodiscard]] std::uint64_t payload_at(std::uint64_t i, const wal::SegmentTable& table) const {
    if (const runs::RunRef* const view = host_view()) return view->payload[i];
    if (payloads != nullptr) return (*payloads)[i];
    const std::uint64_t position = position_at(i);
    return position | static_cast<std::uint64_t>(record::record_header(table.at(position)).op());
  }
  /// Log position of entry `i` in run order.
  [[nodiscard]] std::uint64_t position_at(std::uint64_t i) const {
    if (const runs::RunRef* const view = host_view()) return record::position_of(view->payload[i]);
    return descriptors != nullptr ? records + std::uint64_t{descriptors[i]} * 8
                                  : record::position_of((*payloads)[i]);
  }
  /// True if searches have paid for an index that is not there.
  [[nodiscard]] bool index_is_due() const { return index != nullptr && index->is_due(); }
  /// Payloads or descriptors as bytes, `entry_bytes()` each.
  [[nodiscard]] const char* entries() const {
    if (const runs::RunRef* const view = host_view()) {
      return reinterpret_cast<const char*>(view->payload);
    }
    return descriptors != nullptr ? reinterpret_cast<const char*>(descriptors)
                                  : reinterpret_cast<const char*>(payloads->data());
  }
  [[nodiscard]] std::uint64_t entry_bytes() const {
    return descriptors != nullptr ? sizeof *descriptors : sizeof(std::uint64_t);
  }
};

/// A run of log records in a backend's memory, and what the host has of it.
struct MemRun {
  runs::RunPtr run;
  std::uint64_t begin = 0;  // positions of all entries lie in [begin, end)
  std::uint64_t end = 0;
  /// FamilyView::searches when the oldest part of the run was published: what is counted since has
  /// looked at this run and at the next older one.
  std::uint64_t searches = 0;

  /// The same for the host, newest first, position ranges disjoint. Of a run that a device merged
  /// these are the orders of what it was merged from, older versions and all, until somebody reads
  /// its own.
  std::vector<Order> orders;

  /// True if it may hold merge operands: a key's newest version may then need those below it.
  bool has_merges = false;

  /// Makes `order` the run's only one, with its count and positions.
  void set_order(Order order) {
    order.count = run->count();
    order.begin = begin;
    order.end = end;
    if (order.index == nullptr) order.index = std::make_shared<IndexPlace>();
    orders.clear();
    orders.push_back(std::move(order));
  }
};
using MemRunPtr = std::shared_ptr<const MemRun>;

/// True if the position ranges of `newest_first` are disjoint, and descend.
[[nodiscard]] bool are_newest_first(const std::vector<MemRunPtr>& newest_first);

/// What one column family holds in memory. Immutable but for the active memtable's growth, which
/// position bounds hide.
struct FamilyView {
  FamilyId id = kDefaultFamily;
  bool dropped = false;  // readable while somebody holds it; takes no writes
  std::shared_ptr<memtable::HostMemtable> active;  // newer than every run
  std::vector<MemRunPtr> runs;                     // newest first, position ranges disjoint
  /// Runs that were flushed and are kept all the same (background/clean_runs.h): the newest version
  /// of each key, no merge operands. Newest first, older than all of `runs`.
  std::vector<MemRunPtr> clean;
  /// Whatever was written from here on is in memory: where the next older clean run would end.
  std::uint64_t clean_from = 0;
  /// What of the log could be clean runs, at most clean_from (tree::LogPart). The log may have
  /// released some of it.
  std::uint64_t log_from = 0;
  bool log_has_all = false;
  std::vector<runs::RunPtr> backend_runs;  // runs and clean, as a search takes them
  bool has_values = true;                  // all runs have
  std::size_t orders = 0;                  // of all runs: what one key's search looks at
  std::uint64_t runs_end = 0;              // where the next run's position range begins
  /// Lookups and walked entries of `runs` so far, of all views of the family.
  std::shared_ptr<std::atomic<std::uint64_t>> searches =
      std::make_shared<std::atomic<std::uint64_t>>(0);
  memtable::TombstonesPtr tombstones;  // range deletions, null if there are none

  std::shared_ptr<rocksdb::ColumnFamilyHandle> tree;  // the family below
  bool tree_has_data = false;
  bool clean_has_all = false;   // whatever the tree has, a clean run has, too
  bool tree_is_cached = false;  // what it holds changes by flushes and refreshes alone
  /// Holds every key that the tree has in the view's state of it (tree_filters.h); null: unknown.
  std::shared_ptr<const cache::KeyFilter> filter;
  std::shared_ptr<cache::MissMeter> misses;  // null where nobody would build a filter
  /// What the files of the tree say in the view's state of it; null: RocksDB alone is asked.
  residency::FileSetPtr files;
  /// What they said when what lies below `older_until` was flushed, and nothing behind it: of keys
  /// that no clean run has the tree says the same, if these reach down to there. Null where there
  /// are `files`.
  residency::FileSetPtr older_files;
  std::uint64_t older_until = 0;
  /// How often what the tree says has changed: of two views with the same number files may change.
  std::uint64_t tree_changes = 0;
  std::shared_ptr<rocksdb::MergeOperator> merge_operator;  // null if the user gave none

  /// True if lookups that memory does not answer must go to the tree.
  [[nodiscard]] bool asks_tree() const { return tree_has_data && !clean_has_all; }
  /// True if lookups find nothing but in the tree.
  [[nodiscard]] bool memory_is_empty() const {
    return backend_runs.empty() && active->count() == 0 && tombstones == nullptr;
  }
  /// The family as the view's tree takes it.
  [[nodiscard]] tree::FamilyRef in_tree() const {
    return {id, tree.get(), asks_tree(), tree_is_cached, filter.get(), misses.get(), files.get()};
  }
  /// The same for keys that neither memory nor a clean run has.
  [[nodiscard]] tree::FamilyRef below_memory() const {
    tree::FamilyRef tree = in_tree();
    if (tree.files == nullptr && clean_from <= older_until) tree.files = older_files.get();
    return tree;
  }
  /// The tree says something else than before: its files are to be listed anew.
  void note_tree_change() {
    set_files(nullptr);
    ++tree_changes;
  }
  /// The same behind a flush, where it is known what clean runs hold; it was flushed up to
  /// `flushed` before. What files said, if all was known, goes on to serve below these where the
  /// host has their keys. (Beside a device a store waits for the disk, whose room files that went
  /// would keep.)
  void note_flush(std::uint64_t flushed) {
    if (files != nullptr) {
      older_files = files->is_whole() && files->host_reads() ? std::move(files) : nullptr;
      older_until = flushed;
    }
    files = nullptr;
    ++tree_changes;
    drop_older_files();
  }
  void set_files(residency::FileSetPtr now) {
    files = std::move(now);
    older_files = nullptr;
  }
  [[nodiscard]] FamilyView without_clean() const {
    FamilyView alone = *this;
    alone.set_clean({}, /*has_all=*/false);
    alone.older_files = nullptr;  // below these alone it is right
    return alone;
  }
  /// Clean runs with what `older_files` do not know, the newest ones.
  [[nodiscard]] std::size_t clean_unknown() const {
    if (older_files == nullptr) return 0;
    return static_cast<std::size_t>(std::count_if(
        clean.begin(), clean.end(), [&](const MemRunPtr& run) { return run->end > older_until; }));
  }
  /// Behind what lets go of clean runs, or adds to them.
  void drop_older_files() {
    if (clean_from > older_until || !asks_tree()) older_files = nullptr;
  }
  void set_runs(std::vector<MemRunPtr> newest_first) {
    BRECCIA_INVARIANT(are_newest_first(newest_first));
    runs = std::move(newest_first);
    list_runs();
  }
  /// Lets go of all that is clean: nothing below `from` says any more what the tree says.
  void forget_clean(std::uint64_t from) {
    set_clean({}, /*has_all=*/false);
    clean_from = log_from = from;
    log_has_all = false;
    drop_older_files();
  }
  /// `has_all`: as clean_has_all.
  void set_clean(std::vector<MemRunPtr> newest_first, bool has_all) {
    BRECCIA_INVARIANT(are_newest_first(newest_first));
    clean = std::move(newest_first);
    clean_has_all = has_all;
    list_runs();
  }
  /// Calls `look` with each run, newest first, until it says true; true if it did.
  template <class Look>
  bool any_run(const Look& look) const {
    return std::any_of(runs.begin(), runs.end(), look) ||
           std::any_of(clean.begin(), clean.end(), look);
  }
  /// The position of the newest range deletion below `bound` that covers `key`, or 0.
  [[nodiscard]] std::uint64_t covering(const Slice& key, std::uint64_t bound) const {
    return tombstones == nullptr ? 0 : tombstones->covering(key, bound);
  }

 private:
  void list_runs() {
    backend_runs.clear();
    has_values = true;
    orders = 0;
    any_run([&](const MemRunPtr& run) {
      backend_runs.push_back(run->run);
      orders += run->orders.size();
      has_values = has_values && run->run->has_values();
      return false;
    });
  }
};
using FamilyViewPtr = std::shared_ptr<const FamilyView>;

/// What readers see between two changes. Holding a view keeps everything it can reach in place.
struct View {
  std::vector<FamilyViewPtr> families;  // by ascending id; the default family is always there
  wal::SegmentTablePtr table;
  /// Position below which all versions lie in the tree; families hold those from there on, and
  /// some of the older ones in clean runs.
  std::uint64_t flushed = 0;
  bool keeps_clean = true;  // false: somebody changes the tree past the engine
  tree::TreeState below;    // the tree that goes with them

  /// Null if there is no such family.
  [[nodiscard]] const FamilyView* family(FamilyId id) const;
  /// Puts `changed` in the place of the family of its id, or adds it.
  void set_family(FamilyViewPtr changed);
  void erase_family(FamilyId id);
  /// Runs of the family that has most.
  [[nodiscard]] std::size_t runs_max() const;
  /// Range deletions of all families.
  [[nodiscard]] std::size_t tombstones() const;
};
using ViewPtr = std::shared_ptr<const View>;

/// Whether the trees of both views say the same.
[[nodiscard]] bool are_unchanged(const View& before, const View& now);

/// What a request is told that names a family that is not there.
[[nodiscard]] Status no_family(FamilyId family);

/// Errors  InvalidArgument: a request names a family that `view` does not have, or that takes no
///         writes any more; NotSupported: merges into a family without a merge operator.
[[nodiscard]] Status check_families(const batch::Requests& requests, const View& view);

/// What the search for one key looked at.
struct Searched {
  std::uint64_t parts = 0;    // memtables and orders
  bool index_is_due = false;  // of one of the orders: this search and others have paid for it
};

/// The newest version of `key` below `bound` in the family's memtable and runs: its payload, or
/// runs::kNotFound. Range deletions are not looked at. One key, on the calling thread.
/// Cost    memtable: one walk; per order: as lower_bound().
[[nodiscard]] std::uint64_t find_one(const FamilyView& family, const wal::SegmentTable& table,
                                     const Slice& key, std::uint64_t bound,
                                     const std::byte** record);
/// The same, and what it took.
[[nodiscard]] std::uint64_t find_one(const FamilyView& family, const wal::SegmentTable& table,
                                     const Slice& key, std::uint64_t bound,
                                     const std::byte** record, Searched* searched);

/// The first entry of `order` that holds a version of `key` below `bound`, or comes behind all
/// those.
/// Cost    with an index as OrderIndex::narrow, and one or two records for most keys; without one
///         log2(n / 64) + 7 probes (columns), log2(n) records (others).
[[nodiscard]] std::uint64_t lower_bound(const Order& order, const wal::SegmentTable& table,
                                        const Slice& key, std::uint64_t bound);

/// Positions [begin, end) whose runs somebody works on.
struct TakenRange {
  FamilyId family;
  std::uint64_t begin;
  std::uint64_t end;
};

/// True if nobody works on `run`.
[[nodiscard]] bool is_free(FamilyId family, const MemRun& run,
                           const std::vector<TakenRange>& taken);

/// Neighbouring runs of a family, newest first: runs[first .. first + count).
struct RunRange {
  std::size_t first = 0;
  std::size_t count = 0;
};

/// The runs that should become one now; count 0 if none.
/// Looked at are the newest runs that lie together and are not taken. Due are
///  - of the newest as many as searches have paid for: since two neighbours lie beside each other
///    each search has looked at one run more than it would have in their merge, and all that was
///    looked at so in vain comes to what the merge costs, of the older ones by itself;
///  - four of one size class with what is smaller between them, so that few runs are left to
///    search;
///  - where more than 20 remain, the four neighbours that are cheapest to merge.
[[nodiscard]] RunRange merge_due(const FamilyView& family, const std::vector<TakenRange>& taken);

}  // namespace breccia::ordered
