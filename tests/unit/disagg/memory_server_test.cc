#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "disagg/memory/memory_server.h"
#include "unit/disagg/by_hand.h"
#include "unit/disagg/sim_disk.h"

/// Memory servers that have a mirror, or are to have one, which is played by the test.

namespace breccia::disagg {

namespace {

using namespace testing;

constexpr std::uint32_t kBlockClass = 1;
constexpr std::uint32_t kEpoch = 7;

ClusterMap map_of(std::uint32_t epoch, const ClusterMap::Mirror& mirror) {
  ClusterMap map{.epoch = epoch, .shards = {{.has_begun = true}}};
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

// Goal: what is answered of values is on the medium by then: that a write is known, which values
//   there are, for which others are marked, and that all was kept. Marks are not waited for.
// Method: a disk that stands still, and goes on.
// Mutation: any of the three that is answered before; values are what a run of DisaggPowerCut does
//   not find, as the disk has to stand still for longer than an index is built.
TEST(DisaggMemoryServer, AnswersWhatItsMediumHas) {
  std::unique_ptr<SimDisk> disk;  // the server lives as long as the network
  run_by_hand([&disk](Net* net) {
    disk = std::make_unique<SimDisk>(net, 0);
    const auto served = serve<MemoryServer>(net, [&disk](fabric::Port* port) {
      auto made = MemoryServer::make(port, {.member = "server",
                                            .bytes = 2 * kChunkBytes,
                                            .again_us = kAgainUs,
                                            .place = disk.get(),
                                            .keep_us = 100});
      EXPECT_TRUE(made.value()->follow(map_of(kEpoch, {})).ok());
      return made.take();
    });
    Hand hand(net);
    const fabric::PeerId to = hand.meet(served.address);
    const auto put = [&](Ask what, const WireWriter& question) {
      return hand.put(to, what, kEpoch, question);
    };
    EXPECT_EQ(hand.code_of(put(Ask::kLease, lease_of(1))), Code::kOk);
    const std::span<std::byte> memory = served.server->memory();
    const Location block = nth_block(kBlockClass, 0);
    write_block(memory, block, "v");
    disk->stand_still(true);
    const WireWriter shard = WireWriter().add(0U);
    const std::uint64_t commit = put(Ask::kCommit, commit_of(memory, block, 5));
    const std::uint64_t values =
        put(Ask::kValues, WireWriter().add(0U).add(KeySeeds()).add(std::uint64_t{0}));
    const std::uint64_t retire =
        put(Ask::kRetire, WireWriter().add(0U).add(slot_of(0, block)).add(std::uint64_t{6}));
    const std::uint64_t settle = put(Ask::kSettle, shard);
    EXPECT_EQ(hand.code_of(retire), Code::kOk);
    for (const std::uint64_t one : {commit, values, settle}) {
      EXPECT_EQ(hand.code_of(one), std::nullopt);
    }
    disk->stand_still(false);
    for (const std::uint64_t one : {commit, values, settle}) {
      EXPECT_EQ(hand.code_of(one), Code::kOk);
    }
  });
}

// Goal: numbers of writes are a shard's own: what one says late of a block that has another one's
//   key by now changes nothing, and each hears of its own values.
// Mutation: a shard that is not looked at.
TEST(DisaggMemoryServer, ShardsHaveNumbersOfTheirOwn) {
  run_by_hand([](Net* net) {
    ClusterMap map = map_of(kEpoch, {});
    map.shards.resize(2);
    const auto served = serve<MemoryServer>(net, [&map](fabric::Port* port) {
      auto made = MemoryServer::make(
          port, {.member = "server", .bytes = 2 * kChunkBytes, .again_us = kAgainUs});
      EXPECT_TRUE(made.value()->follow(map).ok());
      return made.take();
    });
    Hand hand(net);
    const fabric::PeerId to = hand.meet(served.address);
    const auto ask = [&](Ask what, const WireWriter& question) {
      const auto answer = hand.answer_to(hand.put(to, what, kEpoch, question));
      EXPECT_EQ(WireReader(answer).take<Code>(), Code::kOk);
      return answer;
    };
    (void)ask(Ask::kLease, lease_of(2));
    const std::span<std::byte> memory = served.server->memory();
    const auto retire = [&](std::uint32_t shard, const Location& block, std::uint64_t sequence) {
      (void)ask(Ask::kRetire, WireWriter().add(shard).add(slot_of(0, block)).add(sequence));
    };
    const auto lines_of_shard = [&](std::uint32_t shard) {
      const auto told =
          ask(Ask::kValues, WireWriter().add(shard).add(KeySeeds()).add(std::uint64_t{0}));
      WireReader reader(std::span<const std::byte>(told).subspan(1));
      EXPECT_EQ(reader.take<std::uint64_t>(), 0U);
      (void)reader.take<std::uint64_t>();
      std::vector<std::uint64_t> lines;
      while (reader.left() > 0) lines.push_back(location_in(reader.take<ValueEntry>().slot).line);
      return lines;
    };
    const std::array<Location, 2> blocks = {nth_block(kBlockClass, 0), nth_block(kBlockClass, 1)};
    for (const std::uint32_t shard : {0U, 1U}) {
      write_block(memory, blocks[shard], "v", key_of_shard(shard, 2));
      (void)ask(Ask::kCommit, commit_of(memory, blocks[shard], 5, shard));
    }
    retire(0, blocks[1], 99);
    retire(1, blocks[0], 99);
    for (const std::uint32_t shard : {0U, 1U}) {
      EXPECT_EQ(block_in(memory, blocks[shard]), "v");
      EXPECT_EQ(lines_of_shard(shard), std::vector<std::uint64_t>{blocks[shard].line});
    }
    retire(1, blocks[1], 6);
    EXPECT_EQ(lines_of_shard(1), std::vector<std::uint64_t>());
  });
}

// Goal: a server tells as values whole blocks in use that were committed, and have no mark, alone,
//   all of them, page by page; what is told late of a block that is of another use by now changes
//   nothing; who has another map is refused.
// Mutation: each of these conditions left out; what was given back still counts when it is leased.
TEST(DisaggMemoryServer, TellsValuesThatCount) {
  run_by_hand([](Net* net) {
    const auto served = serve_memory(net, {});
    Hand hand(net);
    const fabric::PeerId to = hand.meet(served.address);
    const auto ask = [&](Ask what, const WireWriter& question, std::uint32_t epoch = kEpoch) {
      return hand.answer_to(hand.put(to, what, epoch, question));
    };
    const auto code = [](const std::vector<std::byte>& answer) {
      return WireReader(answer).take<Code>();
    };
    std::vector<Location> blocks;
    const auto leased = ask(Ask::kLease, lease_of(6));
    WireReader lines(std::span<const std::byte>(leased).subspan(1));
    while (lines.left() > 0) {
      blocks.push_back({.node = 0, .size_class = kBlockClass, .line = lines.take<std::uint64_t>()});
    }
    ASSERT_EQ(blocks.size(), 6U);
    const std::span<std::byte> memory = served.server->memory();
    for (std::size_t i = 1; i < 6; ++i) write_block(memory, blocks[i], "v");
    // 0 is not written; 1 is not committed; 2 is a value; 3 is marked; 4 is half; 5 is a value.
    for (const std::size_t i : {2U, 3U, 4U, 5U}) {
      ASSERT_EQ(code(ask(Ask::kCommit, commit_of(memory, blocks[i], i))), Code::kOk);
    }
    mark_block(memory, blocks[3]);
    memory[blocks[4].offset() + sizeof(BlockHeader)] ^= std::byte{1};
    const WireWriter late =
        WireWriter().add(0U).add(slot_of(0, blocks[1])).add(1U).add(std::uint64_t{9});
    EXPECT_EQ(code(ask(Ask::kCommit, late)), Code::kOk);
    EXPECT_EQ(sequence_in(memory, blocks[1]), 0U);
    std::uint64_t last = 9;
    const auto values = [&] {
      std::vector<std::pair<std::uint64_t, std::uint64_t>> found;  // line and sequence
      std::uint64_t line = 0;
      do {
        const auto answer = ask(Ask::kValues, WireWriter().add(0U).add(KeySeeds()).add(line));
        WireReader reader(std::span<const std::byte>(answer).subspan(1));
        line = reader.take<std::uint64_t>();
        EXPECT_EQ(reader.take<std::uint64_t>(), last);
        EXPECT_LE(reader.left(), sizeof(ValueEntry));
        while (reader.left() > 0) {
          const auto one = reader.take<ValueEntry>();
          EXPECT_EQ(one.id, KeySeeds().id_of("key"));
          found.emplace_back(location_in(one.slot).line, one.sequence);
        }
      } while (line != 0);
      std::sort(found.begin(), found.end(),
                [](const auto& a, const auto& b) { return a.second < b.second; });
      return found;
    };
    using Found = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
    EXPECT_EQ(values(), (Found{{blocks[2].line, 2}, {blocks[5].line, 5}}));
    const auto retired_by = [&](std::size_t i, std::uint64_t sequence) {
      return WireWriter().add(0U).add(slot_of(0, blocks[i])).add(sequence);
    };
    EXPECT_EQ(code(ask(Ask::kRetire, retired_by(5, 5))), Code::kOk);
    EXPECT_EQ(code(ask(Ask::kRetire, retired_by(2, 3))), Code::kOk);
    EXPECT_EQ(values(), (Found{{blocks[5].line, 5}}));
    ASSERT_EQ(code(ask(Ask::kGiveBack, block_as_told(blocks[5].line))), Code::kOk);
    EXPECT_EQ(line_in(ask(Ask::kLease, lease_of(1))), blocks[5].line);
    EXPECT_EQ(code(ask(Ask::kRetire, retired_by(1, 99))), Code::kOk);
    last = 99;
    EXPECT_EQ(values(), Found());
    EXPECT_EQ(block_in(memory, blocks[1]), "v");
    for (const Ask what : {Ask::kCommit, Ask::kRetire, Ask::kValues}) {
      EXPECT_EQ(code(ask(what, {}, kEpoch + 1)), Code::kEpoch);
      EXPECT_EQ(code(ask(what, WireWriter().add(std::uint8_t{1}))), Code::kWrong);
    }
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
