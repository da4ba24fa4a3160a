#pragma once

#include <cstdint>
#include <vector>

#include "ordered/view.h"
#include "tree/tree.h"

namespace breccia::ordered {

/// The positions that a view may speak of: the log has [log_begin, log_end), and those below
/// `visible` may be seen.
struct PositionBounds {
  std::uint64_t log_begin;
  std::uint64_t log_end;
  std::uint64_t visible;
};

/// Whether what holds a view together is so: runs of a family newest first, disjoint, below its
/// memtable and within `bounds`; their orders as many entries as they, within their positions and
/// sorted, and where their indexes say; memtable and range deletions visible.
/// Errors  Corruption: what is not so, and in which family.
/// Cost    a walk over memtables and range deletions; of each order at most some thousand entries.
[[nodiscard]] Status check_view(const View& view, const PositionBounds& bounds);

/// Whether the view has the families that the tree has, and besides only dropped ones.
/// Errors  Corruption.
[[nodiscard]] Status check_tree(const View& view, const std::vector<tree::TreeFamily>& families);

/// Whether the filters of a view know the keys that its tree holds: of each family some thousand.
/// Errors  Corruption.
[[nodiscard]] Status check_filters(const View& view);

/// Whether what is known of the files of a view's trees is what the trees say: of each family some
/// thousand keys.
/// Errors  Corruption.
[[nodiscard]] Status check_files(const View& view);

/// For BRECCIA_INVARIANT: false, and what is wrong on stderr, if it is Corruption.
[[nodiscard]] bool holds(const Status& checked);

}  // namespace breccia::ordered
