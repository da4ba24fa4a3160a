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
    BRECCIA_TAKE(made_, MemoryServer::make(port_, options_.bytes));
  }
  BRECCIA_TAKE(const Coordinator::View* const view, membership_.look());
  if (view != nullptr) BRECCIA_TRY(take_view(*view));
  if (server_ != nullptr) {
    server_->serve(until);
  } else {
    (void)port_->poll(until);
  }
  return Status::OK();
}

Status MemorySeat::take_view(const Coordinator::View& view) {
  if (server_ != nullptr && view.version == version_) return Status::OK();
  version_ = view.version;
  BRECCIA_TAKE(const ClusterMap map, ClusterMap::decode(view.document));
  const auto me = std::find_if(map.memory.begin(), map.memory.end(), [this](const auto& one) {
    return one.member == membership_.name();
  });
  if (me == map.memory.end()) return enter(map, view.version);
  if (me->is_lost) return Status::Aborted("the cluster has this server as lost");
  if (server_ != nullptr) return Status::OK();
  server_ = std::move(made_);
  server_->be_node(me->node);
  return Status::OK();
}

/// Puts itself into the map.
Status MemorySeat::enter(const ClusterMap& map, std::uint64_t version) {
  ClusterMap next = map;
  const std::uint32_t node = map.memory.empty() ? 0 : map.memory.back().node + 1;
  if (node >= kNodesMax) return Status::MemoryLimit("all numbers of memory servers are taken");
  ++next.epoch;
  next.memory.push_back(
      {.node = node, .member = membership_.name(), .address = port_->address(), .is_lost = false});
  membership_.offer(next, version);
  return Status::OK();
}

}  // namespace breccia::disagg
