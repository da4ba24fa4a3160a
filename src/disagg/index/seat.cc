#include "disagg/index/seat.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "base/assert.h"
#include "base/log.h"

namespace breccia::disagg {

namespace {

Role other(Role role) { return role == Role::kHash ? Role::kOrdered : Role::kHash; }

const char* name_of(Role role) { return role == Role::kHash ? "hash" : "ordered"; }

/// Whether somebody is there who has all that lies on a memory server.
bool has_all_values(const std::set<std::string>& members, const ClusterMap::Memory& one) {
  return members.contains(one.member) || !one.is_in_use ||
         (one.mirror.is_whole && members.contains(one.mirror.member));
}

/// Where all members went at once, a mirror comes back as well as its server: neither is to go on
/// alone.
bool are_all_there(const std::set<std::string>& members, const ClusterMap::Memory& one) {
  return members.contains(one.member) &&
         (one.mirror.member.empty() || members.contains(one.mirror.member));
}

/// Whether somebody came back by another name.
bool has_come_back(const ClusterMap& before, const ClusterMap& now) {
  return std::any_of(now.memory.begin(), now.memory.end(), [&](const auto& one) {
    const auto old = std::find_if(before.memory.begin(), before.memory.end(),
                                  [&](const auto& of) { return of.node == one.node; });
    return old != before.memory.end() &&
           (old->member != one.member || old->mirror.member != one.mirror.member);
  });
}

/// Whether a memory server, or its mirror, is no member any more; then the map's part knows that.
bool take_out_lost(const std::set<std::string>& members, ClusterMap::Memory* one) {
  ClusterMap::Mirror& mirror = one->mirror;
  const bool is_there = members.contains(one->member);
  const bool is_mirror_there = !mirror.member.empty() && members.contains(mirror.member);
  if (is_there && (mirror.member.empty() || is_mirror_there)) return false;
  if (!is_there) {
    one->is_lost = !is_mirror_there || !mirror.is_whole;
    if (!one->is_lost) {
      one->member = mirror.member;
      one->address = mirror.address;
    }
  }
  mirror = {};
  return true;
}

}  // namespace

Status Seat::serve(fabric::TimeUs until) {
  do {
    BRECCIA_TRY(turn(std::min(until, port_->now_us() + options_.turn_us)));
  } while (port_->now_us() < until);
  return Status::OK();
}

Status Seat::turn(fabric::TimeUs until) {
  if (options_.role == Role::kHash && table_ == nullptr && server_ == nullptr) {
    BRECCIA_TAKE(table_, HashServer::make(port_, options_.hash));
  }
  BRECCIA_TAKE(view_, membership_.look());
  if (view_ != nullptr && view_->version != version_) BRECCIA_TRY(take_view());
  if (server_ == nullptr) {
    const bool may = view_ != nullptr && may_take();
    if (!may) free_since_ = 0;
    if (may && !is_patient()) take_role();
    (void)port_->poll(until);  // who asks is not answered
    return Status::OK();
  }
  if (has_lost_source()) return Status::Aborted("what its index is built from is gone");
  server_->trust_until(membership_.sure_until_us());
  BRECCIA_TRY(server_->serve(until));
  const ClusterMap next = news();
  if (next != map_) membership_.offer(next, version_);
  return Status::OK();
}

/// What the cluster agreed on since.
Status Seat::take_view() {
  BRECCIA_TAKE(ClusterMap next, ClusterMap::decode(view_->document));
  // One after the other does, so the others have their time from here on.
  if (has_come_back(map_, next)) gone_since_.clear();
  map_ = std::move(next);
  version_ = view_->version;
  const bool has_role = map_.of(options_.role).member == membership_.name();
  if (server_ != nullptr && !has_role) return Status::Aborted("another server has the role");
  if (server_ == nullptr && has_role) begin();
  return server_ == nullptr ? Status::OK() : server_->follow(map_);
}

bool Seat::is_there(const ClusterMap::Index& index) const {
  return !index.member.empty() && view_->members.contains(index.member);
}

/// Its hash index is built from an ordered one that is no member any more.
bool Seat::has_lost_source() const {
  const bool is_built = options_.role == Role::kHash && !server_->is_whole();
  return is_built && view_ != nullptr && !map_.ordered.member.empty() && !is_there(map_.ordered);
}

bool Seat::may_take() const {
  const ClusterMap::Index& of_other = map_.of(other(options_.role));
  if (is_there(map_.of(options_.role))) return is_crowded();
  // A hash index can be made of what memory servers have.
  return options_.role == Role::kHash || (is_there(of_other) && of_other.is_whole);
}

/// One other process has both indexes, and nothing is being built: the ordered one is to move, as
/// single keys are read and written meanwhile as ever.
bool Seat::is_crowded() const {
  const bool is_one = map_.hash.process == map_.ordered.process;
  const bool is_another = map_.ordered.process != options_.process;
  return options_.role == Role::kOrdered && is_one && is_another && is_there(map_.hash) &&
         map_.hash.is_whole && map_.ordered.is_whole;
}

/// Two indexes of one process are lost together, so another one takes the second if it is there;
/// and who just came to have both may have to move nothing.
bool Seat::is_patient() {
  if (free_since_ == 0) free_since_ = port_->now_us();
  const bool waits =
      is_there(map_.of(options_.role)) || map_.of(other(options_.role)).process == options_.process;
  return waits && port_->now_us() < free_since_ + options_.patience_us;
}

void Seat::take_role() {
  // Before the cluster has begun there are no keys.
  const bool is_first = options_.role == Role::kHash && !map_.has_begun;
  ClusterMap next = map_;
  ++next.epoch;
  // Who has to be made of this one is no other one's beginning.
  const bool is_last = options_.role == Role::kHash && !is_first &&
                       !(is_there(map_.ordered) && map_.ordered.is_whole);
  if (is_last) next.ordered = {};
  next.of(options_.role) = {.member = membership_.name(),
                            .address = port_->address(),
                            .is_whole = is_first,
                            .process = options_.process};
  membership_.offer(next, version_);
}

void Seat::begin() {
  BRECCIA_ASSERT(server_ == nullptr);
  log(LogLevel::kInfo, std::string("this server has the ") + name_of(options_.role) +
                           " index, epoch " + std::to_string(map_.epoch));
  if (options_.role == Role::kOrdered) {
    server_ = std::make_unique<OrderedServer>(port_, options_.ordered);
    return;
  }
  if (map_.hash.is_whole) {
    table_->be_first();
  } else if (map_.ordered.member.empty()) {
    log(LogLevel::kWarning, "both indexes were lost: they are made of what memory servers have");
    const bool has_lost = std::any_of(map_.memory.begin(), map_.memory.end(),
                                      [](const auto& one) { return one.is_lost; });
    if (has_lost) log(LogLevel::kWarning, "some of which are lost: their keys will not be found");
    table_->begin_from_memory();
  }
  server_ = std::move(table_);
}

/// Where all members went at once, memory servers are there again before long.
bool Seat::has_waited_for(std::uint32_t node) {
  const fabric::TimeUs since = gone_since_.try_emplace(node, port_->now_us()).first->second;
  return port_->now_us() >= since + options_.return_us;
}

/// The map, with what this server knows and the cluster does not.
ClusterMap Seat::news() {
  ClusterMap next = map_;
  if (server_->is_whole()) next.of(options_.role).is_whole = true;
  next.has_begun = next.has_begun || (next.hash.is_whole && next.ordered.is_whole);
  if (options_.role != Role::kHash) return next;
  // Who has not heard of the others for long does not know who is gone.
  if (port_->now_us() >= membership_.sure_until_us()) {
    gone_since_.clear();
    return next;
  }
  const bool is_made_of_memory = !server_->is_whole() && map_.ordered.member.empty();
  bool has_lost = false;
  for (ClusterMap::Memory& one : next.memory) {
    if (one.is_lost) continue;
    const bool are_enough = is_made_of_memory ? are_all_there(view_->members, one)
                                              : has_all_values(view_->members, one);
    if (are_enough) {
      gone_since_.erase(one.node);
    } else if (!has_waited_for(one.node)) {
      continue;
    }
    has_lost = take_out_lost(view_->members, &one) || has_lost;
    const bool is_new = !one.mirror.member.empty() && !one.mirror.is_written;
    if (is_new && server_->has_settled()) one.mirror.is_written = one.is_in_use = true;
  }
  // No value can lie on those.
  std::erase_if(next.memory, [](const auto& one) { return one.is_lost && !one.is_in_use; });
  if (has_lost) next.epoch = map_.epoch + 1;
  return next;
}

}  // namespace breccia::disagg
