#pragma once

#include <breccia/status.h>

#include <cstdint>

#include "batch/requests.h"

/// Results of reads as Arrow has strings: offsets, and bytes one behind the other.
/// Shape   as Batch::ValueOffsets and CopyValues, for offsets of 32 and 64 bits.

namespace breccia::batch {

/// Errors  InvalidArgument: the bytes are more than offsets of that kind can tell.
template <class Offset>
Status value_offsets(const Requests& requests, std::uint64_t first, std::uint64_t count,
                     Offset* offsets, std::uint8_t* found);

template <class Offset>
void copy_values(const Requests& requests, std::uint64_t first, std::uint64_t count,
                 const Offset* offsets, char* bytes);

}  // namespace breccia::batch
