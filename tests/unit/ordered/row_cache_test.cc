#include <breccia/options.h>
#include <breccia/store.h>
#include <gtest/gtest.h>
#include <rocksdb/compaction_filter.h>
#include <rocksdb/convenience.h>
#include <rocksdb/sst_file_writer.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "base/random.h"
#include "ordered/engine.h"
#include "support/fake_gpu.h"
#include "support/folder.h"
#include "support/seeds.h"
#include "support/small_options.h"

/// The entry cache in the way of a read: between memory and the tree.

namespace breccia::ordered {

namespace {

constexpr int kKeys = 200;

Options cached_options() {
  Options options = testing::small_options();
  options.flush_threads = 2;
  options.entry_cache_bytes = 64 << 10;
  options.device_requests_min = 16;
  options.rocksdb.level0_file_num_compaction_trigger = 2;
  return options;
}

std::string key_of(int number) { return "key" + std::to_string(number); }

class EngineEntryCache : public ::testing::Test {
 protected:
  void open(const Options& options) {
    engine_.reset();
    const Status status = Engine::open(options, folder_ / "store", &engine_);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  std::uint64_t figure(const std::string& name) {
    std::string value;
    EXPECT_TRUE(engine_->GetProperty("breccia.entry-cache." + name, &value)) << name;
    return std::stoull(value);
  }
  /// All keys, in one batch, with what tells the round.
  void write_round(int round, bool erases_first) {
    Batch batch;
    if (erases_first) {
      ASSERT_TRUE(batch.DeleteRange(kDefaultFamily, "key", "kez").ok());
    }
    for (int i = 0; i < kKeys; ++i) {
      ASSERT_TRUE(batch.Put(key_of(i), value_of(i, round)).ok());
    }
    ASSERT_TRUE(engine_->Submit(WriteOptions(), &batch).ok());
  }
  static std::string value_of(int key, int round) {
    return std::to_string(round) + std::string(static_cast<std::size_t>(key % 40), '.');
  }
  /// What single lookups and a batch at `pin` say; every key must be of one and the same round.
  [[nodiscard]] bool sees_one_round(const Pin& pin, base::Random* random) const {
    batch::Requests requests(exec::shared_plain_host_memory());
    std::vector<int> keys;
    for (int i = 0; i < 30; ++i) {
      keys.push_back(static_cast<int>(random->below(kKeys)));
      if (!requests.add_read(kDefaultFamily, key_of(keys.back())).ok()) return false;
    }
    if (!engine_->lookups().read(pin, &requests).ok()) return false;
    int round = 0;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      std::string value(requests.result(i).data, requests.result(i).bytes);
      if (random->one_in(3)) {
        rocksdb::PinnableSlice alone;
        if (!engine_->lookups().get(pin, kDefaultFamily, key_of(keys[i]), &alone, nullptr).ok())
          return false;
        if (alone.ToStringView() != value) return false;
      }
      if (i == 0) round = std::stoi(value);
      if (value != value_of(keys[i], round)) return false;
    }
    return true;
  }

  const testing::Folder folder_{testing::Place::kMemory};
  testing::FakeGpu gpu_;
  std::unique_ptr<Engine> engine_;
};

/// What the process may map is what it has, and so much more.
class MapLimit {
 public:
  explicit MapLimit(std::uint64_t more) {
    BRECCIA_ASSERT(::getrlimit(RLIMIT_AS, &before_) == 0);
    std::uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit limit = before_;
    limit.rlim_cur = pages * 4096 + more;
    BRECCIA_ASSERT(::setrlimit(RLIMIT_AS, &limit) == 0);
  }
  ~MapLimit() { BRECCIA_ASSERT(::setrlimit(RLIMIT_AS, &before_) == 0); }
  MapLimit(const MapLimit&) = delete;
  MapLimit& operator=(const MapLimit&) = delete;

 private:
  rlimit before_{};
};

class DropAll final : public rocksdb::CompactionFilter {
 public:
  [[nodiscard]] const char* Name() const override { return "DropAll"; }
  bool Filter(int, const Slice&, const Slice&, std::string*, bool*) const override { return true; }
};

}  // namespace

// Goal: a cache that is larger than what the process may map is no reason not to open.
// Method: 64 GiB where 48 more may be mapped.
// Mutation: a mapping that fails and is not tried with less fails the opening.
TEST_F(EngineEntryCache, TakesWhatMayBeMapped) {
  Options options = cached_options();
  options.entry_cache_bytes = 64ULL << 30;
  const MapLimit limit(48ULL << 30);
  open(options);
  EXPECT_GE(figure("bytes-max"), 64ULL << 20);
  EXPECT_LE(figure("bytes-max"), 48ULL << 30);
}

// Goal: reads at any pin see one state of the store, whatever was cached before and after it.
// Method: rounds that write every key in one batch, at times behind a range deletion, and flush;
//         meanwhile two readers compare single lookups and batches at new and at held pins.
// Mutation: leaving out the erasing of flushed keys, or the clearing for range deletions, fails.
TEST_F(EngineEntryCache, ConcurrentReadsAreOfOneState) {
  open(cached_options());
  write_round(1, false);
  ASSERT_TRUE(engine_->Flush().ok());
  std::atomic<bool> done{false};
  std::atomic<bool> wrong{false};
  std::vector<std::thread> readers;
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    readers.emplace_back([&, seed] {
      base::Random random(seed);
      Pin held = engine_->pin();
      while (!done && !wrong) {
        if (random.one_in(100)) held = engine_->pin();
        if (!sees_one_round(random.one_in(4) ? held : engine_->pin(), &random)) wrong = true;
      }
    });
  }
  // On a machine that does other things too it may take more until all has happened.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto all_happened = [&] {
    return figure("hits") > 0 && figure("inserts") > 0 &&
           figure("erased") + figure("evictions") > 0;
  };
  const int rounds = static_cast<int>(testing::share_of(40));
  for (int round = 2; !wrong && (round < 2 + rounds ||
                                 (!all_happened() && std::chrono::steady_clock::now() < deadline));
       ++round) {
    write_round(round, round % 4 == 0);
    ASSERT_TRUE(engine_->Flush().ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  done = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_FALSE(wrong);
  EXPECT_TRUE(all_happened());
}

// Goal: lookups of what lies in the tree are answered by the cache the second time, and by the tree
//       where it is off.
// Method: single lookups and a batch, twice each; then without a cache.
// Mutation: not inserting on one of the two roads fails.
TEST_F(EngineEntryCache, SecondReadHits) {
  open(cached_options());
  write_round(1, false);
  ASSERT_TRUE(engine_->Flush().ok());
  std::string value;
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(engine_->Get(key_of(0), &value).ok());
  EXPECT_EQ(value, value_of(0, 1));
  EXPECT_EQ(figure("misses"), 1u);
  EXPECT_EQ(figure("hits"), 1u);
  EXPECT_GT(figure("bytes"), 0u);
  Batch batch;
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(batch.Get(key_of(i)).ok());
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(engine_->Submit(WriteOptions(), &batch).ok());
  EXPECT_EQ(batch.value(7).ToString(), value_of(7, 1));
  EXPECT_EQ(figure("misses"), 20u);
  EXPECT_EQ(figure("hits"), 22u);
  EXPECT_EQ(figure("inserts"), 20u);
  EXPECT_EQ(figure("skipped"), 0u);

  Options options = cached_options();
  options.entry_cache_bytes = 0;
  open(options);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(engine_->Get(key_of(0), &value).ok());
  EXPECT_EQ(value, value_of(0, 1));
  EXPECT_EQ(figure("hits"), 0u);
}

// Goal: large batches on a device find cached keys by the device's copy of the tags, old or not.
// Method: a fake device; batches of 20,000 lookups of keys in the tree, in runs and nowhere, before
//         and after flushes that replace some of them.
// Mutation: believing the copy without looking at the entry finds the values of before.
TEST_F(EngineEntryCache, DeviceFindsPlaces) {
  Options options = cached_options();
  gpu_.use(&options);
  open(options);
  write_round(1, false);
  ASSERT_TRUE(engine_->Flush().ok());
  base::Random random(1);
  for (int round = 1; round < 6; ++round) {
    for (int repeat = 0; repeat < 3; ++repeat) {
      Batch batch;
      std::vector<int> keys;
      for (int i = 0; i < 20'000; ++i) {
        keys.push_back(static_cast<int>(random.below(kKeys + 20)));
        ASSERT_TRUE(batch.Get(key_of(keys.back())).ok());
      }
      ASSERT_TRUE(engine_->Submit(WriteOptions(), &batch).ok());
      for (std::size_t i = 0; i < keys.size(); ++i) {
        const bool is_there = keys[i] < kKeys;
        ASSERT_EQ(batch.code(i), is_there ? Status::Code::kOk : Status::Code::kNotFound);
        if (is_there) {
          ASSERT_EQ(batch.value(i).ToString(), value_of(keys[i], round));
        }
      }
    }
    write_round(round + 1, false);
    if (round % 2 == 0) {
      ASSERT_TRUE(engine_->Flush().ok());
    }
  }
  EXPECT_GT(figure("device-hits"), 10'000u);
  EXPECT_GT(figure("device-copies"), 0u);
  engine_.reset();  // before the faults
}

// Goal: nothing is cached of a family whose contents a compaction changes.
// Method: a compaction filter that drops everything; keys are read twice, compacted, and gone.
// Mutation: caching every family still finds them.
TEST_F(EngineEntryCache, CompactionFilter) {
  DropAll filter;
  Options options = cached_options();
  options.rocksdb.compaction_filter = &filter;
  options.rocksdb.disable_auto_compactions = true;
  open(options);
  write_round(1, false);
  ASSERT_TRUE(engine_->Flush().ok());
  std::string value;
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(engine_->Get(key_of(0), &value).ok());
  rocksdb::CompactRangeOptions how;
  how.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
  ASSERT_TRUE(engine_->below().db()->CompactRange(how, nullptr, nullptr).ok());
  EXPECT_TRUE(engine_->Get(key_of(0), &value).IsNotFound());
  EXPECT_EQ(figure("inserts"), 0u);
  engine_.reset();  // before the filter
}

// Goal: what somebody takes out of the tree past the engine is gone once the engine knows.
// Method: files deleted below after their keys were cached, with each of the two calls for it.
// Mutation: take_out() or stop_caching() that does nothing still finds the key.
TEST_F(EngineEntryCache, ChangedPastTheEngine) {
  for (const bool stops : {false, true}) {
    open(cached_options());
    write_round(1, false);
    ASSERT_TRUE(engine_->Flush().ok());
    rocksdb::DB* const tree = engine_->below().db();
    ASSERT_TRUE(tree->CompactRange({}, nullptr, nullptr).ok());
    std::string value;
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(engine_->Get(key_of(0), &value).ok());
    EXPECT_EQ(figure("hits"), 1u);
    if (stops) engine_->tree_changes().stop_caching();
    const auto take_out = [&] {
      return rocksdb::DeleteFilesInRange(tree, tree->DefaultColumnFamily(), nullptr, nullptr);
    };
    ASSERT_TRUE((stops ? take_out() : engine_->tree_changes().take_out(take_out)).ok());
    EXPECT_TRUE(engine_->Get(key_of(0), &value).IsNotFound());
  }
}

// Goal: files that were ingested into the tree are seen after refresh_tree(), cached keys or not.
// Method: a file with a new value of a key that was cached.
// Mutation: a refresh_tree() that keeps the cache finds the old value.
TEST_F(EngineEntryCache, IngestedFiles) {
  open(cached_options());
  write_round(1, false);
  ASSERT_TRUE(engine_->Flush().ok());
  std::string value;
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(engine_->Get(key_of(0), &value).ok());
  const Pin before = engine_->pin();
  rocksdb::SstFileWriter writer({}, rocksdb::Options());
  ASSERT_TRUE(writer.Open(folder_ / "new.sst").ok());
  ASSERT_TRUE(writer.Put(key_of(0), "new").ok());
  ASSERT_TRUE(writer.Finish().ok());
  ASSERT_TRUE(engine_->below().db()->IngestExternalFile({folder_ / "new.sst"}, {}).ok());
  EXPECT_TRUE(engine_->tree_changes().refresh().ok());
  ASSERT_TRUE(engine_->Get(key_of(0), &value).ok());
  EXPECT_EQ(value, "new");
  rocksdb::PinnableSlice old;
  ASSERT_TRUE(engine_->lookups().get(before, kDefaultFamily, key_of(0), &old, nullptr).ok());
  EXPECT_EQ(old.ToString(), value_of(0, 1));
}

}  // namespace breccia::ordered
