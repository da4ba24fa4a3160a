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

/// Whether blocks can be sealed without their bytes: there is nothing to write in them, and their
/// ends are said.
[[nodiscard]] bool can_seal_unseen(const TableShape& shape,
                                   std::span<const algo::EncodedBlock> blocks);

/// Looks at some of a slice's blocks while their bytes come by: that they are what is said of them.
/// Shape   blocks [first, last) of `blocks`, of a shape that can be sealed unseen.
/// Owner   `blocks` live longer.
/// Threads one owner.
class Looks {
 public:
  Looks(std::span<const algo::EncodedBlock> blocks, std::size_t first, std::size_t last);

  /// The bytes behind those before; at first those of the first block.
  /// Errors  Corruption: they are not; MemoryLimit.
  Status take(const char* bytes, std::uint64_t count);

 private:
  void skip_others();
  [[nodiscard]] Status look(const char* contents) const;

  const std::span<const algo::EncodedBlock> blocks_;
  std::size_t next_;  // block that is to be looked at
  const std::size_t last_;
  std::uint64_t at_ = 0;  // where the bytes to come begin
  std::string room_;      // the front of a block
};

/// Makes blocks that were encoded ready for a file: compresses them, writes checksums that they
/// lack, and takes the keys at their ends, of which an index is made. One block of sixteen is
/// looked at whether it is what is said of it.
/// Shape   bytes[count], blocks: what sst::algo::Encoder wrote, of `entries` entries. Without
///         compression `bytes` are sealed in place, and must live as long as `*sealed`. Null where
///         they can_seal_unseen(): Looks are for whoever sees them.
/// Errors  Corruption: it is no block, its keys are not behind those of the one before, or what is
///         said of it is wrong; MemoryLimit.
/// Threads any.
Status seal(const TableShape& shape, char* bytes, std::uint64_t count, std::uint64_t entries,
            std::span<const algo::EncodedBlock> blocks, SealedBlocks* sealed);

}  // namespace breccia::sst
