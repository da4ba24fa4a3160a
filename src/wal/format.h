#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/limits.h"
#include "record/record.h"

/// The log's bytes; docs/format/wal.md is the reference.
///
///   segment  = SegmentHeader (64 bytes) frame* (zero or stale bytes)
///   frame    = FrameHeader [padding to 64 if kFrameAligned] record* descriptor* padding
///              CommitRecord
///   record   = RecordHeader key gap value padding to 8
///
/// A log position counts bytes from the log's birth. Segments occupy consecutive ranges of
/// positions, each a multiple of kLogWindowBytes long. Positions of records grow in arrival order,
/// so a record's position is also its version (the papers' reqID).
///
/// The frames of a segment form a chain from SegmentHeader::first. The last one of a segment that
/// has a successor is a closing frame: header and commit record only, flag kFrameCloses. A chain
/// that ends without one ends the log.

namespace breccia::wal {

inline constexpr std::uint32_t kSegmentMagic = 0x53435242;  // "BRCS"
inline constexpr std::uint32_t kFrameMagic = 0x46435242;    // "BRCF"
inline constexpr std::uint32_t kCommitMagic = 0x43435242;   // "BRCC"
inline constexpr std::uint32_t kFormatVersion = 1;

/// At offset 0 of a segment file. Frames start right behind it.
struct SegmentHeader {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint64_t store_id;     // random, the same in all segments of one store
  std::uint64_t base;         // log position of the file's byte 0
  std::uint64_t size;         // bytes of the segment, a multiple of kLogWindowBytes
  std::uint64_t first;        // position of the first frame, a multiple of 8
  std::uint64_t reserved[2];  // zero
  std::uint32_t padding;      // zero
  std::uint32_t crc;          // CRC32C of the bytes before it
};
static_assert(sizeof(SegmentHeader) == 64 && std::is_trivial_v<SegmentHeader>);

inline constexpr std::uint32_t kFrameAligned = 1;  // records start at the next multiple of 64
inline constexpr std::uint32_t kFrameCloses = 2;   // no records; the next segment goes on
inline constexpr std::uint32_t kFrameMixed = 4;    // not only point operations of one family

struct FrameHeader {
  std::uint32_t magic;
  std::uint32_t flags;         // kFrameCloses alone, or any of kFrameAligned and kFrameMixed
  std::uint64_t position;      // log position of this header, a multiple of 8
  std::uint64_t record_bytes;  // all records, a multiple of 8
  std::uint32_t record_count;
  std::uint32_t descriptor_count;  // 0 or record_count
  std::uint64_t synced;            // all below this position was synced before this was written
  std::uint32_t padding;           // zero
  std::uint32_t crc;               // CRC32C of the bytes before it
};
static_assert(sizeof(FrameHeader) == 48 && std::is_trivial_v<FrameHeader>);

/// Seals a frame: written last, valid only if everything before it in the frame is.
struct CommitRecord {
  std::uint64_t checksum;  // of the frame from its header to here, see kChecksumPieceBytes
  std::uint32_t magic;
  std::uint32_t crc;  // CRC32C of checksum, magic and the frame's position
};
static_assert(sizeof(CommitRecord) == 16 && std::is_trivial_v<CommitRecord>);

/// A frame's checksum folds XXH3-64 digests of pieces: first [header, descriptors), then
/// [descriptors, commit record), each cut every kChecksumPieceBytes; c = mix64(c ^ digest) from
/// c = 0. In pieces, so that a piece is summed while it is in cache and pieces go in parallel.
inline constexpr std::uint64_t kChecksumPieceBytes = 64ULL << 10;

/// What a closing frame takes; every other frame leaves this much room behind it.
inline constexpr std::uint64_t kClosingFrameBytes = sizeof(FrameHeader) + sizeof(CommitRecord);

/// Where the parts of a frame lie, as offsets from its header.
struct FrameLayout {
  std::uint64_t records;
  std::uint64_t descriptors;  // record_offset / 8 from `records`, one per record, in run order
  std::uint64_t commit;
  std::uint64_t end;

  static FrameLayout of(std::uint64_t position, std::uint32_t flags, std::uint64_t record_bytes,
                        std::uint64_t descriptor_count) {
    BRECCIA_ASSERT(position % 8 == 0 && record_bytes % 8 == 0);
    FrameLayout layout;
    const std::uint64_t behind_header = position + sizeof(FrameHeader);
    layout.records =
        ((flags & kFrameAligned) ? base::round_up(behind_header, 64) : behind_header) - position;
    layout.descriptors = layout.records + record_bytes;
    layout.commit = layout.descriptors + base::round_up(descriptor_count * 4, 8);
    layout.end = layout.commit + sizeof(CommitRecord);
    return layout;
  }
  static FrameLayout of(const FrameHeader& header) {
    return of(header.position, header.flags, header.record_bytes, header.descriptor_count);
  }
};

}  // namespace breccia::wal
