#pragma once

#include <breccia/status.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace breccia::memtable {

/// A range deletion: keys in [begin, end) are deleted for versions below `position`.
struct Tombstone {
  std::string begin;
  std::string end;
  std::uint64_t position;
};

/// The range deletions of one family that are not in the tree yet. Immutable.
/// Threads any.
class Tombstones {
 public:
  /// Shape   begin < end for each; any order, overlaps allowed.
  /// Cost    O(n log n) and one entry for every (fragment, covering deletion) pair.
  explicit Tombstones(std::vector<Tombstone> all);

  /// Position of the newest range deletion below `bound` that covers `key`; 0 if there is none.
  /// Cost    one binary search.
  [[nodiscard]] std::uint64_t covering(const Slice& key, std::uint64_t bound) const;

  [[nodiscard]] const std::vector<Tombstone>& all() const { return all_; }

 private:
  /// Keys from `begin` to the next fragment's begin, and who covers them, newest first.
  struct Fragment {
    std::string begin;
    std::vector<std::uint64_t> positions;
  };

  std::vector<Tombstone> all_;
  std::vector<Fragment> fragments_;
};
/// Null where there are none.
using TombstonesPtr = std::shared_ptr<const Tombstones>;

}  // namespace breccia::memtable
