#include "ordered/write/update.h"

#include <breccia/merge_operators.h>
#include <breccia/options.h>
#include <breccia/store.h>
#include <gtest/gtest.h>
#include <rocksdb/convenience.h>
#include <rocksdb/statistics.h>

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "support/folder.h"
#include "support/seeds.h"
#include "support/small_options.h"

namespace breccia::ordered {

namespace {

/// An operator of the user's that keeps the operand that it saw first, under a name of another's.
class KeepsFirst final : public rocksdb::AssociativeMergeOperator {
 public:
  explicit KeepsFirst(const char* name) : name_(name) {}
  bool Merge(const Slice&, const Slice* existing, const Slice& operand, std::string* merged,
             rocksdb::Logger*) const override {
    *merged = (existing != nullptr ? *existing : operand).ToString();
    return true;
  }
  const char* Name() const override { return name_; }

 private:
  const char* const name_;
};

constexpr const char* kNames[] = {"UInt64AddOperator", "MaxOperator",      "PutOperator",
                                  "breccia.Int64Add",  "breccia.BytesMax", "breccia.BytesMin"};

}  // namespace

// Goal: operators are told by what they are.
// Method: RocksDB's, made by every name it knows them by, and breccia's; one of the user's under
//          each of their names.
// Mutation: comparing names takes the user's for RocksDB's.
TEST(NumberOp, KnowsOperatorsByTheirClass) {
  const auto built_in = [](const char* id) {
    std::shared_ptr<rocksdb::MergeOperator> made;
    EXPECT_TRUE(rocksdb::MergeOperator::CreateFromString({}, id, &made).ok()) << id;
    return made;
  };
  for (const char* id : {"uint64add", "UInt64AddOperator"}) {
    EXPECT_EQ(number_op(built_in(id).get()), runs::NumberOp::kAdd);
  }
  for (const char* id : {"max", "MaxOperator"}) {
    EXPECT_EQ(number_op(built_in(id).get()), runs::NumberOp::kMax);
  }
  for (const char* id : {"put", "put_v1", "PutOperator"}) {
    EXPECT_EQ(number_op(built_in(id).get()), runs::NumberOp::kPut);
  }
  EXPECT_EQ(number_op(NewInt64AddOperator().get()), runs::NumberOp::kAdd);
  EXPECT_EQ(number_op(NewBytesMaxOperator().get()), runs::NumberOp::kMax);
  EXPECT_EQ(number_op(NewBytesMinOperator().get()), runs::NumberOp::kMin);
  EXPECT_EQ(number_op(built_in("stringappend").get()), std::nullopt);
  EXPECT_EQ(number_op(nullptr), std::nullopt);
  for (const char* name : kNames) {
    EXPECT_EQ(number_op(std::make_shared<KeepsFirst>(name).get()), std::nullopt) << name;
  }
}

// Goal: what a user's operator says counts, whatever its name.
// Method: a put and operands of 8 bytes in batches that would be worked out at once; read back.
// Mutation: as above.
TEST(NumberOp, UsersOperatorsAreAsked) {
  for (const char* name : kNames) {
    SCOPED_TRACE(name);
    const testing::Folder folder(testing::Place::kMemory);
    Options options = testing::small_options();
    options.create_if_missing = true;
    options.device_requests_min = 1;
    options.rocksdb.merge_operator = std::make_shared<KeepsFirst>(name);
    std::unique_ptr<Store> store;
    ASSERT_TRUE(Store::Open(options, folder / "store", &store).ok());
    for (const std::string value : {"12345678", "00000000", "zzzzzzzz"}) {
      Batch batch;
      ASSERT_TRUE(batch.Merge("key", value).ok());
      ASSERT_TRUE(store->Submit(WriteOptions(), &batch).ok());
    }
    std::string found;
    ASSERT_TRUE(store->Get("key", &found).ok());
    EXPECT_EQ(found, "12345678");
  }
}

/// A store whose batches go to the backend, and what its keys should have.
class UpdatedStore {
 public:
  explicit UpdatedStore(const std::string& folder) {
    Options options = testing::small_options();
    options.create_if_missing = true;
    options.device_requests_min = 1;
    options.rocksdb.merge_operator = NewInt64AddOperator();
    EXPECT_TRUE(Store::Open(options, folder, &store_).ok());
  }
  Store& store() { return *store_; }

  void write(const std::string& key, std::uint64_t number, bool adds) {
    const Slice value(reinterpret_cast<const char*>(&number), sizeof number);
    EXPECT_TRUE((adds ? batch_.Merge(key, value) : batch_.Put(key, value)).ok());
    model_[key] = number + (adds ? model_[key] : 0);
  }
  void remove(const std::string& key) {
    EXPECT_TRUE(batch_.Delete(key).ok());
    model_.erase(key);
  }
  void remove_range(const std::string& from, const std::string& to) {
    EXPECT_TRUE(batch_.DeleteRange(kDefaultFamily, from, to).ok());
    model_.erase(model_.lower_bound(from), model_.lower_bound(to));
  }
  void submit() {
    EXPECT_TRUE(store_->Submit(WriteOptions(), &batch_).ok());
    batch_.Clear();
  }
  void check(const std::string& key) {
    std::string value;
    const Status status = store_->Get(key, &value);
    const auto expected = model_.find(key);
    ASSERT_EQ(status.IsNotFound(), expected == model_.end()) << key;
    if (expected == model_.end()) return;
    ASSERT_EQ(value, Slice(reinterpret_cast<const char*>(&expected->second), 8).ToString()) << key;
  }

 private:
  std::unique_ptr<Store> store_;
  Batch batch_;
  std::map<std::string, std::uint64_t> model_;
};

// Goal: an update comes upon what its key has just then, whatever was written before it last.
// Method: puts, deletions, deletions of ranges by themselves and operands on few keys, one batch
//         behind the other, flushed from time to time; all keys are read between them.
// Mutation: a base that a range deletion hides which no run comes behind; of a flush, of a deletion
//           in a run or in the tree.
TEST(Updates, ComeUponWhatWasWrittenLast) {
  for (const std::uint64_t seed : testing::seeds_to_run(10)) {
    SCOPED_TRACE(testing::replay_command(seed));
    const testing::Folder folder(testing::Place::kMemory);
    UpdatedStore one(folder / "store");
    base::Random random(seed);
    const auto key = [&] { return "key " + std::to_string(random.below(8)); };
    for (int step = 0; step < 300; ++step) {
      switch (random.below(8)) {
        case 0: {
          const std::string from = key();
          one.remove_range(from, from + std::string(random.below(3), 'z'));
          break;
        }
        case 1:
          one.remove(key());
          break;
        case 2:
          one.write(key(), random.below(1000), /*adds=*/false);
          break;
        case 3:
          ASSERT_TRUE(one.store().Flush().ok());
          break;
        default:
          for (std::uint64_t i = random.below(5); i < 5; ++i) {
            one.write(key(), random.below(1000), /*adds=*/true);
          }
      }
      one.submit();
      for (int i = 0; i < 8; ++i) one.check("key " + std::to_string(i));
      if (HasFailure()) return;
    }
  }
}

// Goal: no update is lost where several clients change the same keys.
// Method: four threads add to few keys in batches of several sizes, beside flushes; each key has
//         the sum in the end.
// Mutation: a base that was seen before another batch came in between.
TEST(Updates, ConcurrentOnesAreAllThere) {
  const testing::Folder folder(testing::Place::kMemory);
  UpdatedStore one(folder / "store");
  constexpr std::uint64_t kKeys = 50;
  constexpr int kBatches = 150;
  std::atomic<std::uint64_t> sums[kKeys] = {};
  const auto work = [&](std::uint64_t seed) {
    base::Random random(seed);
    for (int i = 0; i < kBatches; ++i) {
      Batch batch;
      for (std::uint64_t left = 1 + random.below(200); left > 0; --left) {
        const std::uint64_t key = random.below(kKeys);
        const std::uint64_t more = 1 + random.below(100);
        sums[key] += more;
        ASSERT_TRUE(
            batch
                .Merge("key " + std::to_string(key), Slice(reinterpret_cast<const char*>(&more), 8))
                .ok());
      }
      ASSERT_TRUE(one.store().Submit(WriteOptions(), &batch).ok());
      if (random.below(40) == 0) {
        ASSERT_TRUE(one.store().Flush().ok());
      }
    }
  };
  std::vector<std::thread> threads;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) threads.emplace_back(work, seed);
  for (std::thread& thread : threads) thread.join();
  for (std::uint64_t key = 0; key < kKeys; ++key) {
    std::string value;
    ASSERT_TRUE(one.store().Get("key " + std::to_string(key), &value).ok());
    const std::uint64_t sum = sums[key];
    ASSERT_EQ(std::memcmp(value.data(), &sum, sizeof sum), 0) << key;
  }
}

// Goal: updates are worked out beside puts whose arrays stay in place, and leave those as they are.
// Method: operands and, as columns in place, puts of 8 bytes on the same keys in one batch,
//         submitted twice; what is read is what each in turn makes.
// Mutation: operands that stay in the caller's arrays have no record to be worked out in.
TEST(Updates, BesideColumnsInPlace) {
  const testing::Folder folder(testing::Place::kMemory);
  Options options = testing::small_options();
  options.device_requests_min = 1;
  options.rocksdb.merge_operator = NewInt64AddOperator();
  std::unique_ptr<Store> store;
  ASSERT_TRUE(Store::Open(options, folder / "store", &store).ok());
  constexpr std::uint64_t kKeys = 500;
  std::vector<std::uint64_t> keys(kKeys);
  std::vector<std::uint64_t> values(kKeys);
  for (std::uint64_t i = 0; i < kKeys; ++i) {
    keys[i] = base::mix64(i);
    values[i] = 100 + i;
  }
  const std::vector<std::uint64_t> before = values;
  const auto column = [](const std::vector<std::uint64_t>& of) {
    return BytesColumn::Fixed(of.data(), of.size(), sizeof of[0]);
  };
  Batch batch = store->NewBatch();
  batch.SetColumnsInPlace(true);
  const std::vector<std::uint64_t> ones(kKeys, 1);
  ASSERT_TRUE(batch.Merge(kDefaultFamily, column(keys), column(ones)).ok());
  ASSERT_TRUE(batch.Put(kDefaultFamily, column(keys), column(values)).ok());
  for (int times = 0; times < 2; ++times) ASSERT_TRUE(store->Submit({}, &batch).ok());
  EXPECT_EQ(values, before);
  Batch more = store->NewBatch();
  more.SetColumnsInPlace(true);
  ASSERT_TRUE(more.Put(kDefaultFamily, column(keys), column(values)).ok());
  ASSERT_TRUE(more.Merge(kDefaultFamily, column(keys), column(ones)).ok());
  ASSERT_TRUE(store->Submit({}, &more).ok());
  for (std::uint64_t i = 0; i < kKeys; ++i) {
    const Slice key(reinterpret_cast<const char*>(&keys[i]), sizeof keys[i]);
    std::string value;
    ASSERT_TRUE(store->Get(key, &value).ok());
    std::uint64_t number = 0;
    ASSERT_EQ(value.size(), sizeof number);
    std::memcpy(&number, value.data(), sizeof number);
    ASSERT_EQ(number, values[i] + 1) << i;
  }
}

// Goal: what the tree has of a key is read once, however many operations of a batch are on it, and
//   each of them counts.
// Method: keys are flushed into the tree; a batch of random puts, deletions and operands on few of
//   them and on others, worked out at once; the tree's count of lookups, and a list of sums.
// Mutation: reading every operation's key, or taking another than the first one's base, fails.
TEST(Updates, ReadEachKeyOfTheTreeOnce) {
  for (const std::uint64_t seed : testing::seeds_to_run(20)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const testing::Folder folder(testing::Place::kMemory);
    Options options = testing::small_options();
    options.create_if_missing = true;
    options.device_requests_min = 1;
    options.tree_filter_bytes = 0;  // which spares keys that are nowhere
    options.rocksdb.merge_operator = NewInt64AddOperator();
    options.rocksdb.statistics = rocksdb::CreateDBStatistics();
    std::unique_ptr<Store> store;
    ASSERT_TRUE(Store::Open(options, folder / "store", &store).ok());
    const auto number = [](std::uint64_t n) {
      return std::string(reinterpret_cast<const char*>(&n), sizeof n);
    };
    constexpr std::uint64_t kKeys = 40;
    std::map<std::string, std::uint64_t> sums;
    for (std::uint64_t key = 0; key < kKeys; key += 2) {
      sums["key" + std::to_string(key)] = key;
      ASSERT_TRUE(store->Put({}, "key" + std::to_string(key), number(key)).ok());
    }
    ASSERT_TRUE(store->Flush().ok());
    Batch batch;
    std::set<std::string> touched;
    for (std::uint64_t i = 0; i < 3000; ++i) {
      const std::string key = "key" + std::to_string(random.below(kKeys));
      touched.insert(key);
      if (random.one_in(20)) {
        ASSERT_TRUE(batch.Delete(key).ok());
        sums.erase(key);
      } else if (random.one_in(10)) {
        ASSERT_TRUE(batch.Put(key, number(i)).ok());
        sums[key] = i;
      } else {
        ASSERT_TRUE(batch.Merge(key, number(i)).ok());
        sums[key] += i;
      }
    }
    const auto lookups = [&] {
      return options.rocksdb.statistics->getTickerCount(rocksdb::NUMBER_MULTIGET_KEYS_READ) +
             options.rocksdb.statistics->getTickerCount(rocksdb::NUMBER_KEYS_READ);
    };
    const std::uint64_t before = lookups();
    ASSERT_TRUE(store->Submit({}, &batch).ok());
    EXPECT_EQ(lookups() - before, touched.size());
    for (std::uint64_t key = 0; key < kKeys; ++key) {
      const std::string name = "key" + std::to_string(key);
      std::string value;
      const Status status = store->Get(name, &value);
      ASSERT_EQ(status.ok(), sums.contains(name)) << name;
      if (status.ok()) {
        ASSERT_EQ(value, number(sums[name])) << name;
      }
    }
  }
}

}  // namespace breccia::ordered
