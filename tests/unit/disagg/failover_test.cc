#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/random.h"
#include "disagg/cluster_map.h"
#include "support/seeds.h"
#include "unit/disagg/histories.h"
#include "unit/disagg/looks.h"
#include "unit/disagg/sim_cluster.h"

/// Servers that go, or seem to, and others that take their places.

namespace breccia::disagg {

namespace {

using namespace testing;
using fabric::TimeUs;
using fabric::sim::Net;

/// What befalls a server that has a role. What lasts is made good by another seat.
enum class Blow : std::uint8_t {
  kKilled,
  kKilledAtMessage,
  kHangs,
  kHangsForEver,
  kCutOffFromCoordinator,
  kCutOffFromCoordinatorForEver,
  kCutOffFromOther,
  kPartedFromOther,
};
constexpr std::uint64_t kBlows = 8;
/// What a server may send and hear before it is killed: many operations.
constexpr std::uint64_t kEventsMax = 300;

/// Who is struck.
struct Victim {
  Net::Node node;
  Net::Node other;                // that it may be cut off from
  std::function<void()> replace;  // by a server that waits for its role
};

const ClusterMap::Shard& any_shard(SimCluster* cluster, const ClusterMap& map) {
  return map.shards[cluster->net().random().below(map.shards.size())];
}

/// A server that has an index.
Victim index_victim(SimCluster* cluster, const ClusterMap& map) {
  const ClusterMap::Shard& shard = any_shard(cluster, map);
  const Role role = cluster->net().random().one_in(2) ? Role::kHash : Role::kOrdered;
  const Role other = role == Role::kHash ? Role::kOrdered : Role::kHash;
  return {.node = cluster->node_of(shard.of(role).member),
          .other = cluster->node_of(shard.of(other).member),
          .replace = [cluster, role] { cluster->add_seat(role); }};
}

/// One of two that have the same values.
Victim memory_victim(SimCluster* cluster, const ClusterMap& map) {
  const auto one = std::find_if(map.memory.begin(), map.memory.end(),
                                [](const auto& memory) { return memory.mirror.is_whole; });
  BRECCIA_ASSERT(one != map.memory.end());
  std::string member = one->member, other = one->mirror.member;
  if (cluster->net().random().one_in(2)) std::swap(member, other);
  if (cluster->net().random().one_in(3)) other = any_shard(cluster, map).hash.member;
  return {.node = cluster->node_of(member), .other = cluster->node_of(other), .replace = [cluster] {
            cluster->add_memory_server();
          }};
}

/// Lets a server stand still behind a while, for less than a session.
void hold_up(Net* net, Net::Node node, TimeUs session_us) {
  net->start(net->add_node(), [net, node, session_us] {
    net->sleep(net->random().below(2 * session_us));
    net->pause(node);
    net->sleep(net->random().below(session_us / 4));
    net->go_on(node);
  });
}

void strike_one(SimCluster* cluster, const Victim& one, TimeUs session_us) {
  Net& net = cluster->net();
  const Net::Node victim = one.node;
  const Net::Node coordinator = cluster->coordinator_node();
  // A server that stands still for a moment, while others go on, follows older maps for longer.
  if (net.random().one_in(3)) hold_up(&net, one.other, session_us);
  const TimeUs some_time = net.random().below(3 * session_us);
  switch (static_cast<Blow>(net.random().below(kBlows))) {
    case Blow::kKilled:
      one.replace();
      return net.kill(victim);
    case Blow::kKilledAtMessage:
      one.replace();
      net.kill_behind(victim, 1 + net.random().below(kEventsMax));
      while (!net.is_killed(victim)) net.sleep(100);
      return;
    case Blow::kHangs:
      net.pause(victim);
      net.sleep(some_time);
      return net.go_on(victim);
    case Blow::kHangsForEver:
      one.replace();
      return net.pause(victim);
    case Blow::kCutOffFromCoordinator:
      net.cut(victim, coordinator);
      net.sleep(some_time);
      return net.heal(victim, coordinator);
    case Blow::kCutOffFromCoordinatorForEver:
      one.replace();
      return net.cut(victim, coordinator);
    case Blow::kCutOffFromOther:
      net.cut(victim, one.other);
      net.sleep(some_time);
      return net.heal(victim, one.other);
    case Blow::kPartedFromOther:
      return net.part(victim, one.other, 2 * session_us);
  }
}

/// Both servers of indexes at once, or one right behind the other.
void strike_both(SimCluster* cluster, const ClusterMap& map, TimeUs session_us) {
  Net& net = cluster->net();
  const ClusterMap::Shard& shard = any_shard(cluster, map);
  std::vector<Net::Node> both = {cluster->node_of(shard.hash.member),
                                 cluster->node_of(shard.ordered.member)};
  if (net.random().one_in(2)) std::swap(both[0], both[1]);
  const bool is_one_late = net.random().one_in(3);
  const TimeUs some_time = net.random().below(4 * session_us);
  const std::uint64_t how = net.random().below(3);
  for (const Net::Node node : both) {
    if (how == 0) net.kill(node);
    if (how == 1) net.pause(node);
    if (how == 2) net.cut(node, cluster->coordinator_node());
    if (is_one_late) net.sleep(net.random().below(session_us));
  }
  if (how == 0 || net.random().one_in(2)) {
    cluster->add_seat(Role::kHash);
    cluster->add_seat(Role::kOrdered);
  }
  net.sleep(some_time);
  for (const Net::Node node : both) {
    if (how == 1) net.go_on(node);
    if (how == 2) net.heal(node, cluster->coordinator_node());
  }
}

/// Nobody is lost, but members are none any more: the coordinator stands still, so all are, or a
/// memory server does, or is cut off from it.
void stall(SimCluster* cluster, const ClusterMap& map, TimeUs session_us) {
  Net& net = cluster->net();
  const Net::Node coordinator = cluster->coordinator_node();
  const TimeUs some_time = net.random().below(4 * session_us);
  const ClusterMap::Memory& memory = map.memory[net.random().below(map.memory.size())];
  const bool is_mirror = !memory.mirror.member.empty() && net.random().one_in(2);
  const Net::Node one = cluster->node_of(is_mirror ? memory.mirror.member : memory.member);
  switch (net.random().below(3)) {
    case 0:
      net.pause(coordinator);
      net.sleep(some_time);
      return net.go_on(coordinator);
    case 1:
      net.pause(one);
      net.sleep(some_time);
      return net.go_on(one);
    default:
      net.cut(one, coordinator);
      net.sleep(some_time);
      return net.heal(one, coordinator);
  }
}

/// If an index is being made before long, its server is killed. Whether it was.
bool strike_while_built(SimCluster* cluster, Net::Node node) {
  constexpr int kLooksMax = 60;
  for (int looks = 0; looks < kLooksMax; ++looks) {
    const Look seen = look_at_once(cluster, node);
    const auto is_built = [](const auto& shard) { return !shard.hash.is_whole; };
    const auto found = std::find_if(seen.map.shards.begin(), seen.map.shards.end(), is_built);
    if (found == seen.map.shards.end()) continue;
    const ClusterMap::Index& hash = found->hash;
    if (!seen.members.contains(hash.member)) continue;
    cluster->net().sleep(cluster->net().random().below(1000));
    cluster->net().kill(cluster->node_of(hash.member));
    cluster->add_seat(Role::kHash);
    return true;
  }
  return false;
}

/// If a mirror copies before long, strikes it, or a server of an index. Whether one did.
bool strike_while_copying(SimCluster* cluster, Net::Node node, TimeUs session_us) {
  constexpr int kLooksMax = 60;
  for (int looks = 0; looks < kLooksMax; ++looks) {
    const auto seen = look_at(cluster, node);
    if (!seen.has_value()) continue;
    const auto& memory = seen->map.memory;
    const auto copies = std::find_if(memory.begin(), memory.end(), [&](const auto& one) {
      return one.is_in_use && !one.is_lost && seen->members.contains(one.member) &&
             seen->members.contains(one.mirror.member) && !one.mirror.is_whole;
    });
    if (copies == memory.end()) continue;
    Victim one = index_victim(cluster, seen->map);
    if (cluster->net().random().one_in(2)) {
      one = {.node = cluster->node_of(copies->mirror.member),
             .other = cluster->node_of(copies->member),
             .replace = [cluster] { cluster->add_memory_server(); }};
    }
    strike_one(cluster, one, session_us);
    return true;
  }
  return false;
}

/// If an index is about to move before long, strikes who has it, its heir, or the server that this
/// one would build it from. Whether one did.
bool strike_while_moving(SimCluster* cluster, Net::Node node, TimeUs session_us) {
  constexpr int kLooksMax = 100;
  for (int looks = 0; looks < kLooksMax; ++looks) {
    const ClusterMap map = look_at_once(cluster, node).map;
    for (const ClusterMap::Shard& shard : map.shards) {
      for (const Role role : {Role::kHash, Role::kOrdered}) {
        const ClusterMap::Index& index = shard.of(role);
        if (index.heir.member.empty()) continue;
        const ClusterMap::Index& source = role == Role::kHash ? shard.ordered : shard.hash;
        std::vector<Net::Node> nodes = {cluster->node_of(index.member),
                                        cluster->node_of(index.heir.member),
                                        cluster->node_of(source.member)};
        std::swap(nodes[0], nodes[cluster->net().random().below(nodes.size())]);
        strike_one(cluster,
                   {.node = nodes[0],
                    .other = nodes[1 + cluster->net().random().below(2)],
                    .replace =
                        [cluster] {
                          cluster->add_seat(Role::kHash);
                          cluster->add_seat(Role::kOrdered);
                        }},
                   session_us);
        return true;
      }
    }
  }
  return false;
}

/// What clients see while servers are struck.
struct Seen {
  std::size_t seeds = 0;
  std::uint64_t ordered = 0, again = 0;  // as clients count
  std::uint64_t struck_while_copying = 0;
  std::uint64_t struck_while_built = 0;
  std::uint64_t struck_while_moving = 0;
  std::uint64_t moved = 0;  // indexes that were given away when all was whole again
  std::uint64_t came_back = 0;
};

/// Who is struck at a time.
enum class Struck : std::uint8_t { kOne, kBothIndexes, kNobodyForEver };

/// Strikes servers of either index, and of memory that has a mirror, one at a time, some as soon as
/// all is whole.
void strike(SimCluster* cluster, Struck struck, int times, TimeUs session_us, bool* is_over,
            Seen* seen) {
  Net& net = cluster->net();
  const Net::Node node = net.add_node();
  net.start(node, [cluster, &net, node, struck, times, session_us, is_over, seen] {
    for (int i = 0; i < times; ++i) {
      const ClusterMap map = wait_until_whole(cluster, node);
      for (const ClusterMap::Shard& shard : map.shards) {
        seen->moved += shard.hash.given_by.empty() ? 0 : 1;
        seen->moved += shard.ordered.given_by.empty() ? 0 : 1;
      }
      if (net.random().one_in(2)) net.sleep(net.random().below(3000));
      if (struck == Struck::kOne && cluster->processes() > 1 &&
          strike_while_moving(cluster, node, session_us)) {
        ++seen->struck_while_moving;
        net.sleep(2 * session_us);
        continue;
      }
      if (struck == Struck::kBothIndexes && !net.random().one_in(4)) {
        strike_both(cluster, map, session_us);
        if (net.random().one_in(3) && strike_while_built(cluster, node)) ++seen->struck_while_built;
        net.sleep(2 * session_us);
        continue;
      }
      if (struck == Struck::kNobodyForEver) {
        stall(cluster, map, session_us);
        net.sleep(2 * session_us);
        continue;
      }
      const bool is_index = cluster->copies() == 1 || net.random().one_in(3);
      const Victim one = is_index ? index_victim(cluster, map) : memory_victim(cluster, map);
      // Marks wait for it meanwhile; it is a member all the time.
      const Net::Node memory = cluster->node_of(memory_of(map));
      if (is_index && net.random().one_in(3)) {
        net.pause(memory);
        net.start(net.add_node(), [&net, memory, session_us] {
          net.sleep(session_us / 2);
          net.go_on(memory);
        });
      }
      strike_one(cluster, one, session_us);
      if (!is_index && net.random().one_in(2) && strike_while_copying(cluster, node, session_us)) {
        ++seen->struck_while_copying;
      }
      net.sleep(2 * session_us);  // by then everybody has noticed
    }
    (void)wait_until_whole(cluster, node);
    *is_over = true;
  });
}

Seen expect_linearizable_with_strikes(std::uint32_t copies, std::uint64_t seeds_max,
                                      Struck struck = Struck::kOne) {
  set_log_level(LogLevel::kError);
  Seen seen;
  const auto seeds = breccia::testing::seeds_to_run(seeds_max);
  seen.seeds = seeds.size();
  for (const std::uint64_t seed : seeds) {
    SCOPED_TRACE(breccia::testing::replay_command(seed));
    base::Random random(seed);
    fabric::sim::Weather weather{.slow_one_in = 20};
    if (random.one_in(2)) {
      weather.lost_one_in = 30;
      weather.twice_one_in = 20;
      weather.damaged_one_in = 50;
    }
    constexpr TimeUs kSession = 10'000;
    SimCluster cluster(seed, weather,
                       {.memory_servers = 2,
                        .copies = copies,
                        .shards = static_cast<std::uint32_t>(1 + (seed % 5) / 3),
                        .processes = static_cast<std::uint32_t>(seed % 3),
                        .session_us = kSession,
                        .grows = seed % 4 == 0,
                        .return_us = struck == Struck::kNobodyForEver ? 20 * kSession : 0});
    cluster.add_seat(Role::kHash);
    cluster.add_seat(Role::kOrdered);
    History history;
    bool is_over = false;
    for (std::uint64_t i = 0; i < 4; ++i) {
      cluster.add_client([&, i](Client* client) {
        for (std::uint64_t round = 0; !is_over; ++round) {
          ask_at_random(cluster.clock(), client, 1000 * (10 * seed + i) + round, 4,
                        SimCluster::kLong, &history);
          cluster.net().sleep(cluster.net().random().below(4000));
        }
        // The cluster is as good as new.
        const std::string own = "own" + std::to_string(i);
        std::string value;
        Status put = client->put(own, "last", cluster.late());
        // It is not known of a write whose server was replaced meanwhile.
        for (int n = 0; n < 3 && put.IsIOError(); ++n)
          put = client->put(own, "last", cluster.late());
        EXPECT_EQ(put.ToString(), "OK");
        EXPECT_EQ(client->get(own, &value, cluster.late()).ToString(), "OK");
        EXPECT_EQ(value, "last");
        seen.ordered += client->counts().ordered;
        seen.again += client->counts().again;
      });
    }
    if (random.one_in(2)) cluster.let_clients_hang(40, 4 * kSession);
    strike(&cluster, struck, 4, kSession, &is_over, &seen);
    cluster.run();
    expect_linearizable(history);
    seen.came_back += cluster.came_back();
    if (::testing::Test::HasFailure()) return seen;
  }
  return seen;
}

}  // namespace

// Goal: with one server of an index gone at a time, killed, hanging or cut off, each key's history
//   is linearizable, ranges too, nothing that was acknowledged is lost, and all lookups are
//   answered.
// Mutation: a hash server that is listened to by the ordered server behind its successor; lookups
//   and ranges of servers that may have been replaced; an index that counts as whole before all
//   that was written meanwhile is in it; keys that come out of the other index over newer ones.
TEST(DisaggFailover, IsLinearizable) {
  const Seen seen = expect_linearizable_with_strikes(1, 400);
  constexpr std::size_t kMany = 20;
  EXPECT_TRUE(seen.ordered > 0 || seen.seeds < kMany);
  EXPECT_TRUE(seen.again > 0 || seen.seeds < kMany);
  // One run in ten or so sees an index move.
  EXPECT_TRUE(seen.moved > 0 || seen.seeds < 5 * kMany);
  EXPECT_TRUE(seen.struck_while_moving > 0 || seen.seeds < 5 * kMany);
  RecordProperty("moved", static_cast<int>(seen.moved));
  RecordProperty("struck_while_moving", static_cast<int>(seen.struck_while_moving));
}

// Goal: the same with one server of memory gone at a time, where two have each value.
// Mutation: values, or marks, that go to one of the two servers; a mirror that counts as whole
//   before it has copied all; changes that clients of a server that went do not see, and that are
//   not held back. What takes more luck than a thousand seeds have is in mirror_test.cc,
//   memory_server_test.cc and mirrored_writes_test.cc.
TEST(DisaggFailover, MirroredMemoryIsLinearizable) {
  const Seen seen = expect_linearizable_with_strikes(2, 400);
  constexpr std::size_t kMany = 20;
  EXPECT_TRUE(seen.struck_while_copying > 0 || seen.seeds < kMany);
}

// Goal: the same where both indexes are lost at once, and made of what memory servers have, also
//   where that is begun anew; with servers that hang, or are cut off, for longer than a session,
//   and go on.
// Mutation: values that count before a hash server has taken their writes; writes that are logged
//   before memory servers know them; of several values of a key not the last one; those before it
//   that stay; what clients are told by servers that were replaced.
TEST(DisaggFailover, BothIndexesAreLost) {
  const Seen seen = expect_linearizable_with_strikes(1, 150, Struck::kBothIndexes);
  constexpr std::size_t kMany = 20;
  EXPECT_TRUE(seen.struck_while_built > 0 || seen.seeds < kMany);
}

// Goal: the same with memory servers that have mirrors, which are struck in between.
// Mutation: a mirror that does not hear which values count, or forgets it beside a copy.
TEST(DisaggFailover, BothIndexesOfMirroredMemoryAreLost) {
  (void)expect_linearizable_with_strikes(2, 150, Struck::kBothIndexes);
}

// Goal: where all servers are members no more at once, as the coordinator stood still, or a memory
//   server alone is none, what they have is not lost: they are members by other names, and the
//   indexes are made of what memory servers have.
// Mutation: memory servers that begin anew; that come back where another one has their place; that
//   are lost as soon as they are no members.
TEST(DisaggFailover, MemoryServersComeBack) {
  for (const std::uint32_t copies : {1U, 2U}) {
    const Seen seen = expect_linearizable_with_strikes(copies, 75, Struck::kNobodyForEver);
    constexpr std::size_t kMany = 20;
    EXPECT_TRUE(seen.came_back > 0 || seen.seeds < kMany);
  }
}

// Goal: a cluster whose first hash server went before there was a log has another one.
TEST(DisaggFailover, FirstHashServerGoes) {
  set_log_level(LogLevel::kWarning);
  SimCluster cluster(1, fabric::sim::Weather(),
                     {.memory_servers = 1, .session_us = 10'000, .has_ordered_seat = false});
  Net& net = cluster.net();
  const Net::Node node = net.add_node();
  bool is_there = false;
  net.start(node, [&] {
    const auto coordinator = cluster.meet_coordinator(node);
    ClusterMap map;
    while (map.shards.empty() || map.shards[0].hash.member.empty()) {
      net.sleep(300);
      const Coordinator::View* const view = coordinator->it.look();
      if (view != nullptr) map = ClusterMap::decode(view->document).take();
    }
    net.kill(cluster.node_of(map.shards[0].hash.member));
    cluster.add_seat(Role::kHash);
    cluster.add_seat(Role::kOrdered);
    (void)wait_until_whole(&cluster, node);
    is_there = true;
  });
  cluster.add_client([&](Client* client) {
    EXPECT_TRUE(client->put("key", "value", cluster.late()).ok());
    EXPECT_TRUE(is_there);
  });
  cluster.run();
}

// Goal: a hash index that has become larger than those that wait for its place is built by one of
//   them, and grows meanwhile; nothing is lost.
// Mutation: a table that has no room for what is told, and is full; one that is waited for by
//   nobody; a table before that changes are to go to though nobody reads it.
TEST(DisaggFailover, AGrownIndexIsTakenOver) {
  set_log_level(LogLevel::kWarning);
  constexpr int kMany = 150;
  for (const std::uint64_t seed : breccia::testing::seeds_to_run(50)) {
    SCOPED_TRACE(breccia::testing::replay_command(seed));
    SimCluster cluster(seed, fabric::sim::Weather{.slow_one_in = 20},
                       {.memory_servers = 2, .session_us = 10'000, .grows = true});
    cluster.add_seat(Role::kHash);
    Net& net = cluster.net();
    bool is_filled = false, is_over = false;
    const Net::Node node = net.add_node();
    net.start(node, [&] {
      while (!is_filled) net.sleep(300);
      const ClusterMap map = wait_until_whole(&cluster, node);
      const std::string first = map.shards[0].hash.member;
      net.kill(cluster.node_of(first));
      while (wait_until_whole(&cluster, node).shards[0].hash.member == first) net.sleep(300);
      is_over = true;
    });
    cluster.add_client([&](Client* client) {
      const auto write_all = [&](const std::string& value) {
        for (int i = 0; i < kMany; ++i) {
          const std::string key = "key" + std::to_string(i);
          Status put = client->put(key, value, cluster.late());
          while (put.IsIOError()) put = client->put(key, value, cluster.late());
          ASSERT_TRUE(put.ok()) << put.ToString();
          std::string found;
          ASSERT_TRUE(client->get(key, &found, cluster.late()).ok());
          ASSERT_EQ(found, value);
        }
      };
      write_all("one");
      is_filled = true;
      write_all("two");
      while (!is_over) net.sleep(300);
      for (int i = 0; i < kMany; ++i) {
        std::string value;
        const Status found = client->get("key" + std::to_string(i), &value, cluster.late());
        ASSERT_TRUE(found.ok()) << found.ToString();
        ASSERT_EQ(value, "two");
      }
    });
    cluster.run();
    if (HasFailure()) return;
  }
}

}  // namespace breccia::disagg
