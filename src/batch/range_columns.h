#pragma once

#include <breccia/columns.h>
#include <breccia/status.h>

#include <cstdint>

#include "batch/requests.h"

/// Results of ranges as Arrow has lists of strings: whose entries are which, keys, and values.
/// Shape   as Batch::RangeOffsets, EntryOffsets and CopyEntries, for offsets of 32 and 64 bits.

namespace breccia::batch {

/// Errors  InvalidArgument: the entries are more than offsets of that kind can tell.
template <class Offset>
Status range_offsets(const Requests& requests, std::uint64_t first, std::uint64_t count,
                     Offset* lists, std::uint8_t* found);

/// Errors  InvalidArgument: the same of the bytes of keys, or of values.
template <class Offset>
Status entry_offsets(const Requests& requests, std::uint64_t first, std::uint64_t count,
                     const Offset* lists, Offset* keys, Offset* values);

/// Errors  InvalidArgument: rooms that overlap, or that are not of their string's length.
template <class Offset>
Status copy_entries(const Requests& requests, std::uint64_t first, std::uint64_t count,
                    const Offset* lists, const BytesRoom& keys, const BytesRoom& values);

}  // namespace breccia::batch
