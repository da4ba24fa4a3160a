#include "tree/tree_state.h"

#include <rocksdb/db.h>

#include <vector>

#include "base/assert.h"

namespace breccia::tree {

namespace {

/// Of those keys that the cache does not answer.
struct Misses {
  std::vector<std::size_t> index;
  std::vector<std::uint64_t> hash;  // if the family is cached
  std::vector<Slice> keys;

  void add(std::size_t i, std::uint64_t key_hash, const Slice& key) {
    index.push_back(i);
    hash.push_back(key_hash);
    keys.push_back(key);
  }
};

Misses ask_cache(const TreeState& state, const FamilyRef& family, std::span<const Slice> keys,
                 const std::uint32_t* refs, const TreeState::Answer& answer) {
  Misses misses;
  if (!state.caches(family)) {
    for (std::size_t i = 0; i < keys.size(); ++i) misses.add(i, 0, keys[i]);
    return misses;
  }
  const cache::RowCache& cache = *state.cache;
  std::vector<std::uint64_t> hashes(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    hashes[i] = cache::RowCache::hash(family.id, keys[i]);
    if (refs != nullptr) {
      cache.prefetch_at(refs[i]);
    } else {
      cache.prefetch(hashes[i]);
    }
  }
  cache::RowCache::ValueBuffer buffer;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto bytes =
        refs != nullptr ? state.cache->find_at(refs[i], family.id, keys[i], state.version, &buffer)
                        : state.cache->find(hashes[i], family.id, keys[i], state.version, &buffer);
    if (bytes.has_value()) {
      answer(i, Status::OK(), Slice(buffer.data(), *bytes));
    } else {
      misses.add(i, hashes[i], keys[i]);
    }
  }
  return misses;
}

}  // namespace

Status TreeState::get(const FamilyRef& family, const Slice& key,
                      rocksdb::PinnableSlice* value) const {
  if (!family.has_data) return Status::NotFound();
  const bool is_cached = caches(family);
  const std::uint64_t hash = is_cached ? cache::RowCache::hash(family.id, key) : 0;
  if (is_cached) {
    cache::RowCache::ValueBuffer buffer;
    const auto bytes = cache->find(hash, family.id, key, version, &buffer);
    if (bytes.has_value()) {
      value->PinSelf(Slice(buffer.data(), *bytes));
      return Status::OK();
    }
  }
  rocksdb::ReadOptions options;
  options.snapshot = snapshot.get();
  const Status status = db->Get(options, family.handle, key, value);
  if (is_cached && status.ok()) cache->insert(hash, family.id, key, *value, version);
  return status;
}

void TreeState::multi_get(const FamilyRef& family, std::span<const Slice> keys,
                          const std::uint32_t* refs, const Answer& answer) const {
  if (!family.has_data) {
    for (std::size_t i = 0; i < keys.size(); ++i) answer(i, Status::NotFound(), Slice());
    return;
  }
  const Misses misses = ask_cache(*this, family, keys, refs, answer);
  const std::size_t count = misses.keys.size();
  if (count == 0) return;
  std::vector<rocksdb::PinnableSlice> values(count);
  std::vector<Status> statuses(count);
  rocksdb::ReadOptions options;
  options.snapshot = snapshot.get();
  db->MultiGet(options, family.handle, count, misses.keys.data(), values.data(), statuses.data(),
               /*sorted_input=*/false);
  const bool is_cached = caches(family);
  for (std::size_t j = 0; j < count; ++j) {
    answer(misses.index[j], statuses[j], values[j]);
    if (is_cached && statuses[j].ok()) {
      cache->insert(misses.hash[j], family.id, misses.keys[j], values[j], version);
    }
  }
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
