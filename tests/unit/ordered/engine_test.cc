#include <breccia/merge_operators.h>
#include <breccia/options.h>
#include <breccia/store.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/limits.h"
#include "ordered/engine.h"
#include "support/faulty_files.h"
#include "support/folder.h"
#include "support/small_options.h"
#include "tree/install_gate.h"

namespace breccia::ordered {

namespace {

using testing::small_options;

class EngineTest : public ::testing::Test {
 protected:
  Status open(const Options& options) {
    store_.reset();
    return Store::Open(options, path(), &store_);
  }
  [[nodiscard]] std::string path() const { return folder_ / "store"; }
  std::string property(const std::string& name) {
    std::string value;
    EXPECT_TRUE(store_->GetProperty(name, &value)) << name;
    return value;
  }

  const testing::Folder folder_{testing::Place::kMemory};
  std::unique_ptr<Store> store_;
};

}  // namespace

// Goal: opening says what is wrong, and changes nothing then.
// Method: a missing store, an existing one against the options, a second opener, a lost log.
// Mutation: opening a store whose log folder is gone as if it were new loses data silently.
TEST_F(EngineTest, OpeningErrors) {
  Options options = small_options();
  options.create_if_missing = false;
  EXPECT_TRUE(open(options).IsInvalidArgument());
  options.create_if_missing = true;
  ASSERT_TRUE(open(options).ok());
  ASSERT_TRUE(store_->Put(WriteOptions(), "key", "value").ok());

  std::unique_ptr<Store> second;
  EXPECT_TRUE(Store::Open(options, path(), &second).IsIOError());
  EXPECT_EQ(second, nullptr);

  options.error_if_exists = true;
  EXPECT_TRUE(open(options).IsInvalidArgument());
  options.error_if_exists = false;

  std::filesystem::rename(path() + "/log", path() + "/elsewhere");
  EXPECT_TRUE(open(options).IsCorruption());
  std::filesystem::remove_all(path() + "/log");
  std::filesystem::rename(path() + "/elsewhere", path() + "/log");
  ASSERT_TRUE(open(options).ok());
  std::string value;
  EXPECT_TRUE(store_->Get("key", &value).ok());
  EXPECT_EQ(store_->recovery().entries, 1u);
  EXPECT_EQ(store_->recovery().dropped_bytes, 0u);
}

// Goal: a key that is too long to exist is not found, and the others of its call are.
// Method: MultiGet of a short key, one over the limit, and a short one again.
// Mutation: adding the long key to the batch fails all three.
TEST_F(EngineTest, MultiGetOfAKeyTooLong) {
  ASSERT_TRUE(open(small_options()).ok());
  ASSERT_TRUE(store_->Put(WriteOptions(), "a", "1").ok());
  ASSERT_TRUE(store_->Put(WriteOptions(), "b", "2").ok());
  const std::string too_long(limits::kKeyBytesMax + 1, 'a');
  const Slice keys[] = {"a", too_long, "b"};
  std::vector<std::string> values;
  const std::vector<Status> statuses = store_->MultiGet(keys, &values);
  EXPECT_TRUE(statuses[0].ok());
  EXPECT_TRUE(statuses[1].IsNotFound());
  EXPECT_TRUE(statuses[2].ok());
  EXPECT_EQ(values, (std::vector<std::string>{"1", "", "2"}));
}

// Goal: every figure has a name, and RocksDB's are handed on.
// Method: all names before and after a flush; a name that nobody knows.
// Mutation: dropping a name from GetProperty fails; so does changing the value for an unknown one.
TEST_F(EngineTest, Properties) {
  Options options = small_options();
  options.device_requests_min = 4;
  ASSERT_TRUE(open(options).ok());
  Batch batch;
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(batch.Put(std::to_string(i), "v").ok());
  ASSERT_TRUE(store_->Submit(WriteOptions(), &batch).ok());
  ASSERT_TRUE(store_->Put(WriteOptions(), "one", "v").ok());
  EXPECT_NE(property("breccia.backend").find("host"), std::string::npos);
  EXPECT_EQ(property("breccia.backend-retired"), "OK");
  EXPECT_GT(std::stoull(property("breccia.log-bytes")), 0u);
  EXPECT_EQ(property("breccia.runs"), "1");
  EXPECT_EQ(property("breccia.memtable-entries"), "1");
  EXPECT_EQ(property("breccia.batches"), "2");
  EXPECT_EQ(property("breccia.requests.put"), "11");
  EXPECT_EQ(property("breccia.flush.count"), "0");
  EXPECT_EQ(property("breccia.runs.merges"), "0");
  EXPECT_GT(std::stoull(property("breccia.device-bytes")), 0u);
  EXPECT_EQ(property("breccia.read-only"), "");
  for (const char* name : {"hits", "misses", "inserts", "evictions", "erased", "skipped",
                           "device-hits", "device-copies", "bytes"}) {
    EXPECT_EQ(property(std::string("breccia.entry-cache.") + name), "0");
  }
  for (const char* name : {"queued", "switches", "batches", "groups"}) {
    EXPECT_EQ(property(std::string("breccia.admission.") + name), "0");
  }
  EXPECT_EQ(property("breccia.admission.mode"), "alone");
  EXPECT_EQ(property("breccia.admission.threshold"), "10000");
  ASSERT_TRUE(store_->Flush().ok());
  EXPECT_EQ(property("breccia.runs"), "0");
  EXPECT_EQ(property("breccia.memtable-entries"), "0");
  EXPECT_EQ(property("breccia.flush.count"), "1");
  EXPECT_EQ(property("breccia.log-bytes"), "0");
  EXPECT_FALSE(property("rocksdb.stats").empty());
  std::string value = "as before";
  EXPECT_FALSE(store_->GetProperty("breccia.no-such-figure", &value));
  EXPECT_FALSE(store_->GetProperty("rocksdb.no-such-figure", &value));
  EXPECT_EQ(value, "as before");
}

// Goal: a write that finds no room fails with Incomplete when its time is over, and only it.
// Method: a tree whose compactions are paused takes no more files, so that no flush can run; writes
//   until one is refused. When the tree goes on, so do writes.
// Mutation: a flusher that ignores Tree::overloaded lets every write through; counting the refused
//   write, too, fails.
TEST_F(EngineTest, NoRoomWhenFlushesAreHeldBack) {
  Options options = small_options();
  options.memtable_bytes = 1 << 20;
  options.wait_us_max = 60'000;
  options.rocksdb.level0_file_num_compaction_trigger = 1;
  options.rocksdb.level0_slowdown_writes_trigger = 1;
  options.rocksdb.level0_stop_writes_trigger = 1;
  ASSERT_TRUE(open(options).ok());
  rocksdb::DB* const tree = static_cast<Engine&>(*store_).below().db();
  ASSERT_TRUE(tree->PauseBackgroundWork().ok());
  const std::string value(100 << 10, 'v');
  Status status;
  int written = 0;
  auto before = std::chrono::steady_clock::now();
  while (status.ok() && written < 100) {
    before = std::chrono::steady_clock::now();
    status = store_->Put(WriteOptions(), "key " + std::to_string(written % 7), value);
    if (status.ok()) ++written;
  }
  const auto waited = std::chrono::steady_clock::now() - before;
  EXPECT_TRUE(status.IsIncomplete()) << status.ToString();
  EXPECT_GE(waited, std::chrono::milliseconds(60));
  EXPECT_GE(written, 10);
  for (const char* name : {"breccia.batches", "breccia.requests.put"}) {
    EXPECT_EQ(property(name), std::to_string(written)) << name;
  }
  EXPECT_EQ(property("breccia.read-only"), "");
  std::string found;
  for (int i = 0; i < 7; ++i) {
    EXPECT_TRUE(store_->Get("key " + std::to_string(i), &found).ok());
    EXPECT_EQ(found, value);
  }
  ASSERT_TRUE(tree->ContinueBackgroundWork().ok());
  for (int tries = 0; tries < 1000 && status.IsIncomplete(); ++tries) {
    status = store_->Put(WriteOptions(), "key", value);
  }
  EXPECT_TRUE(status.ok()) << status.ToString();
}

// Goal: a log of many small batches is recovered as few runs.
// Method: 400 batches of one write, each a run with descriptors; opened again, read as a batch.
// Mutation: a run for each recovered frame exceeds what a search may visit.
TEST_F(EngineTest, ManySmallFramesBecomeFewRuns) {
  constexpr int kFrames = 400;
  Options options = small_options();
  options.device_requests_min = 1;
  ASSERT_TRUE(open(options).ok());
  for (int i = 0; i < kFrames; ++i) {
    ASSERT_TRUE(store_->Put(WriteOptions(), std::to_string(i % 300), std::to_string(i)).ok());
  }
  ASSERT_TRUE(open(options).ok());
  EXPECT_EQ(store_->recovery().frames, static_cast<std::uint64_t>(kFrames));
  Batch batch;
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(batch.Get(std::to_string(i)).ok());
  ASSERT_TRUE(store_->Submit(WriteOptions(), &batch).ok());
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(batch.value(i), std::to_string(i < 100 ? i + 300 : i));
  }
  EXPECT_LT(std::stoull(property("breccia.runs")), 10u);
}

// Goal: positions that an opening skips are released, so that a small log limit stays usable.
// Method: a limit far below a segment's size, many openings, a write after each.
// Mutation: a flush that does nothing without runs fails with Incomplete after the second opening.
TEST_F(EngineTest, GapsOfOpeningsAreReleased) {
  Options options = small_options();
  options.memtable_bytes = 64 << 10;
  options.wait_us_max = 5'000'000;
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE(open(options).ok());
    ASSERT_TRUE(store_->Put(WriteOptions(), std::to_string(i), "v").ok());
    if (i % 2 == 0) {
      ASSERT_TRUE(store_->Flush().ok());
    }
  }
  std::string found;
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(store_->Get(std::to_string(i), &found).ok());
}

// Goal: families are held to the order of keys that the store has, whichever they are.
// Method: a store is opened with a family that is ordered backwards.
// Mutation: looking at the default family alone opens it.
TEST_F(EngineTest, ComparatorOfAnyFamily) {
  Options options = small_options();
  options.families.emplace_back("other", rocksdb::ColumnFamilyOptions());
  options.families.back().second.comparator = rocksdb::ReverseBytewiseComparator();
  EXPECT_TRUE(open(options).IsInvalidArgument());
}

// Goal: a write that may not wait does not.
// Method: a tree that takes no files, a log that is full, then writes with no time.
// Mutation: waiting for a look at least once takes 20 ms each.
TEST_F(EngineTest, NoTimeToWait) {
  constexpr int kWrites = 50;
  Options options = small_options();
  options.memtable_bytes = 1 << 20;
  options.wait_us_max = 0;
  ASSERT_TRUE(open(options).ok());
  tree::Tree& below = static_cast<Engine&>(*store_).below();
  below.gate().pause();
  const std::string value(100 << 10, 'v');
  while (store_->Put(WriteOptions(), "key", value).ok()) {
  }
  auto fastest = std::chrono::steady_clock::duration::max();  // others may take the processor
  for (int i = 0; i < kWrites; ++i) {
    const auto before = std::chrono::steady_clock::now();
    EXPECT_TRUE(store_->Put(WriteOptions(), "key", value).IsIncomplete());
    fastest = std::min(fastest, std::chrono::steady_clock::now() - before);
  }
  EXPECT_LT(fastest, std::chrono::milliseconds(10));
  below.gate().resume();
}

// Goal: Close says how the store ended, once and for all, and what is called later says so.
// Method: a store with writes that have no log is closed, twice, then every function; opened again
//         it has all of them. With flush_at_close it lies in files.
// Mutation: a Close that leaves the flush to others, or a call that goes on, fails.
TEST_F(EngineTest, CloseAndAfterwards) {
  for (const bool flush : {false, true}) {
    Options options = small_options();
    options.flush_at_close = flush;
    ASSERT_TRUE(open(options).ok());
    const std::string key = flush ? "flushed" : "logged";
    ASSERT_TRUE(store_->Put({.durability = Durability::kNone}, key, "value").ok());
    const auto transaction = store_->OpenTransaction();
    ASSERT_TRUE(transaction->batch().Put("never", "value").ok());
    ASSERT_TRUE(store_->Close().ok());
    EXPECT_TRUE(store_->Close().ok());
    EXPECT_EQ(property("breccia.flush.count"), flush ? "1" : "0");
    EXPECT_TRUE(transaction->Close({}).IsShutdownInProgress());
    std::string value;
    EXPECT_TRUE(store_->Put({}, "never", "value").IsShutdownInProgress());
    EXPECT_TRUE(store_->Get(key, &value).IsShutdownInProgress());
    const Slice keys[] = {key};
    std::vector<std::string> values;
    EXPECT_TRUE(store_->MultiGet(keys, &values).at(0).IsShutdownInProgress());
    Batch batch = store_->NewBatch();
    ASSERT_TRUE(batch.Put("never", "value").ok());
    EXPECT_TRUE(store_->Submit({}, &batch).IsShutdownInProgress());
    Status later;
    store_->SubmitAsync({}, &batch, [&](const Status& status) { later = status; });
    EXPECT_TRUE(later.IsShutdownInProgress());
    FamilyId family = 0;
    EXPECT_TRUE(store_->CreateFamily("other", &family).IsShutdownInProgress());
    EXPECT_TRUE(store_->DropFamily(1).IsShutdownInProgress());
    std::unique_ptr<ChangeStream> stream;
    EXPECT_TRUE(store_->Changes(0, {}, &stream).IsShutdownInProgress());
    EXPECT_TRUE(store_->SyncLog().IsShutdownInProgress());
    EXPECT_TRUE(store_->Flush().IsShutdownInProgress());
    ASSERT_TRUE(open(options).ok());
    EXPECT_TRUE(store_->Get(key, &value).ok());
    EXPECT_TRUE(store_->Get("never", &value).IsNotFound());
  }
}

// Goal: Close tells of a log that failed, which the destructor cannot.
// Method: the files fail; a write without a log, and Close, twice.
// Mutation: a Close that returns ok where the log could not be written fails.
TEST_F(EngineTest, CloseTellsOfAFailedLog) {
  Options options = small_options();
  testing::CallFaults faults;
  const auto env = testing::make_faulty_log_env(&faults);
  options.rocksdb.env = env.get();
  ASSERT_TRUE(open(options).ok());
  ASSERT_TRUE(store_->Put({.durability = Durability::kNone}, "key", "value").ok());
  faults.fail_call(1, Status::IOError("injected"));
  EXPECT_TRUE(store_->Close().IsIOError());
  EXPECT_TRUE(store_->Close().IsIOError());
  store_.reset();  // before the faults
}

// Goal: Close logs what has no log before it flushes: a flush that fails loses nothing.
// Method: an operand above a put, of an operator that the next opening does not name, so that no
//         flush can combine them; a write without a log, and Close; then opened with the operator
//         again.
// Mutation: flushing first loses the write.
TEST_F(EngineTest, CloseLogsBeforeItFlushes) {
  Options options = small_options();
  options.rocksdb.merge_operator = NewInt64AddOperator();
  ASSERT_TRUE(open(options).ok());
  const std::string one("\1\0\0\0\0\0\0\0", 8);
  ASSERT_TRUE(store_->Put(WriteOptions(), "merged", one).ok());
  ASSERT_TRUE(store_->Merge(WriteOptions(), "merged", one).ok());
  Options without = options;
  without.flush_at_close = true;
  without.rocksdb.merge_operator = nullptr;
  ASSERT_TRUE(open(without).ok());
  ASSERT_TRUE(store_->Put({.durability = Durability::kNone}, "key", "value").ok());
  EXPECT_FALSE(store_->Close().ok());
  ASSERT_TRUE(open(options).ok());
  std::string value;
  EXPECT_TRUE(store_->Get("key", &value).ok());
  EXPECT_TRUE(store_->Get("merged", &value).ok());
}

// Goal: what a dropped family held is read through views from before, and through no other.
// Method: write, drop, flush; read with a pin from before the drop and with a new one.
// Mutation: leaving the family in the view after the flush says that the key is not there.
TEST_F(EngineTest, DroppedFamilyAfterAFlush) {
  ASSERT_TRUE(open(small_options()).ok());
  auto& engine = static_cast<Engine&>(*store_);
  FamilyId family = 0;
  ASSERT_TRUE(store_->CreateFamily("other", &family).ok());
  ASSERT_TRUE(
      engine.writer().write_one(WriteOptions(), record::Op::kPut, family, "key", "value").ok());
  ASSERT_TRUE(store_->Put(WriteOptions(), "key", "of the default family").ok());
  const Pin before = engine.pin();
  ASSERT_TRUE(engine.tree_changes().drop_family(family, [] {}).ok());
  ASSERT_TRUE(store_->Flush().ok());
  rocksdb::PinnableSlice value;
  EXPECT_TRUE(engine.lookups().get(before, family, "key", &value, nullptr).ok());
  EXPECT_EQ(value.ToString(), "value");
  EXPECT_TRUE(
      engine.lookups().get(engine.pin(), family, "key", &value, nullptr).IsInvalidArgument());
}

// Goal: where a family could not be made there is none, also where only the OPTIONS file behind it
//       could not be written.
// Method: each call that making one makes fails once, with fail_if_options_file_error; then it is
//         made again, and written to.
// Mutation: leaving the family that RocksDB reports beside the error says that it exists already.
TEST_F(EngineTest, CreateBesideFailingCalls) {
  testing::CallFaults faults;
  const auto env = testing::make_faulty_env(&faults);
  Options options = small_options();
  options.rocksdb.env = env.get();
  options.rocksdb.fail_if_options_file_error = true;
  int made_again = 0;
  bool struck = true;
  for (std::uint64_t k = 1; struck; ++k) {
    SCOPED_TRACE("call " + std::to_string(k));
    ASSERT_TRUE(open(options).ok());
    const std::string name = "family " + std::to_string(k);
    FamilyId family = 0;
    // A compaction, of watermarks for one, would meet the fault instead, and RocksDB stop.
    rocksdb::DB* const tree = static_cast<Engine&>(*store_).below().db();
    ASSERT_TRUE(tree->PauseBackgroundWork().ok());
    faults.fail_call(k, Status::IOError("injected"));
    Status made = store_->CreateFamily(name, &family);
    struck = faults.struck();
    faults.fail_call(0, Status::OK());
    ASSERT_TRUE(tree->ContinueBackgroundWork().ok());
    if (!made.ok()) {
      EXPECT_EQ(store_->Families().size(), k);  // the default one, and those of the rounds before
      made = store_->CreateFamily(name, &family);
      made_again += made.ok() ? 1 : 0;
    }
    if (!made.ok()) {  // RocksDB has stopped, or has half of it, until it is opened again
      ASSERT_TRUE(open(options).ok());
      for (const auto& [one, id] : store_->Families()) family = one == name ? id : family;
      if (family == 0) {
        ASSERT_TRUE(store_->CreateFamily(name, &family).ok());
      }
    }
    Batch batch;
    ASSERT_TRUE(batch.Put(family, "key", "value").ok());
    EXPECT_TRUE(store_->Submit(WriteOptions(), &batch).ok());
    EXPECT_TRUE(store_->Flush().ok());  // so that no flush of the next opening meets the fault
  }
  // At two calls RocksDB does not know the family yet; the others are for the OPTIONS file.
  EXPECT_GE(made_again, 5);
  store_.reset();  // before the faults
}

// Goal: a drop that fails leaves a family that keeps what is written to it; one that does not fail
//       leaves none, also where the OPTIONS file could not be written behind it.
// Method: each call that a drop makes fails once, with fail_if_options_file_error; then a write to
//         the family, a flush, and the store opened again.
// Mutation: taking a drop without its OPTIONS file for none loses the write that is acknowledged.
TEST_F(EngineTest, DropBesideFailingCalls) {
  testing::CallFaults faults;
  const auto env = testing::make_faulty_env(&faults);
  Options options = small_options();
  options.rocksdb.env = env.get();
  options.rocksdb.fail_if_options_file_error = true;
  int dropped_all_the_same = 0;
  bool struck = true;
  for (std::uint64_t k = 1; struck; ++k) {
    SCOPED_TRACE("call " + std::to_string(k));
    ASSERT_TRUE(open(options).ok());
    const std::string name = "family " + std::to_string(k);
    FamilyId family = 0;
    ASSERT_TRUE(store_->CreateFamily(name, &family).ok());
    // A compaction, of watermarks for one, would meet the fault instead, and RocksDB stop.
    rocksdb::DB* const tree = static_cast<Engine&>(*store_).below().db();
    ASSERT_TRUE(tree->PauseBackgroundWork().ok());
    faults.fail_call(k, Status::IOError("injected"));
    const Status dropped = store_->DropFamily(family);
    struck = faults.struck();
    faults.fail_call(0, Status::OK());
    ASSERT_TRUE(tree->ContinueBackgroundWork().ok());
    dropped_all_the_same += struck && dropped.ok() ? 1 : 0;
    Batch batch;
    ASSERT_TRUE(batch.Put(family, "key", "value").ok());
    EXPECT_EQ(store_->Submit(WriteOptions(), &batch).ok(), !dropped.ok());
    EXPECT_TRUE(store_->Flush().ok());
    ASSERT_TRUE(open(options).ok());
    const auto families = store_->Families();
    const auto is_it = [&](const auto& one) { return one.first == name; };
    EXPECT_EQ(std::any_of(families.begin(), families.end(), is_it), !dropped.ok());
    if (dropped.ok()) continue;
    Batch read;
    ASSERT_TRUE(read.Get(family, "key").ok());
    ASSERT_TRUE(store_->Submit(WriteOptions(), &read).ok());
    EXPECT_EQ(read.value(0), "value");
  }
  EXPECT_GT(dropped_all_the_same, 0);
  store_.reset();  // before the faults
}

// Goal: whoever refreshes the view of the tree beside flushes never shows what a flush brought
//   there beside what it brought from.
// Method: one thread counts a key up with merges and flushes, one refreshes, one reads.
// Mutation: refreshing between a flush's ingest and its view counts merges twice.
TEST_F(EngineTest, RefreshBesideFlushConcurrent) {
  constexpr std::int64_t kFlushes = 60;
  Options options = small_options();
  options.rocksdb.merge_operator = NewInt64AddOperator();
  ASSERT_TRUE(open(options).ok());
  auto& engine = static_cast<Engine&>(*store_);
  std::atomic<std::int64_t> begun{0};
  std::atomic<std::int64_t> done{0};
  std::thread writer([&] {
    const std::int64_t one = 1;
    const Slice operand(reinterpret_cast<const char*>(&one), sizeof one);
    for (std::int64_t i = 0; i < kFlushes; ++i) {
      for (int k = 0; k < 5; ++k) {
        ++begun;
        EXPECT_TRUE(store_->Merge(WriteOptions(), "key", operand).ok());
        ++done;
      }
      EXPECT_TRUE(store_->Flush().ok());
    }
  });
  std::thread refresher([&] {
    while (done < kFlushes * 5) EXPECT_TRUE(engine.tree_changes().refresh().ok());
  });
  while (done < kFlushes * 5) {
    const std::int64_t at_least = done;
    std::string value;
    const Status status = store_->Get("key", &value);
    const std::int64_t at_most = begun;
    std::int64_t count = 0;
    if (status.ok()) std::memcpy(&count, value.data(), sizeof count);
    ASSERT_GE(count, at_least);
    ASSERT_LE(count, at_most);
  }
  writer.join();
  refresher.join();
}

// Goal: single puts of several threads, beside batches that seal the memtable, leave each key with
//       its last value.
// Method: threads put keys of their own again and again, and one key of all between them; batches
//         become runs meanwhile; each thread reads what it has written.
// Mutation: linking an entry at a place in a memtable that was sealed, or behind what came between,
//           fails.
TEST_F(EngineTest, ConcurrentSinglePuts) {
  constexpr int kThreads = 3;
  constexpr int kPuts = 3000;
  constexpr int kKeys = 50;
  Options options = small_options();
  options.device_requests_min = 4;
  ASSERT_TRUE(open(options).ok());
  const auto key_of = [](int thread, int i) {
    return "key " + std::to_string(i % kKeys) + " of " + std::to_string(thread);
  };
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kPuts; ++i) {
        const std::string key = key_of(thread, i * 7);
        ASSERT_TRUE(store_->Put(WriteOptions(), key, std::to_string(i)).ok());
        ASSERT_TRUE(store_->Put(WriteOptions(), "all", std::to_string(i)).ok());
        std::string value;
        ASSERT_TRUE(store_->Get(key, &value).ok());
        ASSERT_EQ(value, std::to_string(i));
      }
    });
  }
  for (int round = 0; round < 60; ++round) {
    Batch batch;
    for (int i = 0; i < 8; ++i) {
      ASSERT_TRUE(batch.Put(key_of(kThreads, i), std::to_string(round)).ok());
    }
    ASSERT_TRUE(store_->Submit(WriteOptions(), &batch).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (std::thread& one : threads) one.join();
  for (int thread = 0; thread < kThreads; ++thread) {
    for (int i = kPuts - kKeys; i < kPuts; ++i) {
      std::string value;
      ASSERT_TRUE(store_->Get(key_of(thread, i * 7), &value).ok());
      ASSERT_EQ(value, std::to_string(i));
    }
  }
}

// Goal: a write that may wait for ever does wait.
// Method: a tree that takes no files, a log that is full, a write with the longest time there is;
//   it ends when the tree goes on.
// Mutation: adding the time to the clock as it is makes the deadline lie in the past.
TEST_F(EngineTest, AllTheTimeToWait) {
  Options options = small_options();
  options.memtable_bytes = 1 << 20;
  options.wait_us_max = 0;
  ASSERT_TRUE(open(options).ok());
  tree::Tree& below = static_cast<Engine&>(*store_).below();
  below.gate().pause();
  const std::string value(100 << 10, 'v');
  while (store_->Put(WriteOptions(), "key", value).ok()) {
  }
  WriteOptions patient;
  patient.wait_us_max = ~std::uint64_t{0};
  std::atomic<bool> done{false};
  std::thread writer([&] {
    EXPECT_TRUE(store_->Put(patient, "key", value).ok());
    done = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(done);
  below.gate().resume();
  writer.join();
}

// Goal: a family that goes away under a batch that reads it makes those reads fail, nothing else.
// Method: one thread makes, fills and drops a family; others submit synced batches that write to
//   the default family and read that one, and batches that only read.
// Mutation: trusting the check before the write crashes where the view has changed by the read.
TEST_F(EngineTest, ConcurrentDropsUnderReads) {
  constexpr int kDrops = 150;
  Options options = small_options();
  options.device_requests_min = 4;
  ASSERT_TRUE(open(options).ok());
  std::atomic<FamilyId> family{kDefaultFamily};
  std::atomic<bool> done{false};
  const auto read = [&](bool writes) {
    WriteOptions synced;
    synced.durability = Durability::kSync;
    while (!done) {
      const FamilyId id = family;
      Batch batch;
      if (writes) {
        EXPECT_TRUE(batch.Put("key", "value").ok());
      }
      for (int i = 0; i < 6; ++i) EXPECT_TRUE(batch.Get(id, "key").ok());
      for (int i = 0; i < 6; ++i) EXPECT_TRUE(batch.Range(id, "a", "z", 3).ok());
      const Status status = store_->Submit(synced, &batch);
      if (!status.ok()) {
        EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
        continue;
      }
      const Status::Code code = batch.code(0);
      EXPECT_TRUE(code == Status::Code::kOk || code == Status::Code::kNotFound ||
                  code == Status::Code::kInvalidArgument);
      EXPECT_EQ(batch.range_code(5) == Status::Code::kInvalidArgument,
                code == Status::Code::kInvalidArgument);
    }
  };
  std::thread writer([&] { read(true); });
  std::thread reader([&] { read(false); });
  auto& engine = static_cast<Engine&>(*store_);
  for (int i = 0; i < kDrops; ++i) {
    FamilyId id = 0;
    ASSERT_TRUE(store_->CreateFamily("family " + std::to_string(i), &id).ok());
    ASSERT_TRUE(
        engine.writer().write_one(WriteOptions(), record::Op::kPut, id, "key", "value").ok());
    family = id;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    ASSERT_TRUE(store_->DropFamily(id).ok());
    if (i % 10 == 0) {
      ASSERT_TRUE(store_->Flush().ok());
    }
  }
  done = true;
  writer.join();
  reader.join();
}

// Goal: what a batch has found can be read when the store is gone.
// Method: lookups and a range of a run, read after the store's end.
// Mutation: runs that do not keep the tenant whose memory they lie in: the process ends.
TEST_F(EngineTest, ResultsOutliveTheStore) {
  Options options = small_options();
  options.device_requests_min = 1;
  ASSERT_TRUE(open(options).ok());
  Batch batch = store_->NewBatch();
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(batch.Put("key" + std::to_string(i), "value" + std::to_string(i)).ok());
  }
  ASSERT_TRUE(store_->Submit(WriteOptions(), &batch).ok());
  batch.Clear();
  ASSERT_TRUE(batch.Get("key7").ok());
  ASSERT_TRUE(batch.Range("key10", "key11", 5).ok());
  ASSERT_TRUE(store_->Submit(WriteOptions(), &batch).ok());
  store_.reset();
  EXPECT_EQ(batch.value(0), "value7");
  ASSERT_EQ(batch.range_size(0), 5u);
  EXPECT_EQ(batch.range_entry(0, 4).second, "value103");
}

}  // namespace breccia::ordered
