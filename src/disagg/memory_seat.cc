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
  if (!has_joined_) {
    // Before it is anybody: that takes long.
    if (made_ == nullptr) {
      BRECCIA_TAKE(made_, MemoryServer::make(port_, options_.bytes));
    }
    const Status joined = coordinator_->join(options_.member, port_->now_us() + options_.agree_us);
    // It may be a member all the same, and then the name is taken.
    if (joined.IsInvalidArgument()) return Status::Aborted("no member", joined.ToString());
    has_joined_ = joined.ok();
  }
  const Coordinator::View* const view = coordinator_->look();
  if (has_joined_ && view != nullptr) BRECCIA_TRY(take_view(*view));
  if (server_ != nullptr) {
    server_->serve(until);
  } else {
    (void)port_->poll(until);
  }
  return Status::OK();
}

Status MemorySeat::take_view(const Coordinator::View& view) {
  if (coordinator_->sure_until_us() == 0) {
    return Status::Aborted("the cluster does not take this server for a member any more");
  }
  if (server_ != nullptr && view.version == version_) return Status::OK();
  version_ = view.version;
  BRECCIA_TAKE(const ClusterMap map, ClusterMap::decode(view.document));
  const auto me = std::find_if(map.memory.begin(), map.memory.end(),
                               [this](const auto& one) { return one.member == options_.member; });
  if (me == map.memory.end()) return enter(map, view.version);
  if (me->is_lost) return Status::Aborted("the cluster has this server as lost");
  if (server_ != nullptr) return Status::OK();
  server_ = std::move(made_);
  server_->be_node(me->node);
  return Status::OK();
}

/// Whether that was in time, the next view tells.
Status MemorySeat::enter(const ClusterMap& map, std::uint64_t version) {
  ClusterMap next = map;
  const std::uint32_t node = map.memory.empty() ? 0 : map.memory.back().node + 1;
  if (node >= kNodesMax) return Status::MemoryLimit("all numbers of memory servers are taken");
  ++next.epoch;
  next.memory.push_back(
      {.node = node, .member = options_.member, .address = port_->address(), .is_lost = false});
  (void)coordinator_->replace(version, next.encode(), port_->now_us() + options_.agree_us);
  return Status::OK();
}

}  // namespace breccia::disagg
