#pragma once

#include <breccia/status.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/assert.h"

/// The range deletions of one family that are not in the tree yet, in sets that grow as the levels
/// of an LSM tree do:
///   1. A batch's range deletions become a set behind the others; sets of about its size or smaller
///      are joined with it. So there are few sets, each much larger than the next, and their
///      positions ascend from set to set. Joining copies 40 bytes a range deletion and looks at no
///      key: that is all that happens while a batch becomes visible.
///   2. The first who looks a key up in a set cuts its keys into stretches where the same deletions
///      count, by a sort, and builds a tree over them. A range deletion is noted at the O(log n)
///      nodes that together make up its stretches, where positions ascend; and each stretch has the
///      newest position of all over it.
///   3. A lookup finds the key's stretch by the 8 bytes behind what all edges begin with. If the
///      stretch's newest position is below the bound, it is the answer; else the newest below the
///      bound that is noted at a node from there to the root. The newest set that knows one
///      decides.

namespace breccia::memtable {

/// A range deletion: keys in [begin, end) are deleted for versions below `position`.
/// Owner   the keys lie in the log; whoever holds the view keeps them there.
struct Tombstone {
  Slice begin;
  Slice end;
  std::uint64_t position;
};

/// What covers the keys of a stretch: those in [begin, end), or up to the last key if !has_end.
struct Cover {
  std::uint64_t position = 0;  // of the newest range deletion; 0: there is none
  Slice begin;
  Slice end;
  bool has_end = false;

  [[nodiscard]] bool has(const Slice& key) const {
    return key.compare(begin) >= 0 && (!has_end || key.compare(end) < 0);
  }
};

/// Range deletions that were joined. Immutable but for the tree, which the first lookup builds.
/// Threads any.
class TombstoneSet {
 public:
  /// Shape   at least one; begin < end for each; positions ascend.
  explicit TombstoneSet(std::vector<Tombstone> ascending);

  [[nodiscard]] const std::vector<Tombstone>& all() const { return all_; }
  [[nodiscard]] std::size_t size() const { return all_.size(); }
  [[nodiscard]] std::uint64_t newest() const { return all_.back().position; }
  /// The first at or above `position`.
  [[nodiscard]] std::vector<Tombstone>::const_iterator first_from(std::uint64_t position) const {
    return std::partition_point(all_.begin(), all_.end(),
                                [&](const Tombstone& one) { return one.position < position; });
  }

  /// Position of the newest below `bound` that covers `key`; 0 if there is none. *probes grows by
  /// the edges, stretches and nodes that were looked at.
  /// Cost    log2(2 n) + 2 probes, if that position is the newest over the key; else as many nodes
  ///         more, and a search of O(log n) steps in each. The first time O(n log n).
  [[nodiscard]] std::uint64_t covering(const Slice& key, std::uint64_t bound,
                                       std::uint64_t* probes) const;
  /// The same, for a stretch of keys around `key`.
  [[nodiscard]] Cover cover(const Slice& key, std::uint64_t bound) const;

 private:
  void build() const;
  void build_tree() const;
  [[nodiscard]] std::uint64_t word_of(const Slice& key) const;
  /// How many edges lie at or before `key`.
  [[nodiscard]] std::size_t edges_up_to(const Slice& key, std::uint64_t* probes) const;
  [[nodiscard]] std::uint64_t newest_at(std::size_t stretch, std::uint64_t bound,
                                        std::uint64_t* probes) const;
  template <class Note>
  void for_each_node(const std::pair<std::size_t, std::size_t>& stretches, const Note& note) const;

  const std::vector<Tombstone> all_;
  mutable std::once_flag built_;
  /// Keys where a range deletion begins or ends, ascending; stretch i lies between edges i and i
  /// + 1.
  mutable std::vector<Slice> edges_;
  mutable std::size_t shared_bytes_ = 0;       // which all edges begin with
  mutable std::vector<std::uint64_t> words_;   // of each edge the bytes behind those, as a word
  mutable std::vector<std::uint64_t> newest_;  // of all positions over each stretch
  /// Node i of the tree has the positions [begins[i] .. begins[i + 1]); its children are 2 i and
  /// 2 i + 1, stretch i is node i + (stretches).
  mutable std::vector<std::uint32_t> node_begins_;
  mutable std::vector<std::uint64_t> positions_;
};

class Tombstones;
/// Null where there are none.
using TombstonesPtr = std::shared_ptr<const Tombstones>;

/// All range deletions of a family. Immutable.
/// Threads any.
class Tombstones {
 public:
  /// Those of `before`, which may be null, and `added` behind them.
  /// Shape   added: begin < end for each; positions ascend, from above those of `before`.
  /// Cost    O(log n) copies of a range deletion for each that was ever added; no key is looked at.
  [[nodiscard]] static TombstonesPtr with(const TombstonesPtr& before,
                                          std::vector<Tombstone> added);
  /// Those of `all`, which may be null, at or above `position`; null if there are none.
  [[nodiscard]] static TombstonesPtr from(const TombstonesPtr& all, std::uint64_t position);

  /// Position of the newest range deletion below `bound` that covers `key`; 0 if there is none.
  /// Cost    as TombstoneSet::covering for each set, of which there are log8(n).
  [[nodiscard]] std::uint64_t covering(const Slice& key, std::uint64_t bound) const;
  /// The same; *probes grows by what was looked at.
  [[nodiscard]] std::uint64_t covering(const Slice& key, std::uint64_t bound,
                                       std::uint64_t* probes) const;
  /// The same, and for which keys around `key` it holds.
  [[nodiscard]] Cover cover(const Slice& key, std::uint64_t bound) const;

  [[nodiscard]] std::size_t size() const { return size_; }
  /// Calls use(range deletion) for each at or above position `since`, oldest first, until it says
  /// false.
  template <class Use>
  void for_each(std::uint64_t since, const Use& use) const {
    for (const auto& set : sets_) {
      for (auto one = set->first_from(since); one != set->all().end(); ++one) {
        if (!use(*one)) return;
      }
    }
  }
  /// The ranges that those below position `bound` cover, in key order, each as long as it can be.
  [[nodiscard]] std::vector<std::pair<Slice, Slice>> covered_ranges(std::uint64_t bound) const;

 private:
  using Sets = std::vector<std::shared_ptr<const TombstoneSet>>;
  explicit Tombstones(Sets sets);

  const Sets sets_;  // oldest first
  std::size_t size_ = 0;
};

/// Looks up keys that lie close together, as those that an iterator passes: the stretch that was
/// found last is remembered.
/// Threads one owner. Owner: the range deletions live longer.
class CoverCursor {
 public:
  CoverCursor() = default;
  /// `tombstones` may be null.
  CoverCursor(const Tombstones* tombstones, std::uint64_t bound)
      : tombstones_(tombstones), bound_(bound) {}

  [[nodiscard]] bool has_any() const { return tombstones_ != nullptr; }
  const Cover& at(const Slice& key) {
    if (tombstones_ == nullptr) return last_;
    if (!is_known_ || !last_.has(key)) last_ = tombstones_->cover(key, bound_);
    is_known_ = true;
    return last_;
  }

 private:
  const Tombstones* tombstones_ = nullptr;
  std::uint64_t bound_ = 0;
  bool is_known_ = false;
  Cover last_;
};

}  // namespace breccia::memtable
