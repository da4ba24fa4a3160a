#pragma once

#include <rocksdb/iterator.h>

#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ordered/read/read_set.h"
#include "record/key_columns.h"
#include "txn/tracked_keys.h"

namespace breccia::facade {

/// A ordered::ReadSet and the memory that it points to.
/// Threads one owner.
class OwnedReadSet {
 public:
  /// Errors  false: out of memory. Keys that are longer than a key may be are passed over: nobody
  ///         can write them.
  [[nodiscard]] bool add(const txn::TrackedKeys& keys);
  void add(ordered::ReadSet::Range range) { set_.ranges.push_back(std::move(range)); }
  [[nodiscard]] const ordered::ReadSet& set() const { return set_; }

 private:
  struct Columns {
    record::KeyColumns keys{exec::plain_host_memory()};
    std::vector<std::uint64_t> since;
  };
  std::list<Columns> columns_;  // they stay where they are
  ordered::ReadSet set_;
};

/// What a serializable transaction has read: keys, and the ranges that its iterators passed over,
/// whether there was anything in them or not.
/// Threads one owner.
class ReadTracker {
 public:
  /// The keys from `begin` to below `end` that an iterator has looked at; it grows with each move.
  struct Range {
    FamilyId family;
    std::uint64_t since;
    std::string begin;
    std::string end;
    bool is_open = false;  // there is no end

    void include(const Slice& key);
    /// Moves a bound to `bound` if the range does not reach that far.
    void reach_down(const Slice& bound);
    void reach_up(const Slice& bound);
  };

  void track(FamilyId family, const std::string& key, std::uint64_t since) {
    keys_.track(family, key, since, /*read_only=*/true, /*exclusive=*/false);
  }
  /// A new range at `bound`, with nothing in it.
  std::shared_ptr<Range> begin_range(FamilyId family, std::uint64_t since, const Slice& bound);

  [[nodiscard]] bool empty() const { return keys_.count() == 0 && ranges_.empty(); }
  /// Errors  false: out of memory.
  [[nodiscard]] bool add_to(OwnedReadSet* set) const;
  void clear();

 private:
  txn::TrackedKeys keys_;
  std::vector<std::shared_ptr<Range>> ranges_;
};

/// `base` with every place that it looks at noted in `tracker`.
/// `upper` and `lower`: the bounds that `base` was made with, null for none.
/// Shape   `tracker` lives as long as the iterator is moved.
[[nodiscard]] rocksdb::Iterator* make_tracking_iterator(std::unique_ptr<rocksdb::Iterator> base,
                                                        const Slice* lower, const Slice* upper,
                                                        FamilyId family, std::uint64_t since,
                                                        ReadTracker* tracker);

}  // namespace breccia::facade
