#include "fabric/libfabric/libfabric_port.h"

#include <utility>

#include "base/assert.h"
#include "base/clock.h"

namespace breccia::fabric::libfabric {

namespace {

/// What is left to send when a port ends is sent in that time, or not at all.
constexpr TimeUs kEndUs = 20'000;

Status gone() { return Status::IOError("the peer is gone"); }
Status over(const char* what) { return Status::TimedOut(what); }

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

Status LibfabricPort::read(PeerId peer, std::span<const Read> reads, TimeUs until) {
  ReadsOf one{.peer = peer, .reads = reads};
  read_all({&one, 1}, until);
  return one.status;
}

void LibfabricPort::read_all(std::span<ReadsOf> all, TimeUs until) {
  Call call(this, until);
  std::deque<Accesses> accesses;
  for (const ReadsOf& one : all) accesses.emplace_back(engine_.get(), one.peer, one.reads);
  run(&call, &accesses);
  for (std::size_t i = 0; i < all.size(); ++i) all[i].status = accesses[i].status();
}

Status LibfabricPort::write(PeerId peer, std::span<const Write> writes, TimeUs until) {
  WritesTo one{.peer = peer, .writes = writes};
  write_all({&one, 1}, until);
  return one.status;
}

void LibfabricPort::write_all(std::span<WritesTo> all, TimeUs until) {
  Call call(this, until);
  std::deque<Accesses> accesses;
  for (const WritesTo& one : all) accesses.emplace_back(engine_.get(), one.peer, one.writes);
  run(&call, &accesses);
  for (std::size_t i = 0; i < all.size(); ++i) all[i].status = accesses[i].status();
}

void LibfabricPort::run(Call* call, std::deque<Accesses>* all) {
  while (true) {
    bool are_over = true;
    for (Accesses& one : *all) {
      one.go_on();
      are_over = are_over && one.is_over();
    }
    if (are_over || !call->turn()) return;
  }
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
