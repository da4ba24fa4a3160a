#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "disagg/client/routes.h"
#include "disagg/location.h"

namespace breccia::disagg {

/// The blocks of memory servers that a client has: those that it was leased, many at once, and has
/// not written yet, and those that nobody needs any more, which rest before it gives them back.
/// What it was leased before other servers had a part in that memory it gives back unwritten: a
/// mirror may be copying it. What it has for too long it forgets: the server finds it (orphans.h).
/// Owner   routes and port outlive it.
/// Threads the port's.
class LeasedBlocks {
 public:
  /// Shape   at most lease_max blocks at once.
  LeasedBlocks(fabric::Port* port, Routes* routes, std::uint32_t lease_max)
      : port_(port), routes_(routes), lease_max_(lease_max) {}

  /// Of any server that has one, a random one first.
  /// Errors  MemoryLimit: none has; TryAgain, TimedOut: none can be asked.
  Result<Location> take(std::uint32_t size_class, base::Random* random, fabric::TimeUs until);
  /// It could not be written, and may be yet: it is lost. For a while none is leased there, unless
  /// other servers come to have that memory.
  void lose_unwritten(const Location& block);
  /// Until then who begins a write now may ask for it, which is to be done by `until`.
  [[nodiscard]] fabric::TimeUs ask_until(const Location& block, fabric::TimeUs until) const;
  /// Nobody begins to read it any more. Whoever let it rest began that write at `since`.
  void let_rest(const Location& block, fabric::TimeUs since);
  /// Gives back what has rested.
  /// Errors  Corruption: a server says that a block was not in use.
  Status tend(fabric::TimeUs until);
  /// Gives all back, when that has rested.
  /// Errors  TimedOut; Corruption.
  Status close(fabric::TimeUs until);
  /// Blocks of which nobody knows whether they are in use.
  [[nodiscard]] std::uint64_t lost() const { return lost_; }
  void lose() { ++lost_; }

 private:
  struct Resting {
    fabric::TimeUs until;
    fabric::TimeUs since;
    Location block;
  };
  using Lines = std::vector<std::uint64_t>;
  struct Leased {
    std::uint64_t servers = 0;  // of which these were leased
    fabric::TimeUs since = 0;   // when they were asked for
    Lines lines;
  };

  Status lease(std::uint32_t node, std::uint32_t size_class, Lines* lines, fabric::TimeUs until);
  void avoid(std::uint32_t node);
  [[nodiscard]] bool is_avoided(std::uint32_t node) const;
  [[nodiscard]] bool is_held(std::uint32_t node, fabric::TimeUs since) const;
  Result<Lines*> lease_lines(std::uint32_t node, std::uint32_t size_class, fabric::TimeUs until);
  void return_unwritten(std::uint32_t node, std::uint32_t size_class, Leased* leased);
  void put_off(Resting one);
  Status give_back(std::uint32_t node, const std::vector<Resting>& blocks, fabric::TimeUs until);

  fabric::Port* const port_;
  Routes* const routes_;
  const std::uint32_t lease_max_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Leased> leased_;  // by node and class
  std::deque<Resting> resting_;
  struct Avoided {
    std::uint64_t servers = 0;
    fabric::TimeUs for_us = 0;
    fabric::TimeUs until = 0;
  };
  std::map<std::uint32_t, Avoided> avoided_;  // by node
  std::uint64_t lost_ = 0;
};

}  // namespace breccia::disagg
