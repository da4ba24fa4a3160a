#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "exec/group.h"

/// Where a key may lie in a table of levels of buckets.
/// Source  [gphash], 3.1 and figure 13, where a shape is named as here: 2L-2H-8S.

namespace breccia::hash::shapes {

/// Places that a key may have: in each of some locations of the top level a bucket, and of each
/// level below, which has half as many, the one that this bucket shares with others.
/// Shape   powers of two; kCandidatesMax slots in all at most.
struct Shape {
  static constexpr int kCandidatesMax = 32;  // a warp's lanes, one each

  int levels = 2;     // 1, 2 or 4
  int locations = 2;  // 1, 2 or 4
  int slots = 8;      // of a bucket, 1 to 32

  [[nodiscard]] BRECCIA_HD constexpr int candidates() const { return levels * locations * slots; }
  [[nodiscard]] bool is_valid() const;
  [[nodiscard]] std::string name() const;
  /// None: it is no valid shape's name.
  static std::optional<Shape> of_name(const std::string& name);

  friend bool operator==(const Shape&, const Shape&) = default;
};

/// Slots that one lane of `lanes` looks at, which lie together in one bucket; 0: a group of so
/// many cannot look at all candidates at once.
[[nodiscard]] int share_of(const Shape& shape, int lanes);

}  // namespace breccia::hash::shapes
