#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "disagg/memory/mirror.h"
#include "unit/disagg/by_hand.h"

/// Mirrors of memory servers, at the moments at which it is seen whether they keep to what
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
        mirror_(port_.get(), &asking_, own_, nullptr,
                {.member = "mirror",
                 .again_us = kAgainUs,
                 .meet_us = 50,
                 .read_us = kSoonUs,
                 .part_bytes = 1}) {}

  [[nodiscard]] std::span<std::byte> of_server() { return region_->bytes(); }
  [[nodiscard]] std::span<std::byte> own() { return own_; }
  [[nodiscard]] const Mirror& mirror() const { return mirror_; }
  Mirror& mirror() { return mirror_; }
  /// Which blocks are in use, when the mirror asks next.
  PoolImage& in_use() { return in_use_; }

  void follow(bool is_written) { follow(is_written ? 1 : 0, 1); }
  /// In a map of so many shards, of which some write there.
  void follow(std::uint32_t written_by, std::uint32_t shards) {
    ClusterMap::Memory of{.member = "server", .address = server_.port()->address()};
    of.mirror = {.member = "mirror", .address = "", .written_by = written_by, .is_whole = false};
    ClusterMap map{.epoch = 1, .memory = {of}};
    map.shards.resize(shards);
    mirror_.follow(of, map);
  }
  /// Lets both go on until the mirror has heard which blocks are in use.
  void meet() {
    has_told_ = false;
    while (!has_told_) go_on(kRoundUs);
    go_on(kRoundUs);
  }
  /// From here on the server says that the mirror is to begin anew, or does no more.
  void refuse(bool refuses) { refuses_ = refuses; }
  /// How often the mirror has asked from the beginning.
  [[nodiscard]] int begun() const { return begun_; }
  [[nodiscard]] std::string address() const { return port_->address(); }
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
    if (from == 0) ++begun_;
    if (refuses_) return server_.answer(question, refusal(Code::kBusy, "begin anew"));
    WireWriter answer = answer_of(Code::kOk);
    answer.add(UseHead{.region = region_->name(), .next = 1});
    const PoolImage::Chunk& chunk = in_use_.chunks()[0];
    if (from == 0 && !chunk.is_used.empty()) add_chunk(0, chunk, &answer);
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
  bool refuses_ = false;
  int begun_ = 0;
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

// Goal: what is said of a block beside its copy holds, also where the server hears of it later.
// Method: a commit, and then a later write's that replaces it, at each moment of a copy, and before
//   the mirror has heard what is in use.
// Mutation: what is said of a block that is not there yet is forgotten; or by a copy once more.
TEST(DisaggMirror, CommitsBesideACopyStay) {
  run_by_hand([](Net* net) {
    for (const bool is_early : {false, true}) {
      for (TimeUs moment = 0; moment < (is_early ? kStep : kMoments); moment += kStep) {
        SCOPED_TRACE(moment);
        MirrorByHand one(net);
        for (const Location& block : {kA, kB}) {
          write_block(one.of_server(), block, "a");
          ASSERT_TRUE(one.in_use().take(kBlockClass, block.line));
        }
        const auto generation_of = [&](const Location& block) {
          return whole_block(one.of_server().subspan(block.offset(), block.bytes()))->generation;
        };
        const auto say = [&] {
          one.mirror().commit(0, kA, generation_of(kA), 7);
          one.mirror().commit(0, kB, generation_of(kB), 8);
          one.mirror().retire(0, kB, 9);
        };
        if (is_early) say();
        one.follow(/*is_written=*/false);
        one.meet();
        copy_beside(net, &one, moment, [&] {
          if (is_early) return;
          say();
          // It reads all once more.
          net->cut(one.server_node(), one.node());
          net->sleep(kSoonUs / 2);
          net->heal(one.server_node(), one.node());
        });
        ASSERT_EQ(block_in(one.own(), kA), "a");
        ASSERT_EQ(sequence_in(one.own(), kA), 7U);
        ASSERT_EQ(block_in(one.own(), kB), "a, marked");
      }
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

// Goal: a mirror takes changes of its server alone, when it has heard what is in use; where what it
//   hears makes no sense, or is not all any more, it asks from the beginning.
// Mutation: changes that anybody tells, or before it has heard; a mirror that goes on with what it
//   has.
TEST(DisaggMirror, BeginsAnewWhereItIsNotToldAll) {
  run_by_hand([](Net* net) {
    MirrorByHand one(net);
    one.refuse(true);
    one.follow(/*is_written=*/false);
    while (one.begun() == 0) one.go_on(kRoundUs);
    EXPECT_EQ(one.tell(/*is_lease=*/true, kA), Code::kBusy);
    one.refuse(false);
    one.meet();

    Hand other(net);
    const fabric::PeerId to = other.meet(one.address());
    WireWriter change;
    change.add(std::uint8_t{1}).add(kBlockClass).add(kA.line);
    const std::uint64_t request = other.put(to, Ask::kKeep, 1, change);
    one.go_on(kRoundUs);
    EXPECT_EQ(other.code_of(request), Code::kEpoch);
    EXPECT_EQ(one.tell(/*is_lease=*/true, kA), Code::kOk);

    for (const bool is_wrong : {true, false}) {
      const int begun = one.begun();
      one.go_on(kSoonUs);
      EXPECT_EQ(one.begun(), begun);
      if (is_wrong) {
        EXPECT_NE(one.tell(/*is_lease=*/false, kB), Code::kOk);
      } else {
        one.refuse(true);
        one.go_on(2 * kAgainUs);
        one.refuse(false);
      }
      one.go_on(kSoonUs);
      EXPECT_GT(one.begun(), begun);
      // What is in use is what it was told last: that is nothing.
      EXPECT_EQ(one.tell(/*is_lease=*/true, kA), Code::kOk);
      EXPECT_EQ(one.tell(/*is_lease=*/false, kA), Code::kOk);
    }
  });
}

// Goal: who has keys of some shard writes the server alone until that shard's hash server says that
//   it follows the mirror; so nothing is copied before all have said so.
// Mutation: a mirror that copies when the first of them has.
TEST(DisaggMirror, CopiesWhenAllShardsWriteThere) {
  run_by_hand([](Net* net) {
    MirrorByHand one(net);
    write_block(one.of_server(), kA, "a");
    ASSERT_TRUE(one.in_use().take(kBlockClass, kA.line));
    for (const std::uint32_t written_by : {0U, 1U, 2U}) {
      one.follow(written_by, 2);
      if (written_by == 0) one.meet();
      one.go_on(kSoonUs);
      EXPECT_NE(block_in(one.own(), kA), "a");
    }
    one.follow(3, 2);
    one.go_on(kSoonUs);
    EXPECT_EQ(block_in(one.own(), kA), "a");
    EXPECT_TRUE(one.mirror().is_whole());
  });
}

// Goal: numbers of writes are a shard's own: what is said of blocks by one shard, too late or of
//   all that it has, is of its keys alone, beside a copy and behind it.
// Mutation: each place where the shard is not looked at.
TEST(DisaggMirror, ShardsSayWhatIsOfTheirKeys) {
  run_by_hand([](Net* net) {
    MirrorByHand one(net);
    write_block(one.of_server(), kA, "a", key_of_shard(0, 2));
    write_block(one.of_server(), kB, "b", key_of_shard(1, 2));
    for (const Location& block : {kA, kB}) {
      ASSERT_TRUE(one.in_use().take(kBlockClass, block.line));
    }
    const auto commit = [&](std::uint32_t shard, const Location& block, std::uint64_t sequence) {
      const auto view = whole_block(one.of_server().subspan(block.offset(), block.bytes()));
      one.mirror().commit(shard, block, view->generation, sequence);
      return WireWriter().add(slot_of(0, block)).add(view->generation).add(sequence);
    };
    const auto say_other = [&] {
      one.mirror().retire(1, kA, 99);
      one.mirror().retire(0, kB, 99);
    };
    const auto expect_both = [&] {
      EXPECT_EQ(block_in(one.own(), kA), "a");
      EXPECT_EQ(sequence_in(one.own(), kA), 7U);
      EXPECT_EQ(block_in(one.own(), kB), "b");
      EXPECT_EQ(sequence_in(one.own(), kB), 8U);
    };
    one.follow(0, 2);
    one.meet();
    (void)commit(1, kB, 8);
    const WireWriter of_first = commit(0, kA, 7);
    EXPECT_TRUE(one.mirror().agree(0, 0, 0, WireReader(of_first.bytes())));
    say_other();
    one.follow(3, 2);
    one.go_on(kSoonUs);
    ASSERT_TRUE(one.mirror().is_whole());
    expect_both();
    say_other();
    EXPECT_TRUE(one.mirror().agree(0, 0, 0, WireReader(of_first.bytes())));
    expect_both();
    one.mirror().retire(1, kB, 9);
    EXPECT_TRUE(one.mirror().agree(0, 0, 0, WireReader({})));
    EXPECT_EQ(block_in(one.own(), kA), "a, marked");
    EXPECT_EQ(block_in(one.own(), kB), "b, marked");
  });
}

}  // namespace breccia::disagg
