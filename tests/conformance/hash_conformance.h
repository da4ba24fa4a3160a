#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/random.h"
#include "hash/algo/words.cuh"
#include "hash/backend.h"
#include "support/seeds.h"

/// What a hash table owes its users on every executor.

namespace breccia::hash::conformance {

struct Executor {
  const char* name;
  std::shared_ptr<Backend> (*make)(std::uint64_t seed);
  /// Percent of the seeds of a generated test.
  std::uint64_t share;
};

inline std::shared_ptr<Backend> backend_on(const exec::DevicePtr& device) {
  auto backend = make_backend(device, {.name = "hash"});
  BRECCIA_ASSERT(backend.ok());
  return backend.take();
}
inline std::shared_ptr<Backend> backend_of_kind(exec::DeviceKind kind) {
  auto device = exec::open_device(kind, 0);
  BRECCIA_ASSERT(device.ok());
  return backend_on(device.value());
}

/// One request and what came of it.
struct Request {
  Operation operation = Operation::kFind;
  std::uint64_t key = 0;
  std::uint64_t value = 0;
  Code code = Code::kAbsent;
  std::uint64_t found = 0;
};

inline Status run_batch(Backend& backend, Table& table, std::vector<Request>* batch) {
  const std::size_t n = batch->size();
  std::vector<Operation> operation(n);
  std::vector<std::uint64_t> key(n), value(n), found(n);
  std::vector<Code> code(n);
  for (std::size_t i = 0; i < n; ++i) {
    operation[i] = (*batch)[i].operation;
    key[i] = (*batch)[i].key;
    value[i] = (*batch)[i].value;
  }
  BRECCIA_TRY(backend.run(table, {.operation = operation.data(),
                                  .all = Operation::kFind,
                                  .key = key.data(),
                                  .value = value.data(),
                                  .found = found.data(),
                                  .code = code.data(),
                                  .count = n}));
  for (std::size_t i = 0; i < n; ++i) {
    (*batch)[i].code = code[i];
    (*batch)[i].found = found[i];
  }
  return Status::OK();
}

/// What one key has.
struct Content {
  bool is_there = false;
  std::uint64_t value = 0;  // 0 if it is not
  friend bool operator==(const Content&, const Content&) = default;
};

/// What a request does to a key, and whether it then answers as this one did.
inline bool applies(const Request& request, Content* content) {
  const bool was_there = content->is_there;
  if ((request.code == Code::kPresent) != was_there) return false;
  if (was_there && request.found != content->value) return false;
  const Content written{true, request.value};
  switch (request.operation) {
    case Operation::kFind:
      break;
    case Operation::kInsert:
      if (!was_there) *content = written;
      break;
    case Operation::kUpsert:
      *content = written;
      break;
    case Operation::kUpdate:
      if (was_there) *content = written;
      break;
    case Operation::kDelete:
      *content = {};
      break;
  }
  return true;
}

/// Whether some order of a few requests on one key explains their answers and what is there after.
inline bool is_explained(std::vector<Request> requests, const Content& before,
                         const Content& after) {
  std::vector<std::size_t> order(requests.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  do {
    Content content = before;
    const bool fits = std::all_of(order.begin(), order.end(),
                                  [&](std::size_t i) { return applies(requests[i], &content); });
    if (fits && content == after) return true;
  } while (std::next_permutation(order.begin(), order.end()));
  return false;
}

using Model = std::unordered_map<std::uint64_t, std::uint64_t>;

/// Looks at one part of a table: every key where it may lie, with the model's value. Adds to *keys
/// those that lie in buckets from `begin` on.
inline void expect_part(const TableRef& table, std::size_t slots, std::uint64_t begin,
                        const Model& model, std::size_t* keys) {
  const algo::Unpermute back(table.secret.add, table.secret.factor);
  for (std::size_t slot = begin * kBucketPairs; slot < slots; ++slot) {
    const Pair pair = table.pairs[slot];
    if (pair.first == kEmpty || pair.first == kDeleted) continue;
    const std::uint64_t bucket = slot / kBucketPairs;
    const std::uint64_t key = algo::key_of(table, back, bucket, pair.first);
    const algo::Place place = algo::place_of(table, key);
    ASSERT_EQ(place.word, pair.first);
    ASSERT_TRUE(bucket == place.first || bucket == place.second) << slot;
    if (bucket != place.first) {
      ASSERT_TRUE((table.was_full[place.first / 32] >> place.first % 32 & 1U) != 0) << slot;
    }
    const auto expected = model.find(key);
    ASSERT_TRUE(expected != model.end()) << "key " << key << " in slot " << slot;
    ASSERT_EQ(expected->second, pair.second) << "key " << key;
    ++*keys;
  }
}

/// Every key once, and nothing else.
inline void expect_is(Backend& backend, const Table& table, const Model& model) {
  TableImage image;
  ASSERT_TRUE(backend.read(table, &image).ok());
  std::size_t keys = 0;
  expect_part(image.tables.table, image.pairs.size(), 0, model, &keys);
  if (::testing::Test::HasFatalFailure()) return;
  expect_part(image.tables.old, image.old_pairs.size(), image.tables.moved, model, &keys);
  if (::testing::Test::HasFatalFailure()) return;
  ASSERT_EQ(keys, model.size()) << "a key is lost, or there twice";
}

inline Secret random_secret(base::Random& random) {
  return {.add = random.next(), .factor = random.next() | 1, .second_factor = random.next() | 1};
}

/// Keys that a table has no words for, and ordinary ones.
inline std::vector<std::uint64_t> some_keys(const Table& table, std::size_t count,
                                            base::Random& random) {
  const algo::Unpermute back(table.options().secret.add, table.options().secret.factor);
  std::vector<std::uint64_t> keys;
  for (const std::uint64_t word :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{3}, exec::kBusyWord}) {
    keys.push_back(back(word));
  }
  while (keys.size() < count) keys.push_back(random.next());
  keys.resize(count);
  return keys;
}

class HashConformance : public ::testing::TestWithParam<Executor> {
 protected:
  [[nodiscard]] std::vector<std::uint64_t> seeds(std::uint64_t count) const {
    return testing::seeds_to_run(std::max<std::uint64_t>(1, count * GetParam().share / 100));
  }
};

/// The content of each key now, by a batch that only looks.
inline std::map<std::uint64_t, Content> contents(Backend& backend, Table& table,
                                                 const std::vector<std::uint64_t>& keys) {
  std::vector<std::uint64_t> found(keys.size());
  std::vector<Code> code(keys.size());
  EXPECT_TRUE(backend
                  .run(table, {.all = Operation::kFind,
                               .key = keys.data(),
                               .found = found.data(),
                               .code = code.data(),
                               .count = keys.size()})
                  .ok());
  std::map<std::uint64_t, Content> result;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    result[keys[i]] = code[i] == Code::kPresent ? Content{true, found[i]} : Content{};
  }
  return result;
}

inline Request random_request(const std::vector<std::uint64_t>& keys, base::Random& random) {
  Request request;
  request.operation = static_cast<Operation>(random.below(5));
  request.key = keys[random.below(keys.size())];
  request.value = random.next();
  return request;
}

// Goal: requests on one key that run at once take effect one after the other, none is lost or half
// done, and no key is there twice.
// Method: batches on few keys in a small table, so that buckets are full, slots come and go and
// keys move; for each key some order must explain all answers and what is there afterwards.
// Mutation: an insertion that does not look at the second bucket when the first has a slot again; a
// deletion that empties its slot at once; a mover without locks: each fails within 100 seeds.
TEST_P(HashConformance, SomeOrderExplainsEachKey) {
  for (const std::uint64_t seed : seeds(2'000)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const auto backend = GetParam().make(seed);
    const int lanes[] = {1, 4, 8};
    const std::uint64_t slots = 16 + random.below(5) * 8;
    auto made = backend->make_table(
        {.slots_min = slots, .lanes = lanes[random.below(3)], .secret = random_secret(random)});
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    Table& table = *made.value();
    const auto keys = some_keys(table, slots * 9 / 10, random);
    auto before = contents(*backend, table, keys);
    for (int turn = 0; turn < 6; ++turn) {
      std::map<std::uint64_t, std::vector<Request>> of_key;
      std::vector<Request> batch;
      while (batch.size() < keys.size() * 2) {
        const Request request = random_request(keys, random);
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
    auto made = backend->make_table({.slots_min = slots, .secret = random_secret(random)});
    ASSERT_TRUE(made.ok());
    Table& table = *made.value();
    Model model;
    while (model.size() < slots * 95 / 100) {
      std::vector<Request> batch;
      const std::uint64_t count =
          std::min<std::uint64_t>(1 + random.below(slots / 4), slots * 95 / 100 - model.size());
      for (std::uint64_t i = 0; i < count; ++i) {
        batch.push_back({.operation = random.one_in(2) ? Operation::kInsert : Operation::kUpsert,
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
                                     .secret = random_secret(random)});
    ASSERT_TRUE(made.ok());
    Table& table = *made.value();
    Model model;
    std::vector<std::uint64_t> keys;
    for (int turn = 0; turn < (is_large ? 8 : 60); ++turn) {
      std::vector<Request> batch;
      const std::uint64_t count = !is_large ? 1 + random.below(40) : turn == 0 ? 66'000 : 3'000;
      for (std::uint64_t i = 0; i < count; ++i) {
        Request request{
            .operation = Operation::kInsert, .key = random.next(), .value = random.next()};
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

// Goal: a table that is full to the brim says so, and loses nothing.
// Method: twice as many keys as slots for tables of a few buckets, where ways lead in circles.
// Mutation: a way that leads over one slot twice makes a key appear twice.
TEST_P(HashConformance, FullTablesLoseNothing) {
  for (const std::uint64_t seed : seeds(300)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const auto backend = GetParam().make(seed);
    const std::uint64_t slots = 16 + random.below(4) * 8;
    auto made = backend->make_table({.slots_min = slots, .secret = random_secret(random)});
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
// Method: keys come and go until twenty times as many as slots were there.
// Mutation: no sweep, or a map of deleted slots that is not kept.
TEST_P(HashConformance, ComingAndGoingIsNeverRefused) {
  for (const std::uint64_t seed : seeds(20)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const auto backend = GetParam().make(seed);
    const std::uint64_t slots = 8 * (2 + random.below(30));
    auto made = backend->make_table({.slots_min = slots, .secret = random_secret(random)});
    ASSERT_TRUE(made.ok());
    Model model;
    std::vector<Request> gone;
    for (int turn = 0; turn < 80; ++turn) {
      std::vector<Request> batch = std::move(gone);
      gone.clear();
      for (std::uint64_t i = 0; i < slots / 4; ++i) {
        batch.push_back(
            {.operation = Operation::kUpsert, .key = random.next(), .value = random.next()});
        gone.push_back({.operation = Operation::kDelete, .key = batch.back().key});
      }
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
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

/// Adds what an answer says: each value that was written is what one later request found, or what
/// is there at the end, so for each key written and gone values are the same ones.
struct Ledger {
  std::map<std::uint64_t, std::map<std::uint64_t, int>> open;  // per key: value, written less gone

  void note(const Request& request) {
    const bool is_present = request.code == Code::kPresent;
    const Operation operation = request.operation;
    const bool writes = operation == Operation::kUpsert ||
                        (operation == Operation::kInsert && !is_present) ||
                        (operation == Operation::kUpdate && is_present);
    const bool takes =
        is_present && (operation == Operation::kUpsert || operation == Operation::kUpdate ||
                       operation == Operation::kDelete);
    if (request.code == Code::kNoRoom) return;
    if (writes) ++open[request.key][request.value];
    if (takes) --open[request.key][request.found];
  }
};

// Goal: no value is lost, torn or given twice where many requests meet on few keys at once.
// Method: four threads send large batches on a hundred keys of a table that grows; a ledger of what
// was written and what was found comes out even with what is there.
// Mutation: an exchange of the value alone; words of a pair that are read in the wrong order.
TEST_P(HashConformance, ConcurrentRequestsOnFewKeysComeOutEven) {
  for (const std::uint64_t seed : seeds(2)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const auto backend = GetParam().make(seed);
    auto made = backend->make_table(
        {.slots_min = 64, .slots_max = 1024, .moved_min = 1, .secret = random_secret(random)});
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
    Model model;
    for (const auto& [key, content] : contents(*backend, table, keys)) {
      if (!content.is_there) continue;
      model[key] = content.value;
      --ledger.open[key][content.value];
    }
    for (const auto& [key, values] : ledger.open) {
      for (const auto& [value, count] : values) ASSERT_EQ(count, 0) << key << ", " << value;
    }
    expect_is(*backend, table, model);
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
                                     .secret = random_secret(random)});
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
