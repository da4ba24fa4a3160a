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

/// What befalls a server that has a role.
enum class Blow : std::uint8_t { kKilled, kHangs, kCutOffFromCoordinator, kCutOffFromOther };

/// Waits until both indexes are whole and their servers there, and tells who has them.
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
    if (!view->members.contains(map.value().hash.member)) continue;
    if (view->members.contains(map.value().ordered.member)) return map.value();
  }
}

/// Strikes servers of either index, one at a time, and has another seat each time that one is
/// killed.
void strike(SimCluster* cluster, int times, TimeUs session_us, bool* is_over) {
  Net& net = cluster->net();
  const Net::Node node = net.add_node();
  net.start(node, [cluster, &net, node, times, session_us, is_over] {
    for (int i = 0; i < times; ++i) {
      const ClusterMap map = wait_until_whole(cluster, node);
      net.sleep(net.random().below(3000));
      const Role role = net.random().one_in(2) ? Role::kHash : Role::kOrdered;
      const Role other = role == Role::kHash ? Role::kOrdered : Role::kHash;
      const Net::Node victim = cluster->node_of(map.of(role).member);
      const Net::Node of_other = cluster->node_of(map.of(other).member);
      switch (static_cast<Blow>(net.random().below(4))) {
        case Blow::kKilled:
          cluster->add_seat(role);
          net.kill(victim);
          break;
        case Blow::kHangs:
          net.pause(victim);
          net.sleep(net.random().below(3 * session_us));
          net.go_on(victim);
          break;
        case Blow::kCutOffFromCoordinator:
          net.cut(victim, cluster->coordinator_node());
          net.sleep(net.random().below(3 * session_us));
          net.heal(victim, cluster->coordinator_node());
          break;
        case Blow::kCutOffFromOther:
          net.cut(victim, of_other);
          net.sleep(net.random().below(2 * session_us));
          net.heal(victim, of_other);
          break;
      }
      net.sleep(2 * session_us);  // by then everybody has noticed
    }
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
        ordered += client->counts().ordered;
        again += client->counts().again;
      });
    }
    if (random.one_in(2)) cluster.let_clients_hang(40);
    strike(&cluster, 4, kSession, &is_over);
    cluster.run();
    expect_linearizable(history);
    if (HasFailure()) return;
  }
  constexpr std::size_t kMany = 20;
  EXPECT_TRUE(ordered > 0 || seeds.size() < kMany);
  EXPECT_TRUE(again > 0 || seeds.size() < kMany);
}

}  // namespace breccia::disagg
