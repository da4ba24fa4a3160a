#pragma once

#include <breccia/options.h>

namespace breccia::testing {

/// Options of a store that opens in milliseconds: on the host, with one flush thread, in sparse
/// files, without messages.
[[nodiscard]] Options small_options();

}  // namespace breccia::testing
