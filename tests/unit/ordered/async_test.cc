#include <breccia/options.h>
#include <breccia/store.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <map>
#include <thread>

#include "base/limits.h"
#include "base/random.h"
#include "batch/async_queue.h"
#include "support/append_operator.h"
#include "support/folder.h"
#include "support/seeds.h"
#include "support/sparse_files.h"

/// Batches that are submitted to run later: their order, their results, how they go together.

namespace breccia::ordered {

namespace {

class StoreAsync : public ::testing::Test {
 protected:
  static Options options_with(std::uint64_t requests_min) {
    Options options;
    options.create_if_missing = true;
    options.backend = BackendChoice::kHost;
    options.memtable_bytes = 256 << 20;
    options.flush_threads = 1;
    options.rocksdb.env = testing::sparse_env();
    options.admission_requests_min = requests_min;
    options.admission_requests_max = 10 * requests_min;
    options.rocksdb.info_log_level = rocksdb::InfoLogLevel::FATAL_LEVEL;
    options.rocksdb.compression = rocksdb::kNoCompression;
    options.rocksdb.merge_operator = testing::make_append_operator(/*partial=*/true);
    return options;
  }
  void open(const Options& options) {
    ASSERT_TRUE(Store::Open(options, folder_ / "store", &store_).ok());
    ASSERT_TRUE(store_->CreateFamily("second", &second_).ok());
  }
  std::string property(const std::string& name) {
    std::string value;
    EXPECT_TRUE(store_->GetProperty("breccia." + name, &value)) << name;
    return value;
  }
  std::uint64_t count(const std::string& name) { return std::stoull(property(name)); }
  std::uint64_t figure(const std::string& name) { return count("admission." + name); }

  const testing::Folder folder_{testing::Place::kMemory};
  std::unique_ptr<Store> store_;
  FamilyId second_ = 0;
};

/// One client's stream of batches on keys of its own, what they should see, and what they saw.
class Client {
 public:
  Client(Store* store, FamilyId second, std::uint64_t seed, std::uint64_t number)
      : store_(store), second_(second), random_(seed), name_("c" + std::to_string(number) + ".") {}

  void run(int batches) {
    std::vector<std::unique_ptr<Sent>> sent;
    for (int i = 0; i < batches; ++i) {
      sent.push_back(make_batch());
      Sent* const one = sent.back().get();
      if (random_.one_in(40)) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      store_->SubmitAsync({}, &one->batch, [this, one, i](const Status& status) {
        one->status = status;
        in_order_ = in_order_ && finished_ == i;
        ++finished_;
        finished_.notify_all();
      });
    }
    for (int seen = finished_; seen < batches; seen = finished_) finished_.wait(seen);
    EXPECT_TRUE(in_order_);
    for (const auto& one : sent) check(*one);
  }

 private:
  struct Sent {
    Batch batch;
    Status status;
    std::vector<std::pair<Status::Code, std::string>> reads;
    std::vector<std::vector<std::string>> ranges;
  };
  using Content = std::map<std::string, std::string>;

  std::unique_ptr<Sent> make_batch() {
    auto sent = std::make_unique<Sent>();
    const std::uint64_t size = random_.one_in(10) ? 200 : random_.below(8);
    for (std::uint64_t i = 0; i < size; ++i) EXPECT_TRUE(add_request(sent.get()).ok());
    return sent;
  }

  Status add_request(Sent* sent) {
    const FamilyId family = random_.one_in(3) ? second_ : kDefaultFamily;
    Content& content = content_[family];
    const std::string key = name_ + std::to_string(random_.below(30));
    const std::string value = std::to_string(++written_);
    switch (random_.below(7)) {
      case 0:
        content.erase(key);
        return sent->batch.Delete(family, key);
      case 1:
        content[key] += (content.contains(key) ? "," : "") + value;
        return sent->batch.Merge(family, key, value);
      case 2:
      case 3:
        content[key] = value;
        return sent->batch.Put(family, key, value);
      case 4: {
        auto& expected = sent->ranges.emplace_back();
        for (auto at = content.lower_bound(key); at != content.end() && expected.size() < 5; ++at) {
          expected.push_back(at->first + "=" + at->second);
        }
        return sent->batch.Range(family, key, name_ + "~", 5);
      }
      default: {
        const auto at = content.find(key);
        sent->reads.emplace_back(at == content.end() ? Status::Code::kNotFound : Status::Code::kOk,
                                 at == content.end() ? "" : at->second);
        return sent->batch.Get(family, key);
      }
    }
  }

  static void check(const Sent& sent) {
    ASSERT_TRUE(sent.status.ok()) << sent.status.ToString();
    for (std::size_t i = 0; i < sent.reads.size(); ++i) {
      ASSERT_EQ(sent.batch.code(i), sent.reads[i].first);
      ASSERT_EQ(sent.batch.value(i).ToString(), sent.reads[i].second);
    }
    for (std::size_t i = 0; i < sent.ranges.size(); ++i) {
      ASSERT_EQ(sent.batch.range_size(i), sent.ranges[i].size());
      for (std::size_t j = 0; j < sent.ranges[i].size(); ++j) {
        const auto [key, value] = sent.batch.range_entry(i, j);
        ASSERT_EQ(key.ToString() + "=" + value.ToString(), sent.ranges[i][j]);
      }
    }
  }

  Store* store_;
  const FamilyId second_;
  base::Random random_;
  const std::string name_;
  std::map<FamilyId, Content> content_;
  std::uint64_t written_ = 0;
  std::atomic<int> finished_{0};
  bool in_order_ = true;  // set on the store's thread; read when all have finished
};

}  // namespace

// Goal: a client's batches take effect and finish in its order, each sees what came before it, and
//       every result is its own batch's, however many are run together.
// Method: clients on threads of their own send streams of random batches on keys of their own and
//         compare with a map; low thresholds, so that they go alone and together.
// Mutation: handing results to the wrong batch, or reads that see later batches, fails.
TEST_F(StoreAsync, ConcurrentClientsSeeTheirOwnOrder) {
  for (const std::uint64_t seed : testing::seeds_to_run(6)) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + testing::replay_command(seed));
    store_.reset();
    const testing::Folder folder(testing::Place::kMemory);
    constexpr std::uint64_t kThresholds[] = {1, 20, 10'000};
    ASSERT_TRUE(Store::Open(options_with(kThresholds[seed % 3]), folder / "store", &store_).ok());
    ASSERT_TRUE(store_->CreateFamily("second", &second_).ok());
    std::vector<std::thread> clients;
    for (std::uint64_t i = 0; i < 3; ++i) {
      clients.emplace_back(
          [this, seed, i] { Client(store_.get(), second_, seed * 3 + i, i).run(300); });
    }
    for (std::thread& client : clients) client.join();
    EXPECT_EQ(figure("batches"), 900u);
    EXPECT_LT(figure("groups"), 900u);
    EXPECT_EQ(figure("queued"), 0u);
    store_.reset();
  }
}

// Goal: a batch that comes alone is run at once, whatever a batch of others could gain.
// Method: one batch after the other, with a wait that would show; the mode and the groups.
// Mutation: waiting for the threshold takes a second for each.
TEST_F(StoreAsync, LightLoadDoesNotWait) {
  Options options = options_with(10'000);
  options.admission_wait_us_max = 1'000'000;
  open(options);
  constexpr int kBatches = 200;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kBatches; ++i) {
    Batch batch;
    ASSERT_TRUE(batch.Put("key", std::to_string(i)).ok());
    std::latch done(1);
    store_->SubmitAsync({}, &batch, [&](const Status& status) {
      EXPECT_TRUE(status.ok());
      done.count_down();
    });
    done.wait();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
  EXPECT_EQ(figure("batches"), kBatches);
  EXPECT_EQ(figure("groups"), kBatches);
  EXPECT_EQ(figure("switches"), 0u);
  EXPECT_EQ(property("admission.mode"), "alone");
  EXPECT_EQ(figure("threshold"), 10'000u);
}

// Goal: an error of one batch is that batch's alone; the others are counted, each once.
// Method: batches that name a family that is not there, between others, all waiting at once.
// Mutation: giving the group's status to all, counting a group as one batch, or the refused ones,
//         fails.
TEST_F(StoreAsync, ErrorsAreOfOneBatch) {
  open(options_with(1'000));
  constexpr int kBatches = 40;
  std::vector<Batch> batches(kBatches);
  std::vector<Status> statuses(kBatches);
  std::latch all_wait(1);
  std::latch done(kBatches);
  for (int i = 0; i < kBatches; ++i) {
    const FamilyId family = i % 4 == 0 ? 77 : kDefaultFamily;
    ASSERT_TRUE(batches[i].Put(family, "key" + std::to_string(i), "value").ok());
    ASSERT_TRUE(batches[i].Get(family, "key" + std::to_string(i)).ok());
  }
  for (int i = 0; i < kBatches; ++i) {
    store_->SubmitAsync({}, &batches[i], [&, i](const Status& status) {
      statuses[i] = status;
      if (i == 0) all_wait.wait();
      done.count_down();
    });
  }
  all_wait.count_down();
  done.wait();
  for (int i = 0; i < kBatches; ++i) {
    ASSERT_EQ(statuses[i].IsInvalidArgument(), i % 4 == 0) << i;
    ASSERT_EQ(statuses[i].ok(), i % 4 != 0) << statuses[i].ToString();
    if (!statuses[i].ok()) continue;
    ASSERT_EQ(batches[i].value(0).ToString(), "value");
  }
  EXPECT_LT(figure("groups"), kBatches / 2);
  for (const char* name : {"batches", "requests.put", "requests.get", "writes.to-memtable"}) {
    EXPECT_EQ(count(name), 30u) << name;
  }
}

// Goal: what waits is run in groups of neighbours that fit together; closing runs what was taken.
// Method: a first group that is held up, batches of several options and sizes behind it, stop().
// Mutation: a group across different options, or one that leaves out a batch, fails.
TEST(AsyncQueue, GroupsOfNeighbours) {
  std::vector<std::size_t> groups;
  std::latch begun(1);
  std::latch go_on(1);
  batch::AsyncQueue queue({}, [&](std::span<batch::AsyncBatch> group) {
    groups.push_back(group.size());
    if (groups.size() > 1) return;
    begun.count_down();
    go_on.wait();
  });
  batch::Requests small(exec::shared_plain_host_memory());
  batch::Requests large(exec::shared_plain_host_memory());
  for (std::uint64_t i = 0; i < limits::kAsyncLargeRequests; ++i) {
    ASSERT_TRUE(large.add_read(kDefaultFamily, "key").ok());
  }
  std::vector<int> finished;
  int submitted = 0;
  const auto submit = [&](batch::Requests* requests, Durability durability) {
    WriteOptions options;
    options.durability = durability;
    const int number = submitted++;
    ASSERT_TRUE(queue
                    .submit({options, requests,
                             [&, number](const Status&) { finished.push_back(number); }, Status()})
                    .ok());
  };
  submit(&small, Durability::kDefault);
  begun.wait();
  for (int i = 0; i < 3; ++i) submit(&small, Durability::kDefault);
  for (int i = 0; i < 2; ++i) submit(&small, Durability::kSync);
  submit(&large, Durability::kSync);
  for (int i = 0; i < 4; ++i) submit(&small, Durability::kSync);
  go_on.count_down();
  queue.stop();
  EXPECT_EQ(groups, (std::vector<std::size_t>{1, 3, 2, 1, 4}));
  ASSERT_EQ(finished.size(), 11u);
  EXPECT_TRUE(std::is_sorted(finished.begin(), finished.end()));
  EXPECT_TRUE(queue.submit({{}, &small, [](const Status&) {}, Status()}).IsShutdownInProgress());
}

// Goal: the queue has an end.
// Method: a group that is held up, as many batches as may wait, and one more.
// Mutation: a queue without a limit takes the last one.
TEST(AsyncQueue, HasAnEnd) {
  std::latch begun(1);
  std::latch go_on(1);
  std::size_t ran = 0;
  batch::AsyncQueue queue({}, [&](std::span<batch::AsyncBatch> group) {
    if (ran == 0) begun.count_down();
    go_on.wait();
    ran += group.size();
  });
  batch::Requests empty(exec::shared_plain_host_memory());
  const auto submit = [&] { return queue.submit({{}, &empty, [](const Status&) {}, Status()}); };
  ASSERT_TRUE(submit().ok());
  begun.wait();
  for (std::size_t i = 0; i < limits::kAsyncBatchesMax; ++i) ASSERT_TRUE(submit().ok());
  EXPECT_TRUE(submit().IsIncomplete());
  go_on.count_down();
  queue.stop();
  EXPECT_EQ(ran, limits::kAsyncBatchesMax + 1);
}

}  // namespace breccia::ordered
