#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace breccia::txn {

/// Transactions, by number.
using OwnerId = std::uint64_t;

/// Who waits for whom. A wait that would close a cycle is refused, so there never is one.
///
/// Pure: no clock, no threads, no locks.
/// Threads one at a time.
class WaitGraph {
 public:
  struct Cycle {
    /// From one that the waiter waits for to the waiter itself, each waiting for the next and the
    /// last for the first. Empty: the search was given up.
    std::vector<OwnerId> owners;
    bool limit_exceeded = false;
  };

  /// `waiter` begins to wait for every one of `holders`. None: it waits. A cycle: it would wait for
  /// itself, or more than `owners_max` owners had to be looked at; nothing changed then.
  /// Shape   the waiter waits for nobody, and is not among `holders`.
  /// Cost    one look at each owner that is waited for, directly or not, up to `owners_max`.
  [[nodiscard]] std::optional<Cycle> wait(OwnerId waiter, std::vector<OwnerId> holders,
                                          std::uint64_t owners_max);
  /// `waiter` waits for nobody any more.
  void stop(OwnerId waiter) { waits_.erase(waiter); }

  [[nodiscard]] std::size_t waiters() const { return waits_.size(); }

 private:
  [[nodiscard]] std::optional<Cycle> cycle_of(OwnerId waiter, const std::vector<OwnerId>& holders,
                                              std::uint64_t owners_max) const;

  std::unordered_map<OwnerId, std::vector<OwnerId>> waits_;
};

}  // namespace breccia::txn
