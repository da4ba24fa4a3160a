#pragma once

#include <algorithm>
#include <map>
#include <span>
#include <thread>
#include <vector>

#include "conformance/hash_model.h"
#include "support/seeds.h"

/// What a hash table owes its users on every executor.

namespace breccia::hash::conformance {

class HashConformance : public ::testing::TestWithParam<Executor> {
 protected:
  [[nodiscard]] std::vector<std::uint64_t> seeds(std::uint64_t count) const {
    return testing::seeds_to_run(std::max<std::uint64_t>(1, count * GetParam().share / 100));
  }
};

// Goal: requests on one key that run at once take effect one after the other, none is lost or half
// done, and no key is there twice.
// Method: batches on few keys in a small table, so that buckets are full, slots come and go and
// keys move; for each key some order must explain all answers and what is there afterwards.
// Mutation: an insertion that does not look at the second bucket when the first has a slot again; a
// deletion that empties its slot at once; insertions of one key that all move others: each fails
// within 100 seeds.
TEST_P(HashConformance, SomeOrderExplainsEachKey) {
  for (const std::uint64_t seed : seeds(2'000)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const auto backend = GetParam().make(seed);
    const int lanes[] = {1, 4, 8};
    const std::uint64_t slots = 16 + random.below(5) * 8;
    auto made = backend->make_table({.slots_min = slots,
                                     .slots_max = random.one_in(2) ? 0 : 8 * slots,
                                     .moved_min = 1,
                                     .key_bytes = some_key_bytes(random),
                                     .value_bytes = some_value_bytes(random),
                                     .rows = 4 * slots,
                                     .lanes = lanes[random.below(3)],
                                     .tries_max = 1 + static_cast<int>(random.below(3)),
                                     .combined_min = std::uint64_t{1} << 2 * random.below(4),
                                     .secret = random_secret(random),
                                     .hash_mask = some_hash_mask(3, random)});
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    Table& table = *made.value();
    const auto keys = some_keys(table, slots * 9 / 10, random);
    auto before = contents(*backend, table, keys);
    for (int turn = 0; turn < 6; ++turn) {
      std::map<std::uint64_t, std::vector<Request>> of_key;
      std::vector<Request> batch;
      const bool only_inserts = random.one_in(3);
      while (batch.size() < keys.size() * 2) {
        const bool compares = !table.options().has_rows() && seed % 2 == 0;
        Request request = random_request(keys, random, compares);
        if (only_inserts) request.operation = Operation::kInsert;
        auto& others = of_key[request.key];
        if (others.size() == 5) continue;
        others.push_back(request);
        batch.push_back(request);
      }
      ASSERT_TRUE(run_batch(*backend, table, &batch).ok());
      const auto after = contents(*backend, table, keys);
      for (auto& [key, requests] : of_key) requests.clear();
      for (const Request& request : batch) {
        if (request.code != Code::kNoRoom) of_key[request.key].push_back(request);
      }
      Model model;
      for (const auto& [key, content] : after) {
        if (content.is_there) model[key] = content.value;
      }
      for (const auto& [key, requests] : of_key) {
        ASSERT_TRUE(is_explained(requests, before[key], after.at(key)))
            << "turn " << turn << ", key " << key;
      }
      expect_is(*backend, table, model);
      if (::testing::Test::HasFatalFailure()) return;
      before = after;
    }
  }
}

// Goal: a table takes 95 % of its slots before it says that there is no room, and has all of it.
// Method: fills it in batches; after each, every key is there with its value, and others are not.
// Mutation: ways of one move at most: some insertion finds no room.
TEST_P(HashConformance, FillsToNineteenTwentieths) {
  for (const std::uint64_t seed : seeds(40)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const auto backend = GetParam().make(seed);
    const std::uint64_t slots = 8 * (100 + random.below(400));
    auto made = backend->make_table({.slots_min = slots,
                                     .key_bytes = some_long_key_bytes(random),
                                     .rows = 4 * slots,
                                     .secret = random_secret(random)});
    ASSERT_TRUE(made.ok());
    Table& table = *made.value();
    Model model;
    while (model.size() < slots * 95 / 100) {
      std::vector<Request> batch;
      const std::uint64_t count =
          std::min<std::uint64_t>(1 + random.below(slots / 4), slots * 95 / 100 - model.size());
      const bool only_inserts = random.one_in(2);
      for (std::uint64_t i = 0; i < count; ++i) {
        const bool inserts = only_inserts || random.one_in(2);
        batch.push_back({.operation = inserts ? Operation::kInsert : Operation::kUpsert,
                         .key = random.next(),
                         .value = random.next()});
        model[batch.back().key] = batch.back().value;
      }
      ASSERT_TRUE(run_batch(*backend, table, &batch).ok());
      for (const Request& request : batch) ASSERT_EQ(request.code, Code::kAbsent);
    }
    expect_is(*backend, table, model);
    if (::testing::Test::HasFatalFailure()) return;
    std::vector<Request> finds;
    for (const auto& [key, value] : model) finds.push_back({.key = key});
    for (std::uint64_t i = 0; i < slots; ++i) finds.push_back({.key = random.next()});
    ASSERT_TRUE(run_batch(*backend, table, &finds).ok());
    for (const Request& find : finds) {
      const auto expected = model.find(find.key);
      ASSERT_EQ(find.code, expected == model.end() ? Code::kAbsent : Code::kPresent);
      if (expected == model.end()) continue;
      ASSERT_EQ(find.found, expected->second);
    }
  }
}

// Goal: one batch may fill a table to that, so that thousands are on their ways at once.
// Method: a table of some 32,000 slots.
// Mutation: ways of one move at most.
TEST_P(HashConformance, OneBatchFillsATable) {
  for (const std::uint64_t seed : seeds(4)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const auto backend = GetParam().make(seed);
    const std::uint64_t slots = 8 * (4'000 + random.below(400));
    auto made = backend->make_table({.slots_min = slots,
                                     .key_bytes = seed % 2 == 0 ? 8U : some_long_key_bytes(random),
                                     .rows = slots,
                                     .secret = random_secret(random)});
    ASSERT_TRUE(made.ok());
    Model model;
    std::vector<Request> batch;
    for (std::uint64_t i = 0; i < slots * 97 / 100; ++i) {
      batch.push_back(
          {.operation = Operation::kInsert, .key = random.next(), .value = random.next()});
      model[batch.back().key] = batch.back().value;
    }
    ASSERT_TRUE(run_batch(*backend, *made.value(), &batch).ok());
    for (const Request& request : batch) ASSERT_EQ(request.code, Code::kAbsent);
    expect_is(*backend, *made.value(), model);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

// Goal: misses stay short in a table that has grown: only buckets that are full turn keys away.
// Method: one batch that is many times as large as the table; of keys that only come a bucket that
// was full is so for good.
// Mutation: keys that find no room before a growth look for ways, behind it, in an empty table.
TEST_P(HashConformance, OneBatchGrowsATable) {
  for (const std::uint64_t seed : seeds(4)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const auto backend = GetParam().make(seed);
    auto made = backend->make_table(
        {.slots_min = 64, .slots_max = 1 << 20, .secret = random_secret(random)});
    ASSERT_TRUE(made.ok());
    Model model;
    std::vector<Request> batch;
    for (int i = 0; i < 10'000; ++i) {
      batch.push_back(
          {.operation = Operation::kInsert, .key = random.next(), .value = random.next()});
      model[batch.back().key] = batch.back().value;
    }
    ASSERT_TRUE(run_batch(*backend, *made.value(), &batch).ok());
    expect_is(*backend, *made.value(), model);
    if (::testing::Test::HasFatalFailure()) return;
    TableImage image;
    ASSERT_TRUE(backend->read(*made.value(), &image).ok());
    for (std::uint64_t bucket = 0; bucket < image.tables.table.bucket_count; ++bucket) {
      if ((image.maps[bucket / 32] >> bucket % 32 & 1U) == 0) continue;
      for (std::uint64_t p = 0; p < kBucketPairs; ++p) {
        ASSERT_GE(image.pairs[bucket * kBucketPairs + p].first, kFirstWord) << "bucket " << bucket;
      }
    }
  }
}

// Goal: keys that come and go do not let a table grow.
// Method: as many as fill most of it, all deleted before others come.
// Mutation: growth by what found no room before slots of deleted keys were swept.
TEST_P(HashConformance, DeletedKeysLetNoTableGrow) {
  for (const std::uint64_t seed : seeds(2)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const auto backend = GetParam().make(seed);
    auto made = backend->make_table(
        {.slots_min = 1024, .slots_max = 1 << 20, .secret = random_secret(random)});
    ASSERT_TRUE(made.ok());
    for (int turn = 0; turn < 4; ++turn) {
      std::vector<Request> batch;
      for (int i = 0; i < 800; ++i) {
        batch.push_back({.operation = Operation::kInsert, .key = random.next(), .value = 1});
      }
      ASSERT_TRUE(run_batch(*backend, *made.value(), &batch).ok());
      for (Request& request : batch) {
        ASSERT_EQ(request.code, Code::kAbsent);
        request.operation = Operation::kDelete;
      }
      ASSERT_TRUE(run_batch(*backend, *made.value(), &batch).ok());
    }
    EXPECT_EQ(made.value()->growths(), 0U);
  }
}

// Goal: a table grows while it is used, and no key is lost or there twice.
// Method: from 16 slots to a thousand, or from 70,000 on, in batches that insert, change and delete
// and move a few buckets each; what is there is read out of both tables, and found, after each.
// Mutation: changes that do not look into the old table; buckets that are looked at there after
// they were moved; a map of full buckets that is not looked at there.
TEST_P(HashConformance, GrowsWhileItIsUsed) {
  for (const std::uint64_t seed : seeds(30)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const auto backend = GetParam().make(seed);
    const bool is_large = random.one_in(4);
    const std::uint64_t slots = is_large ? 70'000 : 16;
    auto made = backend->make_table({.slots_min = slots,
                                     .slots_max = 8 * 70'000,
                                     .moved_min = is_large ? 4096U : 1U,
                                     .key_bytes = some_key_bytes(random),
                                     .value_bytes = some_value_bytes(random),
                                     .rows = 200'000,
                                     .secret = random_secret(random),
                                     .hash_mask = some_hash_mask(is_large ? 16 : 9, random)});
    ASSERT_TRUE(made.ok());
    Table& table = *made.value();
    Model model;
    std::vector<std::uint64_t> keys;
    for (int turn = 0; turn < (is_large ? 8 : 60); ++turn) {
      std::vector<Request> batch;
      const std::uint64_t count = !is_large ? 1 + random.below(40) : turn == 0 ? 66'000 : 3'000;
      for (std::uint64_t i = 0; i < count; ++i) {
        Request request{.operation = Operation::kInsert,
                        .key = random_key(table.options(), random),
                        .value = random.next()};
        if (!keys.empty() && random.one_in(4)) {
          request.key = keys[random.below(keys.size())];
          request.operation = random.one_in(2) ? Operation::kUpdate : Operation::kDelete;
        }
        batch.push_back(request);
      }
      // Each key once, so that the model knows what comes of it.
      std::sort(batch.begin(), batch.end(),
                [](const Request& a, const Request& b) { return a.key < b.key; });
      batch.erase(std::unique(batch.begin(), batch.end(),
                              [](const Request& a, const Request& b) { return a.key == b.key; }),
                  batch.end());
      ASSERT_TRUE(run_batch(*backend, table, &batch).ok());
      for (const Request& request : batch) {
        const auto at = model.find(request.key);
        Content content = at == model.end() ? Content{} : Content{true, at->second};
        ASSERT_NE(request.code, Code::kNoRoom);
        ASSERT_TRUE(applies(request, &content)) << "turn " << turn;
        if (content.is_there) model[request.key] = content.value;
        if (!content.is_there) model.erase(request.key);
        if (request.operation == Operation::kInsert) keys.push_back(request.key);
      }
      expect_is(*backend, table, model);
      if (::testing::Test::HasFatalFailure()) return;
      const auto found = contents(*backend, table, keys);
      for (const auto& [key, content] : found) {
        const auto at = model.find(key);
        ASSERT_EQ(content, (at == model.end() ? Content{} : Content{true, at->second}));
      }
    }
    ASSERT_GE(table.growths(), is_large ? 1U : 4U);
  }
}

// Goal: a table that may not grow further goes on: keys leave it, and others take their places.
// Method: far more keys than its largest size has slots, in one batch; all that found room go, and
// the next batch comes.
// Mutation: an old table that cannot be emptied ends every batch.
TEST_P(HashConformance, GrowsToItsEndAndGoesOn) {
  for (const std::uint64_t seed : seeds(20)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const auto backend = GetParam().make(seed);
    auto made = backend->make_table({.slots_min = 64,
                                     .slots_max = 128 + random.below(200),
                                     .moved_min = 1,
                                     .key_bytes = some_long_key_bytes(random),
                                     .rows = 2'000,
                                     .secret = random_secret(random)});
    ASSERT_TRUE(made.ok());
    Table& table = *made.value();
    for (int turn = 0; turn < 3; ++turn) {
      Model model;
      std::vector<Request> batch;
      for (int i = 0; i < 500; ++i) {
        batch.push_back(
            {.operation = Operation::kInsert, .key = random.next(), .value = random.next()});
      }
      ASSERT_TRUE(run_batch(*backend, table, &batch).ok());
      std::vector<Request> gone;
      for (const Request& request : batch) {
        if (request.code == Code::kNoRoom) continue;
        model[request.key] = request.value;
        gone.push_back({.operation = Operation::kDelete, .key = request.key});
      }
      expect_is(*backend, table, model);
      if (::testing::Test::HasFatalFailure()) return;
      ASSERT_GE(model.size(), 128U * 9 / 10);
      ASSERT_TRUE(run_batch(*backend, table, &gone).ok());
      for (const Request& request : gone) ASSERT_EQ(request.code, Code::kPresent);
      expect_is(*backend, table, {});
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

// Goal: a table that many fill at once grows with all of them.
// Method: threads insert keys of their own into a small table; each is there in the end.
// Mutation: batches that go to the new table without having moved their share of the old one.
TEST_P(HashConformance, ConcurrentInsertionsGrowATable) {
  for (const std::uint64_t seed : seeds(10)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const auto backend = GetParam().make(seed);
    auto made = backend->make_table({.slots_min = 64,
                                     .slots_max = 1 << 20,
                                     .moved_min = 1,
                                     .key_bytes = some_long_key_bytes(random),
                                     .rows = 10'000,
                                     .secret = random_secret(random),
                                     .hash_mask = some_hash_mask(12, random)});
    ASSERT_TRUE(made.ok());
    Table& table = *made.value();
    std::vector<std::vector<Request>> sent(6);
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < sent.size(); ++t) {
      threads.emplace_back([&, t] {
        base::Random own(seed * 100 + t);
        for (int turn = 0; turn < 12; ++turn) {
          std::vector<Request> batch(1 + own.below(80));
          for (Request& request : batch) {
            request = {.operation = Operation::kInsert, .key = own.next(), .value = own.next()};
          }
          EXPECT_TRUE(run_batch(*backend, table, &batch).ok());
          sent[t].insert(sent[t].end(), batch.begin(), batch.end());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    Model model;
    for (const auto& requests : sent) {
      for (const Request& request : requests) {
        ASSERT_EQ(request.code, Code::kAbsent);
        model[request.key] = request.value;
      }
    }
    expect_is(*backend, table, model);
  }
}

// Goal: a table that is full to the brim says so, and loses nothing.
// Method: twice as many keys as slots for tables of a few buckets, where ways lead in circles.
// Mutation: a way that leads over one slot twice makes a key appear twice.
TEST_P(HashConformance, FullTablesLoseNothing) {
  for (const std::uint64_t seed : seeds(300)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const auto backend = GetParam().make(seed);
    const std::uint64_t slots = 16 + random.below(4) * 8;
    auto made = backend->make_table({.slots_min = slots,
                                     .key_bytes = some_long_key_bytes(random),
                                     .rows = 2 * slots,
                                     .secret = random_secret(random)});
    ASSERT_TRUE(made.ok());
    Model model;
    for (int turn = 0; turn < 4; ++turn) {
      std::vector<Request> batch;
      for (std::uint64_t i = 0; i < slots / 2; ++i) {
        batch.push_back(
            {.operation = Operation::kInsert, .key = random.next(), .value = random.next()});
      }
      ASSERT_TRUE(run_batch(*backend, *made.value(), &batch).ok());
      for (const Request& request : batch) {
        if (request.code == Code::kAbsent) model[request.key] = request.value;
      }
      expect_is(*backend, *made.value(), model);
      if (::testing::Test::HasFatalFailure()) return;
    }
    ASSERT_GE(model.size(), slots - 1);
  }
}

// Goal: slots of deleted keys come back: a table that is never more than half full refuses nothing.
// Method: keys come and go until twenty times as many as slots were there; together, or in batches
// of their own.
// Mutation: no sweep, a map of deleted slots that is not kept, or deletions of which a table does
// not know.
TEST_P(HashConformance, ComingAndGoingIsNeverRefused) {
  for (const std::uint64_t seed : seeds(20)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const auto backend = GetParam().make(seed);
    const std::uint64_t slots = 8 * (2 + random.below(30));
    auto made = backend->make_table({.slots_min = slots,
                                     .key_bytes = some_long_key_bytes(random),
                                     .value_bytes = some_value_bytes(random),
                                     .rows = 2 * slots,
                                     .secret = random_secret(random),
                                     .hash_mask = some_hash_mask(6, random)});
    ASSERT_TRUE(made.ok());
    Model model;
    const bool are_together = random.one_in(2);
    const bool are_dropped = !made.value()->options().has_rows() && random.one_in(2);
    std::vector<Request> gone;
    for (int turn = 0; turn < 80; ++turn) {
      std::vector<Request> batch = std::move(gone);
      gone.clear();
      const auto run = [&] {
        ASSERT_TRUE(run_batch(*backend, *made.value(), &batch).ok());
        for (const Request& request : batch) {
          const bool comes = request.operation == Operation::kUpsert;
          ASSERT_EQ(request.code, comes ? Code::kAbsent : Code::kPresent) << "turn " << turn;
          if (comes) {
            model[request.key] = request.value;
          } else {
            model.erase(request.key);
          }
        }
        expect_is(*backend, *made.value(), model);
        batch.clear();
      };
      if (!are_together) run();
      if (::testing::Test::HasFatalFailure()) return;
      for (std::uint64_t i = 0; i < slots / 4; ++i) {
        batch.push_back(
            {.operation = Operation::kUpsert, .key = random.next(), .value = random.next()});
        gone.push_back(batch.back());
        gone.back().operation = are_dropped ? Operation::kDrop : Operation::kDelete;
      }
      run();
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

// Goal: no value is lost, torn or given twice where many requests meet on few keys at once.
// Method: four threads send large batches on a hundred keys of a table that grows; a ledger of what
// was written and what was found comes out even with what is there.
// Mutation: an exchange of the value alone; words of a pair that are read in the wrong order.
TEST_P(HashConformance, ConcurrentRequestsOnFewKeysComeOutEven) {
  for (const std::uint64_t seed : seeds(4)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const auto backend = GetParam().make(seed);
    const bool keys_in_rows = seed / 2 % 2 == 1;
    auto made = backend->make_table({.slots_min = 64,
                                     .slots_max = 1024,
                                     .moved_min = 1,
                                     .key_bytes = keys_in_rows ? 33U : 8U,
                                     .value_bytes = seed % 2 == 0 ? 8U : 16U,
                                     .rows = 81'000,
                                     .tries_max = 1,
                                     .combined_min = 1,
                                     .secret = random_secret(random),
                                     .hash_mask = some_hash_mask(5, random)});
    ASSERT_TRUE(made.ok());
    Table& table = *made.value();
    const auto keys = some_keys(table, 100, random);
    std::vector<std::vector<Request>> batches(4);
    for (auto& batch : batches) {
      for (int i = 0; i < 20'000; ++i) batch.push_back(random_request(keys, random));
    }
    std::vector<std::thread> threads;
    for (auto& batch : batches) {
      threads.emplace_back([&] { EXPECT_TRUE(run_batch(*backend, table, &batch).ok()); });
    }
    for (std::thread& thread : threads) thread.join();
    Ledger ledger;
    for (const auto& batch : batches) {
      for (const Request& request : batch) {
        ASSERT_NE(request.code, Code::kNoRoom);
        ledger.note(request);
      }
    }
    expect_even(*backend, table, keys, &ledger);
  }
}

// Goal: a row is not written again while somebody may still read it.
// Method: threads find and change few keys of large values in many small batches, with hardly more
// rows than they take at once; rows are looked at, and the ledger comes out even.
// Mutation: rows that are taken again as soon as they were given back.
TEST_P(HashConformance, ConcurrentBatchesTakeRowsAgain) {
  constexpr std::uint64_t kRequests = 200;
  for (const std::uint64_t seed : seeds(8)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const auto backend = GetParam().make(seed);
    auto made = backend->make_table({.slots_min = 256,
                                     .key_bytes = some_key_bytes(random),
                                     .value_bytes = seed % 2 == 0 ? 2048U : 40U,
                                     .rows = 2 * kRequests + 40,
                                     .secret = random_secret(random),
                                     .hash_mask = some_hash_mask(3, random)});
    ASSERT_TRUE(made.ok());
    Table& table = *made.value();
    const auto keys = some_keys(table, 20, random);
    std::vector<std::vector<Request>> sent(3);
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < sent.size(); ++t) {
      threads.emplace_back([&, t] {
        base::Random own(seed * 10 + t);
        for (int turn = 0; turn < 40; ++turn) {
          std::vector<Request> batch;
          while (batch.size() < kRequests) batch.push_back(random_request(keys, own));
          Status status;
          do {  // nothing was done where there were no rows
            status = run_batch(*backend, table, &batch);
          } while (status.IsMemoryLimit());
          EXPECT_TRUE(status.ok()) << status.ToString();
          sent[t].insert(sent[t].end(), batch.begin(), batch.end());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    Ledger ledger;
    for (const auto& requests : sent) {
      for (const Request& request : requests) ledger.note(request);
    }
    expect_even(*backend, table, keys, &ledger);
  }
}

// Goal: columns may be missing, and a batch empty; what was found of an absent key is 0.
// Method: requests without values, without operations, without room for what is found; none at all.
// Mutation: an insertion that finds no room and reads a value that is not there.
TEST_P(HashConformance, ColumnsMayBeMissing) {
  const auto backend = GetParam().make(1);
  base::Random random(1);
  auto made =
      backend->make_table({.slots_min = 16, .slots_max = 4096, .secret = random_secret(random)});
  ASSERT_TRUE(made.ok());
  Table& table = *made.value();
  std::vector<std::uint64_t> keys(300);
  for (std::uint64_t& key : keys) key = random.next();
  std::vector<Code> codes(keys.size());
  std::vector<std::uint64_t> found(keys.size(), 7);
  ASSERT_TRUE(backend->run(table, {.count = 0}).ok());
  ASSERT_TRUE(backend
                  ->run(table, {.all = Operation::kFind,
                                .key = keys.data(),
                                .found = found.data(),
                                .code = codes.data(),
                                .count = keys.size()})
                  .ok());
  ASSERT_EQ(found, std::vector<std::uint64_t>(keys.size()));
  ASSERT_TRUE(backend
                  ->run(table, {.all = Operation::kInsert,
                                .key = keys.data(),
                                .code = codes.data(),
                                .count = keys.size()})
                  .ok());
  ASSERT_EQ(codes, std::vector<Code>(keys.size(), Code::kAbsent));
  Model model;
  for (const std::uint64_t key : keys) model[key] = 0;
  expect_is(*backend, table, model);
}

// Goal: keys are told apart though their hashes are equal, in both of their buckets.
// Method: all keys of a table have one hash, so it takes as many as two buckets have slots, and
// twice that while it grows; each is found, changed and deleted for itself, others of the hash are
// not there. For each size and width.
// Mutation: keys that are not compared; a search that ends at the first other key, or does not go
// on to the second bucket behind one.
TEST_P(HashConformance, KeysOfOneHashAreTold) {
  for (const std::uint64_t key_bytes : {4U, 5U, 12U, 16U, 24U, 32U, 33U, 60U, 64U}) {
    for (const int lanes : {1, 4, 8}) {
      SCOPED_TRACE(std::to_string(key_bytes) + " bytes, lanes " + std::to_string(lanes));
      base::Random random(key_bytes);
      const auto backend = GetParam().make(key_bytes);
      const bool may_grow = key_bytes % 8 == 0;
      auto made = backend->make_table({.slots_min = 64,
                                       .slots_max = may_grow ? 256U : 0U,
                                       .moved_min = 1,
                                       .key_bytes = key_bytes,
                                       .value_bytes = key_bytes == 32 ? 128U : 8U,
                                       .rows = 200,
                                       .lanes = lanes,
                                       .secret = random_secret(random),
                                       .hash_mask = 0});
      ASSERT_TRUE(made.ok());
      Table& table = *made.value();
      const auto keys = some_keys(table, 40, random);
      const std::span<const std::uint64_t> all(keys);
      Model model;
      const auto send = [&](Operation operation, std::size_t begin, std::size_t count) {
        return send_each(*backend, table, operation, all.subspan(begin, count), &model);
      };
      EXPECT_EQ(send(Operation::kInsert, 0, 10), 0U);
      EXPECT_EQ(send(Operation::kUpsert, 5, 11), 0U);
      EXPECT_EQ(model.size(), 16U);
      EXPECT_EQ(send(Operation::kUpdate, 8, 16), 0U);
      EXPECT_EQ(send(Operation::kInsert, 12, 8), may_grow ? 0U : 4U);
      EXPECT_EQ(table.growths(), may_grow ? 1U : 0U);
      EXPECT_EQ(send(Operation::kFind, 0, 40), 0U);
      EXPECT_EQ(send(Operation::kDelete, 3, 9), 0U);
      // One that grows has some of them in its old table; how many depends on what was first.
      const std::size_t left_of_new = send(Operation::kInsert, 20, 9);
      const std::size_t left_of_all = send(Operation::kInsert, 0, 6);
      EXPECT_TRUE(may_grow || (left_of_new == 0 && left_of_all == 3));
      for (const auto& [key, content] : contents(*backend, table, keys)) {
        const auto at = model.find(key);
        EXPECT_EQ(content, (at == model.end() ? Content{} : Content{true, at->second}));
      }
      if (HasFailure()) return;
    }
  }
}

// Goal: a key that a batch inserts several times comes in once, also where it shares its hash.
// Method: each of some keys of four hashes thrice in one batch, into a table that is then full.
// Mutation: an insertion that takes an empty slot behind another key of its hash without having
// looked at the rest.
TEST_P(HashConformance, OneOfSeveralInsertionsOfAKeyComesIn) {
  for (const std::uint64_t seed : seeds(200)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const auto backend = GetParam().make(seed);
    auto made = backend->make_table({.slots_min = 64,
                                     .key_bytes = seed % 2 == 0 ? 12U : 64U,
                                     .rows = 400,
                                     .secret = random_secret(random),
                                     .hash_mask = some_hash_mask(2, random)});
    ASSERT_TRUE(made.ok());
    Model model;
    std::vector<Request> batch;
    const auto keys = some_keys(*made.value(), 40, random);
    for (std::size_t i = 0; i < 3 * keys.size(); ++i) {
      batch.push_back(
          {.operation = Operation::kInsert, .key = keys[i % keys.size()], .value = random.next()});
    }
    ASSERT_TRUE(run_batch(*backend, *made.value(), &batch).ok());
    for (const Request& request : batch) {
      if (request.code == Code::kAbsent) {
        ASSERT_TRUE(model.emplace(request.key, request.value).second);
      }
    }
    expect_is(*backend, *made.value(), model);
    if (::testing::Test::HasFatalFailure()) return;
    for (const Request& request : batch) {
      if (request.code != Code::kPresent) continue;
      ASSERT_EQ(model.at(request.key), request.found);
    }
  }
}

// Goal: columns may be missing also where keys lie in rows.
// Method: insertions without values or room for what is found, then finds without room.
// Mutation: a value that is read from nowhere.
TEST_P(HashConformance, ColumnsOfRowsMayBeMissing) {
  const auto backend = GetParam().make(1);
  base::Random random(1);
  auto made = backend->make_table({.slots_min = 16,
                                   .slots_max = 4096,
                                   .key_bytes = 12,
                                   .rows = 1000,
                                   .secret = random_secret(random)});
  ASSERT_TRUE(made.ok());
  Table& table = *made.value();
  const auto keys = some_keys(table, 300, random);
  for (const Operation all : {Operation::kFind, Operation::kInsert, Operation::kFind}) {
    std::vector<Code> codes(keys.size());
    const bool is_there = table.rows_free() < table.options().rows;
    const RequestsRef requests{
        .all = all, .key = keys.data(), .code = codes.data(), .count = keys.size()};
    ASSERT_TRUE(run_columns(*backend, table, requests).ok());
    ASSERT_EQ(codes, std::vector<Code>(keys.size(), is_there ? Code::kPresent : Code::kAbsent));
  }
  Model model;
  for (const std::uint64_t key : keys) model[key] = 0;
  expect_is(*backend, table, model);
}

// Goal: keys that lie in the backend's memory lie at any address.
// Method: finds of keys in columns that begin at each offset of 16 bytes; half are in the table.
// Mutation: loads as wide as a key that is not aligned so.
TEST_P(HashConformance, KeysMayLieAtAnyAddress) {
  for (const std::uint64_t key_bytes : {4U, 16U, 24U, 33U, 64U}) {
    SCOPED_TRACE(std::to_string(key_bytes) + " bytes");
    base::Random random(key_bytes);
    const auto backend = GetParam().make(key_bytes);
    auto made = backend->make_table(
        {.slots_min = 400, .key_bytes = key_bytes, .rows = 1000, .secret = random_secret(random)});
    ASSERT_TRUE(made.ok());
    const auto keys = some_keys(*made.value(), 200, random);
    Model model;
    const std::span<const std::uint64_t> half(keys.data(), keys.size() / 2);
    ASSERT_EQ(send_each(*backend, *made.value(), Operation::kInsert, half, &model), 0U);
    for (std::uint64_t offset = 0; offset < 16; ++offset) {
      const auto found = contents_here(*backend, *made.value(), keys, offset);
      for (const auto& [key, content] : found) {
        const auto at = model.find(key);
        ASSERT_EQ(content, (at == model.end() ? Content{} : Content{true, at->second})) << offset;
      }
    }
  }
}

// Goal: a table says which sizes and operations it does not have.
// Method: sizes beside the smallest and the largest; operations on values in slots.
// Mutation: keys of no bytes.
TEST_P(HashConformance, SizesHaveLimits) {
  const auto backend = GetParam().make(1);
  base::Random random(1);
  const auto made = [&](std::uint64_t key_bytes, std::uint64_t value_bytes) {
    return backend
        ->make_table({.slots_min = 16,
                      .key_bytes = key_bytes,
                      .value_bytes = value_bytes,
                      .rows = 16,
                      .secret = random_secret(random)})
        .status();
  };
  for (const std::uint64_t bytes : {0U, 3U, 65U, 128U}) {
    EXPECT_TRUE(made(bytes, 8).IsInvalidArgument());
  }
  for (const std::uint64_t bytes : {0U, 4U, 4104U}) {
    EXPECT_TRUE(made(32, bytes).IsInvalidArgument());
  }
  for (const std::uint64_t bytes : {4U, 64U}) EXPECT_TRUE(made(bytes, 4096).ok());
  auto table = backend->make_table(
      {.slots_min = 16, .key_bytes = 32, .rows = 16, .secret = random_secret(random)});
  ASSERT_TRUE(table.ok());
  const std::uint64_t key = 7;
  Code code = Code::kAbsent;
  for (const Operation all : {Operation::kRaise, Operation::kDrop}) {
    const RequestsRef requests{.all = all, .key = &key, .code = &code, .count = 1};
    EXPECT_TRUE(run_columns(*backend, *table.value(), requests).IsInvalidArgument());
  }
}

// Goal: batches that several threads send at once are as one.
// Method: as the first test, with the requests of a turn in the batches of four threads.
// Mutation: sections that others do not wait for (a lock that is not taken) lose keys.
TEST_P(HashConformance, BatchesOfSeveralThreads) {
  for (const std::uint64_t seed : seeds(100)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const auto backend = GetParam().make(seed);
    auto made = backend->make_table({.slots_min = random.one_in(2) ? 64U : 16U,
                                     .slots_max = 256,
                                     .moved_min = 1,
                                     .key_bytes = some_key_bytes(random),
                                     .value_bytes = some_value_bytes(random),
                                     .rows = 400,
                                     .secret = random_secret(random),
                                     .hash_mask = some_hash_mask(4, random)});
    ASSERT_TRUE(made.ok());
    Table& table = *made.value();
    const auto keys = some_keys(table, 60, random);
    auto before = contents(*backend, table, keys);
    for (int turn = 0; turn < 4; ++turn) {
      std::map<std::uint64_t, int> count_of;
      std::vector<std::vector<Request>> batches(4);
      for (int i = 0; i < 160; ++i) {
        const Request request = random_request(keys, random);
        if (++count_of[request.key] <= 5) batches[random.below(4)].push_back(request);
      }
      std::vector<std::thread> threads;
      for (auto& batch : batches) {
        threads.emplace_back([&] { EXPECT_TRUE(run_batch(*backend, table, &batch).ok()); });
      }
      for (std::thread& thread : threads) thread.join();
      const auto after = contents(*backend, table, keys);
      std::map<std::uint64_t, std::vector<Request>> of_key;
      for (const auto& batch : batches) {
        for (const Request& request : batch) {
          if (request.code != Code::kNoRoom) of_key[request.key].push_back(request);
        }
      }
      for (const auto& [key, requests] : of_key) {
        ASSERT_TRUE(is_explained(requests, before[key], after.at(key))) << "turn " << turn;
      }
      before = after;
    }
  }
}

}  // namespace breccia::hash::conformance
