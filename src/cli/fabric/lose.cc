#include "cli/fabric/lose.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "base/clock.h"
#include "base/secret.h"
#include "cli/fabric/status.h"
#include "console/console.h"

namespace breccia::cli::fabric {

namespace {

using disagg::ClusterMap;

constexpr ::breccia::fabric::TimeUs kWaitUs = 1'000'000;

/// Null: there is none of that number, or it is lost.
ClusterMap::Memory* find(ClusterMap* map, std::uint32_t node) {
  const auto found = std::find_if(map->memory.begin(), map->memory.end(), [node](const auto& one) {
    return one.node == node && !one.is_lost;
  });
  return found == map->memory.end() ? nullptr : &*found;
}

Status replace(const disagg::ClusterConfig& config, const Seen& seen, const ClusterMap& next) {
  const std::string name = "lose-" + std::to_string(::getpid()) + "-" +
                           std::to_string(base::draw_secret_word() % 1'000'000);
  BRECCIA_TAKE(const auto met, disagg::MetCoordinator::meet(config, name));
  BRECCIA_TAKE(const bool is_taken, met.coordinator->replace(seen.view.version, next.encode(),
                                                             base::now_us() + kWaitUs));
  return is_taken ? Status::OK() : Status::TryAgain("the cluster has changed meanwhile");
}

}  // namespace

Status lose(const disagg::ClusterConfig& config, std::uint32_t node, bool is_sure) {
  BRECCIA_TAKE(const Seen seen, look_at(config));
  ClusterMap next = seen.map;
  ClusterMap::Memory* const one = find(&next, node);
  if (one == nullptr) {
    return Status::InvalidArgument(fmt::format("there is no memory server {}", node));
  }
  const auto is_there = [&seen](const std::string& member) {
    return seen.view.members.contains(member);
  };
  const bool has_mirror = one->mirror.is_whole && is_there(one->mirror.member);
  if (is_there(one->member) || has_mirror || !one->has_medium()) {
    return Status::InvalidArgument(fmt::format("nobody waits for memory server {}", node));
  }
  if (!is_sure) {
    return Status::InvalidArgument(
        fmt::format("memory server {} may come back with its file; without it all values that lie "
                    "there are lost",
                    node),
        "say --yes if that is to be so");
  }
  one->medium.clear();
  one->mirror.medium.clear();
  ++next.epoch;
  BRECCIA_TRY(replace(config, seen, next));
  console::say(fmt::format("memory server {} is waited for no longer", node));
  return Status::OK();
}

}  // namespace breccia::cli::fabric
