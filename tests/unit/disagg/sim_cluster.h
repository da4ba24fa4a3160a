#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "disagg/client/client.h"
#include "disagg/coordinator/coordinator_server.h"
#include "disagg/coordinator/remote_coordinator.h"
#include "disagg/index/seat.h"
#include "disagg/memory/memory_seat.h"
#include "fabric/sim/net.h"
#include "unit/disagg/sim_disk.h"

namespace breccia::disagg::testing {

/// A small cluster on a simulated network, whose table is so small that chains are long: a
/// coordinator, memory servers, a seat for each index and as many as are added, and clients.
class SimCluster {
 public:
  using TimeUs = fabric::TimeUs;
  using Node = fabric::sim::Net::Node;
  static constexpr TimeUs kLong = 10'000'000;
  static constexpr TimeUs kHoldUs = 60'000;  // behind that blocks may be nobody's

  struct Options {
    std::uint32_t memory_servers = 2;
    std::uint32_t copies = 1;
    std::uint32_t shards = 1;
    std::uint32_t processes = 0;  // that seats are of, at random; 0: each of one of its own
    TimeUs session_us = 100'000;
    bool has_ordered_seat = true;
    bool grows = false;        // the hash index, from one chain on
    TimeUs hold_us = kHoldUs;  // writes wait a quarter of that for their answer
    TimeUs return_us = 0;      // memory servers whose values nobody has are waited for so long
    std::string process = {};  // that the first seats are of; empty: each of one of its own
    bool has_disks = false;    // of memory servers
  };

  SimCluster(std::uint64_t seed, const fabric::sim::Weather& weather, const Options& options)
      : options_(options), net_(seed, weather), coordinator_node_(net_.add_node()) {
    net_.let_serve(coordinator_node_);
    coordinator_port_ = net_.open(coordinator_node_);
    net_.start(coordinator_node_, [this] {
      CoordinatorServer::Options of_server;
      of_server.session_us = options_.session_us;
      auto server = CoordinatorServer::make(coordinator_port_.get(), of_server);
      ASSERT_TRUE(server.ok());
      while (true) ASSERT_TRUE(server.value()->serve(late()).ok());
    });
    if (net_.random().one_in(4)) client_options_.cached_places = 0;
    client_options_.ask_again_us = 500;
    client_options_.try_us = 5000;
    client_options_.lease_max =
        net_.random().one_in(2) ? 1 : 3;  // so that blocks are soon used again
    seat_options_.hash.table.bucket_bits = 1;
    seat_options_.hash.table.more_buckets = 8;
    seat_options_.hash.table.bucket_bits_max = 1;
    seat_options_.hash.table.makes_aside = false;
    if (options.grows) {
      seat_options_.hash.table.bucket_bits = 0;
      seat_options_.hash.table.more_buckets = 2;
      seat_options_.hash.table.bucket_bits_max = 6;
      seat_options_.hash.table.chains_at_once = 1;
      // Of few keys each makes it larger, or chains are full before.
      seat_options_.hash.table.full_percent = net_.random().one_in(2) ? 10 : 300;
    }
    seat_options_.hash.again_us = 300;
    seat_options_.hash.meet_us = 1000;
    seat_options_.hash.mark_us = 5000;
    seat_options_.hash.read_us = 2000;
    seat_options_.hash.rest_us = 3000;
    seat_options_.ordered.idle_us = 200;
    seat_options_.ordered.again_us = 300;
    seat_options_.ordered.meet_us = 1000;
    seat_options_.ordered.read_us = 5000;
    seat_options_.hash.page_bytes = 64;  // so that there are many
    seat_options_.ordered.page_bytes = 64;
    seat_options_.ordered.keys_at_once = 2;
    seat_options_.ordered.sorts_aside = false;
    seat_options_.shards = options.shards;
    seat_options_.placement = {.start = net_.random().next(), .factor = net_.random().next() | 1};
    seat_options_.turn_us = 400;
    seat_options_.agree_us = 3000;
    seat_options_.stay_us = 20'000;
    seat_options_.patience_us = 20'000;
    seat_options_.return_us = options.return_us;
    seat_options_.other_us = options.session_us + options.session_us / 4;
    for (std::uint32_t i = 0; i < options.memory_servers; ++i) add_memory_server();
    for (std::uint32_t i = 0; i < options.shards; ++i) {
      add_seat(Role::kHash, options.process);
      if (options.has_ordered_seat) add_seat(Role::kOrdered, options.process);
    }
  }

  /// A memory server on a node of its own, which comes back with its values if it is not lost;
  /// without mirrors it ends when the cluster has it as lost.
  void add_memory_server() {
    SimDisk* disk = nullptr;
    if (options_.has_disks) {
      // Some are so slow that others have given its server up, and built anew, before.
      const TimeUs slow_us = net_.random().one_in(4) ? 4 * options_.session_us : 2000;
      const TimeUs longest_us = net_.random().one_in(2) ? slow_us : 0;
      disk = disks_.emplace_back(new SimDisk(&net_, longest_us)).get();
    }
    start_memory_server(disk);
  }
  /// One on a new node that has the disk of one that was killed.
  void restart_memory_server(Node killed) { start_memory_server(disk_of_.at(killed)); }
  [[nodiscard]] SimDisk* disk_of(Node node) const { return disk_of_.at(node); }
  /// Media that were of no use any more.
  [[nodiscard]] std::uint64_t removed_media() const {
    std::uint64_t removed = 0;
    for (const auto& disk : disks_) removed += disk->removed();
    return removed;
  }
  void start_memory_server(SimDisk* disk) {
    const Node node = add_server();
    disk_of_[node] = disk;
    net_.start(node, [this, node, disk] {
      do {
        const auto port = net_.open(node);
        MemorySeat::Options options;
        options.server.bytes = (disk == nullptr ? 8 : 4) * Pool::kChunkLines * kLineBytes;
        options.server.place = disk;
        options.server.keep_us = net_.random().below(3000);
        options.return_us = 2 * options_.session_us;
        options.server.again_us = 300;
        options.server.meet_us = 1000;
        options.server.read_us = 5000;
        options.server.part_bytes = 256;  // so that there are many
        options.server.hold_us = options_.hold_us;
        options.copies = options_.copies;
        options.turn_us = seat_options_.turn_us;
        options.agree_us = seat_options_.agree_us;
        std::unique_ptr<MemoryServer> server;
        do {
          options.server.member = name(node);
          const auto coordinator = meet_coordinator(node);
          came_back_ += server != nullptr ? 1 : 0;
          MemorySeat seat(port.get(), &coordinator->it, options, std::move(server));
          const Kept<MemorySeat> kept(&memory_seats_, node, &seat);
          while (seat.serve(late()).ok()) continue;
          server = seat.take_server();
        } while (server != nullptr);
        if (disk != nullptr) net_.sleep(100);
      } while (options_.copies > 1 || disk != nullptr);
    });
  }
  /// A seat on a node of its own, which begins anew each time that it was of no use any more.
  /// `process`: it says that it is of this one; empty: of one of its own.
  void add_seat(Role role, std::string process = "") {
    const Node node = add_server();
    if (process.empty() && options_.processes > 0) {
      process = std::to_string(net_.random().below(options_.processes));
    }
    net_.start(node, [this, node, role, process] {
      while (true) {
        const auto port = net_.open(node);
        const auto coordinator = meet_coordinator(node);
        Seat::Options options = seat_options_;
        options.role = role;
        options.process = process.empty() ? name(node) : process;
        options.member = name(node);
        options.hash.seeds = KeySeeds{.hash = {net_.random().next(), net_.random().next() | 1},
                                      .proof = {net_.random().next(), net_.random().next() | 1}};
        Seat seat(port.get(), &coordinator->it, options);
        const Kept<Seat> kept(&seats_, node, &seat);
        while (seat.serve(late()).ok()) continue;
      }
    });
  }
  /// A client that does something, on a node of its own.
  Node add_client(const std::function<void(Client*)>& body) {
    const Node node = net_.add_node();
    clients_.push_back(node);
    ClientOptions options = client_options_;
    options.seed = net_.random().next();
    net_.start(node, [this, node, options, body] {
      const auto port = net_.open(node);
      const auto coordinator = meet_coordinator(node);
      auto client = Client::open(port.get(), &coordinator->it, options, late());
      ASSERT_TRUE(client.ok()) << client.status().ToString();
      body(client.value().get());
    });
    return node;
  }
  /// Lets clients stand still from time to time, for longer than blocks rest, or sessions last.
  void let_clients_hang(int times, TimeUs longest_us) {
    net_.start(net_.add_node(), [this, times, longest_us] {
      for (int i = 0; i < times; ++i) {
        net_.sleep(net_.random().below(2000));
        const auto victim = clients_[net_.random().below(clients_.size())];
        net_.pause(victim);
        net_.sleep(net_.random().below(longest_us));
        net_.go_on(victim);
      }
    });
  }

  void run() { net_.run(); }
  [[nodiscard]] std::uint32_t copies() const { return options_.copies; }
  [[nodiscard]] std::uint32_t processes() const { return options_.processes; }
  fabric::sim::Net& net() { return net_; }
  [[nodiscard]] TimeUs late() const { return net_.now_us() + kLong; }
  std::function<TimeUs()> clock() {
    return [this] { return net_.now_us(); };
  }
  [[nodiscard]] Node coordinator_node() const { return coordinator_node_; }
  [[nodiscard]] std::string coordinator_address() const { return coordinator_port_->address(); }

  /// A coordinator's address, met by who looks at the cluster from a thread of a node.
  struct MetCoordinator {
    MetCoordinator(std::unique_ptr<fabric::Port> on, const RemoteCoordinator::Options& options)
        : port(std::move(on)), it(port.get(), options) {}
    std::unique_ptr<fabric::Port> port;
    RemoteCoordinator it;
  };
  [[nodiscard]] std::unique_ptr<MetCoordinator> meet_coordinator(Node node) {
    return std::make_unique<MetCoordinator>(
        net_.open(node),
        RemoteCoordinator::Options{
            .address = coordinator_port_->address(), .look_us = 300, .connect_us = 2000});
  }
  /// Which node has a member's name.
  [[nodiscard]] Node node_of(const std::string& member) const { return names_.at(member); }

  /// Of the one shard's hash server.
  [[nodiscard]] const GrowingTable& table() const { return *tables().at(0); }
  /// Keys in hash indexes.
  [[nodiscard]] std::uint64_t indexed() const {
    std::uint64_t keys = 0;
    for (const GrowingTable* const one : tables()) keys += one->size();
    return keys;
  }
  /// Memory servers that had their places again.
  [[nodiscard]] std::uint64_t came_back() const { return came_back_; }
  [[nodiscard]] std::uint64_t found_orphans() const {
    std::uint64_t found = 0;
    for (const auto& [node, seat] : memory_seats_) found += seat->server()->found_orphans();
    return found;
  }
  [[nodiscard]] std::uint64_t used_blocks() const {
    std::uint64_t used = 0;
    for (const auto& [node, seat] : memory_seats_) {
      if (seat->server()->mirror() == nullptr) used += seat->server()->pool().used_blocks();
    }
    return used;
  }

 private:
  [[nodiscard]] std::vector<const GrowingTable*> tables() const {
    std::vector<const GrowingTable*> all;
    for (const auto& [node, seat] : seats_) {
      const auto* const hash = dynamic_cast<const HashServer*>(seat->server());
      if (hash != nullptr) all.push_back(&hash->table());
    }
    return all;
  }
  template <class T>
  class Kept {
   public:
    Kept(std::map<Node, T*>* all, Node node, T* one) : all_(all), node_(node) {
      (*all)[node] = one;
    }
    ~Kept() { all_->erase(node_); }

   private:
    std::map<Node, T*>* const all_;
    const Node node_;
  };
  Node add_server() {
    const Node node = net_.add_node();
    net_.let_serve(node);
    return node;
  }
  std::string name(Node node) {
    const std::string name = std::to_string(node) + "." + std::to_string(next_name_++);
    names_.emplace(name, node);
    return name;
  }

  const Options options_;
  std::map<std::string, Node> names_;
  int next_name_ = 1;
  std::uint64_t came_back_ = 0;
  std::vector<std::unique_ptr<SimDisk>> disks_;
  std::map<Node, SimDisk*> disk_of_;
  std::map<Node, MemorySeat*> memory_seats_;
  std::map<Node, Seat*> seats_;
  std::vector<Node> clients_;
  ClientOptions client_options_;
  Seat::Options seat_options_;
  // Threads of nodes end with it, so what they use is before it.
  fabric::sim::Net net_;
  const Node coordinator_node_;
  std::unique_ptr<fabric::Port> coordinator_port_;
};

}  // namespace breccia::disagg::testing
