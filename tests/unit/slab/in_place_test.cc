#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "hot/tier.h"
#include "slab/engine/engine.h"
#include "slab/refs.h"
#include "support/backend.h"
#include "support/fake_gpu.h"
#include "support/restless_tier.h"
#include "support/seeds.h"

/// A store of the slab engine whose keys and values of 8 bytes lie in its table, beside a map.

namespace breccia::slab {
namespace {

using Model = std::map<std::uint64_t, std::uint64_t>;

Slice slice_of(const std::uint64_t& word) {
  return {reinterpret_cast<const char*>(&word), sizeof word};
}

class SlabInPlace : public ::testing::Test {
 protected:
  void open(SlabOptions options) {
    engine_.reset();
    options.in_place = true;
    const Status opened = Engine::open(options, ~std::uint64_t{0}, &engine_);
    ASSERT_TRUE(opened.ok()) << opened.ToString();
  }
  static SlabOptions some_options(base::Random& random) {
    SlabOptions options;
    options.backend = random.one_in(4) ? BackendChoice::kSimulator : testing::backend_under_test();
    options.simulator_seed = random.next();
    options.keys_expected = random.below(64);
    return options;
  }
  void expect_is(const Model& model) {
    for (const auto& [key, value] : model) {
      std::string found;
      const Status status = engine_->Get(slice_of(key), &found);
      ASSERT_TRUE(status.ok()) << status.ToString();
      ASSERT_EQ(Slice(found), slice_of(value));
    }
    std::string figure;
    ASSERT_TRUE(engine_->GetProperty("breccia.slab.keys", &figure));
    ASSERT_EQ(figure, std::to_string(model.size()));
  }

  std::unique_ptr<Engine> engine_;
};

/// Requests of one batch, and what its lookups are to find.
class Asked {
 public:
  explicit Asked(Batch batch) : batch_(std::move(batch)) { batch_.SetColumnsInPlace(true); }

  [[nodiscard]] Batch& batch() { return batch_; }
  void clear() {
    batch_.Clear();
    expected_.clear();
    columns_.clear();
  }
  void get(std::uint64_t key, const Model& model) {
    expect(key, model);
    columns_.push_back(nullptr);
    ASSERT_TRUE(batch_.Get(slice_of(key)).ok());
  }
  void put(std::uint64_t key, std::uint64_t value, Model* model) {
    (*model)[key] = value;
    ASSERT_TRUE(batch_.Put(slice_of(key), slice_of(value)).ok());
  }
  void drop(std::uint64_t key, Model* model) {
    model->erase(key);
    ASSERT_TRUE(batch_.Delete(slice_of(key)).ok());
  }
  /// Lookups into arrays, of values of `width` bytes.
  void get_column(std::vector<std::uint64_t> keys, std::size_t width, const Model& model) {
    for (const std::uint64_t key : keys) expect(key, model);
    auto column = std::make_shared<Column>();
    column->keys = std::move(keys);
    column->width = width;
    column->values.resize(column->keys.size() * width);
    column->found.resize(column->keys.size(), 2);
    columns_.insert(columns_.end(), column->keys.size(), column);
    ASSERT_TRUE(batch_
                    .Get(kDefaultFamily,
                         BytesColumn::Fixed(column->keys.data(), column->keys.size(), 8),
                         {.values = column->values.data(),
                          .width = width,
                          .stride = static_cast<std::ptrdiff_t>(width),
                          .found = column->found.data()})
                    .ok());
  }
  void expect_found() const {
    ASSERT_EQ(batch_.reads(), expected_.size());
    for (std::size_t i = 0, in_column = 0; i < expected_.size(); ++i) {
      in_column = i > 0 && columns_[i] == columns_[i - 1] ? in_column + 1 : 0;
      const auto& column = columns_[i];
      const bool fits = column == nullptr || column->width == 8;
      ASSERT_EQ(batch_.code(i), !expected_[i].has_value() ? Status::Code::kNotFound
                                : fits                    ? Status::Code::kOk
                                                          : Status::Code::kInvalidArgument);
      if (column != nullptr) {
        ASSERT_EQ(column->found[in_column], fits && expected_[i].has_value() ? 1 : 0);
      }
      if (!expected_[i].has_value() || !fits) continue;
      const Slice found = column == nullptr
                              ? batch_.value(i)
                              : Slice(column->values.data() + in_column * column->width, 8);
      ASSERT_EQ(found, slice_of(*expected_[i]));
    }
  }

 private:
  struct Column {
    std::vector<std::uint64_t> keys;
    std::size_t width = 0;
    std::vector<char> values;
    std::vector<std::uint8_t> found;
  };
  void expect(std::uint64_t key, const Model& model) {
    const auto at = model.find(key);
    expected_.push_back(at == model.end() ? std::nullopt : std::optional(at->second));
  }

  Batch batch_;
  std::vector<std::optional<std::uint64_t>> expected_;
  std::vector<std::shared_ptr<Column>> columns_;  // of each lookup; null: its value is the batch's
};

// Goal: a store is a map, whatever a batch has in whatever order.
// Method: batches of puts, deletions and lookups of forty keys, some of which stand for no key in
//   a table, beside a map: lookups before all writes, behind them, and between; into the batch,
//   into arrays of the right width, and of another.
// Mutation: lookups between writes that see the last one; of two writes of a key any; a lookup
//   behind writes that is taken for one before them; a deletion that a lookup does not see.
TEST_F(SlabInPlace, IsAMap) {
  for (const std::uint64_t seed : testing::seeds_to_run(300)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    open(some_options(random));
    Model model;
    Asked asked(engine_->NewBatch());
    const auto some_key = [&] { return random.below(40) - (random.one_in(3) ? 20 : 0); };
    const auto look = [&] {
      for (std::uint64_t i = random.below(20); i-- > 0;) asked.get(some_key(), model);
      if (random.one_in(2)) return;
      std::vector<std::uint64_t> keys(1 + random.below(40));
      for (std::uint64_t& key : keys) key = some_key();
      asked.get_column(std::move(keys), random.one_in(4) ? 16 : 8, model);
    };
    for (int turn = 0; turn < 20; ++turn) {
      asked.clear();
      if (random.one_in(2)) look();
      for (std::uint64_t parts = random.below(4); parts-- > 0;) {
        for (std::uint64_t i = random.below(30); i-- > 0;) {
          random.one_in(3) ? asked.drop(some_key(), &model)
                           : asked.put(some_key(), random.next(), &model);
        }
        if (random.one_in(2)) look();
      }
      const Status status = engine_->Submit(WriteOptions(), &asked.batch());
      ASSERT_TRUE(status.ok()) << status.ToString();
      asked.expect_found();
    }
    expect_is(model);
  }
}

// Goal: batches are seen whole.
// Method: threads that write one number under several keys, and others that look all of them up at
//   once, in one call and in one that writes, too (ThreadSanitizer).
// Mutation: lookups that do not share the table; writes that share it.
TEST_F(SlabInPlace, ConcurrentBatchesAreWhole) {
  base::Random random(1);
  open(some_options(random));
  constexpr std::uint64_t kKeys = 8;
  constexpr std::uint64_t kTurns = 300;
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Batch batch = engine_->NewBatch();
      for (std::uint64_t turn = 0; turn < kTurns; ++turn) {
        batch.Clear();
        const bool reads_first = turn % 2 == 0;
        const auto read = [&] {
          for (std::uint64_t key = 0; key < kKeys; ++key) {
            ASSERT_TRUE(batch.Get(slice_of(key)).ok());
          }
        };
        const std::uint64_t value = t * kTurns + turn;
        if (reads_first) read();
        for (std::uint64_t key = 0; t < 2 && key < kKeys; ++key) {
          ASSERT_TRUE(batch.Put(slice_of(key), slice_of(value)).ok());
        }
        if (!reads_first) read();
        ASSERT_TRUE(engine_->Submit(WriteOptions(), &batch).ok());
        for (std::uint64_t key = 1; key < kKeys; ++key) {
          ASSERT_EQ(batch.code(key), batch.code(0));
          ASSERT_EQ(batch.value(key), batch.value(0));
        }
        if (t < 2 && !reads_first) {
          ASSERT_EQ(batch.value(0), slice_of(value));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Goal: a transaction happens if what it read is still so.
// Method: between reading and closing another one writes what was read, with another value or with
//   its own, or what was not read.
TEST_F(SlabInPlace, TransactionsAreOfOneMoment) {
  base::Random random(2);
  open(some_options(random));
  const std::uint64_t read = 1, absent = 2, other = 3, sum = 4;
  ASSERT_TRUE(engine_->Put(WriteOptions(), slice_of(read), slice_of(7)).ok());
  const struct {
    std::uint64_t key, value;
    bool is_busy;
  } writes[] = {{read, 7, false}, {read, 8, true}, {other, 0, false}, {absent, 0, true}};
  for (const auto& write : writes) {
    const auto transaction = engine_->OpenTransaction();
    Batch reads = engine_->NewBatch();
    ASSERT_TRUE(reads.Get(slice_of(read)).ok());
    ASSERT_TRUE(reads.Get(slice_of(absent)).ok());
    ASSERT_TRUE(transaction->Read(&reads).ok());
    ASSERT_TRUE(transaction->batch().Put(slice_of(sum), slice_of(9)).ok());
    ASSERT_TRUE(engine_->Put(WriteOptions(), slice_of(write.key), slice_of(write.value)).ok());
    const Status closed = transaction->Close(WriteOptions());
    EXPECT_EQ(closed.IsBusy(), write.is_busy) << closed.ToString();
    EXPECT_EQ(closed.ok(), !write.is_busy) << closed.ToString();
  }
}

// Goal: a batch for which there is no room leaves no trace.
// Method: a table of some kilobytes, filled by batches that also replace and delete what is there,
//   until one is refused; everything is as before it.
// Mutation: what came in stays; what was replaced or deleted does not come back.
TEST_F(SlabInPlace, RefusedBatchesLeaveNothing) {
  for (const std::uint64_t seed : testing::seeds_to_run(10)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    SlabOptions options;
    options.backend = BackendChoice::kSimulator;
    options.simulator_seed = seed;
    options.keys_expected = 1;
    options.device_bytes_max = 512 * sizeof(Slab);  // batches take some of it
    options.index_host_bytes_max = 1;
    open(options);
    Model model;
    constexpr std::size_t kKeysMax = 20'000;
    Asked asked(engine_->NewBatch());
    for (Status status = Status::OK(); status.ok() && model.size() < kKeysMax;) {
      Model next = model;
      asked.clear();
      for (const auto& [key, value] : model) {
        if (random.one_in(20)) asked.drop(key, &next);
        if (random.one_in(20)) asked.put(key, random.next(), &next);
      }
      for (int i = 0; i < 400; ++i) asked.put(random.next(), random.next(), &next);
      status = engine_->Submit(WriteOptions(), &asked.batch());
      ASSERT_TRUE(status.ok() || status.IsMemoryLimit()) << status.ToString();
      if (status.ok()) model = std::move(next);
    }
    EXPECT_GT(model.size(), 50U);
    EXPECT_LT(model.size(), kKeysMax);
    expect_is(model);
  }
}

// Goal: a call that fails has done nothing, or the store says from then on that it is lost.
// Method: batches that write all keys, and look them up before, behind or between, on a device
//   whose calls fail, one at a time; copies of a tier in front of it are asked, too, and may go on
//   with what was when it is lost.
// Mutation: a batch whose lookups fail behind its writes, which stay; one that is not told of.
TEST_F(SlabInPlace, FailedCallsLeaveNothing) {
  std::uint64_t refused = 0;
  for (const std::uint64_t seed : testing::seeds_to_run(200)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    testing::FakeGpu gpu;
    SlabOptions options = some_options(random);
    gpu.use(&options);
    open(options);
    auto tier = hot::Tier::make(testing::restless_tier(&random), std::move(engine_));
    ASSERT_TRUE(tier.ok());
    const std::unique_ptr<Store> store = tier.take();
    constexpr std::uint64_t kKeys = 4;
    const auto all_are = [&](std::uint64_t value) {
      for (std::uint64_t turn = 0; turn < 10 * kKeys; ++turn) {
        std::string found;
        const Status status = store->Get(slice_of(turn % kKeys), &found);
        if (status.IsIOError()) return status;
        EXPECT_TRUE(status.ok()) << status.ToString();
        EXPECT_EQ(Slice(found), slice_of(value));
      }
      return Status::OK();
    };
    Batch batch = store->NewBatch();
    std::uint64_t now = 0;
    bool may_be_lost = false;
    for (std::uint64_t next = 1; next < 40; ++next) {
      batch.Clear();
      const std::uint64_t first_lookup = random.below(3) * kKeys / 2;
      for (std::uint64_t i = 0; i <= kKeys; ++i) {
        if (i == first_lookup) {
          for (std::uint64_t key = 0; key < kKeys; ++key) {
            ASSERT_TRUE(batch.Get(slice_of(key)).ok());
          }
        }
        if (i < kKeys) {
          ASSERT_TRUE(batch.Put(slice_of(i), slice_of(next)).ok());
        }
      }
      const bool fails = next > 1 && random.one_in(2);
      const exec::Fault fault =
          random.one_in(2) ? exec::Fault::kLaunchFailure : exec::Fault::kOutOfMemory;
      if (fails) gpu.faults.fail_after(1 + random.below(40), fault);
      const Status status = store->Submit(WriteOptions(), &batch);
      gpu.faults.fail_after(0, fault);
      if (!fails && may_be_lost && status.IsIOError()) break;
      ASSERT_TRUE(status.ok() || fails) << status.ToString();
      may_be_lost = may_be_lost || status.IsIOError();
      if (status.ok()) now = next;
      refused += status.ok() ? 0 : 1;
      const Status still = all_are(now);
      if (HasFailure()) return;
      if (still.IsIOError()) {
        ASSERT_TRUE(may_be_lost);
        break;
      }
    }
  }
  EXPECT_GT(refused, 10U);
}

// Goal: who asks a store whose device was lost hears that, and waits for nothing.
// Method: the device is lost in some batch; all calls behind it say so.
// Mutation: lookups that are answered by an empty table.
TEST_F(SlabInPlace, SaysThatItsDeviceWasLost) {
  for (const std::uint64_t seed : testing::seeds_to_run(50)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    testing::FakeGpu gpu;
    SlabOptions options = some_options(random);
    gpu.use(&options);
    open(options);
    gpu.faults.fail_after(1 + random.below(60), exec::Fault::kDeviceLost);
    const std::uint64_t key = 5;
    Status status = Status::OK();
    for (int turn = 0; turn < 200 && status.ok(); ++turn) {
      status = engine_->Put(WriteOptions(), slice_of(key), slice_of(turn));
      std::string value;
      if (status.ok()) status = engine_->Get(slice_of(key), &value);
      if (!status.ok()) break;
      ASSERT_EQ(Slice(value), slice_of(static_cast<std::uint64_t>(turn)));
    }
    EXPECT_TRUE(status.IsIOError()) << status.ToString();
    std::string value;
    EXPECT_TRUE(engine_->Get(slice_of(key), &value).IsIOError());
    EXPECT_TRUE(engine_->Put(WriteOptions(), slice_of(key), slice_of(0)).IsIOError());
  }
}

// Goal: what it cannot have it refuses, and nothing else.
TEST_F(SlabInPlace, HasWordsAlone) {
  open({});
  const std::string word = "8 bytes.";
  std::string value;
  EXPECT_TRUE(engine_->Put(WriteOptions(), word, "seven b").IsInvalidArgument());
  EXPECT_TRUE(engine_->Put(WriteOptions(), "a key of 12", word).IsInvalidArgument());
  EXPECT_TRUE(engine_->Get("key", &value).IsInvalidArgument());
  Batch batch = engine_->NewBatch();
  ASSERT_TRUE(batch.Get(word).ok());
  ASSERT_TRUE(batch.Get("another").ok());
  EXPECT_TRUE(engine_->Submit(WriteOptions(), &batch).IsInvalidArgument());
  batch.Clear();
  ASSERT_TRUE(batch.Delete(word).ok());
  EXPECT_TRUE(engine_->Submit(WriteOptions(), &batch).ok());
  EXPECT_TRUE(engine_->Put(WriteOptions(), word, word).ok());
  EXPECT_TRUE(engine_->Get(word, &value).ok());
  EXPECT_EQ(value, word);
}

}  // namespace
}  // namespace breccia::slab
