#pragma once

#include <chrono>

/// How long those wait whom nobody tells.

namespace breccia::ordered {

/// How often a waiter looks at what nobody tells it.
inline constexpr auto kLookAgain = std::chrono::milliseconds(20);
/// How long who found no memory waits at most before the next try.
inline constexpr auto kMemoryPauseMax = std::chrono::milliseconds(200);

}  // namespace breccia::ordered
