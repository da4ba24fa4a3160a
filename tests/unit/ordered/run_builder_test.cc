#include "ordered/write/run_builder.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "conformance/runs_model.h"
#include "ordered/engine.h"
#include "ordered/read/run_search.h"
#include "runs/build_bytes.h"
#include "support/append_operator.h"
#include "support/fake_gpu.h"
#include "support/folder.h"
#include "support/seeds.h"
#include "support/small_options.h"

/// Where runs are built, and what tells of the roads to the host.

namespace breccia::ordered {

namespace {

constexpr std::uint64_t kDeviceMin = 16;
constexpr std::uint64_t kNever = 1ULL << 40;

/// A store on a fake GPU, and what should be in it.
class Roads : public ::testing::Test {
 protected:
  using Model = std::map<std::pair<FamilyId, std::string>, std::string>;

  /// Outlives the store, which may still be at work when a test ends.
  testing::FakeGpu& make_gpu(std::uint64_t memory_limit = 1ULL << 30) {
    return gpus_.emplace_back(memory_limit);
  }
  void open(const testing::FakeGpu& gpu, const std::string& name = "store") {
    Options options = testing::small_options();
    options.device_requests_min = kDeviceMin;
    options.rocksdb.merge_operator = testing::make_append_operator(/*partial=*/true);
    gpu.use(&options);
    store_.reset();
    const Status opened = Engine::open(options, folder_ / name, &store_);
    ASSERT_TRUE(opened.ok()) << opened.ToString();
  }
  [[nodiscard]] std::uint64_t figure(const std::string& name) {
    std::string value;
    EXPECT_TRUE(store_->GetProperty("breccia." + name, &value)) << name;
    return std::stoull(value);
  }
  /// Adds a put, or in some cases another write, of one of a few keys.
  void add(Batch* batch, FamilyId family, base::Random* random) {
    const std::string key = key_of(random->below(900));
    const std::string value = std::to_string(++written_);
    std::string& now = model_[{family, key}];
    if (random->one_in(8)) {
      ASSERT_TRUE(batch->Merge(family, key, value).ok());
      now += now.empty() ? value : "," + value;
    } else if (random->one_in(8)) {
      ASSERT_TRUE(batch->Delete(family, key).ok());
      now.clear();
    } else {
      ASSERT_TRUE(batch->Put(family, key, value).ok());
      now = value;
    }
  }
  void expect_model() {
    Batch batch = store_->NewBatch();
    for (const auto& [key, value] : model_) ASSERT_TRUE(batch.Get(key.first, key.second).ok());
    ASSERT_TRUE(store_->Submit({}, &batch).ok());
    std::size_t i = 0;
    for (const auto& [key, value] : model_) {
      const Status::Code expected = value.empty() ? Status::Code::kNotFound : Status::Code::kOk;
      ASSERT_EQ(batch.code(i), expected) << key.second;
      ASSERT_EQ(batch.value(i).ToString(), value) << key.second;
      ++i;
    }
  }
  /// Keys of several lengths that share their first words.
  static std::string key_of(std::uint64_t i) {
    return std::string(i % 3 * 7, 'p') + "key" + std::to_string(i);
  }

  const testing::Folder folder_{testing::Place::kMemory};
  std::deque<testing::FakeGpu> gpus_;
  std::unique_ptr<Engine> store_;
  Model model_;
  std::uint64_t written_ = 0;
};

}  // namespace

// Goal: who searches more runs than one search takes is told so, and so is the counter.
// Method: a family of 128 runs, then of 129.
// Mutation: without the counter nobody knows why the host looks keys up one by one.
TEST_F(Roads, TooManyRuns) {
  Backends backends(runs::make_host_backend(), runs::make_host_backend());
  Statistics statistics(nullptr);
  const RunSearch search(&backends, /*tags=*/nullptr, &statistics);
  const runs::model::Columns key(exec::plain_host_memory(), {"a"}, true);
  FamilyView family;
  std::vector<MemRunPtr> all;
  std::uint64_t found = 0;
  for (std::uint64_t i = 1; i <= limits::kRunsPerSearchMax + 1; ++i) {
    auto run = std::make_shared<MemRun>();
    const std::uint64_t at = 8 * i;
    run->run = backends.host().build_run({key.ref(), &at, 0, nullptr, false}, nullptr).take();
    run->set_order({run->run});
    all.insert(all.begin(), std::move(run));
    family.set_runs(all);
    const bool fits = i <= limits::kRunsPerSearchMax;
    EXPECT_EQ(search.search(family, family.backend_runs, {key.ref(), nullptr}, {&found}, nullptr),
              fits);
    EXPECT_EQ(statistics.value(Ticker::kTooManyRuns), fits ? 0U : 1U);
    EXPECT_EQ(found, fits ? at : at - 8);
  }
}

// Goal: ranges that iterators answer are counted, each one, and walked ones are not.
// Method: a few ranges, many, and many in a family with operands in memory.
// Mutation: counting batches, or what the device has walked.
TEST_F(Roads, RangesByIterator) {
  testing::FakeGpu& gpu = make_gpu();
  open(gpu);
  Batch writes = store_->NewBatch();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(writes.Put(key_of(i), "v").ok());
  ASSERT_TRUE(store_->Submit({}, &writes).ok());
  const auto read = [&](int count) {
    Batch ranges = store_->NewBatch();
    for (int i = 0; i < count; ++i) ASSERT_TRUE(ranges.Range("key", "kez", 10).ok());
    ASSERT_TRUE(store_->Submit({}, &ranges).ok());
  };
  read(3);
  EXPECT_EQ(figure("ranges.by-iterator"), 3U);
  read(40);
  EXPECT_EQ(figure("ranges.by-iterator"), 3U);
  ASSERT_TRUE(store_->Merge({}, "key1", "more").ok());
  read(40);
  EXPECT_EQ(figure("ranges.by-iterator"), 43U);
}

using Entries = std::vector<std::pair<std::string, std::string>>;

/// What range `i` of a batch found.
Entries entries_of(const Batch& batch, std::size_t i) {
  Entries entries;
  for (std::size_t j = 0; j < batch.range_size(i); ++j) {
    const auto [key, value] = batch.range_entry(i, j);
    entries.emplace_back(key.ToString(), value.ToString());
  }
  return entries;
}

/// The first `limit` entries of a range.
Entries part_of(const std::map<std::string, std::string>& model,
                const std::pair<std::string, std::string>& range, std::uint32_t limit) {
  Entries entries;
  for (auto at = model.lower_bound(range.first);
       at != model.end() && at->first < range.second && entries.size() < limit; ++at) {
    entries.emplace_back(*at);
  }
  return entries;
}

// Goal: ranges of a batch find what lies in the memtable over a device's run, and are still walked.
// Method: keys in a run; a few newer values, new keys, deletions and a deleted range over them, at
//         times a flushed part below; random ranges against a map, in a batch that has deleted and
//         put more before and behind them.
// Mutation: a walk that leaves the memtable out, takes versions from behind the range's place, or
//           believes that it saw all where a deletion hid an entry, finds other keys; one that is
//           never tried counts iterators.
TEST_F(Roads, RangesSeeTheMemtable) {
  testing::FakeGpu& gpu = make_gpu();
  base::Random random(11);
  for (const bool flushed : {false, true}) {
    open(gpu, flushed ? "flushed" : "in memory");
    std::map<std::string, std::string> model;
    const auto put_all = [&](int step, const std::string& value) {
      Batch batch = store_->NewBatch();
      for (int i = 0; i < 300; i += step) {
        ASSERT_TRUE(batch.Put(key_of(i), value).ok());
        model[key_of(i)] = value;
      }
      ASSERT_TRUE(store_->Submit({}, &batch).ok());
    };
    put_all(3, "old");
    if (flushed) {
      ASSERT_TRUE(store_->Flush().ok());
    }
    put_all(2, "run");
    for (int i = 0; i < 12; ++i) {
      const std::string key = key_of(random.below(300));
      if (i % 3 == 2) {
        ASSERT_TRUE(store_->Delete({}, key).ok());
        model.erase(key);
      } else {
        ASSERT_TRUE(store_->Put({}, key, "fresh").ok());
        model[key] = "fresh";
      }
    }
    for (int round = 0; round < 2; ++round) {
      const std::uint64_t before = figure("ranges.by-iterator");
      Batch batch = store_->NewBatch();
      ASSERT_TRUE(batch.Put(key_of(7), "first").ok() && batch.Delete(key_of(12)).ok());
      model[key_of(7)] = "first";
      model.erase(key_of(12));
      Entries wanted;
      std::vector<std::uint32_t> limits;
      for (int i = 0; i < 200; ++i) {
        std::string begin = key_of(random.below(300));
        std::string end = random.one_in(2) ? "q" : key_of(random.below(300));
        limits.push_back(1 + random.below(30));
        ASSERT_TRUE(batch.Range(begin, std::max(begin, end), limits.back()).ok());
        wanted.emplace_back(begin, std::max(begin, end));
      }
      ASSERT_TRUE(batch.Put(key_of(9), "behind").ok() && batch.Delete(key_of(30)).ok());
      ASSERT_TRUE(store_->Submit({}, &batch).ok());
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        ASSERT_EQ(entries_of(batch, i), part_of(model, wanted[i], limits[i]))
            << wanted[i].first << " to " << wanted[i].second;
      }
      EXPECT_LT(figure("ranges.by-iterator") - before, wanted.size() / 2);
      model[key_of(9)] = "behind";
      model.erase(key_of(30));
      if (round == 0) {
        Batch deletes = store_->NewBatch();
        ASSERT_TRUE(deletes.DeleteRange(kDefaultFamily, key_of(100), key_of(106)).ok());
        ASSERT_TRUE(store_->Submit({}, &deletes).ok());
        model.erase(model.lower_bound(key_of(100)), model.lower_bound(key_of(106)));
      }
    }
  }
}

// Goal: batches that a device does not read where they lie are counted.
// Method: one batch, then one where no memory of the host is reached.
// Mutation: a device that says that it reaches everything.
TEST_F(Roads, StagedBatches) {
  testing::FakeGpu& gpu = make_gpu();
  open(gpu);
  const auto write = [&] {
    Batch batch = store_->NewBatch();
    for (int i = 0; i < 40; ++i) ASSERT_TRUE(batch.Put(key_of(i), "v").ok());
    ASSERT_TRUE(store_->Submit({}, &batch).ok());
  };
  write();
  EXPECT_EQ(figure("backend.staged-batches"), 0U);
  gpu.faults.refuse_adoption(true);
  write();
  EXPECT_EQ(figure("backend.staged-batches"), 1U);
}

// Goal: a batch of few writes in each of many families costs the device nothing, and all of it is
//   found, also behind runs of the device, in the log, and in the tree.
// Method: batches of 64 families with five writes each, beside large ones; the host counts each
//   run, and while the device holds none, no operation of it; then reads, a recovery, and a flush.
// Mutation: a build of each family on the device counts operations.
TEST_F(Roads, SmallSubBatchesNeedNoDevice) {
  testing::FakeGpu& gpu = make_gpu();
  open(gpu);
  std::vector<FamilyId> families{kDefaultFamily};
  for (int i = 1; i < 64; ++i) {
    ASSERT_TRUE(store_->CreateFamily("family" + std::to_string(i), &families.emplace_back()).ok());
  }
  base::Random random(7);
  for (int round = 0; round < 3; ++round) {
    if (round == 1) {
      Batch large = store_->NewBatch();
      for (int i = 0; i < 200; ++i) add(&large, families[3], &random);
      ASSERT_TRUE(store_->Submit({}, &large).ok());
    }
    Batch batch = store_->NewBatch();
    for (const FamilyId family : families) {
      for (int i = 0; i < 5; ++i) add(&batch, family, &random);
    }
    const std::uint64_t before = gpu.faults.operations();
    ASSERT_TRUE(store_->Submit({}, &batch).ok());
    // Once a family has a run there, the merger may bring it more meanwhile.
    if (round == 0) {
      EXPECT_EQ(gpu.faults.operations(), before);
    }
    EXPECT_EQ(figure("backend.small-builds"), 64U * (round + 1));
  }
  expect_model();
  ASSERT_TRUE(store_->Flush().ok());
  expect_model();
}

// Goal: a run that is small and lies on the host does not keep ranges from being walked on the
//   device, nor draw what it is merged with to the host.
// Method: a run of the device and a small one beside it; ranges; then more of both, until they are
//   merged.
// Mutation: without lifting, iterators answer; without bringing runs to the device, the merged run
//   lies on the host.
TEST_F(Roads, SmallRunsJoinTheDevice) {
  testing::FakeGpu& gpu = make_gpu();
  open(gpu);
  const auto write = [&](int begin, int count, FamilyId other) {
    Batch batch = store_->NewBatch();
    for (int i = 0; i < count; ++i)
      ASSERT_TRUE(batch.Put("k" + std::to_string(begin + i), "v").ok());
    for (int i = 0; other != 0 && i < 20; ++i) ASSERT_TRUE(batch.Put(other, key_of(i), "v").ok());
    ASSERT_TRUE(store_->Submit({}, &batch).ok());
  };
  const auto on_host = [&] {
    std::uint64_t count = 0;
    const Pin pin = store_->pin();
    for (const auto& run : pin.view->family(kDefaultFamily)->runs) {
      count += run->run->host_view() != nullptr ? 1 : 0;
    }
    return count;
  };
  FamilyId other = 0;
  ASSERT_TRUE(store_->CreateFamily("other", &other).ok());
  write(100, 100, 0);
  write(200, 5, other);
  EXPECT_EQ(on_host(), 1U);
  Batch ranges = store_->NewBatch();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(ranges.Range("k199", "k203", 10).ok());
  ASSERT_TRUE(store_->Submit({}, &ranges).ok());
  EXPECT_EQ(ranges.range_size(0), 4U);
  EXPECT_EQ(figure("ranges.by-iterator"), 0U);
  EXPECT_EQ(on_host(), 0U);
  write(300, 5, other);
  write(400, 5, other);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (figure("runs.merges") == 0) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // Runs that were written since may lie on the host again.
  const Pin pin = store_->pin();
  for (const auto& run : pin.view->family(kDefaultFamily)->runs) {
    EXPECT_TRUE(run->run->count() < 100 || run->run->host_view() == nullptr);
  }
  Batch gets = store_->NewBatch();
  for (const int i : {100, 199, 200, 204, 304, 404}) {
    ASSERT_TRUE(gets.Get("k" + std::to_string(i)).ok());
  }
  ASSERT_TRUE(store_->Submit({}, &gets).ok());
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(gets.code(i), Status::Code::kOk) << i;
}

// Goal: the order of a merged run stays on the device until the host searches in it, and the host
//       finds everything before and after that.
// Method: batches whose runs are merged; reads in batches; then single ones and an iterator.
// Mutation: a merge that reads its order, a search of a merged run's first order alone, or nobody
//   who reads it afterwards, fails.
TEST_F(Roads, OrdersAreReadWhenTheHostSearches) {
  testing::FakeGpu& gpu = make_gpu();
  open(gpu);
  base::Random random(7);
  for (int round = 0; round < 20; ++round) {
    Batch batch = store_->NewBatch();
    for (int i = 0; i < 100; ++i) add(&batch, kDefaultFamily, &random);
    ASSERT_TRUE(store_->Submit({}, &batch).ok());
  }
  const auto orders_beyond_runs = [&] {
    const Pin pin = store_->pin();
    const FamilyView& family = *pin.view->family(kDefaultFamily);
    return family.orders - family.runs.size();
  };
  const auto wait_until = [](const auto& is_so) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!is_so()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  wait_until([&] { return orders_beyond_runs() > 0; });
  expect_model();
  EXPECT_EQ(figure("runs.orders-read"), 0U);
  const auto expect_one_by_one = [&] {
    const auto at =
        store_->lookups().iterate(rocksdb::ReadOptions(), kDefaultFamily, store_->pin(), {});
    at->SeekToFirst();
    for (const auto& [key, value] : model_) {
      std::string found;
      const Status status = store_->Get(key.second, &found);
      ASSERT_EQ(status.ok(), !value.empty()) << key.second << status.ToString();
      ASSERT_EQ(found, value) << key.second;
      if (value.empty()) continue;
      ASSERT_TRUE(at->Valid());
      ASSERT_EQ(at->key().ToString(), key.second);
      ASSERT_EQ(at->value().ToString(), value);
      at->Next();
    }
    EXPECT_FALSE(at->Valid());
  };
  expect_one_by_one();
  // A merge that these searches paid for may come behind the last of them.
  wait_until([&] {
    std::string found;
    (void)store_->Get(key_of(7), &found);
    return orders_beyond_runs() == 0;
  });
  EXPECT_GT(figure("runs.orders-read"), 0U);
  expect_one_by_one();
}

// Goal: an order that the host searches often gets an index, and what is found with it is right;
//       iterators and small batches lead there as single lookups do.
// Method: one run on a device; lookups of each kind until its index is there; all keys once.
// Mutation: a kind of lookup that tells nobody what it searched, or an index that is not counted,
//           fails.
TEST_F(Roads, OrdersGetAnIndex) {
  testing::FakeGpu& gpu = make_gpu();
  for (const std::string name : {"gets", "iterators", "batches"}) {
    SCOPED_TRACE(name);
    model_.clear();
    open(gpu, name);
    base::Random random(7);
    Batch batch = store_->NewBatch();
    for (int i = 0; i < 900; ++i) {
      ASSERT_TRUE(batch.Put(key_of(i), "value " + std::to_string(i)).ok());
      model_[{kDefaultFamily, key_of(i)}] = "value " + std::to_string(i);
    }
    ASSERT_TRUE(store_->Submit({}, &batch).ok());
    EXPECT_EQ(figure("runs.index-bytes"), 0U);
    const auto look = [&] {
      const std::string key = key_of(random.below(900));
      std::string found;
      if (name == "gets") {
        ASSERT_TRUE(store_->Get(key, &found).ok());
      } else if (name == "iterators") {
        const auto at =
            store_->lookups().iterate(rocksdb::ReadOptions(), kDefaultFamily, store_->pin(), {});
        at->Seek(key);
        ASSERT_TRUE(at->Valid() && at->key() == key);
      } else {
        Batch one = store_->NewBatch();
        ASSERT_TRUE(one.Get(key).ok() && store_->Submit({}, &one).ok());
        ASSERT_EQ(one.code(0), Status::Code::kOk);
      }
    };
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (figure("runs.indexes-built") == 0) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      look();
    }
    const std::uint64_t bytes = figure("runs.index-bytes");
    EXPECT_GE(bytes, 900U * 2);
    EXPECT_LE(bytes, 900U * 3);
    for (const auto& [key, value] : model_) {
      std::string found;
      ASSERT_TRUE(store_->Get(key.second, &found).ok()) << key.second;
      ASSERT_EQ(found, value) << key.second;
    }
    expect_model();
  }
}

// Goal: what an indexed run is merged into has an index again as soon as it is searched.
// Method: a run of the device with an index, three over it, their merge; a few lookups.
// Mutation: a merge that does not look at its inputs' indexes waits for searches that do not come.
TEST_F(Roads, MergedOrdersInheritTheirIndex) {
  using namespace std::chrono_literals;
  testing::FakeGpu& gpu = make_gpu();
  open(gpu);
  const auto put_all = [&] {
    Batch batch = store_->NewBatch();
    for (int i = 0; i < 900; ++i) ASSERT_TRUE(batch.Put(key_of(i), "value").ok());
    ASSERT_TRUE(store_->Submit({}, &batch).ok());
  };
  const auto look = [&] {
    std::string found;
    ASSERT_TRUE(store_->Get(key_of(7), &found).ok());
  };
  const auto wait_for = [&](const std::string& name, std::uint64_t value, int lookups,
                            std::chrono::milliseconds pause) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (; figure(name) != value && std::chrono::steady_clock::now() < deadline; --lookups) {
      if (lookups > 0) look();
      std::this_thread::sleep_for(pause);
    }
    ASSERT_EQ(figure(name), value) << name;
  };
  put_all();
  wait_for("runs.indexes-built", 1, 1 << 20, 0ms);
  for (int more = 0; more < 3; ++more) put_all();  // four of one size are merged
  wait_for("runs", 1, 0, 1ms);
  EXPECT_EQ(figure("runs.indexes-built"), 1U);
  wait_for("runs.indexes-built", 2, 13, 200ms);  // by themselves 900 entries want 15
}

// Goal: searches of the host beside writers, merges, the reading of orders and the building of
//       indexes find each key's newest version, and only grow newer; properties can be asked
//       meanwhile.
// Method: a thread writes rounds of all keys in batches; two read keys one by one, and with
//         iterators.
// Mutation: taking a run from a view that nobody holds fails in the sanitizers' presets.
TEST_F(Roads, ConcurrentSearchesReadOrders) {
  constexpr int kRounds = 300;
  constexpr int kKeys = 80;
  testing::FakeGpu& gpu = make_gpu();
  open(gpu);
  std::atomic<bool> done{false};
  const auto read = [&](std::uint64_t seed) {
    base::Random random(seed);
    std::vector<int> seen(kKeys, -1);
    while (!done) {
      const auto i = static_cast<int>(random.below(kKeys));
      std::string value;
      const Status status = store_->Get(key_of(i), &value);
      const int round = status.ok() ? std::stoi(value) : -1;
      ASSERT_GE(round, seen[i]) << key_of(i);
      seen[i] = round;
      if (!random.one_in(8)) continue;
      std::string entries;
      ASSERT_TRUE(store_->GetProperty("breccia.memtable-entries", &entries));
      ASSERT_TRUE(store_->GetProperty("breccia.runs.index-bytes", &entries));
      const auto at =
          store_->lookups().iterate(rocksdb::ReadOptions(), kDefaultFamily, store_->pin(), {});
      at->Seek(key_of(i));
      ASSERT_TRUE(round < 0 || at->Valid());
      ASSERT_TRUE(round < 0 || at->key() == key_of(i));
    }
  };
  std::thread first(read, 1);
  std::thread second(read, 2);
  for (int round = 0; round < kRounds; ++round) {
    Batch batch = store_->NewBatch();
    for (int i = 0; i < kKeys; ++i) {
      ASSERT_TRUE(batch.Put(key_of(i), std::to_string(round)).ok());
    }
    ASSERT_TRUE(store_->Submit({}, &batch).ok());
  }
  // What is left is searched until its index is there.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (figure("runs.indexes-built") == 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_GT(figure("runs.indexes-built"), 0U);
  done = true;
  first.join();
  second.join();
}

// Goal: a run is built within the memory that build_bytes says.
// Method: batches of all shapes of keys on devices that have just that.
// Mutation: work space that it forgets ends in MemoryLimit.
TEST_F(Roads, BuildBytesSuffice) {
  exec::FakeFaults none;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    base::Random random(seed);
    const auto shape = runs::model::random_shape(random);
    const auto batch = runs::model::random_batch(random, shape, 1 + random.below(6000), 8);
    const runs::model::Columns columns(exec::plain_host_memory(), batch.keys, random.one_in(2));
    const record::EntriesRef entries = batch.ref(columns.ref(), random.one_in(2));
    const auto device = exec::fake::make_fake_device(&none, runs::build_bytes(entries));
    const auto backend = runs::make_backend(device, {.name = "test"}).take();
    auto run = backend->build_run(entries, nullptr);
    ASSERT_TRUE(run.ok()) << "seed " << seed << ": " << run.status().ToString();
    EXPECT_GT(3 * run.value()->memory_bytes() * 3, runs::build_bytes(entries) - (64 << 10));
  }
}

namespace {

/// Batches larger than a device of this memory.
constexpr std::uint64_t kSmallDevice = 256 << 10;

class Chunks : public Roads {
 protected:
  /// Two batches whose writes are of one family, or mostly, and which meet the same keys again and
  /// again.
  Status write(base::Random* random, FamilyId other) {
    for (int i = 0; i < 2; ++i) {
      Batch batch = store_->NewBatch();
      for (int j = 0; j < 4000; ++j) {
        add(&batch, other != 0 && j % 40 == 0 ? other : kDefaultFamily, random);
      }
      BRECCIA_TRY(store_->Submit({}, &batch));
    }
    return Status::OK();
  }
  void open_with_family(const testing::FakeGpu& gpu, const std::string& name, FamilyId* other) {
    open(gpu, name);
    ASSERT_TRUE(store_->CreateFamily("other", other).ok());
  }
  void reopen_and_compare(const std::string& name) {
    const testing::FakeGpu& large = make_gpu();
    open(large, name);
    expect_model();
    ASSERT_TRUE(store_->Flush().ok());
    expect_model();
  }
};

}  // namespace

// Goal: a sub-batch that does not fit on the device becomes runs there, chunk by chunk, and reads,
//   merges, recovery and flushes find what they find in one run.
// Method: a small device; batches whose keys come in all chunks, as operands, too; a reading batch
//   of the same writes; reopened with and without a flush.
// Mutation: chunks in the wrong order answer with older versions; descriptors of chunks in a frame
//   stop the recovery.
TEST_F(Chunks, BecomeRunsOfTheDevice) {
  testing::FakeGpu& gpu = make_gpu(kSmallDevice);
  FamilyId other = 0;
  open_with_family(gpu, "store", &other);
  base::Random random(1);
  ASSERT_TRUE(write(&random, other).ok());
  EXPECT_GE(figure("backend.chunks"), 4U);
  EXPECT_GT(figure("device-bytes"), 0U);
  expect_model();
  reopen_and_compare("store");
}

// Goal: reads within a batch see what stands before them, in whichever chunk that is.
// Method: a put and a get of one key, over and over in a batch that becomes chunks.
// Mutation: chunks whose positions are wrong are left out, or hit first.
TEST_F(Chunks, ReadsSeeWhatStandsBefore) {
  testing::FakeGpu& gpu = make_gpu(kSmallDevice);
  open(gpu);
  Batch batch = store_->NewBatch();
  constexpr int kCount = 4000;
  for (int i = 0; i < kCount; ++i) {
    ASSERT_TRUE(batch.Put(key_of(i % 7), std::to_string(i)).ok());
    ASSERT_TRUE(batch.Get(key_of(i % 7)).ok());
  }
  ASSERT_TRUE(store_->Submit({}, &batch).ok());
  EXPECT_GE(figure("backend.chunks"), 2U);
  for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(batch.value(i).ToString(), std::to_string(i));
}

// Goal: where the device has no room for a chunk either, the host builds all.
// Method: a device without memory for anything.
// Mutation: cutting on and on, or an error that reaches the writer.
TEST_F(Chunks, HostBuildsWhatNeverFits) {
  testing::FakeGpu& gpu = make_gpu(8 << 10);
  open(gpu);
  base::Random random(2);
  ASSERT_TRUE(write(&random, /*other=*/0).ok());
  EXPECT_EQ(figure("backend.chunks"), 0U);
  EXPECT_GT(figure("backend.memory-misses"), 0U);
  expect_model();
  reopen_and_compare("store");
}

// Goal: whichever operation of the device fails while chunks are built or read, the batch is whole:
//   the host builds what is lost from the log.
// Method: each operation in turn, in strides, fails in each way; all is read, and read again after
//   a recovery.
// Mutation: a chunk without its order on the host cannot be built again.
TEST_F(Chunks, AnyOperationMayFail) {
  const auto run = [&](std::uint64_t k, exec::Fault fault) {
    SCOPED_TRACE("operation " + std::to_string(k) + " fault " +
                 std::to_string(static_cast<int>(fault)));
    const std::string name = std::to_string(k) + "." + std::to_string(static_cast<int>(fault));
    testing::FakeGpu& gpu = make_gpu(kSmallDevice);
    FamilyId other = 0;
    model_.clear();
    open_with_family(gpu, name, &other);
    const std::uint64_t before = gpu.faults.operations();
    gpu.faults.fail_after(k, fault);
    base::Random random(k);
    EXPECT_TRUE(write(&random, other).ok());
    expect_model();
    const std::uint64_t operations = gpu.faults.operations() - before;
    reopen_and_compare(name);
    return operations;
  };
  const std::uint64_t operations = run(kNever, exec::Fault::kDeviceLost);
  const std::uint64_t points = testing::share_of(100) < 50 ? 5 : 16;
  const std::uint64_t stride = std::max<std::uint64_t>(1, operations / points);
  for (const exec::Fault fault :
       {exec::Fault::kOutOfMemory, exec::Fault::kLaunchFailure, exec::Fault::kDeviceLost}) {
    for (std::uint64_t k = 1; k <= operations && !HasFailure(); k += stride) run(k, fault);
  }
}

}  // namespace breccia::ordered
