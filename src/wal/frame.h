#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "wal/format.h"
#include "wal/intake.h"
#include "wal/log.h"

/// How the bytes of one frame are made and checked. Private to the log.

namespace breccia::wal {

/// Frames of this many records and more are kFrameAligned, so that a device reads whole lines.
inline constexpr std::uint32_t kAlignedRecordsMin = 1000;

/// A frame of more bytes is checked by many cores, in two passes, where it is not one of many.
inline constexpr std::uint64_t kOnePassBytes = 16ULL << 20;

/// Fills in magic, padding and checksum of a header whose other fields are set.
void finish(FrameHeader* header);
void finish(SegmentHeader* header);

/// The commit record of the frame at `position`.
CommitRecord make_commit(std::uint64_t position, std::uint64_t checksum);

/// Copies `records` into the frame at `frame`, whose header is already there, with zeros between
/// the two, and returns the checksum of [frame, frame + layout.descriptors).
/// Shape   record_bytes == layout.descriptors - layout.records.
/// Cost    one pass: each piece is summed while it is in cache; 4 MiB and more go in parallel.
std::uint64_t copy_and_sum(std::byte* frame, const FrameLayout& layout,
                           const RecordSource& records);

/// The same by pieces, of kChecksumPieceBytes each: copies one, and returns its digest, of which
/// sum_digests() makes the checksum.
/// Threads any number, of different pieces.
std::uint64_t copy_piece(std::byte* frame, const FrameLayout& layout, const RecordSource& records,
                         std::uint64_t piece);
std::uint64_t piece_count(const FrameLayout& layout);
std::uint64_t sum_digests(std::span<const std::uint64_t> digests);

/// Continues checksum `sum` over the descriptors, whose padding it zeroes.
std::uint64_t sum_descriptors(std::uint64_t sum, std::byte* frame, const FrameLayout& layout,
                              std::uint64_t descriptor_count);

/// Writes a whole closing frame at `at`.
void write_closing_frame(std::byte* at, std::uint64_t position, std::uint64_t synced);

/// Reads the header at `at` into `header`; true if it is intact and belongs at `position`.
/// Shape   at least sizeof(FrameHeader) bytes lie at `at`.
bool read_header(const std::byte* at, std::uint64_t position, FrameHeader* header);

/// All records of a frame whose header lies at `at`.
RecordSpan span_of(const std::byte* at, const FrameHeader& header);

/// Checks everything behind the header of a frame: seal_fault(), then content_fault(). Its records
/// are added to `part`, unless that is null; also those of a frame with a fault, up to some place.
/// Shape   the whole frame lies at `at`; `header` was read from there and is intact.
/// Errors  a sentence's end that names the first fault; null if there is none.
/// Cost    one pass by one core, in which records are looked at when they were just summed; of
///         both, where there are descriptors, or more than `one_pass_bytes`.
const char* frame_fault(const std::byte* at, const FrameHeader& header,
                        std::uint64_t one_pass_bytes, LogIntake::Part* part);
inline const char* frame_fault(const std::byte* at, const FrameHeader& header) {
  return frame_fault(at, header, kOnePassBytes, nullptr);
}

/// True if a whole frame of `position` lies at `at`, as an opening believes one: what is asked of
/// each frame before it is written, where invariants are.
bool is_whole_frame(const std::byte* at, std::uint64_t position);

/// Checks commit record and checksum: a fault is what a crash leaves, or damage.
/// Cost    one pass over the frame.
const char* seal_fault(const std::byte* at, const FrameHeader& header);

/// Checks records and descriptors of a frame that is sealed: with a fault it was never right.
/// Cost    a look at each record, of many of one size by all cores; if there are descriptors, a bit
///         per 8 record bytes and a comparison with the next key.
const char* content_fault(const std::byte* at, const FrameHeader& header);

}  // namespace breccia::wal
