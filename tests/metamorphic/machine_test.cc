#include "machine.h"

#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <rocksdb/listener.h>

#include <atomic>
#include <memory>
#include <string>

#include "support/folder.h"
#include "support/sparse_files.h"

namespace breccia::metamorphic {

namespace {

/// Crashes the machine when the first bytes of a table that a compaction makes are written.
class CrashAtTable final : public rocksdb::EventListener {
 public:
  explicit CrashAtTable(Machine* machine) : machine_(machine) {}
  void OnTableFileCreationStarted(const rocksdb::TableFileCreationBriefInfo& info) override {
    compacts_ = info.reason == rocksdb::TableFileCreationReason::kCompaction;
  }
  void OnFileWriteFinish(const rocksdb::FileOperationInfo& info) override {
    if (compacts_ && info.path.ends_with(".sst")) machine_->crash();
  }
  bool ShouldBeNotifiedOnFileIO() override { return true; }

 private:
  Machine* machine_;
  std::atomic<bool> compacts_{false};
};

}  // namespace

// Goal: a crash ends a compaction, and not the process, also where nothing would be left of it.
// Method: RocksDB alone; two tables that hold range tombstones and nothing else are compacted, and
//   the machine crashes between the output's first bytes and its sync.
// Mutation: a table's writes that fail after a crash end the process in a RocksDB with assertions
//   (`CompactionState::SmallestUserKey` looks into the key that the output does not have).
TEST(Machine, ACrashInACompactionThatLeavesNothing) {
  const testing::Folder folder(testing::Place::kMemory);
  Machine machine(testing::make_sparse_files());
  rocksdb::Options options;
  options.create_if_missing = true;
  options.disable_auto_compactions = true;
  options.env = machine.env();
  options.listeners.push_back(std::make_shared<CrashAtTable>(&machine));
  rocksdb::DB* opened = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open(options, folder.path(), &opened).ok());
  const std::unique_ptr<rocksdb::DB> db(opened);
  for (const char* const end : {"c", "d"}) {
    ASSERT_TRUE(db->DeleteRange({}, db->DefaultColumnFamily(), "a", end).ok());
    ASSERT_TRUE(db->Flush({}).ok());
  }
  EXPECT_FALSE(db->CompactRange({}, nullptr, nullptr).ok());
}

}  // namespace breccia::metamorphic
