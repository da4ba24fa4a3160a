#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "disagg/block.h"
#include "disagg/index/index_server.h"
#include "disagg/location.h"
#include "disagg/memory/memory_server.h"
#include "disagg/memory/pool_image.h"
#include "disagg/protocol.h"
#include "fabric/sim/net.h"

/// Servers one at a time, and by hand whoever they talk to: what comes in which order is written
/// down in the test, not drawn.

namespace breccia::disagg::testing {

using fabric::TimeUs;
using fabric::sim::Net;

constexpr TimeUs kAgainUs = 300;
constexpr TimeUs kSoonUs = 2000;  // what is answered at all is answered by then
constexpr std::uint64_t kChunkBytes = PoolImage::kChunkLines * kLineBytes;

/// A thread on a network without surprises, where each way takes up to ten microseconds.
inline void run_by_hand(const std::function<void(Net*)>& body) {
  Net net(1, {.delay_us_max = 10, .torn_one_in = 0});
  net.start(net.add_node(), [&] { body(&net); });
  net.run();
}

inline Location nth_block(std::uint32_t size_class, std::uint64_t number) {
  return {.node = 0,
          .size_class = size_class,
          .line = PoolImage::line_of(size_class, {.chunk = 0, .block = number})};
}

inline void write_block(std::span<std::byte> memory, const Location& block,
                        const std::string& value, const std::string& key = "key") {
  static std::uint32_t generation = 1;
  const std::vector<std::byte> bytes = make_block(++generation, key, value);
  ASSERT_LE(bytes.size(), block.bytes());
  std::memcpy(memory.data() + block.offset(), bytes.data(), bytes.size());
}

/// A key of a shard of a map whose shards are divided by no seed.
inline std::string key_of_shard(std::uint32_t shard, std::uint32_t shards) {
  const Placement placement{.seed = {}, .shards = shards};
  std::string key = "a";
  while (placement.shard_of(key) != shard) ++key.back();
  return key;
}

/// A memory server is told that its write was taken.
inline WireWriter commit_of(std::span<const std::byte> memory, const Location& block,
                            std::uint64_t sequence, std::uint32_t shard = 0) {
  const auto view = whole_block(memory.subspan(block.offset(), block.bytes()));
  EXPECT_TRUE(view.has_value());
  return WireWriter().add(shard).add(slot_of(0, block)).add(view->generation).add(sequence);
}
/// The write that it is of; 0: of none that was taken.
inline std::uint64_t sequence_in(std::span<const std::byte> memory, const Location& block) {
  const auto view = whole_block(memory.subspan(block.offset(), block.bytes()));
  return view.has_value() ? view->sequence : 0;
}

inline void mark_block(std::span<std::byte> memory, const Location& block) {
  constexpr std::uint64_t kState = BlockHeader::kReplaced;
  std::memcpy(memory.data() + block.offset() + BlockHeader::kStateOffset, &kState, sizeof kState);
}

/// Its value, behind it a mark if it has one; "none": it is no block.
inline std::string block_in(std::span<const std::byte> memory, const Location& block) {
  const auto view = whole_block(memory.subspan(block.offset(), block.bytes()));
  if (!view.has_value()) return "none";
  return view->value.ToString() + (view->is_replaced ? ", marked" : "");
}

/// A server in a thread of its own, as long as the network is.
template <class Server>
struct Served {
  Server* server = nullptr;
  std::string address;
  Net::Node node = 0;
};

inline bool serve_once(MemoryServer* server, TimeUs until) {
  server->serve(until);
  return true;
}
inline bool serve_once(IndexServer* server, TimeUs until) {
  const Status served = server->serve(until);
  EXPECT_TRUE(served.ok()) << served.ToString();
  return served.ok();
}

template <class Server>
Served<Server> serve(Net* net,
                     const std::function<std::unique_ptr<Server>(fabric::Port* port)>& make) {
  constexpr TimeUs kTurnUs = 1000;
  Served<Server> served{.server = nullptr, .address = {}, .node = net->add_node()};
  net->let_serve(served.node);
  net->start(served.node, [net, &served, node = served.node, make] {
    const auto port = net->open(node);
    const auto server = make(port.get());
    served.address = port->address();
    served.server = server.get();
    while (serve_once(server.get(), net->now_us() + kTurnUs)) continue;
  });
  while (served.server == nullptr) net->sleep(1);
  return served;
}

/// Asks servers, and is asked by them, by hand.
class Hand {
 public:
  explicit Hand(Net* net) : node_(net->add_node()), port_(net->open(node_)) {}

  [[nodiscard]] Net::Node node() const { return node_; }
  [[nodiscard]] fabric::Port* port() const { return port_.get(); }
  [[nodiscard]] fabric::PeerId meet(const std::string& address) {
    return port_->connect(address, port_->now_us() + kSoonUs).take();
  }

  /// Puts a question; its number.
  std::uint64_t put(fabric::PeerId peer, Ask what, std::uint32_t epoch,
                    const WireWriter& question) {
    const fabric::Header header{
        .kind = static_cast<std::uint8_t>(what), .epoch = epoch, .request = ++request_};
    EXPECT_TRUE(port_->send(peer, header, question.bytes(), port_->now_us() + kSoonUs).ok());
    return request_;
  }
  /// What was answered, or is within so long. Empty: nothing.
  std::vector<std::byte> answer_to(std::uint64_t request, TimeUs wait = kSoonUs) {
    const TimeUs until = port_->now_us() + wait;
    do {
      hear(until);
    } while (!answers_.contains(request) && port_->now_us() < until);
    const auto found = answers_.find(request);
    return found == answers_.end() ? std::vector<std::byte>() : found->second;
  }
  /// Its code; none: there is no answer.
  std::optional<Code> code_of(std::uint64_t request, TimeUs wait = kSoonUs) {
    const std::vector<std::byte> answer = answer_to(request, wait);
    return answer.empty() ? std::nullopt : std::optional(WireReader(answer).take<Code>());
  }
  /// The next question that has come, or comes within so long.
  std::optional<fabric::Arrival> question(TimeUs wait = kSoonUs) {
    const TimeUs until = port_->now_us() + wait;
    do {
      hear(until);
    } while (questions_.empty() && port_->now_us() < until);
    if (questions_.empty()) return std::nullopt;
    fabric::Arrival first = std::move(questions_.front());
    questions_.pop_front();
    return first;
  }
  void answer(const fabric::Arrival& question, const WireWriter& answer) {
    fabric::Header header = question.header;
    header.kind |= kAnswerBit;
    EXPECT_TRUE(port_->send(question.peer, header, answer.bytes(), port_->now_us() + kSoonUs).ok());
  }

 private:
  /// One thing, or nothing.
  void hear(TimeUs until) {
    auto arrival = port_->poll(until);
    if (!arrival.has_value() || arrival->kind != fabric::Arrival::Kind::kMessage) return;
    if ((arrival->header.kind & kAnswerBit) != 0) {
      answers_[arrival->header.request] = std::move(arrival->payload);
    } else {
      questions_.push_back(*std::move(arrival));
    }
  }

  const Net::Node node_;
  const std::unique_ptr<fabric::Port> port_;
  std::uint64_t request_ = 0;
  std::map<std::uint64_t, std::vector<std::byte>> answers_;  // by request
  std::deque<fabric::Arrival> questions_;
};

/// Answers at once what comes until then, whoever asks.
template <class Answer>
void answer_all(fabric::Port* port, Answers* answers, const Answer& answer, TimeUs until) {
  disagg::serve(
      port, answers,
      [&answer](const Answers::Asker& /*asker*/, Ask ask, WireReader question) {
        return std::optional(answer(ask, question));
      },
      until);
}

/// A memory server that gives each block once, and notes which come back.
class MemoryByHand {
 public:
  static constexpr std::uint32_t kBlockClass = 1;

  MemoryByHand(fabric::Port* port, TimeUs hold_us)
      : port_(port),
        hold_us_(hold_us),
        region_(port->make_region(kChunkBytes, fabric::Access::kReadWrite).take()),
        answers_(port) {}

  void serve(TimeUs until) {
    answer_all(
        port_, &answers_, [this](Ask ask, WireReader question) { return answer(ask, question); },
        until);
  }
  [[nodiscard]] std::span<std::byte> memory() { return region_->bytes(); }
  [[nodiscard]] const std::vector<Location>& leased() const { return leased_; }
  [[nodiscard]] const std::vector<Location>& given_back() const { return given_back_; }

 private:
  WireWriter answer(Ask ask, WireReader question) {
    WireWriter answer = answer_of(Code::kOk);
    if (ask == Ask::kPool) {
      return answer.add(PoolInfo{.region = region_->name(), .node = 0, .hold_us = hold_us_});
    }
    if (ask == Ask::kLease) {
      EXPECT_EQ(question.take<std::uint32_t>(), kBlockClass);
      for (auto n = question.take<std::uint32_t>(); n > 0; --n) {
        leased_.push_back(nth_block(kBlockClass, leased_.size()));
        answer.add(leased_.back().line);
      }
      return answer;
    }
    EXPECT_EQ(ask, Ask::kGiveBack);
    while (question.left() > 0) {
      const auto size_class = question.take<std::uint32_t>();
      given_back_.push_back({0, size_class, question.take<std::uint64_t>()});
    }
    return answer;
  }

  fabric::Port* const port_;
  const TimeUs hold_us_;
  const std::unique_ptr<fabric::Region> region_;
  Answers answers_;
  std::vector<Location> leased_, given_back_;
};

inline bool serve_once(MemoryByHand* server, TimeUs until) {
  server->serve(until);
  return true;
}

}  // namespace breccia::disagg::testing
