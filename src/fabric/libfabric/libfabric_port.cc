#include "fabric/libfabric/libfabric_port.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "base/clock.h"

namespace breccia::fabric::libfabric {

namespace {

/// What is left to send when a port ends is sent in that time, or not at all.
constexpr TimeUs kEndUs = 20'000;

Status gone() { return Status::IOError("the peer is gone"); }
Status over(const char* what) { return Status::TimedOut(what); }

bool is_small(const Read& read) { return read.into.size() <= kGatheredBytesMax; }

/// How many of the first reads one answer holds.
std::size_t count_of_question(std::span<const Read> reads) {
  std::size_t count = 0, bytes = 0;
  while (count < reads.size() && count < kPiecesMax) {
    bytes += reads[count].into.size();
    if (bytes > kGatheredBytesMax) break;
    ++count;
  }
  return count;
}

bool is_small(const Write& write) { return sizeof(Piece) + write.from.size() <= kScatterBytesMax; }

/// How many of the first writes one question holds.
std::size_t count_of_question(std::span<const Write> writes) {
  std::size_t count = 0, bytes = 0;
  for (; count < writes.size(); ++count) {
    bytes += sizeof(Piece) + writes[count].from.size();
    if (bytes > kScatterBytesMax) break;
  }
  return count;
}

std::vector<std::byte> question_for(std::uint32_t number, std::span<const Write> writes) {
  const GatherHead head{.question = number, .pieces = static_cast<std::uint32_t>(writes.size())};
  std::vector<std::byte> question(sizeof head + writes.size() * sizeof(Piece));
  std::memcpy(question.data(), &head, sizeof head);
  std::byte* at = question.data() + sizeof head;
  for (const Write& write : writes) {
    const Piece piece{.key = write.region.key, .offset = write.offset, .bytes = write.from.size()};
    std::memcpy(at, &piece, sizeof piece);
    at += sizeof piece;
  }
  for (const Write& write : writes) {
    question.insert(question.end(), write.from.begin(), write.from.end());
  }
  return question;
}

std::vector<std::byte> question_for(std::uint32_t number, std::span<const Read> reads) {
  const GatherHead head{.question = number, .pieces = static_cast<std::uint32_t>(reads.size())};
  std::vector<std::byte> question(sizeof head + reads.size() * sizeof(Piece));
  std::memcpy(question.data(), &head, sizeof head);
  std::byte* at = question.data() + sizeof head;
  for (const Read& read : reads) {
    const Piece piece{.key = read.region.key, .offset = read.offset, .bytes = read.into.size()};
    std::memcpy(at, &piece, sizeof piece);
    at += sizeof piece;
  }
  return question;
}

}  // namespace

class LibfabricPort::Memory final : public Region {
 public:
  Memory(Engine* engine, Watch* watch, const Regions::Made& made)
      : engine_(engine), watch_(watch), made_(made) {}
  ~Memory() override {
    const Watch::Presence here(watch_);
    const Engine::Lock lock = engine_->lock();
    engine_->end_region(made_.name.key);
  }
  [[nodiscard]] std::span<std::byte> bytes() override { return made_.bytes; }
  [[nodiscard]] RegionName name() const override { return made_.name; }

 private:
  Engine* const engine_;
  Watch* const watch_;
  const Regions::Made made_;
};

/// One of the owner's calls: the engine is its alone, but for pauses.
class LibfabricPort::Call {
 public:
  Call(const LibfabricPort* port, TimeUs until)
      : here_(port->watch_.get()),
        engine_(port->engine_.get()),
        lock_(engine_->lock()),
        wait_{.until = until, .idle_us = base::now_us()} {}

  /// Lets things happen. False: the time was over before the last time.
  bool turn() {
    if (is_over_) return false;
    is_over_ = !engine_->turn(&lock_, &wait_);
    return true;
  }

 private:
  const Watch::Presence here_;
  Engine* const engine_;
  Engine::Lock lock_;
  Engine::Wait wait_;
  bool is_over_ = false;
};

Result<std::unique_ptr<LibfabricPort>> LibfabricPort::open(const Options& options) {
  BRECCIA_TAKE(auto engine, Engine::open(options));
  BRECCIA_TAKE(auto watch, Watch::start(engine.get()));
  return std::unique_ptr<LibfabricPort>(new LibfabricPort(std::move(engine), std::move(watch)));
}

LibfabricPort::~LibfabricPort() {
  Call call(this, base::now_us() + kEndUs);
  engine_->leave_all();
  while (engine_->has_packets_under_way() && call.turn()) {
  }
}

std::string LibfabricPort::describe() const { return "libfabric: " + engine_->provider().name(); }

TimeUs LibfabricPort::now_us() const { return base::now_us(); }

Result<std::unique_ptr<Region>> LibfabricPort::make_region(std::uint64_t bytes, Access access) {
  const Call call(this, 0);
  BRECCIA_TAKE(const Regions::Made made, engine_->make_region(bytes, access));
  return std::unique_ptr<Region>(new Memory(engine_.get(), watch_.get(), made));
}

Result<PeerId> LibfabricPort::connect(const std::string& address, TimeUs until) {
  BRECCIA_TAKE(const RawAddress raw, engine_->provider().address_of(address));
  Call call(this, until);
  auto added = engine_->add_link(raw);
  while (!added.has_value()) {
    if (!call.turn()) return over("no endpoint yet to go there by");
    added = engine_->add_link(raw);
  }
  if (!added->ok()) return added->status();
  const PeerId peer = added->value();
  while (true) {
    const Link* const link = engine_->find(peer);
    if (link == nullptr) return Status::IOError("nobody answers at " + address);
    if (link->other != 0) return peer;
    if (link->is_of_other_version) {
      engine_->leave(peer);
      return Status::InvalidArgument(address + " speaks another version", "use the same release");
    }
    if (call.turn()) continue;
    engine_->leave(peer);
    return over("nobody answers there");
  }
}

bool LibfabricPort::is_gone(PeerId peer) const {
  const Call call(this, 0);
  BRECCIA_ASSERT(engine_->has_been(peer));
  return engine_->find(peer) == nullptr;
}

void LibfabricPort::disconnect(PeerId peer) {
  const Call call(this, 0);
  engine_->leave(peer);
}

// ---- memory of others --------------------------------------------------------------------------

/// What a region is its owner is asked once, before it is accessed: what the provider refuses costs
/// the connection.
Status LibfabricPort::check(Call* call, PeerId peer, const RegionName& region, std::uint64_t offset,
                            std::uint64_t bytes, Rights needs) {
  while (true) {
    Link* const link = engine_->find(peer);
    if (link == nullptr) return gone();
    const auto [found, is_new] = link->regions.try_emplace(region.key);
    if (found->second.has_value()) {
      const Facts facts = *found->second;
      if (facts.rights == Rights::kNone) {
        link->regions.erase(found);
        return Status::InvalidArgument("no such region");
      }
      if (facts.rights < needs) return Status::InvalidArgument("a region that is only read");
      if (offset <= facts.bytes && bytes <= facts.bytes - offset) return Status::OK();
      return Status::InvalidArgument("beyond the end of a region");
    }
    const auto key = std::as_bytes(std::span(&region.key, 1));
    if (is_new && !engine_->say(link, Kind::kAsk, key)) return gone();
    if (!call->turn()) return over("a peer does not say what its region is");
  }
}

Status LibfabricPort::transfer(Call* call, const std::vector<PeerId>& peers,
                               const Transfers& transfers) {
  Engine::Batch batch(engine_.get());
  std::size_t posted = 0;
  while (true) {
    if (batch.is_lost) return Status::IOError("an access was refused, or lost");
    while (posted < transfers.size()) {
      Link* const link = engine_->find(transfers[posted].peer);
      if (link == nullptr) return gone();
      if (!engine_->post(link, transfers[posted].what, &batch)) break;
      ++posted;
    }
    if (posted == transfers.size() && batch.under_way == 0) return Status::OK();
    const bool are_there = std::all_of(
        peers.begin(), peers.end(), [this](PeerId peer) { return engine_->find(peer) != nullptr; });
    if (!are_there) return gone();
    if (!call->turn()) return over("memory of a peer");
  }
}

Status LibfabricPort::ask(Call* call, std::vector<Asked>* all) {
  Engine::Batch batch(engine_.get());
  while (true) {
    if (batch.is_refused) return Status::InvalidArgument("no such region, or not so long");
    bool are_asked = true;
    for (Asked& one : *all) {
      if (!ask_for(&one, &batch)) return gone();
      are_asked = are_asked && one.is_asked();
    }
    if (are_asked && batch.under_way == 0) return Status::OK();
    if (!call->turn()) return over("memory of a peer");
  }
}

/// As much as it takes now. False: it is gone.
bool LibfabricPort::ask_for(Asked* one, Engine::Batch* batch) {
  while (!one->is_none()) {
    Link* const link = engine_->find(one->peer);
    if (link == nullptr) return false;
    if (one->is_asked() || link->questions.size() >= kQuestionsMax) return true;
    const std::uint32_t number = link->next_question++;
    ++batch->under_way;
    const auto reads = std::span<const Read>(one->reads).subspan(one->asked_reads);
    const bool is_read = !reads.empty();
    std::vector<std::byte> question;
    if (is_read) {
      const auto some = reads.first(count_of_question(reads));
      one->asked_reads += some.size();
      link->questions.emplace(number, Link::Question{.batch = batch->id, .reads = some});
      question = question_for(number, some);
    } else {
      const auto writes = std::span<const Write>(one->writes).subspan(one->asked_writes);
      const auto some = writes.first(count_of_question(writes));
      one->asked_writes += some.size();
      link->questions.emplace(number, Link::Question{.batch = batch->id, .reads = {}});
      question = question_for(number, some);
    }
    if (!engine_->say(link, is_read ? Kind::kGather : Kind::kScatter, question)) return false;
  }
  return true;
}

Status LibfabricPort::read(PeerId peer, std::span<const Read> reads, TimeUs until) {
  const ReadsOf one{.peer = peer, .reads = reads};
  return read_all({&one, 1}, until);
}

Status LibfabricPort::read_all(std::span<const ReadsOf> all, TimeUs until) {
  Call call(this, until);
  std::vector<Asked> small;
  std::vector<PeerId> peers;
  Transfers transfers;
  for (const auto& [peer, reads] : all) {
    peers.push_back(peer);
    const bool gathers = engine_->provider().is_software() && reads.size() > 1;
    Asked& of_peer = small.emplace_back();
    of_peer.peer = peer;
    for (const Read& read : reads) {
      if (gathers && is_small(read)) {
        of_peer.reads.push_back(read);
        continue;
      }
      BRECCIA_TRY(check(&call, peer, read.region, read.offset, read.into.size(), Rights::kRead));
      for (std::size_t at = 0; at < read.into.size(); at += kPacketBytes) {
        const std::size_t bytes = std::min(kPacketBytes, read.into.size() - at);
        transfers.push_back({peer,
                             {.key = read.region.key,
                              .remote = read.region.base + read.offset + at,
                              .into = read.into.subspan(at, bytes),
                              .from = {}}});
      }
    }
  }
  BRECCIA_TRY(ask(&call, &small));
  return transfer(&call, peers, transfers);
}

Status LibfabricPort::write(PeerId peer, std::span<const Write> writes, TimeUs until) {
  const WritesTo one{.peer = peer, .writes = writes};
  return write_all({&one, 1}, until);
}

Status LibfabricPort::write_all(std::span<const WritesTo> all, TimeUs until) {
  Call call(this, until);
  std::vector<Asked> small;
  std::vector<PeerId> peers;
  Transfers transfers;
  for (const auto& [peer, writes] : all) {
    peers.push_back(peer);
    const bool scatters = engine_->provider().is_software() && writes.size() > 1;
    Asked& to_peer = small.emplace_back();
    to_peer.peer = peer;
    for (const Write& write : writes) {
      BRECCIA_TRY(
          check(&call, peer, write.region, write.offset, write.from.size(), Rights::kReadWrite));
      if (scatters && is_small(write)) {
        to_peer.writes.push_back(write);
        continue;
      }
      for (std::size_t at = 0; at < write.from.size(); at += kPacketBytes) {
        const std::size_t bytes = std::min(kPacketBytes, write.from.size() - at);
        transfers.push_back({peer,
                             {.key = write.region.key,
                              .remote = write.region.base + write.offset + at,
                              .into = {},
                              .from = write.from.subspan(at, bytes)}});
      }
    }
  }
  BRECCIA_TRY(ask(&call, &small));
  return transfer(&call, peers, transfers);
}

// ---- messages ----------------------------------------------------------------------------------

Status LibfabricPort::send(PeerId peer, const Header& header, std::span<const std::byte> payload,
                           TimeUs until) {
  Call call(this, until);
  // What did not go of the message before goes first.
  BRECCIA_TRY(flush(&call, peer));
  Link* const link = engine_->find(peer);
  if (link == nullptr) return gone();
  const WireHeader head = encode(header, payload);
  link->message.reserve(head.size() + payload.size());
  link->message.assign(head.begin(), head.end());
  link->message.insert(link->message.end(), payload.begin(), payload.end());
  link->message_sent = 0;
  if (!engine_->pump(link)) return gone();
  const Status flushed = flush(&call, peer);
  Link* const left = engine_->find(peer);
  if (!flushed.IsTimedOut() || left == nullptr) return flushed;
  // Where some of it is on its way the rest follows: it is handed over.
  if (left->message_sent > 0) return Status::OK();
  left->message.clear();
  return flushed;
}

/// Until all of a link's message is on its way.
Status LibfabricPort::flush(Call* call, PeerId peer) {
  while (true) {
    const Link* const link = engine_->find(peer);
    if (link == nullptr) return gone();
    if (!link->has_message()) return Status::OK();
    if (!call->turn()) return over("a peer takes no messages");
  }
}

std::optional<Arrival> LibfabricPort::poll(TimeUs until) {
  Call call(this, until);
  while (true) {
    if (auto arrival = engine_->take_arrival()) return arrival;
    if (!call.turn()) return std::nullopt;
  }
}

}  // namespace breccia::fabric::libfabric
