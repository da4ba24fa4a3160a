#include "disagg/memory/memory_seat.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace breccia::disagg {

namespace {

Status no_number() { return Status::MemoryLimit("all numbers of memory servers are taken"); }

}  // namespace

Status MemorySeat::serve(fabric::TimeUs until) {
  do {
    BRECCIA_TRY(turn(std::min(until, port_->now_us() + options_.turn_us)));
  } while (port_->now_us() < until);
  return Status::OK();
}

Status MemorySeat::turn(fabric::TimeUs until) {
  // Before it is anybody: that takes long.
  if (made_ == nullptr && server_ == nullptr) {
    BRECCIA_TAKE(made_, MemoryServer::make(port_, options_.server));
    if (made_->came_back()) server_ = std::move(made_);
  }
  BRECCIA_TAKE(const Coordinator::View* const view, membership_.look());
  if (view != nullptr) {
    const Status taken = take_view(*view);
    is_of_use_ = !taken.IsAborted();
    BRECCIA_TRY(taken);
  }
  if (server_ != nullptr) {
    server_->serve(until);
    is_of_use_ = server_->failure().ok();
    BRECCIA_TRY(server_->failure());
    if (has_place_) say_whole();
  } else {
    (void)port_->poll(until);
  }
  return Status::OK();
}

Status MemorySeat::take_view(const Coordinator::View& view) {
  if (has_place_ && view.version == version_) return Status::OK();
  version_ = view.version;
  BRECCIA_TAKE(map_, ClusterMap::decode(view.document));
  const auto mine = std::find_if(map_.memory.begin(), map_.memory.end(), [this](const auto& one) {
    return one.member == membership_.name() || one.mirror.member == membership_.name();
  });
  if (mine == map_.memory.end()) {
    if (has_place_) return Status::Aborted("the cluster goes on without this server");
    if (server_ == nullptr) return enter(view);
    return server_->came_back() ? come_back_from_medium(view) : come_back();
  }
  if (mine->is_lost) return Status::Aborted("the cluster has this server as lost");
  const bool is_spare = !mine->is_in_use && mine->mirror.member.empty();
  if (is_spare && options_.copies == 2 && find_lonely(view).has_value()) {
    ClusterMap next = map_;
    std::erase_if(next.memory, [&](const auto& one) { return one.node == mine->node; });
    ++next.epoch;
    membership_.offer(next, version_);
    version_ = 0;  // it may not have been taken: the next turn tells
    return Status::OK();
  }
  if (server_ == nullptr) server_ = std::move(made_);
  has_place_ = true;
  server_->rename(membership_.name());
  return server_->follow(map_);
}

/// The place that the server had by another name is had by this one.
Status MemorySeat::come_back() {
  ClusterMap next = map_;
  const auto mine = std::find_if(next.memory.begin(), next.memory.end(), [this](const auto& one) {
    return server_->may_have(one.member) || server_->may_have(one.mirror.member);
  });
  if (mine == next.memory.end() || mine->is_lost) {
    return Status::Aborted("the cluster went on without this server");
  }
  server_->note_name(membership_.name());
  std::string& member = server_->may_have(mine->member) ? mine->member : mine->mirror.member;
  member = membership_.name();
  ++next.epoch;
  membership_.offer(next, version_);
  return Status::OK();
}

/// What the cluster has of it there, it has again.
/// Errors  Aborted: that is of no use to anybody, and was removed.
Status MemorySeat::come_back_from_medium(const Coordinator::View& view) {
  const std::string id = server_->medium()->id();
  const record::HashSeed cluster = server_->medium()->cluster();
  const auto old = std::find_if(map_.memory.begin(), map_.memory.end(), [&](const auto& one) {
    return !one.is_lost && (one.medium == id || one.mirror.medium == id);
  });
  if (old != map_.memory.end()) {
    if (old->mirror.medium == id && !old->mirror.is_whole) return begin_anew();
    return may_come_back(*old, view) ? take_place_of(old->node) : Status::OK();
  }
  if (cluster.factor == 0) {
    // It never was of use.
    made_ = std::move(server_);
    return enter(view);
  }
  if (map_.shards.empty() || map_.placement_seed != cluster) {
    return Status::InvalidArgument("its file has values of another cluster, or of one that is lost",
                                   "give it another file, or move this one away");
  }
  return begin_anew();
}

/// Not where somebody is there who has the same: if that one stays, the cluster will say that it
/// goes on with it alone. Nor where its own old name is a member yet, or where its server may come.
bool MemorySeat::may_come_back(const ClusterMap::Memory& old, const Coordinator::View& view) {
  const bool is_mirror_there = view.members.contains(old.mirror.member);
  if (view.members.contains(old.member) || (old.mirror.is_whole && is_mirror_there)) return false;
  if (old.medium == server_->medium()->id()) return true;
  if (!waits_since_.has_value()) waits_since_ = port_->now_us();
  return port_->now_us() >= *waits_since_ + options_.return_us;
}

/// By another number, as clients may have leases of the old one, and write there. Indexes know of
/// values that were not kept, so none of them counts.
Status MemorySeat::take_place_of(std::uint32_t node) {
  ClusterMap next = map_;
  for (ClusterMap::Memory& one : next.memory) {
    if (one.node != node) continue;
    one.is_lost = one.is_moved = true;
    one.mirror = {};
    one.medium.clear();
  }
  // When all leases are over numbers that were moved are nobody's.
  const fabric::TimeUs now = port_->now_us();
  if (no_number_since_.has_value() && now >= *no_number_since_ + options_.server.hold_us) {
    std::erase_if(next.memory,
                  [node](const auto& one) { return one.is_moved && one.node != node; });
  }
  if (!next.add(mine(true))) {
    if (no_number_since_.has_value()) return Status::OK();
    no_number_since_ = now;
    log(LogLevel::kWarning, no_number().ToString() + ": some are free when all leases are over");
    return Status::OK();
  }
  for (ClusterMap::Shard& shard : next.shards) {
    for (ClusterMap::Index* const index : {&shard.hash, &shard.ordered}) {
      if (!shard.has_begun) continue;
      if (!index->member.empty()) shard.left.push_back(index->member);
      *index = {};
    }
  }
  ++next.epoch;
  membership_.offer(next, version_);
  return Status::OK();
}

Status MemorySeat::begin_anew() {
  server_.reset();
  BRECCIA_TRY(options_.server.place->remove());
  return Status::Aborted("the cluster went on without what its file has");
}

/// A server whose mirror this one can be; of two that nothing lies on, the second is the first's.
std::optional<std::size_t> MemorySeat::find_lonely(const Coordinator::View& view) const {
  bool is_behind = false;  // this one
  for (std::size_t i = 0; i < map_.memory.size(); ++i) {
    const ClusterMap::Memory& one = map_.memory[i];
    is_behind = is_behind || one.member == membership_.name();
    const bool is_one = !one.is_lost && one.mirror.member.empty() &&
                        one.member != membership_.name() && (one.is_in_use || !is_behind) &&
                        one.bytes == options_.server.bytes && view.members.contains(one.member);
    if (is_one) return i;
  }
  return std::nullopt;
}

/// Itself, as the map is to have it.
ClusterMap::Memory MemorySeat::mine(bool is_in_use) const {
  const MemoryServer* const server = server_ != nullptr ? server_.get() : made_.get();
  return {.member = membership_.name(),
          .address = port_->address(),
          .bytes = options_.server.bytes,
          .is_in_use = is_in_use,
          .mirror = {},
          .medium = server->medium() == nullptr ? "" : server->medium()->id()};
}

/// Puts itself into the map.
Status MemorySeat::enter(const Coordinator::View& view) {
  ClusterMap next = map_;
  ++next.epoch;
  const auto lonely = options_.copies == 2 ? find_lonely(view) : std::nullopt;
  if (lonely.has_value()) {
    ClusterMap::Mirror& mirror = next.memory.at(*lonely).mirror;
    mirror.member = membership_.name();
    mirror.address = port_->address();
    mirror.medium = mine(false).medium;
  } else {
    if (!next.add(mine(options_.copies == 1))) return no_number();
  }
  membership_.offer(next, version_);
  return Status::OK();
}

/// The cluster is told when a mirror has all; again, if another map came first.
void MemorySeat::say_whole() {
  if (server_->mirror() == nullptr || !server_->mirror()->is_whole()) return whole_at_.reset();
  if (const Medium* const medium = server_->medium(); medium != nullptr) {
    if (!whole_at_.has_value()) whole_at_ = medium->noted();
    if (medium->kept() < *whole_at_) return;
  }
  ClusterMap next = map_;
  for (ClusterMap::Memory& one : next.memory) {
    if (one.mirror.member == membership_.name()) one.mirror.is_whole = true;
  }
  if (next != map_) membership_.offer(next, version_);
}

}  // namespace breccia::disagg
