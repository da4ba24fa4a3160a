#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
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
  ClusterMap map{.epoch = kEpoch, .shards = {{.has_begun = true}}};
  map.memory.push_back({.member = "server", .address = memory, .bytes = kChunkBytes});
  map.memory.front().mirror = {
      .member = "mirror", .address = mirror, .written_by = 1, .is_whole = true};
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

/// A memory server and its mirror that have the same blocks, some values of one key.
class Pair {
 public:
  explicit Pair(Net* net, std::uint32_t count)
      : net_(net),
        hand_(net),
        server_(serve_memory(net, "server")),
        mirror_(serve_memory(net, "mirror")),
        map_(map_of(server_.address, mirror_.address)) {
    // Alone at first: who has a mirror leases nothing before that has heard what is in use.
    ClusterMap alone = map_;
    alone.memory.front().mirror = {};
    EXPECT_TRUE(server_.server->follow(alone).ok());
    to_server_ = hand_.meet(server_.address);
    to_mirror_ = hand_.meet(mirror_.address);
    blocks_ = lease(&hand_, to_server_, count);
    EXPECT_TRUE(server_.server->follow(map_).ok() && mirror_.server->follow(map_).ok());
    while (!mirror_.server->mirror()->is_whole()) net->sleep(100);
    for (std::uint32_t i = 0; i < count; ++i) {
      write_block(server(), blocks_.at(i), std::to_string(i));
      std::memcpy(mirror().data() + blocks_[i].offset(), server().data() + blocks_[i].offset(),
                  blocks_[i].bytes());
    }
  }
  [[nodiscard]] std::span<std::byte> server() { return server_.server->memory(); }
  [[nodiscard]] std::span<std::byte> mirror() { return mirror_.server->memory(); }
  [[nodiscard]] const std::vector<Location>& blocks() const { return blocks_; }
  void tell_server(std::size_t block, std::uint64_t sequence) { tell(to_server_, block, sequence); }
  void tell_mirror(std::size_t block, std::uint64_t sequence) { tell(to_mirror_, block, sequence); }
  /// Makes a hash index of what they have; the sequence that it begins behind.
  std::uint64_t build() {
    const auto hash = serve<HashServer>(net_, [this](fabric::Port* port) {
      auto server = HashServer::make(port, {.table = {.bucket_bits = 1, .more_buckets = 8},
                                            .seeds = KeySeeds(),
                                            .again_us = kAgainUs,
                                            .meet_us = 200})
                        .take();
      server->begin_from_memory();
      EXPECT_TRUE(server->follow(map_, 0).ok());
      server->trust_until(kFar);
      return server;
    });
    while (!hash.server->is_whole()) net_->sleep(10);
    EXPECT_EQ(hash.server->table().size(), 1U);
    found_ = hash.server->table().find(KeySeeds().id_of("key"));
    const auto told = hand_.answer_to(hand_.put(hand_.meet(hash.address), Ask::kState, kEpoch, {}));
    WireReader reader(told);
    EXPECT_EQ(reader.take<Code>(), Code::kOk);
    return reader.take<IndexState>().sequence;
  }
  [[nodiscard]] std::optional<Location> found() const { return found_; }

 private:
  void tell(fabric::PeerId peer, std::size_t block, std::uint64_t sequence) {
    const WireWriter commit = commit_of(server(), blocks_.at(block), sequence);
    EXPECT_EQ(hand_.code_of(hand_.put(peer, Ask::kCommit, kEpoch, commit)), Code::kOk);
  }

  Net* const net_;
  Hand hand_;
  Served<MemoryServer> server_, mirror_;
  const ClusterMap map_;
  fabric::PeerId to_server_ = 0, to_mirror_ = 0;
  std::vector<Location> blocks_;
  std::optional<Location> found_;
};

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
      Pair one(net, 4);
      for (std::size_t i = 0; i < 3; ++i) {
        one.tell_server(i, 100 + order[i]);
        one.tell_mirror(i, 100 + order[i]);
      }
      EXPECT_GT(one.build(), 103U);
      for (std::size_t i = 0; i < 4; ++i) {
        const bool is_marked = i < 3 && order[i] != 3;
        const std::string expected = std::to_string(i) + (is_marked ? ", marked" : "");
        EXPECT_EQ(block_in(one.server(), one.blocks()[i]), expected);
        EXPECT_EQ(block_in(one.mirror(), one.blocks()[i]), expected);
        if (i == 3 || is_marked) continue;
        EXPECT_EQ(one.found(), one.blocks()[i]);
      }
    }
  });
}

// Goal: a mirror that was told more than its server, or less, or has other marks, has the same
//   when the index is whole: it may have its server's place when both indexes are lost once more.
// Mutation: pages that count before mirrors agree; mirrors that keep what they were told alone, or
//   do not hear what the server was told alone.
TEST(DisaggMemoryBuild, MirrorsAgree) {
  run_by_hand([](Net* net) {
    Pair one(net, 3);
    one.tell_server(0, 101);
    one.tell_mirror(0, 101);
    one.tell_mirror(1, 103);
    one.tell_server(2, 102);
    mark_block(one.mirror(), one.blocks()[2]);
    EXPECT_GT(one.build(), 103U);
    EXPECT_EQ(one.found(), one.blocks()[2]);
    for (const auto memory : {one.server(), one.mirror()}) {
      EXPECT_EQ(block_in(memory, one.blocks()[0]), "0, marked");
      EXPECT_EQ(block_in(memory, one.blocks()[2]), "2");
      EXPECT_EQ(sequence_in(memory, one.blocks()[2]), 102U);
    }
    EXPECT_EQ(sequence_in(one.server(), one.blocks()[1]), 0U);
    EXPECT_EQ(block_in(one.mirror(), one.blocks()[1]), "1, marked");
  });
}

}  // namespace breccia::disagg
