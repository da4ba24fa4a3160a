#include "disagg/index/seat.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "base/assert.h"
#include "base/log.h"

namespace breccia::disagg {

namespace {

/// What has become of an offer is known by then.
constexpr fabric::TimeUs kOfferedUs = 1000;

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
    const bool takes_place = is_mirror_there && mirror.is_whole;
    // It comes back with what its file has.
    if (!takes_place && one->is_in_use && one->may_come_back()) return false;
    one->is_lost = !takes_place;
    if (takes_place) {
      one->member = mirror.member;
      one->address = mirror.address;
      one->medium = mirror.medium;
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
    // What it has offered for this map is under way, or another one was first.
    const bool may_offer = version_ != offered_ || port_->now_us() >= offer_again_;
    if (view_ != nullptr && may_offer && look_for_role()) {
      offered_ = version_;
      offer_again_ = port_->now_us() + options_.turn_us;
    }
    const bool has_offered = offered_ == version_ && port_->now_us() < offer_again_;
    // Who asks is not answered.
    (void)port_->poll(has_offered ? std::min(until, port_->now_us() + kOfferedUs) : until);
    return Status::OK();
  }
  if (leaves_at_ != 0) {
    if (port_->now_us() >= leaves_at_) return Status::Aborted("it has given its index away");
    return server_->serve(until);
  }
  if (has_lost_source()) return give_up();
  server_->trust_until(membership_.sure_until_us());
  BRECCIA_TRY(server_->serve(until));
  ClusterMap next = news();
  if (!mine().heir.member.empty()) give_away(&next);
  if (next != map_) membership_.offer(next, version_);
  return Status::OK();
}

/// What the cluster agreed on since.
Status Seat::take_view() {
  BRECCIA_TAKE(ClusterMap next, ClusterMap::decode(view_->document));
  if (!map_.shards.empty() && next.shards.size() != map_.shards.size()) {
    return Status::Corruption("a cluster has as many shards as it had");
  }
  if (map_.shards.empty() && !next.shards.empty() && next.shards.size() != options_.shards) {
    log(LogLevel::kWarning, "the cluster has " + std::to_string(next.shards.size()) +
                                " shards, this server's file " + std::to_string(options_.shards));
  }
  // One after the other does, so the others have their time from here on.
  if (has_come_back(map_, next)) gone_since_.clear();
  map_ = std::move(next);
  version_ = view_->version;
  // Others wait for its end.
  const bool has_left =
      std::any_of(map_.shards.begin(), map_.shards.end(), [this](const auto& one) {
        return std::count(one.left.begin(), one.left.end(), membership_.name()) > 0;
      });
  if (has_left) return Status::Aborted("memory servers came back without what its index knows");
  const auto found = std::find_if(map_.shards.begin(), map_.shards.end(), [this](const auto& one) {
    return one.of(options_.role).member == membership_.name();
  });
  const bool has_role = found != map_.shards.end();
  if (server_ != nullptr && !has_role) return leave();
  if (!has_role) return Status::OK();
  const auto shard = static_cast<std::uint32_t>(found - map_.shards.begin());
  if (shard_.value_or(shard) != shard) return Status::Aborted("it has another shard's index");
  shard_ = shard;
  if (server_ == nullptr) begin();
  server_->let_go(!mine().heir.member.empty());
  return server_->follow(map_, *shard_);
}

/// Who has let its index go tells those who ask yet that it does no more, so that they know.
Status Seat::leave() {
  if (leaves_at_ != 0) return Status::OK();
  if (mine().given_by != membership_.name()) return Status::Aborted("another server has the role");
  leaves_at_ = port_->now_us() + options_.stay_us;
  return Status::OK();
}

bool Seat::is_there(const ClusterMap::Index& index) const {
  return !index.member.empty() && view_->members.contains(index.member);
}

/// Its hash index is built from an ordered one that is no member any more.
bool Seat::has_lost_source() const {
  const bool is_built = options_.role == Role::kHash && !server_->is_whole();
  if (!is_built || view_ == nullptr) return false;
  const ClusterMap::Index& source = map_.shards[*shard_].ordered;
  return !source.member.empty() && !is_there(source);
}

// ---- one that waits ----------------------------------------------------------------------------

/// Takes a role that nobody has, or wants one of another process. Whether it has offered a map.
bool Seat::look_for_role() {
  if (map_.shards.empty()) return found();
  // Who is a heir waits for that, as long as somebody is there who lets it go.
  const auto named = std::find_if(map_.shards.begin(), map_.shards.end(), [this](const auto& one) {
    const ClusterMap::Index& index = one.of(options_.role);
    return index.heir.member == membership_.name() && is_there(index);
  });
  if (named != map_.shards.end()) {
    if (!may_inherit(*named)) return false;
    return take_role(static_cast<std::uint32_t>(named - map_.shards.begin()));
  }
  const Loads loads = loads_now();
  const bool is_calm = is_quiet();
  const std::size_t first = std::hash<std::string>()(membership_.name());
  for (std::size_t n = 0; n < map_.shards.size(); ++n) {
    // Not all of those that wait begin with the same one.
    const auto i = static_cast<std::uint32_t>((first + n) % map_.shards.size());
    const ClusterMap::Shard& shard = map_.shards[i];
    const bool may = may_take(shard), is_wanted = is_calm && wants(shard, loads);
    if (!has_waited(i, may || is_wanted, is_wanted || waits_to_take(shard, loads))) continue;
    return may ? take_role(i) : be_heir(i);
  }
  return false;
}

/// A cluster begins.
bool Seat::found() {
  ClusterMap next = map_;
  next.placement_seed = options_.placement.value_or(KeySeeds::draw().hash);
  next.shards.resize(options_.shards);
  membership_.offer(next, version_);
  return true;
}

/// Who has the index has let it go, and it can be built.
bool Seat::may_inherit(const ClusterMap::Shard& shard) const {
  const ClusterMap::Index& source = shard.of(other(options_.role));
  return shard.of(options_.role).heir.may_take && is_there(source) && source.is_whole;
}

bool Seat::may_take(const ClusterMap::Shard& shard) const {
  const ClusterMap::Index& of_other = shard.of(other(options_.role));
  if (is_there(shard.of(options_.role))) return false;
  // Clients may believe those yet.
  const bool are_there = std::any_of(shard.left.begin(), shard.left.end(), [this](const auto& one) {
    return view_->members.contains(one);
  });
  if (are_there) return false;
  if (is_there(of_other) && of_other.is_whole) return true;
  // A hash index can be made of what memory servers have, if they are not about to come back.
  return options_.role == Role::kHash && !waits_for_media();
}

/// Values are to come back that nobody has now.
bool Seat::waits_for_media() const {
  return std::any_of(map_.memory.begin(), map_.memory.end(), [this](const auto& one) {
    return !one.is_lost && one.may_come_back() && !has_all_values(view_->members, one);
  });
}

/// Two indexes of one process are lost together, so another one takes the second if it is there;
/// and where a cluster begins each is to have some.
bool Seat::waits_to_take(const ClusterMap::Shard& shard, const Loads& loads) const {
  return shard.of(other(options_.role)).process == options_.process ||
         (!shard.has_begun && loads.contains(options_.process));
}

/// All indexes are there and whole, and nobody lets one go: no two move at once.
bool Seat::is_quiet() const {
  const auto is_still = [this](const ClusterMap::Index& one) {
    return is_there(one) && one.is_whole && one.heir.member.empty();
  };
  return std::all_of(map_.shards.begin(), map_.shards.end(),
                     [&](const auto& one) { return is_still(one.hash) && is_still(one.ordered); });
}

/// Each time that somebody has what it wants fewer processes have both indexes of a shard, or
/// as many, and the numbers of indexes that they have are closer to one another: so that ends.
/// Of two indexes in one process the ordered one moves, as single keys are read and written
/// meanwhile as ever.
bool Seat::wants(const ClusterMap::Shard& shard, const Loads& loads) const {
  const std::string& holder = shard.of(options_.role).process;
  const std::string& of_other = shard.of(other(options_.role)).process;
  if (holder == options_.process || of_other == options_.process) return false;
  const auto found = loads.find(options_.process);
  const int mine = found == loads.end() ? 0 : found->second, theirs = loads.at(holder);
  const bool is_crowded = holder == of_other;
  return is_crowded ? options_.role == Role::kOrdered : mine + 2 <= theirs;
}

Seat::Loads Seat::loads_now() const {
  Loads loads;
  for (const ClusterMap::Shard& shard : map_.shards) {
    for (const ClusterMap::Index* const one : {&shard.hash, &shard.ordered}) {
      if (is_there(*one)) ++loads[one->process];
    }
  }
  return loads;
}

/// Whether it may have a shard's index by now; if it waits, all the time for so long.
bool Seat::has_waited(std::uint32_t shard, bool may, bool waits) {
  if (!may) {
    free_since_.erase(shard);
    return false;
  }
  const fabric::TimeUs since = free_since_.try_emplace(shard, port_->now_us()).first->second;
  return !waits || port_->now_us() >= since + options_.patience_us;
}

bool Seat::take_role(std::uint32_t shard) {
  ClusterMap next = map_;
  ++next.epoch;
  ClusterMap::Shard& of = next.shards[shard];
  // Before the shard has begun there are no keys.
  const bool is_first = options_.role == Role::kHash && !of.has_begun;
  // Who has to be made of this one is no other one's beginning.
  const bool is_last =
      options_.role == Role::kHash && !is_first && !(is_there(of.ordered) && of.ordered.is_whole);
  if (is_last) of.ordered = {};
  of.left.clear();
  ClusterMap::Index& index = of.of(options_.role);
  const bool is_given = index.heir.member == membership_.name() && index.heir.may_take;
  const std::string given_by = index.member.empty() ? index.given_by : "";
  index = {.member = membership_.name(),
           .address = port_->address(),
           .is_whole = is_first,
           .process = options_.process,
           .given_by = is_given ? index.member : given_by};
  membership_.offer(next, version_);
  return true;
}

bool Seat::be_heir(std::uint32_t shard) {
  ClusterMap next = map_;
  next.shards[shard].of(options_.role).heir = {
      .member = membership_.name(), .address = port_->address(), .process = options_.process};
  membership_.offer(next, version_);
  return true;
}

// ---- one that has an index ---------------------------------------------------------------------

void Seat::begin() {
  BRECCIA_ASSERT(server_ == nullptr && shard_.has_value());
  const ClusterMap::Shard& shard = map_.shards[*shard_];
  log(LogLevel::kInfo, std::string("this server has the ") + name_of(options_.role) +
                           " index of shard " + std::to_string(*shard_) + ", epoch " +
                           std::to_string(map_.epoch));
  if (options_.role == Role::kOrdered) {
    server_ = std::make_unique<OrderedServer>(port_, options_.ordered);
    return;
  }
  if (shard.hash.is_whole) {
    table_->be_first();
  } else if (shard.ordered.member.empty()) {
    log(LogLevel::kWarning, "both indexes were lost: they are made of what memory servers have");
    const bool has_lost = std::any_of(map_.memory.begin(), map_.memory.end(),
                                      [](const auto& one) { return one.is_lost && !one.is_moved; });
    if (has_lost) log(LogLevel::kWarning, "some of which are lost: their keys will not be found");
    table_->begin_from_memory();
  }
  server_ = std::move(table_);
}

/// Its heir takes the index when this server has let it go; if there is none any more, or it would
/// have nothing to build from, this one keeps it. It goes on when the map says so, as its heir may
/// be first.
void Seat::give_away(ClusterMap* next) const {
  ClusterMap::Heir& heir = next->shards[*shard_].of(options_.role).heir;
  const ClusterMap::Index& source = next->shards[*shard_].of(other(options_.role));
  if (!view_->members.contains(heir.member) || !is_there(source) || !source.is_whole) {
    heir = {};
  } else {
    heir.may_take = server_->has_let_go();
  }
}

/// What its index is built from is gone. Others need not wait until this one is no member any more:
/// nobody reads its buckets yet.
Status Seat::give_up() {
  BRECCIA_ASSERT(!server_->is_whole());
  ClusterMap next = map_;
  ClusterMap::Index& mine = next.shards[*shard_].of(options_.role);
  mine = {.member = {}, .address = {}, .given_by = mine.given_by};
  ++next.epoch;
  membership_.offer(next, version_);
  return Status::Aborted("what its index is built from is gone");
}

/// Where all members went at once, memory servers are there again before long.
bool Seat::has_waited(Since* since, std::uint32_t node, fabric::TimeUs so_long) const {
  const fabric::TimeUs begin = since->try_emplace(node, port_->now_us()).first->second;
  return port_->now_us() >= begin + so_long;
}

/// The map, with what this server knows and the cluster does not.
ClusterMap Seat::news() {
  ClusterMap next = map_;
  ClusterMap::Shard& shard = next.shards[*shard_];
  if (server_->is_whole()) shard.of(options_.role).is_whole = true;
  shard.has_begun = shard.has_begun || (shard.hash.is_whole && shard.ordered.is_whole);
  if (options_.role != Role::kHash) return next;
  // Who has not heard of the others for long does not know who is gone.
  if (port_->now_us() >= membership_.sure_until_us()) {
    gone_since_.clear();
    return next;
  }
  const bool is_made_of_memory =
      std::any_of(map_.shards.begin(), map_.shards.end(), [](const auto& one) {
        return one.has_begun && !one.hash.is_whole && one.ordered.member.empty();
      });
  bool has_lost = false;
  for (ClusterMap::Memory& one : next.memory) {
    if (one.is_lost) continue;
    const bool are_all = are_all_there(view_->members, one);
    const bool are_enough = are_all || (!is_made_of_memory && has_all_values(view_->members, one));
    if (are_all || (are_enough && !one.has_medium())) {
      gone_since_.erase(one.node);
    } else if (!has_waited(&gone_since_, one.node,
                           are_enough ? options_.other_us : options_.return_us)) {
      continue;
    }
    has_lost = take_out_lost(view_->members, &one) || has_lost;
    if (one.mirror.member.empty() || !server_->has_settled()) continue;
    one.mirror.written_by |= ShardSet::one(*shard_).bits();
    one.is_in_use = one.is_in_use || next.is_written(one.mirror);
  }
  // No value can lie on those.
  std::erase_if(next.memory, [this](const auto& one) {
    if (!one.is_moved) {
      moved_since_.erase(one.node);
    } else if (has_waited(&moved_since_, one.node, options_.forget_us)) {
      return true;
    }
    return one.is_lost && !one.is_in_use;
  });
  if (has_lost) next.epoch = map_.epoch + 1;
  return next;
}

}  // namespace breccia::disagg
