#include "disagg/asking.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace breccia::disagg {

namespace {

using fabric::Arrival;
using fabric::PeerId;
using fabric::TimeUs;

constexpr PeerId kPeer = 7;
constexpr TimeUs kAgainUs = 100, kBegin = 1000, kUntil = kBegin + 1000;

/// A port with a clock of its own, which goes forward where a call waits. What is sent takes as
/// long as it may, or no time.
class SlowPort final : public fabric::Port {
 public:
  struct Sent {
    fabric::Header header;
    TimeUs began, until;
  };

  Status send(PeerId peer, const fabric::Header& header, std::span<const std::byte>,
              TimeUs until) override {
    EXPECT_EQ(peer, kPeer);
    sent.push_back({.header = header, .began = now, .until = until});
    if (!fails_with.ok()) return fails_with;
    if (sent.size() <= sends_that_wait) {
      now = std::max(now, until);
      if (!wait_goes) return Status::TimedOut("a peer takes no messages");
    }
    if (sent.size() >= answered_from) answer(header);
    return Status::OK();
  }
  std::optional<Arrival> poll(TimeUs until) override {
    if (arrivals.empty()) {
      now = std::max(now, until);
      return std::nullopt;
    }
    Arrival first = std::move(arrivals.front());
    arrivals.pop_front();
    return first;
  }
  void answer(const fabric::Header& question) {
    WireWriter writer;
    writer.add(Code::kOk).add(std::uint64_t{42});
    arrivals.push_back({.kind = Arrival::Kind::kMessage,
                        .peer = kPeer,
                        .header = {.kind = static_cast<std::uint8_t>(question.kind | kAnswerBit),
                                   .epoch = question.epoch,
                                   .request = question.request},
                        .payload = {writer.bytes().begin(), writer.bytes().end()}});
  }

  [[nodiscard]] std::string describe() const override { return "slow"; }
  [[nodiscard]] std::string address() const override { return "slow"; }
  [[nodiscard]] TimeUs now_us() const override { return now; }
  Result<std::unique_ptr<fabric::Region>> make_region(std::uint64_t, fabric::Access) override {
    return Status::NotSupported("no regions");
  }
  Result<PeerId> connect(const std::string&, TimeUs) override { return kPeer; }
  [[nodiscard]] bool is_gone(PeerId) const override { return false; }
  void disconnect(PeerId) override {}
  Status read(PeerId, std::span<const fabric::Read>, TimeUs) override {
    return Status::NotSupported("no regions");
  }
  Status write(PeerId, std::span<const fabric::Write>, TimeUs) override {
    return Status::NotSupported("no regions");
  }

  TimeUs now = kBegin;
  std::size_t sends_that_wait = SIZE_MAX;
  bool wait_goes = false;  // what waited went at last
  std::size_t answered_from = SIZE_MAX;
  Status fails_with;
  std::vector<Sent> sent;
  std::deque<Arrival> arrivals;
};

struct AskingOf {
  SlowPort port;
  Asking asking{&port, kAgainUs};

  auto ask(const Asking::IsOff& is_off = {}) {
    return asking.ask(kPeer, Ask::kPut, {}, kUntil, is_off);
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
  one.port.answer({.kind = static_cast<std::uint8_t>(Ask::kPut), .epoch = 0, .request = 1});
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

// Goal: what else is wrong with a send is told at once.
TEST(Asking, TellsWhatASendSays) {
  AskingOf one;
  one.port.fails_with = Status::IOError("the peer is gone");
  EXPECT_TRUE(one.ask().status().IsIOError());
  EXPECT_EQ(one.port.sent.size(), 1U);
  EXPECT_EQ(one.port.now, kBegin);
}

}  // namespace breccia::disagg
