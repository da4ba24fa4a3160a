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
  leave(&hash_);
  leave(&ordered_);
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
  if (!map.ok() || map.value().epoch < map_.epoch) return version_ > 0;
  version_ = view->version;
  const ClusterMap before = std::exchange(map_, map.take());
  asking_.set_epoch(map_.epoch);
  if (map_.hash.member != before.hash.member || map_.hash.address != before.hash.address) {
    leave(&hash_);
    has_table_ = false;
  }
  if (map_.ordered.member != before.ordered.member) leave(&ordered_);
  if (map_.epoch != before.epoch) trusted_until_ = 0;
  memory_.follow(map_);
  return true;
}

Status Routes::find(TimeUs until) {
  const bool has_map = look();
  BRECCIA_TRY(other_version_);
  if (!has_map || map_.hash.address.empty()) return Status::TryAgain("the cluster has no map yet");
  if (hash_.has_value() && port_->is_gone(*hash_)) leave(&hash_);
  if (!hash_.has_value() || !has_table_) BRECCIA_TRY(again(meet_hash(try_until(until))));
  // Those that are not there now may not be needed.
  memory_.tend(until);
  return Status::OK();
}

Status Routes::meet_hash(TimeUs until) {
  if (!hash_.has_value()) {
    BRECCIA_TAKE(hash_, port_->connect(map_.hash.address, until));
  }
  trusted_until_ = 0;
  BRECCIA_TAKE(const auto told, asking_.ask(*hash_, Ask::kTable, {}, until));
  WireReader reader(told);
  const auto table = reader.take<TableInfo>();
  if (!reader.is_whole() || !is_table(table)) return Status::IOError("no table of a hash server");
  // A larger table of the same server leads to the same places.
  if (tables_ == 0 || table.seeds != table_.seeds) ++tables_;
  table_ = table;
  has_table_ = true;
  return Status::OK();
}

Result<fabric::PeerId> Routes::meet_ordered(TimeUs until) {
  if (map_.ordered.address.empty()) return Status::TryAgain("there is no ordered server yet");
  if (ordered_.has_value() && port_->is_gone(*ordered_)) leave(&ordered_);
  if (!ordered_.has_value()) {
    BRECCIA_TAKE(ordered_, port_->connect(map_.ordered.address, until));
  }
  return *ordered_;
}

Status Routes::trust(TimeUs until) {
  BRECCIA_TRY(find(until));
  if (is_trusted() && is_whole_) return Status::OK();
  const TimeUs asked = port_->now_us();
  const auto told = ask_hash(Ask::kTrust, {}, try_until(until));
  BRECCIA_TRY(again(told.status()));
  WireReader reader(told.value());
  const auto trust = reader.take<Trust>();
  if (!reader.is_whole()) return Status::TryAgain("no answer of a hash server");
  if (trust.table != table_.number) {
    doubt_table();
    return Status::TryAgain("the hash index has grown");
  }
  trusted_until_ = asked + trust.for_us;
  is_whole_ = trust.is_whole == 1;
  return Status::OK();
}

bool Routes::confirm(const std::string& member, TimeUs until) {
  if (is_trusted() && map_.hash.member == member) return true;
  do {
    const Status trusted = trust(until);
    if (map_.hash.member != member) return false;
    if (trusted.ok()) return true;
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

Status Routes::read_table(std::span<const fabric::Read> reads, TimeUs until) {
  if (!hash_.has_value()) return Status::TryAgain("the hash server was left");
  Status read = port_->read(*hash_, reads, try_until(until));
  if (!read.ok()) doubt_table();
  return again(std::move(read));
}

Status Routes::read_memory(std::uint32_t node, std::span<const BlockRead> reads, TimeUs until) {
  if (memory_.is_lost(node)) return Status::IOError("the server that had the value is lost");
  // What is read too late is not believed, so there is to be time for the mirror.
  const bool has_mirror = memory_.find_whole_mirror(node) != nullptr;
  const TimeUs each = has_mirror ? table_.read_us / 3 : options_.try_us;
  return again(memory_.read(node, reads, each, until));
}

Status Routes::write_memory(std::uint32_t node, std::span<const BlockWrite> writes, TimeUs until) {
  if (memory_.is_lost(node)) return Status::TryAgain("the memory server is lost");
  const auto all = memory_.find_all(node);
  Status written = all.empty() ? Status::TryAgain("a memory server was not reached") : Status();
  for (const MemoryPeer* const of : all) {
    std::vector<fabric::Write> to_peer;
    to_peer.reserve(writes.size());
    for (const BlockWrite& one : writes) to_peer.push_back({of->region, one.offset, one.from});
    if (written.ok()) written = port_->write(of->peer, to_peer, try_until(until));
  }
  if (!written.ok()) memory_.doubt();
  return again(std::move(written));
}

/// A question there may have effects, so it is waited for as long as the server has its role.
Result<std::vector<std::byte>> Routes::ask_hash(Ask what, const WireWriter& question,
                                                TimeUs until) {
  if (!hash_.has_value()) return Status::TryAgain("the hash server was left");
  const std::string member = map_.hash.member;
  return asking_.ask(*hash_, what, question, until, [this, &member] {
    const Coordinator::View* const view = coordinator_->look();
    if (view == nullptr || view->version == version_) return false;
    const auto map = ClusterMap::decode(view->document);
    return map.ok() && map.value().hash.member != member;
  });
}

Result<std::vector<std::byte>> Routes::ask_ordered(Ask what, const WireWriter& question,
                                                   TimeUs until) {
  const TimeUs tries = try_until(until);
  const auto peer = meet_ordered(tries);
  if (!peer.ok()) return again(peer.status());
  auto answer = asking_.ask(peer.value(), what, question, tries);
  return answer.status().IsIOError() ? Result<std::vector<std::byte>>(again(answer.status()))
                                     : std::move(answer);
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
