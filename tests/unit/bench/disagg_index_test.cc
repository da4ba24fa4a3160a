#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <iterator>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "bench/disagg/data.h"
#include "bench/disagg/phases.h"
#include "bench/disagg/tree.h"
#include "bench/disagg/versions.h"
#include "disagg/asking.h"
#include "disagg/index/ordered_server.h"
#include "disagg/protocol.h"
#include "fabric/local/local_port.h"
#include "support/folder.h"
#include "support/seeds.h"

namespace breccia::bench::disagg {
namespace {

using breccia::disagg::Ask;
using breccia::disagg::kAnswerBit;
using breccia::disagg::Slot;

std::string key_of(std::uint64_t number) {
  // Of several sizes, some of which begin others.
  return std::string("k") + std::to_string(number);
}

/// By the nodes alone, as a client goes, and by some of the way from an older root.
Slot found_by(const std::vector<TreeNode>& nodes, const TreeNode& root, const TreeKey& key) {
  TreeNode node = root;
  while (true) {
    EXPECT_TRUE(is_whole(node));
    if (node.is_left_of(key)) {
      node = nodes[node.right];
    } else if (node.level > 0) {
      node = nodes[node.entry[node.child_of(key)].to];
    } else {
      return node.find(key);
    }
  }
}

// Goal: a tree has what was put into it, in its order, and who reads its nodes finds that, also by
//   a root of before.
// Method: random puts and deletions beside a map; keys come in any order, so that smaller ones than
//   all so far come late.
// Mutation: the first entry of a new root has the key that its child has now; a lower half that
//   does not lead to the upper one.
TEST(DisaggTree, HasWhatAMapHas) {
  for (const std::uint64_t seed : testing::seeds_to_run(8)) {
    SCOPED_TRACE("seed=" + std::to_string(seed));
    base::Random random(seed);
    std::vector<TreeNode> nodes(Tree::nodes_for(4000));
    Tree tree(nodes);
    std::map<std::string, Slot> model;
    TreeNode old_root = nodes[TreeNode::kRoot];
    for (std::uint64_t i = 1; i <= 8000; ++i) {
      const std::string key = key_of(random.below(4000));
      const TreeKey of = TreeKey::of(key);
      const Slot before = model.contains(key) ? model[key] : 0;
      if (random.one_in(5)) {
        ASSERT_EQ(tree.erase(of), before);
        model.erase(key);
      } else {
        const auto put = tree.put(of, i);
        ASSERT_TRUE(put.ok());
        ASSERT_EQ(put.value(), before);
        model[key] = i;
      }
      if (i % 1000 == 0) old_root = nodes[TreeNode::kRoot];
      const std::string other = key_of(random.below(4000));
      const Slot there = model.contains(other) ? model[other] : 0;
      ASSERT_EQ(tree.find(TreeKey::of(other)), there) << other;
      ASSERT_EQ(found_by(nodes, nodes[TreeNode::kRoot], TreeKey::of(other)), there) << other;
      if (old_root.level == 0) continue;  // a leaf of before is no way to what is now
      ASSERT_EQ(found_by(nodes, old_root, TreeKey::of(other)), there) << other;
    }
    ASSERT_EQ(tree.size(), model.size());
    for (int i = 0; i < 100; ++i) {
      const std::string begin = key_of(random.below(4000));
      const auto slots = tree.scan(TreeKey::of(begin), 100);
      auto at = model.lower_bound(begin);
      ASSERT_EQ(slots.size(), std::min<std::size_t>(100, std::distance(at, model.end())));
      for (const Slot slot : slots) ASSERT_EQ(slot, (at++)->second);
    }
  }
}

// Goal: half a node is none.
// Method: each byte of what a node's sum has is changed.
// Mutation: a sum that leaves out the node's right one, or its last entry.
TEST(DisaggTree, KnowsHalfANode) {
  std::vector<TreeNode> nodes(Tree::nodes_for(100));
  Tree tree(nodes);
  for (std::uint64_t i = 1; i <= 5; ++i) ASSERT_TRUE(tree.put(TreeKey::of(key_of(i)), i).ok());
  TreeNode node = nodes[TreeNode::kRoot];
  ASSERT_TRUE(is_whole(node));
  const std::size_t bytes = offsetof(TreeNode, entry) + 5 * sizeof(TreeNode::Entry);
  for (std::size_t at = 0; at < bytes; ++at) {
    auto* const byte = reinterpret_cast<unsigned char*>(&node) + at;
    *byte ^= 1;
    EXPECT_FALSE(is_whole(node)) << at;
    *byte ^= 1;
  }
}

TEST(DisaggTree, IsFull) {
  std::vector<TreeNode> nodes(Tree::nodes_for(0));
  Tree tree(nodes);
  std::uint64_t count = 0;
  Status put;
  while ((put = tree.put(TreeKey::of(key_of(count)), 1).status()).ok()) ++count;
  EXPECT_TRUE(put.IsMemoryLimit());
  EXPECT_EQ(tree.size(), count);
  for (std::uint64_t i = 0; i < count; ++i) EXPECT_EQ(tree.find(TreeKey::of(key_of(i))), 1);
}

// Goal: an ordered server that keeps step has a write in its index when it says that it is logged.
// Method: one that would wait long before it has something in its index is told a write, and asked
//   at once how many wait.
// Mutation: one that does not keep step.
TEST(DisaggBench, OrderedServerKeepsStep) {
  using namespace breccia::disagg;
  constexpr fabric::TimeUs kLong = 10'000'000;
  const breccia::testing::Folder folder(breccia::testing::Place::kDisk);
  const auto port = fabric::local::LocalPort::open(folder / "server").take();
  const auto asker = fabric::local::LocalPort::open(folder / "asker").take();
  OrderedServer server(port.get(), {.idle_us = kLong, .sorts_aside = false, .keeps_step = true});
  std::atomic<bool> is_over{false};
  std::thread thread([&] {
    while (!is_over) EXPECT_TRUE(server.serve(port->now_us() + 200'000).ok());
  });
  const auto peer = asker->connect(port->address(), asker->now_us() + kLong).take();
  const auto ask = [&](Ask what, std::uint64_t request, const WireWriter& question) {
    const fabric::Header header{
        .kind = static_cast<std::uint8_t>(what), .epoch = 1, .request = request};
    EXPECT_TRUE(asker->send(peer, header, question.bytes(), asker->now_us() + kLong).ok());
  };
  const auto hear = [&](Ask what) {
    while (true) {
      const auto arrival = asker->poll(asker->now_us() + kLong);
      if (!arrival.has_value()) return IndexState{.waiting = 99};
      if (arrival->header.kind == static_cast<std::uint8_t>(Ask::kChains)) {
        // There is nothing that it could be built of: it is whole.
        fabric::Header header = arrival->header;
        header.kind |= kAnswerBit;
        const WireWriter none = WireWriter().add(Code::kOk).add(std::uint64_t{0});
        EXPECT_TRUE(asker->send(peer, header, none.bytes(), asker->now_us() + kLong).ok());
      }
      if (arrival->header.kind != (static_cast<std::uint8_t>(what) | kAnswerBit)) continue;
      WireReader answer(arrival->payload);
      EXPECT_TRUE(take_code(&answer).ok());
      return answer.take<IndexState>();
    }
  };
  ask(Ask::kFollow, 1, WireWriter().add(Follow{.from = 0, .is_whole = 1, .seeds = {}}));
  (void)hear(Ask::kFollow);
  std::uint64_t request = 2;
  do {
    ask(Ask::kState, request++, WireWriter());
  } while (hear(Ask::kState).is_whole == 0 && request < 100'000);
  WireWriter writes;
  writes.add(std::uint8_t{0});
  LoggedWrite{.sequence = 1, .slot = slot_of(0, {.line = 1}), .key = "k"}.add_to(&writes);
  ask(Ask::kShip, request++, writes);
  ask(Ask::kState, request++, WireWriter());
  const IndexState state = hear(Ask::kState);
  EXPECT_EQ(state.sequence, 1);
  EXPECT_EQ(state.waiting, 0);
  EXPECT_EQ(state.keys, 1);
  is_over = true;
  thread.join();
}

// Goal: a value says which key and version it is of, and no other bytes pass for it.
// Mutation: a sum without the version, or without the key.
TEST(DisaggData, ValuesSayWhatTheyAre) {
  const Data data(100, 64, 7);
  const std::string key = data.key(3), other = data.key(4);
  std::string value = data.value(key, 77);
  ASSERT_EQ(data.version_in(key, value), 77);
  EXPECT_FALSE(data.is_value(other, value));
  std::string of_other = data.value(other, 77);
  std::copy(key.begin(), key.end(), of_other.begin());
  EXPECT_FALSE(data.is_value(key, of_other));
  value[16] ^= 1;
  EXPECT_FALSE(data.is_value(key, value));
}

// Goal: a client notices what it may not see any more, and what nobody has written.
// Mutation: a client that believes any version of its own; versions that nobody has begun.
TEST(DisaggVersions, KnowWhatMayBeSeen) {
  Versions one(0, 10), other(1, 10);
  const std::vector<const Versions*> all = {&one, &other};
  EXPECT_TRUE(one.may_see(5, 0, all));
  const std::uint64_t first = one.begin_write(5);
  EXPECT_FALSE(one.may_see(5, 0, all));
  EXPECT_TRUE(one.may_see(5, first, all));
  EXPECT_TRUE(other.may_see(5, first, all));
  const std::uint64_t second = one.begin_write(5);
  EXPECT_FALSE(one.may_see(5, first, all));
  EXPECT_TRUE(one.may_see(5, second, all));
  EXPECT_FALSE(other.may_see(5, second + 1, all));
  EXPECT_TRUE(one.may_see(5, other.begin_write(5), all));
  EXPECT_TRUE(one.may_see(6, 0, all));
  EXPECT_FALSE(one.may_see(6, Versions(7, 10).begin_write(6), all));
}

/// Events of a port, one behind the other.
class Told {
 public:
  Told& message(Event::Kind kind, std::uint8_t message, std::uint64_t request, std::uint64_t word,
                std::uint64_t begin, std::uint64_t end) {
    watch_.events.push_back({.kind = kind,
                             .message = message,
                             .peer = 1,
                             .request = request,
                             .word = word,
                             .begin_ns = begin,
                             .end_ns = end});
    return *this;
  }
  Told& access(Event::Kind kind, std::uint64_t bytes, std::uint64_t begin, std::uint64_t end) {
    watch_.events.push_back({.kind = kind, .bytes = bytes, .begin_ns = begin, .end_ns = end});
    return *this;
  }
  Told& at(Event::Kind kind, std::uint64_t when) { return access(kind, 0, when, when); }
  [[nodiscard]] const Watch& watch() const { return watch_; }

 private:
  Watch watch_{1000};
};

constexpr auto kPut = static_cast<std::uint8_t>(Ask::kWrite);
constexpr auto kCommit = static_cast<std::uint8_t>(Ask::kCommit);
constexpr auto kShip = static_cast<std::uint8_t>(Ask::kShip);
constexpr auto kScan = static_cast<std::uint8_t>(Ask::kScan);
using Kind = Event::Kind;

// Goal: the phases of a put are what its client and the hash server did, and all of its time, also
//   if another one waits behind it.
// Method: ports' events as of two puts, the second of which comes while the first one is logged.
// Mutation: a put that came behind a message to the log counts as part of it; marks of one count
//   for both; a put that was refused counts.
TEST(DisaggPhases, OfPuts) {
  Told one, other, server;
  one.at(Kind::kBegin, 100)
      .access(Kind::kWrite, 320, 110, 140)
      .message(Kind::kSend, kPut, 1, 71, 142, 144)
      .message(Kind::kHear, kPut | kAnswerBit, 1, 0, 144, 148)
      .message(Kind::kSend, kPut, 2, 71, 150, 152)
      .message(Kind::kHear, kPut | kAnswerBit, 2, 0, 153, 300)
      .at(Kind::kEnd, 305);
  other.at(Kind::kBegin, 180)
      .access(Kind::kWrite, 320, 185, 190)
      .message(Kind::kSend, kPut, 1, 72, 195, 197)
      .message(Kind::kHear, kPut | kAnswerBit, 1, 0, 198, 500)
      .at(Kind::kEnd, 500);
  server.message(Kind::kHear, kPut, 1, 71, 0, 145)
      .message(Kind::kSend, kPut | kAnswerBit, 1, 0, 146, 147)  // refused
      .message(Kind::kHear, kPut, 2, 71, 147, 160)
      .message(Kind::kSend, kCommit, 3, 0, 161, 162)
      .message(Kind::kSend, kCommit, 4, 0, 162, 163)
      .message(Kind::kHear, kCommit | kAnswerBit, 4, 0, 163, 165)
      .message(Kind::kSend, kCommit, 3, 0, 165, 166)  // once more
      .message(Kind::kHear, kCommit | kAnswerBit, 3, 0, 166, 168)
      .message(Kind::kSend, kShip, 5, 0, 170, 172)
      .message(Kind::kHear, kPut, 3, 72, 172, 210)
      .message(Kind::kSend, kCommit, 7, 0, 211, 212)
      .message(Kind::kSend, kShip, 5, 0, 215, 216)  // once more
      .message(Kind::kHear, kShip | kAnswerBit, 5, 0, 216, 220)
      .message(Kind::kSend, kShip, 6, 0, 230, 235)
      .access(Kind::kWrite, 8, 240, 250)
      .message(Kind::kSend, kPut | kAnswerBit, 2, 0, 280, 285)
      .message(Kind::kHear, kShip | kAnswerBit, 6, 0, 285, 400)
      .message(Kind::kHear, kCommit | kAnswerBit, 7, 0, 401, 405)
      .access(Kind::kWrite, 8, 410, 430)
      .message(Kind::kSend, kPut | kAnswerBit, 3, 0, 450, 455);
  const Phases phases = phases_of_puts({&one.watch(), &other.watch()}, server.watch());
  ASSERT_EQ(phases.names, (std::vector<std::string>{"value", "rpc", "queue", "log", "commit",
                                                    "mark", "apply", "rest"}));
  ASSERT_EQ(phases.ns.size(), 2);
  EXPECT_EQ(phases.ns[0], (std::vector<std::uint64_t>{30, 38, 10, 50, 0, 10, 50, 17}));
  EXPECT_EQ(phases.ns[1], (std::vector<std::uint64_t>{5, 65, 20, 170, 5, 20, 25, 10}));
}

// Goal: the same of lookups and ranges; parts of a hundred are of all of them.
// Mutation: a bucket's read counts as a value's.
TEST(DisaggPhases, OfReads) {
  Told client;
  client.at(Kind::kBegin, 0)
      .access(Kind::kRead, 64, 10, 20)
      .access(Kind::kRead, 320, 20, 50)
      .at(Kind::kEnd, 100)
      .at(Kind::kBegin, 100);  // one that did not end
  const Phases gets = phases_of_gets({&client.watch()});
  ASSERT_EQ(gets.ns, (std::vector<std::vector<std::uint64_t>>{{10, 30, 60}}));
  const auto figures = figures_of(gets, "get", 1);
  ASSERT_EQ(figures.size(), 3);
  EXPECT_EQ(figures[1]->name, "get_block");
  EXPECT_EQ(figures[1]->share_percent, 30);
  EXPECT_EQ(figures[1]->ns.max(), 30);

  Told other;
  other.at(Kind::kBegin, 0)
      .message(Kind::kSend, kScan, 3, 0, 5, 6)
      .message(Kind::kHear, kScan | kAnswerBit, 3, 0, 7, 45)
      .access(Kind::kRead, 3200, 50, 80)
      .access(Kind::kRead, 64, 80, 85)
      .at(Kind::kEnd, 90);
  const Phases scans = phases_of_scans({&other.watch()});
  ASSERT_EQ(scans.ns, (std::vector<std::vector<std::uint64_t>>{{40, 30, 5, 15}}));
}

}  // namespace
}  // namespace breccia::bench::disagg
