#include "ordered/read/tree_reads.h"

#include <breccia/options.h>
#include <gtest/gtest.h>
#include <rocksdb/statistics.h>

#include <set>

#include "base/random.h"
#include "ordered/engine.h"
#include "support/folder.h"
#include "support/seeds.h"
#include "support/small_options.h"

/// What memory does not answer, on its way to the tree.

namespace breccia::ordered {

namespace {

constexpr std::uint64_t kKeys = 3000;

class EngineTreeReads : public ::testing::Test {
 protected:
  void SetUp() override {
    Options options = testing::small_options();
    options.entry_cache_bytes = 0;
    options.tree_filter_bytes = 0;
    options.rocksdb.statistics = statistics_;
    ASSERT_TRUE(Engine::open(options, folder_ / "store", &engine_).ok());
    ASSERT_TRUE(engine_->CreateFamily("other", &family_).ok());
  }

  /// Every second key of the default family and every third of the other one are in the tree; some
  /// are overwritten or deleted in memory.
  void fill() {
    Batch batch;
    for (std::uint64_t id = 0; id < kKeys; ++id) {
      if (id % 2 == 0) {
        ASSERT_TRUE(batch.Put(key_of(id), "tree " + std::to_string(id)).ok());
      }
      if (id % 3 == 0) {
        ASSERT_TRUE(batch.Put(family_, key_of(id), "other " + std::to_string(id)).ok());
      }
    }
    ASSERT_TRUE(engine_->Submit({}, &batch).ok());
    ASSERT_TRUE(engine_->Flush().ok());
    batch.Clear();
    for (std::uint64_t id = 0; id < kKeys; id += 10) {
      ASSERT_TRUE(batch.Put(key_of(id), "memory " + std::to_string(id)).ok());
      ASSERT_TRUE(batch.Delete(key_of(id + 2)).ok());
    }
    ASSERT_TRUE(batch.DeleteRange(kDefaultFamily, key_of(500), key_of(600)).ok());
    ASSERT_TRUE(engine_->Submit({}, &batch).ok());
  }

  /// Keys of several lengths, with heads that many of them share.
  static std::string key_of(std::uint64_t id) {
    std::string key = "key " + std::to_string(10'000 + id);
    return id % 5 == 0 ? key + std::string(id % 7, '\0') : key;
  }
  [[nodiscard]] std::uint64_t tree_lookups() const {
    return statistics_->getTickerCount(rocksdb::NUMBER_MULTIGET_KEYS_READ) +
           statistics_->getTickerCount(rocksdb::NUMBER_KEYS_READ);
  }

  const testing::Folder folder_{testing::Place::kMemory};
  const std::shared_ptr<rocksdb::Statistics> statistics_ = rocksdb::CreateDBStatistics();
  std::unique_ptr<Engine> engine_;
  FamilyId family_ = 0;
};

}  // namespace

// Goal: a batch of lookups says what single lookups say, and asks the tree for each key once that
//   memory does not answer.
// Method: random keys of two families, many of them several times, half of them nowhere, in sizes
//   around a call's and a part's; RocksDB's own count of lookups.
// Mutation: taking keys that are the same as different ones counts more; giving a key's answer to
//   one of its requests alone, or unsorted keys, gives wrong results.
TEST_F(EngineTreeReads, EachKeyOnce) {
  fill();
  for (const std::uint64_t seed : testing::seeds_to_run(10)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    for (const std::uint64_t size : {1, 2, 31, 32, 33, 127, 128, 129, 257, 5000}) {
      const std::uint64_t distinct = 1 + random.below(kKeys);
      Batch batch;
      std::vector<std::pair<FamilyId, std::string>> keys;
      for (std::uint64_t i = 0; i < size; ++i) {
        keys.emplace_back(random.one_in(4) ? family_ : kDefaultFamily,
                          key_of(random.below(distinct)));
        ASSERT_TRUE(batch.Get(keys.back().first, keys.back().second).ok());
      }
      const std::uint64_t before = tree_lookups();
      ASSERT_TRUE(engine_->Submit({}, &batch).ok());
      const std::uint64_t asked = tree_lookups() - before;
      const Pin pin = engine_->pin();
      std::set<std::pair<FamilyId, std::string>> from_tree;
      for (std::uint64_t i = 0; i < size; ++i) {
        rocksdb::PinnableSlice value;
        bool needed_tree = false;
        const Status status =
            engine_->lookups().get(pin, keys[i].first, keys[i].second, &value, &needed_tree);
        ASSERT_EQ(batch.code(i), status.code());
        if (status.ok()) {
          ASSERT_EQ(batch.value(i).ToString(), value.ToString());
        }
        if (needed_tree) from_tree.insert(keys[i]);
      }
      ASSERT_EQ(asked, from_tree.size()) << "size " << size;
    }
  }
}

// Goal: keys whose answer finds no memory, and those behind them, are told so; all get an answer.
// Method: an answer that throws at one key; three keys, one of them twice.
// Mutation: ending the part at the exception leaves keys without an answer.
TEST_F(EngineTreeReads, AnswerWithoutMemory) {
  fill();
  record::KeyColumns columns(exec::plain_host_memory());
  for (const std::uint64_t id : {8, 4, 6, 4}) {
    const std::string key = key_of(id);
    ASSERT_TRUE(columns.append(key.data(), key.size()));
  }
  const auto view = engine_->pin().view;
  const std::vector<std::vector<std::uint32_t>> places = {{0, 1}, {}, {2, 3}};
  std::vector<Status::Code> codes(4, Status::Code::kBusy);
  const TreeAnswer answer = [&](std::uint64_t, std::span<const batch::KeyParts::Key> same,
                                const Status& status, const Slice&) {
    if (status.ok() && same[0].index == 2) throw std::bad_alloc();
    for (const auto& key : same) codes[key.index] = status.code();
  };
  read_tree({view->below, view->family(kDefaultFamily)->in_tree(), columns.ref()}, places,
            /*workers=*/3, answer, /*known=*/{});
  EXPECT_EQ(codes, (std::vector<Status::Code>{Status::Code::kAborted, Status::Code::kOk,
                                              Status::Code::kAborted, Status::Code::kOk}));
}

}  // namespace breccia::ordered
