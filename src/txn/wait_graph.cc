#include "txn/wait_graph.h"

#include <algorithm>

#include "base/assert.h"

namespace breccia::txn {

std::optional<WaitGraph::Cycle> WaitGraph::wait(OwnerId waiter, std::vector<OwnerId> holders,
                                                std::uint64_t owners_max) {
  BRECCIA_ASSERT(!waits_.contains(waiter));
  BRECCIA_ASSERT(std::find(holders.begin(), holders.end(), waiter) == holders.end());
  auto cycle = cycle_of(waiter, holders, owners_max);
  if (!cycle.has_value()) waits_.emplace(waiter, std::move(holders));
  return cycle;
}

// In breadth, so that the cycle is a shortest one.
std::optional<WaitGraph::Cycle> WaitGraph::cycle_of(OwnerId waiter,
                                                    const std::vector<OwnerId>& holders,
                                                    std::uint64_t owners_max) const {
  constexpr std::size_t kNone = ~std::size_t{0};
  struct Visit {
    OwnerId owner;
    std::size_t from;  // among the visits
  };
  std::vector<Visit> visits;
  std::unordered_map<OwnerId, bool> seen;
  const auto add = [&](const std::vector<OwnerId>& owners, std::size_t from) {
    for (const OwnerId owner : owners) {
      if (seen.try_emplace(owner, true).second) visits.push_back({owner, from});
    }
  };
  add(holders, kNone);
  for (std::size_t at = 0; at < visits.size(); ++at) {
    if (at >= owners_max) return Cycle{{}, /*limit_exceeded=*/true};
    if (visits[at].owner == waiter) {
      Cycle cycle;
      for (std::size_t i = at; i != kNone; i = visits[i].from) {
        cycle.owners.push_back(visits[i].owner);
      }
      std::reverse(cycle.owners.begin(), cycle.owners.end());
      return cycle;
    }
    const auto next = waits_.find(visits[at].owner);
    if (next != waits_.end()) add(next->second, at);
  }
  return {};
}

}  // namespace breccia::txn
