#include "ordered/tree_filters.h"

#include <breccia/options.h>
#include <gtest/gtest.h>
#include <rocksdb/compaction_filter.h>
#include <rocksdb/convenience.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/statistics.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "ordered/engine.h"
#include "support/folder.h"
#include "support/seeds.h"
#include "support/small_options.h"

/// Filters of what the tree holds. That answers are right whatever happens is also for the
/// metamorphic tests and the streams, which run with filters, without, and with little room.

namespace breccia::ordered {

namespace {

/// Changes no value, and could.
class KeepAll final : public rocksdb::CompactionFilter {
 public:
  [[nodiscard]] const char* Name() const override { return "breccia.test.KeepAll"; }
};

class EngineTreeFilters : public ::testing::Test {
 protected:
  EngineTreeFilters() {
    options_ = testing::small_options();
    options_.entry_cache_bytes = 0;
    options_.rocksdb.statistics = statistics_;
  }
  void open() {
    engine_.reset();
    ASSERT_TRUE(Engine::open(options_, folder_ / "store", &engine_).ok());
  }
  void put(std::uint64_t begin, std::uint64_t end, FamilyId family = kDefaultFamily) {
    Batch batch = engine_->NewBatch();
    for (std::uint64_t id = begin; id < end; ++id) {
      ASSERT_TRUE(batch.Put(family, key_of(id), value_of(id)).ok());
    }
    ASSERT_TRUE(engine_->Submit({}, &batch).ok());
  }
  void remove(std::uint64_t begin, std::uint64_t end) {
    Batch batch = engine_->NewBatch();
    for (std::uint64_t id = begin; id < end; ++id) ASSERT_TRUE(batch.Delete(key_of(id)).ok());
    ASSERT_TRUE(engine_->Submit({}, &batch).ok());
  }
  void put_and_flush(std::uint64_t begin, std::uint64_t end) {
    put(begin, end);
    ASSERT_TRUE(engine_->Flush().ok());
  }
  /// How many of the keys there are, as one batch; each has its value.
  std::uint64_t found(std::uint64_t begin, std::uint64_t end, FamilyId family = kDefaultFamily) {
    Batch batch = engine_->NewBatch();
    for (std::uint64_t id = begin; id < end; ++id) {
      EXPECT_TRUE(batch.Get(family, key_of(id)).ok());
    }
    EXPECT_TRUE(engine_->Submit({}, &batch).ok());
    std::uint64_t count = 0;
    for (std::uint64_t id = begin; id < end; ++id) {
      const auto i = static_cast<std::size_t>(id - begin);
      if (batch.code(i) != Status::Code::kOk) continue;
      EXPECT_EQ(batch.value(i).ToString(), value_of(id));
      ++count;
    }
    return count;
  }
  /// Lookups of keys that are nowhere; how many of them RocksDB saw.
  std::uint64_t miss(std::uint64_t count) {
    const std::uint64_t before = tree_lookups();
    EXPECT_EQ(found(kNowhere, kNowhere + count), 0U);
    return tree_lookups() - before;
  }
  /// Misses until a filter was built; false: none was.
  bool miss_until_built() {
    const std::uint64_t before = figure("builds");
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (figure("builds") == before && std::chrono::steady_clock::now() < deadline) {
      miss(2000);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return figure("builds") > before;
  }
  [[nodiscard]] std::uint64_t figure(const std::string& name) {
    std::string value;
    EXPECT_TRUE(engine_->GetProperty("breccia.tree-filter." + name, &value)) << name;
    return std::stoull(value);
  }
  [[nodiscard]] std::uint64_t tree_lookups() const {
    return statistics_->getTickerCount(rocksdb::NUMBER_MULTIGET_KEYS_READ) +
           statistics_->getTickerCount(rocksdb::NUMBER_KEYS_READ);
  }
  static std::string key_of(std::uint64_t id) { return "key " + std::to_string(id); }
  static std::string value_of(std::uint64_t id) { return std::to_string(id) + " value"; }

  static constexpr std::uint64_t kNowhere = 1'000'000'000;
  const testing::Folder folder_{testing::Place::kMemory};
  const std::shared_ptr<rocksdb::Statistics> statistics_ = rocksdb::CreateDBStatistics();
  Options options_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace

// Goal: what is nowhere is not asked of RocksDB, in batches and singly; what the tree has is found.
// Method: flushed keys; RocksDB's count of lookups in batches around what is fetched at once.
// Mutation: a flush that adds no keys finds nothing; a filter that nobody asks counts all.
TEST_F(EngineTreeFilters, MissesStayAboveTheTree) {
  open();
  put_and_flush(0, 3000);
  EXPECT_EQ(found(0, 3000), 3000U);
  for (const std::uint64_t size : {1, 63, 64, 65, 128, 10'000}) {
    EXPECT_LE(miss(size), 5 + size * 15 / 1000) << size;
  }
  const std::uint64_t before = tree_lookups();
  std::string value;
  for (std::uint64_t id = kNowhere; id < kNowhere + 500; ++id) {
    ASSERT_TRUE(engine_->Get(key_of(id), &value).IsNotFound());
  }
  EXPECT_LE(tree_lookups() - before, 20U);
  EXPECT_TRUE(engine_->Get(key_of(17), &value).ok());
  EXPECT_GT(figure("negatives"), 10'500U);
  EXPECT_EQ(figure("builds"), 0U);
  EXPECT_NEAR(static_cast<double>(figure("keys")), 3000, 30);
  EXPECT_EQ(figure("bytes"), cache::KeyFilter::bytes_for(TreeFilters::kKeysMin));
}

// Goal: bases of updates that are nowhere are not asked of RocksDB, and those that are there count.
// Method: additions to numbers, half of them in the tree.
// Mutation: what the filter answers must be known as absent, or each key is read again.
TEST_F(EngineTreeFilters, BasesOfUpdates) {
  ASSERT_TRUE(
      rocksdb::MergeOperator::CreateFromString({}, "uint64add", &options_.rocksdb.merge_operator)
          .ok());
  options_.device_requests_min = 1;
  open();
  const auto number = [](std::uint64_t value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof value);
  };
  Batch batch = engine_->NewBatch();
  for (std::uint64_t id = 0; id < 1000; ++id) ASSERT_TRUE(batch.Put(key_of(id), number(id)).ok());
  ASSERT_TRUE(engine_->Submit({}, &batch).ok());
  ASSERT_TRUE(engine_->Flush().ok());
  const std::uint64_t before = tree_lookups();
  batch.Clear();
  for (std::uint64_t id = 500; id < 1500; ++id) {
    ASSERT_TRUE(batch.Merge(key_of(id), number(1)).ok());
  }
  ASSERT_TRUE(engine_->Submit({}, &batch).ok());
  EXPECT_LE(tree_lookups() - before, 500U + 30);
  std::string value;
  for (const std::uint64_t id : {499, 500, 999, 1000, 1499}) {
    ASSERT_TRUE(engine_->Get(key_of(id), &value).ok());
    EXPECT_EQ(value, number((id < 1000 ? id : 0) + (id < 500 ? 0 : 1))) << id;
  }
}

// Goal: a store that opens with keys in its tree has a filter when misses have paid for it, not
//   before; what was written meanwhile is in it.
// Method: keys in the tree, in the log, and flushed behind the opening.
// Mutation: a filter that begins empty finds nothing; one that is built at once shows before.
TEST_F(EngineTreeFilters, BuiltWhenMissesPay) {
  open();
  put_and_flush(0, 5000);
  put(5000, 6000);
  open();
  EXPECT_EQ(figure("bytes"), 0U);
  EXPECT_EQ(miss(60), 60U);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(figure("builds"), 0U);
  put_and_flush(6000, 7000);
  ASSERT_TRUE(miss_until_built());
  EXPECT_EQ(found(0, 7000), 7000U);
  EXPECT_LE(miss(10'000), 150U);
  put_and_flush(7000, 8000);
  EXPECT_EQ(found(0, 8000), 8000U);
}

// Goal: a filter that is built in several ranges of keys at once holds them all.
// Method: many files whose ranges overlap in part, a store that opens above them, misses until
//         there is a filter; every key is found, and what is nowhere is not asked for.
// Mutation: a range without its first key, or its last file.
TEST_F(EngineTreeFilters, BuiltOfManyFiles) {
  options_.rocksdb.disable_auto_compactions = true;
  options_.clean_bytes = 0;
  open();
  constexpr std::uint64_t kFiles = 9;
  for (std::uint64_t file = 0; file < kFiles; ++file) {
    put_and_flush(700 * file, 700 * file + 1000);
  }
  open();
  ASSERT_TRUE(miss_until_built());
  EXPECT_EQ(found(0, 700 * (kFiles - 1) + 1000), 700 * (kFiles - 1) + 1000);
  EXPECT_LE(miss(10'000), 200U);
}

// Goal: a filter that holds more than it was made for is built again, larger, and then says no more
//   often; keys that were deleted are not in it.
// Method: four times what the first one was made for; most of it deleted.
// Mutation: growth that forgets what was flushed meanwhile loses keys; one that never ends builds
//   again.
TEST_F(EngineTreeFilters, BuiltAgainWhenFull) {
  open();
  for (std::uint64_t id = 0; id < 16'000; id += 2000) put_and_flush(id, id + 2000);
  ASSERT_TRUE(miss_until_built());
  EXPECT_EQ(found(0, 16'000), 16'000U);
  EXPECT_LE(miss(20'000), 300U);
  EXPECT_EQ(figure("builds"), 1U);
  remove(0, 15'000);
  ASSERT_TRUE(engine_->Flush().ok());
  put_and_flush(16'000, 40'000);
  ASSERT_TRUE(miss_until_built());
  EXPECT_LT(figure("keys"), 26'000U);
  EXPECT_EQ(found(0, 40'000), 25'000U);
}

// Goal: a reader finds what its state of the tree has, whatever the newest filter knows.
// Method: a pin; everything is deleted, flushed and gone from the newest filter.
// Mutation: one filter for all views lacks the pin's keys.
TEST_F(EngineTreeFilters, BelongToTheirView) {
  open();
  put_and_flush(0, 5000);
  const Pin pin = engine_->pin();
  remove(0, 5000);
  ASSERT_TRUE(engine_->Flush().ok());
  put_and_flush(5000, 10'000);
  ASSERT_TRUE(miss_until_built());
  EXPECT_LT(figure("keys"), 5100U);
  for (std::uint64_t id = 0; id < 5000; ++id) {
    rocksdb::PinnableSlice value;
    ASSERT_TRUE(engine_->lookups()
                    .get(pin, kDefaultFamily, key_of(id), &value, /*from_tree=*/nullptr)
                    .ok());
  }
  EXPECT_EQ(found(0, 10'000), 5000U);
}

// Goal: no key that was acknowledged is missed while filters are built below flushes.
// Method: one thread writes and flushes, two look up what was written and what was not; filters are
//   full all the time, as the tree grows, and a store is opened again in between.
// Mutation: beginning a filter beside an ingest, or adding to the view's filter alone, loses keys.
TEST_F(EngineTreeFilters, ConcurrentBuildsAndFlushes) {
  constexpr std::uint64_t kKeys = 30'000;
  for (int life = 0; life < 2; ++life) {
    open();
    const std::uint64_t begin = static_cast<std::uint64_t>(life) * kKeys;
    std::atomic<std::uint64_t> written{begin};
    std::vector<std::thread> readers;
    for (std::uint64_t reader = 0; reader < 2; ++reader) {
      readers.emplace_back([&, reader] {
        base::Random random(reader);
        while (written.load() < begin + kKeys) {
          const std::uint64_t end = written.load();
          const std::uint64_t from = random.below(end + 1);
          const std::uint64_t to = std::min(end, from + 500);
          ASSERT_EQ(found(from, to), to - from);
          ASSERT_EQ(found(kNowhere, kNowhere + 1000), 0U);
        }
      });
    }
    for (std::uint64_t id = begin; id < begin + kKeys; id += 500) {
      put_and_flush(id, id + 500);
      written.store(id + 500);
    }
    for (std::thread& reader : readers) reader.join();
    EXPECT_EQ(found(0, begin + kKeys), begin + kKeys);
    ASSERT_TRUE(figure("builds") > 0 || miss_until_built());
    EXPECT_EQ(found(0, begin + kKeys), begin + kKeys);
  }
}

// Goal: keys of files that somebody brings in are found at once, and by the filter that is built
//   behind them.
// Method: an ingest of a file; a flush from within it, as the background may begin one, which shows
//   what was brought in.
// Mutation: dropping filters behind the ingest, or not at all, misses the file's keys.
TEST_F(EngineTreeFilters, FilesThatAreBroughtIn) {
  open();
  put_and_flush(0, 1000);
  EXPECT_GT(figure("bytes"), 0U);
  const std::string path = folder_ / "file.sst";
  std::vector<std::string> keys;
  for (std::uint64_t id = 1000; id < 2000; ++id) keys.push_back(key_of(id));
  rocksdb::SstFileWriter writer({}, rocksdb::Options());
  ASSERT_TRUE(writer.Open(path).ok());
  for (std::uint64_t id = 1000; id < 2000; ++id) {
    ASSERT_TRUE(writer.Put(key_of(id), value_of(id)).ok());
  }
  ASSERT_TRUE(writer.Finish().ok());
  rocksdb::IngestExternalFileArg arg;
  arg.column_family = engine_->below().db()->DefaultColumnFamily();
  arg.external_files = {path};
  const Status status = engine_->tree_changes().bring_in([&] {
    const Status ingested = engine_->below().ingest_files({arg});
    put_and_flush(2000, 2100);
    EXPECT_EQ(found(0, 2100), 2100U);
    return ingested;
  });
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(figure("bytes"), 0U);
  EXPECT_EQ(found(0, 2100), 2100U);
  ASSERT_TRUE(miss_until_built());
  EXPECT_EQ(found(0, 2100), 2100U);
  EXPECT_LE(miss(10'000), 150U);
}

// Goal: where files are taken out, or somebody has the tree, there is no filter; after the first it
//   comes again.
// Method: a change that takes nothing out and one that fails; then the tree in other hands.
// Mutation: leaving it shut, or opening it for good.
TEST_F(EngineTreeFilters, TreeInOtherHands) {
  open();
  put_and_flush(0, 1000);
  EXPECT_TRUE(engine_->tree_changes().take_out([] { return Status::OK(); }).ok());
  EXPECT_EQ(figure("bytes"), 0U);
  ASSERT_TRUE(miss_until_built());
  EXPECT_TRUE(engine_->tree_changes().bring_in([] { return Status::Aborted("none"); }).IsAborted());
  ASSERT_TRUE(miss_until_built());
  EXPECT_GT(figure("bytes"), 0U);
  engine_->tree_changes().stop_caching();
  EXPECT_EQ(figure("bytes"), 0U);
  put_and_flush(1000, 2000);
  FamilyId family = 0;
  ASSERT_TRUE(engine_->CreateFamily("new", &family).ok());
  for (int i = 0; i < 20; ++i) miss(2000);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(figure("bytes"), 0U);
  EXPECT_EQ(found(0, 2000), 2000U);
}

// Goal: each family has its own; a new one of an old name begins empty, and keys under range
//   deletions are found when they are written again.
// Method: two families with other keys, one dropped and created again; a range deletion, flushed.
// Mutation: a filter by name, or a slot that stays, has the old family's keys.
TEST_F(EngineTreeFilters, FamiliesAndRangeDeletions) {
  open();
  FamilyId family = 0;
  ASSERT_TRUE(engine_->CreateFamily("other", &family).ok());
  put(0, 1000);
  put(1000, 2000, family);
  ASSERT_TRUE(engine_->Flush().ok());
  std::uint64_t before = tree_lookups();
  EXPECT_EQ(found(0, 2000), 1000U);
  EXPECT_EQ(found(0, 2000, family), 1000U);
  EXPECT_LE(tree_lookups() - before, 2000U + 60);
  ASSERT_TRUE(engine_->DropFamily(family).ok());
  ASSERT_TRUE(engine_->CreateFamily("other", &family).ok());
  put(0, 10, family);
  ASSERT_TRUE(engine_->Flush().ok());
  before = tree_lookups();
  EXPECT_EQ(found(0, 2000, family), 10U);
  EXPECT_LE(tree_lookups() - before, 10U + 30);
  Batch batch = engine_->NewBatch();
  ASSERT_TRUE(batch.DeleteRange(kDefaultFamily, "key ", "key~").ok());
  ASSERT_TRUE(engine_->Submit({}, &batch).ok());
  ASSERT_TRUE(engine_->Flush().ok());
  EXPECT_EQ(found(0, 2000), 0U);
  put_and_flush(500, 1500);
  EXPECT_EQ(found(0, 2000), 1000U);
}

// Goal: no filter where none is wanted, where it does not fit, and where a compaction may bring
//   keys back; answers are the same.
// Method: no room; room for the first one alone, which grows full; a compaction filter.
// Mutation: growing past the budget; a filter in a family that a compaction may change.
TEST_F(EngineTreeFilters, NoneWithoutRoom) {
  options_.tree_filter_bytes = 0;
  open();
  put_and_flush(0, 1000);
  EXPECT_EQ(figure("bytes"), 0U);
  EXPECT_EQ(miss(100), 100U);
  options_.tree_filter_bytes = cache::KeyFilter::bytes_for(TreeFilters::kKeysMin) + 64;
  open();
  ASSERT_TRUE(miss_until_built());
  put_and_flush(1000, 20'000);
  for (int i = 0; i < 20; ++i) miss(2000);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_LE(figure("bytes"), options_.tree_filter_bytes);
  EXPECT_EQ(figure("builds"), 1U);
  EXPECT_EQ(found(0, 20'000), 20'000U);
  options_.tree_filter_bytes = 1 << 20;
  KeepAll keep_all;
  options_.rocksdb.compaction_filter = &keep_all;
  open();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(miss(2000), 2000U);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(figure("bytes"), 0U);
  engine_.reset();
}

}  // namespace breccia::ordered
