#include "disagg/index/ordered_server.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <thread>

#include "disagg/protocol.h"
#include "fabric/local/local_port.h"
#include "support/folder.h"

namespace breccia::disagg {
namespace {

constexpr fabric::TimeUs kLongUs = 10'000'000;

/// A hash server's part, by hand, and an ordered server that does a turn when it is told to.
class ByTurns {
 public:
  ByTurns() {
    std::atomic<bool> is_met{false};
    std::thread meets([&] {
      while (!is_met) turn();
    });
    peer_ = hand_->connect(port_->address(), hand_->now_us() + kLongUs).take();
    is_met = true;
    meets.join();
  }

  void turn() { EXPECT_TRUE(server.serve(0).ok()); }
  void ask(Ask what, const WireWriter& question) {
    send({.kind = static_cast<std::uint8_t>(what), .epoch = 1, .request = next_request_++},
         question);
  }
  /// Waits, by turns, for a question of the server's.
  fabric::Header hear(Ask what) {
    while (true) {
      turn();
      const auto arrival = hand_->poll(0);
      if (arrival.has_value() && arrival->header.kind == static_cast<std::uint8_t>(what)) {
        return arrival->header;
      }
    }
  }
  void answer(fabric::Header header, const WireWriter& answer) {
    header.kind |= kAnswerBit;
    send(header, answer);
  }

 private:
  void send(const fabric::Header& header, const WireWriter& message) {
    ASSERT_TRUE(hand_->send(peer_, header, message.bytes(), hand_->now_us() + kLongUs).ok());
  }

  const breccia::testing::Folder folder_{breccia::testing::Place::kDisk};
  const std::unique_ptr<fabric::Port> port_ =
      fabric::local::LocalPort::open(folder_ / "server").take();
  const std::unique_ptr<fabric::Port> hand_ =
      fabric::local::LocalPort::open(folder_ / "hand").take();
  fabric::PeerId peer_ = 0;
  std::uint64_t next_request_ = 1;

 public:
  OrderedServer server{port_.get(), {.sorts_aside = false}};
};

// Goal: a server that was built of few keys, while many were written, has these in its index some
//   at a time, and is whole when few are left: it is not silent for a session.
// Method: one is told 200,000 writes, and then that there is nothing to build its index of.
// Mutation: it is whole as soon as it is built; or all of the log goes in with the first message
//   behind that.
TEST(DisaggOrderedServer, CatchesUpSomeAtATime) {
  constexpr std::uint64_t kWrites = 200'000, kOfAMessage = 4000, kAtOnceMax = 20'000;
  ByTurns by_turns;
  OrderedServer& server = by_turns.server;
  by_turns.ask(Ask::kFollow, WireWriter().add(Follow{.from = 0, .is_whole = 1, .seeds = {}}));
  const fabric::Header chains = by_turns.hear(Ask::kChains);
  for (std::uint64_t first = 1; first < kWrites; first += kOfAMessage) {
    WireWriter writes;
    writes.add(std::uint8_t{0});
    for (std::uint64_t i = first; i < first + kOfAMessage; ++i) {
      LoggedWrite{.sequence = i, .slot = slot_of(0, {.line = i}), .key = std::to_string(i)}.add_to(
          &writes);
    }
    by_turns.ask(Ask::kShip, writes);
    by_turns.turn();
  }
  while (server.lag() < kWrites) by_turns.turn();
  EXPECT_FALSE(server.is_whole());
  by_turns.answer(chains, WireWriter().add(Code::kOk).add(std::uint64_t{0}));
  std::size_t most = 0;
  while (!server.is_whole()) {
    const std::size_t before = server.lag();
    by_turns.ask(Ask::kState, WireWriter());
    by_turns.turn();
    most = std::max(most, before - server.lag());
  }
  EXPECT_GT(most, 0);
  EXPECT_LT(most, kAtOnceMax);
  EXPECT_GT(server.lag(), 0);
  EXPECT_LT(server.lag(), kWrites / 2);
  EXPECT_EQ(server.size() + server.lag(), kWrites);
}

}  // namespace
}  // namespace breccia::disagg
