#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "ordered/view.h"
#include "tree/log_note.h"

namespace breccia::ordered {

/// What clean runs may take: bytes of the log that hold their records, and their own memory.
struct CleanBudget {
  std::uint64_t log_bytes = 0;
  std::uint64_t memory_bytes = 0;
};

/// The runs of a family that a flush took, each list as one: the newest of them, and that one.
using FlushedRuns = std::vector<std::pair<MemRunPtr, MemRunPtr>>;

/// Makes clean runs of what a flush took out of `family`, or lets go of those that are there, if
/// they would answer wrongly from now on.
/// Shape   `before`: the family as it was flushed, from position `from` on, below `applied`;
///         `merged`: what its runs became, null if it had none. `keeps`: the view's keeps_clean,
///         and there is a budget.
void keep_flushed(FamilyView* family, const FamilyView& before, const MemRunPtr& merged,
                  std::uint64_t from, std::uint64_t applied, bool keeps);

/// Lets go of all that is clean: somebody changes the tree past the log.
void forget_clean(View* view);

/// What of the log says what the tree says, for the store's next opening.
[[nodiscard]] std::vector<tree::LogPart> log_parts(const View& view);

/// True if the log may have more for clean runs than there is (refill.h).
[[nodiscard]] bool may_refill(const View& view);

/// Lets go of the oldest clean runs until what is left fits, and of one where a family has very
/// many.
void shrink_clean(View* view, const CleanBudget& budget);

/// Clean runs of a family that should become one: neighbours of one size class, as long as that one
/// has at most `log_bytes_max` of the log. count 0: none.
[[nodiscard]] RunRange clean_merge_due(const FamilyView& family, std::uint64_t log_bytes_max);

/// The lowest position that a clean run may hold; View::flushed if there are none.
[[nodiscard]] std::uint64_t clean_begin(const View& view);
/// Memory of all clean runs.
[[nodiscard]] std::uint64_t clean_memory(const View& view);
/// Memory of those of `runs` that lie on a device.
[[nodiscard]] std::uint64_t device_bytes(const std::vector<MemRunPtr>& runs);

}  // namespace breccia::ordered
