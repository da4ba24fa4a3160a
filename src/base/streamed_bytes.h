#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/assert.h"

namespace breccia::base {

inline constexpr std::uint64_t kLineBytes = 64;

/// Writes a line past the caches.
/// Shape   `to` divides by 64.
inline void stream_line(std::byte* to, const std::byte* from) {
#if defined(__SSE2__)
  for (std::uint64_t at = 0; at < kLineBytes; at += sizeof(__m128i)) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + at),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at)));
  }
#else
  std::memcpy(to, from, kLineBytes);
#endif
}

/// Writes lines past the caches; end_stream() when all of them are.
/// Shape   `to` and `bytes` divide by 64.
inline void stream_lines(std::byte* to, const std::byte* from, std::uint64_t bytes) {
  for (std::uint64_t at = 0; at < bytes; at += kLineBytes) stream_line(to + at, from + at);
}

/// What was streamed can be read by others.
inline void end_stream() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

/// How far it is to the next line.
inline std::uint64_t bytes_before_line(const std::byte* to) {
  return (kLineBytes - reinterpret_cast<std::uintptr_t>(to) % kLineBytes) % kLineBytes;
}

/// memcpy() past the caches, for what nobody reads soon.
inline void stream_copy(std::byte* to, const std::byte* from, std::uint64_t bytes) {
  std::uint64_t at = std::min(bytes_before_line(to), bytes);
  std::memcpy(to, from, at);
  for (; at + kLineBytes <= bytes; at += kLineBytes) stream_line(to + at, from + at);
  std::memcpy(to + at, from + at, bytes - at);
  end_stream();
}

/// Pieces of memory that lie one behind the other, written past the caches: a plain store first
/// reads the line it writes to, and throws out one that is in use.
///
/// Pieces are put together in a few KiB that stay in the first cache, and leave them by whole
/// lines.
///
/// Owner   the memory is written when this ends, at the latest.
/// Threads one owner; any may read once it has ended.
class StreamedBytes {
 public:
  explicit StreamedBytes(std::byte* to) : to_(to) {}
  StreamedBytes(const StreamedBytes&) = delete;
  StreamedBytes& operator=(const StreamedBytes&) = delete;
  ~StreamedBytes() {
    drain();
    end_stream();
  }

  /// Room for the next piece, which must be written before the next call.
  std::byte* next(std::uint64_t bytes) {
    if (bytes > kStagedBytes) {  // the copy of a large piece would cost more
      drain();
      std::byte* const piece = to_;
      to_ += bytes;
      return piece;
    }
    if (staged_ + bytes > sizeof stage_) write_lines();
    std::byte* const piece = stage_ + staged_;
    staged_ += bytes;
    return piece;
  }
  /// Where the next piece comes to lie.
  [[nodiscard]] std::byte* end() const { return to_ + staged_; }

 private:
  static constexpr std::uint64_t kStagedBytes = 2048;

  /// Writes all whole lines; the rest moves to the front.
  void write_lines() {
    std::uint64_t at = std::min(bytes_before_line(to_), staged_);
    std::memcpy(to_, stage_, at);
    to_ += at;
    for (; at + kLineBytes <= staged_; at += kLineBytes) {
      stream_line(to_, stage_ + at);
      to_ += kLineBytes;
    }
    staged_ -= at;
    std::memmove(stage_, stage_ + at, staged_);
  }

  void drain() {
    if (staged_ == 0) return;  // of a stream that nothing is written to, maybe to nowhere
    write_lines();
    std::memcpy(to_, stage_, staged_);
    to_ += staged_;
    staged_ = 0;
  }

  std::byte* to_;
  std::uint64_t staged_ = 0;
  alignas(kLineBytes) std::byte stage_[2 * kStagedBytes];  // a piece behind what is not yet a line
};

}  // namespace breccia::base
