#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "disagg/client.h"
#include "disagg/hash_server.h"
#include "disagg/memory_server.h"
#include "disagg/ordered_server.h"
#include "fabric/local/local_port.h"
#include "fabric/sim/net.h"
#include "support/folder.h"
#include "support/seeds.h"
#include "unit/disagg/register_check.h"

/// Clients, a hash server and memory servers on a simulated network.

namespace breccia::disagg {

namespace {

using fabric::TimeUs;
using testing::KeyOp;

constexpr TimeUs kLong = 10'000'000;

/// A small cluster, whose table is so small that chains are long.
class Cluster {
 public:
  Cluster(std::uint64_t seed, const fabric::sim::Weather& weather, std::size_t memory_nodes)
      : net_(seed, weather) {
    HashServer::Options options;
    options.bucket_bits = 1;
    options.more_buckets = 8;
    options.seeds.hash = {net_.random().next(), net_.random().next() | 1};
    options.seeds.proof = {net_.random().next(), net_.random().next() | 1};
    options.ship_again_us = 300;
    options.mark_us = 5000;
    options.read_us = 2000;
    options.rest_us = 3000;
    options.log_id = 1;
    client_options_.memory_servers.resize(memory_nodes);
    memory_servers_.resize(memory_nodes);
    for (std::uint32_t i = 0; i < memory_nodes; ++i) {
      add_server(&client_options_.memory_servers[i], [this, i](fabric::Port* port) {
        auto server = MemoryServer::make(port, i, 2 * Pool::kChunkLines * kLineBytes);
        EXPECT_TRUE(server.ok());
        memory_servers_[i] = server.take();
        while (true) memory_servers_[i]->serve(net_.now_us() + kLong);
      });
    }
    if (net_.random().one_in(4)) client_options_.cached_places = 0;
    options.memory_servers = client_options_.memory_servers;
    add_server(&options.ordered_server, [this](fabric::Port* port) {
      ordered_server_ =
          std::make_unique<OrderedServer>(port, OrderedServer::Options{.idle_us = 200});
      while (true) ordered_server_->serve(net_.now_us() + kLong);
    });
    client_options_.ordered_server = options.ordered_server;
    add_server(&client_options_.hash_server, [this, options](fabric::Port* port) {
      auto server = HashServer::make(port, options, net_.now_us() + kLong);
      ASSERT_TRUE(server.ok()) << server.status().ToString();
      hash_server_ = server.take();
      while (true) ASSERT_TRUE(hash_server_->serve(net_.now_us() + kLong).ok());
    });
    client_options_.ask_again_us = 500;
    client_options_.lease_max = 1;  // so that blocks are soon used again
  }
  /// Servers end before their ports.
  ~Cluster() {
    hash_server_.reset();
    ordered_server_.reset();
    memory_servers_.clear();
  }

  /// A client that does something, on a node of its own.
  void add_client(const std::function<void(Client*)>& body) {
    const auto node = net_.add_node();
    clients_.push_back(node);
    ports_.push_back(net_.open(node));
    ClientOptions options = client_options_;
    options.seed = net_.random().next();
    net_.start(node, [this, options, body, port = ports_.back().get()] {
      auto client = Client::open(port, options, net_.now_us() + kLong);
      ASSERT_TRUE(client.ok()) << client.status().ToString();
      body(client.value().get());
    });
  }
  /// Lets clients stand still from time to time, for longer than blocks rest.
  void let_clients_hang(int times) {
    net_.start(net_.add_node(), [this, times] {
      for (int i = 0; i < times; ++i) {
        net_.sleep(net_.random().below(2000));
        const auto victim = clients_[net_.random().below(clients_.size())];
        net_.pause(victim);
        net_.sleep(net_.random().below(10'000));
        net_.go_on(victim);
      }
    });
  }
  void run() { net_.run(); }
  fabric::sim::Net& net() { return net_; }
  std::function<TimeUs()> clock() {
    return [this] { return net_.now_us(); };
  }
  [[nodiscard]] const HashTable& table() const { return hash_server_->table(); }
  [[nodiscard]] std::uint64_t used_blocks() const {
    std::uint64_t used = 0;
    for (const auto& server : memory_servers_) used += server->pool().used_blocks();
    return used;
  }

 private:
  void add_server(std::string* address, const std::function<void(fabric::Port*)>& body) {
    const auto node = net_.add_node();
    net_.let_serve(node);
    ports_.push_back(net_.open(node));
    *address = ports_.back()->address();
    net_.start(node, [body, port = ports_.back().get()] { body(port); });
  }

  fabric::sim::Net net_;
  std::vector<fabric::sim::Net::Node> clients_;
  std::vector<std::unique_ptr<fabric::Port>> ports_;
  std::unique_ptr<OrderedServer> ordered_server_;
  std::unique_ptr<HashServer> hash_server_;
  std::vector<std::unique_ptr<MemoryServer>> memory_servers_;
  ClientOptions client_options_;
};

/// What clients did to each key.
using History = std::map<std::string, std::vector<KeyOp>>;

using Clock = std::function<TimeUs()>;

constexpr std::uint64_t kKeys = 6;

std::string key_of(std::uint64_t i) { return "k" + std::to_string(i); }

/// A scan is a lookup of each key of its range.
void scan_at_random(const Clock& clock, Client* client, base::Random* random, TimeUs called,
                    TimeUs until, History* history) {
  // Numbers of one digit, as their order is that of bytes.
  const std::uint64_t begin = random->below(kKeys), end = begin + random->below(5);
  std::vector<std::pair<std::string, std::string>> found;
  const Status status = client->scan(key_of(begin), key_of(end), 100, &found, until);
  ASSERT_FALSE(status.IsCorruption()) << status.ToString();
  ASSERT_TRUE(status.ok() || until < called + kLong) << status.ToString();
  if (!status.ok()) return;
  ASSERT_TRUE(std::is_sorted(found.begin(), found.end()));
  std::map<std::string, std::string> by_key(found.begin(), found.end());
  for (std::uint64_t i = begin; i < std::min(end, kKeys); ++i) {
    const auto one = by_key.find(key_of(i));
    KeyOp op{.what = KeyOp::What::kRead, .value = {}, .called = called, .returned = 0};
    if (one != by_key.end()) op.value = one->second;
    op.returned = clock();
    (*history)[key_of(i)].push_back(op);
  }
  for (const auto& [key, value] : found) ASSERT_TRUE(key >= key_of(begin) && key < key_of(end));
}

/// Some operations on few keys, written down.
void ask_at_random(const Clock& clock, Client* client, std::uint64_t seed, int turns, TimeUs wait,
                   History* history) {
  base::Random random(seed);
  for (int turn = 0; turn < turns; ++turn) {
    const std::string key = key_of(random.below(kKeys));
    const TimeUs called = clock();
    const TimeUs until = called + wait;
    KeyOp op{.what = KeyOp::What::kRead, .value = {}, .called = called, .returned = 0};
    Status status;
    if (random.one_in(8)) {
      scan_at_random(clock, client, &random, called, until, history);
      continue;
    }
    if (random.one_in(2)) {
      std::string found;
      status = client->get(key, &found, until);
      if (status.ok()) op.value = found;
      const bool has_found_out = status.ok() || status.IsNotFound();
      ASSERT_TRUE(has_found_out || wait < kLong) << status.ToString();
      if (!has_found_out) continue;
      status = Status::OK();
    } else {
      op.what = KeyOp::What::kWrite;
      const std::string value =
          std::to_string(seed) + "." + std::to_string(turn) + std::string(random.below(300), '.');
      const bool deletes = random.one_in(4);
      if (!deletes) op.value = value;
      status = deletes ? client->erase(key, until) : client->put(key, value, until);
      if (status.IsMemoryLimit()) continue;
    }
    ASSERT_FALSE(status.IsCorruption()) << status.ToString();
    op.returned = status.ok() ? clock() : KeyOp::kNever;
    (*history)[key].push_back(op);
  }
}

void expect_linearizable(const History& history) {
  for (const auto& [key, ops] : history) EXPECT_TRUE(testing::is_linearizable(ops)) << key;
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
    Cluster cluster(seed, fabric::sim::Weather{.slow_one_in = 8, .torn_one_in = 1}, 2);
    History history;
    for (std::uint64_t i = 0; i < 4; ++i) {
      cluster.add_client([&, i](Client* client) {
        ask_at_random(cluster.clock(), client, 10 * seed + i, 30, kLong, &history);
        EXPECT_TRUE(client->close(cluster.net().now_us() + kLong).ok());
        EXPECT_EQ(client->counts().lost, 0U);
        cached += client->counts().cached;
        stale += client->counts().stale;
      });
    }
    cluster.let_clients_hang(5);
    cluster.run();
    expect_linearizable(history);
    EXPECT_EQ(cluster.used_blocks(), cluster.table().size());
    if (HasFailure()) return;
  }
  constexpr std::size_t kMany = 20;  // of one seed clients may remember nothing
  EXPECT_TRUE(cached > 0 || seeds.size() < kMany);
  EXPECT_TRUE(stale > 0 || seeds.size() < kMany);
}

// Goal: a range is as of one moment, also across its keys.
// Method: a writer that writes a number to one key, then to another; who sees the second one has
//   the first one, or the next.
// Mutation: an ordered server that puts what it logged into its index in another order.
TEST(DisaggCluster, RangesAreOfOneMoment) {
  for (const std::uint64_t seed : breccia::testing::seeds_to_run(200)) {
    SCOPED_TRACE(breccia::testing::replay_command(seed));
    Cluster cluster(seed, fabric::sim::Weather{.slow_one_in = 8}, 2);
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
  Cluster cluster(1, fabric::sim::Weather(), 1);
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
  EXPECT_EQ(cluster.used_blocks(), cluster.table().size());
}

// Goal: an ordered server has the log of one hash server; another one that comes to it is told so,
//   and acknowledges nothing.
// Mutation: a log that takes whatever has the next numbers.
TEST(DisaggCluster, OneLogOneServer) {
  fabric::sim::Net net(1, fabric::sim::Weather());
  const auto ordered_node = net.add_node(), first = net.add_node(), second = net.add_node();
  net.let_serve(ordered_node);
  const auto ordered_port = net.open(ordered_node);
  net.start(ordered_node, [&] {
    OrderedServer server(ordered_port.get(), {});
    while (true) server.serve(net.now_us() + kLong);
  });
  const auto ship = [&](fabric::sim::Net::Node node, std::uint64_t log_id, std::uint8_t expected) {
    net.start(node, [&net, node, log_id, expected, &ordered_port] {
      const auto port = net.open(node);
      const auto peer = port->connect(ordered_port->address(), net.now_us() + kLong);
      ASSERT_TRUE(peer.ok());
      if (node % 2 == 0) net.sleep(10'000);
      WireWriter writes;
      writes.add(log_id);
      LoggedWrite{.sequence = 1, .slot = 0, .key = "k"}.add_to(&writes);
      const fabric::Header header{.kind = static_cast<std::uint8_t>(Ask::kShip), .request = 1};
      ASSERT_TRUE(port->send(peer.value(), header, writes.bytes(), kLong).ok());
      const auto answer = port->poll(net.now_us() + kLong);
      ASSERT_TRUE(answer.has_value() && !answer->payload.empty());
      EXPECT_EQ(answer->payload.front(), std::byte{expected});
    });
  };
  ship(first, 7, static_cast<std::uint8_t>(Code::kOk));
  ship(second, 8, static_cast<std::uint8_t>(Code::kWrong));
  net.run();
}

// Goal: a key that is there all the time is found each time, while chains become longer and shorter
//   around it.
// Method: keys that stay, behind others that come and go, in chains of several buckets; slow reads.
// Mutation: a miss that is believed at once.
TEST(DisaggCluster, WhatStaysIsFound) {
  for (const std::uint64_t seed : breccia::testing::seeds_to_run(200)) {
    SCOPED_TRACE(breccia::testing::replay_command(seed));
    Cluster cluster(seed, fabric::sim::Weather{.slow_one_in = 8}, 1);
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
    Cluster cluster(seed, weather, 2);
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

// Goal: the same code serves processes of one computer: histories of threads over shared memory
//   and sockets are linearizable (ThreadSanitizer).
TEST(DisaggCluster, ConcurrentThreadsOnOneComputer) {
  const breccia::testing::Folder folder(breccia::testing::Place::kDisk);
  std::vector<std::unique_ptr<fabric::Port>> ports;
  for (int i = 0; i < 6; ++i) {
    auto port = fabric::local::LocalPort::open(folder / std::to_string(i));
    ASSERT_TRUE(port.ok()) << port.status().ToString();
    ports.push_back(port.take());
  }
  const auto late = [&] { return ports.front()->now_us() + kLong; };
  std::atomic<bool> is_over{false};
  const auto serve = [&](const auto& once) {
    while (!is_over) once(ports.front()->now_us() + 10'000);
  };
  OrderedServer ordered(ports[0].get(), {});
  std::vector<std::thread> servers;
  servers.emplace_back([&] { serve([&](TimeUs until) { ordered.serve(until); }); });
  auto memory = MemoryServer::make(ports[2].get(), 0, 2 * Pool::kChunkLines * kLineBytes);
  ASSERT_TRUE(memory.ok()) << memory.status().ToString();
  servers.emplace_back([&] { serve([&](TimeUs until) { memory.value()->serve(until); }); });
  HashServer::Options options;
  options.ordered_server = ports[0]->address();
  options.memory_servers = {ports[2]->address()};
  options.seeds = {.hash = {1, 3}, .proof = {5, 7}};
  auto hash = HashServer::make(ports[1].get(), options, late());
  ASSERT_TRUE(hash.ok()) << hash.status().ToString();
  servers.emplace_back(
      [&] { serve([&](TimeUs until) { ASSERT_TRUE(hash.value()->serve(until).ok()); }); });

  std::vector<History> histories(3);
  std::vector<std::thread> clients;
  for (std::size_t i = 0; i < histories.size(); ++i) {
    clients.emplace_back([&, i, port = ports[3 + i].get()] {
      ClientOptions of_client;
      of_client.hash_server = ports[1]->address();
      of_client.ordered_server = ports[0]->address();
      of_client.memory_servers = {ports[2]->address()};
      of_client.seed = i;
      auto client = Client::open(port, of_client, late());
      ASSERT_TRUE(client.ok()) << client.status().ToString();
      ask_at_random([&] { return port->now_us(); }, client.value().get(), i, 300, kLong,
                    &histories[i]);
      EXPECT_TRUE(client.value()->close(late()).ok());
    });
  }
  for (std::thread& client : clients) client.join();
  is_over = true;
  for (std::thread& server : servers) server.join();
  EXPECT_EQ(memory.value()->pool().used_blocks(), hash.value()->table().size());
  History all;
  for (const History& history : histories) {
    for (const auto& [key, ops] : history) {
      all[key].insert(all[key].end(), ops.begin(), ops.end());
    }
  }
  expect_linearizable(all);
}

}  // namespace breccia::disagg
