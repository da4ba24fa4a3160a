#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <thread>

#include "option_sets.h"
#include "runner.h"
#include "shrink.h"
#include "subject.h"
#include "support/seeds.h"

namespace breccia::metamorphic {

namespace {

constexpr std::uint64_t kLists = 5000;

/// What ran.
struct Counts {
  std::atomic<std::uint64_t> lists{0};
  std::atomic<std::uint64_t> requests{0};
  std::atomic<std::uint64_t> submits{0};  // batches for Rocks::Submit
  std::atomic<std::uint64_t> largest{0};
  std::array<std::atomic<std::uint64_t>, kKinds> kinds{};
  std::array<std::atomic<std::uint64_t>, 12> sets{};
  std::array<std::atomic<std::uint64_t>, 3> apis{};
  std::atomic<std::uint64_t> commits{0};
  std::atomic<std::uint64_t> conflicts{0};
  std::atomic<std::uint64_t> locked{0};
  std::atomic<std::uint64_t> cuts{0};

  void note(const List& list, const Met& met) {
    ++lists;
    ++apis[static_cast<std::size_t>(list.api)];
    commits += met.commits;
    conflicts += met.conflicts;
    locked += met.locked;
    cuts += met.cuts;
    for (const std::uint32_t set : list.sets) ++sets[set];
    for (const Op& op : list.ops) {
      ++kinds[static_cast<std::size_t>(op.kind)];
      for (const Op& part : op.parts) ++kinds[static_cast<std::size_t>(part.kind)];
      const bool batch = op.kind == Kind::kBatch;
      submits += batch && list.api != Api::kStore && is_in_order(op, list.api) ? 1 : 0;
      requests += is_request(op.kind) ? 1 : op.parts.size();
      std::uint64_t seen = largest;
      while (seen < op.parts.size() && !largest.compare_exchange_weak(seen, op.parts.size())) {
      }
    }
  }
  [[nodiscard]] std::uint64_t of(Kind kind) const { return kinds[static_cast<std::size_t>(kind)]; }
};

void print_counts(const Counts& counts) {
  const auto [fewest, most] =
      std::minmax_element(counts.sets.begin(), counts.sets.end(),
                          [](const auto& a, const auto& b) { return a.load() < b.load(); });
  std::printf(
      "%lu lists, each under 2 of 12 option sets (%lu to %lu a set); %lu requests, batches up to "
      "%lu; %lu flushes, %lu compactions, %lu reopens, %lu crashes, %lu snapshots, %lu iterators\n",
      counts.lists.load(), fewest->load(), most->load(), counts.requests.load(),
      counts.largest.load(), counts.of(Kind::kFlush), counts.of(Kind::kCompact),
      counts.of(Kind::kReopen), counts.of(Kind::kCrash), counts.of(Kind::kSnapshot),
      counts.of(Kind::kIterator));
  std::printf(
      "%lu lists on the facade with optimistic transactions, %lu with locking ones; %lu "
      "transactions, %lu commits, %lu conflicts, %lu times locked out, %lu histories that end with "
      "TryAgain; %lu batches with an index, %lu for Rocks::Submit\n",
      counts.apis[1].load(), counts.apis[2].load(), counts.of(Kind::kBegin), counts.commits.load(),
      counts.conflicts.load(), counts.locked.load(), counts.cuts.load(), counts.of(Kind::kIndexed),
      counts.submits.load());
}

/// At the full share everything that can be drawn is.
void expect_all_drawn(const Counts& counts) {
  EXPECT_EQ(counts.largest, 65'536u);
  EXPECT_GT(counts.submits, 0u);
  for (std::size_t set = 0; set < counts.sets.size(); ++set) {
    EXPECT_GT(counts.sets[set], 0u) << option_sets()[set].name;
  }
  for (std::size_t api = 0; api < counts.apis.size(); ++api) {
    EXPECT_GT(counts.apis[api], 0u) << "API " << api;
  }
  for (std::size_t kind = 0; kind < counts.kinds.size(); ++kind) {
    EXPECT_GT(counts.kinds[kind], 0u) << print(Op{.kind = static_cast<Kind>(kind)});
  }
}

std::string check(const List& list) { return check_list(list, /*met=*/nullptr); }

/// Runs the lists of `seeds` on two threads; stops at the first that fails.
void run_lists(const std::vector<std::uint64_t>& seeds, Counts* counts) {
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
  const auto work = [&] {
    for (std::size_t i = next++; i < seeds.size() && !failed; i = next++) {
      const Suspects suspects(seeds[i]);
      const List list = make_list(seeds[i]);
      Met met;
      const std::string error = check_list(list, &met);
      counts->note(list, met);
      if (error.empty() || failed.exchange(true)) continue;
      ADD_FAILURE() << report(seeds[i], list, error, check);
    }
  };
  std::thread second(work);
  work();
  second.join();
}

/// Runs lists, one of which ended a process, each in processes of its own.
void run_suspects(const std::vector<std::uint64_t>& seeds) {
  constexpr int kTries = 20;
  for (const std::uint64_t seed : seeds) {
    const List list = make_list(seed);
    std::string error;
    for (int i = 0; i < kTries && error.empty(); ++i) error = check_in_child(list);
    if (!error.empty()) ADD_FAILURE() << report(seed, list, error, check_in_child);
  }
  FAIL() << fmt::format("a signal ended the process that ran seeds {}", fmt::join(seeds, ", "));
}

}  // namespace

// Goal: one list of operations gives one history, whatever the backend, the sizes of batches and
//   memtables, and the points where the store flushes, compacts, reopens or crashes: RocksDB's.
// Method: 5,000 random lists, each run on RocksDB in memory and under two of twelve option sets:
//   two of three lists on a Store, the others on the facade, with what only RocksDB's API has. Two
//   transactions at a time are open beside everything else. A list that fails is shrunk to a file;
//   if it ends the process, the process starts again for that. What was drawn is counted.
// Mutation: leaving out the tombstones of recovered frames, or answering an iterator's Prev from
//   the newest view instead of its own, fails within a hundred lists. A weight of 0 in generate.cc,
//   or batches of half the size, fails the counts.
TEST(Metamorphic, ListsAnswerAsRocksDb) {
  if (const std::string path = file_to_run(); !path.empty()) {
    auto list = read_list(path);
    ASSERT_TRUE(list.ok()) << list.status().ToString();
    ASSERT_EQ(check(list.value()), "");
    return;
  }
  if (const auto seeds = Suspects::from_environment(); !seeds.empty()) {
    run_suspects(seeds);
    return;
  }
  Suspects::watch_signals();
  Counts counts;
  const auto seeds = testing::seeds_to_run(kLists);
  run_lists(seeds, &counts);
  print_counts(counts);
  if (HasFailure() || testing::only_seed()) return;
  EXPECT_GT(counts.commits, 0u);
  EXPECT_GT(counts.conflicts, 0u);
  EXPECT_GT(counts.locked, 0u);
  const std::uint64_t histories = 2 * counts.lists;
  if (histories >= 1000) {
    EXPECT_LE(counts.cuts, histories / 50) << "TryAgain is for few";
  }
  if (testing::share_of(kLists) == kLists) expect_all_drawn(counts);
}

// Goal: lists that failed once do not again.
// Method: the files in found/, under all option sets; several times, as some need bad luck.
TEST(Metamorphic, ListsFoundBefore) {
  const char* const root = std::getenv("BRECCIA_SOURCE_DIR");
  const std::filesystem::path folder =
      std::filesystem::path(root == nullptr ? "." : root) / "tests/metamorphic/found";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not there";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(entry.path().string());
    auto list = read_list(entry.path().string());
    ASSERT_TRUE(list.ok()) << list.status().ToString();
    for (std::uint64_t run = 0; run < testing::share_of(5); ++run) {
      for (std::uint32_t set = 0; set < option_sets().size(); ++set) {
        list.value().sets = {set};
        ASSERT_EQ(check(list.value()), "");
      }
    }
  }
}

// Goal: a list is what its text says, so that a file replays what failed.
// Method: printing and reading 200 lists; texts with one thing wrong.
// Mutation: leaving a field out of the text fails.
TEST(Metamorphic, TextIsTheList) {
  for (const std::uint64_t seed : testing::seeds_to_run(200)) {
    const List list = make_list(seed);
    auto read = parse(print(list));
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    ASSERT_EQ(read.value(), list) << "seed " << seed;
    List legal = list;
    make_legal(&legal);
    ASSERT_EQ(legal, list) << "seed " << seed;
  }
  for (const char* const wrong :
       {"jump", "put f0 k1 v1", "put f9 k1 v1.0", "put f0 k5 v1.0", "flush : put f0 k1 v1.0",
        "begin t2", "put f0  k1", "next i0 n", "keys 1"}) {
    EXPECT_FALSE(parse(fmt::format("keys 1 5\nsets 0\n{}\n", wrong)).ok()) << wrong;
  }
}

// Goal: shrinking ends at what matters.
// Method: lists that "fail" if they put a key, then flush, then delete that key in a batch.
// Mutation: not going back to earlier operations after a later one is gone leaves more.
TEST(Metamorphic, ShrinksToWhatMatters) {
  std::uint64_t shrunk = 0;
  for (const std::uint64_t seed : testing::seeds_to_run(300)) {
    const auto fails = [](const List& list) {
      std::vector<std::pair<std::uint32_t, std::uint32_t>> put;
      std::vector<std::pair<std::uint32_t, std::uint32_t>> flushed;
      for (const Op& op : list.ops) {
        if (op.kind == Kind::kPut) put.emplace_back(op.family, op.key);
        if (op.kind == Kind::kFlush) flushed = put;
        if (op.kind != Kind::kBatch) continue;
        for (const Op& part : op.parts) {
          const auto at = std::pair(part.family, part.key);
          const bool hit = std::find(flushed.begin(), flushed.end(), at) != flushed.end();
          if (part.kind == Kind::kDelete && hit) return true;
        }
      }
      return false;
    };
    const List list = make_list(seed);
    if (!fails(list)) continue;
    ++shrunk;
    const List small = shrink(list, fails, 5000);
    EXPECT_TRUE(fails(small));
    EXPECT_EQ(small.sets.size(), 1u);
    ASSERT_EQ(small.ops.size(), 3u) << print(small);
    EXPECT_EQ(small.ops[0].value, Value());
    ASSERT_EQ(small.ops[2].parts.size(), 1u) << print(small);
  }
  // One list in some dozens does; few seeds may have none.
  EXPECT_TRUE(shrunk > 0 || testing::share_of(300) < 100);
}

}  // namespace breccia::metamorphic
