#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "sst/algo/encode.cuh"
#include "sst/key_room.h"
#include "sst/table_shape.h"

namespace breccia::sst {

/// A data block as it goes into a file.
struct SealedBlock {
  algo::BlockInfo info;         // offset and bytes: as it is stored, in SealedBlocks::bytes
  std::uint64_t raw_bytes = 0;  // before it was compressed
  Slice first_key;              // internal keys
  Slice last_key;
  Slice separator;  // from the next block, as an index has it; none behind the last
};

/// Data blocks with their trailers, one behind the other.
struct SealedBlocks {
  const char* bytes = nullptr;  // room, or what was sealed
  std::uint64_t count = 0;      // of bytes
  std::vector<SealedBlock> blocks;
  KeyRoom keys;  // the blocks'
  std::string room;
};

/// Makes blocks that were encoded ready for a file: compresses them, writes checksums that they
/// lack, and takes the keys at their ends, of which an index is made. One block of sixteen is
/// looked at whether it is what is said of it.
/// Shape   bytes[count], blocks: what sst::algo::Encoder wrote, of `entries` entries. Without
///         compression `bytes` are sealed in place, and must live as long as `*sealed`.
/// Errors  Corruption: it is no block, its keys are not behind those of the one before, or what is
///         said of it is wrong; MemoryLimit.
/// Threads any.
Status seal(const TableShape& shape, char* bytes, std::uint64_t count, std::uint64_t entries,
            std::span<const algo::EncodedBlock> blocks, SealedBlocks* sealed);

}  // namespace breccia::sst
