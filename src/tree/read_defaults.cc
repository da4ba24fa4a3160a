#include "tree/read_defaults.h"

#include <rocksdb/cache.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>

#include <algorithm>

#include "base/machine.h"

namespace breccia::tree {

namespace {

/// Of the cache that a table factory makes itself.
constexpr std::size_t kRocksdbCacheBytes = 8 << 20;

bool has_own_cache(const rocksdb::BlockBasedTableOptions& table) {
  if (table.no_block_cache) return true;
  return table.block_cache != nullptr && (table.block_cache->GetCapacity() != kRocksdbCacheBytes ||
                                          table.block_cache.use_count() > 1);
}

}  // namespace

std::uint64_t default_block_cache_bytes() {
  return std::max<std::uint64_t>(base::usable_memory_bytes() / 8, kRocksdbCacheBytes);
}

std::uint64_t default_entry_cache_bytes() {
  return std::max<std::uint64_t>(base::usable_memory_bytes() / 16, kEntryCacheBytes);
}

void fill_read_defaults(Options* options) {
  if (!options->entry_cache_bytes.has_value()) {
    options->entry_cache_bytes = default_entry_cache_bytes();
  }
  std::shared_ptr<rocksdb::Cache> cache;
  const auto fill = [&](rocksdb::ColumnFamilyOptions* family) {
    if (family->table_factory == nullptr) return;
    const auto* const given = family->table_factory->GetOptions<rocksdb::BlockBasedTableOptions>();
    if (given == nullptr) return;
    const bool keeps_cache = has_own_cache(*given);  // before the copy holds the cache, too
    if (keeps_cache && given->filter_policy != nullptr) return;
    rocksdb::BlockBasedTableOptions table = *given;
    if (!keeps_cache) {
      if (cache == nullptr) cache = rocksdb::NewLRUCache(default_block_cache_bytes());
      table.block_cache = cache;
    }
    if (table.filter_policy == nullptr) {
      table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(kBloomBitsPerKey));
    }
    family->table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  };
  fill(&options->rocksdb);
  for (auto& [name, family] : options->families) fill(&family);
}

}  // namespace breccia::tree
