#pragma once

#include <rocksdb/slice.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "base/prefetch.h"
#include "base/result.h"
#include "pmem/page_memory.h"
#include "record/keyed_hash.h"
#include "runs/filter.h"

namespace breccia::cache {

/// The keys that a family of the tree may hold, in the host's memory: what it says is not there is
/// not (runs/filter.h).
/// Threads any.
class KeyFilter {
 public:
  /// A filter without keys, for `capacity` of them; with more it is still right, and says less.
  /// Errors  MemoryLimit.
  static Result<std::shared_ptr<KeyFilter>> make(std::uint64_t capacity,
                                                 const record::HashSeed& seed);
  /// Of a filter for `capacity` keys.
  [[nodiscard]] static std::uint64_t bytes_for(std::uint64_t capacity);

  /// Adds keys by their hashes. Who is to find them there must see what the caller does next.
  void add(std::span<const std::uint64_t> hashes);

  [[nodiscard]] std::uint64_t hash(const rocksdb::Slice& key) const {
    return record::keyed_hash(key.data(), key.size(), seed_);
  }
  /// False: no key of this hash was added.
  [[nodiscard]] bool may_hold(std::uint64_t hash) const {
    return runs::may_hold(exec::HostGroup<1>(), ref_, hash);
  }
  /// Fetches what may_hold will read.
  void prefetch(std::uint64_t hash) const { base::prefetch(runs::filter_block(ref_, hash)); }

  [[nodiscard]] const record::HashSeed& seed() const { return seed_; }
  [[nodiscard]] std::uint64_t bytes() const {
    return ref_.block_count * runs::kFilterBlockWords * sizeof(std::uint64_t);
  }
  /// Keys in it; one that all its bits were there for does not count.
  [[nodiscard]] std::uint64_t keys() const { return keys_.load(std::memory_order_relaxed); }
  /// True if it holds as many keys as it was made for.
  [[nodiscard]] bool is_full() const { return keys() >= capacity_; }

 private:
  KeyFilter(pmem::PageMemory memory, std::uint64_t block_count, std::uint64_t capacity,
            const record::HashSeed& seed);

  pmem::PageMemory memory_;
  const runs::FilterRef ref_;
  const std::uint64_t capacity_;
  const record::HashSeed seed_;
  std::atomic<std::uint64_t> keys_{0};
};

/// Draws a seed that nobody foresees.
[[nodiscard]] record::HashSeed draw_hash_seed();

}  // namespace breccia::cache
