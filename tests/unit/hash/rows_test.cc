#include <breccia/hash_store.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "hash/engine/engine.h"
#include "support/backend.h"
#include "support/fake_gpu.h"
#include "support/seeds.h"
#include "support/sparse_files.h"
#include "unit/hash/row_store.h"

/// Ids and rows in the memory of a store's device.

namespace breccia::hash {

namespace {

class HashRows : public RowStore {};

/// Lookups over a cache of a tenth of the rows, by Zipf's law with the exponent 0.99: half of them
/// are of the 200 rows that are asked for most.
class HashRowsHits : public HashRows {
 protected:
  static constexpr std::uint64_t kIds = 1 << 15;
  static constexpr std::uint64_t kBatch = 4096;

  void SetUp() override {
    options_.create_if_missing = true;
    gpu_.use(&options_);
    gpu_.faults.fail_after(0, exec::Fault::kDeviceLost);
    options_.cached_row_bytes = kRowBytes;
    options_.row_cache_bytes = kIds / 10 * kCachedRowBytes;
    ground_ = {testing::make_sparse_files(), pmem::real_disk()};
    open();
    ASSERT_LT(figure("row_cache.rows"), kIds / 9);
    Call all(*engine_);
    for (std::uint64_t id = 0; id < kIds; ++id) all.add(id, row_of(id));
    ASSERT_TRUE(all.put(engine_.get(), WriteOptions()).ok());
  }
  static Row row_of(std::uint64_t id) {
    Row row;
    const std::uint64_t words[] = {id, ~id, id * 3};
    std::memcpy(row.data(), words, sizeof words);
    return row;
  }
  /// The inverse of Zipf's distribution, as of a continuous variable.
  std::uint64_t rank() {
    constexpr double kOne = 0.01;  // less 0.99
    const double share = 0x1p-53 * static_cast<double>(random_.next() >> 11);
    const double all = std::pow(static_cast<double>(kIds), kOne) - 1;
    return static_cast<std::uint64_t>(std::pow(1 + share * all, 1 / kOne)) - 1;
  }
  /// Looks up as many rows as there are, in batches of id_of(i); returns how many of a thousand the
  /// cache had.
  template <class IdOf>
  std::uint64_t pass(const IdOf& id_of) {
    const std::uint64_t lookups = figure("row_cache.lookups");
    const std::uint64_t hits = figure("row_cache.hits");
    for (std::uint64_t first = 0; first < kIds; first += kBatch) {
      Call call(*engine_);
      for (std::uint64_t i = first; i < first + kBatch; ++i) call.add(id_of(i), Row{});
      EXPECT_TRUE(call.find(engine_.get()).ok());
      for (std::size_t i = 0; i < kBatch; ++i) EXPECT_EQ(call.rows[i], row_of(call.ids[i]));
    }
    EXPECT_EQ(figure("row_cache.lookups"), lookups + kIds);
    return 1000 * (figure("row_cache.hits") - hits) / kIds;
  }
  /// What is hot lies `shift` further on.
  std::uint64_t pass_of_zipf(std::uint64_t shift) {
    return pass([&](std::uint64_t) { return (rank() + shift) % kIds; });
  }

  base::Random random_{7};
};

/// The same where all lookups are of few ids, and where none is.
class HashRowsByWay : public HashRows, public ::testing::WithParamInterface<std::uint64_t> {
 protected:
  HashRowsByWay() { ground_.few_ids = GetParam(); }
  void use(const std::shared_ptr<wal::Files>& files, std::uint64_t roll_bytes = 0) {
    ground_.files = files;
    ground_.disk = pmem::real_disk();
    ground_.roll_bytes = roll_bytes;
  }
};
INSTANTIATE_TEST_SUITE_P(Ways, HashRowsByWay, ::testing::Values(std::uint64_t{0}, kFewIds));

}  // namespace

// Goal: rows are what a map has, whoever wrote them, whatever is cached, cleaned, or lost.
// Method: random calls of both kinds beside single requests with values of this size and of others,
// keys that are no ids, cleaning, openings; on the host, the simulator, and a device that fails.
// Mutation: a cached row that is found by its set alone; one that is admitted where another is
// written; a batch that a map on the host does not learn of; values of another size that are found.
TEST_F(HashRows, AreWhatAMapHas) {
  std::uint64_t hits = 0;
  std::uint64_t read_bytes = 0;  // of the log, by kernels
  for (const std::uint64_t seed : testing::seeds_to_run(300)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    may_fail_ = false;
    open_new(random);
    if (HasFatalFailure()) return;
    Model model;
    for (int turn = 0; turn < 40; ++turn) {
      const std::uint64_t id = some_id(random);
      switch (random.below(13)) {
        case 0: {
          const Row row = some_row(random);
          model[id] = row;
          ASSERT_TRUE(
              engine_->Put(WriteOptions(), key_of_id(id), Slice(row.data(), row.size())).ok());
          break;
        }
        case 1:
          model.erase(id);
          ASSERT_TRUE(random.one_in(2)
                          ? engine_->Delete(WriteOptions(), key_of_id(id)).ok()
                          : engine_->Put(WriteOptions(), key_of_id(id), "of another size").ok());
          break;
        case 2: {
          bool was_done = true;
          for (std::uint64_t i = 0; i < 1 + random.below(5) && was_done; ++i) {
            ASSERT_TRUE(engine_->cleaner().clean_one(&was_done).ok());
          }
          break;
        }
        case 3:
          if (!random.one_in(4)) break;
          hits += figure("row_cache.hits");
          open();
          break;
        case 4:
          if (random.one_in(20)) {
            ASSERT_TRUE(engine_->Put(WriteOptions(), "no id", "of other keys").ok());
          }
          break;
        case 5:
          if (random.one_in(3)) break_device(random);
          break;
        case 6:
        case 7:
        case 8:
          put(random, &model);
          break;
        case 9:
          random.one_in(2) ? erase(random, &model) : pin(random, model);
          break;
        default:
          find(random, model);
      }
      if (HasFatalFailure()) return;
    }
    for (const auto& [id, row] : model) {
      std::string value;
      ASSERT_TRUE(engine_->Get(key_of_id(id), &value).ok());
      ASSERT_EQ(value, std::string(row.data(), row.size()));
    }
    hits += figure("row_cache.hits");
    read_bytes += figure("log_read_bytes");
  }
  EXPECT_GT(hits, 0U);
  EXPECT_GT(read_bytes, 0U);
}

// Goal: a batch of deletions leaves no entry of its ids behind, and counts each once.
// Method: random puts and deletions, ids twice in a batch and absent ones among them; what a store
// says that it holds is the model's size behind each, as after another opening.
// Mutation: deletions that are not dropped, or all counted as gone.
TEST_F(HashRows, DeletionsLeaveNothing) {
  for (const std::uint64_t seed : testing::seeds_to_run(30)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    open_new(random);
    if (HasFatalFailure()) return;
    Model model;
    for (int turn = 0; turn < 12; ++turn) {
      random.one_in(2) ? put(random, &model) : erase(random, &model);
      if (HasFatalFailure()) return;
      ASSERT_EQ(figure("keys"), model.size());
      if (random.one_in(8)) open();
      find(random, model);
      if (HasFatalFailure()) return;
    }
  }
}

// Goal: ids that are not there cost an index nothing when they are deleted.
// Method: a thousand of them, of an index that has room for a few.
// Mutation: deletions that come into the index before they are taken out of it.
TEST_F(HashRows, AbsentIdsNeedNoRoom) {
  base::Random random(1);
  open_new(random);
  if (HasFatalFailure()) return;
  const std::uint64_t slots = figure("slots");
  Call call(*engine_);
  for (std::uint64_t id = 0; id < 1000; ++id) call.add(id, Row{});
  ASSERT_TRUE(call.erase(engine_.get(), WriteOptions()).ok());
  EXPECT_EQ(figure("slots"), slots);
  EXPECT_EQ(figure("keys"), 0U);
}

// Goal: a cache keeps what is looked up often, and is never the source of a wrong row.
// Method: a few ids in most lookups beside many others, over a cache of an eighth of them all; half
// of the lookups that count are of ids that it must have by then.
// Mutation: a row that is admitted takes any place; credits that do not fall.
TEST_P(HashRowsByWay, OftenLookedUpStayInTheCache) {
  base::Random random(1);
  options_.create_if_missing = true;
  options_.backend = BackendChoice::kSimulator;
  options_.cached_row_bytes = kRowBytes;
  constexpr std::uint64_t kIds = 4096;
  options_.row_cache_bytes = kIds / 8 * kCachedRowBytes;
  use(testing::make_sparse_files());
  open();
  Call all(*engine_);
  for (std::uint64_t id = 0; id < kIds; ++id) all.add(id, some_row(random));
  ASSERT_TRUE(all.put(engine_.get(), WriteOptions()).ok());
  std::uint64_t lookups = 0;
  std::uint64_t hits = 0;
  for (int turn = 0; turn < 200; ++turn) {
    if (turn == 100) {
      lookups = figure("row_cache.lookups");
      hits = figure("row_cache.hits");
    }
    Call call(*engine_);
    for (int i = 0; i < 200; ++i) {
      // The hot ones change in the middle: what was hot does not stay for ever.
      const std::uint64_t hot = random.below(256) + (turn < 50 ? 0 : 2048);
      call.add(random.one_in(2) ? hot : random.below(kIds), Row{});
    }
    ASSERT_TRUE(call.find(engine_.get()).ok());
    for (std::size_t i = 0; i < call.ids.size(); ++i) {
      ASSERT_EQ(call.rows[i], all.rows[call.ids[i]]);
    }
  }
  lookups = figure("row_cache.lookups") - lookups;
  hits = figure("row_cache.hits") - hits;
  EXPECT_GT(hits * 100, lookups * 45) << hits << " of " << lookups;
}

// Goal: a cache keeps the rows that are looked up most often, and the others do not get them out.
// Method: of a thousand lookups the best choice that nobody can make has 769; so many but a few
// after four passes, after all rows were looked up once, and when other rows are hot by then.
// Mutation: rows that come in at their first miss, or with one credit; places taken from any row;
// counts that do not begin anew when their row is in, or are not halved; credits that are not;
// lookups that give no credit.
TEST_F(HashRowsHits, MostAskedForStay) {
  for (int i = 0; i < 4; ++i) pass_of_zipf(0);
  EXPECT_GE(pass_of_zipf(0), 740U);
  pass([](std::uint64_t i) { return i; });
  EXPECT_GE(pass_of_zipf(0), 725U);
  EXPECT_GE(pass_of_zipf(0), 735U);
  for (int i = 0; i < 2; ++i) pass_of_zipf(kIds / 2);
  EXPECT_GE(pass_of_zipf(kIds / 2), 690U);
  for (int i = 0; i < 5; ++i) pass_of_zipf(kIds / 2);
  EXPECT_GE(pass_of_zipf(kIds / 2), 735U);
}

// Goal: a lookup of what the cache has finds that, says of the others that they are not there, and
//   counts both.
// Method: rows of which a tenth are cached, each looked up once in either way.
// Mutation: rows that are missing counted as hits, or not listed; what is found by the log.
TEST_F(HashRowsHits, LookupsOfTheCacheFindWhatItHas) {
  for (int i = 0; i < 4; ++i) pass_of_zipf(0);
  const std::uint64_t lookups = figure("row_cache.lookups");
  const std::uint64_t hits = figure("row_cache.hits");
  Call call(*engine_);
  for (std::uint64_t id = 0; id < kIds; ++id) call.add(id, Row{});
  call.asks_missing = true;
  ASSERT_TRUE(call.find_cached(engine_.get()).ok());
  std::uint64_t found = 0;
  std::vector<std::uint32_t> missing;
  for (std::uint32_t i = 0; i < kIds; ++i) {
    found += call.found[i];
    if (call.found[i] == 0) {
      missing.push_back(i);
    } else {
      ASSERT_EQ(call.rows[i], row_of(i));
    }
  }
  EXPECT_GT(found, figure("row_cache.rows") / 2);
  EXPECT_LE(found, figure("row_cache.rows"));
  ASSERT_EQ(call.missing_count, missing.size());
  missing.resize(kIds, Call::kNone);
  EXPECT_EQ(call.missing, missing);
  // One more is what waits for the stream.
  EXPECT_EQ(figure("row_cache.lookups"), lookups + kIds + 1);
  EXPECT_EQ(figure("row_cache.hits"), hits + found + 1);
}

// Goal: rows that are pinned are found in the cache, whatever else is asked for, until they are let
//   go; few of a third of it find no place, and of half of it one in a hundred.
// Method: rows pinned beside Zipf's over a full cache; all others looked up, often; then two thirds
//   pinned one after the other, of which the last ones come in only where places were let go.
// Mutation: admissions that take pinned places; pins that end without their places; prefetched rows
//   that count as lookups.
TEST_F(HashRowsHits, PinnedOnesStay) {
  for (int i = 0; i < 2; ++i) pass_of_zipf(0);
  const std::uint64_t room = figure("row_cache.rows");
  const auto pin = [&](std::uint64_t first, std::uint64_t count) {
    Call call(*engine_);
    // Each twice.
    for (std::uint64_t i = 0; i < 2 * count; ++i) call.add(kIds - 1 - first - i % count, Row{});
    std::unique_ptr<RowPins> pins;
    EXPECT_TRUE(call.pin(engine_.get(), &pins).ok());
    EXPECT_EQ(pins->Rows() + pins->Refused() / 2, count);
    return pins;
  };
  const auto count_found = [&](std::uint64_t first, std::uint64_t count) {
    Call call(*engine_);
    for (std::uint64_t i = 0; i < count; ++i) call.add(kIds - 1 - first - i, Row{});
    EXPECT_TRUE(call.find_cached(engine_.get()).ok());
    std::uint64_t found = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      found += call.found[i];
      EXPECT_TRUE(call.found[i] == 0 || call.rows[i] == row_of(call.ids[i]));
    }
    return found;
  };
  const std::uint64_t lookups = figure("row_cache.lookups");
  std::unique_ptr<RowPins> third = pin(0, room / 3);
  EXPECT_EQ(figure("row_cache.lookups"), lookups);
  EXPECT_LE(third->Refused() / 2, room / 3 / 100);
  EXPECT_EQ(figure("row_cache.pinned"), third->Rows());
  for (int i = 0; i < 3; ++i) pass_of_zipf(0);
  pass([](std::uint64_t i) { return i; });
  EXPECT_EQ(count_found(0, room / 3), third->Rows());
  std::unique_ptr<RowPins> half = pin(room / 3, room / 6);
  EXPECT_LE(half->Refused() / 2, room / 6 / 20);
  // Whoever pins the same later has it as long.
  std::unique_ptr<RowPins> again = pin(0, room / 3);
  EXPECT_EQ(again->Rows(), third->Rows());
  third.reset();
  for (int i = 0; i < 3; ++i) pass_of_zipf(0);
  EXPECT_EQ(count_found(0, room / 3), again->Rows());
  half.reset();
  again.reset();
  EXPECT_EQ(figure("row_cache.pinned"), 0U);
  // All places are to be had again.
  for (int i = 0; i < 8; ++i) pass_of_zipf(0);
  EXPECT_LE(count_found(0, room / 3), room / 100);
  const std::unique_ptr<RowPins> others = pin(2 * room, room / 3);
  EXPECT_LE(others->Refused() / 2, room / 3 / 100);
}

// Goal: where each step writes the rows that it has looked up, the cache has what is asked for most
//   all the same.
// Method: lookups by Zipf's law over a cache of a tenth, each of whose batches is written at once,
//   every id as often as it was asked for; so many of a thousand are there as without writes.
// Mutation: a write that leaves its rows where they were under their old names; the first of two
//   versions in the place of the second.
TEST_F(HashRowsHits, WrittenOnesStay) {
  const auto step = [&] {
    Call call(*engine_);
    for (std::uint64_t i = 0; i < kBatch; ++i) call.add(rank(), Row{});
    ASSERT_TRUE(call.find(engine_.get()).ok());
    for (std::size_t i = 0; i < kBatch; ++i) ASSERT_EQ(call.rows[i], row_of(call.ids[i]));
    ASSERT_TRUE(call.put(engine_.get(), WriteOptions()).ok());
  };
  for (int i = 0; i < 40; ++i) step();
  const std::uint64_t lookups = figure("row_cache.lookups");
  const std::uint64_t hits = figure("row_cache.hits");
  for (int i = 0; i < 16; ++i) step();
  EXPECT_GE((figure("row_cache.hits") - hits) * 1000,
            (figure("row_cache.lookups") - lookups) * 730);
}

// Goal: what is written by PutRows while it is pinned, or in the cache, is found there as it was
//   written, and stays pinned; what is deleted is not found.
// Method: rows pinned, of which some are written and some deleted, while they are pinned.
// Mutation: a write that leaves its row where it was, under the new version's name.
TEST_F(HashRowsHits, PinnedOnesAreNeverOutOfDate) {
  Call call(*engine_);
  for (std::uint64_t id = 0; id < 300; ++id) call.add(id, Row{});
  std::unique_ptr<RowPins> pins;
  ASSERT_TRUE(call.pin(engine_.get(), &pins).ok());
  ASSERT_GE(pins->Rows(), 298U);
  Call puts(*engine_);
  Call deletions(*engine_);
  // Each twice, of which the second counts.
  for (const std::uint64_t shift : {2 * kIds, kIds}) {
    for (std::uint64_t id = 0; id < 100; ++id) puts.add(id, row_of(id + shift));
  }
  for (std::uint64_t id = 100; id < 200; ++id) deletions.add(id, Row{});
  ASSERT_TRUE(puts.put(engine_.get(), WriteOptions()).ok());
  ASSERT_TRUE(deletions.erase(engine_.get(), WriteOptions()).ok());
  ASSERT_TRUE(call.find_cached(engine_.get()).ok());
  std::uint64_t found = 0;
  for (std::uint64_t id = 0; id < 300; ++id) {
    ASSERT_TRUE(id < 100 || id >= 200 || call.found[id] == 0) << id;
    found += call.found[id];
    ASSERT_TRUE(call.found[id] == 0 || call.rows[id] == row_of(id < 100 ? id + kIds : id)) << id;
  }
  EXPECT_GE(found, 198U);
  std::unique_ptr<RowPins> newer;
  ASSERT_TRUE(call.pin(engine_.get(), &newer).ok());
  pins.reset();
  for (int i = 0; i < 3; ++i) {
    pass([&](std::uint64_t) { return 300 + rank() % (kIds - 300); });
  }
  ASSERT_TRUE(call.find_cached(engine_.get()).ok());
  for (std::uint64_t id = 0; id < 300; ++id) {
    ASSERT_TRUE(call.found[id] == 0 || call.rows[id] == row_of(id < 100 ? id + kIds : id)) << id;
  }
  EXPECT_EQ(static_cast<std::uint64_t>(std::count(call.found.begin(), call.found.end(), 1)),
            newer->Rows());
}

// Goal: a store without a cache refuses to pin, and says so; pins that are nobody's any more do no
//   harm.
TEST_F(HashRows, PinsNeedACache) {
  options_.create_if_missing = true;
  gpu_.use(&options_);
  gpu_.faults.fail_after(0, exec::Fault::kDeviceLost);
  ground_ = {testing::make_sparse_files(), pmem::real_disk()};
  open();
  Call call(*engine_);
  for (std::uint64_t id = 0; id < 10; ++id) call.add(id, Row{});
  ASSERT_TRUE(call.put(engine_.get(), WriteOptions()).ok());
  std::unique_ptr<RowPins> pins;
  ASSERT_TRUE(call.pin(engine_.get(), &pins).ok());
  EXPECT_EQ(pins->Rows(), 0U);
  EXPECT_EQ(pins->Refused(), 10U);
  EXPECT_EQ(figure("row_cache.pinned"), 0U);
  pins.reset();
  IdRows wrong{.ids = call.ids.data(), .count = 10, .row_bytes = 12};
  EXPECT_TRUE(engine_->PinRows(wrong, &pins).IsInvalidArgument());
  wrong = {.ids = nullptr, .count = 1, .row_bytes = kRowBytes};
  EXPECT_TRUE(engine_->PinRows(wrong, &pins).IsInvalidArgument());
  EXPECT_EQ(pins, nullptr);
  ASSERT_TRUE(engine_->PinRows({.row_bytes = kRowBytes}, &pins).ok());
  EXPECT_EQ(pins->Refused(), 0U);
  pins.reset();
  ASSERT_TRUE(engine_->Close().ok());
  EXPECT_TRUE(call.pin(engine_.get(), &pins).IsShutdownInProgress());
}

// Goal: a call that fails pins nothing, whatever it had done by then, and what others had pinned is
//   let go all the same.
// Method: each operation of PinRows fails in turn, once, behind pins that have ended.
// Mutation: bits that are let go twice, or never.
TEST_F(HashRowsHits, FailuresPinNothing) {
  const auto pin = [&](std::unique_ptr<RowPins>* pins) {
    Call call(*engine_);
    for (std::uint64_t i = 0; i < 200; ++i) call.add(random_.below(kIds), Row{});
    return call.pin(engine_.get(), pins);
  };
  for (const exec::Fault fault : {exec::Fault::kLaunchFailure, exec::Fault::kOutOfMemory}) {
    std::uint64_t failures = 0;
    bool has_fired = true;
    for (std::uint64_t k = 1; has_fired; ++k) {
      std::unique_ptr<RowPins> pins;
      ASSERT_TRUE(pin(&pins).ok());
      pins.reset();
      const std::uint64_t before = gpu_.faults.operations();
      gpu_.faults.fail_after(k, fault);
      const Status pinned = pin(&pins);
      has_fired = gpu_.faults.operations() >= before + k;
      gpu_.faults.fail_after(0, fault);
      failures += pinned.ok() ? 0 : 1;
      ASSERT_EQ(pinned.ok(), pins != nullptr);
      pins.reset();
      ASSERT_EQ(figure("row_cache.pinned"), 0U);
    }
    EXPECT_GT(failures, fault == exec::Fault::kOutOfMemory ? 0U : 10U);
  }
  ASSERT_GT(figure("row_cache.rows"), 0U);
  // Every place is to be had: as many as Poisson's law has it.
  Call all(*engine_);
  for (std::uint64_t id = 0; id < 2 * figure("row_cache.rows"); ++id) all.add(id, Row{});
  std::unique_ptr<RowPins> pins;
  ASSERT_TRUE(all.pin(engine_.get(), &pins).ok());
  EXPECT_GE(pins->Rows() * 100, figure("row_cache.rows") * 98);
}

// Goal: a store whose device is lost refuses to pin, and what it had pinned does no harm.
// Method: the device is lost under a call of PinRows, and pins end behind that.
// Mutation: a call whose failure the store does not learn of, so that all say so from then on.
TEST_F(HashRowsHits, PinsOutliveTheirDevice) {
  Call call(*engine_);
  for (std::uint64_t id = 0; id < 100; ++id) call.add(id, Row{});
  std::unique_ptr<RowPins> before;
  ASSERT_TRUE(call.pin(engine_.get(), &before).ok());
  EXPECT_EQ(before->Rows(), 100U);
  const IdRows ids{.ids = call.ids.data(), .count = 100, .row_bytes = kRowBytes};
  std::unique_ptr<RowPins> pins;
  gpu_.faults.fail_after(1, exec::Fault::kDeviceLost);
  EXPECT_FALSE(engine_->PinRows(ids, &pins).ok());
  ASSERT_TRUE(engine_->PinRows(ids, &pins).ok());
  EXPECT_EQ(pins->Refused(), 100U);
  EXPECT_EQ(figure("row_cache.pinned"), 0U);
  before.reset();
  EXPECT_EQ(figure("row_cache.pinned"), 0U);
}

// Goal: calls of many threads at once neither tear rows nor lose any.
// Method: writers whose rows say their id in each word, readers over a small cache, a cleaner.
TEST_P(HashRowsByWay, ConcurrentCallers) {
  base::Random random(2);
  options_.create_if_missing = true;
  options_.backend = testing::backend_under_test();
  testing::FakeGpu gpu;
  gpu.faults.fail_after(0, exec::Fault::kDeviceLost);
  if (options_.backend == BackendChoice::kHost) gpu.use(&options_);
  options_.cached_row_bytes = kRowBytes;
  options_.row_cache_bytes = 4000;
  use(testing::make_sparse_files(), 4096);
  open();
  const auto row_of = [](std::uint64_t id, std::uint64_t version) {
    Row row;
    const std::uint64_t words[] = {id, version, id ^ version};
    std::memcpy(row.data(), words, sizeof words);
    return row;
  };
  constexpr std::uint64_t kIds = 300;
  std::atomic<bool> stops = false;
  const auto write = [&](std::uint64_t seed) {
    base::Random own(seed);
    for (std::uint64_t version = 1; version <= 60; ++version) {
      Call call(*engine_);
      for (int i = 0; i < 50; ++i) {
        const std::uint64_t id = own.below(kIds);
        call.add(id, row_of(id, version));
      }
      EXPECT_TRUE(call.put(engine_.get(), WriteOptions()).ok());
    }
  };
  const auto read = [&](std::uint64_t seed) {
    base::Random own(seed);
    while (!stops) {
      Call call(*engine_);
      for (int i = 0; i < 100; ++i) call.add(own.below(own.one_in(2) ? kIds : 20), Row{});
      const bool is_of_cache = own.one_in(2);
      std::unique_ptr<RowPins> pins;
      if (own.one_in(3)) {
        EXPECT_TRUE(call.pin(engine_.get(), &pins).ok());
      }
      EXPECT_TRUE((is_of_cache ? call.find_cached(engine_.get()) : call.find(engine_.get())).ok());
      for (std::size_t i = 0; i < call.ids.size(); ++i) {
        if (call.found[i] == 0) continue;
        std::uint64_t words[3];
        std::memcpy(words, call.rows[i].data(), sizeof words);
        EXPECT_EQ(call.rows[i], row_of(call.ids[i], words[1]));
      }
      bool was_done = false;
      EXPECT_TRUE(engine_->cleaner().clean_one(&was_done).ok());
    }
  };
  std::vector<std::thread> writers;
  std::vector<std::thread> readers;
  for (std::uint64_t i = 0; i < 2; ++i) writers.emplace_back(write, i);
  for (std::uint64_t i = 2; i < 4; ++i) readers.emplace_back(read, i);
  for (std::thread& thread : writers) thread.join();
  stops = true;
  for (std::thread& thread : readers) thread.join();
  engine_.reset();
}

// Goal: one failure does not cost a store its device.
// Method: each operation of a lookup fails in turn, once.
// Mutation: a lookup that is not tried again before the map is lost.
TEST_P(HashRowsByWay, OneFailureIsOne) {
  options_.create_if_missing = true;
  gpu_.use(&options_);
  gpu_.faults.fail_after(0, exec::Fault::kLaunchFailure);
  use(testing::make_sparse_files());
  open();
  base::Random random(3);
  Model model;
  put(random, &model);
  std::string before;
  ASSERT_TRUE(engine_->GetProperty("breccia.backend", &before));
  may_fail_ = true;
  for (std::uint64_t k = 1; k <= 40; ++k) {
    gpu_.faults.fail_after(k, exec::Fault::kLaunchFailure);
    find(random, model);
    if (HasFatalFailure()) return;
    std::string after;
    ASSERT_TRUE(engine_->GetProperty("breccia.backend", &after));
    ASSERT_EQ(after, before) << "operation " << k;
  }
}

// Goal: a cache gives way to what other stores need, though it is looked up in meanwhile.
// Method: a device whose memory is mostly one store's cache, over which threads look up, while
// another store's index grows.
// Mutation: a cache that gives nothing while somebody is at it.
TEST_P(HashRowsByWay, CacheGivesWay) {
  testing::FakeGpu gpu(24 << 20);
  gpu.faults.fail_after(0, exec::Fault::kDeviceLost);
  options_.create_if_missing = true;
  gpu.use(&options_);
  options_.keys_expected = 64;
  options_.cached_row_bytes = kRowBytes;
  options_.row_cache_bytes = 18 << 20;
  use(testing::make_sparse_files());
  open();
  ASSERT_GT(figure("row_cache.bytes"), 17U << 20);
  Call held(*engine_);
  for (std::uint64_t id = 0; id < 1000; ++id) held.add(id, Row{});
  ASSERT_TRUE(held.put(engine_.get(), WriteOptions()).ok());
  std::unique_ptr<RowPins> pins;
  ASSERT_TRUE(held.pin(engine_.get(), &pins).ok());
  EXPECT_EQ(pins->Rows(), 1000U);
  std::atomic<bool> stops = false;
  std::vector<std::thread> readers;
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    readers.emplace_back([&, seed] {
      base::Random own(seed);
      while (!stops) {
        Call call(*engine_);
        for (int i = 0; i < 100; ++i) call.add(own.below(1000), Row{});
        const bool is_of_cache = own.one_in(2);
        EXPECT_TRUE(
            (is_of_cache ? call.find_cached(engine_.get()) : call.find(engine_.get())).ok());
      }
    });
  }
  HashOptions other_options = options_;
  other_options.row_cache_bytes = 0;
  Ground other_ground{testing::make_sparse_files(), pmem::real_disk()};
  std::unique_ptr<Engine> other;
  ASSERT_TRUE(Engine::open(other_options, folder_ / "other", other_ground, &other).ok());
  base::Random random(4);
  for (std::uint64_t first = 0; first < 200'000; first += 50'000) {
    Call call(*other);
    for (std::uint64_t i = 0; i < 50'000; ++i) call.add(first + i, Row{});
    ASSERT_TRUE(call.put(other.get(), WriteOptions()).ok());
  }
  std::string backend;
  EXPECT_TRUE(other->GetProperty("breccia.backend", &backend));
  EXPECT_EQ(backend.find("host"), std::string::npos) << backend;
  stops = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(figure("row_cache.bytes"), 0U);
  EXPECT_EQ(figure("row_cache.pinned"), 0U);
  pins.reset();
  EXPECT_EQ(figure("row_cache.pinned"), 0U);
  EXPECT_TRUE(held.pin(engine_.get(), &pins).ok());
  EXPECT_EQ(pins->Refused(), 1000U);
  pins.reset();
  engine_.reset();
  other.reset();
}

TEST_F(HashRows, RefusesWhatIsNoRow) {
  options_.create_if_missing = true;
  options_.backend = BackendChoice::kHost;
  ground_ = {testing::make_sparse_files(), pmem::real_disk()};
  open();
  alignas(8) char memory[64] = {};
  std::uint8_t found[2] = {};
  IdRows rows{.ids = reinterpret_cast<const std::uint64_t*>(memory),
              .count = 1,
              .rows = memory + 8,
              .row_bytes = 8,
              .found = found};
  EXPECT_TRUE(engine_->PutRows(WriteOptions(), rows).ok());
  EXPECT_TRUE(engine_->FindRows(rows).ok());
  EXPECT_EQ(found[0], 1);
  alignas(8) char list[16] = {};
  rows.missing = reinterpret_cast<std::uint32_t*>(list);
  EXPECT_TRUE(engine_->FindRows(rows).IsInvalidArgument());
  rows.missing_count = reinterpret_cast<std::uint64_t*>(list + 4);
  EXPECT_TRUE(engine_->FindRows(rows).IsInvalidArgument());
  rows.missing_count = reinterpret_cast<std::uint64_t*>(list + 8);
  rows.missing = reinterpret_cast<std::uint32_t*>(list + 2);
  EXPECT_TRUE(engine_->FindRows(rows).IsInvalidArgument());
  rows.missing = nullptr;
  EXPECT_TRUE(engine_->FindRows(rows).IsInvalidArgument());
  rows.missing_count = nullptr;
  rows.row_bytes = 12;
  EXPECT_TRUE(engine_->FindRows(rows).IsInvalidArgument());
  rows.row_bytes = 0;
  EXPECT_TRUE(engine_->PutRows(WriteOptions(), rows).IsInvalidArgument());
  rows.row_bytes = 8;
  rows.rows = memory + 9;
  EXPECT_TRUE(engine_->FindRows(rows).IsInvalidArgument());
  rows.rows = memory + 8;
  rows.found = nullptr;
  EXPECT_TRUE(engine_->FindRows(rows).IsInvalidArgument());
  rows.found = found;
  rows.ids = nullptr;
  EXPECT_TRUE(engine_->PutRows(WriteOptions(), rows).IsInvalidArgument());
  rows.ids = reinterpret_cast<const std::uint64_t*>(memory);
  rows.count = std::size_t{1} << 29;
  EXPECT_TRUE(engine_->PutRows(WriteOptions(), rows).IsInvalidArgument());
  rows.count = 1 << 20;
  rows.row_bytes = 1 << 20;
  EXPECT_TRUE(engine_->PutRows(WriteOptions(), rows).IsInvalidArgument());
  EXPECT_TRUE(engine_->DeleteRows(WriteOptions(), {.count = 1}).IsInvalidArgument());
  EXPECT_TRUE(engine_->DeleteRows(WriteOptions(), {}).ok());
  EXPECT_TRUE(
      engine_
          ->DeleteRows(WriteOptions(),
                       {.ids = reinterpret_cast<const std::uint64_t*>(memory + 4), .count = 1})
          .IsInvalidArgument());
  rows.count = std::size_t{1} << 29;
  EXPECT_TRUE(engine_->DeleteRows(WriteOptions(), rows).IsInvalidArgument());
  rows.row_bytes = 8;
  rows.count = 0;
  EXPECT_TRUE(engine_->FindRows(rows).ok());
  EXPECT_TRUE(engine_->PutRows(WriteOptions(), rows).ok());
  options_.row_cache_bytes = 1000;
  options_.cached_row_bytes = 12;
  options_.backend = BackendChoice::kSimulator;
  engine_.reset();
  EXPECT_TRUE(Engine::open(options_, folder_ / "store", ground_, &engine_).IsInvalidArgument());
}

}  // namespace breccia::hash
