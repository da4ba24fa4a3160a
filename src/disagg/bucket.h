#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "disagg/location.h"

namespace breccia::disagg {

/// A bucket of the hash index as readers get it: 64 bytes that say themselves whether they are all
/// of one moment, as a read of another's memory sees single bytes.
///
///     0   version   2   another one with each change
///     2   checksum  2   of all bytes but these
///     4   next      4   the bucket that its chain goes on in, by number; 0: it ends
///     8   slots     7 x 8
///
/// One torn read in 65,536 goes unnoticed. What is found is checked once more where it lies
/// (block.h); that nothing is there is believed when it was read twice, of one version.
/// Source  [hstore] 4.1, chained buckets of a line. Deviation: its reads of a slot are atomic,
///         which over TCP they are not.
struct Bucket {
  static constexpr std::size_t kSlots = 7;

  std::uint16_t version = 0;
  std::uint16_t checksum = 0;
  std::uint32_t next = 0;
  std::array<Slot, kSlots> slot{};

  /// What its checksum has to be.
  [[nodiscard]] std::uint16_t sum() const { return sum(version); }
  /// The same of another version.
  [[nodiscard]] std::uint16_t sum(std::uint16_t of_version) const;
  /// The first eight bytes of it with these.
  [[nodiscard]] std::uint64_t head(std::uint16_t of_version, std::uint16_t of_checksum) const {
    return std::uint64_t{of_version} | std::uint64_t{of_checksum} << 16 | std::uint64_t{next} << 32;
  }
};
static_assert(sizeof(Bucket) == kLineBytes);

/// What was read; none: it was torn.
[[nodiscard]] std::optional<Bucket> whole_bucket(std::span<const std::byte, kLineBytes> bytes);

}  // namespace breccia::disagg
