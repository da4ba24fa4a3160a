#include <breccia/hash_store.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "hash/engine/engine.h"
#include "support/seeds.h"
#include "unit/hash/row_store.h"

/// Snapshots of a store into folders, and steps with which it is flushed.

namespace breccia::hash {

namespace {

using Content = std::map<std::string, std::string>;

class HashSnapshots : public RowStore {
 protected:
  /// Keys of all kinds, of which some share numbers.
  static std::string some_key(base::Random& random) {
    const std::uint64_t i = random.below(60);
    return i % 2 == 0 ? key_of_id(i) : std::string(i, 'k');
  }
  void write(base::Random& random, Content* content) {
    Batch batch = engine_->NewBatch();
    for (std::uint64_t i = 0; i < 1 + random.below(40); ++i) {
      const std::string key = some_key(random);
      if (random.one_in(3)) {
        ASSERT_TRUE(batch.Delete(key).ok());
        content->erase(key);
      } else {
        std::string& value = (*content)[key];
        value = std::to_string(random.next()) + std::string(random.below(300), 'v');
        ASSERT_TRUE(batch.Put(key, value).ok());
      }
    }
    ASSERT_TRUE(engine_->Submit(some_durability(random), &batch).ok());
  }
  [[nodiscard]] std::string copy() const { return folder_ / "copy"; }
  /// All that a store has, and what it says of its step.
  void expect(const std::string& path, const Content& content, std::optional<std::uint64_t> step) {
    HashOptions options = options_;
    options.create_if_missing = false;
    std::unique_ptr<Engine> opened;
    const Status status = Engine::open(options, path, ground_, &opened);
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(opened->FlushedStep(), step);
    std::string keys;
    EXPECT_TRUE(opened->GetProperty("breccia.hash.keys", &keys));
    if (number_mask_ == ~std::uint64_t{0}) {
      EXPECT_EQ(keys, std::to_string(content.size()));
    }
    for (std::uint64_t i = 0; i < 60; ++i) {
      const std::string key = i % 2 == 0 ? key_of_id(i) : std::string(i, 'k');
      std::string value;
      const Status found = opened->Get(key, &value);
      const auto at = content.find(key);
      ASSERT_EQ(found.ok(), at != content.end()) << i << ": " << found.ToString();
      if (found.ok()) {
        ASSERT_EQ(value, at->second) << i;
      }
    }
    // It goes on as any store does.
    bool was_done = true;
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(opened->cleaner().clean_one(&was_done).ok());
    ASSERT_TRUE(opened->Put(WriteOptions(), "another", "value").ok());
  }
};

}  // namespace

// Goal: a snapshot is a store with what there was at its moment, and with nothing else.
// Method: random batches over keys of all kinds, cleaning, steps, openings; snapshots in between,
// each opened and read, cleaned, and written to. Segments hold a few batches.
// Mutation: records that do not count, or deletions that are put aside, are written; a frame of the
// rest that is not; segments that go when they are released; a step that is not taken along.
TEST_F(HashSnapshots, AreStores) {
  for (const std::uint64_t seed : testing::seeds_to_run(60)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    number_mask_ = random.one_in(3) ? 3 : ~std::uint64_t{0};
    open_new(random);
    Content content;
    std::optional<std::uint64_t> step;
    for (int turn = 0; turn < 25 && !HasFatalFailure(); ++turn) {
      switch (random.below(8)) {
        case 0: {
          bool was_done = false;
          ASSERT_TRUE(engine_->cleaner().clean_one(&was_done).ok());
          break;
        }
        case 1:
          step = random.below(1000);
          ASSERT_TRUE(engine_->Flush(*step).ok());
          break;
        case 2:
          open();
          break;
        case 3:
          if (!random.one_in(3)) break;
          std::filesystem::remove_all(copy());
          ASSERT_TRUE(engine_->Snapshot(copy()).ok());
          ASSERT_TRUE(engine_->Snapshot(copy()).IsInvalidArgument());
          expect(copy(), content, step);
          break;
        default:
          write(random, &content);
      }
      EXPECT_EQ(engine_->FlushedStep(), step);
    }
    std::filesystem::remove_all(copy());
    ASSERT_TRUE(engine_->Snapshot(copy()).ok());
    expect(copy(), content, step);
    engine_.reset();
    expect(folder_ / "store", content, step);
    if (HasFatalFailure()) return;
  }
}

// Goal: one that is larger than segments and frames is whole.
// Method: records of a megabyte and more, many of them, so that segments are synced and released on
// the way.
// Mutation: segments that are released before they are synced, or whose files go.
TEST_F(HashSnapshots, OfManySegments) {
  base::Random random(1);
  open_new(random);
  options_.backend = BackendChoice::kHost;
  ground_.roll_bytes = 3 << 20;
  options_.log_segment_bytes = 1;
  open();
  Content content;
  for (std::uint64_t i = 0; i < 150; ++i) {
    const std::string key = key_of_id(i);
    content[key] = std::string((1 << 20) + random.below(1 << 19), static_cast<char>('a' + i % 26));
    ASSERT_TRUE(engine_->Put(WriteOptions(), key, content[key]).ok());
  }
  ASSERT_TRUE(engine_->Snapshot(copy()).ok());
  std::size_t segments = 0;
  for (const auto& entry : std::filesystem::directory_iterator(copy() + "/log")) {
    segments += entry.path().extension() == ".log" ? 1 : 0;
  }
  EXPECT_GT(segments, 3U);
  engine_.reset();
  std::unique_ptr<Engine> opened;
  ASSERT_TRUE(Engine::open(options_, copy(), ground_, &opened).ok());
  for (const auto& [key, expected] : content) {
    std::string value;
    ASSERT_TRUE(opened->Get(key, &value).ok());
    ASSERT_EQ(value, expected);
  }
}

// Goal: what goes wrong is told, and leaves no store.
TEST_F(HashSnapshots, RefuseBadPlaces) {
  base::Random random(2);
  open_new(random);
  EXPECT_TRUE(engine_->Snapshot(folder_ / "store").IsInvalidArgument());
  EXPECT_TRUE(engine_->Snapshot(folder_ / "not/there").IsNotFound());
  ASSERT_TRUE(engine_->Close().ok());
  EXPECT_TRUE(engine_->Snapshot(copy()).IsShutdownInProgress());
  EXPECT_TRUE(engine_->Flush(1).IsShutdownInProgress());
  EXPECT_FALSE(std::filesystem::exists(copy()));
}

// Goal: a step that is not of this store, or that the log does not reach, is told.
// Method: the file of another store, a damaged one, and a log that was put back to an earlier time.
// Mutation: a store's number or a position that is not compared.
TEST_F(HashSnapshots, StepsOfOthersAreTold) {
  base::Random random(3);
  open_new(random);
  const std::string store = folder_ / "store";
  const auto reopen = [&] {
    engine_.reset();
    return Engine::open(options_, store, ground_, &engine_);
  };
  ASSERT_TRUE(engine_->Put(WriteOptions(), "key", "value").ok());
  ASSERT_TRUE(engine_->Flush(7).ok());
  ASSERT_TRUE(engine_->Snapshot(copy()).ok());
  ASSERT_TRUE(reopen().ok());
  EXPECT_EQ(engine_->FlushedStep(), 7U);
  engine_.reset();
  const auto replace = std::filesystem::copy_options::overwrite_existing;
  std::filesystem::copy_file(store + "/STEP", folder_ / "kept", replace);
  std::filesystem::copy_file(copy() + "/STEP", store + "/STEP", replace);
  EXPECT_TRUE(reopen().IsCorruption());
  std::filesystem::copy_file(folder_ / "kept", store + "/STEP", replace);
  std::fstream(store + "/STEP", std::ios::in | std::ios::out | std::ios::binary).seekp(25).put('x');
  EXPECT_TRUE(reopen().IsCorruption());
  std::filesystem::remove(store + "/STEP");
  ASSERT_TRUE(reopen().ok());
  EXPECT_EQ(engine_->FlushedStep(), std::nullopt);
  engine_.reset();
  // The log as it was, and a step that was flushed behind it.
  std::filesystem::copy(store + "/log", folder_ / "log", std::filesystem::copy_options::recursive);
  ASSERT_TRUE(reopen().ok());
  ASSERT_TRUE(engine_->Put(WriteOptions(), "key", std::string(5000, 'v')).ok());
  ASSERT_TRUE(engine_->Put(WriteOptions(), "key", std::string(5000, 'v')).ok());
  ASSERT_TRUE(engine_->Flush(8).ok());
  engine_.reset();
  std::filesystem::remove_all(store + "/log");
  std::filesystem::copy(folder_ / "log", store + "/log", std::filesystem::copy_options::recursive);
  EXPECT_TRUE(reopen().IsCorruption());
}

// Goal: a step is believed only with all of its log, also where its last segment lost its end.
// Method: the log as it was is put back, with data in its last segment, behind which a step was
// flushed.
// Mutation: the end of the segment that an opening makes is taken for that of the log.
TEST_F(HashSnapshots, StepsNeedTheirLog) {
  base::Random random(5);
  open_new(random);
  ground_.roll_bytes = 0;
  const std::string store = folder_ / "store";
  const auto reopen = [&] {
    engine_.reset();
    return Engine::open(options_, store, ground_, &engine_);
  };
  ASSERT_TRUE(reopen().ok());
  ASSERT_TRUE(engine_->Put(WriteOptions(), "key", "value").ok());
  ASSERT_TRUE(engine_->Flush(1).ok());
  std::filesystem::copy(store + "/log", folder_ / "kept", std::filesystem::copy_options::recursive);
  ASSERT_TRUE(engine_->Put(WriteOptions(), "key", "another").ok());
  ASSERT_TRUE(engine_->Flush(2).ok());
  engine_.reset();
  std::filesystem::remove_all(store + "/log");
  std::filesystem::copy(folder_ / "kept", store + "/log", std::filesystem::copy_options::recursive);
  EXPECT_TRUE(reopen().IsCorruption());
  EXPECT_TRUE(reopen().IsCorruption());  // nothing was changed
  std::filesystem::remove(store + "/STEP");
  ASSERT_TRUE(reopen().ok());
  std::string value;
  ASSERT_TRUE(engine_->Get("key", &value).ok());
  EXPECT_EQ(value, "value");
}

// Goal: what is left of a snapshot, or a store without its mark, is not taken for a new store.
TEST_F(HashSnapshots, RemainsAreNoStore) {
  base::Random random(6);
  open_new(random);
  ASSERT_TRUE(engine_->Put(WriteOptions(), "key", "value").ok());
  ASSERT_TRUE(engine_->Snapshot(copy()).ok());
  engine_.reset();
  std::filesystem::remove(copy() + "/HASH");
  std::unique_ptr<Engine> other;
  options_.create_if_missing = true;
  EXPECT_TRUE(Engine::open(options_, copy(), ground_, &other).IsInvalidArgument());
  EXPECT_FALSE(std::filesystem::exists(copy() + "/HASH"));
}

// Goal: snapshots are of one moment while threads write, and steps of what was written before.
// Method: a thread that writes a counter to all keys, one that flushes the counter as a step, and
// snapshots: all keys of one are the same, and not below its step.
// Mutation: a step that is asked for behind the view.
TEST_F(HashSnapshots, BesideThreads) {
  base::Random random(4);
  open_new(random);
  options_.backend = testing::backend_under_test();
  ground_.roll_bytes = 8192;
  ground_.scanned_at_once = 64;
  open();
  constexpr std::uint64_t kKeys = 50;
  std::atomic<std::uint64_t> counter = 0;
  std::atomic<bool> stops = false;
  const auto write = [&] {
    for (std::uint64_t i = 1; !stops; ++i) {
      Batch batch = engine_->NewBatch();
      for (std::uint64_t key = 0; key < kKeys; ++key) {
        EXPECT_TRUE(batch.Put(key_of_id(key), std::to_string(i)).ok());
      }
      EXPECT_TRUE(engine_->Submit(WriteOptions(), &batch).ok());
      counter = i;
    }
  };
  const auto flush = [&] {
    while (!stops) EXPECT_TRUE(engine_->Flush(counter).ok());
  };
  std::vector<std::thread> threads;
  threads.emplace_back(write);
  threads.emplace_back(flush);
  while (counter == 0) std::this_thread::yield();
  for (int turn = 0; turn < 20 && !HasFailure(); ++turn) {
    std::filesystem::remove_all(copy());
    ASSERT_TRUE(engine_->Snapshot(copy()).ok());
    HashOptions options = options_;
    options.backend = BackendChoice::kHost;
    std::unique_ptr<Engine> opened;
    ASSERT_TRUE(Engine::open(options, copy(), ground_, &opened).ok());
    std::string first;
    ASSERT_TRUE(opened->Get(key_of_id(0), &first).ok());
    for (std::uint64_t key = 0; key < kKeys; ++key) {
      std::string value;
      ASSERT_TRUE(opened->Get(key_of_id(key), &value).ok());
      EXPECT_EQ(value, first);
    }
    if (opened->FlushedStep().has_value()) {
      EXPECT_GE(std::stoull(first), *opened->FlushedStep());
    }
  }
  stops = true;
  for (std::thread& thread : threads) thread.join();
  engine_.reset();
}

}  // namespace breccia::hash
