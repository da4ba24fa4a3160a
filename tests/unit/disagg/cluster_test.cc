#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "disagg/client/client.h"
#include "disagg/coordinator/fixed.h"
#include "disagg/index/hash_server.h"
#include "disagg/index/ordered_server.h"
#include "disagg/memory/memory_server.h"
#include "fabric/local/local_port.h"
#include "fabric/sim/net.h"
#include "support/folder.h"
#include "support/seeds.h"
#include "unit/disagg/histories.h"
#include "unit/disagg/sim_cluster.h"

/// Clients, a hash server and memory servers on a simulated network.

namespace breccia::disagg {

namespace {

using namespace testing;

using Cluster = SimCluster;
using fabric::TimeUs;

MemoryServer::Options options_of(const ClusterMap::Memory& one) {
  MemoryServer::Options options;
  options.member = one.member;
  options.bytes = one.bytes;
  return options;
}

}  // namespace

// Goal: each key's lookups and writes are as if they came one after the other, and nothing stays of
//   what was replaced.
// Method: four clients over few keys in long chains, with torn and slow reads, who hang from time
//   to time; behind them as many blocks are in use as there are keys.
// Mutation: blocks that do not rest, or are read behind that; a write that is acknowledged before
//   its entry is there, or it is logged, or the block before it says that it is replaced; a block
//   of another use that is believed; a scan that is not waited for, or leaves out what is only
//   logged.
TEST(DisaggCluster, IsLinearizable) {
  std::uint64_t cached = 0, stale = 0;
  const auto seeds = breccia::testing::seeds_to_run(400);
  for (const std::uint64_t seed : seeds) {
    SCOPED_TRACE(breccia::testing::replay_command(seed));
    std::uint64_t lost = 0;
    Cluster cluster(
        seed,
        fabric::sim::Weather{.slow_one_in = 8, .torn_one_in = 1, .regions_stay = seed % 4 == 0},
        {.memory_servers = 2, .grows = seed % 2 == 0});
    History history;
    for (std::uint64_t i = 0; i < 4; ++i) {
      cluster.add_client([&, i](Client* client) {
        ask_at_random(cluster.clock(), client, 10 * seed + i, 30, kLong, &history);
        EXPECT_TRUE(client->close(cluster.net().now_us() + kLong).ok());
        lost += client->counts().lost;
        cached += client->counts().cached;
        stale += client->counts().stale;
      });
    }
    cluster.let_clients_hang(5, 10'000);
    cluster.run();
    expect_linearizable(history);
    EXPECT_GE(cluster.used_blocks(), cluster.indexed());
    EXPECT_LE(cluster.used_blocks(), cluster.indexed() + lost);
    EXPECT_LT(lost, 64U);  // of clients that hung, a lease each, or the blocks of many writes
    if (HasFailure()) return;
  }
  constexpr std::size_t kMany = 20;  // of one seed clients may remember nothing
  EXPECT_TRUE(cached > 0 || seeds.size() < kMany);
  EXPECT_TRUE(stale > 0 || seeds.size() < kMany);
}

// Goal: of clients that die in the midst of what they do nothing stays but what they have written.
// Method: two of four clients are killed, and those that stay go on for long.
// Mutation: a look for orphans that begins anew each time; blocks of writes that wait, or that were
//   given back and leased again meanwhile, that count as nobody's; orphans whose mirror is not
//   told; one shard's keys that nobody asks for.
TEST(DisaggCluster, DeadClientsLeaveNothing) {
  std::uint64_t found = 0;
  const auto seeds = breccia::testing::seeds_to_run(200);
  for (const std::uint64_t seed : seeds) {
    SCOPED_TRACE(breccia::testing::replay_command(seed));
    Cluster cluster(seed, fabric::sim::Weather{.slow_one_in = 8},
                    {.memory_servers = 2,
                     .copies = static_cast<std::uint32_t>(1 + seed % 2),
                     .shards = static_cast<std::uint32_t>(1 + seed % 4 / 2)});
    History history;
    for (std::uint64_t i = 0; i < 4; ++i) {
      const bool dies = i < 2;
      const auto node = cluster.add_client([&, i, dies](Client* client) {
        // For some rounds of looking for what is nobody's.
        const TimeUs end = cluster.net().now_us() + 8 * Cluster::kHoldUs;
        for (std::uint64_t n = 0; dies || cluster.net().now_us() < end; ++n) {
          ask_at_random(cluster.clock(), client, 1000 * (10 * seed + i) + n, 4, kLong, &history);
          if (!dies) cluster.net().sleep(cluster.net().random().below(Cluster::kHoldUs / 4));
        }
        EXPECT_TRUE(client->close(cluster.late()).ok());
        cluster.net().sleep(5 * Cluster::kHoldUs);
      });
      if (dies) cluster.net().kill_behind(node, 50 + cluster.net().random().below(1000));
    }
    cluster.run();
    expect_linearizable(history);
    EXPECT_EQ(cluster.used_blocks(), cluster.indexed());
    found += cluster.found_orphans();
    if (HasFailure()) return;
  }
  constexpr std::size_t kMany = 20;
  EXPECT_TRUE(found > 0 || seeds.size() < kMany);
}

// Goal: a range is as of one moment, also across its keys.
// Method: a writer that writes a number to one key, then to another; who sees the second one has
//   the first one, or the next.
// Mutation: an ordered server that puts what it logged into its index in another order.
TEST(DisaggCluster, RangesAreOfOneMoment) {
  for (const std::uint64_t seed : breccia::testing::seeds_to_run(200)) {
    SCOPED_TRACE(breccia::testing::replay_command(seed));
    Cluster cluster(seed, fabric::sim::Weather{.slow_one_in = 8}, {.memory_servers = 2});
    const auto late = [&] { return cluster.net().now_us() + kLong; };
    bool is_over = false;
    cluster.add_client([&](Client* client) {
      for (int i = 0; i < 30; ++i) {
        ASSERT_TRUE(client->put("a", std::to_string(i), late()).ok());
        ASSERT_TRUE(client->put("b", std::to_string(i), late()).ok());
      }
      is_over = true;
    });
    cluster.add_client([&](Client* client) {
      std::vector<std::pair<std::string, std::string>> found;
      while (!is_over) {
        ASSERT_TRUE(client->scan("", "", 10, &found, late()).ok());
        if (found.size() < 2) continue;
        const int a = std::stoi(found[0].second), b = std::stoi(found[1].second);
        ASSERT_TRUE(b <= a && a <= b + 1) << a << " " << b;
        ASSERT_TRUE(client->scan("", "", 1, &found, late()).ok());
        ASSERT_EQ(found.size(), 1U);
        ASSERT_EQ(found[0].first, "a");
      }
    });
    cluster.run();
    if (HasFailure()) return;
  }
}

// Goal: an index without a free bucket takes what needs none, and says of other keys that it is
//   full; nothing of these stays.
TEST(DisaggCluster, FullIndex) {
  Cluster cluster(1, fabric::sim::Weather(), {.memory_servers = 1});
  const auto late = [&] { return cluster.net().now_us() + kLong; };
  cluster.add_client([&](Client* client) {
    std::vector<std::string> there;
    for (int i = 0; i < 200; ++i) {
      const std::string key = "key" + std::to_string(i);
      const Status put = client->put(key, "one", late());
      ASSERT_TRUE(put.ok() || put.IsMemoryLimit()) << put.ToString();
      if (put.ok()) there.push_back(key);
    }
    ASSERT_GE(there.size(), 63U);
    ASSERT_LE(there.size(), 70U);
    std::string value;
    for (const std::string& key : there) {
      ASSERT_TRUE(client->put(key, "two", late()).ok());
      ASSERT_TRUE(client->get(key, &value, late()).ok());
      ASSERT_EQ(value, "two");
    }
    ASSERT_TRUE(client->erase(there.front(), late()).ok());
    ASSERT_TRUE(client->put(there.front(), "three", late()).ok());
    ASSERT_TRUE(client->close(late()).ok());
  });
  cluster.run();
  EXPECT_EQ(cluster.used_blocks(), cluster.indexed());
}

// Goal: many writes and lookups at once are as if they came one by one, also of one key twice; of
//   writes that find no room in the index the first ones are done.
// Mutation: writes of a question that are taken in another order; an answer that is cut off
//   elsewhere; lookups that share a bucket, or a block, and get each other's value.
TEST(DisaggCluster, ManyAtOnce) {
  Cluster cluster(1, fabric::sim::Weather(), {.memory_servers = 2});
  static constexpr std::size_t kFit = 60, kAll = 200;
  cluster.add_client([&](Client* client) {
    const auto late = [&] { return cluster.net().now_us() + kLong; };
    std::vector<std::string> keys, values;
    for (std::size_t i = 0; i < kAll; ++i) {
      keys.push_back("key" + std::to_string(i));
      values.push_back("value" + std::to_string(i) + std::string(30 * (i % 7), '.'));
    }
    const auto expect = [&](const std::function<bool(std::size_t)>& is_there) {
      std::vector<std::string> found(2 * kAll);
      std::vector<Lookup> lookups;
      for (std::size_t i = 0; i < 2 * kAll; ++i) {
        lookups.push_back({.key = keys[i % kAll], .value = &found[i]});
      }
      ASSERT_TRUE(client->get(lookups, late()).ok());
      for (std::size_t i = 0; i < 2 * kAll; ++i) {
        ASSERT_EQ(lookups[i].status().ok(), is_there(i % kAll)) << i;
        ASSERT_TRUE(lookups[i].status().ok() || lookups[i].status().IsNotFound());
        ASSERT_EQ(found[i], is_there(i % kAll) ? values[i % kAll] : "") << i;
      }
    };
    std::vector<Change> changes;
    for (std::size_t i = 0; i < kFit; ++i) {
      changes.push_back({.key = keys[i], .value = "before"});
      if (i % 3 == 0) changes.push_back({.key = keys[i], .value = {}});
      changes.push_back({.key = keys[i], .value = values[i]});
      if (i % 5 == 0) changes.push_back({.key = keys[i], .value = {}});
    }
    const auto is_done = [](const Change& one) { return one.is_done; };
    const Status written = client->write(changes, late());
    ASSERT_TRUE(written.ok()) << written.ToString();
    ASSERT_TRUE(std::all_of(changes.begin(), changes.end(), is_done));
    expect([](std::size_t i) { return i < kFit && i % 5 != 0; });
    changes.clear();
    for (std::size_t i = 0; i < kAll; ++i) changes.push_back({.key = keys[i], .value = values[i]});
    ASSERT_TRUE(client->write(changes, late()).IsMemoryLimit());
    const auto done = static_cast<std::size_t>(
        std::find_if_not(changes.begin(), changes.end(), is_done) - changes.begin());
    ASSERT_TRUE(
        std::none_of(changes.begin() + static_cast<std::ptrdiff_t>(done), changes.end(), is_done));
    ASSERT_GE(done, 63U);
    ASSERT_LE(done, 70U);
    expect([done](std::size_t i) { return i < done; });
    ASSERT_TRUE(client->write({}, late()).ok());
    ASSERT_TRUE(client->get(std::span<Lookup>(), late()).ok());
    ASSERT_TRUE(client->close(late()).ok());
  });
  cluster.run();
  EXPECT_EQ(cluster.used_blocks(), cluster.indexed());
}

// Goal: the index grows while it is read and written, also where it is small for what it has.
// Method: many keys from one chain on, by clients that write and delete their own, and look at the
//   others'; at last all is there that was written.
// Mutation: changes that do not go to the larger table, or not to the one before; readers that are
//   not told of the larger one; a table before that goes too soon.
TEST(DisaggCluster, Grows) {
  constexpr std::uint64_t kClients = 3, kOwn = 60;
  for (const std::uint64_t seed : breccia::testing::seeds_to_run(100)) {
    SCOPED_TRACE(breccia::testing::replay_command(seed));
    Cluster cluster(seed,
                    fabric::sim::Weather{.slow_one_in = 8, .torn_one_in = 4, .regions_stay = true},
                    {.memory_servers = 2, .grows = true});
    std::map<std::string, std::string> model;
    std::uint64_t lost = 0;
    for (std::uint64_t i = 0; i < kClients; ++i) {
      cluster.add_client([&, i](Client* client) {
        base::Random random(10 * seed + i);
        for (int turn = 0; turn < 200; ++turn) {
          const std::string key = std::to_string(i) + "." + std::to_string(random.below(kOwn));
          const bool deletes = random.one_in(4);
          const auto write = [&] {
            return deletes ? client->erase(key, cluster.late())
                           : client->put(key, std::to_string(turn), cluster.late());
          };
          // Of one that took too long nobody knows; the next one comes behind it.
          Status status = write();
          while (status.IsIOError()) status = write();
          ASSERT_TRUE(status.ok()) << status.ToString();
          deletes ? (void)model.erase(key) : (void)(model[key] = std::to_string(turn));
          std::string value;
          const std::string own = std::to_string(i) + "." + std::to_string(random.below(kOwn));
          const Status found = client->get(own, &value, cluster.late());
          ASSERT_EQ(found.ok(), model.contains(own)) << found.ToString();
          if (!found.ok()) continue;
          ASSERT_EQ(value, model[own]);
          if (random.one_in(8)) (void)client->get("1.1", &value, cluster.late());
        }
        ASSERT_TRUE(client->close(cluster.late()).ok());
        lost += client->counts().lost;
      });
    }
    cluster.run();
    EXPECT_EQ(cluster.indexed(), model.size());
    const TableShape& shape = cluster.table().shape();
    EXPECT_GT(shape.bucket_bits, 3U);
    EXPECT_LT(shape.buckets, 2U << shape.bucket_bits);  // not as the first one had them
    EXPECT_GE(cluster.used_blocks(), model.size());
    EXPECT_LE(cluster.used_blocks(), model.size() + lost);
    if (HasFailure()) return;
  }
}

// Goal: an ordered server logs writes of one hash server, the one of the latest epoch that came to
//   it; another one is told so, and acknowledges nothing.
// Mutation: a log that takes whatever has the next numbers; an older one that is followed.
TEST(DisaggCluster, OneHashServerLogs) {
  fabric::sim::Net net(1, fabric::sim::Weather());
  const auto node = net.add_node(), asker = net.add_node();
  net.let_serve(node);
  const auto ordered_port = net.open(node);
  net.start(node, [&] {
    OrderedServer server(ordered_port.get(), {});
    while (true) ASSERT_TRUE(server.serve(net.now_us() + kLong).ok());
  });
  net.start(asker, [&] {
    std::uint64_t next = 1;
    struct Hash {
      std::unique_ptr<fabric::Port> port;
      fabric::PeerId peer;
    };
    const auto code_of = [&](const Hash& hash, Ask ask, std::uint32_t epoch,
                             const WireWriter& question) {
      const fabric::Header header{
          .kind = static_cast<std::uint8_t>(ask), .epoch = epoch, .request = next++};
      EXPECT_TRUE(hash.port->send(hash.peer, header, question.bytes(), kLong).ok());
      auto answer = hash.port->poll(net.now_us() + kLong);
      // It asks whom it follows for entries.
      while (answer.has_value() && (answer->header.kind & kAnswerBit) == 0) {
        answer = hash.port->poll(net.now_us() + kLong);
      }
      return static_cast<Code>(answer->payload.front());
    };
    std::vector<Hash> hashes;
    for (int i = 0; i < 3; ++i) {
      hashes.push_back({.port = net.open(asker), .peer = 0});
      hashes.back().peer =
          hashes.back().port->connect(ordered_port->address(), net.now_us() + kLong).take();
    }
    const auto follow = [&](int i, std::uint32_t epoch) {
      return code_of(hashes[i], Ask::kFollow, epoch,
                     WireWriter().add(Follow{.from = 0, .is_whole = 1, .seeds = {}}));
    };
    const auto ship = [&](int i, std::uint32_t epoch, std::uint64_t sequence) {
      WireWriter writes;
      writes.add(std::uint8_t{0});
      LoggedWrite{.sequence = sequence, .slot = 0, .key = "k"}.add_to(&writes);
      return code_of(hashes[i], Ask::kShip, epoch, writes);
    };
    EXPECT_EQ(ship(0, 2, 1), Code::kEpoch);
    EXPECT_EQ(follow(0, 2), Code::kOk);
    EXPECT_EQ(ship(0, 2, 1), Code::kOk);
    EXPECT_EQ(follow(1, 1), Code::kEpoch);
    EXPECT_EQ(ship(1, 1, 2), Code::kEpoch);
    EXPECT_EQ(follow(2, 3), Code::kOk);
    EXPECT_EQ(ship(0, 2, 2), Code::kEpoch);
    EXPECT_EQ(follow(0, 2), Code::kEpoch);
    EXPECT_EQ(ship(2, 3, 2), Code::kOk);
  });
  net.run();
}

// Goal: a key that is there all the time is found each time, while chains become longer and shorter
//   around it.
// Method: keys that stay, behind others that come and go, in chains of several buckets; slow reads.
// Mutation: a miss that is believed at once.
TEST(DisaggCluster, WhatStaysIsFound) {
  for (const std::uint64_t seed : breccia::testing::seeds_to_run(200)) {
    SCOPED_TRACE(breccia::testing::replay_command(seed));
    Cluster cluster(seed, fabric::sim::Weather{.slow_one_in = 8}, {.memory_servers = 1});
    constexpr std::uint64_t kStay = 10;
    int ready = 0;
    const auto late = [&] { return cluster.net().now_us() + kLong; };
    const auto named = [](const char* of, std::uint64_t i) { return of + std::to_string(i); };
    cluster.add_client([&](Client* client) {
      // Those that go leave buckets before theirs.
      for (std::uint64_t i = 0; i < 30; ++i)
        ASSERT_TRUE(client->put(named("x", i), "", late()).ok());
      for (std::uint64_t i = 0; i < kStay; ++i)
        ASSERT_TRUE(client->put(named("s", i), "s", late()).ok());
      ready = 1;
    });
    for (std::uint64_t i = 0; i < 4; ++i) {
      cluster.add_client([&, i](Client* client) {
        while (ready == 0) cluster.net().sleep(100);
        base::Random random(8 * seed + i);
        std::string value;
        for (int turn = 0; turn < 60; ++turn) {
          const std::string other = named("x", random.below(30));
          if (i < 2) {
            const Status changed =
                random.one_in(2) ? client->put(other, "", late()) : client->erase(other, late());
            ASSERT_TRUE(changed.ok() || changed.IsMemoryLimit()) << changed.ToString();
          } else {
            ASSERT_TRUE(client->get(named("s", random.below(kStay)), &value, late()).ok());
          }
        }
      });
    }
    cluster.run();
    if (HasFailure()) return;
  }
}

// Goal: histories are linearizable where messages get lost, come twice, late and damaged, and what
//   is slow is given up.
// Mutation: a question that is answered twice; a write of which nobody knows whether it happened
//   that is said not to have; its block used again.
TEST(DisaggCluster, IsLinearizableInBadWeather) {
  for (const std::uint64_t seed : breccia::testing::seeds_to_run(400)) {
    SCOPED_TRACE(breccia::testing::replay_command(seed));
    const fabric::sim::Weather weather{.slow_one_in = 20,
                                       .lost_one_in = 20,
                                       .twice_one_in = 10,
                                       .damaged_one_in = 30,
                                       .overtaken_one_in = 10};
    Cluster cluster(seed, weather, {.memory_servers = 2});
    History history;
    for (std::uint64_t i = 0; i < 4; ++i) {
      cluster.add_client([&, i](Client* client) {
        ask_at_random(cluster.clock(), client, 10 * seed + i, 30, 3000, &history);
      });
    }
    cluster.run();
    expect_linearizable(history);
    if (HasFailure()) return;
  }
}

static std::vector<std::unique_ptr<fabric::Port>> open_ports(const breccia::testing::Folder& folder,
                                                             int count) {
  std::vector<std::unique_ptr<fabric::Port>> ports;
  for (int i = 0; i < count; ++i) {
    auto port = fabric::local::LocalPort::open(folder / std::to_string(i));
    EXPECT_TRUE(port.ok()) << port.status().ToString();
    ports.push_back(port.take());
  }
  return ports;
}

// Goal: the same code serves processes of one computer: histories of threads over shared memory
//   and sockets are linearizable (ThreadSanitizer).
TEST(DisaggCluster, ConcurrentThreadsOnOneComputer) {
  const breccia::testing::Folder folder(breccia::testing::Place::kDisk);
  const auto ports = open_ports(folder, 6);
  const auto late = [&] { return ports.front()->now_us() + kLong; };
  const ClusterMap map{.epoch = 1,
                       .shards = {{.has_begun = true,
                                   .hash = {"h", ports[1]->address(), /*is_whole=*/true},
                                   .ordered = {"o", ports[0]->address()}}},
                       .memory = {{.node = 0,
                                   .member = "m",
                                   .address = ports[2]->address(),
                                   .bytes = 2 * Pool::kChunkLines * kLineBytes}}};
  OrderedServer ordered(ports[0].get(), {});
  auto memory = MemoryServer::make(ports[2].get(), options_of(map.memory.front()));
  ASSERT_TRUE(memory.ok()) << memory.status().ToString();
  auto hash = HashServer::make(ports[1].get(), {});
  ASSERT_TRUE(hash.ok()) << hash.status().ToString();
  ASSERT_TRUE(memory.value()->follow(map).ok());
  hash.value()->be_first();
  for (IndexServer* const server :
       {static_cast<IndexServer*>(&ordered), static_cast<IndexServer*>(hash.value().get())}) {
    ASSERT_TRUE(server->follow(map, 0).ok());
    server->trust_until(std::numeric_limits<TimeUs>::max());
  }
  std::atomic<bool> is_over{false};
  std::vector<std::thread> servers;
  const auto serve = [&](const std::function<Status(TimeUs)>& once) {
    servers.emplace_back([&, once] {
      while (!is_over) ASSERT_TRUE(once(ports.front()->now_us() + 10'000).ok());
    });
  };
  serve([&](TimeUs until) { return ordered.serve(until); });
  serve([&](TimeUs until) {
    memory.value()->serve(until);
    return Status::OK();
  });
  serve([&](TimeUs until) { return hash.value()->serve(until); });

  std::vector<History> histories(3);
  std::atomic<std::uint64_t> lost{0};
  std::vector<std::thread> clients;
  for (std::size_t i = 0; i < histories.size(); ++i) {
    clients.emplace_back([&, i, port = ports[3 + i].get()] {
      FixedCoordinator coordinator(map.encode());
      ClientOptions of_client;
      of_client.seed = i + 1;
      auto client = Client::open(port, &coordinator, of_client, late());
      ASSERT_TRUE(client.ok()) << client.status().ToString();
      ask_at_random([&] { return port->now_us(); }, client.value().get(), i, 300, kLong,
                    &histories[i]);
      EXPECT_TRUE(client.value()->close(late()).ok());
      lost += client.value()->counts().lost;
    });
  }
  for (std::thread& client : clients) client.join();
  is_over = true;
  for (std::thread& server : servers) server.join();
  EXPECT_GE(memory.value()->pool().used_blocks(), hash.value()->table().size());
  EXPECT_LE(memory.value()->pool().used_blocks(), hash.value()->table().size() + lost);
  History all;
  for (const History& history : histories) {
    for (const auto& [key, ops] : history) {
      all[key].insert(all[key].end(), ops.begin(), ops.end());
    }
  }
  expect_linearizable(all);
}

}  // namespace breccia::disagg
