#pragma once

#include <atomic>
#include <thread>

#include "conformance/slab_model.h"

/// What a table of slabs owes its users on every executor.

namespace breccia::slab::conformance {

class SlabConformance : public ::testing::TestWithParam<Executor> {
 protected:
  [[nodiscard]] std::vector<std::uint64_t> seeds(std::uint64_t count) const {
    return testing::seeds_to_run(std::max<std::uint64_t>(1, count * GetParam().share / 100));
  }
  static int some_lanes(base::Random& random) { return 4 << random.below(3); }
};

// Goal: requests on one key that run at once take effect one after the other, none is lost or half
//   done, and no key is there twice.
// Method: batches on some 50 keys in one bucket, so that its chain has several slabs that fill and
//   empty, at times in one of few slabs, or of heads that change places before each batch; for each
//   key some order must explain all answers and what is there afterwards.
// Mutation: a lookup that does not look at the version again; a value stored behind its key without
//   the lock; a deletion that gives its place free before the value was read; a note that says
//   where a head was before.
TEST_P(SlabConformance, SomeOrderExplainsEachKey) {
  for (const std::uint64_t seed : seeds(5'000)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const auto backend = GetParam().make(seed);
    const bool is_small = random.one_in(2);
    const bool has_host = random.one_in(2);
    auto made = backend->make_table({.bytes_max = is_small ? 16 * sizeof(Slab) : ~std::uint64_t{0},
                                     .host_bytes_max = has_host ? ~std::uint64_t{0} : 0,
                                     .lanes = some_lanes(random),
                                     .tries_max = 1 + static_cast<int>(random.below(3)),
                                     .combined_min = std::uint64_t{1} << 2 * random.below(4),
                                     .keys_of_bucket = random.one_in(2) ? 1000U : 5U,
                                     .requests_of_head = 1,
                                     .secret = random_secret(random)});
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    Table& table = *made.value();
    const auto keys = some_keys(10 + random.below(90), random);
    Model before;
    for (int turn = 0; turn < 4; ++turn) {
      std::map<std::uint64_t, std::vector<Request>> of_key;
      std::vector<Request> batch;
      for (std::size_t i = 0; i < keys.size() * 2; ++i) {
        // Few keys have many requests.
        const std::uint64_t key = keys[random.below(random.one_in(2) ? 6 : keys.size())];
        auto& others = of_key[key];
        if (others.size() == 6) continue;
        // Every other turn empties the chain.
        constexpr Operation kOften[] = {Operation::kUpsert, Operation::kDelete};
        constexpr Operation kAlways[] = {Operation::kFind,   Operation::kFind,  Operation::kFind,
                                         Operation::kInsert, Operation::kRaise, Operation::kUpdate,
                                         Operation::kUpsert, Operation::kDrop,  Operation::kDelete};
        others.emplace_back();
        batch.push_back({.operation = random.one_in(3) ? kOften[turn % 2]
                                                       : kAlways[random.below(std::size(kAlways))],
                         .key = key,
                         .value = random.below(8)});
      }
      ASSERT_TRUE(run_batch(*backend, table, &batch).ok());
      const Model after = contents(*backend, table);
      for (auto& [key, requests] : of_key) requests.clear();
      for (const Request& request : batch) {
        if (request.code == Code::kNoRoom) {
          ASSERT_TRUE(is_small && hash::inserts(request.operation));
        } else {
          of_key[request.key].push_back(request);
        }
      }
      const auto content_of = [](const Model& model, std::uint64_t key) {
        const auto at = model.find(key);
        return at == model.end() ? Content() : Content(at->second);
      };
      for (auto& [key, requests] : of_key) {
        ASSERT_TRUE(is_explained(requests, content_of(before, key), content_of(after, key)))
            << "turn " << turn << ", key " << key;
      }
      for (const auto& [key, value] : after) {
        ASSERT_TRUE(of_key.contains(key) || before.contains(key));
      }
      before = after;
    }
  }
}

// Goal: a table that grows, and shrinks its chains, is a map all the while.
// Method: batches of distinct keys beside a map; half of the turns delete more than they put.
// Mutation: a split by another bit; a chain cut one slab too early; slabs that come back with
//   something in them.
TEST_P(SlabConformance, IsAMapWhileItGrows) {
  for (const std::uint64_t seed : seeds(100)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const auto backend = GetParam().make(seed);
    auto made = backend->make_table({.keys_expected = random.below(100),
                                     .lanes = some_lanes(random),
                                     .keys_of_bucket = 1 + random.below(60),
                                     .secret = random_secret(random)});
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    Table& table = *made.value();
    const auto keys = some_keys(2000, random);
    Model model;
    for (int turn = 0; turn < 12; ++turn) {
      std::vector<Request> batch;
      const std::uint64_t end = random.below(keys.size()) + 1;
      for (std::size_t i = random.below(end); i < end; ++i) {
        const bool deletes = random.below(4) < (turn % 4 == 3 ? 3U : 1U);
        batch.push_back({.operation = random.one_in(4) ? Operation::kFind
                                      : deletes        ? Operation::kDelete
                                                       : Operation::kUpsert,
                         .key = keys[i],
                         .value = random.next()});
      }
      ASSERT_TRUE(run_batch(*backend, table, &batch).ok());
      for (const Request& request : batch) {
        const auto at = model.find(request.key);
        const bool is_there = at != model.end();
        ASSERT_EQ(request.code, is_there ? Code::kPresent : Code::kAbsent);
        ASSERT_EQ(request.found, is_there ? at->second : 0);
        if (request.operation == Operation::kUpsert) model[request.key] = request.value;
        if (request.operation == Operation::kDelete) model.erase(request.key);
      }
      ASSERT_EQ(contents(*backend, table), model);
    }
    EXPECT_GT(table.figures().buckets, 1U);
  }
}

// Goal: where there is no memory for more, puts of new keys say so, and all else goes on; what is
//   deleted makes room.
// Method: a table of some kilobytes is filled until it says that, emptied, and filled again.
// Mutation: a put without room that leaves its lock; places that stay lost.
TEST_P(SlabConformance, SaysWhereThereIsNoRoom) {
  for (const std::uint64_t seed : seeds(100)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const auto backend = GetParam().make(seed);
    const std::uint64_t slabs = 20 + random.below(60);
    auto made = backend->make_table({.bytes_max = slabs * sizeof(Slab),
                                     .host_bytes_max = 0,
                                     .lanes = some_lanes(random),
                                     .keys_of_bucket = random.one_in(2) ? 10U : 100U,
                                     .secret = random_secret(random)});
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    Table& table = *made.value();
    std::uint64_t room[2] = {};
    for (std::uint64_t& keys : room) {
      Model model;
      bool was_full = false;
      while (!was_full) {
        std::vector<Request> batch;
        for (int i = 0; i < 100; ++i) {
          batch.push_back(
              {.operation = Operation::kUpsert, .key = random.next(), .value = random.next()});
        }
        ASSERT_TRUE(run_batch(*backend, table, &batch).ok());
        for (const Request& request : batch) {
          was_full = was_full || request.code == Code::kNoRoom;
          if (request.code == Code::kAbsent) model[request.key] = request.value;
        }
        ASSERT_LE(table.figures().bytes, slabs * sizeof(Slab));
      }
      ASSERT_EQ(contents(*backend, table), model);
      std::vector<Request> batch;
      for (const auto& [key, value] : model) {
        batch.push_back({.operation = Operation::kUpsert, .key = key, .value = value + 1});
      }
      ASSERT_TRUE(run_batch(*backend, table, &batch).ok());
      for (Request& request : batch) {
        ASSERT_EQ(request.code, Code::kPresent);
        ASSERT_EQ(request.found, model.at(request.key));
        request.operation = Operation::kDelete;
      }
      keys = model.size();
      ASSERT_TRUE(run_batch(*backend, table, &batch).ok());
      ASSERT_TRUE(contents(*backend, table).empty());
    }
    EXPECT_GT(room[0], slabs * kSlabKeys / 8);
    EXPECT_GE(room[1], room[0] / 2);
  }
}

// Goal: what does not fit into the backend's memory lies in the host's, and is found there.
// Method: a table whose own budget is a few slabs.
// Mutation: a segment that is counted in one budget and lies in the other.
TEST_P(SlabConformance, GoesOnInMemoryOfTheHost) {
  for (const std::uint64_t seed : seeds(20)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const auto backend = GetParam().make(seed);
    auto made = backend->make_table({.bytes_max = 24 * sizeof(Slab),
                                     .lanes = some_lanes(random),
                                     .secret = random_secret(random)});
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    Table& table = *made.value();
    Model model;
    bool was_full = false;  // the simulator says at times that it does not reach the host's memory
    for (int turn = 0; turn < 4; ++turn) {
      std::vector<Request> batch;
      for (int i = 0; i < 800; ++i) {
        batch.push_back(
            {.operation = Operation::kUpsert, .key = random.next(), .value = random.next()});
      }
      ASSERT_TRUE(run_batch(*backend, table, &batch).ok());
      for (const Request& request : batch) {
        was_full = was_full || request.code == Code::kNoRoom;
        if (request.code == Code::kAbsent) model[request.key] = request.value;
      }
    }
    ASSERT_EQ(contents(*backend, table), model);
    EXPECT_LE(table.figures().bytes, 24 * sizeof(Slab));
    EXPECT_TRUE(was_full || table.figures().host_bytes > 0);
  }
}

// Goal: heads that come up because they are hot, and go down again, have all their keys, wherever
//   they are.
// Method: a table of which a part lies in the host's memory and some slabs are for hot heads; a few
//   keys at a time are asked for often, others put and deleted beside them, so that it grows
//   meanwhile.
// Mutation: a head that goes down and leaves a key behind; a note of the other head of a pair; a
//   split that takes a head for where it was; notes that are cleared when there are more heads.
TEST_P(SlabConformance, HotHeadsComeUp) {
  std::uint64_t risen = 0;
  for (const std::uint64_t seed : seeds(200)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const auto backend = GetParam().make(seed);
    const std::uint64_t bytes_max = (12 + random.below(100)) * sizeof(Slab);
    auto made = backend->make_table({.keys_expected = random.one_in(2) ? 0 : random.below(500),
                                     .bytes_max = bytes_max,
                                     .lanes = some_lanes(random),
                                     .keys_of_bucket = 1 + random.below(40),
                                     .requests_of_head = 1 + random.below(8),
                                     .secret = random_secret(random)});
    if (made.status().IsMemoryLimit()) continue;  // the simulator's host has none, at times
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    Table& table = *made.value();
    const auto keys = some_keys(2000, random);
    Model model;
    for (int turn = 0; turn < 16; ++turn) {
      std::map<std::uint64_t, Request> changes;
      const std::uint64_t end = std::min<std::uint64_t>(keys.size(), (turn + 1) * 250);
      for (int i = 0; i < 200; ++i) {
        const std::uint64_t key = keys[random.below(end)];
        const Operation what = random.one_in(4) ? Operation::kDelete : Operation::kUpsert;
        changes[key] = {.operation = what, .key = key, .value = random.next()};
      }
      std::vector<Request> batch;
      for (const auto& [key, request] : changes) batch.push_back(request);
      ASSERT_TRUE(run_batch(*backend, table, &batch).ok());
      for (const Request& request : batch) {
        if (request.code == Code::kNoRoom) continue;
        ASSERT_EQ(request.code == Code::kPresent, model.contains(request.key));
        if (request.operation == Operation::kDelete) model.erase(request.key);
        if (request.operation == Operation::kUpsert) model[request.key] = request.value;
      }
      const std::uint64_t hot = random.below(end);
      batch.assign(400, {});
      for (Request& find : batch) {
        find.key =
            keys[random.one_in(8) ? random.below(end) : std::min(hot + random.below(5), end - 1)];
      }
      ASSERT_TRUE(run_batch(*backend, table, &batch).ok());
      for (const Request& find : batch) {
        const auto at = model.find(find.key);
        ASSERT_EQ(find.code, at == model.end() ? Code::kAbsent : Code::kPresent);
        ASSERT_EQ(find.found, at == model.end() ? 0 : at->second);
      }
      ASSERT_EQ(contents(*backend, table), model);
      ASSERT_LE(table.figures().bytes, bytes_max);
    }
    risen += table.figures().risen;
  }
  EXPECT_TRUE(risen > 0 || seeds(200).size() == 1);
}

// Goal: batches that run at once, some of which make the table grow, lose nothing, and lookups see
//   what was put before they began.
// Method: threads, each of which puts keys of its own, looks them up, and deletes some; all of them
//   put the same few keys, too.
// Mutation: a section that does not wait for batches.
TEST_P(SlabConformance, ConcurrentBatchesLoseNothing) {
  for (const std::uint64_t seed : seeds(10)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const auto backend = GetParam().make(seed);
    const bool is_small = random.one_in(2);
    auto made = backend->make_table({.bytes_max = is_small ? 64 * sizeof(Slab) : ~std::uint64_t{0},
                                     .lanes = some_lanes(random),
                                     .tries_max = 1,
                                     .combined_min = 1,
                                     .keys_of_bucket = 1 + random.below(20),
                                     .requests_of_head = 1,
                                     .secret = random_secret(random)});
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    Table& table = *made.value();
    constexpr std::uint64_t kThreads = 3;
    std::vector<Model> models(kThreads);
    std::vector<std::thread> threads;
    std::atomic<bool> was_full = false;  // the simulator says so at times
    for (std::uint64_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t, own = base::Random(random.next())]() mutable {
        Model& model = models[t];
        for (int turn = 0; turn < 8; ++turn) {
          std::map<std::uint64_t, Request> of_key;
          for (int i = 0; i < 200; ++i) {
            const std::uint64_t key = (t + 1) << 32 | own.below(600);
            constexpr Operation kSome[] = {Operation::kFind, Operation::kUpsert,
                                           Operation::kDelete};
            of_key[key] = {.operation = kSome[own.below(3)], .key = key, .value = own.next()};
          }
          of_key[turn] = {
              .operation = Operation::kUpsert, .key = static_cast<std::uint64_t>(turn), .value = 7};
          std::vector<Request> batch;
          for (const auto& [key, request] : of_key) batch.push_back(request);
          ASSERT_TRUE(run_batch(*backend, table, &batch).ok());
          for (const Request& request : batch) {
            if (request.code == Code::kNoRoom) was_full = true;
            if (request.key == static_cast<std::uint64_t>(turn)) continue;
            if (request.code == Code::kNoRoom) continue;
            const auto at = model.find(request.key);
            ASSERT_EQ(request.code, at == model.end() ? Code::kAbsent : Code::kPresent);
            ASSERT_EQ(request.found, at == model.end() ? 0 : at->second);
            if (request.operation == Operation::kUpsert) model[request.key] = request.value;
            if (request.operation == Operation::kDelete) model.erase(request.key);
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    Model all;
    for (const Model& model : models) all.insert(model.begin(), model.end());
    const Model found = contents(*backend, table);
    for (std::uint64_t turn = 0; turn < 8; ++turn) {
      if (!was_full || found.contains(turn)) all[turn] = 7;
    }
    EXPECT_TRUE(!was_full || (is_small && GetParam().name == std::string("simulator")));
    ASSERT_EQ(found, all);
  }
}

}  // namespace breccia::slab::conformance
