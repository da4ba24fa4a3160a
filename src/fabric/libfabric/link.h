#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "fabric/libfabric/endpoint.h"
#include "fabric/libfabric/packet.h"
#include "fabric/port.h"

namespace breccia::fabric::libfabric {

/// A part counts from when it is sent until it is taken.
constexpr std::uint32_t kPartsUnderWayMax = 16;
/// Questions for bytes, and bytes to be written, that are not answered yet.
constexpr std::size_t kQuestionsMax = 8;

/// A peer, and what goes on between it and this port.
struct Link {
  struct Waiting {
    Kind kind;
    std::vector<std::byte> body;  // of kGathered the question
  };
  struct Question {
    std::uint64_t batch;
    Kind answer;
    std::span<const Read> reads;  // as long as the batch is there; of a scatter none
  };

  PeerId peer = 0;
  Endpoint* endpoint = nullptr;
  bool is_guest = false;             // it has connected
  bool is_of_other_version = false;  // it goes as soon as the other side is told
  fi_addr_t to = FI_ADDR_UNSPEC;
  RawAddress address;
  std::uint64_t name = 0;   // what the other side calls it
  std::uint64_t other = 0;  // what it is called there; 0: no welcome yet

  // What goes out: `waiting`, then parts of the message.
  std::deque<Waiting> waiting;
  std::vector<std::byte> message;
  std::size_t message_sent = 0;
  std::uint32_t sequence_out = 0;
  std::uint32_t parts_sent = 0, parts_granted = 0;
  std::size_t slots_held = 0;
  TimeUs stuck_us = 0;  // since when it takes nothing, though nothing is under way

  // What comes.
  std::uint32_t sequence_in = 0;
  std::uint32_t parts_came = 0, parts_let = kPartsUnderWayMax, parts_told = 0;
  std::vector<std::byte> came;  // of a message that is not whole yet
  std::size_t inbox_bytes = 0;  // of messages that nobody has polled yet
  std::size_t answers_owed = 0;
  int pings = 0;  // since anything came
  TimeUs looked_us = 0;

  // None: it was asked what that region is.
  std::map<std::uint64_t, std::optional<Facts>> regions;
  std::map<std::uint32_t, Question> questions;
  std::uint32_t next_question = 0;

  [[nodiscard]] bool has_message() const { return message_sent < message.size(); }
  [[nodiscard]] bool may_send_part() const { return parts_sent != parts_granted; }
  [[nodiscard]] bool owes_grant() const {
    return other != 0 && parts_let - parts_told >= kPartsUnderWayMax / 2;
  }
};

}  // namespace breccia::fabric::libfabric
