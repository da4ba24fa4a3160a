#include "disagg/memory/memory_seat.h"

#include <algorithm>
#include <utility>

namespace breccia::disagg {

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
  }
  BRECCIA_TAKE(const Coordinator::View* const view, membership_.look());
  if (view != nullptr) {
    const Status taken = take_view(*view);
    is_of_use_ = !taken.IsAborted();
    BRECCIA_TRY(taken);
  }
  if (server_ != nullptr) {
    server_->serve(until);
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
    return server_ == nullptr ? enter(view) : come_back();
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

/// Puts itself into the map.
Status MemorySeat::enter(const Coordinator::View& view) {
  ClusterMap next = map_;
  ++next.epoch;
  const auto lonely = options_.copies == 2 ? find_lonely(view) : std::nullopt;
  if (lonely.has_value()) {
    next.memory[*lonely].mirror.member = membership_.name();
    next.memory[*lonely].mirror.address = port_->address();
  } else {
    const std::uint32_t node = next.memory.empty() ? 0 : next.memory.back().node + 1;
    if (node >= kNodesMax) return Status::MemoryLimit("all numbers of memory servers are taken");
    next.memory.push_back({.node = node,
                           .member = membership_.name(),
                           .address = port_->address(),
                           .bytes = options_.server.bytes,
                           .is_in_use = options_.copies == 1,
                           .is_lost = false,
                           .mirror = {}});
  }
  membership_.offer(next, version_);
  return Status::OK();
}

/// The cluster is told when a mirror has all; again, if another map came first.
void MemorySeat::say_whole() {
  if (server_->mirror() == nullptr || !server_->mirror()->is_whole()) return;
  ClusterMap next = map_;
  for (ClusterMap::Memory& one : next.memory) {
    if (one.mirror.member == membership_.name()) one.mirror.is_whole = true;
  }
  if (next != map_) membership_.offer(next, version_);
}

}  // namespace breccia::disagg
