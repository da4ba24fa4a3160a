#include "tree/ignored_fields.h"

#include <gtest/gtest.h>
#include <rocksdb/write_buffer_manager.h>

#include "facade/db/options.h"

namespace breccia::tree {

namespace {

/// Sets every field that breccia has one of its own for.
void set_all(rocksdb::Options* options) {
  options->create_if_missing = options->error_if_exists = true;
  options->wal_dir = "/elsewhere";
  options->write_buffer_size = 1 << 20;
  options->db_write_buffer_size = 1 << 20;
  options->max_total_wal_size = 1 << 20;
  options->write_buffer_manager = std::make_shared<rocksdb::WriteBufferManager>(1 << 20);
  options->WAL_size_limit_MB = 1;
}

}  // namespace

// Goal: who sets a field of RocksDB's that has no effect is told which one to set.
// Method: all of them at once; with breccia's own beside them; as RocksDB's options hand them on.
// Mutation: a field that is forgotten, or named although breccia's own is set, fails.
TEST(IgnoredFields, AreNamed) {
  Options options;
  EXPECT_TRUE(ignored_fields(options, "/db").empty());
  set_all(&options.rocksdb);
  EXPECT_EQ(ignored_fields(options, "/db").size(), 8u);
  options.rocksdb.wal_dir = "/db/";
  EXPECT_EQ(ignored_fields(options, "/db").size(), 7u);
  options.rocksdb.wal_dir = "/elsewhere";
  options.create_if_missing = options.error_if_exists = true;
  options.wal_dir = "/log";
  options.memtable_bytes = 1 << 30;
  options.log_keep_bytes = 1 << 20;
  EXPECT_TRUE(ignored_fields(options, "/db").empty());
  rocksdb::Options program;
  set_all(&program);
  EXPECT_TRUE(ignored_fields(facade::engine_options(program, "/db", {{"default", program}}), "/db")
                  .empty());
}

}  // namespace breccia::tree
