#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "disagg/cluster_map.h"
#include "disagg/coordinator/remote_coordinator.h"
#include "disagg/index/hash_server.h"
#include "unit/disagg/by_hand.h"
#include "unit/disagg/client_by_hand.h"
#include "unit/disagg/slow_port.h"

/// What a server that stands still, or one of another version, costs those who need it.

namespace breccia::disagg {

namespace {

using namespace testing;

constexpr std::uint64_t kLogBytes = 4000;
const std::string kLongKey(100, 'k');

/// A hash server of the map, whose log is short.
Served<HashServer> serve_hash(Net* net, const ClusterMap& map) {
  return serve<HashServer>(net, [&map](fabric::Port* port) {
    auto server = HashServer::make(
                      port, {.table = {.bucket_bits = 1, .more_buckets = 64, .bucket_bits_max = 1},
                             .seeds = KeySeeds(),
                             .again_us = kAgainUs,
                             .meet_us = 200,
                             .mark_us = kAgainUs,
                             .log_bytes_max = kLogBytes})
                      .take();
    server->be_first();
    EXPECT_TRUE(server->follow(map, 0).ok());
    server->trust_until(kFar);
    return server;
  });
}

/// An ordered server whose log the test has.
class OrderedByHand {
 public:
  explicit OrderedByHand(Net* net) : hand_(net) {}

  [[nodiscard]] std::string address() const { return hand_.port()->address(); }
  void be_met() {
    const auto follow = hand_.question();
    ASSERT_TRUE(follow.has_value());
    ASSERT_EQ(follow->header.kind, static_cast<std::uint8_t>(Ask::kFollow));
    hand_.answer(*follow, answer_of(Code::kOk).add(Followed{.through = 0, .is_whole = 1}));
  }
  /// Logs what has come, until nothing does for a while. How many questions there were.
  std::uint64_t log_all() {
    std::uint64_t questions = 0;
    for (; const auto ship = hand_.question(); ++questions) {
      WireReader reader(ship->payload);
      EXPECT_EQ(reader.take<std::uint8_t>(), 0);  // it tells nothing
      std::uint64_t through = 0;
      while (reader.left() > 0) {
        LoggedWrite write = LoggedWrite::taken_from(&reader);
        through = write.sequence;
        if (through > log.size()) log.push_back(std::move(write));
        EXPECT_LE(through, log.size());
      }
      hand_.answer(*ship, answer_of(Code::kOk).add(Logged{.through = through}));
    }
    return questions;
  }
  std::vector<LoggedWrite> log;

 private:
  Hand hand_;
};

IndexState state_of(Hand* client, fabric::PeerId hash) {
  const auto answer = client->answer_to(client->put(hash, Ask::kState, kEpoch, {}));
  WireReader reader(answer);
  EXPECT_EQ(reader.take<Code>(), Code::kOk);
  return reader.take<IndexState>();
}

}  // namespace

// Goal: while an ordered server stands still the hash server holds a log's length of writes, and
//   tells all others to try again, of which nothing happened; all goes on when it is back.
// Method: a hundred times as many deletions as there is room for, and puts of clients that put
//   questions again behind this time or that.
// Mutation: a log without a bound; writes that wait and are answered before they are logged, or are
//   counted for good; a client that puts its question again when there is no time for an answer.
TEST(DisaggBounds, WritesWaitForAnOrderedServerThatStandsStill) {
  run_by_hand([](Net* net) {
    const auto memory = serve_memory(net);
    OrderedByHand ordered(net);
    ClusterMap map = map_of(kEpoch, "", memory.address, "");
    map.shards[0].ordered = {.member = "ordered", .address = ordered.address(), .is_whole = true};
    const auto hash = serve_hash(net, map);
    map.shards[0].hash.address = hash.address;
    ordered.be_met();
    Hand client(net);
    const fabric::PeerId to = client.meet(hash.address);
    const auto erase = [&](int i) {
      const std::string key = kLongKey + std::to_string(i);
      return client.put(to, Ask::kWrite, kEpoch,
                        WireWriter().add(Slot{0}).add(std::uint32_t{0}).add_bytes(key));
    };
    std::vector<std::uint64_t> taken;
    for (int i = 0; i < 4000; ++i) {
      const std::uint64_t request = erase(i);
      const auto code = client.code_of(request, 100);
      if (!code.has_value()) taken.push_back(request);
      EXPECT_TRUE(!code.has_value() || code == Code::kBusy);
    }
    EXPECT_GE(taken.size(), 2U);
    EXPECT_LE(taken.size(), kLogBytes / (2 * kLongKey.size()) + 1);
    const IndexState state = state_of(&client, to);
    EXPECT_EQ(state.waiting, taken.size());
    EXPECT_EQ(state.sequence, 0U);
    for (TimeUs again_us = kAgainUs; again_us < 2 * kAgainUs; again_us += 7) {
      ClientByHand one(net, map, again_us);
      const Status refused = one.put();
      EXPECT_TRUE(refused.IsTimedOut()) << again_us << ": " << refused.ToString();
    }

    EXPECT_GE(ordered.log_all(), 2U);
    EXPECT_EQ(ordered.log.size(), taken.size());
    for (const std::uint64_t request : taken) EXPECT_EQ(client.code_of(request), Code::kOk);
    const std::uint64_t more = erase(0);
    ordered.log_all();
    EXPECT_EQ(client.code_of(more), Code::kOk);
    EXPECT_EQ(state_of(&client, to).waiting, 0U);
  });
}

// Goal: who cannot read the cluster's map says so at once, and goes on with one that it can.
// Mutation: it waits for another map for as long as it may.
TEST(DisaggBounds, MapsOfAnotherVersionAreToldSo) {
  run_by_hand([](Net* net) {
    const auto memory = serve_memory(net);
    const auto hash = serve<HashByHand>(
        net, [](fabric::Port* port) { return std::make_unique<HashByHand>(port); });
    const std::string map = map_of(kEpoch, hash.address, memory.address, "").encode();
    std::string other = map;
    const std::string version = "\"version\":3";
    other.replace(other.find(version), version.size(), "\"version\":1");
    ClientByHand one(net, map_of(kEpoch, hash.address, memory.address, ""));
    ASSERT_TRUE(one.put().ok());
    one.coordinator.change(other);
    const TimeUs begin = net->now_us();
    EXPECT_TRUE(one.put().IsNotSupported());
    std::string value;
    EXPECT_TRUE(one.client->get("key", &value, begin + kFar).IsNotSupported());
    FixedCoordinator newer(other);
    const auto opened = Client::open(one.port.get(), &newer, {}, begin + kFar);
    EXPECT_TRUE(opened.status().IsNotSupported());
    EXPECT_LE(net->now_us() - begin, kAgainUs);
    one.coordinator.change(map);
    EXPECT_TRUE(one.put().ok());
    EXPECT_EQ(hash.server->written().size(), 2U);
  });
}

// Goal: who meets a coordinator of another version says so at once, and waits for one that is not
//   there; what was said once is not said of the next one.
// Mutation: both are waited for; neither is; the last try is told of for ever.
TEST(DisaggBounds, CoordinatorsOfAnotherVersionAreToldSo) {
  SlowPort port;
  RemoteCoordinator coordinator(&port, {.address = "there"});
  const auto open = [&](const Status& connects_with) {
    port.connects_with = connects_with;
    const TimeUs begin = port.now;
    const Status opened = Client::open(&port, &coordinator, {}, begin + kFar).status();
    return std::pair(opened, port.now - begin);
  };
  const auto [other, soon] = open(Status::InvalidArgument("there speaks another version"));
  EXPECT_TRUE(other.IsInvalidArgument()) << other.ToString();
  EXPECT_LE(soon, kAgainUs);
  const auto [none, late] = open(Status::IOError("nobody is there"));
  EXPECT_TRUE(none.IsTimedOut()) << none.ToString();
  EXPECT_GE(late, kFar);
}

// Goal: a server that stood still is written again within as long as that took, and one that stands
//   still for long costs few blocks.
// Mutation: it is avoided for half a second whatever it was; for a moment each time; not where it
//   does not answer.
TEST(DisaggBounds, AServerThatStoodStillIsSoonWritten) {
  run_by_hand([](Net* net) {
    const auto memory = serve_memory(net);
    const auto hash = serve<HashByHand>(
        net, [](fabric::Port* port) { return std::make_unique<HashByHand>(port); });
    ClientByHand one(net, map_of(kEpoch, hash.address, memory.address, ""));
    ASSERT_TRUE(one.put().ok());
    struct Still {
      TimeUs us, again_us;
      std::uint64_t lost;
    };
    for (const Still still : {Still{30'000, 40'000, 2}, Still{kFar / 2, 600'000, 60}}) {
      net->sleep(kFar / 10);
      const std::uint64_t lost = one.client->counts().lost;
      net->cut(one.node, memory.node);
      const TimeUs ends = net->now_us() + still.us;
      while (net->now_us() < ends) EXPECT_FALSE(one.put().ok());
      net->heal(one.node, memory.node);
      const TimeUs healed = net->now_us();
      EXPECT_TRUE(one.put(kFar).ok());
      EXPECT_LE(net->now_us() - healed, still.again_us);
      EXPECT_LE(one.client->counts().lost - lost, still.lost);
    }
  });
}

}  // namespace breccia::disagg
