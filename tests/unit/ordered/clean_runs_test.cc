#include <breccia/options.h>
#include <breccia/store.h>
#include <gtest/gtest.h>
#include <rocksdb/compaction_filter.h>
#include <rocksdb/db.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "support/append_operator.h"
#include "support/fake_gpu.h"
#include "support/folder.h"
#include "support/refill.h"
#include "support/small_options.h"

/// What stays in memory when it has been flushed. That all answers are right whatever stays is for
/// the metamorphic tests and the streams, which run with none, a little and all of it; here: what
/// stays, what has to go, and who is asked.

namespace breccia::ordered {

namespace {

class CleanRuns : public ::testing::Test {
 protected:
  CleanRuns() {
    options_ = testing::small_options();
    options_.clean_bytes = 1 << 30;
    options_.device_requests_min = 1;
  }
  void open() {
    store_.reset();
    ASSERT_TRUE(Store::Open(options_, folder_ / "store", &store_).ok());
  }
  /// Opens it again, and waits until its clean runs are there.
  void reopen() {
    open();
    testing::wait_for_refill(store_.get());
  }
  [[nodiscard]] std::uint64_t figure(const std::string& name) {
    std::string value;
    EXPECT_TRUE(store_->GetProperty("breccia." + name, &value)) << name;
    return std::stoull(value);
  }
  /// Keys [begin, end) with values of their number and `life`, in one batch.
  void put(int begin, int end, const std::string& life) {
    Batch batch = store_->NewBatch();
    for (int i = begin; i < end; ++i) {
      ASSERT_TRUE(batch.Put(key(i), life + std::to_string(i)).ok());
    }
    ASSERT_TRUE(store_->Submit(WriteOptions(), &batch).ok());
  }
  void expect(int begin, int end, const std::string& life) {
    Batch batch = store_->NewBatch();
    for (int i = begin; i < end; ++i) ASSERT_TRUE(batch.Get(key(i)).ok());
    ASSERT_TRUE(store_->Submit(WriteOptions(), &batch).ok());
    for (int i = begin; i < end; ++i) {
      EXPECT_EQ(batch.value(static_cast<std::size_t>(i - begin)), life + std::to_string(i));
    }
  }
  static std::string key(int i) { return "key" + std::to_string(1'000'000 + i); }

  const testing::Folder folder_{testing::Place::kMemory};
  Options options_;
  std::unique_ptr<Store> store_;
};

}  // namespace

// Goal: after a flush, lookups, misses and ranges are answered as before, without the tree.
// Method: two flushes, one over the other; counts of lookups that went to the tree.
// Mutation: letting go of the runs, or of clean_has_all, asks the tree.
TEST_F(CleanRuns, StayAfterAFlush) {
  open();
  put(0, 500, "old");
  ASSERT_TRUE(store_->Flush().ok());
  put(200, 300, "new");
  ASSERT_TRUE(store_->Delete(WriteOptions(), key(400)).ok());
  ASSERT_TRUE(store_->Flush().ok());
  expect(0, 200, "old");
  expect(200, 300, "new");
  std::string value;
  EXPECT_TRUE(store_->Get(key(400), &value).IsNotFound());
  Batch batch = store_->NewBatch();
  ASSERT_TRUE(batch.Range(key(198), key(202), 10).ok());
  for (const int i : {400, 501}) ASSERT_TRUE(batch.Get(key(i)).ok());
  ASSERT_TRUE(store_->Submit(WriteOptions(), &batch).ok());
  ASSERT_EQ(batch.range_size(0), 4U);
  EXPECT_EQ(batch.range_entry(0, 2).second, "new200");
  for (const int i : {0, 1}) EXPECT_EQ(batch.code(i), Status::Code::kNotFound);
  EXPECT_EQ(figure("gets.from-tree"), 0U);
  EXPECT_EQ(figure("runs"), 0U);
  EXPECT_GT(figure("clean.bytes"), 0U);
  EXPECT_EQ(figure("log-bytes"), 0U);
}

// Goal: what stays is bounded by the budget; what has to go is read from the tree.
// Method: flushes of 8 MiB each, with room for four; values of all; then nothing stays.
// Mutation: a budget that counts something else keeps more; one that forgets clean_has_all finds
//           nothing of what is gone.
TEST_F(CleanRuns, OldestLeave) {
  options_.clean_bytes = 32 << 20;
  options_.log_segment_bytes = 64 << 20;
  open();
  const std::string value(8 << 10, 'v');
  for (int flush = 0; flush < 12; ++flush) {
    put(1024 * flush, 1024 * (flush + 1), value);
    ASSERT_TRUE(store_->Flush().ok());
    EXPECT_LE(figure("clean.log-bytes"), *options_.clean_bytes);
  }
  EXPECT_GT(figure("clean.log-bytes"), *options_.clean_bytes / 2);
  expect(11 * 1024, 12 * 1024, value);
  EXPECT_EQ(figure("gets.from-tree"), 0U);
  expect(0, 1024, value);
  EXPECT_EQ(figure("gets.from-tree"), 1024U);
  options_.clean_bytes = 0;
  open();
  put(0, 10, "again");
  ASSERT_TRUE(store_->Flush().ok());
  EXPECT_EQ(figure("clean.runs"), 0U);
  expect(0, 10, "again");
}

// Goal: many small flushes do not leave many runs to search.
// Method: 100 flushes of ten entries.
// Mutation: without merges there are a hundred.
TEST_F(CleanRuns, AreMerged) {
  open();
  for (int flush = 0; flush < 100; ++flush) {
    put(5 * flush, 5 * flush + 10, std::to_string(flush) + "-");
    ASSERT_TRUE(store_->Flush().ok());
  }
  EXPECT_LT(figure("clean.runs"), 16U);
  for (int i = 0; i < 400; ++i) expect(i, i + 1, std::to_string(i / 5) + "-");
  EXPECT_EQ(figure("gets.from-tree"), 0U);
}

// Goal: what was deleted does not stay: a queue whose front is consumed leaves nothing behind.
// Method: 200 flushes, each with ten new keys and deletions of the ten before.
// Mutation: merges of the oldest run that keep deletions hold 2,000 of them.
TEST_F(CleanRuns, DeletionsLeaveTheOldest) {
  open();
  for (int flush = 0; flush < 200; ++flush) {
    put(10 * flush, 10 * flush + 10, "in");
    for (int i = 10 * flush - 10; i >= 0 && i < 10 * flush; ++i) {
      ASSERT_TRUE(store_->Delete(WriteOptions(), key(i)).ok());
    }
    ASSERT_TRUE(store_->Flush().ok());
  }
  constexpr std::uint64_t kEntryBytes = 16;  // at least, of a run's columns
  EXPECT_LT(figure("clean.bytes"), 1000 * kEntryBytes);
  for (int life = 0; life < 2; ++life) {
    Batch batch = store_->NewBatch();
    for (int i = 0; i < 1990; ++i) ASSERT_TRUE(batch.Get(key(i)).ok());
    ASSERT_TRUE(store_->Submit(WriteOptions(), &batch).ok());
    for (std::size_t i = 0; i < 1990; ++i) ASSERT_EQ(batch.code(i), Status::Code::kNotFound) << i;
    expect(1990, 2000, "in");
    EXPECT_EQ(figure("gets.from-tree"), 0U);
    reopen();
  }
}

// Goal: they stay few where the same keys are written again, so that merged runs hold much of the
//       log and few entries.
// Method: 200 flushes of 50 keys, with a budget of 100 of them.
// Mutation: refusing a merge that holds too much of the log, instead of merging fewer, leaves 100.
TEST_F(CleanRuns, FewOfHotKeys) {
  options_.clean_bytes = 100 * 50 * 64;
  open();
  for (int flush = 0; flush < 200; ++flush) {
    put(0, 50, std::to_string(flush) + "-");
    ASSERT_TRUE(store_->Flush().ok());
    ASSERT_LT(figure("clean.runs"), 25U) << flush;
  }
  expect(0, 50, "199-");
  EXPECT_EQ(figure("gets.from-tree"), 0U);
}

// Goal: clean runs stay few, and right, where the device has no memory for merges now and then.
// Method: a device that refuses one of the next operations, another one each flush.
// Mutation: without the host's road a merge is given up and they become many, or is tried for ever.
TEST_F(CleanRuns, MergeWithoutMemoryOfTheDevice) {
  testing::FakeGpu gpu;
  gpu.use(&options_);
  open();
  for (int flush = 0; flush < 80; ++flush) {
    put(20 * flush, 20 * flush + 30, std::to_string(flush) + "-");
    gpu.faults.fail_after(1 + static_cast<std::uint64_t>(flush % 37), exec::Fault::kOutOfMemory);
    ASSERT_TRUE(store_->Flush().ok());
    ASSERT_LT(figure("clean.runs"), 25U) << flush;
  }
  EXPECT_GT(figure("backend.memory-misses"), 0U);
  for (int i = 0; i < 1600; ++i) expect(i, i + 1, std::to_string(i / 20) + "-");
  std::string retired;
  ASSERT_TRUE(store_->GetProperty("breccia.backend-retired", &retired));
  EXPECT_EQ(retired, "OK");
}

// Goal: nothing stays above which the tree has other values.
// Method: operands, then range deletions, flushed above clean entries; a flush of puts after each.
// Mutation: keeping what was clean before finds the old value; keeping operands counts them twice.
TEST_F(CleanRuns, OperandsAndRangeDeletionsEmptyThem) {
  options_.rocksdb.merge_operator = std::make_shared<testing::AppendOperator>();
  open();
  put(0, 100, "a");
  ASSERT_TRUE(store_->Flush().ok());
  ASSERT_TRUE(store_->Merge(WriteOptions(), key(3), "b").ok());
  ASSERT_TRUE(store_->Flush().ok());
  EXPECT_EQ(figure("clean.runs"), 0U);
  std::string value;
  ASSERT_TRUE(store_->Get(key(3), &value).ok());
  EXPECT_EQ(value, "a3,b");
  put(0, 2, "c");
  ASSERT_TRUE(store_->Flush().ok());
  EXPECT_EQ(figure("clean.runs"), 1U);
  expect(0, 2, "c");
  expect(50, 60, "a");
  Batch batch = store_->NewBatch();
  ASSERT_TRUE(batch.DeleteRange(kDefaultFamily, key(0), key(50)).ok());
  ASSERT_TRUE(store_->Submit(WriteOptions(), &batch).ok());
  ASSERT_TRUE(store_->Flush().ok());
  EXPECT_EQ(figure("clean.runs"), 0U);
  EXPECT_TRUE(store_->Get(key(1), &value).IsNotFound());
  expect(50, 60, "a");
}

namespace {

class DropsAll : public rocksdb::CompactionFilter {
 public:
  bool Filter(int, const Slice&, const Slice&, std::string*, bool*) const override { return true; }
  [[nodiscard]] const char* Name() const override { return "DropsAll"; }
};

}  // namespace

// Goal: where a compaction may change what readers see, nothing stays to hide that.
// Method: a compaction filter in the options.
// Mutation: keeping runs of such a family.
TEST_F(CleanRuns, NotBesideACompactionFilter) {
  const DropsAll filter;
  options_.rocksdb.compaction_filter = &filter;
  open();
  put(0, 100, "a");
  ASSERT_TRUE(store_->Flush().ok());
  EXPECT_EQ(figure("clean.runs"), 0U);
  expect(0, 100, "a");
}

// Goal: a store that is opened again has what it had, and asks the tree for nothing.
// Method: two families, flushes over several segments, a key deleted and one written twice; closed
//         and opened twice, with writes that are not flushed in between.
// Mutation: a note without has_all, or one that is not written again at the second opening, asks
//           the tree; frames taken in the wrong order find an old value.
TEST_F(CleanRuns, AreFilledAgain) {
  options_.families = {{"other", options_.rocksdb}};
  open();
  const FamilyId other = store_->Families().back().second;
  const std::string large(16 << 10, 'v');
  put(0, 5000, large);
  ASSERT_TRUE(store_->Flush().ok());
  Batch batch = store_->NewBatch();
  ASSERT_TRUE(batch.Put(other, "in other", "family").ok());
  ASSERT_TRUE(batch.Put(key(7), "newer").ok());
  ASSERT_TRUE(batch.Delete(key(8)).ok());
  ASSERT_TRUE(store_->Submit(WriteOptions(), &batch).ok());
  ASSERT_TRUE(store_->Flush().ok());
  put(5000, 5010, "not flushed");
  for (int life = 0; life < 2; ++life) {
    reopen();
    EXPECT_GT(figure("clean.log-bytes"), 5000U * large.size());
    expect(100, 5000, large);
    expect(5000, 5010, "not flushed");
    std::string value;
    ASSERT_TRUE(store_->Get(key(7), &value).ok());
    EXPECT_EQ(value, "newer");
    Batch reads = store_->NewBatch();
    for (const int i : {8, 6000}) ASSERT_TRUE(reads.Get(key(i)).ok());
    ASSERT_TRUE(reads.Get(other, "in other").ok());
    ASSERT_TRUE(reads.Get(other, "not there").ok());
    ASSERT_TRUE(store_->Submit(WriteOptions(), &reads).ok());
    for (const int i : {0, 1, 3}) EXPECT_EQ(reads.code(i), Status::Code::kNotFound);
    EXPECT_EQ(reads.value(2), "family");
    EXPECT_EQ(figure("gets.from-tree"), 0U);
  }
}

// Goal: after a reopening, too, they stay within the budget: the newest are there, the rest is in
//       the tree, and the log gives back its segments.
// Method: 24 MiB in flushes of 1 MiB, opened again with room for eight.
// Mutation: a refill that does not look at the budget has all; one that begins with the oldest has
//           not the newest.
TEST_F(CleanRuns, NewestAreFilledAgain) {
  open();
  const std::string value(8 << 10, 'v');
  for (int flush = 0; flush < 24; ++flush) {
    put(128 * flush, 128 * (flush + 1), value);
    ASSERT_TRUE(store_->Flush().ok());
  }
  options_.clean_bytes = 8 << 20;
  reopen();
  EXPECT_LE(figure("clean.log-bytes"), *options_.clean_bytes);
  EXPECT_GT(figure("clean.log-bytes"), *options_.clean_bytes / 2);
  expect(20 * 128, 24 * 128, value);
  EXPECT_EQ(figure("gets.from-tree"), 0U);
  expect(0, 128, value);
  EXPECT_EQ(figure("gets.from-tree"), 128U);
  put(0, 10, "again");
  ASSERT_TRUE(store_->Flush().ok());
  expect(0, 10, "again");
}

// Goal: whoever changes the tree with RocksDB between two lives of a store is not hidden.
// Method: a value written by RocksDB itself over one that was flushed.
// Mutation: believing a note of another MANIFEST finds the old value.
TEST_F(CleanRuns, NotBelowWhatRocksdbWrote) {
  open();
  put(0, 100, "a");
  ASSERT_TRUE(store_->Flush().ok());
  store_.reset();
  rocksdb::Options options = options_.rocksdb;
  std::vector<std::string> names;
  ASSERT_TRUE(rocksdb::DB::ListColumnFamilies(options, folder_ / "store", &names).ok());
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (const std::string& name : names) families.emplace_back(name, options);
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* opened = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open(options, folder_ / "store", families, &handles, &opened).ok());
  const std::unique_ptr<rocksdb::DB> tree(opened);
  ASSERT_TRUE(tree->Put(rocksdb::WriteOptions(), key(3), "RocksDB's").ok());
  ASSERT_TRUE(tree->Flush(rocksdb::FlushOptions()).ok());
  for (auto* const handle : handles) {
    ASSERT_TRUE(tree->DestroyColumnFamilyHandle(handle).ok());
  }
  ASSERT_TRUE(tree->Close().ok());
  reopen();
  EXPECT_EQ(figure("clean.runs"), 0U);
  std::string value;
  ASSERT_TRUE(store_->Get(key(3), &value).ok());
  EXPECT_EQ(value, "RocksDB's");
  expect(4, 100, "a");
}

// Goal: what a compaction filter took away in one life does not come back in the next.
// Method: flushed, opened with a filter that drops all, flushed until a compaction came, opened
//         without it.
// Mutation: a note that keeps the family's part beside a filter finds all again.
TEST_F(CleanRuns, NotBelowACompactionFilter) {
  options_.rocksdb.num_levels = 2;
  options_.rocksdb.level0_file_num_compaction_trigger = 1;
  open();
  put(0, 100, "a");
  ASSERT_TRUE(store_->Flush().ok());
  const DropsAll filter;
  options_.rocksdb.compaction_filter = &filter;
  reopen();
  EXPECT_EQ(figure("clean.runs"), 0U);
  std::string value;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (int flush = 0;
       std::chrono::steady_clock::now() < deadline && store_->Get(key(3), &value).ok(); ++flush) {
    put(0, 3, std::to_string(flush));
    put(4, 10, std::to_string(flush));
    ASSERT_TRUE(store_->Flush().ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ASSERT_TRUE(store_->Get(key(3), &value).IsNotFound()) << "nothing was compacted";
  options_.rocksdb.compaction_filter = nullptr;
  reopen();
  EXPECT_TRUE(store_->Get(key(3), &value).IsNotFound());
}

// Goal: operands, which are combined in the tree, end what can be filled again.
// Method: puts, then operands over some, then puts; each flushed; opened again.
// Mutation: a note that reaches below the operands finds old values, or fails.
TEST_F(CleanRuns, FilledAgainFromBehindOperands) {
  options_.rocksdb.merge_operator = std::make_shared<testing::AppendOperator>();
  open();
  put(0, 100, "a");
  ASSERT_TRUE(store_->Flush().ok());
  ASSERT_TRUE(store_->Merge(WriteOptions(), key(3), "b").ok());
  ASSERT_TRUE(store_->Flush().ok());
  put(50, 60, "c");
  ASSERT_TRUE(store_->Flush().ok());
  reopen();
  EXPECT_EQ(figure("clean.runs"), 1U);
  expect(50, 60, "c");
  EXPECT_EQ(figure("gets.from-tree"), 0U);
  std::string value;
  ASSERT_TRUE(store_->Get(key(3), &value).ok());
  EXPECT_EQ(value, "a3,b");
}

}  // namespace breccia::ordered
