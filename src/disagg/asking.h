#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "disagg/protocol.h"
#include "fabric/port.h"

namespace breccia::disagg {

/// Questions of one port, one after the other, or several at once. A question that may have got
/// lost is put again, as the same one: servers answer each once (answers.h). What else comes
/// meanwhile goes to whoever hears others, or is forgotten.
/// Owner   the port outlives it.
/// Threads the port's.
class Asking {
 public:
  Asking(fabric::Port* port, fabric::TimeUs again_us) : port_(port), again_us_(again_us) {}

  /// Whether a question is not worth waiting for any more.
  using IsOff = std::function<bool()>;

  /// What was answered behind its code. `is_off` is asked each time before the question is put once
  /// more, which is also where the peer took no message for that time; it asks nobody by this.
  /// Errors  TimedOut: nothing was. IOError: the peer is gone, or it is off. MemoryLimit, Busy,
  ///         TryAgain (another epoch), InvalidArgument: what it says by its code.
  Result<std::vector<std::byte>> ask(fabric::PeerId peer, Ask what, const WireWriter& question,
                                     fabric::TimeUs until, const IsOff& is_off = {});

  /// One of several questions, each to another peer.
  struct Question {
    fabric::PeerId peer = 0;
    const WireWriter* bytes = nullptr;
    IsOff is_off = {};
    /// What came of it, as of ask(); TryAgain: it was never put, as the time was over.
    Result<std::vector<std::byte>> answer = Status::TryAgain("there was no time to ask");

    fabric::TimeUs answered_us = 0;  // when that came

    std::uint64_t request = 0;
    fabric::TimeUs again = 0;
    bool was_put = false;
    bool is_over = false;
  };
  /// Puts all of them at once, and waits until each is over.
  void ask(Ask what, std::span<Question> all, fabric::TimeUs until);

  using Hears = std::function<void(const fabric::Arrival&)>;
  void let_hear_others(Hears hears) { hears_others_ = std::move(hears); }

  /// What stands before all questions from here on.
  void set_epoch(std::uint32_t epoch) { epoch_ = epoch; }
  /// A number that no other question of the port has.
  std::uint64_t draw_request() { return next_request_++; }

 private:
  void put(Ask what, Question* one, fabric::TimeUs patience, fabric::TimeUs until);
  void hear(Ask what, fabric::Arrival* arrival, std::span<Question> all);

  fabric::Port* const port_;
  const fabric::TimeUs again_us_;
  Hears hears_others_;
  std::uint32_t epoch_ = 0;
  std::uint64_t next_request_ = 1;
};

/// What an answer has behind its code.
/// Errors  as of Asking::ask().
[[nodiscard]] Status take_code(WireReader* answer);

/// A memory server, as who uses its blocks knows it.
struct MemoryPeer {
  fabric::PeerId peer = 0;
  std::uint32_t node = 0;
  fabric::RegionName region;
  fabric::TimeUs hold_us = 0;
};

/// Connects to a memory server, and asks for its pool.
/// Errors  those of a connection and a question; IOError: it is no memory server.
Result<MemoryPeer> meet_memory(fabric::Port* port, Asking* asking, const std::string& address,
                               fabric::TimeUs until);

}  // namespace breccia::disagg
