#include "tree/read_defaults.h"

#include <breccia/store.h>
#include <gtest/gtest.h>
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>

#include "ordered/engine.h"
#include "support/folder.h"
#include "support/small_options.h"

namespace breccia::tree {

namespace {

const rocksdb::BlockBasedTableOptions& table_of(const rocksdb::ColumnFamilyOptions& family) {
  return *family.table_factory->GetOptions<rocksdb::BlockBasedTableOptions>();
}

/// Table options of a tree's default family.
rocksdb::BlockBasedTableOptions table_of(Store* store) {
  auto& engine = dynamic_cast<ordered::Engine&>(*store);
  return table_of(engine.below().db()->GetOptions());
}

}  // namespace

// Goal: what the user chose stays, and what nobody chose is chosen, with one cache for all.
// Method: families with nothing, a filter, caches of several sizes, no cache at all.
// Mutation: a cache for each family, or a filter over the user's, fails.
TEST(ReadDefaults, FillWhatNobodyChose) {
  Options options;
  options.families.resize(5);
  const auto set = [&](std::size_t family, const rocksdb::BlockBasedTableOptions& table) {
    options.families[family].second.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  };
  rocksdb::BlockBasedTableOptions with_filter;
  with_filter.filter_policy.reset(rocksdb::NewRibbonFilterPolicy(7));
  with_filter.block_size = 16 << 10;
  set(0, with_filter);
  rocksdb::BlockBasedTableOptions with_cache;
  with_cache.block_cache = rocksdb::NewLRUCache(8 << 20);  // as large as RocksDB's, and held here
  set(1, with_cache);
  rocksdb::BlockBasedTableOptions with_small_cache;
  with_small_cache.block_cache = rocksdb::NewLRUCache(1 << 20);
  set(2, with_small_cache);
  rocksdb::BlockBasedTableOptions without_cache;
  without_cache.no_block_cache = true;
  set(3, without_cache);
  options.families[4].second.table_factory.reset(rocksdb::NewPlainTableFactory());
  const auto plain = options.families[4].second.table_factory;

  fill_read_defaults(&options);
  const auto table = [&](std::size_t i) { return table_of(options.families[i].second); };
  const auto cache = table_of(options.rocksdb).block_cache;
  EXPECT_EQ(cache->GetCapacity(), default_block_cache_bytes());
  EXPECT_EQ(table_of(options.rocksdb).filter_policy->GetId(), "bloomfilter:10:false");
  EXPECT_EQ(table(0).filter_policy, with_filter.filter_policy);
  EXPECT_EQ(table(0).block_size, with_filter.block_size);
  EXPECT_EQ(table(0).block_cache, cache);
  EXPECT_EQ(table(1).block_cache, with_cache.block_cache);
  EXPECT_NE(table(1).filter_policy, nullptr);
  EXPECT_EQ(table(2).block_cache, with_small_cache.block_cache);
  EXPECT_TRUE(table(3).no_block_cache);
  EXPECT_EQ(table(3).block_cache, nullptr);
  EXPECT_EQ(options.families[4].second.table_factory, plain);
  EXPECT_EQ(options.entry_cache_bytes, default_entry_cache_bytes());
  EXPECT_GE(default_entry_cache_bytes(), kEntryCacheBytes);
  options.entry_cache_bytes = 0;
  fill_read_defaults(&options);
  EXPECT_EQ(options.entry_cache_bytes, 0U);
}

// Goal: a Store has them, an engine that is opened for a Rocks has not, nor has who does not want
//   them.
// Method: the tree's options once each is open.
// Mutation: filling them in Engine::open, or whatever the option says, fails.
TEST(ReadDefaults, AreAStores) {
  const testing::Folder folder{testing::Place::kMemory};
  Options options = testing::small_options();
  std::unique_ptr<Store> store;
  ASSERT_TRUE(Store::Open(options, folder / "store", &store).ok());
  EXPECT_EQ(table_of(store.get()).block_cache->GetCapacity(), default_block_cache_bytes());
  EXPECT_NE(table_of(store.get()).filter_policy, nullptr);
  store.reset();

  std::unique_ptr<ordered::Engine> engine;
  ASSERT_TRUE(ordered::Engine::open(options, folder / "engine", &engine).ok());
  EXPECT_EQ(table_of(engine.get()).filter_policy, nullptr);
  EXPECT_LT(table_of(engine.get()).block_cache->GetCapacity(), default_block_cache_bytes());
  engine.reset();

  options.read_defaults = false;
  ASSERT_TRUE(Store::Open(options, folder / "without", &store).ok());
  EXPECT_EQ(table_of(store.get()).filter_policy, nullptr);
}

}  // namespace breccia::tree
