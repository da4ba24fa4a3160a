#include "hot/tier.h"

#include <breccia/columns.h>
#include <breccia/hash_options.h>
#include <breccia/hash_store.h>
#include <breccia/options.h>
#include <breccia/slab_options.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "support/append_operator.h"
#include "support/folder.h"
#include "support/restless_tier.h"
#include "support/seeds.h"
#include "support/small_options.h"

/// The tier over real engines: answers are those of the store below.

namespace breccia::hot {

namespace {

enum class Engine { kOrdered, kHash, kSlab };

std::string name_of(const ::testing::TestParamInfo<Engine>& engine) {
  constexpr const char* kNames[] = {"Ordered", "Hash", "Slab"};
  return kNames[static_cast<int>(engine.param)];
}

class HotTier : public ::testing::TestWithParam<Engine> {
 protected:
  void open(const HotOptions& options) {
    std::unique_ptr<Store> below;
    const std::string path = folder_ / std::to_string(opened_++);
    if (GetParam() == Engine::kOrdered) {
      Options ordered = testing::small_options();
      ordered.rocksdb.merge_operator = std::make_shared<testing::AppendOperator>();
      ASSERT_TRUE(Store::Open(ordered, path, &below).ok());
    } else if (GetParam() == Engine::kSlab) {
      SlabOptions slab;
      slab.backend = BackendChoice::kHost;
      ASSERT_TRUE(Store::Open(slab, &below).ok());
    } else {
      HashOptions hash;
      hash.create_if_missing = true;
      hash.backend = BackendChoice::kHost;
      ASSERT_TRUE(Store::Open(hash, path, &below).ok());
    }
    auto made = Tier::make(options, std::move(below));
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    store_ = made.take();
  }
  std::uint64_t figure(const std::string& name) {
    std::string text;
    EXPECT_TRUE(store_->GetProperty("breccia.hot." + name, &text));
    return std::stoull(text);
  }
  std::string get(const std::string& key) {
    std::string value;
    const Status status = store_->Get(key, &value);
    if (status.ok()) return "=" + value;
    return status.IsNotFound() ? "none" : status.ToString();
  }
  /// Asks for a key until it is hot.
  void warm(const std::string& key) {
    for (const std::uint64_t hits = figure("hits"); figure("hits") == hits;) (void)get(key);
  }

  const testing::Folder folder_{testing::Place::kMemory};
  int opened_ = 0;
  std::unique_ptr<Store> store_;
};
INSTANTIATE_TEST_SUITE_P(Engines, HotTier,
                         ::testing::Values(Engine::kOrdered, Engine::kHash, Engine::kSlab),
                         name_of);

const HotOptions kSmall{.keys_max = 8,
                        .value_bytes_max = 100,
                        .sample_one_in = 1,
                        .samples_of_window = 512,
                        .gain_min = 0.001};

}  // namespace

/// Requests of all kinds to few keys, some of them more often than others, beside a map.
class HotTierAndMap : public HotTier {
 protected:
  /// Turn after turn other keys are asked for most.
  std::string some_key(int turn) {
    const std::uint64_t often = static_cast<std::uint64_t>(turn) / 1000 * 7 + random_->below(6);
    return "key" + std::to_string((random_->one_in(3) ? random_->below(64) : often) % 64);
  }
  std::string some_value() {
    return std::string(random_->below(random_->one_in(4) ? 300 : 20),
                       static_cast<char>('a' + random_->below(26)));
  }
  [[nodiscard]] std::string expected(const std::string& key) const {
    const auto at = model_.find(key);
    return at == model_.end() ? std::string("none") : "=" + at->second;
  }
  void write_one(const std::string& key) {
    const std::string value = some_value();
    if (random_->one_in(2)) {
      ASSERT_TRUE(store_->Put({}, key, value).ok());
      model_[key] = value;
    } else {
      ASSERT_TRUE(store_->Delete({}, key).ok());
      model_.erase(key);
    }
  }
  void merge(const std::string& key) {
    if (GetParam() != Engine::kOrdered) return;
    ASSERT_TRUE(store_->Merge({}, key, "more").ok());
    const bool is_there = model_.contains(key);
    model_[key] += is_there ? ",more" : "more";
  }
  void write_batch(int turn) {
    Batch batch = store_->NewBatch();
    for (int i = 0; i < 3; ++i) {
      const std::string key = some_key(turn);
      const std::string value = some_value();
      if (random_->one_in(3)) {
        ASSERT_TRUE(batch.Delete(key).ok());
        model_.erase(key);
      } else {
        ASSERT_TRUE(batch.Put(key, value).ok());
        model_[key] = value;
      }
    }
    if (random_->one_in(2)) {
      ASSERT_TRUE(store_->Submit({}, &batch).ok());
      return;
    }
    std::promise<bool> submitted;
    store_->SubmitAsync({}, &batch, [&](Status status) { submitted.set_value(status.ok()); });
    ASSERT_TRUE(submitted.get_future().get());
  }
  void transact(const std::string& key) {
    const std::string value = some_value();
    const auto transaction = store_->OpenTransaction();
    ASSERT_TRUE(transaction->batch().Put(key, value).ok());
    if (random_->one_in(4)) return;  // it is given up
    ASSERT_TRUE(transaction->Close({}).ok());
    model_[key] = value;
  }
  void delete_range(const std::string& begin, const std::string& end) {
    if (GetParam() != Engine::kOrdered || end < begin) return;
    Batch batch = store_->NewBatch();
    ASSERT_TRUE(batch.DeleteRange(kDefaultFamily, begin, end).ok());
    ASSERT_TRUE(store_->Submit({}, &batch).ok());
    model_.erase(model_.lower_bound(begin), model_.lower_bound(end));
  }
  void look_up_batch(int turn) {
    Batch batch = store_->NewBatch();
    std::vector<std::string> keys(1 + random_->below(20));
    for (std::string& key : keys) {
      key = some_key(turn);
      ASSERT_TRUE(batch.Get(key).ok());
    }
    ASSERT_TRUE(store_->Submit({}, &batch).ok());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const bool is_there = batch.code(i) == Status::Code::kOk;
      ASSERT_TRUE(is_there || batch.code(i) == Status::Code::kNotFound);
      ASSERT_EQ(is_there ? "=" + batch.value(i).ToString() : "none", expected(keys[i]));
    }
  }

  std::optional<base::Random> random_;
  std::map<std::string, std::string> model_;
};
INSTANTIATE_TEST_SUITE_P(Engines, HotTierAndMap,
                         ::testing::Values(Engine::kOrdered, Engine::kHash, Engine::kSlab),
                         name_of);

// Goal: whoever writes, and however, lookups are what a map has, while what is hot changes.
// Method: random requests beside a map; all keys at the end.
// Mutation: a kind of write that is not told of; a value that is too large for a copy kept.
TEST_P(HotTierAndMap, AreTheSame) {
  for (const std::uint64_t seed : testing::seeds_to_run(6)) {
    SCOPED_TRACE(testing::replay_command(seed));
    random_.emplace(seed);
    model_.clear();
    open(kSmall);
    if (HasFatalFailure()) return;
    warm("key1");
    for (int turn = 0; turn < 4000 && !HasFatalFailure(); ++turn) {
      const std::string key = some_key(turn);
      switch (random_->below(12)) {
        case 0:
        case 1:
          write_one(key);
          break;
        case 2:
          write_batch(turn);
          break;
        case 3:
          transact(key);
          break;
        case 4:
          random_->one_in(8) ? delete_range(key, some_key(turn)) : merge(key);
          break;
        case 5:
        case 6:
          look_up_batch(turn);
          break;
        default:
          ASSERT_EQ(get(key), expected(key)) << key << " in turn " << turn;
      }
    }
    for (int i = 0; i < 64; ++i) {
      const std::string key = "key" + std::to_string(i);
      ASSERT_EQ(get(key), expected(key));
    }
    ASSERT_TRUE(store_->Close().ok());
  }
}

// Goal: lookups of a batch are as of one moment, though some are answered by copies.
// Method: a thread that writes the same number to two keys, in batches; others look both up in one.
// Mutation: copies that are not compared behind the store's answer.
TEST_P(HotTier, ConcurrentBatchesAreOfOneMoment) {
  open(kSmall);
  if (HasFatalFailure()) return;
  constexpr int kTurns = 20'000;
  warm("one");
  std::atomic<bool> is_over = false;
  std::thread writer([&] {
    for (int turn = 0; turn < kTurns; ++turn) {
      Batch batch = store_->NewBatch();
      for (const char* const key : {"one", "two"}) {
        EXPECT_TRUE(batch.Put(key, std::to_string(turn)).ok());
      }
      EXPECT_TRUE(store_->Submit({}, &batch).ok());
      if (turn % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    is_over = true;
  });
  for (const std::uint64_t before = figure("hits"); !is_over || figure("hits") == before;) {
    Batch batch = store_->NewBatch();
    ASSERT_TRUE(batch.Get("one").ok());
    ASSERT_TRUE(batch.Get("two").ok());
    ASSERT_TRUE(store_->Submit({}, &batch).ok());
    EXPECT_EQ(batch.code(0), batch.code(1));
    EXPECT_EQ(batch.value(0).ToString(), batch.value(1).ToString());
    if (HasFailure()) break;
  }
  writer.join();
}

// Goal: who looks up keys one by one that are written together sees none of them go back.
// Method: a thread that writes the same number to two hot keys and one that is not, in batches;
//   others look them up one behind the other.
// Mutation: copies that become new one by one; a copy that stays old behind the batch; one that is
//   new before the store's others are.
TEST_P(HotTier, ConcurrentLookupsNeverGoBack) {
  open(kSmall);
  if (HasFatalFailure()) return;
  constexpr int kTurns = 20'000;
  warm("one");
  warm("two");
  std::atomic<bool> is_over = false;
  std::thread writer([&] {
    for (int turn = 1; turn < kTurns; ++turn) {
      Batch batch = store_->NewBatch();
      for (const char* const key : {"one", "two", "cold"}) {
        EXPECT_TRUE(batch.Put(key, std::to_string(turn)).ok());
      }
      EXPECT_TRUE(store_->Submit({}, &batch).ok());
      if (turn % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    is_over = true;
  });
  std::vector<std::thread> readers;
  for (std::uint64_t t = 0; t < 2; ++t) {
    readers.emplace_back([&, random = base::Random(t)]() mutable {
      const std::string keys[] = {"one", "two", "cold"};
      for (std::uint64_t last = 0; !is_over;) {
        // The one that is not hot seldom, so that it stays so.
        const std::string found = get(keys[random.one_in(20) ? 2 : random.below(2)]);
        const std::uint64_t now = found == "none" ? 0 : std::stoull(found.substr(1));
        ASSERT_GE(now, last);
        last = now;
      }
    });
  }
  writer.join();
  for (std::thread& reader : readers) reader.join();
}

// Goal: copies of a store that tells of moments stay while their keys are written.
// Method: lookups of a hot key while batches and single writes, and some that fail, write it; most
//   are answered by copies.
// Mutation: copies that go when a write begins.
TEST_P(HotTier, ConcurrentWritesLeaveCopies) {
  if (GetParam() != Engine::kSlab) GTEST_SKIP() << "it tells of no moments";
  open(kSmall);
  if (HasFatalFailure()) return;
  ASSERT_TRUE(store_->Put({}, "key", "0").ok());
  warm("key");
  std::atomic<bool> is_over = false;
  std::thread writer([&] {
    for (int turn = 0; !is_over; ++turn) {
      Batch batch = store_->NewBatch();
      ASSERT_TRUE(batch.Put("key", std::to_string(turn)).ok());
      ASSERT_TRUE(batch.Put("other", std::to_string(turn)).ok());
      if (turn % 3 == 0) {
        ASSERT_TRUE(batch.Merge("key", "more").ok());
      }
      ASSERT_EQ(store_->Submit({}, &batch).IsNotSupported(), turn % 3 == 0);
      ASSERT_TRUE(store_->Put({}, "key", "single").ok());
    }
  });
  const std::uint64_t hits = figure("hits");
  const std::uint64_t lookups = figure("lookups");
  for (int turn = 0; turn < 100'000; ++turn) ASSERT_NE(get("key"), "none");
  is_over = true;
  writer.join();
  EXPECT_GT(figure("hits") - hits, (figure("lookups") - lookups) / 2);
}

// Goal: arrays of the caller's have the store's answer alone, never a copy's.
// Method: a key that is hot, and one that is not there, looked up into an array; no copy answers.
// Mutation: such a batch is divided: a value that is not there any more may stand in the array.
TEST_P(HotTier, ArraysAreForTheStore) {
  open(kSmall);
  if (HasFatalFailure()) return;
  ASSERT_TRUE(store_->Put({}, "hot.", "value").ok());
  warm("hot.");
  const std::uint64_t before = figure("hits");
  const std::string keys = "hot.none";
  std::string values(10, '-');
  std::uint8_t found[2] = {7, 7};
  Batch batch = store_->NewBatch();
  ASSERT_TRUE(batch
                  .Get(kDefaultFamily, BytesColumn::Fixed(keys.data(), 2, 4),
                       ValueArray{.values = values.data(), .width = 5, .stride = 5, .found = found})
                  .ok());
  ASSERT_TRUE(store_->Submit({}, &batch).ok());
  EXPECT_EQ(values, "value-----");
  EXPECT_TRUE(found[0] == 1 && found[1] == 0);
  EXPECT_EQ(figure("hits"), before);
}

// Goal: a store that is closed says so of hot keys, too; one that is deleted runs what was
// submitted to run later, and tells of it.
// Method: a hot key; a write of it that is submitted right before.
// Mutation: copies that outlive the closing; copies that go before what is submitted has run.
TEST_P(HotTier, EndsAsStoresDo) {
  open(kSmall);
  if (HasFatalFailure()) return;
  ASSERT_TRUE(store_->Put({}, "hot", "value").ok());
  warm("hot");
  Batch batch = store_->NewBatch();
  ASSERT_TRUE(batch.Put("hot", "other").ok());
  std::atomic<bool> is_done = false;
  store_->SubmitAsync({}, &batch, [&](Status status) { is_done = status.ok(); });
  ASSERT_TRUE(store_->Close().ok());
  EXPECT_TRUE(is_done);
  std::string value;
  EXPECT_TRUE(store_->Get("hot", &value).IsShutdownInProgress());
  open(kSmall);
  warm("hot");
  Batch last = store_->NewBatch();
  ASSERT_TRUE(last.Put("hot", "last").ok());
  is_done = false;
  store_->SubmitAsync({}, &last, [&](Status status) { is_done = status.ok(); });
  store_.reset();
  EXPECT_TRUE(is_done);
}

// Goal: no increment is lost, and nobody reads less than was acknowledged, while models change.
// Method: threads that raise counters, each its own, and read all of them.
// Mutation: a lookup past a model that writes do not know of yet.
TEST_P(HotTier, ConcurrentCountersNeverFall) {
  open(kSmall);
  if (HasFatalFailure()) return;
  warm("0/0");
  constexpr std::uint64_t kThreads = 3;
  constexpr std::uint64_t kCounters = 5;  // of each
  constexpr int kTurns = 40'000;
  std::atomic<std::uint64_t> acknowledged[kThreads][kCounters] = {};
  const auto key_of = [](std::uint64_t t, std::uint64_t i) {
    return std::to_string(t) + "/" + std::to_string(i);
  };
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      base::Random random(t);
      for (int turn = 0; turn < kTurns; ++turn) {
        // What is hot moves on.
        const std::uint64_t i = (turn / 5000 + random.below(2)) % kCounters;
        if (random.one_in(4)) {
          const std::uint64_t next = acknowledged[t][i] + 1;
          ASSERT_TRUE(store_->Put({}, key_of(t, i), std::to_string(next)).ok());
          acknowledged[t][i] = next;
          continue;
        }
        const std::uint64_t of = random.below(kThreads);
        const std::uint64_t least = acknowledged[of][i];
        const std::string found = get(key_of(of, i));
        ASSERT_GE(found == "none" ? 0 : std::stoull(found.substr(1)), least);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    for (std::uint64_t i = 0; i < kCounters; ++i) {
      const std::uint64_t last = acknowledged[t][i];
      EXPECT_EQ(get(key_of(t, i)), last == 0 ? "none" : "=" + std::to_string(last));
    }
  }
}

// Goal: options that make no sense are refused before anything is opened, and so is a tier where
//   there can be none.
// Method: each of them; no folder is made.
// Mutation: a tier that is not there, and nobody says so.
TEST(HotTierOptions, AreRefused) {
  const testing::Folder folder{testing::Place::kMemory};
  const std::string path = folder / "store";
  std::unique_ptr<Store> store;
  Options options = testing::small_options();
  for (const HotOptions& wrong :
       {HotOptions{.keys_max = 0}, HotOptions{.sample_one_in = 0}, HotOptions{.keys_max = 1 << 30},
        HotOptions{.samples_of_window = 0}}) {
    options.hot_tier = wrong;
    EXPECT_TRUE(Store::Open(options, path, &store).IsInvalidArgument());
  }
  options.hot_tier = HotOptions();
  options.rocksdb.compaction_style = rocksdb::kCompactionStyleFIFO;
  EXPECT_TRUE(Store::Open(options, path, &store).IsInvalidArgument());
  options.families.emplace_back("default", options.rocksdb);
  options.rocksdb.compaction_style = rocksdb::kCompactionStyleLevel;
  EXPECT_TRUE(Store::Open(options, path, &store).IsInvalidArgument());
  HashOptions hash;
  hash.create_if_missing = true;
  hash.hot_tier = HotOptions();
  std::unique_ptr<HashStore> own;
  EXPECT_TRUE(HashStore::Open(hash, path, &own).IsInvalidArgument());
  EXPECT_FALSE(std::filesystem::exists(path));
  hash.backend = BackendChoice::kHost;
  ASSERT_TRUE(Store::Open(hash, path, &store).ok());
  std::string figure;
  EXPECT_TRUE(store->GetProperty("breccia.hot.keys", &figure));
}

// Goal: no increment of a counter is lost while which of them are hot changes all the time.
// Method: threads that read a counter and put the next number, under a lock of that counter, most
//   of them those that are hot just then, and read it without the lock before; 100,000 a seed
//   (BRECCIA_TEST_SHARE for more).
// Mutation: a lookup that brings a copy without a lease; a change of the model in one step.
TEST_P(HotTier, NoConcurrentIncrementIsLost) {
  constexpr std::uint64_t kCounters = 100;
  constexpr std::uint64_t kThreads = 4;
  constexpr std::uint64_t kTurns = 25'000;  // of each
  struct Counter {
    std::mutex mutex;
    std::atomic<std::uint64_t> acknowledged{0};
  };
  const auto key_of = [](std::uint64_t i) { return "counter" + std::to_string(i); };
  const auto number_of = [](const std::string& found) {
    return found == "none" ? 0 : std::stoull(found.substr(1));
  };
  std::uint64_t changes = 0;
  for (const std::uint64_t seed : testing::seeds_to_run(10)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random seeds(seed);
    open(testing::restless_tier(&seeds, kCounters));
    if (HasFatalFailure()) return;
    std::array<Counter, kCounters> counters;
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, random = base::Random(seeds.next())]() mutable {
        for (std::uint64_t turn = 0; turn < kTurns; ++turn) {
          const std::uint64_t i = (turn / 1000 * 13 + random.below(10)) % kCounters;
          const std::uint64_t least = counters[i].acknowledged;
          ASSERT_GE(number_of(get(key_of(i))), least) << "without the lock";
          const std::lock_guard lock(counters[i].mutex);
          const std::uint64_t next = number_of(get(key_of(i))) + 1;
          ASSERT_EQ(next, counters[i].acknowledged + 1);
          ASSERT_TRUE(store_->Put({}, key_of(i), std::to_string(next)).ok());
          counters[i].acknowledged = next;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::uint64_t sum = 0;
    for (std::uint64_t i = 0; i < kCounters; ++i) sum += number_of(get(key_of(i)));
    ASSERT_EQ(sum, kThreads * kTurns);
    changes += figure("changes");
    ASSERT_TRUE(store_->Close().ok());
    store_.reset();
    std::filesystem::remove_all(folder_ / std::to_string(opened_ - 1));
  }
  std::printf("%lu changes of what is hot\n", changes);
  EXPECT_GT(changes, 0U);
}

}  // namespace breccia::hot
