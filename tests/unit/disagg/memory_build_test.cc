#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "disagg/cluster_map.h"
#include "disagg/index/hash_server.h"
#include "disagg/memory/memory_server.h"
#include "unit/disagg/by_hand.h"

/// A hash index that is made of what a memory server and its mirror have.

namespace breccia::disagg {

namespace {

using namespace testing;

constexpr std::uint32_t kEpoch = 7;
constexpr std::uint32_t kBlockClass = 1;
constexpr TimeUs kFar = 10'000'000;

ClusterMap map_of(const std::string& memory, const std::string& mirror) {
  ClusterMap map{.epoch = kEpoch, .has_begun = true, .hash = {}, .ordered = {}, .memory = {}};
  map.memory.push_back({.member = "server", .address = memory, .bytes = kChunkBytes});
  map.memory.front().mirror = {
      .member = "mirror", .address = mirror, .is_written = true, .is_whole = true};
  return map;
}

Served<MemoryServer> serve_memory(Net* net, const std::string& member) {
  return serve<MemoryServer>(net, [member](fabric::Port* port) {
    return MemoryServer::make(port, {.member = member, .bytes = kChunkBytes, .again_us = kAgainUs})
        .take();
  });
}

/// Leases as many blocks.
std::vector<Location> lease(Hand* hand, fabric::PeerId server, std::uint32_t count) {
  const WireWriter question = WireWriter().add(kBlockClass).add(count);
  const auto answer = hand->answer_to(hand->put(server, Ask::kLease, kEpoch, question));
  WireReader reader(answer);
  EXPECT_EQ(reader.take<Code>(), Code::kOk);
  std::vector<Location> blocks;
  while (reader.left() > 0) {
    blocks.push_back({.node = 0, .size_class = kBlockClass, .line = reader.take<std::uint64_t>()});
  }
  return blocks;
}

}  // namespace

// Goal: of a key that has several values the last is in the index, the others are marked on both
//   servers before anybody is told that it is whole; its writes come behind all that there were.
// Method: three values of a key, in any order of their places; a fourth that no write was taken of.
// Mutation: the first or the last in memory; others that stay, or stay on the mirror; a whole index
//   before they are marked; numbers that were given before.
TEST(DisaggMemoryBuild, LastValueCounts) {
  run_by_hand([](Net* net) {
    const std::vector<std::vector<std::uint64_t>> orders = {{1, 2, 3}, {3, 2, 1}, {2, 3, 1}};
    for (const std::vector<std::uint64_t>& order : orders) {
      const auto memory = serve_memory(net, "server"), mirror = serve_memory(net, "mirror");
      const ClusterMap map = map_of(memory.address, mirror.address);
      Hand hand(net);
      const fabric::PeerId to = hand.meet(memory.address), other = hand.meet(mirror.address);
      // Alone at first, as its mirror asks nobody here.
      ClusterMap alone = map;
      alone.memory.front().mirror = {};
      ASSERT_TRUE(memory.server->follow(alone).ok());
      const auto blocks = lease(&hand, to, 4);
      ASSERT_EQ(blocks.size(), 4U);
      ASSERT_TRUE(mirror.server->follow(map).ok());
      for (std::size_t i = 0; i < blocks.size(); ++i) {
        write_block(memory.server->memory(), blocks[i], std::to_string(i));
        std::memcpy(mirror.server->memory().data() + blocks[i].offset(),
                    memory.server->memory().data() + blocks[i].offset(), blocks[i].bytes());
        if (i == 3) continue;
        const WireWriter commit = commit_of(memory.server->memory(), blocks[i], 100 + order[i]);
        for (const fabric::PeerId peer : {to, other}) {
          ASSERT_EQ(hand.code_of(hand.put(peer, Ask::kCommit, kEpoch, commit)), Code::kOk);
        }
        ASSERT_EQ(sequence_in(mirror.server->memory(), blocks[i]), 100 + order[i]);
      }
      const auto hash = serve<HashServer>(net, [&map](fabric::Port* port) {
        auto server = HashServer::make(port, {.table = {.bucket_bits = 1, .more_buckets = 8},
                                              .seeds = KeySeeds(),
                                              .again_us = kAgainUs,
                                              .meet_us = 200})
                          .take();
        server->begin_from_memory();
        EXPECT_TRUE(server->follow(map).ok());
        server->trust_until(kFar);
        return server;
      });
      while (!hash.server->is_whole()) net->sleep(10);
      for (std::size_t i = 0; i < blocks.size(); ++i) {
        const bool is_marked = i < 3 && order[i] != 3;
        const std::string expected = std::to_string(i) + (is_marked ? ", marked" : "");
        EXPECT_EQ(block_in(memory.server->memory(), blocks[i]), expected);
        EXPECT_EQ(block_in(mirror.server->memory(), blocks[i]), expected);
        if (i < 3 && !is_marked) {
          EXPECT_EQ(hash.server->table().find(KeySeeds().id_of("key")), blocks[i]);
        }
      }
      EXPECT_EQ(hash.server->table().size(), 1U);
      const auto told = hand.answer_to(hand.put(hand.meet(hash.address), Ask::kState, kEpoch, {}));
      WireReader reader(told);
      ASSERT_EQ(reader.take<Code>(), Code::kOk);
      EXPECT_GT(reader.take<IndexState>().sequence, 103U);
    }
  });
}

}  // namespace breccia::disagg
