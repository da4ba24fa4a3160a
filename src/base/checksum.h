#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace breccia::base {

/// CRC32C (Castagnoli) of `size` bytes, continuing from `seed` (0 to start).
std::uint32_t crc32c(std::uint32_t seed, const void* data, std::size_t size);

/// A 64-bit checksum of a long stream that arrives in pieces: XXH3-64, seed 0.
/// Threads one owner.
class Checksum64 {
 public:
  Checksum64();
  ~Checksum64();
  Checksum64(const Checksum64&) = delete;
  Checksum64& operator=(const Checksum64&) = delete;

  void update(const void* data, std::size_t size);
  [[nodiscard]] std::uint64_t digest() const;

  /// The same checksum of one piece.
  static std::uint64_t of(const void* data, std::size_t size);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace breccia::base
