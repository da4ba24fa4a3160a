#include "disagg/client/routes.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "disagg/bucket.h"
#include "disagg/watermark.h"

namespace breccia::disagg {

namespace {

using fabric::TimeUs;

/// Who is told to try again does so behind a pause, each time a longer one.
constexpr TimeUs kPauseUs = 50;
constexpr TimeUs kPauseUsMax = 5000;

/// What a peer that went, or its region, leaves to be tried again.
Status again(Status status) {
  const bool is_gone = status.IsIOError() || status.IsInvalidArgument();
  return is_gone ? Status::TryAgain("a server cannot be reached", status.ToString())
                 : std::move(status);
}

bool is_table(const TableInfo& table) {
  const TableShape& shape = table.shape;
  return shape.bucket_bits <= 30 && shape.buckets >= 1U << shape.bucket_bits &&
         table.region.bytes == sizeof(Watermark) + std::uint64_t{shape.buckets} * sizeof(Bucket) &&
         table.read_us < table.rest_us;
}

}  // namespace

Routes::~Routes() {
  for (Way& way : ways_) {
    leave(&way.hash);
    leave(&way.ordered);
  }
}

void Routes::leave(std::optional<fabric::PeerId>* peer) {
  if (peer->has_value()) port_->disconnect(**peer);
  peer->reset();
}

TimeUs Routes::try_until(TimeUs until) const {
  return std::min(until, port_->now_us() + options_.try_us);
}

/// False: the coordinator has said nothing yet.
bool Routes::look() {
  const Coordinator::View* const view = coordinator_->look();
  if (view == nullptr || view->version == version_) return view != nullptr;
  auto map = ClusterMap::decode(view->document);
  other_version_ = map.status().IsNotSupported() ? map.status() : Status::OK();
  // What is no map may become one.
  const bool is_one = map.ok() && map.value().epoch >= map_.epoch &&
                      (ways_.empty() || map.value().shards.size() == ways_.size());
  if (!is_one) return version_ > 0;
  version_ = view->version;
  const ClusterMap before = std::exchange(map_, map.take());
  asking_.set_epoch(map_.epoch);
  follow(before);
  memory_.follow(map_);
  return true;
}

/// Whom the map has still is not left.
void Routes::follow(const ClusterMap& before) {
  placement_ = map_.placement();
  for (std::size_t i = 0; i < ways_.size(); ++i) {
    Way& way = ways_[i];
    const ClusterMap::Shard& now = map_.shards[i];
    const ClusterMap::Shard& then = before.shards[i];
    if (now.hash.member != then.hash.member || now.hash.address != then.hash.address) {
      leave(&way.hash);
      way.has_table = false;
    }
    if (now.ordered.member != then.ordered.member) leave(&way.ordered);
    if (map_.epoch != before.epoch) way.trusted_until = 0;
  }
  ways_.resize(map_.shards.size());
}

Status Routes::find() {
  const bool has_map = look();
  BRECCIA_TRY(other_version_);
  if (has_map && !ways_.empty()) return Status::OK();
  const Status reached = coordinator_->reached();
  if (reached.IsInvalidArgument()) return reached;
  return Status::TryAgain("the cluster has no map yet", reached.ok() ? "" : reached.ToString());
}

Status Routes::meet(std::uint32_t shard, TimeUs until) {
  Way& way = ways_[shard];
  if (way.hash.has_value() && port_->is_gone(*way.hash)) leave(&way.hash);
  if (!way.hash.has_value() || !way.has_table) {
    BRECCIA_TRY(again(meet_hash(shard, try_until(until))));
  }
  // Those that are not there now may not be needed.
  memory_.tend(until);
  return Status::OK();
}

Status Routes::meet_hash(std::uint32_t shard, TimeUs until) {
  Way& way = ways_[shard];
  const std::string& address = map_.shards[shard].hash.address;
  if (address.empty()) return Status::TryAgain("there is no hash server yet");
  if (!way.hash.has_value()) {
    BRECCIA_TAKE(way.hash, port_->connect(address, until));
  }
  way.trusted_until = 0;
  BRECCIA_TAKE(const auto told, asking_.ask(*way.hash, Ask::kTable, {}, until));
  WireReader reader(told);
  const auto table = reader.take<TableInfo>();
  if (!reader.is_whole() || !is_table(table)) return Status::IOError("no table of a hash server");
  way.table = table;
  way.has_table = true;
  read_us_ = std::min(read_us_, table.read_us);
  rest_us_ = std::max(rest_us_, table.rest_us);
  return Status::OK();
}

Result<fabric::PeerId> Routes::meet_ordered(std::uint32_t shard, TimeUs until) {
  Way& way = ways_[shard];
  const std::string& address = map_.shards[shard].ordered.address;
  if (address.empty()) return Status::TryAgain("there is no ordered server yet");
  if (way.ordered.has_value() && port_->is_gone(*way.ordered)) leave(&way.ordered);
  if (!way.ordered.has_value()) {
    BRECCIA_TAKE(way.ordered, port_->connect(address, until));
  }
  return *way.ordered;
}

ShardSet Routes::trusted(ShardSet shards) const {
  ShardSet trusted;
  for (std::uint32_t shard = shards.next(0); shard < kShardsMax; shard = shards.next(shard + 1)) {
    const Way& way = ways_[shard];
    if (way.hash.has_value() && way.has_table && way.is_whole && is_trusted(shard)) {
      trusted.add(shard);
    }
  }
  return trusted;
}

ShardSet Routes::trust(ShardSet shards, Status* why, TimeUs until) {
  ShardSet trusted;
  std::vector<ToShard> asked;
  for (std::uint32_t shard = shards.next(0); shard < kShardsMax; shard = shards.next(shard + 1)) {
    Status met = meet(shard, until);
    if (met.ok()) {
      asked.push_back({.shard = shard, .question = {}});
    } else {
      *why = std::move(met);
    }
  }
  const TimeUs since = port_->now_us();
  ask_hash(Ask::kTrust, asked, try_until(until));
  for (const ToShard& one : asked) {
    Status taken = take_trust(one, since);
    if (taken.ok()) {
      trusted.add(one.shard);
    } else {
      *why = std::move(taken);
    }
  }
  return trusted;
}

Status Routes::take_trust(const ToShard& told, TimeUs asked) {
  BRECCIA_TRY(again(told.answer.status()));
  WireReader reader(told.answer.value());
  const auto trust = reader.take<Trust>();
  if (!reader.is_whole()) return Status::TryAgain("no answer of a hash server");
  Way& way = ways_[told.shard];
  if (trust.table != way.table.number) {
    doubt_table(told.shard);
    return Status::TryAgain("the hash index has grown");
  }
  way.trusted_until = asked + trust.for_us;
  way.is_whole = trust.is_whole == 1;
  return Status::OK();
}

/// Who gave its index away had done all that it has answered.
bool Routes::confirm(std::uint32_t shard, const std::string& member, TimeUs until) {
  const auto is_it = [&] { return map_.shards[shard].hash.member == member; };
  if (is_trusted(shard) && is_it()) return true;
  do {
    Status why = find();
    ShardSet trusted;
    if (why.ok() && is_it()) trusted = trust(ShardSet::one(shard), &why, until);
    if (!is_it()) return map_.shards[shard].hash.given_by == member;
    if (trusted.has(shard)) return true;
    reconsider(until);
  } while (port_->now_us() < until);
  return false;
}

void Routes::reconsider(TimeUs until) {
  pause_us_ = std::clamp(2 * pause_us_, kPauseUs, kPauseUsMax);
  (void)port_->poll(std::min(until, port_->now_us() + pause_us_));
  (void)look();
}

// ---- servers -----------------------------------------------------------------------------------

Status Routes::read_tables(std::span<const TableReads> all, TimeUs until) {
  std::vector<fabric::ReadsOf> of_peers;
  for (const TableReads& one : all) {
    const auto& hash = ways_[one.shard].hash;
    if (!hash.has_value()) return Status::TryAgain("the hash server was left");
    of_peers.push_back({.peer = *hash, .reads = one.reads});
  }
  port_->read_all(of_peers, try_until(until));
  Status last;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (of_peers[i].status.ok()) continue;
    doubt_table(all[i].shard);
    last = again(of_peers[i].status);
  }
  return last;
}

/// What is read too late is not believed, so there is to be time for mirrors.
bool Routes::read_memory(std::span<NodeReads> all, std::span<const TableReads> beside,
                         TimeUs until) {
  const bool have_mirrors = std::any_of(all.begin(), all.end(), [this](const NodeReads& one) {
    return memory_.find_whole_mirror(one.node) != nullptr;
  });
  const auto soon = [&] { return std::min(until, port_->now_us() + read_us_ / 3); };
  for (NodeReads& one : all) one.status = Status::TryAgain("a memory server was not reached");
  const bool are_beside =
      read_servers(all, false, beside, have_mirrors ? soon() : try_until(until));
  if (have_mirrors) (void)read_servers(all, true, {}, soon());
  for (NodeReads& one : all) {
    if (one.status.ok()) continue;
    memory_.doubt();
    one.status = memory_.is_lost(one.node)
                     ? Status::IOError("the server that had the value is lost")
                     : again(std::move(one.status));
  }
  return are_beside;
}

/// Of those that were not read yet, by servers or by their mirrors. Whether all of `beside` was.
bool Routes::read_servers(std::span<NodeReads> all, bool by_mirrors,
                          std::span<const TableReads> beside, TimeUs until) {
  std::vector<std::vector<fabric::Read>> reads;
  std::vector<NodeReads*> nodes;
  std::vector<fabric::ReadsOf> of_peers;
  reads.reserve(all.size());
  for (NodeReads& one : all) {
    if (one.status.ok() || memory_.is_lost(one.node)) continue;
    const MemoryPeer* const of =
        by_mirrors ? memory_.find_whole_mirror(one.node) : memory_.find(one.node);
    if (of == nullptr) continue;
    std::vector<fabric::Read>& own = reads.emplace_back();
    own.reserve(one.reads.size());
    for (const BlockRead& block : one.reads) own.push_back({of->region, block.offset, block.into});
    nodes.push_back(&one);
    of_peers.push_back({.peer = of->peer, .reads = own});
  }
  for (const TableReads& one : beside) {
    const auto& hash = ways_[one.shard].hash;
    if (hash.has_value()) of_peers.push_back({.peer = *hash, .reads = one.reads});
  }
  if (of_peers.empty()) return beside.empty();
  port_->read_all(of_peers, until);
  for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i]->status = of_peers[i].status;
  const auto is_ok = [](const fabric::ReadsOf& one) { return one.status.ok(); };
  return of_peers.size() == nodes.size() + beside.size() &&
         std::all_of(of_peers.begin() + static_cast<std::ptrdiff_t>(nodes.size()), of_peers.end(),
                     is_ok);
}

void Routes::write_memory(std::span<NodeWrites> all, TimeUs until) {
  std::vector<std::vector<fabric::Write>> writes;
  std::vector<NodeWrites*> nodes;
  std::vector<fabric::WritesTo> to_peers;
  writes.reserve(all.size() * kServersOfANode);
  for (NodeWrites& one : all) {
    const auto servers = memory_.find_all(one.node);
    const bool is_reached = !servers.empty() && !memory_.is_lost(one.node);
    one.status =
        is_reached ? Status::OK() : Status::TryAgain("a memory server was not reached, or is lost");
    if (!is_reached) continue;
    for (const MemoryPeer* const of : servers) {
      std::vector<fabric::Write>& own = writes.emplace_back();
      own.reserve(one.writes.size());
      for (const BlockWrite& block : one.writes) {
        own.push_back({of->region, block.offset, block.from});
      }
      nodes.push_back(&one);
      to_peers.push_back({.peer = of->peer, .writes = own});
    }
  }
  if (!to_peers.empty()) port_->write_all(to_peers, try_until(until));
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i]->status.ok()) nodes[i]->status = again(to_peers[i].status);
  }
  const bool are_all =
      std::all_of(all.begin(), all.end(), [](const auto& one) { return one.status.ok(); });
  if (!are_all) memory_.doubt();
}

/// A question there may have effects, so it is waited for as long as the server has its role.
void Routes::ask_hash(Ask what, std::span<ToShard> all, TimeUs until) {
  std::vector<Asking::Question> questions;
  std::vector<ToShard*> asked;
  for (ToShard& one : all) {
    one.answer = Status::TryAgain("the hash server was left");
    const auto& hash = ways_[one.shard].hash;
    if (!hash.has_value()) continue;
    asked.push_back(&one);
    questions.push_back({.peer = *hash,
                         .bytes = &one.question,
                         .is_off = [this, shard = one.shard, member = hash_member(one.shard)] {
                           return is_replaced(shard, member);
                         }});
  }
  asking_.ask(what, questions, until);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    asked[i]->answer = std::move(questions[i].answer);
    asked[i]->answered_us = questions[i].answered_us;
  }
}

/// Who gave its index away answers yet, what it has done, or that it does no more.
bool Routes::is_replaced(std::uint32_t shard, const std::string& member) const {
  const Coordinator::View* const view = coordinator_->look();
  if (view == nullptr || view->version == version_) return false;
  const auto map = ClusterMap::decode(view->document);
  if (!map.ok() || map.value().shards.size() <= shard) return false;
  const ClusterMap::Index& now = map.value().shards[shard].hash;
  return now.member != member && now.given_by != member;
}

void Routes::ask_ordered(Ask what, std::span<ToShard> all, TimeUs until) {
  const TimeUs tries = try_until(until);
  std::vector<Asking::Question> questions;
  std::vector<ToShard*> asked;
  for (ToShard& one : all) {
    const auto peer = meet_ordered(one.shard, tries);
    if (!peer.ok()) {
      one.answer = again(peer.status());
      continue;
    }
    asked.push_back(&one);
    questions.push_back({.peer = peer.value(), .bytes = &one.question});
  }
  asking_.ask(what, questions, tries);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    auto& answer = asked[i]->answer;
    answer = std::move(questions[i].answer);
    if (answer.status().IsIOError()) answer = again(answer.status());
  }
}

Result<std::vector<std::byte>> Routes::ask_memory(std::uint32_t node, Ask what,
                                                  const WireWriter& question, TimeUs until) {
  const MemoryPeer* const of = memory_.find(node);
  if (of == nullptr) return Status::TryAgain("a memory server was not reached");
  auto answer = asking_.ask(of->peer, what, question, try_until(until));
  if (!answer.status().IsIOError()) return answer;
  memory_.doubt();
  return Status::TimedOut("a memory server went before it answered", answer.status().ToString());
}

}  // namespace breccia::disagg
