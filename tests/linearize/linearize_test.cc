#include <breccia/hash_options.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "client.h"
#include "hash/engine/engine.h"
#include "hot/tier.h"
#include "slab/engine/engine.h"
#include "support/append_operator.h"
#include "support/backend.h"
#include "support/folder.h"
#include "support/restless_tier.h"
#include "support/seeds.h"
#include "support/sparse_files.h"

namespace breccia::linearize {

namespace {

constexpr std::uint64_t kHistoriesPerStore = 50;
/// Keys of a history, whose names end with a letter from a on.
constexpr std::uint64_t kClientKeys = Client::kKeys;

Options random_options(base::Random* random) {
  constexpr std::uint32_t kDeviceMin[] = {1, 3, 1'000'000};
  Options options;
  options.create_if_missing = true;
  const bool simulator = random->one_in(3);
  options.backend = simulator ? BackendChoice::kSimulator : testing::backend_under_test();
  options.simulator_seed = random->next();
  options.device_requests_min = kDeviceMin[random->below(3)];
  options.memtable_bytes = random->one_in(2) ? 64 << 10 : 16 << 20;
  options.flush_threads = 1;
  options.rocksdb.env = testing::sparse_env();
  options.rocksdb.info_log_level = rocksdb::InfoLogLevel::FATAL_LEVEL;
  options.rocksdb.compression = rocksdb::kNoCompression;
  options.rocksdb.max_file_opening_threads = 1;
  options.rocksdb.merge_operator = std::make_shared<testing::AppendOperator>();
  return options;
}

/// What ran.
struct Counts {
  std::uint64_t operations = 0;
  std::uint64_t transactions = 0;  // with writes in them
  std::uint64_t commits = 0;       // of those
  std::uint64_t changes = 0;       // of what is hot
  std::uint64_t gets = 0;          // of histories whose keys were hot
  std::uint64_t hits = 0;          // lookups of these that copies answered
};

std::uint64_t figure(Store* store, const std::string& name) {
  std::string text = "0";
  store->GetProperty("breccia.hot." + name, &text);
  return std::stoull(text);
}

/// Makes keys of a history hot, and, if it goes on, others of them in turn while it lives. What it
/// looks up nobody records.
class Stirrer {
 public:
  Stirrer(Store* store, std::string prefix, std::uint64_t seed)
      : store_(store), prefix_(std::move(prefix)), random_(seed) {
    for (const std::uint64_t before = figure(store, "hits"); figure(store, "hits") == before;) {
      ask(kClientKeys);
    }
  }
  ~Stirrer() {
    is_over_ = true;
    if (thread_.joinable()) thread_.join();
  }
  Stirrer(const Stirrer&) = delete;
  Stirrer& operator=(const Stirrer&) = delete;

  void go_on() {
    thread_ = std::thread([this] {
      while (!is_over_) ask(1 + random_.below(kClientKeys));
    });
  }

 private:
  /// Some hundred lookups of so many neighbouring keys.
  void ask(std::uint64_t keys) {
    const std::uint64_t first = random_.below(kClientKeys);
    std::string value;
    for (int i = 0; i < 200 && !is_over_; ++i) {
      const std::uint64_t key = (first + random_.below(keys)) % kClientKeys;
      (void)store_->Get(prefix_ + static_cast<char>('a' + static_cast<char>(key)), &value);
      if (i % 8 == 0) std::this_thread::yield();
    }
  }

  Store* const store_;
  const std::string prefix_;
  base::Random random_;
  std::atomic<bool> is_over_{false};
  std::thread thread_;
};

/// Runs a history on `store`, which is `ordered` or of the hash engine (null), or a tier over one
/// of them, and writes it to `file`. Returns what went wrong, or nothing.
std::string run_history(Store* store, ordered::Engine* ordered, bool has_tier, std::uint64_t seed,
                        const std::string& file, Counts* counts) {
  base::Random random(seed);
  // With its letter 8 bytes, as some stores have them alone.
  std::string prefix(7, '\0');
  std::uint64_t left = seed;
  for (char& letter : prefix) {
    letter = static_cast<char>('a' + left % 26);
    left /= 26;
  }
  const auto count = static_cast<int>(2 + random.below(random.one_in(4) ? 15 : 5));
  const auto operations = static_cast<int>(8 + random.below(40));
  std::optional<Stirrer> stirrer;
  if (has_tier) stirrer.emplace(store, prefix, random.next());
  const bool is_stirred = has_tier && random.one_in(2);
  if (is_stirred) stirrer->go_on();
  const std::uint64_t gets = figure(store, "lookups");
  const std::uint64_t hits = figure(store, "hits");
  std::deque<Client> clients;
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) clients.emplace_back(store, ordered, prefix, i, random.next());
  for (Client& client : clients) {
    threads.emplace_back([&client, operations] { client.run(operations); });
  }
  std::string error;
  if (random.one_in(4)) {
    const Status flushed = store->Flush();
    // In memory alone there is nothing to flush.
    if (!flushed.ok() && !flushed.IsNotSupported()) error = "flush failed: " + flushed.ToString();
  }
  for (std::thread& thread : threads) thread.join();
  if (!is_stirred) {
    counts->gets += figure(store, "lookups") - gets;
    counts->hits += figure(store, "hits") - hits;
  }
  std::ofstream out(file);
  if (!out.is_open()) error = "no file " + file;
  for (const Client& client : clients) {
    if (!client.error().empty()) error = client.error();
    out << client.recorder().lines();
    counts->operations += client.recorder().count();
    counts->transactions += client.transactions();
    counts->commits += client.commits();
  }
  return error;
}

const std::filesystem::path kFolder = "histories";

void remove_histories() {
  std::filesystem::create_directories(kFolder);
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".jsonl") std::filesystem::remove(entry.path());
  }
}

/// On five keys many meet others.
void expect_commits(const Counts& counts) {
  std::printf("%lu operations, %lu of %lu transactions with writes committed\n", counts.operations,
              counts.commits, counts.transactions);
  EXPECT_GT(counts.commits, counts.transactions / 8);  // with more cores more of them conflict
  EXPECT_LT(counts.commits, counts.transactions);
}

/// The store itself, or behind a tier whose model changes all the time.
std::unique_ptr<Store> stack(std::unique_ptr<Store> engine, bool with_tier, base::Random* random) {
  if (!with_tier) return engine;
  auto tier = hot::Tier::make(testing::restless_tier(random), std::move(engine));
  EXPECT_TRUE(tier.ok()) << tier.status().ToString();
  return tier.take();
}

/// A store of a seed, and the same, if it is of the ordered engine.
struct Opened {
  std::unique_ptr<Store> store;
  ordered::Engine* ordered = nullptr;
};

Opened open_ordered(const std::string& path, base::Random* random) {
  std::unique_ptr<ordered::Engine> engine;
  const Status opened = ordered::Engine::open(random_options(random), path, &engine);
  EXPECT_TRUE(opened.ok()) << opened.ToString();
  ordered::Engine* const ordered = engine.get();
  return {std::move(engine), ordered};
}

template <class EngineOptions>
EngineOptions options_of(base::Random* random) {
  EngineOptions options;
  options.create_if_missing = true;
  options.backend = random->one_in(3) ? BackendChoice::kSimulator : testing::backend_under_test();
  options.simulator_seed = random->next();
  return options;
}

/// Without ranges, merges and snapshots; its log is cleaned meanwhile, and keys share numbers in
/// some stores.
Opened open_hash(const std::string& path, base::Random* random) {
  auto options = options_of<HashOptions>(random);
  options.log_factor = 1;
  const hash::Ground ground{testing::make_sparse_files(), pmem::real_disk(),
                            random->one_in(2) ? ~std::uint64_t{0} : 1, 4096};
  std::unique_ptr<hash::Engine> engine;
  const Status opened = hash::Engine::open(options, path, ground, &engine);
  EXPECT_TRUE(opened.ok()) << opened.ToString();
  return {std::move(engine)};
}

/// The same, in memory alone.
Opened open_slab(const std::string& /*path*/, base::Random* random) {
  std::unique_ptr<slab::Engine> engine;
  const Status opened = slab::Engine::open(options_of<SlabOptions>(random),
                                           random->one_in(2) ? ~std::uint64_t{0} : 1, &engine);
  EXPECT_TRUE(opened.ok()) << opened.ToString();
  return {std::move(engine)};
}

/// The same, whose keys and values lie in its table.
Opened open_in_place(const std::string& /*path*/, base::Random* random) {
  auto options = options_of<SlabOptions>(random);
  options.in_place = true;
  std::unique_ptr<slab::Engine> engine;
  const Status opened = slab::Engine::open(options, ~std::uint64_t{0}, &engine);
  EXPECT_TRUE(opened.ok()) << opened.ToString();
  return {std::move(engine)};
}

/// Records so many histories into files whose names begin with `name`.
template <class Open>
void record(const std::string& name, std::uint64_t histories, bool with_tier, const Open& open,
            Counts* counts) {
  std::filesystem::create_directories(kFolder);
  for (const std::uint64_t seed : testing::seeds_to_run(histories / kHistoriesPerStore)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const testing::Folder place(testing::Place::kMemory);
    Opened opened = open(place / "store", &random);
    ASSERT_NE(opened.store, nullptr);
    const auto store = stack(std::move(opened.store), with_tier, &random);
    for (std::uint64_t i = 0; i < kHistoriesPerStore; ++i) {
      const std::string file =
          kFolder / fmt::format("{}{}{:x}-{}.jsonl", with_tier ? "hot-" : "", name, seed, i);
      ASSERT_EQ(run_history(store.get(), opened.ordered, with_tier, random.next(), file, counts),
                "");
    }
    counts->changes += figure(store.get(), "changes");
  }
}

}  // namespace

// Goal: what concurrent clients see is what one store could have done, operation by operation in
//   some order that keeps to the times: single requests, batches, ranges, snapshots, transactions.
// Method: 2,000 histories of 2 to 16 threads are recorded into files of the folder `histories`; the
//   ctest entry `linearize` behind this one checks them with porcupine.
// Mutation: showing a batch's writes one by one, or a snapshot without its visible position, is
//   found in the first files; a Close that always says Busy fails the share of commits.
TEST(Linearize, ConcurrentHistoriesAreRecorded) {
  remove_histories();
  Counts counts;
  record("", 2000, /*with_tier=*/false, open_ordered, &counts);
  expect_commits(counts);
}

// Goal: the same of the hash engine.
// Method: 1,000 histories, into the same folder.
// Mutation: as above; an index that lookups see while a batch comes in.
TEST(Linearize, ConcurrentHistoriesOfTheHashEngineAreRecorded) {
  Counts counts;
  record("hash-", 1000, /*with_tier=*/false, open_hash, &counts);
  expect_commits(counts);
}

// Goal: the same of the slab engine.
// Method: 1,000 histories, and 1,000 of one whose keys and values lie in its table, into the same
//   folder.
// Mutation: as above; values that are copied when the table is no longer shared.
TEST(Linearize, ConcurrentHistoriesOfTheSlabEngineAreRecorded) {
  Counts counts;
  record("slab-", 1000, /*with_tier=*/false, open_slab, &counts);
  record("slab-in-place-", 1000, /*with_tier=*/false, open_in_place, &counts);
  // Its batches take so little time that hardly any two meet.
  EXPECT_GT(counts.commits, counts.transactions / 8);
}

// Goal: the same over a tier of hot keys, while others become hot every few hundred requests.
// Method: 1,000 histories over each engine, into the same folder; their keys are hot before they
//   begin, and in half of them others of these become so all the while.
// Mutation: a lookup that brings a copy without a lease; a change of the model in one step.
TEST(Linearize, ConcurrentHistoriesOverAHotTierAreRecorded) {
  Counts counts;
  record("", 1000, /*with_tier=*/true, open_ordered, &counts);
  record("hash-", 1000, /*with_tier=*/true, open_hash, &counts);
  record("slab-", 1000, /*with_tier=*/true, open_slab, &counts);
  record("slab-in-place-", 1000, /*with_tier=*/true, open_in_place, &counts);
  expect_commits(counts);
  std::printf("%lu changes of what is hot; of %lu lookups copies answered %lu\n", counts.changes,
              counts.gets, counts.hits);
  EXPECT_GT(counts.hits, counts.gets / 40);
}

}  // namespace breccia::linearize
