#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "disagg/cluster_map.h"
#include "support/seeds.h"
#include "unit/disagg/histories.h"
#include "unit/disagg/looks.h"
#include "unit/disagg/sim_cluster.h"

/// Keys that are divided into shards, and indexes that move from process to process.

namespace breccia::disagg {

namespace {

using namespace testing;
using fabric::TimeUs;
using fabric::sim::Net;
using Pairs = std::vector<std::pair<std::string, std::string>>;

/// A key of each of two shards.
std::array<std::string, 2> a_key_of_each(const ClusterMap& map) {
  std::array<std::string, 2> keys;
  for (int i = 0; keys[0].empty() || keys[1].empty(); ++i) {
    const std::string key = "key" + std::to_string(i);
    keys.at(map.placement().shard_of(key)) = key;
  }
  return keys;
}

/// Lets a server stand still from time to time, for so long at most: what needs it waits meanwhile.
void let_stand_still(Net* net, Net::Node server, TimeUs longest_us, const bool* is_over) {
  net->start(net->add_node(), [net, server, longest_us, is_over] {
    while (!*is_over) {
      net->sleep(net->random().below(2 * longest_us));
      net->pause(server);
      net->sleep(net->random().below(longest_us));
      net->go_on(server);
    }
  });
}

}  // namespace

// Goal: two indexes of one process do not stay there when another one comes; what is written
//   meanwhile is there, and either process may go then.
// Mutation: seats that wait for roles that nobody has; both roles that move.
TEST(DisaggShards, IndexesOfOneProcessPart) {
  set_log_level(LogLevel::kWarning);
  for (const std::uint64_t seed : breccia::testing::seeds_to_run(50)) {
    SCOPED_TRACE(breccia::testing::replay_command(seed));
    SimCluster cluster(seed, fabric::sim::Weather{.slow_one_in = 20},
                       {.memory_servers = 2, .session_us = 10'000, .process = "one"});
    Net& net = cluster.net();
    const Net::Node node = net.add_node();
    bool is_over = false;
    net.start(node, [&] {
      const ClusterMap before = wait_until_whole(&cluster, node);
      EXPECT_EQ(before.shards[0].hash.process, before.shards[0].ordered.process);
      cluster.add_seat(Role::kHash, "other");
      cluster.add_seat(Role::kOrdered, "other");
      ClusterMap now = before;
      while (now.shards[0].ordered.process != "other") now = wait_until_whole(&cluster, node);
      EXPECT_EQ(now.shards[0].hash.member, before.shards[0].hash.member);
      // All of the first one goes; the other one has both then.
      for (const ClusterMap::Index& index : {before.shards[0].hash, before.shards[0].ordered}) {
        net.kill(cluster.node_of(index.member));
      }
      while (now.shards[0].hash.process != "other") now = wait_until_whole(&cluster, node);
      is_over = true;
    });
    cluster.add_client([&](Client* client) {
      std::map<std::string, std::string> model;
      for (int i = 0; !is_over || i < 20; ++i) {
        const std::string key = key_of(static_cast<std::uint64_t>(i) % kKeys);
        Status put = client->put(key, std::to_string(i), cluster.late());
        while (put.IsIOError()) put = client->put(key, std::to_string(i), cluster.late());
        ASSERT_TRUE(put.ok()) << put.ToString();
        model[key] = std::to_string(i);
        net.sleep(500);
      }
      for (const auto& [key, value] : model) {
        std::string found;
        ASSERT_TRUE(client->get(key, &found, cluster.late()).ok());
        ASSERT_EQ(found, value);
      }
    });
    cluster.run();
    if (HasFailure()) return;
  }
}

// Goal: indexes move to processes that come, until all have as many and none has both of a shard,
//   and nobody sees it: histories are linearizable, ranges too, all writes are known to have
//   happened, also those under way at that moment, and a client sees all that it has written.
// Mutation: a role that is taken from who has it without asking; a server that lets go what clients
//   still believe, or have no answer to; one that promises or takes more while it lets go; clients
//   that do not know that an index was given away; servers that move for ever.
TEST(DisaggShards, IndexesMove) {
  set_log_level(LogLevel::kWarning);
  for (const std::uint64_t seed : breccia::testing::seeds_to_run(200)) {
    SCOPED_TRACE(breccia::testing::replay_command(seed));
    const auto shards = static_cast<std::uint32_t>(1 + seed % 3);
    fabric::sim::Weather weather{.slow_one_in = 20};
    if (seed % 2 == 0) weather.lost_one_in = 30;
    constexpr TimeUs kSession = 10'000;
    SimCluster cluster(seed, weather,
                       {.memory_servers = 2,
                        .shards = shards,
                        .session_us = kSession,
                        .grows = seed % 4 == 0,
                        .hold_us = 100 * SimCluster::kHoldUs,
                        .return_us = 20 * kSession,
                        .process = "one"});
    Net& net = cluster.net();
    const Net::Node node = net.add_node();
    bool is_over = false;
    net.start(node, [&] {
      const ClusterMap first = wait_until_whole(&cluster, node);
      let_stand_still(&net, cluster.node_of(memory_of(first)), kSession / 2, &is_over);
      for (const char* const process : {"two", "three"}) {
        for (std::uint32_t i = 0; i < shards; ++i) {
          cluster.add_seat(Role::kHash, process);
          cluster.add_seat(Role::kOrdered, process);
        }
        while (!is_spread(wait_until_whole(&cluster, node), process)) net.sleep(1000);
      }
      // By then it would be seen that they go on.
      const auto shards_then = wait_until_whole(&cluster, node).shards;
      net.sleep(100'000);
      EXPECT_EQ(wait_until_whole(&cluster, node).shards, shards_then);
      is_over = true;
    });
    History history;
    for (std::uint64_t i = 0; i < 2; ++i) {
      cluster.add_client([&, i](Client* client) {
        for (std::uint64_t round = 0; !is_over; ++round) {
          ask_at_random(cluster.clock(), client, 1000 * (10 * seed + i) + round, 4,
                        SimCluster::kLong, &history);
          net.sleep(net.random().below(500));
        }
      });
    }
    cluster.add_client([&](Client* client) {
      for (int i = 0; !is_over; ++i) {
        const std::string key = "own" + std::to_string(i % 3), value = std::to_string(i);
        const Status put = client->put(key, value, cluster.late());
        ASSERT_TRUE(put.ok()) << put.ToString();
        std::string found;
        ASSERT_TRUE(client->get(key, &found, cluster.late()).ok());
        ASSERT_EQ(found, value);
        std::vector<std::pair<std::string, std::string>> range;
        ASSERT_TRUE(client->scan(key, "own9", 1, &range, cluster.late()).ok());
        ASSERT_EQ(range, (std::vector<std::pair<std::string, std::string>>{{key, value}}));
      }
    });
    cluster.run();
    expect_linearizable(history);
    if (HasFailure()) return;
  }
}

// Goal: who was to give its index away keeps it, and goes on, if its heir goes; where the server
//   goes that the heir would build it from, all goes on.
// Mutation: an index that is given, not taken; a heir that is waited for for ever.
TEST(DisaggShards, NothingMovesToWhoCannotHaveIt) {
  set_log_level(LogLevel::kWarning);
  for (const std::uint64_t seed : breccia::testing::seeds_to_run(50)) {
    SCOPED_TRACE(breccia::testing::replay_command(seed));
    constexpr TimeUs kSession = 10'000;
    const bool is_heir = seed % 2 == 0;
    SimCluster cluster(seed, fabric::sim::Weather{.slow_one_in = 20},
                       {.memory_servers = 1, .session_us = kSession, .process = "one"});
    Net& net = cluster.net();
    const Net::Node node = net.add_node();
    bool is_over = false;
    net.start(node, [&] {
      const ClusterMap::Shard before = wait_until_whole(&cluster, node).shards.at(0);
      cluster.add_seat(Role::kOrdered, "two");
      ClusterMap now;
      while (now.shards.empty() || now.shards[0].ordered.heir.member.empty()) {
        now = look_at_once(&cluster, node).map;
      }
      const std::string heir = now.shards[0].ordered.heir.member;
      net.kill(cluster.node_of(is_heir ? heir : before.hash.member));
      if (!is_heir) cluster.add_seat(Role::kHash, "three");
      net.sleep(2 * kSession);
      now = wait_until_whole(&cluster, node);
      const ClusterMap::Index& ordered = now.shards[0].ordered;
      // Nobody may have noticed yet that the source went.
      EXPECT_TRUE(!is_heir || ordered.member == before.ordered.member);
      EXPECT_TRUE(!is_heir || ordered.heir.member.empty());
      is_over = true;
    });
    cluster.add_client([&](Client* client) {
      for (int i = 0; !is_over; ++i) {
        const std::string value = std::to_string(i);
        Status put = client->put("key", value, cluster.late());
        while (!is_heir && put.IsIOError()) put = client->put("key", value, cluster.late());
        ASSERT_TRUE(put.ok()) << put.ToString();
        std::vector<std::pair<std::string, std::string>> range;
        ASSERT_TRUE(client->scan("", "", 1, &range, cluster.late()).ok());
        ASSERT_EQ(range.at(0).second, value);
      }
    });
    cluster.run();
    if (HasFailure()) return;
  }
}

// Goal: a memory server that goes while a hash index is let go does not hold that up for ever.
// Mutation: a hash server that tells the cluster of nothing else while it lets go.
TEST(DisaggShards, MemoryGoesWhileAnIndexMoves) {
  set_log_level(LogLevel::kError);
  for (const std::uint64_t seed : breccia::testing::seeds_to_run(20)) {
    SCOPED_TRACE(breccia::testing::replay_command(seed));
    SimCluster cluster(seed, fabric::sim::Weather{.slow_one_in = 20},
                       {.memory_servers = 2, .shards = 2, .session_us = 10'000, .process = "one"});
    for (int i = 0; i < 2; ++i) cluster.add_seat(Role::kOrdered, "two");
    Net& net = cluster.net();
    const Net::Node node = net.add_node();
    bool is_over = false;
    net.start(node, [&] {
      while (!is_spread(wait_until_whole(&cluster, node), "two")) net.sleep(1000);
      cluster.add_seat(Role::kHash, "three");
      const auto moves = [](const auto& shard) { return !shard.hash.heir.member.empty(); };
      ClusterMap now = wait_until_whole(&cluster, node);
      while (std::none_of(now.shards.begin(), now.shards.end(), moves)) {
        now = look_at_once(&cluster, node).map;
      }
      net.kill(cluster.node_of(now.memory.at(0).member));
      while (!is_spread(now, "three")) now = wait_until_whole(&cluster, node);
      is_over = true;
    });
    for (int i = 0; i < 3; ++i) {
      cluster.add_client([&](Client* client) {
        for (std::uint64_t n = 0; !is_over; ++n) {
          const Status put = client->put(key_of(n % kKeys), "v", cluster.late());
          ASSERT_TRUE(put.ok() || put.IsIOError()) << put.ToString();
        }
      });
    }
    cluster.run();
    if (HasFailure()) return;
  }
}

// Goal: a heir whose index's server goes takes it, as others would.
// Mutation: one that waits for ever for somebody who lets it go.
TEST(DisaggShards, AHeirTakesWhatIsLeftBehind) {
  set_log_level(LogLevel::kError);
  for (const std::uint64_t seed : breccia::testing::seeds_to_run(20)) {
    SCOPED_TRACE(breccia::testing::replay_command(seed));
    SimCluster cluster(seed, fabric::sim::Weather(),
                       {.memory_servers = 1, .session_us = 10'000, .process = "one"});
    Net& net = cluster.net();
    const Net::Node node = net.add_node();
    bool is_over = false;
    net.start(node, [&] {
      (void)wait_until_whole(&cluster, node);
      cluster.add_seat(Role::kOrdered, "two");
      ClusterMap map;
      while (map.shards.empty() || map.shards[0].ordered.heir.member.empty()) {
        map = look_at_once(&cluster, node).map;
      }
      net.kill(cluster.node_of(map.shards[0].ordered.member));
      net.sleep(20'000);
      EXPECT_EQ(wait_until_whole(&cluster, node).shards[0].ordered.process, "two");
      is_over = true;
    });
    // Ranges are told for as long as their server is sure, and it waits for that.
    cluster.add_client([&](Client* client) {
      Pairs range;
      while (!is_over) (void)client->scan("a", "b", 1, &range, net.now_us() + 1000);
    });
    cluster.run();
    if (HasFailure()) return;
  }
}

// Goal: of a batch of two shards, one of which stands still, the other one's part is done, and no
//   block of that is lost; of the first it is not known.
// Mutation: shards that are asked one behind the other.
TEST(DisaggShards, ABatchIsDoneWhereItCanBe) {
  set_log_level(LogLevel::kError);
  for (const std::uint64_t seed : breccia::testing::seeds_to_run(20)) {
    SCOPED_TRACE(breccia::testing::replay_command(seed));
    SimCluster cluster(seed, fabric::sim::Weather(),
                       {.memory_servers = 1, .shards = 2, .session_us = 100'000});
    Net& net = cluster.net();
    const Net::Node node = net.add_node();
    cluster.add_client([&](Client* client) {
      const ClusterMap map = wait_until_whole(&cluster, node);
      const auto keys = a_key_of_each(map);
      for (const std::string& key : keys) ASSERT_TRUE(client->put(key, "0", cluster.late()).ok());
      net.pause(cluster.node_of(map.shards[seed % 2].hash.member));
      std::array<Change, 2> changes = {Change{.key = keys[0], .value = "1"},
                                       Change{.key = keys[1], .value = "1"}};
      const std::uint64_t lost = client->counts().lost;
      EXPECT_TRUE(client->write(changes, net.now_us() + 10'000).IsIOError());
      EXPECT_FALSE(changes.at(seed % 2).is_done);
      EXPECT_TRUE(changes.at(1 - seed % 2).is_done);
      EXPECT_EQ(client->counts().lost, lost + 1);
      std::string value;
      EXPECT_TRUE(client->get(keys.at(1 - seed % 2), &value, cluster.late()).ok());
      EXPECT_EQ(value, "1");
    });
    cluster.run();
    if (HasFailure()) return;
  }
}

// Goal: a client that cannot reach one of two shards' hash servers for longer than blocks are held
//   for it loses nothing that the other one acknowledges.
// Mutation: a block that is written, and asked for behind the answer of another shard: by then it
//   may be nobody's.
TEST(DisaggShards, NothingIsAskedForTooLate) {
  set_log_level(LogLevel::kError);
  for (const std::uint64_t seed : breccia::testing::seeds_to_run(60)) {
    SCOPED_TRACE(breccia::testing::replay_command(seed));
    SimCluster cluster(seed, fabric::sim::Weather(),
                       {.memory_servers = 1, .shards = 2, .session_us = 10'000});
    Net& net = cluster.net();
    const Net::Node node = net.add_node();
    Net::Node self{};
    self = cluster.add_client([&](Client* client) {
      const ClusterMap map = wait_until_whole(&cluster, node);
      const auto keys = a_key_of_each(map);
      for (const std::string& key : keys) ASSERT_TRUE(client->put(key, "0", cluster.late()).ok());
      net.sleep(net.random().below(2 * SimCluster::kHoldUs));
      const Net::Node hash = cluster.node_of(map.shards[0].hash.member);
      net.cut(self, hash);
      net.start(net.add_node(), [&net, self, hash] {
        net.sleep(2 * SimCluster::kHoldUs);
        net.heal(self, hash);
      });
      std::array<Change, 2> changes = {Change{.key = keys[0], .value = {}},
                                       Change{.key = keys[1], .value = "1"}};
      (void)client->write(changes, cluster.late());
      net.sleep(3 * SimCluster::kHoldUs);
      for (int i = 0; i < 60; ++i) {
        (void)client->put("more" + std::to_string(i), "other", cluster.late());
      }
      if (!changes[1].is_done) return;
      std::string value;
      EXPECT_TRUE(client->get(keys[1], &value, cluster.late()).ok());
      EXPECT_EQ(value, "1");
    });
    cluster.run();
    if (HasFailure()) return;
  }
}

// Goal: ranges of more keys than a shard's share, or than a message has room for, are all that
//   there is, in one part or in several.
// Mutation: an answer that is cut where there is one shard; a part that is taken for all.
TEST(DisaggShards, RangesOfManyKeys) {
  for (const std::uint32_t shards : {1U, 2U, 5U}) {
    SCOPED_TRACE(shards);
    SimCluster cluster(
        shards, fabric::sim::Weather(),
        {.memory_servers = 2, .shards = shards, .session_us = 10'000, .grows = true});
    cluster.add_client([&](Client* client) {
      Pairs all;
      for (int i = 100; i < 180; ++i) {
        all.emplace_back("k" + std::to_string(i), std::to_string(i));
        const Status put = client->put(all.back().first, all.back().second, cluster.late());
        ASSERT_TRUE(put.ok()) << put.ToString();
      }
      for (const std::uint32_t limit : {1U, 7U, 40U, 80U, 100U}) {
        Pairs range;
        ASSERT_TRUE(client->scan("k", "l", limit, &range, cluster.late()).ok());
        const auto count = static_cast<std::ptrdiff_t>(std::min<std::size_t>(limit, all.size()));
        ASSERT_EQ(range, Pairs(all.begin(), all.begin() + count));
      }
    });
    cluster.run();
  }
}

}  // namespace breccia::disagg
