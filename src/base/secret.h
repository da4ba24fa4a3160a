#pragma once

#include <cstdint>

namespace breccia::base {

/// A word that nobody can guess, from the system. Unlike std::random_device, which asks the
/// processor for each half: that takes 10 us where the processor is a virtual one.
/// Threads any.
[[nodiscard]] std::uint64_t draw_secret_word();

}  // namespace breccia::base
