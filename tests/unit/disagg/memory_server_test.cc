#include <gtest/gtest.h>

#include <vector>

#include "disagg/memory/memory_server.h"
#include "unit/disagg/by_hand.h"

/// Memory servers that have a mirror, or are to have one, which is played by the test.

namespace breccia::disagg {

namespace {

using namespace testing;

constexpr std::uint32_t kBlockClass = 1;
constexpr std::uint32_t kEpoch = 7;

ClusterMap map_of(std::uint32_t epoch, const ClusterMap::Mirror& mirror) {
  ClusterMap map{.epoch = epoch, .has_begun = true, .hash = {}, .ordered = {}, .memory = {}};
  map.memory.push_back({.member = "server", .address = "", .bytes = 2 * kChunkBytes});
  map.memory.front().mirror = mirror;
  return map;
}

/// A server of memory that has a mirror, or is to have one; it tells that of a chunk at once.
Served<MemoryServer> serve_memory(Net* net, const ClusterMap::Mirror& mirror) {
  return serve<MemoryServer>(net, [mirror](fabric::Port* port) {
    auto made = MemoryServer::make(
        port,
        {.member = "server", .bytes = 2 * kChunkBytes, .again_us = kAgainUs, .part_bytes = 1});
    EXPECT_TRUE(made.value()->follow(map_of(kEpoch, mirror)).ok());
    return made.take();
  });
}

WireWriter lease_of(std::uint32_t count) { return WireWriter().add(kBlockClass).add(count); }
WireWriter use_from(std::uint64_t chunk) { return WireWriter().add_bytes("mirror").add(chunk); }
WireWriter block_as_told(std::uint64_t line) { return WireWriter().add(kBlockClass).add(line); }

/// The first line of those that were leased.
std::uint64_t line_in(const std::vector<std::byte>& answer) {
  WireReader reader(answer);
  EXPECT_EQ(reader.take<Code>(), Code::kOk);
  return reader.take<std::uint64_t>();
}

/// What a server tells its mirror of one block.
struct Told {
  bool is_lease;
  std::uint64_t line;
  friend bool operator==(const Told&, const Told&) = default;
};
Told told_in(const fabric::Arrival& question) {
  EXPECT_EQ(question.header.kind, static_cast<std::uint8_t>(Ask::kKeep));
  WireReader reader(question.payload);
  const bool is_lease = reader.take<std::uint8_t>() == 1;
  EXPECT_EQ(reader.take<std::uint32_t>(), kBlockClass);
  const auto line = reader.take<std::uint64_t>();
  EXPECT_TRUE(reader.is_whole());
  return {.is_lease = is_lease, .line = line};
}

}  // namespace

// Goal: who has another map, an older one or a newer one, is neither leased blocks nor gives any
//   back: it may not write all servers that are to have what it writes.
// Mutation: leases, or blocks given back, without a look at the epoch, or with one at older ones.
TEST(DisaggMemoryServer, LeasesAreOfOneMap) {
  run_by_hand([](Net* net) {
    const auto served = serve_memory(net, {});
    Hand client(net);
    const fabric::PeerId server = client.meet(served.address);
    const std::uint64_t line =
        line_in(client.answer_to(client.put(server, Ask::kLease, kEpoch, lease_of(1))));
    for (const std::uint32_t other : {kEpoch - 1, kEpoch + 1}) {
      const std::uint64_t lease = client.put(server, Ask::kLease, other, lease_of(1));
      EXPECT_EQ(client.code_of(lease), Code::kEpoch);
      const std::uint64_t back = client.put(server, Ask::kGiveBack, other, block_as_told(line));
      EXPECT_EQ(client.code_of(back), Code::kEpoch);
      EXPECT_EQ(served.server->pool().used_blocks(), 1U);
    }
  });
}

// Goal: a server whose mirror has not heard which blocks are in use, all of them, changes nothing.
// Method: there are two pages to hear; somebody else comes, and the same mirror once more.
// Mutation: blocks that are leased, or taken back, as soon as the server has a mirror, or has told
//   it the first page; a mirror of another name; one that is told what changes by a connection by
//   which it was not told what was in use.
TEST(DisaggMemoryServer, HearsWhatIsInUseBeforeThatChanges) {
  run_by_hand([](Net* net) {
    const auto served = serve_memory(net, {});
    Hand client(net), mirror(net);
    const fabric::PeerId server = client.meet(served.address);
    const fabric::PeerId of = mirror.meet(served.address);
    const auto lease = [&](std::uint32_t epoch) {
      return client.code_of(client.put(server, Ask::kLease, epoch, lease_of(1)));
    };
    const auto use = [&](fabric::PeerId peer, const WireWriter& from) {
      return mirror.code_of(mirror.put(peer, Ask::kUse, kEpoch + 1, from));
    };
    EXPECT_EQ(lease(kEpoch), Code::kOk);
    const ClusterMap::Mirror comes{.member = "mirror", .address = "a"};
    ASSERT_TRUE(served.server->follow(map_of(kEpoch + 1, comes)).ok());
    EXPECT_EQ(lease(kEpoch + 1), Code::kBusy);
    EXPECT_EQ(use(of, WireWriter().add_bytes("other").add(std::uint64_t{0})), Code::kEpoch);
    EXPECT_EQ(use(of, use_from(2)), Code::kBusy);
    EXPECT_EQ(use(of, use_from(0)), Code::kOk);
    EXPECT_EQ(lease(kEpoch + 1), Code::kBusy);
    EXPECT_EQ(use(of, use_from(1)), Code::kOk);
    EXPECT_EQ(use(of, use_from(2)), Code::kOk);
    const fabric::PeerId other = mirror.meet(served.address);
    EXPECT_EQ(use(other, use_from(2)), Code::kBusy);
    EXPECT_EQ(served.server->pool().used_blocks(), 1U);
    EXPECT_EQ(lease(kEpoch + 1), std::nullopt);
    const auto told = mirror.question();
    ASSERT_TRUE(told.has_value());
    EXPECT_EQ(told->peer, of);
  });
}

// Goal: a client hears of blocks, leased or given back, when the mirror has that, and not before.
// Mutation: answers that do not wait for the mirror's.
TEST(DisaggMemoryServer, ClientsAreAnsweredBehindIt) {
  run_by_hand([](Net* net) {
    const auto served = serve_memory(net, {.member = "mirror", .address = "a"});
    Hand client(net), mirror(net);
    const fabric::PeerId server = client.meet(served.address);
    const fabric::PeerId of = mirror.meet(served.address);
    ASSERT_EQ(mirror.code_of(mirror.put(of, Ask::kUse, kEpoch, use_from(0))), Code::kOk);

    const std::uint64_t lease = client.put(server, Ask::kLease, kEpoch, lease_of(1));
    auto told = mirror.question();
    ASSERT_TRUE(told.has_value());
    EXPECT_FALSE(client.code_of(lease).has_value());
    mirror.answer(*told, answer_of(Code::kOk));
    const std::uint64_t line = line_in(client.answer_to(lease));
    EXPECT_EQ(told_in(*told), (Told{.is_lease = true, .line = line}));

    // What it was asked once more before it answered.
    while (mirror.question(0).has_value()) continue;
    const std::uint64_t back = client.put(server, Ask::kGiveBack, kEpoch, block_as_told(line));
    told = mirror.question();
    ASSERT_TRUE(told.has_value());
    EXPECT_EQ(told_in(*told), (Told{.is_lease = false, .line = line}));
    EXPECT_FALSE(client.code_of(back).has_value());
    mirror.answer(*told, answer_of(Code::kOk));
    EXPECT_EQ(client.code_of(back), Code::kOk);
  });
}

// Goal: what the mirror has not heard when it goes is not leased, and free again; what was given
//   back stays so.
// Mutation: such blocks stay in use, or their clients get them.
TEST(DisaggMemoryServer, GoesBeforeItHasHeard) {
  run_by_hand([](Net* net) {
    const auto served = serve_memory(net, {.member = "mirror", .address = "a"});
    Hand client(net), mirror(net);
    const fabric::PeerId server = client.meet(served.address);
    const fabric::PeerId of = mirror.meet(served.address);
    ASSERT_EQ(mirror.code_of(mirror.put(of, Ask::kUse, kEpoch, use_from(0))), Code::kOk);
    const std::uint64_t first = client.put(server, Ask::kLease, kEpoch, lease_of(1));
    const auto told = mirror.question();
    ASSERT_TRUE(told.has_value());
    mirror.answer(*told, answer_of(Code::kOk));
    const std::uint64_t line = line_in(client.answer_to(first));

    const std::uint64_t back = client.put(server, Ask::kGiveBack, kEpoch, block_as_told(line));
    const std::uint64_t lease = client.put(server, Ask::kLease, kEpoch, lease_of(2));
    EXPECT_FALSE(client.code_of(lease).has_value());
    EXPECT_EQ(served.server->pool().used_blocks(), 2U);
    mirror.port()->disconnect(of);
    EXPECT_EQ(client.code_of(lease), Code::kBusy);
    EXPECT_EQ(client.code_of(back), Code::kOk);
    EXPECT_EQ(served.server->pool().used_blocks(), 0U);
    EXPECT_EQ(client.code_of(client.put(server, Ask::kLease, kEpoch, lease_of(1))), Code::kBusy);
  });
}

// Goal: so it is where the mirror says that what it hears makes no sense, or the map has another
//   mirror; either is to hear all anew.
// Mutation: a mirror that is told the same again, or another one that has not heard all.
TEST(DisaggMemoryServer, TellsAllAnew) {
  run_by_hand([](Net* net) {
    for (const bool is_refused : {true, false}) {
      const ClusterMap::Mirror first{.member = "mirror", .address = "a"};
      const auto served = serve_memory(net, first);
      Hand client(net), mirror(net);
      const fabric::PeerId server = client.meet(served.address);
      const fabric::PeerId of = mirror.meet(served.address);
      ASSERT_EQ(mirror.code_of(mirror.put(of, Ask::kUse, kEpoch, use_from(0))), Code::kOk);
      const std::uint64_t lease = client.put(server, Ask::kLease, kEpoch, lease_of(1));
      const auto told = mirror.question();
      ASSERT_TRUE(told.has_value());
      const std::uint32_t epoch = is_refused ? kEpoch : kEpoch + 1;
      if (is_refused) {
        mirror.answer(*told, refusal(Code::kWrong, "no change"));
      } else {
        const ClusterMap::Mirror other{.member = "other", .address = "b"};
        ASSERT_TRUE(served.server->follow(map_of(epoch, other)).ok());
      }
      EXPECT_EQ(client.code_of(lease), Code::kBusy);
      EXPECT_EQ(served.server->pool().used_blocks(), 0U);
      EXPECT_EQ(client.code_of(client.put(server, Ask::kLease, epoch, lease_of(1))), Code::kBusy);
    }
  });
}

// Goal: a server is what the map says, if it can be: a mirror leases nothing, nor takes its
//   server's place before it has all; who has values is no mirror, and keeps its number; where
//   values are to have two servers, and have one, nothing is leased.
// Mutation: each of these without a look.
TEST(DisaggMemoryServer, IsWhatItCanBe) {
  run_by_hand([](Net* net) {
    const auto served = serve_memory(net, {});
    Hand client(net);
    const fabric::PeerId server = client.meet(served.address);
    const auto lease = [&](std::uint32_t epoch) {
      return client.code_of(client.put(server, Ask::kLease, epoch, lease_of(1)));
    };
    const ClusterMap is_server = map_of(kEpoch + 1, {});
    ClusterMap is_mirror = map_of(kEpoch + 1, {.member = "server", .address = served.address});
    is_mirror.memory.front().member = "other";
    is_mirror.memory.front().address = "sim:1000";
    ASSERT_TRUE(served.server->follow(is_mirror).ok());
    EXPECT_EQ(lease(kEpoch + 1), Code::kEpoch);
    EXPECT_TRUE(served.server->follow(is_server).IsAborted());

    const auto second = serve_memory(net, {});
    const fabric::PeerId to = client.meet(second.address);
    ClusterMap waits = is_server;
    waits.memory.front().is_in_use = false;
    ASSERT_TRUE(second.server->follow(waits).ok());
    const std::uint64_t early = client.put(to, Ask::kLease, kEpoch + 1, lease_of(1));
    EXPECT_EQ(client.code_of(early), Code::kBusy);
    ASSERT_TRUE(second.server->follow(is_server).ok());
    const std::uint64_t first = client.put(to, Ask::kLease, kEpoch + 1, lease_of(1));
    EXPECT_EQ(client.code_of(first), Code::kOk);
    EXPECT_TRUE(second.server->follow(is_mirror).IsAborted());
    ClusterMap other = is_server;
    other.memory.front().node = 1;
    EXPECT_TRUE(second.server->follow(other).IsAborted());
  });
}

}  // namespace breccia::disagg
