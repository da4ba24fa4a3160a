#include <breccia/disagg_options.h>
#include <breccia/store.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "support/local_cluster.h"
#include "support/seeds.h"

/// A cluster as a Store, beside a map.

namespace breccia::disagg {

namespace {

using Model = std::map<std::string, std::string>;

/// That index servers have room for at first.
constexpr std::uint64_t kKeys = 100;

class DisaggStore : public ::testing::Test {
 protected:
  [[nodiscard]] std::unique_ptr<Store> open() const {
    DisaggOptions options;
    options.config = cluster_.file();
    options.clients_max = 2;
    options.operation_us_max = 30'000'000;
    std::unique_ptr<Store> store;
    const Status opened = Store::Open(options, &store);
    EXPECT_TRUE(opened.ok()) << opened.ToString();
    return store;
  }

 private:
  const breccia::testing::LocalCluster cluster_{kKeys};
};

std::string some_key(base::Random& random) {
  const std::uint64_t i = random.below(50);
  return "key" + std::to_string(i) + std::string(i % 3 == 2 ? 100 : 0, '.');
}
std::string some_value(base::Random& random) {
  return std::to_string(random.next()) +
         std::string(random.below(random.one_in(20) ? 9000 : 9), 'x');
}

/// A batch at random, and what it is to find.
class Asked {
 public:
  Asked(Store* store, const std::string& prefix, base::Random& random, Model* model)
      : batch_(store->NewBatch()) {
    for (std::uint64_t n = random.below(40); n > 0; --n) {
      const std::string key = prefix + some_key(random);
      switch (random.below(5)) {
        case 0:
          EXPECT_TRUE(batch_.Delete(key).ok());
          model->erase(key);
          break;
        case 1:
        case 2:
          (*model)[key] = some_value(random);
          EXPECT_TRUE(batch_.Put(key, (*model)[key]).ok());
          break;
        case 3: {
          EXPECT_TRUE(batch_.Get(key).ok());
          const auto found = model->find(key);
          values_.push_back(found == model->end() ? Model() : Model{*found});
          break;
        }
        default:
          add_range(key, prefix + some_key(random), random, *model);
      }
    }
  }

  Batch* batch() { return &batch_; }
  void expect_found() {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const bool is_there = !values_[i].empty();
      ASSERT_EQ(batch_.code(i), is_there ? Status::Code::kOk : Status::Code::kNotFound);
      if (!is_there) continue;
      ASSERT_EQ(batch_.value(i), values_[i].begin()->second);
    }
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      ASSERT_EQ(batch_.range_code(i), Status::Code::kOk);
      Model found;
      for (std::size_t j = 0; j < batch_.range_size(i); ++j) {
        const auto [key, value] = batch_.range_entry(i, j);
        found[key.ToString()] = value.ToString();
      }
      ASSERT_EQ(found, ranges_[i]);
      ASSERT_EQ(found.size(), batch_.range_size(i));
    }
  }

 private:
  void add_range(const std::string& one, const std::string& other, base::Random& random,
                 const Model& model) {
    const auto& [begin, end] = std::minmax(one, other);
    const std::uint64_t limit = random.below(20);
    EXPECT_TRUE(batch_.Range(begin, end, static_cast<std::uint32_t>(limit)).ok());
    Model& range = ranges_.emplace_back();
    for (auto at = model.lower_bound(begin); at != model.lower_bound(end); ++at) {
      if (range.size() < limit) range.insert(*at);
    }
  }

  Batch batch_;
  std::vector<Model> values_, ranges_;  // of each lookup one entry, or none
};

}  // namespace

// Goal: batches do what they say, each request at its place, while others write other keys.
// Mutation: lookups that do not see the writes before them in their batch, or see those behind;
//   ranges with another end, or without their limit.
TEST_F(DisaggStore, BatchesAreAsBesideAMap) {
  const auto store = open();
  ASSERT_NE(store, nullptr);
  std::vector<std::future<void>> writers;
  for (int i = 0; i < 3; ++i) {
    writers.push_back(std::async(std::launch::async, [&store, i] {
      Model model;
      for (const std::uint64_t seed : breccia::testing::seeds_to_run(200)) {
        SCOPED_TRACE(breccia::testing::replay_command(seed));
        base::Random random(10 * seed + static_cast<std::uint64_t>(i));
        Asked asked(store.get(), "w" + std::to_string(i), random, &model);
        if (random.one_in(4)) {
          std::promise<Status> done;
          store->SubmitAsync({}, asked.batch(), [&](Status status) { done.set_value(status); });
          ASSERT_TRUE(done.get_future().get().ok());
        } else {
          const Status run = store->Submit({}, asked.batch());
          ASSERT_TRUE(run.ok()) << run.ToString();
        }
        asked.expect_found();
        if (HasFatalFailure()) return;
      }
    }));
  }
  for (auto& writer : writers) writer.get();
  EXPECT_TRUE(store->Close().ok());
}

// Goal: batches that were given to run later are each by itself, also beside one that fails, and
//   ranges of large values come in parts.
// Mutation: batches that run again with others', or once more where another one failed.
TEST_F(DisaggStore, LaterEachByItself) {
  const auto store = open();
  ASSERT_NE(store, nullptr);
  Batch first = store->NewBatch(), bad = store->NewBatch(), last = store->NewBatch();
  const std::string large(300 << 10, 'x');
  ASSERT_TRUE(first.Get("a").ok() && first.Put("a", large).ok() && first.Put("b", large).ok());
  ASSERT_TRUE(bad.Put("c", "1").ok() && bad.Put("d", std::string((1 << 20) + 1, 'x')).ok());
  ASSERT_TRUE(last.Put("e", large).ok() && last.Put("f", large).ok() && last.Put("g", large).ok());
  ASSERT_TRUE(last.Range("a", "z", 100).ok() && last.Range("b", "z", 2).ok());
  std::promise<Status> done[3];
  store->SubmitAsync({}, &first, [&](Status status) { done[0].set_value(status); });
  store->SubmitAsync({}, &bad, [&](Status status) { done[1].set_value(status); });
  store->SubmitAsync({}, &last, [&](Status status) { done[2].set_value(status); });
  EXPECT_TRUE(done[0].get_future().get().ok());
  EXPECT_TRUE(done[1].get_future().get().IsInvalidArgument());
  EXPECT_TRUE(done[2].get_future().get().ok());
  EXPECT_EQ(first.code(0), Status::Code::kNotFound);
  ASSERT_EQ(last.range_size(0), 5U);
  ASSERT_EQ(last.range_size(1), 2U);
  EXPECT_EQ(last.range_entry(0, 4).first, "g");
  EXPECT_EQ(last.range_entry(0, 4).second, large);
  EXPECT_EQ(last.range_entry(1, 1).first, "e");
  std::string value;
  EXPECT_TRUE(store->Get("c", &value).IsNotFound());
}

// Goal: an index gets many times larger than its servers made it, while clients write and read.
// Mutation: a larger table that is told of before all chains are there.
TEST_F(DisaggStore, Grows) {
  const auto store = open();
  ASSERT_NE(store, nullptr);
  std::vector<std::future<void>> writers;
  constexpr int kBatches = 20, kEach = 300;
  for (int i = 0; i < 2; ++i) {
    writers.push_back(std::async(std::launch::async, [&store, i] {
      const auto key_of = [i](int n) { return "w" + std::to_string(i) + "." + std::to_string(n); };
      for (int batch = 0; batch < kBatches; ++batch) {
        Batch puts = store->NewBatch(), gets = store->NewBatch();
        const int end = (batch + 1) * kEach;
        for (int n = batch * kEach; n < end; ++n) {
          ASSERT_TRUE(puts.Put(key_of(n), std::to_string(n)).ok());
        }
        const Status put = store->Submit({}, &puts);
        ASSERT_TRUE(put.ok()) << put.ToString();
        for (int n = 0; n < end; n += 7) ASSERT_TRUE(gets.Get(key_of(n)).ok());
        ASSERT_TRUE(store->Submit({}, &gets).ok());
        for (int n = 0; n < end; n += 7) {
          ASSERT_EQ(gets.value(static_cast<std::size_t>(n / 7)), std::to_string(n));
        }
      }
    }));
  }
  for (auto& writer : writers) writer.get();
}

// Goal: single keys, many at once, and what the engine does not have.
TEST_F(DisaggStore, OneAndMany) {
  const auto store = open();
  ASSERT_NE(store, nullptr);
  std::string value = "before";
  EXPECT_TRUE(store->Get("a", &value).IsNotFound());
  EXPECT_EQ(value, "before");
  ASSERT_TRUE(store->Put({}, "a", "1").ok());
  ASSERT_TRUE(store->Put({}, "b", "").ok());
  ASSERT_TRUE(store->Delete({}, "c").ok());
  const std::vector<Slice> keys = {"a", "b", "c", "", "a"};
  std::vector<std::string> values;
  const std::vector<Status> found = store->MultiGet(keys, &values);
  EXPECT_EQ(values, (std::vector<std::string>{"1", "", "", "", "1"}));
  EXPECT_TRUE(found[0].ok() && found[1].ok() && found[4].ok());
  EXPECT_TRUE(found[2].IsNotFound() && found[3].IsNotFound());
  EXPECT_TRUE(store->Put({}, "", "1").IsInvalidArgument());
  EXPECT_TRUE(store->Put({}, "d", std::string((1 << 20) + 1, 'x')).IsInvalidArgument());
  EXPECT_TRUE(store->Merge({}, "a", "2").IsNotSupported());
  EXPECT_TRUE(store->SyncLog().IsNotSupported());
  EXPECT_TRUE(store->OpenTransaction()->Close({}).IsNotSupported());
  Batch batch = store->NewBatch();
  ASSERT_TRUE(batch.Put("a", "2").ok() && batch.Merge("a", "2").ok());
  EXPECT_TRUE(store->Submit({}, &batch).IsNotSupported());
  ASSERT_TRUE(store->Get("a", &value).ok());
  EXPECT_EQ(value, "1");
  std::string writes;
  ASSERT_TRUE(store->GetProperty("breccia.writes", &writes));
  EXPECT_EQ(writes, "3");
  EXPECT_TRUE(store->Close().ok());
  EXPECT_TRUE(store->Get("a", &value).IsShutdownInProgress());
  EXPECT_TRUE(store->Put({}, "a", "2").IsShutdownInProgress());
}

// Goal: who opens the store of a cluster that is not there hears it in time.
TEST(DisaggNoStore, HasNoCluster) {
  const breccia::testing::Folder folder(breccia::testing::Place::kMemory);
  ClusterConfig config;
  config.ports = folder.path();
  config.coordinator = "local:" + folder.path() + "/coordinator";
  DisaggOptions options;
  options.config = folder / "cluster.json";
  options.operation_us_max = 50'000;
  std::unique_ptr<Store> store;
  EXPECT_TRUE(Store::Open(options, &store).IsNotFound());
  ASSERT_TRUE(config.write(options.config).ok());
  EXPECT_TRUE(Store::Open(options, &store).IsTimedOut());
  options.hot_tier = HotOptions();
  EXPECT_TRUE(Store::Open(options, &store).IsInvalidArgument());
}

}  // namespace breccia::disagg
