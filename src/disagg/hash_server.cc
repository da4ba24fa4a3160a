#include "disagg/hash_server.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/secret.h"
#include "disagg/block.h"

namespace breccia::disagg {

namespace {

/// Arrivals that are heard before writes are shipped: those that come together go together.
constexpr int kArrivalsAtOnce = 64;
/// Of a message with writes; the last one may be larger.
constexpr std::size_t kShipBytes = 512 << 10;
constexpr fabric::TimeUs kSendUs = 100'000;

Watermark* watermark_in(fabric::Region* region) {
  return reinterpret_cast<Watermark*>(region->bytes().data());
}

std::span<Bucket> buckets_in(fabric::Region* region, const TableShape& shape) {
  BRECCIA_ASSERT(region->bytes().size() == sizeof(Watermark) + shape.buckets * sizeof(Bucket));
  return {reinterpret_cast<Bucket*>(region->bytes().data() + sizeof(Watermark)), shape.buckets};
}

/// Marks of one turn.
constexpr std::uint64_t kMarksAtOnce = 1024;

/// What a write that waits takes, its key beside it once more.
std::uint64_t bytes_of(const LoggedWrite& write) {
  constexpr std::uint64_t kAsker = sizeof(Answers::Asker);
  return sizeof write + kAsker + 2 * write.key.size();
}

bool is_key(const Slice& key) { return !key.empty() && key.size() <= kKeyBytesMax; }

}  // namespace

Result<std::unique_ptr<HashServer>> HashServer::make(fabric::Port* port, const Options& options,
                                                     fabric::TimeUs until) {
  BRECCIA_ASSERT(options.bucket_bits < 31 && options.read_us < options.rest_us);
  const TableShape shape{.bucket_bits = options.bucket_bits,
                         .buckets = (1U << options.bucket_bits) + options.more_buckets};
  BRECCIA_TAKE(
      std::unique_ptr<fabric::Region> region,
      port->make_region(sizeof(Watermark) + shape.buckets * sizeof(Bucket), fabric::Access::kRead));
  std::unique_ptr<HashServer> server(new HashServer(port, options, shape, std::move(region)));
  BRECCIA_TRY(server->meet(until));
  return server;
}

Status HashServer::meet(fabric::TimeUs until) {
  if (!options_.ordered_server.empty()) {
    BRECCIA_TAKE(ordered_server_, port_->connect(options_.ordered_server, until));
  }
  Asking asking(port_, options_.ship_again_us);
  for (const std::string& address : options_.memory_servers) {
    BRECCIA_TAKE(const MemoryPeer of, meet_memory(port_, &asking, address, until));
    if (!memory_.emplace(of.node, of).second) {
      port_->disconnect(of.peer);
      return Status::InvalidArgument("two memory servers have one number: " + address);
    }
  }
  // Who went meanwhile was not heard.
  const bool is_gone = (ordered_server_.has_value() && port_->is_gone(*ordered_server_)) ||
                       std::any_of(memory_.begin(), memory_.end(), [&](const auto& one) {
                         return port_->is_gone(one.second.peer);
                       });
  return is_gone ? Status::IOError("a server went while others were asked") : Status::OK();
}

HashServer::~HashServer() {
  if (ordered_server_.has_value()) port_->disconnect(*ordered_server_);
  for (const auto& [node, of] : memory_) port_->disconnect(of.peer);
}

HashServer::HashServer(fabric::Port* port, const Options& options, const TableShape& shape,
                       std::unique_ptr<fabric::Region> region)
    : port_(port),
      options_(options),
      log_id_(options.log_id == 0 ? base::draw_secret_word() : options.log_id),
      shape_(shape),
      region_(std::move(region)),
      table_(buckets_in(region_.get(), shape), shape),
      answers_(port) {
  watermark_in(region_.get())->set(0);
}

Status HashServer::serve(fabric::TimeUs until) {
  do {
    auto arrival = port_->poll(waiting_.empty() ? until : std::min(until, ship_again_));
    for (int n = 0; arrival.has_value(); arrival = port_->poll(0)) {
      BRECCIA_TRY(hear(*arrival));
      if (++n == kArrivalsAtOnce) break;
    }
    BRECCIA_TRY(ship());
    // While the ordered server logs.
    BRECCIA_TRY(mark());
    apply_through(std::min(logged_, marked_));
  } while (port_->now_us() < until);
  return Status::OK();
}

Status HashServer::hear(const fabric::Arrival& arrival) {
  const bool is_ordered_server = arrival.peer == ordered_server_;
  if (arrival.kind == fabric::Arrival::Kind::kGone) {
    const bool is_memory = std::any_of(memory_.begin(), memory_.end(), [&](const auto& one) {
      return one.second.peer == arrival.peer;
    });
    if (is_ordered_server) return Status::IOError("the ordered server is gone");
    if (is_memory) return Status::IOError("a memory server is gone");
  }
  if ((arrival.header.kind & kAnswerBit) == 0) {
    answers_.hear(arrival, [this](const Answers::Asker& asker, Ask ask, WireReader question) {
      return answer(asker, ask, question);
    });
    return Status::OK();
  }
  constexpr std::uint8_t kLoggedKind = static_cast<std::uint8_t>(Ask::kShip) | kAnswerBit;
  if (!is_ordered_server || arrival.header.kind != kLoggedKind) return Status::OK();
  // Also one that comes late says what is logged.
  return note_logged(WireReader(arrival.payload), arrival.header.request == ship_request_);
}

std::optional<WireWriter> HashServer::answer(const Answers::Asker& asker, Ask ask,
                                             WireReader question) {
  switch (ask) {
    case Ask::kTable:
      return answer_of(Code::kOk).add(TableInfo{.region = region_->name(),
                                                .shape = shape_,
                                                .seeds = options_.seeds,
                                                .marks = memory_.empty() ? 0U : 1U,
                                                .read_us = options_.read_us,
                                                .rest_us = options_.rest_us});
    case Ask::kPut:
    case Ask::kErase:
      return write(asker, ask, question);
    default:
      return refusal(Code::kWrong, "a hash server does not do that");
  }
}

// ---- writes ------------------------------------------------------------------------------------

std::optional<WireWriter> HashServer::write(const Answers::Asker& asker, Ask ask,
                                            WireReader question) {
  const Slot slot = ask == Ask::kPut ? question.take<Slot>() : 0;
  const Slice key = question.take_bytes();
  const Location location = location_in(slot);
  const bool has_place = location.line > 0 && location.size_class < kSizeClasses;
  if (!question.is_whole() || !is_key(key) || (ask == Ask::kPut && !has_place)) {
    return refusal(Code::kWrong, "no key, or no place");
  }
  if (ask == Ask::kPut && !is_place(location)) {
    return refusal(Code::kWrong, "a place that no memory server has");
  }
  if (const auto refused = refusal_of(ask, key)) return refused;
  LoggedWrite write{.sequence = last_ + 1,
                    .slot = ask == Ask::kPut ? slot_of(0, location) : 0,
                    .key = key.ToString()};
  const Slot before = last_of(write.key);
  last_of_key_[write.key] = {.sequence = write.sequence, .slot = write.slot};
  waiting_.push_back({.write = std::move(write), .before = before, .asker = asker});
  ++last_;
  waiting_bytes_ += bytes_of(waiting_.back().write);
  if (ask == Ask::kPut) ++waiting_puts_;
  if (!ordered_server_.has_value()) logged_ = shipped_ = last_;
  return std::nullopt;
}

/// Whether a value may lie there, as far as this server knows.
bool HashServer::is_place(const Location& location) const {
  if (memory_.empty()) return true;
  const auto of = memory_.find(location.node);
  return of != memory_.end() && location.offset() + location.bytes() <= of->second.region.bytes;
}

/// Where a key's value lies when all that waits is done; 0: nowhere.
Slot HashServer::last_of(const std::string& key) const {
  const auto waiting = last_of_key_.find(key);
  if (waiting != last_of_key_.end()) return waiting->second.slot;
  const auto now = table_.find(options_.seeds.id_of(key));
  return now.has_value() ? slot_of(0, *now) : 0;
}

/// What is logged is in the index before long, so it must have room by then: each put may want a
/// bucket.
std::optional<WireWriter> HashServer::refusal_of(Ask ask, const Slice& key) const {
  if (waiting_bytes_ > options_.log_bytes_max) {
    return refusal(Code::kBusy, "too many writes wait for the ordered server");
  }
  if (ask != Ask::kPut || table_.free_buckets() > waiting_puts_) return std::nullopt;
  if (waiting_puts_ > 0) return refusal(Code::kBusy, "puts wait that the index may be full with");
  if (table_.has_room_for(options_.seeds.id_of(key))) return std::nullopt;
  return refusal(Code::kFull, "the hash index is full");
}

/// Brings what waits to the ordered server, one message after the other was answered.
Status HashServer::ship() {
  if (!ordered_server_.has_value() || last_ == logged_) return Status::OK();
  const bool is_under_way = shipped_ > logged_;
  if (is_under_way && port_->now_us() < ship_again_) return Status::OK();
  WireWriter writes;
  writes.add(log_id_);
  for (const Waiting& one : waiting_) {
    if (one.write.sequence <= logged_) continue;
    one.write.add_to(&writes);
    shipped_ = std::max(shipped_, one.write.sequence);
    if (writes.bytes().size() >= kShipBytes) break;
  }
  const fabric::Header header{.kind = static_cast<std::uint8_t>(Ask::kShip),
                              .request = ++ship_request_};
  ship_again_ = port_->now_us() + options_.ship_again_us;
  Status sent = port_->send(*ordered_server_, header, writes.bytes(), port_->now_us() + kSendUs);
  // It may be slow; what is not answered is shipped again.
  return sent.IsTimedOut() ? Status::OK() : std::move(sent);
}

/// Blocks say that they are replaced before their writes are in the buckets, or acknowledged: who
/// remembers such a block looks for the key anew, and finds its value in the buckets, the same as
/// long as the write is not there.
Status HashServer::mark() {
  static constexpr std::uint64_t kState = BlockHeader::kReplaced;
  const std::uint64_t through = std::min(last_, marked_ + kMarksAtOnce);
  const std::size_t first = waiting_.size() - (last_ - marked_);
  std::map<std::uint32_t, std::vector<fabric::Write>> of_node;
  for (std::size_t i = first; i < first + (through - marked_); ++i) {
    const Waiting& one = waiting_[i];
    BRECCIA_ASSERT(one.write.sequence > marked_ && one.write.sequence <= through);
    if (memory_.empty() || one.before == 0) continue;
    const Location block = location_in(one.before);
    of_node[block.node].push_back({memory_.at(block.node).region,
                                   block.offset() + BlockHeader::kStateOffset,
                                   std::as_bytes(std::span(&kState, 1))});
  }
  for (const auto& [node, writes] : of_node) {
    Status written =
        port_->write(memory_.at(node).peer, writes, port_->now_us() + options_.mark_us);
    if (!written.IsTimedOut()) {
      BRECCIA_TRY(std::move(written));
      continue;
    }
    // Once more, then. As the first ones may come yet, nobody may use these blocks again.
    for (std::size_t i = first; i < first + (through - marked_); ++i) {
      if (location_in(waiting_[i].before).node == node) waiting_[i].is_marked_late = true;
    }
    return Status::OK();
  }
  marked_ = through;
  return Status::OK();
}

/// The log may have less than what was shipped, where something was lost before it.
Status HashServer::note_logged(WireReader answer, bool is_last) {
  const auto code = answer.take<Code>();
  const auto logged = answer.take<Logged>();
  if (code != Code::kOk || !answer.is_whole() || logged.through > last_) {
    return Status::IOError("the ordered server does not log", "it may be another one's");
  }
  logged_ = std::max(logged_, logged.through);
  shipped_ = is_last ? logged_ : std::max(shipped_, logged_);
  return Status::OK();
}

void HashServer::apply_through(std::uint64_t sequence) {
  while (!waiting_.empty() && waiting_.front().write.sequence <= sequence) {
    const Waiting one = std::move(waiting_.front());
    waiting_.pop_front();
    waiting_bytes_ -= bytes_of(one.write);
    if (one.write.slot != 0) --waiting_puts_;
    const auto last = last_of_key_.find(one.write.key);
    if (last->second.sequence == one.write.sequence) last_of_key_.erase(last);
    const WireWriter answer = apply(one);
    // Who has the answer finds what it says, and no scan shows it any more before a lookup.
    watermark_in(region_.get())->set(one.write.sequence);
    answers_.give(one.asker, answer);
  }
}

WireWriter HashServer::apply(const Waiting& one) {
  const KeyId id = options_.seeds.id_of(one.write.key);
  std::optional<Location> before;
  if (one.write.slot == 0) {
    before = table_.erase(id);
  } else {
    auto put = table_.put(id, location_in(one.write.slot));
    BRECCIA_ASSERT(put.ok());  // write() has seen to that
    before = put.value();
  }
  BRECCIA_ASSERT((before.has_value() ? slot_of(0, *before) : 0) == one.before);
  return answer_of(Code::kOk).add(Replaced{one.is_marked_late ? 0 : one.before});
}

}  // namespace breccia::disagg
