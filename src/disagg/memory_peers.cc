#include "disagg/memory_peers.h"

#include <algorithm>
#include <utility>

namespace breccia::disagg {

MemoryPeers::~MemoryPeers() {
  for (auto& [node, one] : all_) leave(&one);
}

void MemoryPeers::leave(One* one) {
  if (one->peer.has_value()) port_->disconnect(one->peer->peer);
  one->peer.reset();
}

void MemoryPeers::follow(const ClusterMap& map) {
  std::map<std::uint32_t, One> next;
  nodes_.clear();
  for (const ClusterMap::Memory& of : map.memory) {
    One one{.of = of, .peer = {}};
    const auto before = all_.find(of.node);
    if (before != all_.end() && before->second.of == of) {
      one.peer = std::exchange(before->second.peer, std::nullopt);
    }
    if (!of.is_lost) nodes_.push_back(of.node);
    next.emplace(of.node, std::move(one));
  }
  for (auto& [node, one] : all_) leave(&one);
  all_ = std::move(next);
  again_ = 0;
}

void MemoryPeers::tend(fabric::TimeUs until) {
  // Who could not be reached is left alone for so many times as long as was waited.
  constexpr fabric::TimeUs kPauses = 4;
  const fabric::TimeUs now = port_->now_us();
  if (now < again_) return;
  const bool are_all = meet(std::min(until, now + options_.meet_us)).ok();
  again_ = port_->now_us() + (are_all ? options_.again_us : kPauses * options_.meet_us);
}

Status MemoryPeers::meet(fabric::TimeUs until) {
  auto at = all_.upper_bound(last_);
  for (std::size_t n = 0; n < all_.size(); ++n, ++at) {
    if (at == all_.end()) at = all_.begin();
    auto& [node, one] = *at;
    if (one.of.is_lost) continue;
    if (one.peer.has_value() && !port_->is_gone(one.peer->peer)) continue;
    one.peer.reset();
    last_ = node;
    auto met = meet_memory(port_, asking_, one.of.address, until);
    BRECCIA_TRY(met.status());
    if (met.value().node != node) {
      port_->disconnect(met.value().peer);
      return Status::IOError("a memory server has another number: " + one.of.address);
    }
    one.peer = met.take();
  }
  return Status::OK();
}

const MemoryPeer* MemoryPeers::find(std::uint32_t node) const {
  const auto found = all_.find(node);
  return found != all_.end() && found->second.peer.has_value() ? &*found->second.peer : nullptr;
}

bool MemoryPeers::is_lost(std::uint32_t node) const {
  const auto found = all_.find(node);
  return found != all_.end() && found->second.of.is_lost;
}

bool MemoryPeers::is_place(const Location& location) const {
  const MemoryPeer* const of = find(location.node);
  return of != nullptr && is_block(location) &&
         location.offset() + location.bytes() <= of->region.bytes;
}

}  // namespace breccia::disagg
