#pragma once

#include <breccia/family.h>
#include <breccia/status.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "cache/key_filter.h"
#include "cache/miss_meter.h"
#include "cache/row_cache.h"
#include "tree/known_files.h"

namespace rocksdb {
class ColumnFamilyHandle;
class DB;
class Iterator;
class Snapshot;
struct ReadOptions;
}  // namespace rocksdb

namespace breccia::tree {

/// A family of the tree as readers see it.
/// Owner   whoever made it holds the handle.
struct FamilyRef {
  FamilyId id;
  rocksdb::ColumnFamilyHandle* handle;
  bool has_data;                             // lookups must go there
  bool is_cached;                            // what it holds changes by flushes and refreshes alone
  const cache::KeyFilter* filter = nullptr;  // of every key that it holds; null: there is none
  cache::MissMeter* misses = nullptr;        // hears of what it does not hold; null: nobody does
  const KnownFiles* files = nullptr;         // what is known of its files; null: nothing
};

/// The tree between two changes of it: the one door for what readers ask it.
///
/// Lookups ask the family's filter, the row cache, its known files, then the tree, and put into the
/// cache what they found there, or had to unpack of a file; for many keys these are calls of their
/// own, as whoever has many brings those for the tree into order. What the cache has of a key is
/// what the tree has in this state: docs/impl/cache.md.
///
/// Owner   holds the snapshot, which keeps the database open.
/// Threads any; the members are set before others see it.
struct TreeState {
  rocksdb::DB* db = nullptr;
  std::shared_ptr<const rocksdb::Snapshot> snapshot;  // null: the newest state
  std::uint64_t version = 0;                          // its number, for the cache
  std::shared_ptr<cache::RowCache> cache;             // null: there is none

  /// True if what is read of the family may be kept in the cache, and found there.
  [[nodiscard]] bool caches(const FamilyRef& family) const {
    return cache != nullptr && family.is_cached;
  }

  /// Whether one more value that was read of the family is worth its place in the cache; drawn by
  /// lot where the cache is full.
  [[nodiscard]] bool wants(const FamilyRef& family, std::size_t value_bytes) const {
    return caches(family) && value_bytes <= cache::RowCache::kEntryBytesMax &&
           version == cache->version() && cache->admits();
  }
  /// Puts values that were read in this state into the cache.
  /// Shape   up to kKeptAtOnce keys, each with its value; wants() of each.
  void keep(const FamilyRef& family, std::span<const Slice> keys,
            std::span<const Slice> values) const;
  static constexpr std::size_t kKeptAtOnce = 256;

  /// Errors  NotFound; those of RocksDB.
  Status get(const FamilyRef& family, const Slice& key, rocksdb::PinnableSlice* value) const;

  /// Takes the answer for key `i`: `value` lasts until it returns.
  using Answer = std::function<void(std::size_t i, const Status& status, const Slice& value)>;
  /// Looks up many keys in the row cache alone, and answers those that it has.
  /// Shape   missing has room for as many as there are keys: those that it has not, ascending.
  ///         `refs`: where in the cache each key may lie, as cache::DeviceTags found them; null:
  ///         unknown.
  /// Returns how many are missing: all where the family is not cached.
  std::size_t find_cached(const FamilyRef& family, std::span<const Slice> keys,
                          const std::uint32_t* refs, const Answer& answer,
                          std::uint32_t* missing) const;
  /// Looks up many keys in the tree, past all that is asked before; the row cache gets what is
  /// found.
  /// Shape   keys in ascending order; each gets one answer, also of several that are the same.
  void multi_get(const FamilyRef& family, std::span<const Slice> keys, const Answer& answer) const;

  /// Looks up keys in ascending order past both caches.
  /// Shape   statuses of as many elements as keys.
  void contains(const FamilyRef& family, std::span<const Slice> keys,
                std::span<Status> statuses) const;

  /// An iterator in this state; `options.snapshot` is not looked at. Null if there is no data.
  [[nodiscard]] std::unique_ptr<rocksdb::Iterator> iterate(rocksdb::ReadOptions options,
                                                           const FamilyRef& family) const;
};

}  // namespace breccia::tree
