#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "disagg/protocol.h"
#include "fabric/port.h"

namespace breccia::disagg::testing {

/// A port with a clock of its own, which goes forward where a call waits. What is sent takes as
/// long as it may, or no time.
class SlowPort final : public fabric::Port {
 public:
  using Arrival = fabric::Arrival;
  using PeerId = fabric::PeerId;
  using TimeUs = fabric::TimeUs;
  static constexpr PeerId kPeer = 7;
  static constexpr TimeUs kBegin = 1000;

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
  Result<PeerId> connect(const std::string&, TimeUs) override {
    if (!connects_with.ok()) return connects_with;
    return kPeer;
  }
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
  Status connects_with;
  std::vector<Sent> sent;
  std::deque<Arrival> arrivals;
};

}  // namespace breccia::disagg::testing
