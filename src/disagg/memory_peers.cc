#include "disagg/memory_peers.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace breccia::disagg {

MemoryPeers::~MemoryPeers() {
  for (auto& [node, one] : all_) leave(&one);
}

void MemoryPeers::leave(One* one) {
  for (Server& server : one->server) {
    if (server.peer.has_value()) port_->disconnect(server.peer->peer);
    server.peer.reset();
  }
}

void MemoryPeers::follow(const ClusterMap& map) {
  std::map<std::uint32_t, One> next;
  nodes_.clear();
  const bool are_two = std::any_of(map.memory.begin(), map.memory.end(), [&](const auto& of) {
    return !of.is_lost && map.is_written(of.mirror);
  });
  for (const ClusterMap::Memory& of : map.memory) {
    One one{.is_lost = of.is_lost,
            .is_moved = of.is_moved,
            .has_whole_mirror = of.mirror.is_whole,
            .servers = 0,
            .server = {}};
    one.server[0] = {.member = of.member, .address = of.address, .peer = {}};
    one.server[1] = {.member = of.mirror.member, .address = of.mirror.address, .peer = {}};
    const auto before = all_.find(of.node);
    // Nobody reads what was lost, though it may be there yet.
    if (before == all_.end() || of.is_lost) {
      one.servers = ++servers_;
    } else {
      keep(&one, &before->second);
    }
    const bool is_one = of.is_in_use && !of.is_lost && map.is_written(of.mirror) == are_two;
    if (is_one) nodes_.push_back(of.node);
    next.emplace(of.node, std::move(one));
  }
  for (auto& [node, one] : all_) leave(&one);
  all_ = std::move(next);
  again_ = 0;
}

/// Who was met before stays so, also a mirror that has taken its server's place.
void MemoryPeers::keep(One* next, One* before) {
  bool are_same = true;
  for (std::size_t i = 0; i < next->server.size(); ++i) {
    Server& server = next->server.at(i);
    are_same = are_same && server.member == before->server.at(i).member;
    for (Server& old : before->server) {
      const bool is_it = server.member == old.member && server.address == old.address;
      if (is_it && old.peer.has_value()) server.peer = std::exchange(old.peer, std::nullopt);
    }
  }
  next->servers = are_same ? before->servers : ++servers_;
}

void MemoryPeers::tend(fabric::TimeUs until) {
  // Who could not be reached is left alone for so many times as long as was waited.
  constexpr fabric::TimeUs kPauses = 4;
  const fabric::TimeUs now = port_->now_us();
  if (now < again_) return;
  const bool are_all = meet(until).ok();
  again_ = port_->now_us() + (are_all ? options_.again_us : kPauses * options_.meet_us);
}

Status MemoryPeers::meet(fabric::TimeUs until) {
  auto at = all_.upper_bound(last_);
  for (std::size_t n = 0; n < all_.size(); ++n, ++at) {
    if (at == all_.end()) at = all_.begin();
    auto& [node, one] = *at;
    if (one.is_lost) continue;
    Status met;
    for (Server& server : one.server) {
      Status this_one = meet(node, &server, until);
      if (met.ok()) met = std::move(this_one);
    }
    if (!met.ok()) last_ = node;
    BRECCIA_TRY(met);
  }
  return Status::OK();
}

Status MemoryPeers::meet(std::uint32_t node, Server* server, fabric::TimeUs until) {
  if (server->member.empty()) return Status::OK();
  if (server->peer.has_value() && !port_->is_gone(server->peer->peer)) return Status::OK();
  server->peer.reset();
  const fabric::TimeUs own = std::min(until, port_->now_us() + options_.meet_us);
  BRECCIA_TAKE(const MemoryPeer met, meet_memory(port_, asking_, server->address, own));
  if (met.node != node) {
    port_->disconnect(met.peer);
    return Status::IOError("a memory server has another number: " + server->address);
  }
  server->peer = met;
  return Status::OK();
}

const MemoryPeer* MemoryPeers::find(std::uint32_t node) const {
  const auto found = all_.find(node);
  if (found == all_.end() || !found->second.server[0].peer.has_value()) return nullptr;
  return &*found->second.server[0].peer;
}

const MemoryPeer* MemoryPeers::find_whole_mirror(std::uint32_t node) const {
  const auto found = all_.find(node);
  if (found == all_.end() || !found->second.has_whole_mirror) return nullptr;
  const Server& mirror = found->second.server[1];
  return mirror.peer.has_value() ? &*mirror.peer : nullptr;
}

std::vector<const MemoryPeer*> MemoryPeers::find_all(std::uint32_t node) const {
  const auto found = all_.find(node);
  if (found == all_.end()) return {};
  std::vector<const MemoryPeer*> all;
  for (const Server& server : found->second.server) {
    if (server.member.empty()) continue;
    if (!server.peer.has_value()) return {};
    all.push_back(&*server.peer);
  }
  BRECCIA_ASSERT(!all.empty());
  return all;
}

Status MemoryPeers::read(const ReadsByNode& all, fabric::TimeUs within_us) {
  std::vector<Unread> left;
  left.reserve(all.size());
  for (const auto& [node, reads] : all) left.push_back({.node = node, .reads = reads});
  read_of(&MemoryPeers::find, &left, within_us / 2);
  if (!left.empty()) read_of(&MemoryPeers::find_whole_mirror, &left, within_us / 2);
  return left.empty() ? Status::OK() : left.front().why;
}

/// Leaves those that were not read.
void MemoryPeers::read_of(Finding find_peer, std::vector<Unread>* left, fabric::TimeUs within_us) {
  std::vector<std::vector<fabric::Read>> reads;
  std::vector<fabric::ReadsOf> of_peers;
  std::vector<Unread*> whose;
  reads.reserve(left->size());  // spans of them stay
  for (Unread& one : *left) {
    const MemoryPeer* const of = (this->*find_peer)(one.node);
    if (of == nullptr) continue;
    std::vector<fabric::Read>& of_node = reads.emplace_back();
    of_node.reserve(one.reads.size());
    for (const BlockRead& read : one.reads) {
      of_node.push_back({of->region, read.offset, read.into});
    }
    of_peers.push_back({.peer = of->peer, .reads = of_node});
    whose.push_back(&one);
  }
  port_->read_all(of_peers, port_->now_us() + within_us);
  for (std::size_t i = 0; i < of_peers.size(); ++i) {
    whose[i]->why = of_peers[i].status;
    if (!of_peers[i].status.ok()) doubt();
  }
  std::erase_if(*left, [](const Unread& one) { return one.why.ok(); });
}

bool MemoryPeers::is_lost(std::uint32_t node) const {
  const auto found = all_.find(node);
  return found != all_.end() && found->second.is_lost && !found->second.is_moved;
}

bool MemoryPeers::is_kept(std::uint32_t node) const {
  const auto found = all_.find(node);
  return found != all_.end() && !found->second.is_lost;
}

std::uint64_t MemoryPeers::bytes_of(std::uint32_t node) const {
  const MemoryPeer* of = find(node);
  if (of == nullptr) of = find_whole_mirror(node);
  return of == nullptr ? 0 : of->region.bytes;
}

bool MemoryPeers::is_place(const Location& location) const {
  return is_block_of(location, bytes_of(location.node));
}

}  // namespace breccia::disagg
