#include <breccia/hash_store.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "hash/engine/engine.h"
#include "support/seeds.h"
#include "unit/hash/row_store.h"

/// Rows that go by their scores.

namespace breccia::hash {

namespace {

/// From a row's first word, so no two random ones have the same.
double score_of(const Row& row) {
  std::uint64_t word = 0;
  std::memcpy(&word, row.data(), sizeof word);
  return static_cast<double>(word >> 11);
}

class HashEvictions : public RowStore {
 protected:
  /// What should go of rows, by what is said of them.
  static std::set<std::uint64_t> chosen_of(const Model& model, const EvictOptions& options) {
    std::set<std::uint64_t> chosen;
    std::vector<std::pair<double, std::uint64_t>> others;
    for (const auto& [id, row] : model) {
      if (id < options.range.first_id || id > options.range.last_id) continue;
      if (score_of(row) < options.score_min) {
        chosen.insert(id);
      } else {
        others.emplace_back(score_of(row), id);
      }
    }
    std::sort(others.begin(), others.end());
    const std::uint64_t stay = std::min<std::uint64_t>(options.rows_max, others.size());
    for (std::size_t i = 0; i < others.size() - stay; ++i) chosen.insert(others[i].second);
    return chosen;
  }
  EvictOptions some_options(base::Random& random) {
    EvictOptions options;
    options.range.row_bytes = kRowBytes;
    if (random.one_in(3)) options.range.first_id = some_id(random);
    if (random.one_in(3)) options.range.last_id = some_id(random);
    if (random.one_in(2)) options.score_min = score_of(some_row(random));
    if (random.one_in(2)) options.rows_max = random.below(60);
    options.write = some_durability(random);
    return options;
  }
};

}  // namespace

// Goal: those rows go that have the lowest scores, and none that was written since it was scored.
// Method: evictions with random bounds, whose callbacks write, delete and clean; then a map of what
// was there before, by its scores, and of what was written since, says what is left.
// Mutation: rows that changed go, or those that the cleaner moved stay; scores the wrong way round,
// one too many or too few; a range that is not asked; rows told of that did not go.
TEST_F(HashEvictions, TakeTheLowest) {
  std::uint64_t all = 0;
  for (const std::uint64_t seed : testing::seeds_to_run(300)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    may_fail_ = false;
    number_mask_ = random.one_in(3) ? 3 : ~std::uint64_t{0};
    open_new(random);
    if (HasFatalFailure()) return;
    Model model;
    for (int turn = 0; turn < 8 && !HasFatalFailure(); ++turn) {
      for (std::uint64_t i = random.below(6); i > 0; --i) put(random, &model);
      const Model before = model;
      EvictOptions options = some_options(random);
      const std::set<std::uint64_t> chosen = chosen_of(before, options);
      const bool goes_on = random.one_in(2);
      options.score = [&](std::span<const std::uint64_t> ids, const void* rows,
                          std::span<double> score) {
        EXPECT_EQ(ids.size(), score.size());
        for (std::size_t i = 0; i < ids.size(); ++i) {
          Row row;
          std::memcpy(row.data(), static_cast<const char*>(rows) + i * kRowBytes, kRowBytes);
          EXPECT_EQ(row, before.at(ids[i]));
          score[i] = score_of(row);
        }
        if (!goes_on) return Status::OK();
        if (random.one_in(3)) put(random, &model);
        if (random.one_in(3)) erase(random, &model);
        bool was_done = false;
        return random.one_in(2) ? engine_->cleaner().clean_one(&was_done) : Status::OK();
      };
      std::set<std::uint64_t> gone;
      options.gone = [&](std::span<const std::uint64_t> ids, const void* rows) {
        for (std::size_t i = 0; i < ids.size(); ++i) {
          EXPECT_TRUE(gone.insert(ids[i]).second);
          EXPECT_TRUE(chosen.contains(ids[i]));
          EXPECT_EQ(std::memcmp(static_cast<const char*>(rows) + i * kRowBytes,
                                before.at(ids[i]).data(), kRowBytes),
                    0);
        }
      };
      std::uint64_t evicted = 7;
      const Status status = engine_->EvictRows(options, &evicted);
      ASSERT_TRUE(status.ok()) << status.ToString();
      EXPECT_EQ(evicted, gone.size());
      all += evicted;
      for (const std::uint64_t id : chosen) {
        const auto now = model.find(id);
        if (now != model.end() && now->second == before.at(id)) model.erase(now);
      }
      if (!goes_on) {
        EXPECT_EQ(gone, chosen);
      }
      if (random.one_in(8)) open();
      find(random, model);
      for (const auto& [id, row] : model) {
        std::string value;
        ASSERT_TRUE(engine_->Get(key_of_id(id), &value).ok()) << id;
        ASSERT_EQ(value, std::string(row.data(), row.size()));
      }
      if (number_mask_ == ~std::uint64_t{0}) {
        ASSERT_EQ(figure("keys"), model.size());
      }
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(all, 0U);
}

// Goal: no row goes that was written after it was scored, by whatever thread.
// Method: threads that write rows that may go and then ones that may not, and look at once; an
// eviction after the other.
// Mutation: the look at what is still so is not in the turn of the deletion.
TEST_F(HashEvictions, SpareWhatWasWrittenSince) {
  base::Random random(1);
  open_new(random);
  options_.backend = testing::backend_under_test();
  ground_.roll_bytes = 8192;
  ground_.scanned_at_once = 64;
  open();
  std::atomic<bool> stops = false;
  const auto write = [&](std::uint64_t writer) {
    while (!stops) {
      for (std::uint64_t i = 0; i < 20; ++i) {
        const std::string key = key_of_id(writer * 1000 + i);
        for (const char stays : {'\0', '\1'}) {
          EXPECT_TRUE(engine_->Put(WriteOptions(), key, std::string(kRowBytes, stays)).ok());
        }
        std::string value;
        EXPECT_TRUE(engine_->Get(key, &value).ok());
        EXPECT_EQ(value, std::string(kRowBytes, '\1'));
      }
    }
  };
  std::vector<std::thread> threads;
  for (std::uint64_t writer = 0; writer < 3; ++writer) threads.emplace_back(write, writer);
  EvictOptions options;
  options.range.row_bytes = kRowBytes;
  options.score_min = 1;
  options.score = [](std::span<const std::uint64_t> ids, const void* rows,
                     std::span<double> score) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      score[i] = static_cast<const char*>(rows)[i * kRowBytes];
    }
    return Status::OK();
  };
  std::uint64_t all = 0;
  while (all < 300 && !HasFailure()) {
    std::uint64_t evicted = 0;
    EXPECT_TRUE(engine_->EvictRows(options, &evicted).ok());
    all += evicted;
    bool was_done = false;
    EXPECT_TRUE(engine_->cleaner().clean_one(&was_done).ok());
  }
  stops = true;
  for (std::thread& thread : threads) thread.join();
  engine_.reset();
}

TEST_F(HashEvictions, EndWithWhatIsWrong) {
  base::Random random(2);
  open_new(random);
  Model model;
  while (model.size() < 10) put(random, &model);
  std::uint64_t evicted = 7;
  EvictOptions options;
  options.range.row_bytes = kRowBytes;
  EXPECT_TRUE(engine_->EvictRows(options, &evicted).IsInvalidArgument());  // no score
  EXPECT_EQ(evicted, 0U);
  options.score = [](std::span<const std::uint64_t>, const void*, std::span<double> score) {
    std::fill(score.begin(), score.end(), std::numeric_limits<double>::quiet_NaN());
    return Status::OK();
  };
  EXPECT_TRUE(engine_->EvictRows(options, &evicted).IsInvalidArgument());
  options.score = [](std::span<const std::uint64_t>, const void*, std::span<double>) {
    return Status::TimedOut();
  };
  EXPECT_TRUE(engine_->EvictRows(options, &evicted).IsTimedOut());
  options.range.row_bytes = 4;
  EXPECT_TRUE(engine_->EvictRows(options, &evicted).IsInvalidArgument());
  find(random, model);
  EXPECT_TRUE(engine_->Close().ok());
  EXPECT_TRUE(engine_->EvictRows(options, &evicted).IsShutdownInProgress());
}

}  // namespace breccia::hash
