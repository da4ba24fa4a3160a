#include "disagg/asking.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "disagg/index/ordered_link.h"
#include "unit/disagg/slow_port.h"

namespace breccia::disagg {

namespace {

using fabric::TimeUs;
using testing::SlowPort;

constexpr fabric::PeerId kPeer = SlowPort::kPeer;
constexpr TimeUs kAgainUs = 100, kBegin = SlowPort::kBegin, kUntil = kBegin + 1000;

struct AskingOf {
  SlowPort port;
  Asking asking{&port, kAgainUs};

  auto ask(const Asking::IsOff& is_off = {}) {
    return asking.ask(kPeer, Ask::kWrite, {}, kUntil, is_off);
  }
};

}  // namespace

// Goal: a peer that takes no messages does not keep who asks from looking whether that is off.
// Method: sends wait as long as they may; it is off from a moment on.
// Mutation: a send that is given all of the question's time ends there, and nobody has looked.
TEST(Asking, LooksInTimeWhetherItIsOff) {
  AskingOf one;
  std::vector<TimeUs> looked;
  const auto answer = one.ask([&] {
    looked.push_back(one.port.now);
    return looked.size() == 3;
  });
  EXPECT_TRUE(answer.status().IsIOError()) << answer.status().ToString();
  EXPECT_EQ(looked,
            (std::vector<TimeUs>{kBegin + kAgainUs, kBegin + 2 * kAgainUs, kBegin + 3 * kAgainUs}));
  for (const auto& sent : one.port.sent) EXPECT_LE(sent.until, sent.began + kAgainUs);
}

// Goal: a question whose send timed out is the same one when it is put again, and is answered.
TEST(Asking, PutsTheSameQuestionAgain) {
  AskingOf one;
  one.asking.set_epoch(3);
  one.port.sends_that_wait = 4;
  one.port.answered_from = 5;
  const auto answer = one.ask();
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  WireReader reader(answer.value());
  EXPECT_EQ(reader.take<std::uint64_t>(), 42U);
  ASSERT_EQ(one.port.sent.size(), 5U);
  for (const auto& sent : one.port.sent) EXPECT_EQ(sent.header, one.port.sent.front().header);
  EXPECT_EQ(one.port.now, kBegin + 4 * kAgainUs);
}

// Goal: what was sent in time, but slowly, is waited for as long as what was sent at once.
TEST(Asking, WaitsForTheAnswerBehindASlowSend) {
  AskingOf one;
  one.port.sends_that_wait = 1;
  one.port.wait_goes = true;
  one.port.answered_from = 2;
  ASSERT_TRUE(one.ask().ok());
  ASSERT_EQ(one.port.sent.size(), 2U);
  EXPECT_EQ(one.port.sent.back().began, kBegin + 2 * kAgainUs);
}

// Goal: an answer to a question of which the port says that it did not go is an answer.
TEST(Asking, HearsTheAnswerToWhatWasNotSent) {
  AskingOf one;
  int looks = 0;
  one.port.answer({.kind = static_cast<std::uint8_t>(Ask::kWrite), .epoch = 0, .request = 1});
  EXPECT_TRUE(one.ask([&] { return ++looks > 0; }).ok());
  EXPECT_EQ(looks, 0);
}

// Goal: the question's own time is the end of it.
TEST(Asking, TimesOutWhenItsTimeIsOver) {
  for (const bool takes : {false, true}) {
    AskingOf one;
    if (takes) one.port.sends_that_wait = 0;
    const auto answer = one.ask([] { return false; });
    EXPECT_TRUE(answer.status().IsTimedOut()) << answer.status().ToString();
    EXPECT_EQ(one.port.now, kUntil);
    ASSERT_FALSE(one.port.sent.empty());
    EXPECT_LE(one.port.sent.back().until, kUntil);
  }
}

// Goal: of several questions each is put though others' peers take nothing; of what was never put
//   that is said.
// Mutation: a send that waits for a peer while others could be asked.
TEST(Asking, NobodyWaitsForAPeerThatTakesNothing) {
  AskingOf one;
  const WireWriter bytes;
  std::array<Asking::Question, 3> all;
  for (std::size_t i = 0; i < all.size(); ++i) all.at(i) = {.peer = kPeer, .bytes = &bytes};
  one.asking.ask(Ask::kWrite, all, kUntil);
  ASSERT_GE(one.port.sent.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(one.port.sent[i].began, kBegin);
  for (const auto& sent : one.port.sent) EXPECT_EQ(sent.until, sent.began);
  for (const Asking::Question& question : all) EXPECT_TRUE(question.answer.status().IsTimedOut());
  for (Asking::Question& question : all) question = {.peer = kPeer, .bytes = &bytes};
  one.asking.ask(Ask::kWrite, all, one.port.now);
  for (const Asking::Question& question : all) EXPECT_TRUE(question.answer.status().IsTryAgain());
}

// Goal: what else is wrong with a send is told at once.
TEST(Asking, TellsWhatASendSays) {
  AskingOf one;
  one.port.fails_with = Status::IOError("the peer is gone");
  EXPECT_TRUE(one.ask().status().IsIOError());
  EXPECT_EQ(one.port.sent.size(), 1U);
  EXPECT_EQ(one.port.now, kBegin);
}

// Goal: neither does an ordered server hold up the hash server, which has clients and a session.
// Method: questions to a server that takes no messages, and looks of the hash server between.
// Mutation: sends that have more time than there is between two of them.
TEST(OrderedLink, IsNotHeldUpByAServerThatTakesNothing) {
  SlowPort port;
  Asking asking(&port, kAgainUs);
  OrderedLink link(&port, &asking, {.again_us = kAgainUs, .meet_us = 50});
  link.follow({.member = "o", .address = "slow"}, /*epoch=*/5);
  for (int look = 1; look <= 4; ++look) {
    const TimeUs before = port.now;
    link.tend({});
    EXPECT_LE(port.now, before + kAgainUs);
    ASSERT_EQ(port.sent.size(), static_cast<std::size_t>(look));
    EXPECT_EQ(port.sent.back().header, port.sent.front().header);
  }
  EXPECT_TRUE(link.is_asked(Ask::kFollow));
}

}  // namespace breccia::disagg
