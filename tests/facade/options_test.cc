#include "facade/db/options.h"

#include <gtest/gtest.h>
#include <rocksdb/write_buffer_manager.h>

namespace breccia::facade {

namespace {

constexpr std::uint64_t kMiB = 1 << 20;

Descriptors families_of(std::size_t write_buffer_size, int count) {
  rocksdb::ColumnFamilyOptions options;
  options.write_buffer_size = write_buffer_size;
  Descriptors families{{"default", options}};
  for (int i = 1; i < count; ++i) families.emplace_back(std::to_string(i), options);
  return families;
}

}  // namespace

// Goal: memory for writes follows what RocksDB was told, within reason.
// Method: defaults, larger and smaller buffers, each of the limits.
// Mutation: ignoring a limit fails.
TEST(FacadeOptions, MemtableBytes) {
  rocksdb::DBOptions db;
  const auto bytes = [&](const Descriptors& families) {
    return engine_options(db, "db", families).memtable_bytes;
  };
  EXPECT_EQ(bytes(families_of(64 * kMiB, 3)), 0u);
  EXPECT_EQ(bytes(families_of(256 * kMiB, 1)), 512 * kMiB);
  EXPECT_EQ(bytes(families_of(256 * kMiB, 3)), 1536 * kMiB);
  EXPECT_EQ(bytes(families_of(kMiB, 1)), 128 * kMiB);
  db.db_write_buffer_size = 1024 * kMiB;
  EXPECT_EQ(bytes(families_of(256 * kMiB, 3)), 1024 * kMiB);
  EXPECT_EQ(bytes(families_of(64 * kMiB, 3)), 1024 * kMiB);
  db.max_total_wal_size = 768 * kMiB;
  EXPECT_EQ(bytes(families_of(256 * kMiB, 3)), 768 * kMiB);
  db.write_buffer_manager = std::make_shared<rocksdb::WriteBufferManager>(256 * kMiB);
  EXPECT_EQ(bytes(families_of(256 * kMiB, 3)), 256 * kMiB);
}

// Goal: a size near 2^64 means as much as there can be, not what is left of it.
// Method: WAL_size_limit_MB and write buffers whose bytes do not fit 64 bits, and the last that do.
// Mutation: a shift or a product that wraps keeps nothing, or next to nothing.
TEST(FacadeOptions, LargeSizesDoNotWrap) {
  constexpr std::uint64_t kMost = ~std::uint64_t{0};
  rocksdb::DBOptions db;
  const auto keep = [&](std::uint64_t megabytes) {
    db.WAL_size_limit_MB = megabytes;
    return engine_options(db, "db", families_of(kMiB, 1)).log_keep_bytes;
  };
  EXPECT_EQ(keep(0), 0u);
  EXPECT_EQ(keep(3), 3 * kMiB);
  EXPECT_EQ(keep(kMost / kMiB), kMost / kMiB * kMiB);
  EXPECT_EQ(keep(kMost / kMiB + 1), kMost);
  EXPECT_EQ(keep(kMost), kMost);
  const std::uint64_t half = std::uint64_t{1} << 63;
  EXPECT_EQ(engine_options(db, "db", families_of(half, 1)).memtable_bytes, kMost);
  EXPECT_EQ(engine_options(db, "db", families_of(half / 2, 3)).memtable_bytes, kMost);
}

// Goal: the options that open mean what they mean in RocksDB.
// Method: flags, families, folders of the log.
// Mutation: taking the database's own folder for the log's fails.
TEST(FacadeOptions, Opening) {
  rocksdb::DBOptions db;
  db.create_if_missing = true;
  db.error_if_exists = true;
  Options options = engine_options(db, "/data/db", families_of(kMiB, 2));
  EXPECT_TRUE(options.create_if_missing);
  EXPECT_TRUE(options.error_if_exists);
  EXPECT_EQ(options.rocksdb.write_buffer_size, kMiB);
  ASSERT_EQ(options.families.size(), 1u);
  EXPECT_EQ(options.families[0].first, "1");
  EXPECT_EQ(options.wal_dir, "");
  db.wal_dir = "/data/db/";
  EXPECT_EQ(engine_options(db, "/data/db", families_of(kMiB, 1)).wal_dir, "");
  db.wal_dir = "/wal";
  EXPECT_EQ(engine_options(db, "/data/db", families_of(kMiB, 1)).wal_dir, "/wal/log");
}

}  // namespace breccia::facade
