#include "fabric/libfabric/engine.h"

#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "base/assert.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/secret.h"

namespace breccia::fabric::libfabric {

namespace {

constexpr std::size_t kDoorReceives = 256;
/// Slots that one link has under way, and so no other has to wait for it.
constexpr std::size_t kSlotsOfLink = 32;
constexpr std::size_t kWaitingMax = 256;
/// Whoever looks again and again whether something came does so for a while, then waits for it; for
/// longer where it has just waited for less than that, and there are processors enough: to be woken
/// takes longer than most answers.
constexpr TimeUs kSpinUs = 50;
constexpr TimeUs kSpinUsMax = 250;
constexpr unsigned kSpinProcessorsMin = 8;
constexpr TimeUs kPauseUsMax = 250'000;
/// Connections are made, and room is found, without anybody being told.
constexpr TimeUs kWantingPauseUs = 1000;
constexpr TimeUs kTendUs = 20'000;
/// What was sent leaves within that time, or not at all.
constexpr TimeUs kLingerUs = 50'000;
/// Whoever is silent is asked whether it is there, and so many times in vain.
constexpr TimeUs kPingUs = 1'000'000;
constexpr int kPingsMax = 20;
constexpr TimeUs kStuckUsMax = 1'000'000;

}  // namespace

Engine::Batch::Batch(Engine* engine) : id(engine->next_batch_++), engine_(engine) {
  engine_->batches_.emplace(id, this);
}
Engine::Batch::~Batch() { engine_->batches_.erase(id); }

Engine::Engine(std::unique_ptr<Provider> provider)
    : provider_(std::move(provider)),
      spin_us_(kSpinUs),
      spins_long_(std::thread::hardware_concurrency() >= kSpinProcessorsMin) {}

Result<std::unique_ptr<Engine>> Engine::open(const Options& options) {
  BRECCIA_TAKE(auto provider, Provider::open(options));
  std::unique_ptr<Engine> engine(new Engine(std::move(provider)));
  engine->bells_ = base::Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  if (!engine->bells_.is_open()) return Status::IOError("no epoll", std::strerror(errno));
  BRECCIA_TAKE(auto door, Endpoint::open(*engine->provider_, engine->provider_->door_info(),
                                         kDoorReceives, kSlotsOfLink));
  BRECCIA_ASSERT(door->address().size() <= kAddressBytesMax);
  engine->address_ = engine->provider_->text_of(door->address());
  BRECCIA_TRY(engine->add_endpoint(std::move(door)));
  return engine;
}

Engine::~Engine() = default;

Status Engine::add_endpoint(std::unique_ptr<Endpoint> endpoint) {
  epoll_event event{.events = EPOLLIN, .data = {.u64 = 0}};
  if (::epoll_ctl(bells_.get(), EPOLL_CTL_ADD, endpoint->bell(), &event) != 0) {
    return Status::IOError("an endpoint cannot be watched", std::strerror(errno));
  }
  endpoints_.push_back(std::move(endpoint));
  return Status::OK();
}

void Engine::look_for_spare() {
  auto spare = spare_.take();
  if (spare.ok() && spare.value() == nullptr) return;
  awaits_spare_ = false;
  no_spare_ = spare.ok() ? add_endpoint(spare.take()) : spare.status();
}

// ---- time --------------------------------------------------------------------------------------

bool Engine::turn(Lock* lock, Wait* wait) {
  const bool has_come = progress();
  const TimeUs now = base::now_us();
  if (has_come) wait->idle_us = now;
  if (now >= wait->until) return false;
  if (has_come) return true;
  if (now - wait->idle_us < spin_us_) {
    std::this_thread::yield();
    return true;
  }
  const bool is_woken = pause(lock, wait);
  const TimeUs waited_us = base::now_us() - now;
  spin_us_ = is_woken && waited_us < kSpinUsMax && spins_long_ ? kSpinUsMax : kSpinUs;
  if (is_woken) wait->idle_us = now + waited_us;  // peers may be at its memory, which is not told
  return true;
}

/// True: there may be something to do.
bool Engine::pause(Lock* lock, Wait* wait) {
  for (const auto& endpoint : endpoints_) {
    if (!endpoint->may_block()) return false;
  }
  const TimeUs now = base::now_us();
  TimeUs most = kPauseUsMax;
  if (!leaving_.empty()) most = kTendUs;
  if (!wanting_.empty() || awaits_spare_) most = kWantingPauseUs;
  const TimeUs pause = std::min(most, wait->until > now ? wait->until - now : 0);
  const timespec time{.tv_sec = 0, .tv_nsec = static_cast<long>(pause * 1000)};
  std::array<pollfd, 2> bells = {pollfd{.fd = bells_.get(), .events = POLLIN, .revents = 0},
                                 pollfd{.fd = wait->also, .events = POLLIN, .revents = 0}};
  lock->unlock();
  const int rung = ::ppoll(bells.data(), bells.size(), &time, nullptr);
  lock->lock();
  wait->has_also_rung = rung > 0 && bells[1].revents != 0;
  return rung > 0 && bells[0].revents != 0;
}

/// Endpoints come and go outside of it.
bool Engine::progress() {
  bool has_come = false;
  for (const auto& endpoint : endpoints_) {
    for (const Endpoint::Done& done : endpoint->progress()) {
      has_come = true;
      base::as_memory_allows([&] { handle(endpoint.get(), done); });
    }
  }
  if (!wanting_.empty()) {
    const std::set<PeerId> wanting = std::exchange(wanting_, {});
    for (const PeerId peer : wanting) {
      if (Link* const link = find(peer)) (void)pump(link);
    }
  }
  if (awaits_spare_) look_for_spare();
  const TimeUs now = base::now_us();
  if (now - tended_us_ >= kTendUs) tend(now);
  return has_come;
}

void Engine::handle(Endpoint* at, const Endpoint::Done& done) {
  Endpoint::Slot* const slot = done.slot;
  if (slot->use == Endpoint::Use::kReceive) {
    // Whatever becomes of what it says, the slot is received into again.
    base::as_memory_allows([&] {
      if (done.is_ok) hear(at, slot->bytes.first(std::min(done.bytes, slot->bytes.size())));
    });
    return at->receive(slot);
  }
  finish(done);
  const PeerId peer = slot->peer;
  at->give_back(slot);
  Link* const link = find(peer);
  if (link == nullptr) return;
  BRECCIA_ASSERT(link->slots_held > 0);
  --link->slots_held;
  if (!done.is_ok) lose(peer);
}

/// Tells the call that a read or write is about, if it is not over.
void Engine::finish(const Endpoint::Done& done) {
  const Endpoint::Slot& slot = *done.slot;
  if (slot.use == Endpoint::Use::kSend) return;
  const auto found = batches_.find(slot.batch);
  if (found == batches_.end()) return;
  Batch& batch = *found->second;
  BRECCIA_ASSERT(batch.under_way > 0);
  --batch.under_way;
  if (!done.is_ok) batch.is_lost = true;
  if (done.is_ok && slot.use == Endpoint::Use::kRead) {
    std::memcpy(slot.into.data(), slot.bytes.data(), slot.into.size());
  }
}

void Engine::tend(TimeUs now) {
  tended_us_ = now;
  let_go(now);
  ping(now);
}

void Engine::let_go(TimeUs now) {
  for (const Leaving& one : leaving_) {
    if (now >= one.until_us) one.endpoint->remove(one.address);
  }
  std::erase_if(leaving_, [now](const Leaving& one) { return now >= one.until_us; });
  // Those that nobody uses, and that are of no use for some.
  for (std::size_t i = endpoints_.size(); i-- > 1;) {
    if (endpoints_[i]->is_in_use() || !endpoints_[i]->has_spoiled()) continue;
    (void)::epoll_ctl(bells_.get(), EPOLL_CTL_DEL, endpoints_[i]->bell(), nullptr);
    spare_.throw_away(std::move(endpoints_[i]));
    endpoints_.erase(endpoints_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

/// Counted, and not measured: whoever was stopped itself hears first what came meanwhile.
void Engine::ping(TimeUs now) {
  std::vector<PeerId> silent;
  for (auto& [peer, link] : links_) {
    if (now - link.looked_us < kPingUs) continue;
    link.looked_us = now;
    ++link.pings;
    if (link.pings > 1 && link.other != 0) silent.push_back(peer);
  }
  for (const PeerId peer : silent) {
    Link* const link = find(peer);
    if (link == nullptr) continue;
    if (link->pings > kPingsMax) {
      lose(peer);
    } else if (link->waiting.empty()) {
      (void)say(link, Kind::kPing, {});
    }
  }
}

// ---- links -------------------------------------------------------------------------------------

std::optional<Result<PeerId>> Engine::add_link(const RawAddress& address) {
  Status no_spare = std::exchange(no_spare_, Status::OK());
  if (!no_spare.ok()) return no_spare;
  const auto found = std::find_if(endpoints_.begin(), endpoints_.end(), [&](const auto& endpoint) {
    return !endpoint->is_spoiled(address);
  });
  if (found == endpoints_.end()) {
    awaits_spare_ = true;
    return std::nullopt;
  }
  Endpoint* const endpoint = found->get();
  auto added = add(endpoint, address);
  if (!added.ok()) return added.status();
  Link* const link = added.value();
  const PeerId peer = link->peer;
  Greeting greeting{};
  greeting.link = link->name;
  greeting.address_bytes = endpoint->address().size();
  std::memcpy(greeting.address, endpoint->address().data(), endpoint->address().size());
  if (say(link, Kind::kHello, std::as_bytes(std::span(&greeting, 1)))) return peer;
  return Status::IOError("the network does not reach there");
}

Result<Link*> Engine::add(Endpoint* endpoint, const RawAddress& address) {
  BRECCIA_TRY(make_room_for_link(endpoint));
  BRECCIA_TAKE(const fi_addr_t to, endpoint->insert(address));
  const PeerId peer = next_peer_++;
  Link& link = links_[peer];
  link.peer = peer;
  link.endpoint = endpoint;
  link.to = to;
  link.address = address;
  link.looked_us = base::now_us();
  while (link.name == 0) link.name = base::draw_secret_word();
  BRECCIA_ASSERT(names_.emplace(link.name, peer).second);
  return &link;
}

/// Each link brings its slots. Those of links that are gone stay where they are, and some of them
/// may be under way for long.
Status Engine::make_room_for_link(Endpoint* endpoint) {
  std::size_t links = 1, held = 0;
  for (const auto& [peer, link] : links_) {
    if (link.endpoint != endpoint) continue;
    ++links;
    held += link.slots_held;
  }
  const std::size_t lost = endpoint->slots_under_way() - held;
  if (endpoint->slot_count() >= links * kSlotsOfLink + lost) return Status::OK();
  return endpoint->add_slots(kSlotsOfLink);
}

Link* Engine::find(PeerId peer) {
  const auto found = links_.find(peer);
  return found == links_.end() ? nullptr : &found->second;
}

void Engine::leave(PeerId peer) {
  Link* const link = find(peer);
  if (link == nullptr) return;
  if (link->other == 0 || say(link, Kind::kGoodbye, {})) drop(peer);
}

void Engine::leave_all() {
  while (!links_.empty()) leave(links_.begin()->first);
}

bool Engine::has_packets_under_way() const {
  return std::any_of(endpoints_.begin(), endpoints_.end(),
                     [](const auto& endpoint) { return endpoint->slots_under_way() > 0; });
}

/// Nobody is told. What was sent leaves yet.
void Engine::drop(PeerId peer) {
  const auto found = links_.find(peer);
  if (found == links_.end()) return;
  Link& link = found->second;
  leaving_.push_back({.endpoint = link.endpoint,
                      .address = std::move(link.address),
                      .until_us = base::now_us() + kLingerUs});
  names_.erase(link.name);
  links_.erase(found);
}

void Engine::note_gone(PeerId peer) {
  const Link* const link = find(peer);
  if (link == nullptr) return;
  const bool was_there = link->other != 0;
  drop(peer);
  if (!was_there) return;  // connect() says so
  arrive({.kind = Arrival::Kind::kGone, .peer = peer, .header = {}, .payload = {}});
}

/// Its connection is of no use any more. Guests come in by another one.
void Engine::lose(PeerId peer) {
  const Link* const link = find(peer);
  if (link == nullptr) return;
  if (!link->is_guest) link->endpoint->spoil(link->address);
  note_gone(peer);
}

void Engine::arrive(Arrival arrival) {
  const std::size_t bytes = sizeof arrival + arrival.payload.size();
  const PeerId peer = arrival.peer;
  inbox_.push_back(std::move(arrival));
  inbox_bytes_ += bytes;
  if (Link* const link = find(peer)) link->inbox_bytes += bytes;
}

std::optional<Arrival> Engine::take_arrival() {
  if (inbox_.empty()) return std::nullopt;
  Arrival arrival = std::move(inbox_.front());
  inbox_.pop_front();
  const std::size_t bytes = sizeof arrival + arrival.payload.size();
  BRECCIA_ASSERT(inbox_bytes_ >= bytes);
  inbox_bytes_ -= bytes;
  Link* const link = find(arrival.peer);
  if (link == nullptr) return arrival;
  BRECCIA_ASSERT(link->inbox_bytes >= bytes);
  link->inbox_bytes -= bytes;
  let_more_come(link);
  if (link->owes_grant()) (void)pump(link);
  return arrival;
}

// ---- regions -----------------------------------------------------------------------------------

Result<Regions::Made> Engine::make_region(std::uint64_t bytes, Access access) {
  return regions_.make(*provider_, bytes, access);
}

void Engine::end_region(std::uint64_t key) {
  regions_.end(key);
  std::vector<PeerId> peers;
  for (const auto& [peer, link] : links_) {
    if (link.other != 0) peers.push_back(peer);
  }
  for (const PeerId peer : peers) {
    (void)say(&links_.at(peer), Kind::kEnded, std::as_bytes(std::span(&key, 1)));
  }
}

// ---- what is sent ------------------------------------------------------------------------------

bool Engine::say(Link* link, Kind kind, std::span<const std::byte> body) {
  if (link->waiting.size() >= kWaitingMax) {
    note_gone(link->peer);
    return false;
  }
  link->waiting.push_back({.kind = kind, .body = {body.begin(), body.end()}});
  return pump(link);
}

bool Engine::pump(Link* link) {
  const PeerId peer = link->peer;
  while (pump_one(link)) {
  }
  Link* const left = find(peer);
  if (left == nullptr) return false;
  if (!left->is_guest || !left->is_of_other_version || !left->waiting.empty()) return true;
  drop(peer);
  return false;
}

/// False: there is nothing that may be sent, or the link is gone.
bool Engine::pump_one(Link* link) {
  const bool has_part = link->has_message() && link->may_send_part();
  if (link->waiting.empty() && !has_part && !link->owes_grant()) return false;
  Endpoint::Slot* const slot = link->slots_held < kSlotsOfLink ? link->endpoint->take() : nullptr;
  if (slot == nullptr) {
    wanting_.insert(link->peer);
    return false;
  }
  Kind kind = has_part ? Kind::kPart : Kind::kGrant;
  if (!link->waiting.empty()) kind = link->waiting.front().kind;
  const auto body_bytes = write_body(link, slot->bytes.subspan(kEnvelopeBytes, kBodyBytesMax));
  auto posted = Endpoint::Posted::kNever;
  if (body_bytes.has_value()) {
    const Envelope envelope{.kind = kind,
                            .sequence = link->sequence_out,
                            .link = link->other,
                            .granted = link->parts_let};
    write_envelope(envelope, *body_bytes, slot->bytes);
    slot->peer = link->peer;
    posted = link->endpoint->send(slot, link->to, kEnvelopeBytes + *body_bytes);
  }
  if (posted == Endpoint::Posted::kYes) {
    sent(link, kind, *body_bytes);
    return true;
  }
  link->endpoint->give_back(slot);
  if (!is_lost(link, posted)) {
    wanting_.insert(link->peer);
  } else {
    lose(link->peer);
  }
  return false;
}

/// Whether a packet or an access that was not taken never will be. Where nothing is under way there
/// is room, and so there is no connection: the provider is making a new one for ever, and what was
/// sent by the old one nobody knows.
bool Engine::is_lost(Link* link, Endpoint::Posted posted) {
  if (posted == Endpoint::Posted::kNever) return true;
  if (link->slots_held > 0 || link->other == 0) return false;
  const TimeUs now = base::now_us();
  if (link->stuck_us == 0) link->stuck_us = now;
  return now - link->stuck_us >= kStuckUsMax;
}

/// None: it asked for something that is no question.
std::optional<std::size_t> Engine::write_body(Link* link, std::span<std::byte> into) {
  if (!link->waiting.empty()) {
    const Link::Waiting& next = link->waiting.front();
    if (next.kind == Kind::kGathered) return regions_.gather(next.body, into);
    std::copy(next.body.begin(), next.body.end(), into.begin());
    return next.body.size();
  }
  if (!link->has_message() || !link->may_send_part()) return 0;
  const auto rest = std::span<const std::byte>(link->message).subspan(link->message_sent);
  const std::size_t bytes = std::min(rest.size(), into.size());
  std::memcpy(into.data(), rest.data(), bytes);
  return bytes;
}

void Engine::sent(Link* link, Kind kind, std::size_t body_bytes) {
  link->stuck_us = 0;
  ++link->slots_held;
  ++link->sequence_out;
  link->parts_told = link->parts_let;
  if (kind == Kind::kGathered || kind == Kind::kScattered) --link->answers_owed;
  if (!link->waiting.empty()) {
    link->waiting.pop_front();
  } else if (kind == Kind::kPart) {
    ++link->parts_sent;
    link->message_sent += body_bytes;
  }
}

bool Engine::post(Link* link, const Transfer& transfer, Batch* batch) {
  if (link->slots_held >= kSlotsOfLink) return false;
  Endpoint::Slot* const slot = link->endpoint->take();
  if (slot == nullptr) return false;
  slot->peer = link->peer;
  slot->batch = batch->id;
  slot->into = transfer.into;
  auto posted = Endpoint::Posted::kNever;
  if (transfer.from.empty()) {
    posted =
        link->endpoint->read(slot, link->to, transfer.key, transfer.remote, transfer.into.size());
  } else {
    std::memcpy(slot->bytes.data(), transfer.from.data(), transfer.from.size());
    posted =
        link->endpoint->write(slot, link->to, transfer.key, transfer.remote, transfer.from.size());
  }
  if (posted == Endpoint::Posted::kYes) {
    link->stuck_us = 0;
    ++link->slots_held;
    ++batch->under_way;
    return true;
  }
  link->endpoint->give_back(slot);
  if (is_lost(link, posted)) lose(link->peer);
  return false;
}

}  // namespace breccia::fabric::libfabric
