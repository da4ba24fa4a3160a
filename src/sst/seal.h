#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "sst/algo/encode.cuh"
#include "sst/table_shape.h"

namespace breccia::sst {

/// A data block as it goes into a file.
struct SealedBlock {
  algo::BlockInfo info;         // offset and bytes: as it is stored, in SealedBlocks::bytes
  std::uint64_t raw_bytes = 0;  // before it was compressed
  std::string first_key;        // internal keys
  std::string last_key;
};

/// Data blocks with their trailers, one behind the other.
struct SealedBlocks {
  const char* bytes = nullptr;  // room, or what was sealed
  std::uint64_t count = 0;      // of bytes
  std::vector<SealedBlock> blocks;
  std::string room;
};

/// Makes blocks that were encoded ready for a file: compresses them, writes checksums that they
/// lack, and reads the keys at their ends, which an index wants.
/// Shape   bytes[count], infos: what sst::algo::Encoder wrote, of `entries` entries. Without
///         compression `bytes` are sealed in place, and must live as long as `*sealed`.
/// Errors  Corruption: it is no block, its keys are not behind those of the one before, or what is
///         said of it is wrong; MemoryLimit.
/// Threads any.
Status seal(const TableShape& shape, char* bytes, std::uint64_t count, std::uint64_t entries,
            std::span<const algo::BlockInfo> infos, SealedBlocks* sealed);

}  // namespace breccia::sst
