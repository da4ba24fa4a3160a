#include "fabric/sim/net.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/seeds.h"

/// What a simulated network does that a real one may; tests/conformance/fabric_test.cc has what all
/// promise.

namespace breccia::fabric::sim {

namespace {

constexpr TimeUs kLong = 1'000'000;

/// A node that lets others have a region, and one that is connected to it.
class Pair {
 public:
  Pair(std::uint64_t seed, const Weather& weather)
      : net_(seed, weather),
        server_(net_.add_node()),
        client_(net_.add_node()),
        server_port_(net_.open(server_)),
        client_port_(net_.open(client_)) {
    auto region = server_port_->make_region(64, Access::kReadWrite);
    EXPECT_TRUE(region.ok());
    region_ = region.take();
  }
  /// `body` of the client, connected.
  void run(const std::function<void(PeerId)>& body) {
    net_.start(client_, [&, this] {
      auto peer = client_port_->connect(server_port_->address(), net_.now_us() + kLong);
      ASSERT_TRUE(peer.ok());
      body(peer.value());
    });
    net_.run();
  }
  Net& net() { return net_; }
  [[nodiscard]] Net::Node server() const { return server_; }
  [[nodiscard]] Net::Node client() const { return client_; }
  Port& server_port() { return *server_port_; }
  Port& port() { return *client_port_; }
  Region& region() { return *region_; }
  /// All bytes of the region; the status of the read.
  Status read(PeerId peer, std::vector<std::byte>* line, TimeUs wait = kLong) {
    line->resize(64);
    const Read read{region_->name(), 0, *line};
    return client_port_->read(peer, {&read, 1}, net_.now_us() + wait);
  }

 private:
  Net net_;
  const Net::Node server_, client_;
  std::unique_ptr<Port> server_port_, client_port_;
  std::unique_ptr<Region> region_;
};

/// Nodes that let others have a region each, and one that is connected to all of them.
class Several {
 public:
  static constexpr std::size_t kNodes = 6;
  static constexpr TimeUs kWait = 500;
  static constexpr std::byte kWritten{9};

  explicit Several(std::uint64_t seed)
      : net_(seed, Weather()), reader_(net_.add_node()), port_(net_.open(reader_)) {
    for (std::size_t i = 0; i < kNodes; ++i) {
      nodes_.push_back(net_.add_node());
      ports_.push_back(net_.open(nodes_.back()));
      regions_.push_back(ports_.back()->make_region(64, Access::kReadWrite).take());
    }
  }
  /// `body` of the one, connected.
  void run(const std::function<void()>& body) {
    net_.start(reader_, [&, this] {
      for (const auto& one : ports_) {
        peers_.push_back(port_->connect(one->address(), net_.now_us() + kLong).take());
      }
      body();
    });
    net_.run();
  }
  Net& net() { return net_; }
  [[nodiscard]] std::span<std::byte> region(std::size_t node) { return regions_[node]->bytes(); }
  void cut_off(std::size_t node) { net_.cut(reader_, nodes_[node]); }
  /// Reads a byte of each, and then writes the byte behind it, in kWait each.
  void access_all() {
    const std::vector<std::byte> from(1, kWritten);
    std::vector<Read> reads;
    std::vector<Write> writes;
    for (std::size_t i = 0; i < kNodes; ++i) {
      const RegionName name = regions_[i]->name();
      reads.push_back({name, offset_of[i], std::span(found).subspan(i, 1)});
      writes.push_back({name, offset_of[i] + 1, from});
    }
    std::vector<ReadsOf> of;
    std::vector<WritesTo> to;
    for (std::size_t i = 0; i < kNodes; ++i) {
      of.push_back({peers_[i], {&reads[i], 1}});
      to.push_back({peers_[i], {&writes[i], 1}});
    }
    port_->read_all(of, net_.now_us() + kWait);
    port_->write_all(to, net_.now_us() + kWait);
    for (std::size_t i = 0; i < kNodes; ++i) {
      read[i] = of[i].status;
      written[i] = to[i].status;
    }
  }
  std::array<std::uint64_t, kNodes> offset_of = {};
  std::array<std::byte, kNodes> found = {};
  std::array<Status, kNodes> read, written;

 private:
  Net net_;
  const Net::Node reader_;
  const std::unique_ptr<Port> port_;
  std::vector<Net::Node> nodes_;
  std::vector<std::unique_ptr<Port>> ports_;
  std::vector<std::unique_ptr<Region>> regions_;
  std::vector<PeerId> peers_;
};

}  // namespace

// Goal: a seed decides all that happens.
// Method: two runs of each seed, and what everybody saw when.
TEST(FabricNet, SeedsReplay) {
  const auto trace_of = [](std::uint64_t seed) {
    std::string trace;
    Weather weather;
    weather.lost_one_in = weather.twice_one_in = weather.overtaken_one_in = 5;
    Pair pair(seed, weather);
    pair.net().start(pair.server(), [&] {
      while (const auto arrival = pair.server_port().poll(pair.net().now_us() + 10'000)) {
        trace += std::to_string(arrival->header.request) + "@" +
                 std::to_string(pair.net().now_us()) + " ";
      }
    });
    pair.run([&](PeerId peer) {
      for (std::uint64_t i = 0; i < 20; ++i) {
        EXPECT_TRUE(pair.port().send(peer, {.request = i}, {}, kLong).ok());
        pair.net().sleep(pair.net().random().below(10));
      }
    });
    return trace;
  };
  for (const std::uint64_t seed : testing::seeds_to_run(100)) {
    SCOPED_TRACE(testing::replay_command(seed));
    EXPECT_EQ(trace_of(seed), trace_of(seed));
    EXPECT_NE(trace_of(seed), trace_of(seed + 1));
  }
}

// Goal: what may happen does: torn reads, messages that are lost, come twice, late, or not as they
//   were sent, which nobody sees.
TEST(FabricNet, TheWeatherIsBad) {
  std::uint64_t torn = 0, lost = 0, twice = 0, overtaken = 0;
  for (const std::uint64_t seed : testing::seeds_to_run(200)) {
    SCOPED_TRACE(testing::replay_command(seed));
    Weather weather;
    weather.lost_one_in = weather.twice_one_in = weather.overtaken_one_in = 8;
    weather.damaged_one_in = 8;
    Pair pair(seed, weather);
    bool is_over = false;
    std::vector<std::uint64_t> came;
    pair.net().start(pair.server(), [&] {
      for (int turn = 1; !is_over; ++turn) {
        std::ranges::fill(pair.region().bytes(), static_cast<std::byte>(turn));
        const auto arrival = pair.server_port().poll(pair.net().now_us() + 5);
        if (!arrival.has_value()) continue;
        ASSERT_EQ(arrival->payload, std::vector<std::byte>(8, std::byte{7}));
        came.push_back(arrival->header.request);
      }
    });
    pair.run([&](PeerId peer) {
      const std::vector<std::byte> payload(8, std::byte{7});
      std::vector<std::byte> line;
      for (std::uint64_t i = 0; i < 20; ++i) {
        EXPECT_TRUE(pair.port().send(peer, {.request = i}, payload, kLong).ok());
        EXPECT_TRUE(pair.read(peer, &line).ok());
        if (std::ranges::count(line, line.front()) < 64) ++torn;
      }
      pair.net().sleep(10'000);
      is_over = true;
    });
    if (!std::ranges::is_sorted(came)) ++overtaken;
    std::ranges::sort(came);
    if (std::ranges::adjacent_find(came) != came.end()) ++twice;
    came.erase(std::unique(came.begin(), came.end()), came.end());
    lost += 20 - came.size();
  }
  for (const std::uint64_t count : {torn, lost, twice, overtaken}) EXPECT_GT(count, 0U);
}

// Goal: who waits for a node that is dead, hangs, or is cut off waits until its time is over, and
//   not longer; the memory of one that hangs can be read, that of one that is dead cannot.
TEST(FabricNet, NodesThatDoNotAnswer) {
  for (const std::uint64_t seed : testing::seeds_to_run(200)) {
    SCOPED_TRACE(testing::replay_command(seed));
    Pair pair(seed, Weather());
    pair.net().let_serve(pair.server());
    std::uint64_t turns = 0;
    pair.net().start(pair.server(), [&] {
      while (true) {
        (void)pair.server_port().poll(pair.net().now_us() + 10);
        ++turns;
      }
    });
    pair.run([&](PeerId peer) {
      std::vector<std::byte> line;
      pair.net().pause(pair.server());
      const std::uint64_t before = turns;
      EXPECT_TRUE(pair.read(peer, &line).ok());
      pair.net().sleep(1000);
      EXPECT_EQ(turns, before);
      pair.net().go_on(pair.server());
      pair.net().cut(pair.server(), pair.client());
      const TimeUs begin = pair.net().now_us();
      EXPECT_TRUE(pair.read(peer, &line, 500).IsTimedOut());
      EXPECT_GE(pair.net().now_us(), begin + 500);
      EXPECT_LE(pair.net().now_us(), begin + 510);
      EXPECT_GT(turns, before);
      pair.net().heal(pair.server(), pair.client());
      EXPECT_TRUE(pair.read(peer, &line).ok());
      pair.net().kill(pair.server());
      const Status dead = pair.read(peer, &line, 500);
      EXPECT_TRUE(dead.IsTimedOut() || dead.IsIOError()) << dead.ToString();
      const auto again =
          pair.port().connect(pair.server_port().address(), pair.net().now_us() + 500);
      EXPECT_TRUE(again.status().IsTimedOut());
    });
  }
}

// Goal: what is read of several nodes in one call is read of all of them at once, in any order, and
//   takes no longer than one of them; so it is with what is written.
// Method: memory of six nodes that changes at one moment everywhere.
// Mutation: nodes one behind the other, in one order or another.
TEST(FabricNet, SeveralNodesAtOnce) {
  // There and back of both calls, each at most 20 us; and a moment for each that goes on.
  constexpr TimeUs kAtOnce = 2 * 2 * 20 + 8 * Several::kNodes;
  std::uint64_t later = 0, earlier = 0;  // than what was read of the first node
  for (const std::uint64_t seed : testing::seeds_to_run(200)) {
    SCOPED_TRACE(testing::replay_command(seed));
    Several several(seed);
    Net& net = several.net();
    net.start(net.add_node(), [&] {
      constexpr TimeUs kOver = 5000;
      for (std::uint8_t turn = 1; net.now_us() < kOver; ++turn, net.sleep(1)) {
        for (std::size_t i = 0; i < Several::kNodes; ++i) several.region(i)[0] = std::byte{turn};
      }
    });
    several.run([&] {
      for (int i = 0; i < 10; ++i) {
        const TimeUs begin = net.now_us();
        several.access_all();
        EXPECT_LE(net.now_us() - begin, kAtOnce);
        for (std::size_t n = 0; n < Several::kNodes; ++n) {
          ASSERT_TRUE(several.read[n].ok() && several.written[n].ok());
          EXPECT_EQ(std::exchange(several.region(n)[1], std::byte{0}), Several::kWritten);
          const auto than_first = static_cast<std::int8_t>(std::to_integer<int>(several.found[n]) -
                                                           std::to_integer<int>(several.found[0]));
          later += than_first > 0 ? 1 : 0;
          earlier += than_first < 0 ? 1 : 0;
        }
      }
    });
  }
  EXPECT_GT(later, 0U);
  EXPECT_GT(earlier, 0U);
}

// Goal: a seed decides what is read of several nodes, and when.
TEST(FabricNet, SeveralNodesReplay) {
  const auto trace_of = [](std::uint64_t seed) {
    std::string trace;
    Several several(seed);
    Net& net = several.net();
    net.start(net.add_node(), [&] {
      for (int turn = 0; turn < 1000; ++turn, net.sleep(1)) {
        for (std::size_t i = 0; i < Several::kNodes; ++i) {
          several.region(i)[0] = static_cast<std::byte>(turn);
        }
      }
    });
    several.run([&] {
      for (int i = 0; i < 5; ++i) {
        several.access_all();
        trace += std::to_string(net.now_us()) + ":";
        for (const std::byte one : several.found)
          trace += std::to_string(std::to_integer<int>(one)) + " ";
      }
    });
    return trace;
  };
  for (const std::uint64_t seed : testing::seeds_to_run(100)) {
    SCOPED_TRACE(testing::replay_command(seed));
    EXPECT_EQ(trace_of(seed), trace_of(seed));
    EXPECT_NE(trace_of(seed), trace_of(seed + 1));
  }
}

// Goal: each of several nodes says what came of it, as if nobody else had been read, or written to.
// Method: one of them is cut off, and of one something is read that it does not have.
// Mutation: one status for all; a call that is over when one of its nodes is; one whose nodes have
//   the time that they may take one behind the other.
TEST(FabricNet, EachOfSeveralNodesSaysWhatCameOfIt) {
  constexpr std::size_t kCutOff = 1, kRefuses = 4;
  for (const std::uint64_t seed : testing::seeds_to_run(200)) {
    SCOPED_TRACE(testing::replay_command(seed));
    Several several(seed);
    several.run([&] {
      Net& net = several.net();
      several.cut_off(kCutOff);
      several.offset_of[kRefuses] = 64;
      const TimeUs begin = net.now_us();
      several.access_all();
      EXPECT_GE(net.now_us(), begin + 2 * Several::kWait);
      EXPECT_LE(net.now_us(), begin + 2 * Several::kWait + 20);
      for (std::size_t n = 0; n < Several::kNodes; ++n) {
        const Status &read = several.read[n], &written = several.written[n];
        EXPECT_EQ(read.IsTimedOut(), n == kCutOff) << n;
        EXPECT_EQ(written.IsTimedOut(), n == kCutOff) << n;
        EXPECT_EQ(read.IsInvalidArgument(), n == kRefuses) << n;
        EXPECT_EQ(written.IsIOError(), n == kRefuses) << n;  // it is not listened to any more
        EXPECT_EQ(read.ok(), n != kCutOff && n != kRefuses) << n;
        EXPECT_EQ(written.ok(), n != kCutOff && n != kRefuses) << n;
      }
    });
  }
}

// Goal: what a thread of a killed node has goes with it, wherever it is.
// Method: threads that own something, killed at any time (AddressSanitizer).
TEST(FabricNet, KilledNodesLeaveNothing) {
  for (const std::uint64_t seed : testing::seeds_to_run(200)) {
    SCOPED_TRACE(testing::replay_command(seed));
    const auto token = std::make_shared<int>(1);
    {
      Net net(seed, Weather());
      const Net::Node victim = net.add_node(), other = net.add_node();
      for (int i = 0; i < 3; ++i) {
        net.start(victim, [&net, victim, mine = token] {
          const std::unique_ptr<Port> port = net.open(victim);
          auto region = port->make_region(100, Access::kRead);
          ASSERT_TRUE(region.ok());
          while (true) {
            const std::shared_ptr<int> more = mine;
            (void)port->poll(net.now_us() + 50);
            net.sleep(net.random().below(100));
          }
        });
      }
      net.start(other, [&] {
        net.sleep(net.random().below(2000));
        net.kill(victim);
      });
      net.run();
      EXPECT_EQ(token.use_count(), 1);
    }
  }
}

}  // namespace breccia::fabric::sim
