#include "disagg/block.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "base/checksum.h"

namespace breccia::disagg {

namespace {

std::uint32_t sum_of(const BlockHeader& header, const void* key_and_value, std::size_t bytes) {
  const std::uint32_t before = base::crc32c(0, &header, offsetof(BlockHeader, checksum));
  return base::crc32c(before, key_and_value, bytes);
}

}  // namespace

std::vector<std::byte> make_block(std::uint32_t generation, const Slice& key, const Slice& value) {
  BRECCIA_ASSERT(!key.empty() && key.size() <= kKeyBytesMax && value.size() <= kValueBytesMax);
  BlockHeader header{.key_bytes_less_one = static_cast<std::uint16_t>(key.size() - 1),
                     .value_bytes = static_cast<std::uint32_t>(value.size()),
                     .generation = generation,
                     .state = BlockHeader::live(generation)};
  std::vector<std::byte> block(block_bytes(key.size(), value.size()));
  std::byte* const rest = block.data() + sizeof header;
  std::memcpy(rest, key.data(), key.size());
  if (!value.empty()) std::memcpy(rest + key.size(), value.data(), value.size());
  header.checksum = sum_of(header, rest, block.size() - sizeof header);
  std::memcpy(block.data(), &header, sizeof header);
  return block;
}

std::optional<BlockView> whole_block(std::span<const std::byte> bytes) {
  BlockHeader header;
  if (bytes.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof header);
  const std::uint64_t key_bytes = std::uint64_t{header.key_bytes_less_one} + 1;
  const std::uint64_t rest_bytes = key_bytes + header.value_bytes;
  if (header.magic != BlockHeader::kMagic || rest_bytes > bytes.size() - sizeof header) {
    return std::nullopt;
  }
  const auto* const rest = reinterpret_cast<const char*>(bytes.data()) + sizeof header;
  if (header.checksum != sum_of(header, rest, rest_bytes)) return std::nullopt;
  return BlockView{.key = Slice(rest, key_bytes),
                   .value = Slice(rest + key_bytes, header.value_bytes),
                   .generation = header.generation,
                   .is_replaced = header.state != BlockHeader::live(header.generation),
                   .sequence = header.sequence};
}

std::uint64_t used_bytes(std::span<const std::byte> block) {
  BlockHeader header;
  BRECCIA_ASSERT(block.size() >= sizeof header);
  std::memcpy(&header, block.data(), sizeof header);
  const std::uint64_t key_bytes = std::uint64_t{header.key_bytes_less_one} + 1;
  return std::min<std::uint64_t>(block.size(), block_bytes(key_bytes, header.value_bytes));
}

Slice key_in(std::span<const std::byte> block) {
  BlockHeader header;
  BRECCIA_ASSERT(block.size() >= sizeof header);
  std::memcpy(&header, block.data(), sizeof header);
  const std::size_t key_bytes = std::size_t{header.key_bytes_less_one} + 1;
  if (header.magic != BlockHeader::kMagic || key_bytes > block.size() - sizeof header) return {};
  return {reinterpret_cast<const char*>(block.data()) + sizeof header, key_bytes};
}

bool commit_block(std::span<std::byte> block, std::uint32_t generation, std::uint64_t sequence) {
  BlockHeader header;
  BRECCIA_ASSERT(block.size() >= sizeof header && sequence > 0);
  std::memcpy(&header, block.data(), sizeof header);
  if (header.magic != BlockHeader::kMagic || header.generation != generation) return false;
  std::memcpy(block.data() + BlockHeader::kSequenceOffset, &sequence, sizeof sequence);
  return true;
}

void revive_block(std::span<std::byte> block, std::uint32_t generation) {
  BlockHeader header;
  BRECCIA_ASSERT(block.size() >= sizeof header);
  std::memcpy(&header, block.data(), sizeof header);
  if (header.magic != BlockHeader::kMagic || header.generation != generation) return;
  const std::uint64_t state = BlockHeader::live(generation);
  std::memcpy(block.data() + BlockHeader::kStateOffset, &state, sizeof state);
}

bool retire_block(std::span<std::byte> block, const ShardKeys& of, std::uint64_t sequence) {
  BlockHeader header;
  BRECCIA_ASSERT(block.size() >= sizeof header);
  std::memcpy(&header, block.data(), sizeof header);
  const bool is_taken = header.magic == BlockHeader::kMagic && header.sequence > 0;
  if (!is_taken || header.sequence >= sequence) return false;
  if (!of.has(key_in(block))) return false;
  constexpr std::uint64_t kState = BlockHeader::kReplaced;
  std::memcpy(block.data() + BlockHeader::kStateOffset, &kState, sizeof kState);
  return true;
}

void wipe_block(std::span<std::byte> block) {
  BRECCIA_ASSERT(block.size() >= sizeof(BlockHeader));
  std::memset(block.data(), 0, sizeof(BlockHeader));
}

}  // namespace breccia::disagg
