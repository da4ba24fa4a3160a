#include <gtest/gtest.h>

#include <string>

#include "base/log.h"
#include "base/random.h"
#include "disagg/cluster_map.h"
#include "support/seeds.h"
#include "unit/disagg/histories.h"
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
  kHangs,
  kHangsForEver,
  kCutOffFromCoordinator,
  kCutOffFromCoordinatorForEver,
  kCutOffFromOther,
};
constexpr std::uint64_t kBlows = 6;

/// Waits until both indexes are whole and their servers there, and a memory server, and tells who
/// has them.
ClusterMap wait_until_whole(SimCluster* cluster, Net::Node node) {
  while (true) {
    // Anew each time: what was heard before may be of long ago.
    const auto coordinator = cluster->meet_coordinator(node);
    const Coordinator::View* view = nullptr;
    while (view == nullptr) {
      cluster->net().sleep(300);
      view = coordinator->it.look();
    }
    const auto map = ClusterMap::decode(view->document);
    if (!map.ok() || !map.value().hash.is_whole || !map.value().ordered.is_whole) continue;
    if (map.value().memory.empty()) continue;
    if (!view->members.contains(map.value().hash.member)) continue;
    if (view->members.contains(map.value().ordered.member)) return map.value();
  }
}

/// Strikes the server that has an index.
void strike_one(SimCluster* cluster, const ClusterMap& map, Role role, TimeUs session_us) {
  Net& net = cluster->net();
  const Role other = role == Role::kHash ? Role::kOrdered : Role::kHash;
  const Net::Node victim = cluster->node_of(map.of(role).member);
  const Net::Node of_other = cluster->node_of(map.of(other).member);
  const Net::Node coordinator = cluster->coordinator_node();
  const TimeUs some_time = net.random().below(3 * session_us);
  switch (static_cast<Blow>(net.random().below(kBlows))) {
    case Blow::kKilled:
      cluster->add_seat(role);
      return net.kill(victim);
    case Blow::kHangs:
      net.pause(victim);
      net.sleep(some_time);
      return net.go_on(victim);
    case Blow::kHangsForEver:
      cluster->add_seat(role);
      return net.pause(victim);
    case Blow::kCutOffFromCoordinator:
      net.cut(victim, coordinator);
      net.sleep(some_time);
      return net.heal(victim, coordinator);
    case Blow::kCutOffFromCoordinatorForEver:
      cluster->add_seat(role);
      return net.cut(victim, coordinator);
    case Blow::kCutOffFromOther:
      net.cut(victim, of_other);
      net.sleep(some_time);
      return net.heal(victim, of_other);
  }
}

/// Strikes servers of either index, one at a time, some as soon as both are whole.
void strike(SimCluster* cluster, int times, TimeUs session_us, bool* is_over) {
  Net& net = cluster->net();
  const Net::Node node = net.add_node();
  net.start(node, [cluster, &net, node, times, session_us, is_over] {
    for (int i = 0; i < times; ++i) {
      const ClusterMap map = wait_until_whole(cluster, node);
      if (net.random().one_in(2)) net.sleep(net.random().below(3000));
      const Role role = net.random().one_in(2) ? Role::kHash : Role::kOrdered;
      // Marks wait for it meanwhile; it is a member all the time.
      const Net::Node memory = cluster->node_of(map.memory.front().member);
      const bool hangs = net.random().one_in(3);
      if (hangs) net.pause(memory);
      net.start(net.add_node(), [&net, memory, session_us] {
        net.sleep(session_us / 2);
        net.go_on(memory);
      });
      strike_one(cluster, map, role, session_us);
      net.sleep(2 * session_us);  // by then everybody has noticed
    }
    (void)wait_until_whole(cluster, node);
    *is_over = true;
  });
}

}  // namespace

// Goal: with one server of an index gone at a time, killed, hanging or cut off, each key's history
//   is linearizable, ranges too, nothing that was acknowledged is lost, and all lookups are
//   answered.
// Mutation: a hash server that is listened to by the ordered server behind its successor; lookups
//   and ranges of servers that may have been replaced; an index that counts as whole before all
//   that was written meanwhile is in it; keys that come out of the other index over newer ones.
TEST(DisaggFailover, IsLinearizable) {
  set_log_level(LogLevel::kWarning);
  std::uint64_t ordered = 0, again = 0;
  const auto seeds = breccia::testing::seeds_to_run(400);
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
    SimCluster cluster(seed, weather, {.memory_servers = 2, .session_us = kSession});
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
        ordered += client->counts().ordered;
        again += client->counts().again;
      });
    }
    if (random.one_in(2)) cluster.let_clients_hang(40, 4 * kSession);
    strike(&cluster, 4, kSession, &is_over);
    cluster.run();
    expect_linearizable(history);
    if (HasFailure()) return;
  }
  constexpr std::size_t kMany = 20;
  EXPECT_TRUE(ordered > 0 || seeds.size() < kMany);
  EXPECT_TRUE(again > 0 || seeds.size() < kMany);
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
    while (map.hash.member.empty()) {
      net.sleep(300);
      const Coordinator::View* const view = coordinator->it.look();
      if (view != nullptr) map = ClusterMap::decode(view->document).take();
    }
    net.kill(cluster.node_of(map.hash.member));
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

}  // namespace breccia::disagg
