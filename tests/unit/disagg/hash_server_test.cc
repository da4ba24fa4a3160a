#include <gtest/gtest.h>

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "disagg/cluster_map.h"
#include "disagg/index/hash_server.h"
#include "disagg/index/written_keys.h"
#include "disagg/watermark.h"
#include "unit/disagg/by_hand.h"

/// What a hash server waits for, whose ordered server and memory server are played by the test.

namespace breccia::disagg {

namespace {

using namespace testing;

constexpr std::uint32_t kEpoch = 7;
constexpr TimeUs kFar = 10'000'000;
/// In which all is sent that will be.
constexpr TimeUs kShortUs = 250;
const Location kA = nth_block(1, 0), kB = nth_block(1, 1);

/// A hash server, and those that it talks to, by hand.
class Played {
 public:
  Played(Net* net, bool is_first)
      : memory(net),
        ordered(net),
        client(net),
        region(memory.port()->make_region(kChunkBytes, fabric::Access::kReadWrite).take()) {
    ClusterMap map{.epoch = kEpoch, .shards = {{.has_begun = true}}};
    map.shards[0].ordered = {.member = "o", .address = ordered.port()->address(), .is_whole = true};
    map.memory.push_back(
        {.member = "m", .address = memory.port()->address(), .bytes = kChunkBytes});
    hash = disagg::testing::serve<HashServer>(net, [&map, is_first](fabric::Port* port) {
      auto server = HashServer::make(port, {.table = {.bucket_bits = 1, .more_buckets = 8},
                                            .seeds = KeySeeds(),
                                            .again_us = kFar,  // each question once
                                            .meet_us = kSoonUs})
                        .take();
      if (is_first) server->be_first();
      EXPECT_TRUE(server->follow(map, 0).ok());
      server->trust_until(kFar);
      return server;
    });
    const auto pool = memory.question();
    EXPECT_EQ(pool->header.kind, static_cast<std::uint8_t>(Ask::kPool));
    memory.answer(*pool, answer_of(Code::kOk).add(PoolInfo{.region = region->name(), .node = 0}));
    to_hash = client.meet(hash.address);
  }
  /// Answers the hash server's first question to the ordered one.
  void follow(const WireWriter& followed) {
    const auto question = take(&ordered, Ask::kFollow);
    ordered.answer(question, answer_of(Code::kOk).append(followed));
    (void)client.port()->poll(client.port()->now_us() + kShortUs);
  }
  /// The next question, which is of that kind.
  static fabric::Arrival take(Hand* hand, Ask what) {
    auto question = hand->question();
    EXPECT_TRUE(question.has_value());
    if (!question.has_value()) return {};
    EXPECT_EQ(question->header.kind, static_cast<std::uint8_t>(what));
    return *std::move(question);
  }
  std::uint64_t put(const Location& block, std::uint32_t generation) {
    const WireWriter write = WireWriter().add(slot_of(0, block)).add(generation).add_bytes("key");
    return client.put(to_hash, Ask::kWrite, kEpoch, write);
  }
  std::uint64_t watermark() {
    const auto told = client.answer_to(client.put(to_hash, Ask::kTable, kEpoch, {}));
    WireReader reader(told);
    EXPECT_EQ(reader.take<Code>(), Code::kOk);
    std::array<std::byte, sizeof(Watermark)> bytes;
    const fabric::Read read{reader.take<TableInfo>().region, 0, bytes};
    EXPECT_TRUE(client.port()->read(to_hash, {&read, 1}, client.port()->now_us() + kSoonUs).ok());
    return Watermark::in(bytes).value();
  }

  Hand memory, ordered, client;
  const std::unique_ptr<fabric::Region> region;
  Served<HashServer> hash;
  fabric::PeerId to_hash = 0;
};

}  // namespace

// Goal: memory servers and the ordered server hear of a write at the same time; the value before is
//   marked, and the write is in the buckets and acknowledged, when both have.
// Method: either answers first.
// Mutation: marks, buckets or answers that wait for one of the two; writes that go to one first.
TEST(DisaggHashServer, WaitsForMemoryAndLog) {
  run_by_hand([](Net* net) {
    Played one(net, /*is_first=*/true);
    one.follow(WireWriter().add(Followed{.through = 0, .is_whole = 1}));
    write_block(one.region->bytes(), kA, "a");
    write_block(one.region->bytes(), kB, "b");
    for (const bool is_logged_first : {true, false}) {
      const std::uint64_t sequence = is_logged_first ? 1 : 2;
      const std::uint64_t put = one.put(is_logged_first ? kA : kB, 1);
      const auto commit = Played::take(&one.memory, Ask::kCommit);
      const auto ship = Played::take(&one.ordered, Ask::kShip);
      const auto log = [&] {
        one.ordered.answer(ship, answer_of(Code::kOk).add(Logged{.through = sequence}));
      };
      const auto know = [&] { one.memory.answer(commit, answer_of(Code::kOk)); };
      is_logged_first ? log() : know();
      EXPECT_FALSE(one.client.code_of(put, kShortUs).has_value());
      EXPECT_EQ(one.watermark(), sequence - 1);
      EXPECT_EQ(block_in(one.region->bytes(), kA), "a");
      is_logged_first ? know() : log();
      EXPECT_EQ(one.client.code_of(put), Code::kOk);
      EXPECT_EQ(one.watermark(), sequence);
    }
    EXPECT_EQ(block_in(one.region->bytes(), kA), "a, marked");
  });
}

// Goal: the same where the write that is not known to memory servers yet replaces a value: both
//   would be lost with the indexes.
// Mutation: a mark behind the log alone.
TEST(DisaggHashServer, MarksWhatIsReplacedByWhatIsKnown) {
  run_by_hand([](Net* net) {
    Played one(net, /*is_first=*/true);
    one.follow(WireWriter().add(Followed{.through = 0, .is_whole = 1}));
    write_block(one.region->bytes(), kA, "a");
    for (const Location& block : {kA, kB}) {
      const std::uint64_t put = one.put(block, 1);
      const auto commit = Played::take(&one.memory, Ask::kCommit);
      const auto ship = Played::take(&one.ordered, Ask::kShip);
      const std::uint64_t sequence = block == kA ? 1 : 2;
      one.ordered.answer(ship, answer_of(Code::kOk).add(Logged{.through = sequence}));
      EXPECT_FALSE(one.client.code_of(put, kShortUs).has_value());
      EXPECT_EQ(block_in(one.region->bytes(), kA), "a");
      one.memory.answer(commit, answer_of(Code::kOk));
      EXPECT_EQ(one.client.code_of(put), Code::kOk);
    }
    EXPECT_EQ(block_in(one.region->bytes(), kA), "a, marked");
  });
}

// Goal: who takes a hash server's place has memory servers hear of the last writes, and then of
//   what these replaced, before it logs any, is whole, or says by its watermark that it has them.
// Mutation: each of these before; one of the two that is left out, or told first.
TEST(DisaggHashServer, EndsWritesOfBefore) {
  run_by_hand([](Net* net) {
    Played one(net, /*is_first=*/false);
    const LastWrite last{
        .sequence = 5, .slot = slot_of(0, kB), .replaced = slot_of(0, kA), .generation = 9};
    one.follow(WireWriter().add(Followed{.through = 5, .is_whole = 1}).add(last));
    const std::uint64_t put = one.put(nth_block(1, 2), 1);
    const auto is_quiet = [&] {
      EXPECT_FALSE(one.ordered.question(kShortUs).has_value());
      EXPECT_FALSE(one.hash.server->is_whole());
      EXPECT_EQ(one.watermark(), 0U);
    };
    const auto commit = Played::take(&one.memory, Ask::kCommit);
    WireReader committed(commit.payload);
    EXPECT_EQ(committed.take<std::uint32_t>(), 0U);
    EXPECT_EQ(committed.take<Slot>(), slot_of(0, kB));
    EXPECT_EQ(committed.take<std::uint32_t>(), 9U);
    EXPECT_EQ(committed.take<std::uint64_t>(), 5U);
    EXPECT_TRUE(committed.is_whole());
    is_quiet();
    one.memory.answer(commit, answer_of(Code::kOk));
    const auto retire = Played::take(&one.memory, Ask::kRetire);
    WireReader retired(retire.payload);
    EXPECT_EQ(retired.take<std::uint32_t>(), 0U);
    EXPECT_EQ(retired.take<Slot>(), slot_of(0, kA));
    EXPECT_EQ(retired.take<std::uint64_t>(), 5U);
    EXPECT_TRUE(retired.is_whole());
    is_quiet();
    one.memory.answer(retire, answer_of(Code::kOk));
    while (const auto question = one.ordered.question(kShortUs)) {
      const bool is_keys = question->header.kind == static_cast<std::uint8_t>(Ask::kKeysBehind);
      if (is_keys) one.ordered.answer(*question, answer_of(Code::kOk));  // there are none
    }
    EXPECT_EQ(one.watermark(), 5U);
    EXPECT_FALSE(one.client.code_of(put, 0).has_value());
  });
}

// Goal: who takes a hash server's place has each key where the ordered server tells it, but for
//   one that is written before it is told: that stays where it was written. The next keys are
//   asked for behind the last of those before.
// Mutation: keys behind another one of a page; some that are put twice, or not at all, as pages
//   are sorted; a key that is told in the place of one that was written.
TEST(DisaggHashServer, IsBuiltOfPages) {
  run_by_hand([](Net* net) {
    Played one(net, /*is_first=*/false);
    one.follow(WireWriter().add(Followed{.through = 5, .is_whole = 1}));
    auto question = Played::take(&one.ordered, Ask::kKeysBehind);
    const std::uint64_t put = one.put(kB, 1);
    const auto commit = Played::take(&one.memory, Ask::kCommit);
    const auto ship = Played::take(&one.ordered, Ask::kShip);
    one.memory.answer(commit, answer_of(Code::kOk));
    one.ordered.answer(ship, answer_of(Code::kOk).add(Logged{6}).add(slot_of(0, kA)));
    EXPECT_EQ(one.client.code_of(put), Code::kOk);
    std::map<std::string, Location> told = {{"key", kA}};
    for (std::uint64_t i = 0; i < 40; ++i) told[std::to_string(100 + i)] = nth_block(1, 2 + i);
    std::string last;
    const auto expect_behind_last = [&] {
      EXPECT_EQ(WireReader(question.payload).take_bytes().ToString(), last);
    };
    for (auto at = told.begin(); at != told.end();) {
      expect_behind_last();
      WireWriter page = answer_of(Code::kOk);
      for (int n = 0; n < 15 && at != told.end(); ++n, last = (at++)->first) {
        page.add(slot_of(0, at->second)).add_bytes(at->first);
      }
      one.ordered.answer(question, page);
      question = Played::take(&one.ordered, Ask::kKeysBehind);
    }
    expect_behind_last();
    one.ordered.answer(question, answer_of(Code::kOk));
    // Not by its table, which may be another one as it grows.
    for (int n = 0; n < 100 && !one.hash.server->is_whole(); ++n) net->sleep(kShortUs);
    EXPECT_TRUE(one.hash.server->is_whole());
    told["key"] = kB;
    EXPECT_EQ(one.hash.server->table().size(), told.size());
    for (const auto& [key, block] : told) {
      EXPECT_EQ(one.hash.server->table().find(KeySeeds().id_of(key)), block) << key;
    }
  });
}

// Goal: keys that were written, and no others, also of those that differ in few bits.
// Mutation: a bit that has() does not look for; one that is believed by itself.
TEST(DisaggHashServer, KnowsWrittenKeys) {
  WrittenKeys written;
  const auto nth = [](std::uint64_t i) { return KeyId{.hash = i << 15, .proof = i % 3}; };
  for (std::uint64_t i = 0; i < 1000; i += 2) written.add(nth(i));
  for (std::uint64_t i = 0; i < 1000; ++i) EXPECT_EQ(written.has(nth(i)), i % 2 == 0) << i;
}

}  // namespace breccia::disagg
