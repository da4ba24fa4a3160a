#pragma once

#include <cstdint>

namespace breccia::base {

/// Threads that may have a slot of their own at once.
inline constexpr std::uint32_t kThreadSlots = 64;

/// A number below kThreadSlots that belongs to the calling thread alone while it lives, then to
/// another; kThreadSlots for a thread that found none free, and for one that is ending.
/// Order   what a thread did with its slot happens before what the next owner does.
/// Cost    a read of a thread-local; the first call of a thread takes a lock.
[[nodiscard]] std::uint32_t thread_slot();

}  // namespace breccia::base
