#include "console/store_flags.h"

#include <breccia/merge_operators.h>
#include <breccia/rocks.h>
#include <gtest/gtest.h>

#include "cli/commands.h"
#include "console/exit_codes.h"
#include "support/folder.h"

/// The commands that open a store: get, put, delete, import, detach.

namespace breccia::console {
namespace {

using testing::Folder;
using testing::Place;

std::string number(std::int64_t value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

/// A store with breccia's addition, two operands in its log and one in a file.
void make_store(const std::string& path) {
  Options options;
  options.create_if_missing = true;
  options.backend = BackendChoice::kHost;
  options.rocksdb.merge_operator = NewInt64AddOperator();
  options.rocksdb.compression = rocksdb::kNoCompression;
  std::unique_ptr<Store> store;
  ASSERT_TRUE(Store::Open(options, path, &store).ok());
  ASSERT_TRUE(store->Merge({}, "sum", number(1)).ok());
  ASSERT_TRUE(store->Flush().ok());
  ASSERT_TRUE(store->Merge({}, "sum", number(2)).ok());
  ASSERT_TRUE(store->Merge({}, "sum", number(4)).ok());
}

StoreFlags flags_for(const std::string& path) {
  StoreFlags flags;
  flags.db = path;
  flags.backend = "host";
  return flags;
}

}  // namespace

// Goal: a store is opened with the merge operator and the options that it was last opened with.
// Method: operands of breccia's own operator are read and added to, twice, as the first opening
//         writes an OPTIONS file of its own.
// Mutation: opening with RocksDB's defaults cannot read the operands.
TEST(StoreFlags, OptionsOfTheLastOpening) {
  const Folder folder(Place::kMemory);
  make_store(folder / "store");
  std::string value;
  for (const std::int64_t expected : {7, 17}) {
    const auto store = flags_for(folder / "store").open();
    ASSERT_NE(store, nullptr);
    const Status status = store->Get("sum", &value);
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(value, number(expected));
    EXPECT_TRUE(store->Merge({}, "sum", number(10)).ok());
    ASSERT_TRUE(store->Flush().ok());
  }
}

// Goal: `breccia detach` flushes operands, which takes their operator.
// Method: a store with operands is detached and read by RocksDB.
// Mutation: options without breccia's operators fail the flush.
TEST(StoreFlags, DetachWithOperands) {
  const Folder folder(Place::kMemory);
  make_store(folder / "store");
  App app("test");
  const Command detach = cli::add_detach(&app);
  ASSERT_FALSE(app.parse({"detach", "--db=" + (folder / "store")}));
  ::testing::internal::CaptureStdout();
  const int code = detach.run();
  std::fflush(stdout);
  ::testing::internal::GetCapturedStdout();
  ASSERT_EQ(code, kExitOk);
  rocksdb::Options options;
  options.merge_operator = NewInt64AddOperator();
  rocksdb::DB* opened = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open(options, folder / "store", &opened).ok());
  const std::unique_ptr<rocksdb::DB> db(opened);
  std::string value;
  EXPECT_TRUE(db->Get({}, "sum", &value).ok());
  EXPECT_EQ(value, number(7));
}

// Goal: where there is nothing yet, a store can still be made.
// Method: an empty folder, without and with create_if_missing.
// Mutation: taking the want of an OPTIONS file for an error fails.
TEST(StoreFlags, NothingThere) {
  const Folder folder(Place::kMemory);
  StoreFlags flags = flags_for(folder / "store");
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(flags.open(), nullptr);
  ::testing::internal::GetCapturedStderr();
  flags.create_if_missing = true;
  EXPECT_NE(flags.open(), nullptr);
}

}  // namespace breccia::console
