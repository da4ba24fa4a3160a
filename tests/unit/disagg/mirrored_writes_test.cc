#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "disagg/cluster_map.h"
#include "disagg/index/hash_server.h"
#include "disagg/index/ordered_server.h"
#include "unit/disagg/by_hand.h"
#include "unit/disagg/client_by_hand.h"

/// What clients and servers of indexes do where values have two servers, or come to have them, and
/// where one of the two goes; memory servers are played by the test.

namespace breccia::disagg {

namespace {

using namespace testing;

constexpr std::uint32_t kBlockClass = MemoryByHand::kBlockClass;

using Blocks = std::vector<Location>;

/// A hash server that waits for no ordered one, of the map.
Served<HashServer> serve_hash(Net* net, const ClusterMap& map) {
  return serve<HashServer>(net, [&map](fabric::Port* port) {
    auto server = HashServer::make(
                      port, {.table = {.bucket_bits = 1, .more_buckets = 8, .bucket_bits_max = 1},
                             .seeds = KeySeeds(),
                             .again_us = kAgainUs,
                             .meet_us = 200,
                             .mark_us = kAgainUs,
                             .is_alone = true})
                      .take();
    server->be_first();
    EXPECT_TRUE(server->follow(map, 0).ok());
    server->trust_until(kFar);
    return server;
  });
}

WireWriter put_at(const Location& block) {
  return WireWriter().add(slot_of(0, block)).add(1U).add_bytes("key");
}

/// Puts that, again while the server is busy with meeting others; the answer's number.
std::uint64_t put_soon(Hand* client, fabric::PeerId hash, std::uint32_t epoch,
                       const Location& block) {
  std::uint64_t request = 0;
  do {
    request = client->put(hash, Ask::kWrite, epoch, put_at(block));
  } while (client->code_of(request, kAgainUs) == Code::kBusy);
  return request;
}

Slot replaced_in(const std::vector<std::byte>& answer) {
  WireReader reader(answer);
  EXPECT_EQ(reader.take<Code>(), Code::kOk);
  return reader.take<Slot>();
}

}  // namespace

// Goal: what a client was leased before its server had a mirror is given back unwritten: the mirror
//   may be copying it.
// Method: of three blocks that it was leased one is written before the mirror comes.
// Mutation: blocks that are written whoever has that memory by then.
TEST(DisaggMirrored, LeasesOfBeforeAreNotWritten) {
  run_by_hand([](Net* net) {
    const auto memory = serve_memory(net), mirror = serve_memory(net);
    const auto hash = serve<HashByHand>(
        net, [](fabric::Port* port) { return std::make_unique<HashByHand>(port); });
    ClientByHand one(net, map_of(kEpoch, hash.address, memory.address, ""));
    ASSERT_TRUE(one.put().ok());
    Blocks unwritten = memory.server->leased();
    ASSERT_EQ(unwritten.size(), 3U);
    std::erase(unwritten, hash.server->written().at(0));

    const ClusterMap next = map_of(kEpoch + 1, hash.address, memory.address, mirror.address);
    one.coordinator.change(next.encode());
    ASSERT_TRUE(one.put().ok());
    const Location written = hash.server->written().at(1);
    EXPECT_EQ(std::count(unwritten.begin(), unwritten.end(), written), 0);
    for (MemoryByHand* const of : {memory.server, mirror.server}) {
      EXPECT_EQ(block_in(of->memory(), written), kValue);
      for (const Location& block : unwritten) EXPECT_EQ(block_in(of->memory(), block), "none");
    }
    ASSERT_TRUE(one.put().ok());
    Blocks back = memory.server->given_back();
    std::sort(back.begin(), back.end(),
              [](const auto& a, const auto& b) { return a.line < b.line; });
    EXPECT_EQ(back, unwritten);
  });
}

// Goal: what a client was leased long ago is neither written nor given back: it may be another's.
// Mutation: blocks that are a client's for ever.
TEST(DisaggMirrored, OldLeasesAreForgotten) {
  run_by_hand([](Net* net) {
    constexpr TimeUs kHold = 4 * kSoonUs;
    const auto memory = serve_memory(net, kHold);
    const auto hash = serve<HashByHand>(
        net, [](fabric::Port* port) { return std::make_unique<HashByHand>(port); });
    ClientByHand one(net, map_of(kEpoch, hash.address, memory.address, ""));
    ASSERT_TRUE(one.put().ok());
    const Blocks before = memory.server->leased();
    net->sleep(kHold / 2);
    ASSERT_TRUE(one.put().ok());
    ASSERT_TRUE(one.put().ok());
    for (std::size_t i : {1U, 2U}) {
      EXPECT_EQ(std::count(before.begin(), before.end(), hash.server->written().at(i)), 0);
    }
    EXPECT_TRUE(memory.server->given_back().empty());
    EXPECT_EQ(one.client->counts().lost, 2U);
  });
}

// Goal: a client does not wait for a write for longer than its block may be without an entry.
// Mutation: it waits for as long as its caller does.
TEST(DisaggMirrored, WritesAreNotWaitedForAsLongAsBlocksAreHeld) {
  run_by_hand([](Net* net) {
    constexpr TimeUs kHold = 8 * kSoonUs;
    const auto memory = serve_memory(net, kHold);
    const auto hash = serve<HashByHand>(
        net, [](fabric::Port* port) { return std::make_unique<HashByHand>(port); });
    ClientByHand one(net, map_of(kEpoch, hash.address, memory.address, ""));
    ASSERT_TRUE(one.put().ok());
    net->pause(hash.node);
    const TimeUs began = net->now_us();
    EXPECT_TRUE(one.put(2 * kHold).IsIOError());
    EXPECT_LE(net->now_us() - began, kHold / 4 + 100);
    EXPECT_EQ(one.client->counts().lost, 1U);
  });
}

// Goal: no client writes, and no hash server takes, what one of two servers would not have.
// Mutation: writes to those servers alone that were reached.
TEST(DisaggMirrored, NothingIsWrittenToOneAlone) {
  run_by_hand([](Net* net) {
    const auto memory = serve_memory(net), mirror = serve_memory(net);
    const auto by_hand = serve<HashByHand>(
        net, [](fabric::Port* port) { return std::make_unique<HashByHand>(port); });
    ClusterMap map = map_of(kEpoch, by_hand.address, memory.address, "sim:1000");
    ClientByHand one(net, map);
    EXPECT_TRUE(one.put().IsTimedOut());
    EXPECT_TRUE(memory.server->leased().empty());
    Hand client(net);
    const auto hash = serve_hash(net, map);
    const fabric::PeerId to = client.meet(hash.address);
    net->sleep(kSoonUs);
    const WireWriter put = put_at(nth_block(kBlockClass, 0));
    EXPECT_EQ(client.code_of(client.put(to, Ask::kWrite, kEpoch, put)), Code::kBusy);

    // One that is there, and is not reached any more: its block is lost.
    map = map_of(kEpoch + 1, by_hand.address, memory.address, mirror.address);
    one.coordinator.change(map.encode());
    ASSERT_TRUE(one.put().ok());
    net->pause(mirror.node);
    net->cut(one.node, mirror.node);
    EXPECT_TRUE(one.put().IsTimedOut());
    EXPECT_EQ(by_hand.server->written().size(), 1U);
    EXPECT_EQ(one.client->counts().lost, 1U);
    net->go_on(mirror.node);
    net->heal(one.node, mirror.node);
    net->sleep(kFar / 10);
    ASSERT_TRUE(one.put().ok());
    EXPECT_EQ(by_hand.server->written().at(1), memory.server->leased().at(0));
  });
}

// Goal: a hash server does nothing for who has another map: what it was sent may not lie on all
//   servers that are to have it.
// Mutation: writes, of either kind, or trust, without a look at the epoch, or with one at older
//   ones.
TEST(DisaggMirrored, WritesAreOfOneMap) {
  run_by_hand([](Net* net) {
    const auto memory = serve_memory(net);
    const auto hash = serve_hash(net, map_of(kEpoch, "", memory.address, ""));
    Hand client(net);
    const fabric::PeerId to = client.meet(hash.address);
    const Location first = nth_block(kBlockClass, 0);
    EXPECT_EQ(client.code_of(put_soon(&client, to, kEpoch, first)), Code::kOk);
    const WireWriter put = put_at(nth_block(kBlockClass, 1)),
                     erase = WireWriter().add(Slot{0}).add(0U).add_bytes("key");
    const WireWriter places = WireWriter().add(0U).add(std::uint64_t{0});
    for (const std::uint32_t other : {kEpoch - 1, kEpoch + 1}) {
      EXPECT_EQ(client.code_of(client.put(to, Ask::kWrite, other, put)), Code::kEpoch);
      EXPECT_EQ(client.code_of(client.put(to, Ask::kWrite, other, erase)), Code::kEpoch);
      EXPECT_EQ(client.code_of(client.put(to, Ask::kTrust, other, {})), Code::kEpoch);
      EXPECT_EQ(client.code_of(client.put(to, Ask::kPlaces, other, places)), Code::kEpoch);
    }
    EXPECT_EQ(hash.server->table().find(KeySeeds().id_of("key")), first);
  });
}

// Goal: ranges are for who has the newest map that the ordered server has, or has heard of from the
//   hash server: what that one logs may lie where an older map does not lead.
// Mutation: ranges without a look at the epoch; with one at the server's own map alone.
TEST(DisaggMirrored, RangesAreOfTheNewestMap) {
  run_by_hand([](Net* net) {
    const ClusterMap map = map_of(kEpoch, "", "sim:1000", "");
    const auto ordered = serve<OrderedServer>(net, [&map](fabric::Port* port) {
      auto server = std::make_unique<OrderedServer>(
          port, OrderedServer::Options{
                    .idle_us = 100, .again_us = kAgainUs, .meet_us = 100, .sorts_aside = false});
      EXPECT_TRUE(server->follow(map, 0).ok());
      server->trust_until(kFar);
      return server;
    });
    Hand hash(net), client(net);
    const fabric::PeerId of_hash = hash.meet(ordered.address);
    const fabric::PeerId to = client.meet(ordered.address);
    const WireWriter follow = WireWriter().add(Follow{.from = 0, .is_whole = 1, .seeds = {}});
    ASSERT_EQ(hash.code_of(hash.put(of_hash, Ask::kFollow, kEpoch, follow)), Code::kOk);
    const auto chains = hash.question();
    ASSERT_TRUE(chains.has_value());
    hash.answer(*chains, answer_of(Code::kOk).add(std::uint64_t{0}));  // no keys
    while (!ordered.server->is_whole()) net->sleep(100);

    const WireWriter all = WireWriter().add_bytes("").add_bytes("").add(10U).add(std::uint8_t{0});
    const auto scan = [&](std::uint32_t epoch) {
      return client.code_of(client.put(to, Ask::kScan, epoch, all));
    };
    EXPECT_EQ(scan(kEpoch - 1), Code::kEpoch);
    EXPECT_EQ(scan(kEpoch), Code::kOk);
    EXPECT_EQ(scan(kEpoch + 1), Code::kEpoch);
    const WireWriter writes = WireWriter().add(std::uint8_t{0});
    ASSERT_EQ(hash.code_of(hash.put(of_hash, Ask::kShip, kEpoch + 1, writes)), Code::kOk);
    EXPECT_EQ(scan(kEpoch), Code::kEpoch);
    EXPECT_EQ(scan(kEpoch + 1), Code::kOk);
    ClusterMap next = map;
    next.epoch = kEpoch + 2;
    ASSERT_TRUE(ordered.server->follow(next, 0).ok());
    EXPECT_EQ(scan(kEpoch + 1), Code::kEpoch);
    EXPECT_EQ(scan(kEpoch + 2), Code::kOk);
  });
}

// Goal: a mark is on the server before it is on the mirror, which may be copying the block, and on
//   both before the write is acknowledged; of a block with a mark that may come yet nobody is told.
// Method: one of the two cannot be reached for a while.
// Mutation: the mirror is marked first, or the server alone; marks that are not waited for.
TEST(DisaggMirrored, MarksAreOnBoth) {
  run_by_hand([](Net* net) {
    const auto memory = serve_memory(net), mirror = serve_memory(net);
    const auto hash = serve_hash(net, map_of(kEpoch, "", memory.address, mirror.address));
    Hand client(net);
    const fabric::PeerId to = client.meet(hash.address);
    const Blocks blocks = {nth_block(kBlockClass, 0), nth_block(kBlockClass, 1),
                           nth_block(kBlockClass, 2), nth_block(kBlockClass, 3)};
    for (const Location& block : blocks) {
      for (MemoryByHand* const of : {memory.server, mirror.server}) {
        write_block(of->memory(), block, "v");
      }
    }
    EXPECT_EQ(replaced_in(client.answer_to(put_soon(&client, to, kEpoch, blocks[0]))), 0U);
    const auto put = [&](std::size_t i) {
      return client.put(to, Ask::kWrite, kEpoch, put_at(blocks[i]));
    };
    const auto is_on = [&](MemoryByHand* of, std::size_t i) {
      return block_in(of->memory(), blocks[i]) == "v, marked";
    };
    EXPECT_EQ(replaced_in(client.answer_to(put(1))), slot_of(0, blocks[0]));
    EXPECT_TRUE(is_on(memory.server, 0) && is_on(mirror.server, 0));

    net->cut(hash.node, memory.node);
    const std::uint64_t third = put(2);
    EXPECT_FALSE(client.code_of(third).has_value());
    EXPECT_FALSE(is_on(mirror.server, 1));
    net->heal(hash.node, memory.node);
    EXPECT_EQ(replaced_in(client.answer_to(third)), 0U);
    EXPECT_TRUE(is_on(memory.server, 1) && is_on(mirror.server, 1));

    net->cut(hash.node, mirror.node);
    const std::uint64_t fourth = put(3);
    EXPECT_FALSE(client.code_of(fourth).has_value());
    EXPECT_TRUE(is_on(memory.server, 2));
    net->heal(hash.node, mirror.node);
    EXPECT_EQ(replaced_in(client.answer_to(fourth)), 0U);
    EXPECT_TRUE(is_on(mirror.server, 2));
  });
}

// Goal: while clients may read a memory server that went, as they were told that this is the hash
//   server, no write is acknowledged: it would not be marked, or lie, where they read.
// Mutation: no such wait; one if the server went alone, not its mirror.
TEST(DisaggMirrored, NothingChangesWhileAServerThatWentIsRead) {
  run_by_hand([](Net* net) {
    const auto memory = serve_memory(net), mirror = serve_memory(net);
    for (const bool goes_server : {true, false}) {
      ClusterMap map = map_of(kEpoch, "", memory.address, mirror.address);
      map.memory.front().mirror.is_whole = true;
      const auto hash = serve_hash(net, map);
      Hand client(net);
      const fabric::PeerId to = client.meet(hash.address);
      EXPECT_EQ(client.code_of(put_soon(&client, to, kEpoch, nth_block(kBlockClass, 0))),
                Code::kOk);
      constexpr TimeUs kTrustUs = 3 * kSoonUs;
      const TimeUs until = net->now_us() + kTrustUs;
      hash.server->trust_until(until);
      EXPECT_EQ(client.code_of(client.put(to, Ask::kTrust, kEpoch, {})), Code::kOk);
      hash.server->trust_until(kFar);
      const std::string& stays = goes_server ? mirror.address : memory.address;
      ASSERT_TRUE(hash.server->follow(map_of(kEpoch + 1, "", stays, ""), 0).ok());
      const std::uint64_t put = put_soon(&client, to, kEpoch + 1, nth_block(kBlockClass, 1));
      EXPECT_FALSE(client.code_of(put, until - 100 - net->now_us()).has_value());
      EXPECT_EQ(client.code_of(put), Code::kOk);
      EXPECT_GE(net->now_us(), until);
    }
  });
}

}  // namespace breccia::disagg
