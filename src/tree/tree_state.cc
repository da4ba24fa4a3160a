#include "tree/tree_state.h"

#include <rocksdb/db.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <vector>

#include "base/assert.h"

namespace breccia::tree {

namespace {

/// Keys of one call of RocksDB's. It goes by so many inside, and what it keeps of each, a quarter
/// of a KiB, stays on its stack up to here.
constexpr std::size_t kCallKeys = 32;

}  // namespace

Status TreeState::get(const FamilyRef& family, const Slice& key,
                      rocksdb::PinnableSlice* value) const {
  if (!family.has_data) return Status::NotFound();
  if (family.filter != nullptr && !family.filter->may_hold(family.filter->hash(key))) {
    family.misses->note_negatives(1);
    return Status::NotFound();
  }
  const bool asks_cache = caches(family) && cache->is_worth_asking();
  const std::uint64_t hash = asks_cache ? cache::RowCache::hash(family.id, key) : 0;
  if (asks_cache) {
    cache->prefetch(hash);
    cache::RowCache::ValueBuffer buffer;
    const auto bytes = cache->find(hash, family.id, key, version, &buffer);
    cache->note_asked(bytes.has_value());
    if (bytes.has_value()) {
      value->PinSelf(Slice(buffer.data(), *bytes));
      return Status::OK();
    }
    cache->prefetch_insert(hash);
  }
  if (family.files != nullptr) {
    bool was_packed = false;
    std::optional<Status> known = family.files->get(key, value, &was_packed);
    if (known.has_value()) {
      if (asks_cache && was_packed && cache->admits()) {
        cache->insert(hash, family.id, key, *value, version);
      }
      return *std::move(known);
    }
  }
  rocksdb::ReadOptions options;
  options.snapshot = snapshot.get();
  const Status status = db->Get(options, family.handle, key, value);
  if (asks_cache && status.ok() && cache->admits())
    cache->insert(hash, family.id, key, *value, version);
  if (status.IsNotFound() && family.misses != nullptr) family.misses->note_misses(1);
  return status;
}

std::size_t TreeState::find_cached(const FamilyRef& family, std::span<const Slice> keys,
                                   const std::uint32_t* refs, const Answer& answer,
                                   std::uint32_t* missing) const {
  if (!caches(family)) {
    std::iota(missing, missing + keys.size(), 0U);
    return keys.size();
  }
  std::vector<std::uint64_t> hashes(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    hashes[i] = cache::RowCache::hash(family.id, keys[i]);
    if (refs != nullptr) {
      cache->prefetch_at(refs[i]);
    } else {
      cache->prefetch(hashes[i]);
    }
  }
  cache::RowCache::ValueBuffer buffer;
  std::size_t missing_count = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto bytes = refs != nullptr
                           ? cache->find_at(refs[i], family.id, keys[i], version, &buffer)
                           : cache->find(hashes[i], family.id, keys[i], version, &buffer);
    if (bytes.has_value()) {
      answer(i, Status::OK(), Slice(buffer.data(), *bytes));
    } else {
      missing[missing_count++] = static_cast<std::uint32_t>(i);
    }
  }
  return missing_count;
}

void TreeState::keep(const FamilyRef& family, std::span<const Slice> keys,
                     std::span<const Slice> values) const {
  BRECCIA_ASSERT(caches(family) && keys.size() <= kKeptAtOnce && keys.size() == values.size());
  std::array<std::uint64_t, kKeptAtOnce> hashes;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    hashes[i] = cache::RowCache::hash(family.id, keys[i]);
    cache->prefetch(hashes[i]);
  }
  for (std::size_t i = 0; i < keys.size(); ++i) cache->prefetch_insert(hashes[i]);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    cache->insert(hashes[i], family.id, keys[i], values[i], version);
  }
}

void TreeState::multi_get(const FamilyRef& family, std::span<const Slice> keys,
                          const Answer& answer) const {
  if (!family.has_data) {
    for (std::size_t i = 0; i < keys.size(); ++i) answer(i, Status::NotFound(), Slice());
    return;
  }
  rocksdb::ReadOptions options;
  options.snapshot = snapshot.get();
  std::vector<rocksdb::PinnableSlice> values(std::min(kCallKeys, keys.size()));
  std::vector<Status> statuses(values.size());
  std::uint64_t misses = 0;
  for (std::size_t from = 0; from < keys.size(); from += kCallKeys) {
    const std::size_t count = std::min(kCallKeys, keys.size() - from);
    db->MultiGet(options, family.handle, count, keys.data() + from, values.data(), statuses.data(),
                 /*sorted_input=*/true);
    std::array<Slice, kCallKeys> kept_keys;
    std::array<Slice, kCallKeys> kept_values;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count; ++i) {
      answer(from + i, statuses[i], values[i]);
      misses += statuses[i].IsNotFound() ? 1 : 0;
      if (!statuses[i].ok() || !wants(family, values[i].size())) continue;
      kept_keys[kept] = keys[from + i];
      kept_values[kept++] = values[i];
    }
    if (kept > 0)
      keep(family, std::span(kept_keys).first(kept), std::span(kept_values).first(kept));
    for (std::size_t i = 0; i < count; ++i) values[i].Reset();
  }
  if (family.misses != nullptr) family.misses->note_misses(misses);
}

void TreeState::contains(const FamilyRef& family, std::span<const Slice> keys,
                         std::span<Status> statuses) const {
  BRECCIA_ASSERT(keys.size() == statuses.size());
  rocksdb::ReadOptions options;
  options.snapshot = snapshot.get();
  options.fill_cache = false;
  std::vector<rocksdb::PinnableSlice> values(keys.size());
  db->MultiGet(options, family.handle, keys.size(), keys.data(), values.data(), statuses.data(),
               /*sorted_input=*/true);
}

std::unique_ptr<rocksdb::Iterator> TreeState::iterate(rocksdb::ReadOptions options,
                                                      const FamilyRef& family) const {
  if (!family.has_data) return nullptr;
  options.snapshot = snapshot.get();
  return std::unique_ptr<rocksdb::Iterator>(db->NewIterator(options, family.handle));
}

}  // namespace breccia::tree
