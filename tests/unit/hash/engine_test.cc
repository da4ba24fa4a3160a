#include "hash/engine/engine.h"

#include <breccia/hash_options.h>
#include <breccia/options.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <deque>
#include <filesystem>
#include <latch>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/limits.h"
#include "base/random.h"
#include "support/backend.h"
#include "support/fake_gpu.h"
#include "support/folder.h"
#include "support/seeds.h"
#include "support/sparse_files.h"

/// The hash engine beside a map: batches, transactions, cleaning, opening again.

namespace breccia::hash {

namespace {

using Model = std::map<std::string, std::string>;

class HashEngine : public ::testing::Test {
 protected:
  /// Segments that are full soon, and keys that share numbers in most of the seeds.
  void choose(base::Random& random) {
    options_.create_if_missing = true;
    options_.backend = random.one_in(4) ? BackendChoice::kSimulator : testing::backend_under_test();
    options_.simulator_seed = random.next();
    options_.keys_expected = random.below(64);
    options_.log_factor = 1 + static_cast<double>(random.below(3));
    const std::uint64_t masks[] = {~std::uint64_t{0}, 0xff, 3};
    ground_ = {testing::make_sparse_files(), pmem::real_disk(), masks[random.below(3)],
               std::uint64_t{512} << random.below(4)};
    only_words_ = random.one_in(3);
    gpu_.faults.fail_after(0, exec::Fault::kDeviceLost);
    options_.device = 0;
    if (random.one_in(4)) gpu_.use(&options_);
  }
  /// A store for a seed.
  void open_new(base::Random& random) {
    choose(random);
    engine_.reset();
    std::filesystem::remove_all(folder_ / "store");
    open();
  }
  void open() {
    engine_.reset();
    const Status opened = Engine::open(options_, folder_ / "store", ground_, &engine_);
    ASSERT_TRUE(opened.ok()) << opened.ToString();
  }
  [[nodiscard]] std::string some_key(base::Random& random) const {
    const std::uint64_t i = random.below(40);
    std::string key(8, '\0');
    std::memcpy(key.data(), &i, sizeof i);
    if (only_words_) return key;
    return random.one_in(2) ? key : std::string(i, static_cast<char>('a' + i % 3));
  }
  static std::string some_value(base::Random& random) {
    return std::string(random.below(random.one_in(10) ? 300 : 20), random.one_in(2) ? 'x' : 'y') +
           std::to_string(random.next());
  }
  void expect_is(const Model& model) {
    for (const auto& [key, value] : model) {
      std::string found;
      const Status status = engine_->Get(key, &found);
      ASSERT_TRUE(status.ok()) << status.ToString();
      ASSERT_EQ(found, value);
    }
  }
  void run_batch(base::Random& random, Model* model);
  void run_later(base::Random& random, Model* model);
  void run_transaction(base::Random& random, Model* model);

  const testing::Folder folder_{testing::Place::kMemory};
  testing::FakeGpu gpu_;
  HashOptions options_;
  Ground ground_;
  bool only_words_ = false;
  std::unique_ptr<Engine> engine_;
};

/// Adds requests to a batch and to a model; what its lookups should find goes to `expected`.
void add_requests(std::uint64_t count, base::Random& random,
                  const std::function<std::string()>& key,
                  const std::function<std::string()>& value, Batch* batch, Model* model,
                  std::vector<std::optional<std::string>>* expected) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string one = key();
    const std::uint64_t kind = random.below(10);
    if (kind < 4) {
      const std::string is = value();
      ASSERT_TRUE(batch->Put(one, is).ok());
      (*model)[one] = is;
    } else if (kind < 6) {
      const bool single = kind == 4;
      ASSERT_TRUE((single ? batch->SingleDelete(kDefaultFamily, one) : batch->Delete(one)).ok());
      model->erase(one);
    } else {
      ASSERT_TRUE(batch->Get(one).ok());
      const auto found = model->find(one);
      expected->push_back(found == model->end() ? std::nullopt : std::optional(found->second));
    }
  }
}

void expect_results(const Batch& batch, const std::vector<std::optional<std::string>>& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (expected[i].has_value()) {
      ASSERT_EQ(batch.code(i), Status::Code::kOk) << i;
      ASSERT_EQ(batch.value(i).ToString(), *expected[i]) << i;
    } else {
      ASSERT_EQ(batch.code(i), Status::Code::kNotFound) << i;
    }
  }
}

void HashEngine::run_batch(base::Random& random, Model* model) {
  Batch batch = engine_->NewBatch();
  batch.SetValuesInPlace(random.one_in(2));
  std::vector<std::optional<std::string>> expected;
  add_requests(
      random.below(60), random, [&] { return some_key(random); },
      [&] { return some_value(random); }, &batch, model, &expected);
  const Durability durabilities[] = {Durability::kNone, Durability::kDefault, Durability::kSync};
  WriteOptions options;
  options.durability = durabilities[random.below(3)];
  ASSERT_TRUE(engine_->Submit(options, &batch).ok());
  expect_results(batch, expected);
}

/// Several batches at once, which take effect in their order.
void HashEngine::run_later(base::Random& random, Model* model) {
  struct One {
    Batch batch;
    std::vector<std::optional<std::string>> expected;
    Status status;
  };
  std::deque<One> all;
  const auto count = static_cast<std::ptrdiff_t>(1 + random.below(6));
  std::latch left(count);
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    One& one = all.emplace_back(One{engine_->NewBatch(), {}, Status()});
    add_requests(
        random.below(8), random, [&] { return some_key(random); },
        [&] { return some_value(random); }, &one.batch, model, &one.expected);
  }
  for (One& one : all) {
    engine_->SubmitAsync(WriteOptions(), &one.batch, [&one, &left](Status status) {
      one.status = std::move(status);
      left.count_down();
    });
  }
  left.wait();
  for (const One& one : all) {
    ASSERT_TRUE(one.status.ok()) << one.status.ToString();
    expect_results(one.batch, one.expected);
  }
}

void HashEngine::run_transaction(base::Random& random, Model* model) {
  const auto transaction = engine_->OpenTransaction();
  Batch reads = engine_->NewBatch();
  std::vector<std::optional<std::string>> seen;
  std::string key;
  for (int i = 0; i < 3; ++i) {
    key = some_key(random);
    ASSERT_TRUE(reads.Get(key).ok());
    const auto found = model->find(key);
    seen.push_back(found == model->end() ? std::nullopt : std::optional(found->second));
  }
  ASSERT_TRUE(transaction->Read(&reads).ok());
  expect_results(reads, seen);
  const bool is_disturbed = random.one_in(2);
  if (is_disturbed) {
    (*model)[key] = some_value(random);
    ASSERT_TRUE(engine_->Put(WriteOptions(), key, (*model)[key]).ok());
  }
  Model after = *model;
  std::vector<std::optional<std::string>> expected;
  add_requests(
      1 + random.below(10), random, [&] { return some_key(random); },
      [&] { return some_value(random); }, &transaction->batch(), &after, &expected);
  const Status closed = transaction->Close(WriteOptions());
  ASSERT_EQ(closed.IsBusy(), is_disturbed) << closed.ToString();
  if (is_disturbed) return;
  ASSERT_TRUE(closed.ok());
  expect_results(transaction->batch(), expected);
  *model = std::move(after);
}

}  // namespace

// Goal: the engine answers as a map does, whatever was cleaned, and however often it is opened.
// Method: random batches, transactions, single requests, cleaning and openings; keys of 8 bytes and
// of other lengths, some of which share numbers; on the host, the simulator and a device that
// fails.
// Mutation: a copy that is not looked at again in its turn; deletions that are not forgotten, or
// are before what they delete; the key of a record not compared; own writes not seen by lookups.
TEST_F(HashEngine, AnswersAsAMap) {
  for (const std::uint64_t seed : testing::seeds_to_run(200)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    open_new(random);
    if (HasFatalFailure()) return;
    Model model;
    for (int turn = 0; turn < 40; ++turn) {
      switch (random.below(9)) {
        case 0: {
          const std::string key = some_key(random);
          model[key] = some_value(random);
          ASSERT_TRUE(engine_->Put(WriteOptions(), key, model[key]).ok());
          break;
        }
        case 1: {
          const std::string key = some_key(random);
          ASSERT_TRUE(engine_->Delete(WriteOptions(), key).ok());
          model.erase(key);
          std::string value;
          ASSERT_TRUE(engine_->Get(key, &value).IsNotFound());
          break;
        }
        case 2:
          run_transaction(random, &model);
          break;
        case 6:
          run_later(random, &model);
          break;
        case 3: {
          bool was_done = true;
          for (std::uint64_t i = 0; i < 1 + random.below(5) && was_done; ++i) {
            ASSERT_TRUE(engine_->cleaner().clean_one(&was_done).ok());
          }
          break;
        }
        case 4:
          if (!random.one_in(3)) break;
          if (random.one_in(2)) {
            ASSERT_TRUE(engine_->Close().ok());
          }
          open();
          break;
        case 5: {
          // Once only: from then on the index is on the host, until the store opens again.
          const exec::Fault faults[] = {exec::Fault::kOutOfMemory, exec::Fault::kLaunchFailure,
                                        exec::Fault::kDeviceLost};
          gpu_.faults.fail_after(1 + random.below(40), faults[random.below(3)]);
          break;
        }
        default:
          run_batch(random, &model);
      }
      if (HasFatalFailure()) return;
    }
    expect_is(model);
    if (HasFatalFailure()) return;
    std::string keys;
    ASSERT_TRUE(engine_->GetProperty("breccia.hash.keys", &keys));
    if (ground_.number_mask == ~std::uint64_t{0}) {
      ASSERT_EQ(std::stoull(keys), model.size());
    }
  }
}

// Goal: whoever follows the log has what the store has, though its oldest part is cleaned.
// Method: a stream that holds the log is read now and then beside random batches and cleaning.
TEST_F(HashEngine, ChangesLeadToTheSame) {
  for (const std::uint64_t seed : testing::seeds_to_run(20)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    open_new(random);
    if (HasFatalFailure()) return;
    std::unique_ptr<ChangeStream> stream;
    ChangesOptions how;
    how.hold_bytes_max = ~std::uint64_t{0};  // each segment counts as a full one
    ASSERT_TRUE(engine_->Changes(0, how, &stream).ok());
    Model model;
    Model followed;
    for (int turn = 0; turn < 30; ++turn) {
      run_batch(random, &model);
      if (HasFatalFailure()) return;
      bool was_done = false;
      ASSERT_TRUE(engine_->cleaner().clean_one(&was_done).ok());
      if (turn < 29 && random.one_in(2)) continue;
      Status next = stream->Next(0);
      for (; next.ok(); next = stream->Next(0)) {
        for (const Change& change : stream->changes()) {
          if (change.kind == Change::Kind::kPut) {
            followed[change.key.ToString()] = change.value.ToString();
          } else {
            followed.erase(change.key.ToString());
          }
        }
      }
      ASSERT_TRUE(next.IsTimedOut()) << next.ToString();
    }
    ASSERT_EQ(followed, model);
    stream.reset();
  }
}

// Goal: the log stays short over keys that are written again and again beside many that are not,
// and cleaning ends where nothing is to be had.
// Method: after each batch what a thread would clean; every segment counts as a whole one.
// Mutation: what a pass has measured is forgotten, or goes by how long the log is behind it, which
// writes make up for.
TEST_F(HashEngine, CleaningIsEnoughAndEnds) {
  base::Random random(1);
  choose(random);
  options_.backend = BackendChoice::kHost;
  options_.device = 0;
  options_.log_factor = 2;
  ground_.roll_bytes = 4096;
  ground_.is_scripted = true;
  open();
  const auto number = [&](const std::string& name) {
    std::string text;
    EXPECT_TRUE(engine_->GetProperty("breccia." + name, &text));
    return std::stoull(text);
  };
  std::uint64_t cleanings = 0;
  std::uint64_t most = 0;
  constexpr int kBatches = 3000;
  for (int i = 0; i < kBatches; ++i) {
    // A hundred batches of keys that stay, then the same few keys again and again.
    Batch batch = engine_->NewBatch();
    for (int j = 0; j < 40; ++j) {
      const int one = i < 100 ? 100 + i * 40 + j : j;
      ASSERT_TRUE(batch.Put(std::to_string(one), std::string(60, 'v')).ok());
    }
    ASSERT_TRUE(engine_->Submit(WriteOptions(), &batch).ok());
    for (bool was_done = true; was_done && number("log.bytes") > number("hash.log_bytes_max");) {
      ASSERT_TRUE(engine_->cleaner().clean_one(&was_done).ok());
      ASSERT_LT(++cleanings, 20U * kBatches) << "it cleans for ever";
    }
    if (i > 300) most = std::max<std::uint64_t>(most, number("log.bytes"));
  }
  // What stays fills some 50 to 100 segments, and may take twice as many.
  EXPECT_LT(most, 250 * limits::kLogWindowBytes);
  EXPECT_LT(cleanings, 2U * kBatches);
}

// Goal: a log factor that is no sensible number is one, and a store with it is as others are.
TEST_F(HashEngine, AnyLogFactor) {
  base::Random random(1);
  for (const double factor : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    open_new(random);
    options_.log_factor = factor;
    open();
    std::string most;
    ASSERT_TRUE(engine_->GetProperty("breccia.hash.log_bytes_max", &most));
    EXPECT_EQ(std::stoull(most), std::uint64_t{4} << 26) << factor;  // it is empty
    ASSERT_TRUE(engine_->Put(WriteOptions(), "a", "1").ok());
    ASSERT_TRUE(engine_->GetProperty("breccia.hash.log_bytes_max", &most));
    EXPECT_LT(std::stoull(most), std::uint64_t{1} << 61) << factor;
  }
}

// Goal: what the engine does not do it says, and nothing happened.
TEST_F(HashEngine, SaysWhatItDoesNot) {
  base::Random random(1);
  choose(random);
  open();
  Batch batch = engine_->NewBatch();
  ASSERT_TRUE(batch.Put("a", "1").ok());
  ASSERT_TRUE(batch.Range("a", "b", 10).ok());
  EXPECT_TRUE(engine_->Submit(WriteOptions(), &batch).IsNotSupported());
  batch.Clear();
  ASSERT_TRUE(batch.Put("a", "1").ok());
  ASSERT_TRUE(batch.Merge("a", "1").ok());
  EXPECT_TRUE(engine_->Submit(WriteOptions(), &batch).IsNotSupported());
  batch.Clear();
  ASSERT_TRUE(batch.Put(3, "a", "1").ok());
  EXPECT_TRUE(engine_->Submit(WriteOptions(), &batch).IsInvalidArgument());
  batch.Clear();
  ASSERT_TRUE(batch.Get("a").ok());
  EXPECT_TRUE(engine_->Submit(WriteOptions(), &batch).ok());
  FamilyId family = 0;
  EXPECT_TRUE(engine_->CreateFamily("second", &family).IsNotSupported());
  EXPECT_TRUE(engine_->Merge(WriteOptions(), "a", "1").IsNotSupported());
  std::string value;
  EXPECT_TRUE(engine_->Get("a", &value).IsNotFound());
}

// Goal: a store opens as what it is: not where it is missing, not twice, not as another engine's.
TEST_F(HashEngine, OpensAsWhatItIs) {
  base::Random random(1);
  choose(random);
  std::unique_ptr<Engine> other;
  options_.create_if_missing = false;
  EXPECT_TRUE(Engine::open(options_, folder_ / "store", ground_, &other).IsInvalidArgument());
  options_.create_if_missing = true;
  open();
  ASSERT_TRUE(engine_->Put(WriteOptions(), "a", "1").ok());
  const auto written = std::filesystem::last_write_time(folder_ / "store/HASH");
  EXPECT_FALSE(Engine::open(options_, folder_ / "store", ground_, &other).ok());
  EXPECT_EQ(std::filesystem::last_write_time(folder_ / "store/HASH"), written);
  engine_.reset();
  options_.error_if_exists = true;
  EXPECT_TRUE(Engine::open(options_, folder_ / "store", ground_, &other).IsInvalidArgument());
  std::unique_ptr<Store> ordered;
  Options of_ordered;
  of_ordered.create_if_missing = true;
  of_ordered.backend = BackendChoice::kHost;
  EXPECT_FALSE(Store::Open(of_ordered, folder_ / "store", &ordered).ok());
  ASSERT_TRUE(Store::Open(of_ordered, folder_ / "ordered", &ordered).ok());
  ordered.reset();
  options_.error_if_exists = false;
  EXPECT_TRUE(Engine::open(options_, folder_ / "ordered", ground_, &other).IsInvalidArgument());
  EXPECT_FALSE(std::filesystem::exists(folder_ / "ordered/HASH"));
  std::filesystem::remove_all(folder_ / "store/log");
  EXPECT_TRUE(Engine::open(options_, folder_ / "store", ground_, &other).IsCorruption());
}

// Goal: many threads that write, look up and clean at once each see their own writes, and no batch
// in part.
// Method: each thread owns keys and gives all of them one number a batch; readers of any thread's
// keys find one number in all of them.
TEST_F(HashEngine, ConcurrentBatchesAreSeenWhole) {
  for (const std::uint64_t seed : testing::seeds_to_run(6)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    open_new(random);
    if (HasFatalFailure()) return;
    constexpr int kThreads = 3;
    constexpr int kKeys = 20;
    const auto key_of = [](int thread, int i) {
      return std::string(i % 8, 'k') + std::to_string(thread * 100 + i);
    };
    std::atomic<bool> stops = false;
    std::thread cleaner([&] {
      while (!stops) {
        bool was_done = false;
        EXPECT_TRUE(engine_->cleaner().clean_one(&was_done).ok());
        std::this_thread::yield();
      }
    });
    const auto work = [&](int thread) {
      base::Random own(seed * 7 + thread);
      for (int turn = 1; turn <= 60; ++turn) {
        Batch writes = engine_->NewBatch();
        for (int i = 0; i < kKeys; ++i) {
          ASSERT_TRUE(writes.Put(key_of(thread, i), std::to_string(turn)).ok());
        }
        ASSERT_TRUE(engine_->Submit(WriteOptions(), &writes).ok());
        const int whose = static_cast<int>(own.below(kThreads));
        Batch reads = engine_->NewBatch();
        for (int i = 0; i < kKeys; ++i) ASSERT_TRUE(reads.Get(key_of(whose, i)).ok());
        ASSERT_TRUE(engine_->Submit(WriteOptions(), &reads).ok());
        for (int i = 0; i < kKeys; ++i) {
          ASSERT_EQ(reads.code(i), reads.code(0));
          if (reads.code(0) != Status::Code::kOk) continue;
          ASSERT_EQ(reads.value(i).ToString(), reads.value(0).ToString());
          if (whose == thread) {
            ASSERT_EQ(reads.value(i).ToString(), std::to_string(turn));
          }
        }
      }
    };
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) threads.emplace_back(work, thread);
    for (std::thread& thread : threads) thread.join();
    stops = true;
    cleaner.join();
    if (HasFatalFailure()) return;
    open();
    for (int thread = 0; thread < kThreads; ++thread) {
      std::string value;
      ASSERT_TRUE(engine_->Get(key_of(thread, 0), &value).ok());
      ASSERT_EQ(value, "60");
    }
  }
}

}  // namespace breccia::hash
