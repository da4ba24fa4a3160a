#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "disagg/memory/mirror.h"
#include "unit/disagg/by_hand.h"

/// Memory servers and their mirrors, at the moments at which it is seen whether they keep to what
/// docs/impl/disagg.md says ("Values on two servers").

namespace breccia::disagg {

namespace {

using namespace testing;

/// A chunk has few blocks of it, so that images are soon looked through.
constexpr std::uint32_t kBlockClass = 32;
/// In which something is sent there and back.
constexpr TimeUs kRoundUs = 50;

/// A mirror, and by hand the server that it is of. What clients and hash servers write, tests put
/// into both memories themselves.
class MirrorByHand {
 public:
  explicit MirrorByHand(Net* net)
      : server_(net),
        region_(server_.port()->make_region(kChunkBytes, fabric::Access::kReadWrite).take()),
        node_(net->add_node()),
        port_(net->open(node_)),
        own_(kChunkBytes),
        answers_(port_.get()),
        asking_(port_.get(), kAgainUs),
        mirror_(port_.get(), &asking_, own_,
                {.member = "mirror",
                 .again_us = kAgainUs,
                 .meet_us = 50,
                 .read_us = kSoonUs,
                 .part_bytes = 1}) {}

  [[nodiscard]] std::span<std::byte> of_server() { return region_->bytes(); }
  [[nodiscard]] std::span<std::byte> own() { return own_; }
  [[nodiscard]] const Mirror& mirror() const { return mirror_; }
  /// Which blocks are in use, when the mirror asks next.
  PoolImage& in_use() { return in_use_; }

  void follow(bool is_written) {
    ClusterMap::Memory of{.member = "server", .address = server_.port()->address()};
    of.mirror = {.member = "mirror", .address = "", .is_written = is_written, .is_whole = false};
    mirror_.follow(of, 1);
  }
  /// Lets both go on until the mirror has heard which blocks are in use.
  void meet() {
    has_told_ = false;
    while (!has_told_) go_on(kRoundUs);
    go_on(kRoundUs);
  }
  /// The server forgets that it has met the mirror.
  void part() { server_.port()->disconnect(peer_); }
  /// Tells the mirror of a block that is leased, or given back; what it answers.
  std::optional<Code> tell(bool is_lease, const Location& block) {
    const std::uint64_t request = send(is_lease, block);
    go_on(kRoundUs);
    return server_.code_of(request);
  }
  std::uint64_t send(bool is_lease, const Location& block) {
    WireWriter change;
    change.add(static_cast<std::uint8_t>(is_lease ? 1 : 0)).add(block.size_class).add(block.line);
    return server_.put(peer_, Ask::kKeep, 1, change);
  }
  [[nodiscard]] Net::Node server_node() const { return server_.node(); }
  [[nodiscard]] Net::Node node() const { return node_; }
  void go_on(TimeUs us) {
    const TimeUs until = port_->now_us() + us;
    while (port_->now_us() < until) {
      mirror_.tend();
      while (const auto question = server_.question(0)) tell_in_use(*question);
      // Most of the time there is nothing to hear.
      while (const auto arrival = port_->poll(port_->now_us() + 10)) hear(*arrival);
    }
  }

 private:
  void tell_in_use(const fabric::Arrival& question) {
    ASSERT_EQ(question.header.kind, static_cast<std::uint8_t>(Ask::kUse));
    peer_ = question.peer;
    WireReader reader(question.payload);
    (void)reader.take_bytes();
    const auto from = reader.take<std::uint64_t>();
    WireWriter answer = answer_of(Code::kOk);
    answer.add(UseHead{.region = region_->name(), .next = 1});
    if (from == 0) add_chunk(0, in_use_.chunks()[0], &answer);
    server_.answer(question, answer);
    has_told_ = true;
  }
  void hear(const fabric::Arrival& arrival) {
    mirror_.hear(arrival);
    const bool is_answer = (arrival.header.kind & kAnswerBit) != 0;
    if (arrival.kind == fabric::Arrival::Kind::kMessage && is_answer) return;
    answers_.hear(arrival, [this](const Answers::Asker& asker, Ask ask, WireReader question) {
      EXPECT_EQ(ask, Ask::kKeep);
      return mirror_.keep(asker, question);
    });
  }

  Hand server_;
  const std::unique_ptr<fabric::Region> region_;
  PoolImage in_use_{1};
  fabric::PeerId peer_ = 0;  // the mirror, as the server knows it
  bool has_told_ = false;
  const Net::Node node_;
  const std::unique_ptr<fabric::Port> port_;
  std::vector<std::byte> own_;
  Answers answers_;
  Asking asking_;
  Mirror mirror_;
};

/// Lets the mirror copy, until it has all, and lets something happen so long behind its beginning.
template <class Happens>
void copy_beside(Net* net, MirrorByHand* one, TimeUs behind, Happens happens) {
  bool has_happened = false;
  net->start(net->add_node(), [&] {
    net->sleep(behind);
    happens();
    has_happened = true;
  });
  one->follow(/*is_written=*/true);
  for (int turn = 0; turn < 8 || !has_happened; ++turn) one->go_on(kRoundUs);
  EXPECT_TRUE(one->mirror().is_whole());
}

/// Longer than a mirror takes to copy one block, and all of a test; between two moments it can do
/// next to nothing.
constexpr TimeUs kMomentsOfOne = 50;
constexpr TimeUs kMoments = 100;
constexpr TimeUs kStep = 2;

const Location kA = nth_block(kBlockClass, 0), kB = nth_block(kBlockClass, 1),
               kC = nth_block(kBlockClass, 2);

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

// Goal: what clients write on the server alone, as they do not know the mirror yet, is copied.
// Method: it is written when the mirror has heard what is in use, before the map says that there
//   are no such clients any more.
// Mutation: a mirror that copies as soon as it knows what is in use.
TEST(DisaggMirror, CopiesBehindWritesOfOlderMaps) {
  run_by_hand([](Net* net) {
    MirrorByHand one(net);
    write_block(one.of_server(), kA, "before");
    ASSERT_TRUE(one.in_use().take(kBlockClass, kA.line));
    one.follow(/*is_written=*/false);
    one.meet();
    one.go_on(kSoonUs);
    EXPECT_FALSE(one.mirror().is_whole());
    write_block(one.of_server(), kA, "behind");
    copy_beside(net, &one, 0, [] {});
    EXPECT_EQ(block_in(one.own(), kA), "behind");
  });
}

// Goal: a mark that comes while its block is copied is on the mirror, too.
// Method: marks on the server, and then on the mirror, at each moment of a copy.
// Mutation: a mirror that does not look whether the block was marked behind what it has read of it.
TEST(DisaggMirror, MarksBesideACopyStay) {
  run_by_hand([](Net* net) {
    for (TimeUs moment = 0; moment < kMomentsOfOne; moment += kStep) {
      SCOPED_TRACE(moment);
      MirrorByHand one(net);
      write_block(one.of_server(), kA, "a");
      ASSERT_TRUE(one.in_use().take(kBlockClass, kA.line));
      one.follow(/*is_written=*/false);
      one.meet();
      copy_beside(net, &one, moment, [&] {
        mark_block(one.of_server(), kA);
        mark_block(one.own(), kA);
      });
      ASSERT_EQ(block_in(one.own(), kA), "a, marked");
    }
  });
}

// Goal: so is one of a block whose copy does not come to its end, as it is given back meanwhile.
// Method: the connection is gone at the moment of the marks, and there again when the mirror has
//   given up what it reads; the block is given back before it reads once more.
// Mutation: what was copied stays live where it is not known whether it was marked meanwhile.
TEST(DisaggMirror, MarksBesideHalfACopyStay) {
  run_by_hand([](Net* net) {
    for (TimeUs moment = 0; moment < kMomentsOfOne; moment += kStep) {
      SCOPED_TRACE(moment);
      MirrorByHand one(net);
      write_block(one.of_server(), kA, "a");
      ASSERT_TRUE(one.in_use().take(kBlockClass, kA.line));
      one.follow(/*is_written=*/false);
      one.meet();
      copy_beside(net, &one, moment, [&] {
        mark_block(one.of_server(), kA);
        mark_block(one.own(), kA);
        net->cut(one.server_node(), one.node());
        net->sleep(kSoonUs / 2);
        net->heal(one.server_node(), one.node());
        (void)one.send(/*is_lease=*/false, kA);
      });
      ASSERT_NE(block_in(one.own(), kA), "a");
    }
  });
}

// Goal: a block that is given back is not copied any more: its next value is written here, too.
// Method: it is given back, and leased again, before it was copied; its client writes it on both
//   servers at each moment of the copy.
// Mutation: a mirror that copies all that was in use when it came.
TEST(DisaggMirror, WhatIsGivenBackIsNotCopied) {
  run_by_hand([](Net* net) {
    for (TimeUs moment = 0; moment < kMoments; moment += kStep) {
      SCOPED_TRACE(moment);
      MirrorByHand one(net);
      for (const Location& block : {kA, kB}) {
        write_block(one.of_server(), block, "before");
        ASSERT_TRUE(one.in_use().take(kBlockClass, block.line));
      }
      one.follow(/*is_written=*/false);
      one.meet();
      ASSERT_EQ(one.tell(/*is_lease=*/false, kB), Code::kOk);
      ASSERT_EQ(one.tell(/*is_lease=*/true, kB), Code::kOk);
      copy_beside(net, &one, moment, [&] {
        for (const auto memory : {one.of_server(), one.own()}) write_block(memory, kB, "behind");
      });
      ASSERT_EQ(block_in(one.own(), kA), "before");
      ASSERT_EQ(block_in(one.own(), kB), "behind");
    }
  });
}

// Goal: a mirror that meets its server once more copies what was in use all the time alone.
// Method: of three blocks one was leased behind the first time, and one is not in use at the second
//   time, and leased again; their clients write both servers at each moment of the copy.
// Mutation: all copied that is in use at the second time; all that was at the first.
TEST(DisaggMirror, CopiesWhatWasInUseAllTheTime) {
  run_by_hand([](Net* net) {
    for (TimeUs moment = 0; moment < kMoments; moment += kStep) {
      SCOPED_TRACE(moment);
      MirrorByHand one(net);
      for (const Location& block : {kA, kB, kC}) write_block(one.of_server(), block, "before");
      ASSERT_TRUE(one.in_use().take(kBlockClass, kA.line));
      ASSERT_TRUE(one.in_use().take(kBlockClass, kB.line));
      one.follow(/*is_written=*/false);
      one.meet();
      ASSERT_EQ(one.tell(/*is_lease=*/true, kC), Code::kOk);
      ASSERT_TRUE(one.in_use().take(kBlockClass, kC.line));
      // Of this the mirror does not hear.
      ASSERT_TRUE(one.in_use().give_back(kBlockClass, kB.line));
      one.part();
      one.meet();
      ASSERT_EQ(one.tell(/*is_lease=*/true, kB), Code::kOk);
      copy_beside(net, &one, moment, [&] {
        for (const Location& block : {kB, kC}) {
          for (const auto memory : {one.of_server(), one.own()}) {
            write_block(memory, block, "behind");
          }
        }
      });
      ASSERT_EQ(block_in(one.own(), kA), "before");
      ASSERT_EQ(block_in(one.own(), kB), "behind");
      ASSERT_EQ(block_in(one.own(), kC), "behind");
    }
  });
}

// Goal: who has another map, an older one or a newer one, is neither leased blocks nor gives any
//   back: it may not write all servers that are to have what it writes.
// Mutation: leases, or blocks given back, without a look at the epoch, or with one at older ones.
TEST(DisaggMirror, LeasesAreOfOneMap) {
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
TEST(DisaggMirror, HearsWhatIsInUseBeforeThatChanges) {
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
TEST(DisaggMirror, ClientsAreAnsweredBehindIt) {
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
TEST(DisaggMirror, GoesBeforeItHasHeard) {
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

}  // namespace breccia::disagg
