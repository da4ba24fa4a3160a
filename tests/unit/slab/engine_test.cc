#include "slab/engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <latch>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "slab/engine/entries.h"
#include "slab/refs.h"
#include "support/backend.h"
#include "support/fake_gpu.h"
#include "support/seeds.h"

/// The slab engine beside a map: batches, transactions, where there is no room, a device that is
/// lost.

namespace breccia::slab {
namespace {

using Model = std::map<std::string, std::string>;

class SlabEngine : public ::testing::Test {
 protected:
  /// Keys that share numbers in most of the seeds.
  void open(base::Random& random) {
    engine_.reset();
    options_ = {};
    options_.backend = random.one_in(4) ? BackendChoice::kSimulator : testing::backend_under_test();
    options_.simulator_seed = random.next();
    options_.keys_expected = random.below(64);
    gpu_.faults.fail_after(0, exec::Fault::kDeviceLost);
    if (random.one_in(4)) gpu_.use(&options_);
    const std::uint64_t masks[] = {~std::uint64_t{0}, 0xff, 3};
    const Status opened = Engine::open(options_, masks[random.below(3)], &engine_);
    ASSERT_TRUE(opened.ok()) << opened.ToString();
  }
  static std::string some_key(base::Random& random) {
    const std::uint64_t i = random.below(40);
    std::string key(8, '\0');
    std::memcpy(key.data(), &i, sizeof i);
    return random.one_in(2) ? key : std::string(i, static_cast<char>('a' + i % 3));
  }
  static std::string some_value(base::Random& random) {
    return std::string(random.below(random.one_in(10) ? 3000 : 20), 'x') +
           std::to_string(random.next());
  }
  void expect_is(const Model& model) {
    std::uint64_t bytes = 0;
    for (const auto& [key, value] : model) {
      std::string found;
      const Status status = engine_->Get(key, &found);
      ASSERT_TRUE(status.ok()) << status.ToString();
      ASSERT_EQ(found, value);
      bytes += key.size() + value.size();
    }
    std::string figure;
    ASSERT_TRUE(engine_->GetProperty("breccia.slab.keys", &figure));
    ASSERT_EQ(figure, std::to_string(model.size()));
    ASSERT_TRUE(engine_->GetProperty("breccia.slab.record_bytes", &figure));
    ASSERT_GE(std::stoull(figure), bytes);
    ASSERT_LE(std::stoull(figure), bytes + model.size() * (sizeof(Entry) + 24));
  }
  /// Fills a batch of requests in any order, and does them to the model. expected: of the lookups.
  static void fill(base::Random& random, Batch* batch, Model* model,
                   std::vector<std::optional<std::string>>* expected) {
    for (std::uint64_t i = random.below(80); i-- > 0;) {
      const std::string key = some_key(random);
      switch (random.below(4)) {
        case 0: {
          const auto at = model->find(key);
          expected->push_back(at == model->end() ? std::nullopt : std::optional(at->second));
          ASSERT_TRUE(batch->Get(key).ok());
          break;
        }
        case 1:
          model->erase(key);
          ASSERT_TRUE(batch->Delete(key).ok());
          break;
        default:
          (*model)[key] = some_value(random);
          ASSERT_TRUE(batch->Put(key, (*model)[key]).ok());
      }
    }
  }
  static void expect_found(const Batch& batch,
                           const std::vector<std::optional<std::string>>& expected) {
    ASSERT_EQ(batch.reads(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(batch.code(i) == Status::Code::kOk, expected[i].has_value());
      if (!expected[i].has_value()) continue;
      ASSERT_EQ(batch.value(i), Slice(*expected[i]));
    }
  }

  testing::FakeGpu gpu_;
  SlabOptions options_;
  std::unique_ptr<Engine> engine_;
};

// Goal: a store is a map, whatever a batch has in whatever order, also of keys that share a number,
//   and nothing stays in memory that nobody finds.
// Method: batches of puts, deletions and lookups of forty keys beside a map; in some of the seeds
//   the device is lost in mid-batch.
// Mutation: lookups that see what comes behind them; a list in which a replaced entry stays; one
//   that is lost with the key that was deleted from it.
TEST_F(SlabEngine, IsAMap) {
  for (const std::uint64_t seed : testing::seeds_to_run(300)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    open(random);
    Model model;
    Batch batch = engine_->NewBatch();
    const std::uint64_t lost_in = random.below(40);
    for (std::uint64_t turn = 0; turn < 20; ++turn) {
      batch.Clear();
      std::vector<std::optional<std::string>> expected;
      fill(random, &batch, &model, &expected);
      if (turn == lost_in) gpu_.faults.fail_after(1 + random.below(12), exec::Fault::kDeviceLost);
      const Status status = engine_->Submit(WriteOptions(), &batch);
      ASSERT_TRUE(status.ok()) << status.ToString();
      expect_found(batch, expected);
    }
    expect_is(model);
  }
}

// Goal: batches are seen whole, and what is acknowledged is there.
// Method: threads that write the same number under several keys, and others that look all of them
//   up at once (ThreadSanitizer).
// Mutation: lookups that do not share the table while they copy values.
TEST_F(SlabEngine, ConcurrentBatchesAreWhole) {
  base::Random random(1);
  open(random);
  constexpr int kKeys = 8;
  constexpr int kTurns = 300;
  const auto key = [](int i) { return "key " + std::to_string(i); };
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (int turn = 0; turn < kTurns; ++turn) {
        Batch batch;
        const std::string value = std::to_string(t * kTurns + turn) + std::string(turn, 'x');
        for (int i = 0; i < kKeys; ++i) ASSERT_TRUE(batch.Put(key(i), value).ok());
        ASSERT_TRUE(engine_->Submit(WriteOptions(), &batch).ok());
      }
    });
    threads.emplace_back([&] {
      for (int turn = 0; turn < kTurns; ++turn) {
        Batch batch;
        for (int i = 0; i < kKeys; ++i) ASSERT_TRUE(batch.Get(key(i)).ok());
        ASSERT_TRUE(engine_->Submit(WriteOptions(), &batch).ok());
        for (int i = 1; i < kKeys; ++i) {
          ASSERT_EQ(batch.code(i), batch.code(0));
          ASSERT_EQ(batch.value(i), batch.value(0));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Goal: batches that many cores work on are as small ones, and give back what they replace.
// Method: batches of some thousand puts, deletions and lookups beside a map (ThreadSanitizer).
// Mutation: a piece that is settled twice, or not at all.
TEST_F(SlabEngine, ConcurrentPiecesOfLargeBatches) {
  base::Random random(3);
  open(random);
  Model model;
  Batch batch = engine_->NewBatch();
  for (int turn = 0; turn < 6; ++turn) {
    batch.Clear();
    std::vector<std::optional<std::string>> expected;
    for (int i = 0; i < 12'000; ++i) {
      const std::string key = std::to_string(random.below(10'000));
      if (random.one_in(4)) {
        const auto at = model.find(key);
        expected.push_back(at == model.end() ? std::nullopt : std::optional(at->second));
        ASSERT_TRUE(batch.Get(key).ok());
      } else if (random.one_in(4)) {
        model.erase(key);
        ASSERT_TRUE(batch.Delete(key).ok());
      } else {
        model[key] = std::to_string(random.next());
        ASSERT_TRUE(batch.Put(key, model[key]).ok());
      }
    }
    ASSERT_TRUE(engine_->Submit(WriteOptions(), &batch).ok());
    expect_found(batch, expected);
  }
  expect_is(model);
}

// Goal: a device that is lost while many use it costs nobody an answer.
// Method: threads look up what was put before while the device is lost.
// Mutation: whoever hears of the loss second takes the host for lost.
TEST_F(SlabEngine, ConcurrentCallsSurviveALostDevice) {
  for (const std::uint64_t seed : testing::seeds_to_run(100)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    SlabOptions options;
    gpu_.faults.fail_after(0, exec::Fault::kDeviceLost);
    gpu_.use(&options);
    ASSERT_TRUE(Engine::open(options, ~std::uint64_t{0}, &engine_).ok());
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(engine_->Put(WriteOptions(), std::to_string(i), std::to_string(i)).ok());
    }
    gpu_.faults.fail_after(1 + random.below(20), exec::Fault::kDeviceLost);
    std::latch all_are_there(4);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        all_are_there.arrive_and_wait();
        for (int turn = 0; turn < 30; ++turn) {
          const std::string key = std::to_string(turn % 20);
          std::string value;
          const Status got = engine_->Get(key, &value);
          ASSERT_TRUE(got.ok()) << got.ToString();
          ASSERT_EQ(value, key);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::string backend;
    ASSERT_TRUE(engine_->GetProperty("breccia.backend", &backend));
    EXPECT_EQ(backend.find("fake"), std::string::npos) << backend;
  }
}

// Goal: a transaction happens if what it read is still so.
// Method: between reading and closing another one writes what was read, or what was not.
// Mutation: a check before the section.
TEST_F(SlabEngine, TransactionsAreOfOneMoment) {
  base::Random random(2);
  open(random);
  ASSERT_TRUE(engine_->Put(WriteOptions(), "a", "1").ok());
  for (const std::string written : {"a", "b", "c"}) {
    const auto transaction = engine_->OpenTransaction();
    Batch reads = engine_->NewBatch();
    ASSERT_TRUE(reads.Get("a").ok());
    ASSERT_TRUE(reads.Get("b").ok());
    ASSERT_TRUE(transaction->Read(&reads).ok());
    ASSERT_TRUE(transaction->batch().Put("sum", "2").ok());
    ASSERT_TRUE(engine_->Put(WriteOptions(), written, "1").ok());
    const Status closed = transaction->Close(WriteOptions());
    EXPECT_EQ(closed.IsBusy(), written != "c") << closed.ToString();
    EXPECT_EQ(closed.ok(), written == "c");
  }
}

// Goal: a batch for which there is no room leaves no trace.
// Method: an index of some kilobytes, and records of some kilobytes, filled by batches that also
//   replace and delete what is there, until one is refused; everything is as before it.
// Mutation: what came in before the request that found no room; deletions that are refused.
TEST_F(SlabEngine, RefusedBatchesLeaveNothing) {
  for (const bool by_index : {true, false}) {
    for (const std::uint64_t seed : testing::seeds_to_run(10)) {
      SCOPED_TRACE(testing::replay_command(seed));
      base::Random random(seed);
      SlabOptions options;
      options.backend = BackendChoice::kSimulator;
      options.keys_expected = 1;
      if (by_index) {
        options.device_bytes_max = 512 * sizeof(Slab);  // batches take some of it
        options.index_host_bytes_max = 1;
      } else {
        options.record_bytes_max = 40'000;
      }
      // Some keys share numbers, but there are too many of these for the index.
      const std::uint64_t mask = by_index ? 0x3fff : 3;
      ASSERT_TRUE(
          Engine::open(options, random.one_in(2) ? mask : ~std::uint64_t{0}, &engine_).ok());
      Model model;
      // On the host, where it goes if there is no memory for lists, the index has no bound.
      constexpr std::size_t kKeysMax = 20'000;
      for (Status status = Status::OK(); status.ok() && model.size() < kKeysMax;) {
        Model next = model;
        Batch batch = engine_->NewBatch();
        for (auto& [key, value] : model) {
          if (random.one_in(100)) {
            ASSERT_TRUE(batch.Delete(key).ok());
            next.erase(key);
          } else if (random.one_in(20)) {
            ASSERT_TRUE(batch.Put(key, next[key] = some_value(random)).ok());
          }
        }
        for (int i = 0; i < (by_index ? 400 : 50); ++i) {
          const std::string key = std::to_string(random.next());
          ASSERT_TRUE(batch.Put(key, next[key] = "v").ok());
        }
        status = engine_->Submit(WriteOptions(), &batch);
        ASSERT_TRUE(status.ok() || status.IsMemoryLimit()) << status.ToString();
        if (status.ok()) model = std::move(next);
      }
      EXPECT_GT(model.size(), 50U);
      expect_is(model);
      Batch some = engine_->NewBatch();
      for (auto at = model.begin(); at != model.end();) {
        some.Clear();
        for (int i = 0; i < 200 && at != model.end(); ++i, ++at) {
          ASSERT_TRUE(some.Delete(at->first).ok());
        }
        const Status emptied = engine_->Submit(WriteOptions(), &some);
        ASSERT_TRUE(emptied.ok()) << emptied.ToString();
      }
      expect_is({});
    }
  }
}

// Goal: keys to 64 KiB and values to 1 MiB are kept, replaced and deleted, also behind a tier that
//   has no copies of the largest.
// Method: keys and values of sizes from 1 byte on, each with each, in one batch and one by one.
// Mutation: a size that has not room for its bits; a copy that is cut.
TEST_F(SlabEngine, KeysAndValuesOfAllSizes) {
  for (const bool has_tier : {false, true}) {
    SlabOptions options;
    options.backend = testing::backend_under_test();
    if (has_tier) options.hot_tier = HotOptions{.sample_one_in = 1, .samples_of_window = 64};
    std::unique_ptr<Store> store;
    ASSERT_TRUE(Store::Open(options, &store).ok());
    Model model;
    Batch batch = store->NewBatch();
    for (const std::size_t key_bytes : {1, 7, 8, 9, 4096, 65'535}) {
      for (const std::size_t value_bytes : {0, 1, 8, 64, 4096, 64 << 10, 1 << 20}) {
        std::string key(key_bytes, static_cast<char>('a' + model.size()));
        model[key] = std::string(value_bytes, static_cast<char>('A' + model.size() % 26));
        ASSERT_TRUE(batch.Put(key, std::string(8, 'x')).ok());
        ASSERT_TRUE(batch.Put(key, model[key]).ok());
        ASSERT_TRUE(batch.Get(key).ok());
      }
    }
    ASSERT_TRUE(store->Submit(WriteOptions(), &batch).ok());
    for (int turn = 0; turn < 4; ++turn) {
      for (auto& [key, value] : model) {
        std::string found;
        for (int i = 0; i < 8; ++i) ASSERT_TRUE(store->Get(key, &found).ok());
        ASSERT_EQ(found, value);
        std::reverse(value.begin(), value.end());
        value += turn == 2 ? "z" : "";
        ASSERT_TRUE(store->Put(WriteOptions(), key, value).ok());
      }
    }
    for (const auto& [key, value] : model) {
      ASSERT_TRUE(store->Delete(WriteOptions(), key).ok());
      std::string found;
      ASSERT_TRUE(store->Get(key, &found).IsNotFound());
    }
    std::string figure;
    ASSERT_TRUE(store->GetProperty("breccia.slab.record_bytes", &figure));
    EXPECT_EQ(figure, "0");
  }
}

// Goal: pools of hardly any bytes are refused, or fill up and say so; nothing waits for room that
//   nobody makes, alone, in the queue, or behind a tier of hot keys.
// Method: indexes and records of 1 byte to some kilobytes, on the host and on the simulator, keys
//   and values in entries and in place; single writes and asynchronous ones until one is refused.
// Mutation: a table that tries to grow for ever; a refused batch whose bytes stay booked.
TEST_F(SlabEngine, TinyPoolsSayNo) {
  const auto word = [](std::uint64_t i) {
    std::string bytes(sizeof i, '\0');
    std::memcpy(bytes.data(), &i, sizeof i);
    return bytes;
  };
  std::uint64_t refused_to_open = 0;
  for (const std::uint64_t bytes : {1, 4096, 64 << 10}) {
    for (int kind = 0; kind < 16; ++kind) {
      SlabOptions options;
      options.backend = (kind & 1) != 0 ? BackendChoice::kSimulator : BackendChoice::kHost;
      options.in_place = (kind & 2) != 0;
      options.keys_expected = (kind & 4) != 0 ? 100'000 : 0;
      if ((kind & 8) != 0) options.hot_tier = HotOptions{.keys_max = 4, .sample_one_in = 1};
      options.device_bytes_max = options.index_host_bytes_max = bytes;
      options.record_bytes_max = bytes;
      std::unique_ptr<Store> store;
      Status status = Store::Open(options, &store);
      ASSERT_TRUE(status.ok() || status.IsMemoryLimit()) << status.ToString();
      if (!status.ok()) {
        ++refused_to_open;
        continue;
      }
      constexpr std::uint64_t kKeysMax = 100'000;
      std::uint64_t kept = 0;
      while (kept < kKeysMax) {
        Batch batch = store->NewBatch();
        ASSERT_TRUE(batch.Put(word(kept), word(kept)).ok());
        std::promise<Status> done;
        kept % 8 == 0 ? store->SubmitAsync(WriteOptions(), &batch,
                                           [&](Status one) { done.set_value(std::move(one)); })
                      : done.set_value(store->Put(WriteOptions(), word(kept), word(kept)));
        status = done.get_future().get();
        if (!status.ok()) break;
        ++kept;
      }
      ASSERT_TRUE(status.IsMemoryLimit()) << status.ToString();
      ASSERT_LT(kept, kKeysMax);
      std::string value;
      for (std::uint64_t i = 0; i < kept; ++i) ASSERT_TRUE(store->Get(word(i), &value).ok());
      const Status absent = store->Get(word(kept), &value);
      EXPECT_TRUE(absent.IsNotFound() || (kept == 0 && absent.IsMemoryLimit()));
      for (int turn = 0; kept > 0 && turn < 100; ++turn) {
        SCOPED_TRACE(kind);
        const Status deleted = store->Delete(WriteOptions(), word(0));
        ASSERT_TRUE(deleted.ok()) << deleted.ToString();
        const Status put = store->Put(WriteOptions(), word(0), word(0));
        ASSERT_TRUE(put.ok()) << put.ToString();
      }
      EXPECT_TRUE(store->Close().ok());
    }
  }
  EXPECT_GT(refused_to_open, 0U);
}

// Goal: what it does not have says so; what ends with it is told.
TEST_F(SlabEngine, SaysWhatItDoesNotHave) {
  base::Random random(3);
  open(random);
  std::unique_ptr<ChangeStream> stream;
  EXPECT_TRUE(engine_->Changes(0, {}, &stream).IsNotSupported());
  EXPECT_TRUE(engine_->SyncLog().IsNotSupported());
  EXPECT_TRUE(engine_->Flush().IsNotSupported());
  EXPECT_TRUE(engine_->Merge(WriteOptions(), "a", "b").IsNotSupported());
  Batch batch = engine_->NewBatch();
  ASSERT_TRUE(batch.Range("a", "b", 1).ok());
  EXPECT_TRUE(engine_->Submit(WriteOptions(), &batch).IsNotSupported());
  std::string value;
  EXPECT_TRUE(engine_->Get("a", &value).IsNotFound());
  EXPECT_TRUE(engine_->Get(std::string(100'000, 'k'), &value).IsNotFound());
  ASSERT_TRUE(engine_->Close().ok());
  EXPECT_TRUE(engine_->Put(WriteOptions(), "a", "b").IsShutdownInProgress());
  EXPECT_TRUE(engine_->Get("a", &value).IsShutdownInProgress());
}

}  // namespace
}  // namespace breccia::slab
