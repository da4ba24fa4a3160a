#pragma once

#include <cstdint>
#include <functional>

#include "list.h"

namespace breccia::metamorphic {

/// A small list that still fails: operations, parts of batches and fields are taken out as long as
/// `fails` says true of what is left.
/// Shape   `list` fails.
/// Bound   `runs_max` calls of `fails`.
/// Source  Zeller, Hildebrandt 2002 (ddmin), complements only.
[[nodiscard]] List shrink(List list, const std::function<bool(const List&)>& fails,
                          std::uint64_t runs_max);

}  // namespace breccia::metamorphic
