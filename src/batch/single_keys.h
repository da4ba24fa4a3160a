#pragma once

#include <algorithm>

#include "batch/requests.h"

namespace breccia::batch {

/// The part of the default family that requests have, or null.
template <class Parts>
[[nodiscard]] auto* default_part(const Parts& parts) {
  const auto found = std::find_if(parts.begin(), parts.end(), [](const auto& part) {
    return part->family() == kDefaultFamily;
  });
  return found == parts.end() ? nullptr : found->get();
}

/// Whether a batch has nothing but what engines do that keep single keys in no order: puts,
/// deletions and lookups of the default family. `engine`: its name, for what is said.
/// Errors  InvalidArgument, NotSupported: it has more.
[[nodiscard]] Status check_single_keys(const Requests& requests, const std::string& engine);

}  // namespace breccia::batch
