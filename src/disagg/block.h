#pragma once

#include <breccia/status.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "disagg/key_id.h"
#include "disagg/location.h"

namespace breccia::disagg {

/// What lies before the key and the value in a block of a memory server, so that whoever has read a
/// block knows whether it is whole, and whose.
///
///     0   magic       2   "Bv"
///     2   key bytes   2   less one
///     4   value bytes 4
///     8   generation  4   another one each time that the block is used
///     12  checksum    4   CRC32C of the bytes before it, then of key and value
///     16  state       8   the live word of the generation; another one, as zero: another value has
///                         come, or is about to. Not in the checksum
///     24  sequence    8   of the write by which it is a key's value, as the hash server has
///     numbered
///                         it; 0: that has not taken it. Not in the checksum
///
/// Source  [hstore] 4.1 has keys and values alone. Deviation: see docs/impl/disagg.md.
struct BlockHeader {
  static constexpr std::uint16_t kMagic = 0x7642;
  static constexpr std::uint64_t kStateOffset = 16;
  static constexpr std::uint64_t kSequenceOffset = 24;
  static constexpr std::uint64_t kReplaced = 0;

  /// Of another generation it is another one: what was read of two uses of a block is not live.
  static constexpr std::uint64_t live(std::uint32_t generation) {
    return std::uint64_t{~generation} << 32 | generation;
  }

  std::uint16_t magic = kMagic;
  std::uint16_t key_bytes_less_one = 0;
  std::uint32_t value_bytes = 0;
  std::uint32_t generation = 0;
  std::uint32_t checksum = 0;
  std::uint64_t state = 0;
  std::uint64_t sequence = 0;
};
static_assert(sizeof(BlockHeader) == 32);

/// Bytes of a block with such a key and value, before they are rounded to a class.
constexpr std::uint64_t block_bytes(std::uint64_t key_bytes, std::uint64_t value_bytes) {
  return sizeof(BlockHeader) + key_bytes + value_bytes;
}

/// A block, to be written where it is to lie.
/// Shape   key of 1 to kKeyBytesMax bytes, value of kValueBytesMax at most.
[[nodiscard]] std::vector<std::byte> make_block(std::uint32_t generation, const Slice& key,
                                                const Slice& value);

/// What was read of a block.
struct BlockView {
  Slice key, value;  // in what was read
  std::uint32_t generation;
  bool is_replaced;
  std::uint64_t sequence;
};
/// None: it is not whole, or none.
[[nodiscard]] std::optional<BlockView> whole_block(std::span<const std::byte> bytes);

/// How much of a block its header says is in use, whether it is whole or not.
[[nodiscard]] std::uint64_t used_bytes(std::span<const std::byte> block);

/// What the header says is the key, whether the block is whole or not; empty: there is none.
[[nodiscard]] Slice key_in(std::span<const std::byte> block);

/// Says in a block that a write was taken, if it is still of that generation. False: it is not.
bool commit_block(std::span<std::byte> block, std::uint32_t generation, std::uint64_t sequence);
/// Says in a block that it was not replaced, if it is still of that generation.
void revive_block(std::span<std::byte> block, std::uint32_t generation);
/// Says in a block that it was replaced by that write of a shard, if it is of an earlier one of it
/// that was taken. False: it is not.
bool retire_block(std::span<std::byte> block, const ShardKeys& of, std::uint64_t sequence);
/// Says in a block that it is none: what is told late of its use before finds nothing.
void wipe_block(std::span<std::byte> block);

}  // namespace breccia::disagg
