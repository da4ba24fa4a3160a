#include "cache/key_filter.h"

#include <algorithm>
#include <random>
#include <utility>

#include "base/assert.h"
#include "base/random.h"

namespace breccia::cache {

namespace {

constexpr std::uint64_t kBlockBits = runs::kFilterBlockWords * 64;

std::uint64_t blocks_for(std::uint64_t capacity) {
  constexpr std::uint64_t kBlocksMax = ~std::uint32_t{0};
  constexpr std::uint64_t kKeysMax = kBlocksMax * kBlockBits / runs::kFilterBitsPerKey;
  const std::uint64_t bits = std::min(capacity, kKeysMax) * runs::kFilterBitsPerKey;
  return std::clamp<std::uint64_t>((bits + kBlockBits - 1) / kBlockBits, 1, kBlocksMax);
}

}  // namespace

std::uint64_t KeyFilter::bytes_for(std::uint64_t capacity) {
  return blocks_for(capacity) * kBlockBits / 8;
}

Result<std::shared_ptr<KeyFilter>> KeyFilter::make(std::uint64_t capacity,
                                                   const record::HashSeed& seed) {
  BRECCIA_TAKE(pmem::PageMemory memory, pmem::PageMemory::allocate_huge(bytes_for(capacity)));
  return std::shared_ptr<KeyFilter>(
      new KeyFilter(std::move(memory), blocks_for(capacity), capacity, seed));
}

KeyFilter::KeyFilter(pmem::PageMemory memory, std::uint64_t block_count, std::uint64_t capacity,
                     const record::HashSeed& seed)
    : memory_(std::move(memory)),
      ref_{reinterpret_cast<std::uint64_t*>(memory_.data()), block_count},
      capacity_(capacity),
      seed_(seed) {
  BRECCIA_ASSERT(block_count > 0 && block_count <= ~std::uint32_t{0});
  BRECCIA_ASSERT(seed.factor % 2 == 1);
}

void KeyFilter::add(std::span<const std::uint64_t> hashes) {
  constexpr std::size_t kAhead = 16;
  const exec::HostGroup<1> group;
  std::uint64_t added = 0;
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    if (i + kAhead < hashes.size()) prefetch(hashes[i + kAhead]);
    if (runs::add_to_filter(group, ref_, hashes[i])) ++added;
  }
  keys_.fetch_add(added, std::memory_order_relaxed);
}

record::HashSeed draw_hash_seed() {
  std::random_device device;
  const auto word = [&device] {
    const std::uint64_t high = device();
    return base::mix64(high << 32 | device());
  };
  return {word(), word() | 1};
}

}  // namespace breccia::cache
