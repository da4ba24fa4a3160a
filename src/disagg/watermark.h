#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "base/checksum.h"
#include "disagg/location.h"

namespace breccia::disagg {

/// The line before a hash server's buckets: up to which write of the log its buckets have all.
struct Watermark {
  std::uint64_t sequence = 0;
  std::uint64_t checksum = 0;  // of the bytes before it
  std::uint64_t unused[6] = {};

  [[nodiscard]] static std::uint64_t sum_of(std::uint64_t sequence) {
    return ~std::uint64_t{base::crc32c(0, &sequence, sizeof sequence)};
  }
  /// Of who writes it: readers may see half of it, and then that it is none.
  void set(std::uint64_t to) {
    std::atomic_ref(sequence).store(to, std::memory_order_release);
    std::atomic_ref(checksum).store(sum_of(to), std::memory_order_release);
  }
  /// What was read; none: half of it.
  [[nodiscard]] static std::optional<std::uint64_t> in(std::span<const std::byte> bytes) {
    Watermark read;
    if (bytes.size() < sizeof read) return std::nullopt;
    std::memcpy(&read, bytes.data(), sizeof read);
    if (read.checksum != sum_of(read.sequence)) return std::nullopt;
    return read.sequence;
  }
};
static_assert(sizeof(Watermark) == kLineBytes);

}  // namespace breccia::disagg
