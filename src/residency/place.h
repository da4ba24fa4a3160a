#pragma once

#include <cstdint>

#include "exec/group.h"

namespace breccia::residency {

/// Where the value of an entry lies in its file, or would if it is a deletion: offset <<
/// kPlaceBytesBits | bytes, or kDeletedBytes. No value lies at offset 0, where the first entry's
/// key is, so that other answers are places, too.
inline constexpr int kPlaceBytesBits = 24;
inline constexpr std::uint64_t kDeletedBytes = (std::uint64_t{1} << kPlaceBytesBits) - 1;
inline constexpr std::uint64_t kPlaceBytesMax = kDeletedBytes - 1;
inline constexpr std::uint64_t kPlaceOffsetMax = (std::uint64_t{1} << (64 - kPlaceBytesBits)) - 2;

/// The same in a file whose blocks are compressed: which block of the piece << 48, where in its
/// contents << 24, bytes.
inline constexpr int kPackedBlockShift = 2 * kPlaceBytesBits;
/// Blocks of a piece then, at most: one more would be taken for kAsk.
inline constexpr std::uint64_t kPackedBlocksMax = (std::uint64_t{1} << 16) - 1;

/// No file has the key.
inline constexpr std::uint64_t kNowhere = 0;
/// What the key has is not known here: RocksDB is to be asked.
inline constexpr std::uint64_t kAsk = ~std::uint64_t{1};

BRECCIA_HD constexpr std::uint64_t bytes_of(std::uint64_t place) { return place & kDeletedBytes; }
BRECCIA_HD constexpr bool is_value(std::uint64_t place) {
  return place != kNowhere && place != kAsk && bytes_of(place) != kDeletedBytes;
}
/// The place of a deletion, which hides what files below may have of the key, where a value without
/// bytes would have `place`.
BRECCIA_HD constexpr std::uint64_t as_deletion(std::uint64_t place) {
  return place == kAsk ? kAsk : place | kDeletedBytes;
}
BRECCIA_HD constexpr std::uint64_t place_of(std::uint64_t offset, std::uint64_t bytes) {
  if (offset > kPlaceOffsetMax || bytes > kPlaceBytesMax) return kAsk;
  return offset << kPlaceBytesBits | bytes;
}
BRECCIA_HD constexpr std::uint64_t packed_place(std::uint64_t block, std::uint64_t at,
                                                std::uint64_t bytes) {
  if (at > kDeletedBytes || bytes > kPlaceBytesMax) return kAsk;
  return block << kPackedBlockShift | at << kPlaceBytesBits | bytes;
}
BRECCIA_HD constexpr std::uint64_t packed_block(std::uint64_t place) {
  return place >> kPackedBlockShift;
}
BRECCIA_HD constexpr std::uint64_t packed_at(std::uint64_t place) {
  return place >> kPlaceBytesBits & kDeletedBytes;
}
BRECCIA_HD constexpr std::uint64_t offset_of(std::uint64_t place) {
  return place >> kPlaceBytesBits;
}

/// Where a search puts what it finds.
/// Shape   of as many as were sought each; place[i], and where that is an entry's, part[i]: which
///         of the parts of all levels, one level behind the other.
struct FoundRef {
  std::uint64_t* place = nullptr;
  std::uint32_t* part = nullptr;
};

}  // namespace breccia::residency
