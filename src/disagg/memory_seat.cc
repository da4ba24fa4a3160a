#include "disagg/memory_seat.h"

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
  if (view != nullptr) BRECCIA_TRY(take_view(*view));
  if (server_ != nullptr) {
    server_->serve(until);
    say_whole();
  } else {
    (void)port_->poll(until);
  }
  return Status::OK();
}

Status MemorySeat::take_view(const Coordinator::View& view) {
  if (server_ != nullptr && view.version == version_) return Status::OK();
  version_ = view.version;
  BRECCIA_TAKE(map_, ClusterMap::decode(view.document));
  const auto mine = std::find_if(map_.memory.begin(), map_.memory.end(), [this](const auto& one) {
    return one.member == membership_.name() || one.mirror.member == membership_.name();
  });
  if (mine == map_.memory.end()) {
    if (server_ == nullptr) return enter(view);
    return Status::Aborted("the cluster goes on without this server");
  }
  if (mine->is_lost) return Status::Aborted("the cluster has this server as lost");
  if (server_ == nullptr) server_ = std::move(made_);
  server_->follow(*mine, map_.epoch);
  return Status::OK();
}

/// Puts itself into the map.
Status MemorySeat::enter(const Coordinator::View& view) {
  ClusterMap next = map_;
  ++next.epoch;
  const auto lonely = std::find_if(next.memory.begin(), next.memory.end(), [&](const auto& one) {
    return !one.is_lost && one.mirror.member.empty() && one.bytes == options_.server.bytes &&
           view.members.contains(one.member);
  });
  if (options_.copies == 2 && lonely != next.memory.end()) {
    lonely->mirror.member = membership_.name();
    lonely->mirror.address = port_->address();
  } else {
    const std::uint32_t node = next.memory.empty() ? 0 : next.memory.back().node + 1;
    if (node >= kNodesMax) return Status::MemoryLimit("all numbers of memory servers are taken");
    next.memory.push_back({.node = node,
                           .member = membership_.name(),
                           .address = port_->address(),
                           .bytes = options_.server.bytes,
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
