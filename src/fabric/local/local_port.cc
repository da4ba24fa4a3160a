#include "fabric/local/local_port.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/prefetch.h"

namespace breccia::fabric::local {

namespace {

constexpr std::string_view kScheme = "local:";
constexpr TimeUs kLookUs = 1000;
constexpr std::size_t kReceiveBytes = 256 << 10;
/// Who waits for room to send takes so much meanwhile, and then waits alone.
constexpr std::size_t kInboxBytesMax = 16 << 20;
constexpr int kEventsMax = 64;
/// Of epoll events: that of the door. Others have their peer's number.
constexpr std::uint64_t kDoor = ~std::uint64_t{0};

}  // namespace

class LocalPort::Memory final : public Region {
 public:
  Memory(Door* door, std::unique_ptr<SharedMemory> memory, std::uint64_t key)
      : door_(door), memory_(std::move(memory)), key_(key) {
    door_->open_region(key_, memory_->file());
  }
  ~Memory() override {
    door_->close_region(key_);
    memory_->revoke();
  }
  [[nodiscard]] std::span<std::byte> bytes() override { return memory_->bytes(); }
  [[nodiscard]] RegionName name() const override {
    return {.key = key_, .base = 0, .bytes = memory_->bytes().size()};
  }

 private:
  Door* const door_;
  const std::unique_ptr<SharedMemory> memory_;
  const std::uint64_t key_;
};

Result<std::unique_ptr<LocalPort>> LocalPort::open(const std::string& path) {
  BRECCIA_TAKE(std::unique_ptr<Door> door, Door::open(path));
  std::unique_ptr<LocalPort> port(new LocalPort(std::move(door)));
  port->watch_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{.events = EPOLLIN, .data = {.u64 = kDoor}};
  const bool watches = port->watch_.is_open() && ::epoll_ctl(port->watch_.get(), EPOLL_CTL_ADD,
                                                             port->door_->bell(), &event) == 0;
  if (!watches) return Status::IOError("no epoll", std::strerror(errno));
  return port;
}

LocalPort::~LocalPort() = default;

TimeUs LocalPort::now_us() const { return base::now_us(); }

Result<std::unique_ptr<Region>> LocalPort::make_region(std::uint64_t bytes, Access access) {
  const std::uint64_t key = next_key_++;
  BRECCIA_TAKE(std::unique_ptr<SharedMemory> memory, SharedMemory::make(key, bytes, access));
  return std::unique_ptr<Region>(new Memory(door_.get(), std::move(memory), key));
}

// ---- connections -------------------------------------------------------------------------------

Result<PeerId> LocalPort::connect(const std::string& address, TimeUs until) {
  if (!address.starts_with(kScheme)) {
    return Status::InvalidArgument("no address of this computer: " + address,
                                   "it begins with local:");
  }
  std::string path = address.substr(kScheme.size());
  Hello hello;
  const std::string& own = door_->path();
  BRECCIA_ASSERT(own.size() < Hello::kPathMax);
  std::copy(own.begin(), own.end(), hello.path);
  BRECCIA_TAKE(Descriptor socket, say_hello(path, hello, until));
  return add_peer(std::move(socket), std::move(path));
}

Result<PeerId> LocalPort::add_peer(Descriptor socket, std::string path) {
  const PeerId peer = next_peer_++;
  epoll_event event{.events = EPOLLIN | EPOLLRDHUP, .data = {.u64 = peer}};
  if (::epoll_ctl(watch_.get(), EPOLL_CTL_ADD, socket.get(), &event) != 0) {
    return Status::IOError("a connection cannot be watched", std::strerror(errno));
  }
  Peer& added = peers_[peer];
  added.socket = std::move(socket);
  added.path = std::move(path);
  return peer;
}

/// Null: it is gone.
LocalPort::Peer* LocalPort::find(PeerId peer) {
  BRECCIA_ASSERT(peer < next_peer_);
  const auto found = peers_.find(peer);
  return found == peers_.end() ? nullptr : &found->second;
}

void LocalPort::let_guests_in() {
  for (Door::Guest& guest : door_->take_guests()) {
    (void)add_peer(std::move(guest.socket), std::move(guest.path));
  }
}

void LocalPort::disconnect(PeerId peer) { peers_.erase(peer); }

void LocalPort::note_gone(PeerId peer) {
  if (peers_.erase(peer) == 0) return;
  arrive({.kind = Arrival::Kind::kGone, .peer = peer, .header = {}, .payload = {}});
}

/// Looks from time to time: memory of who has ended stays mapped.
bool LocalPort::is_there(PeerId peer) {
  Peer* const one = find(peer);
  if (one == nullptr) return false;
  const TimeUs now = base::now_us();
  if (now - one->looked_us < kLookUs) return true;
  pollfd socket{.fd = one->socket.get(), .events = POLLRDHUP, .revents = 0};
  if (::poll(&socket, 1, 0) > 0) {
    // What it has sent before comes first.
    while (find(peer) != nullptr) receive(peer);
    return false;
  }
  one->looked_us = now;
  return true;
}

// ---- memory of others --------------------------------------------------------------------------

Result<SharedMemory*> LocalPort::memory_of(PeerId peer, const RegionName& region, TimeUs until) {
  if (!is_there(peer)) return Status::IOError("the peer is gone");
  Peer& owner = peers_.at(peer);
  auto& known = owner.memory;
  auto found = known.find(region.key);
  if (found == known.end()) {
    BRECCIA_TAKE(Descriptor file, ask_for_region(owner.path, region.key, until));
    BRECCIA_TAKE(auto memory, SharedMemory::map(std::move(file), region.key));
    found = known.emplace(region.key, std::move(memory)).first;
  }
  return found->second.get();
}

namespace {

/// Accesses whose memory is on its way into the cache while one is done: each waits for a miss.
constexpr std::size_t kAhead = 8;
constexpr std::size_t kCacheLine = 64;
/// What is read of one that is ahead: more comes by itself.
constexpr std::size_t kLinesAhead = 4;

Status ended() { return Status::InvalidArgument("the region has ended"); }
Status beyond_its_end() { return Status::InvalidArgument("beyond the end of a region"); }

bool is_within(const SharedMemory& memory, std::uint64_t offset, std::uint64_t bytes) {
  const std::uint64_t all = memory.bytes().size();
  return offset <= all && bytes <= all - offset;
}

void prefetch(const SharedMemory& memory, const Read& read) {
  if (!is_within(memory, read.offset, read.into.size())) return;
  const std::byte* const at = memory.bytes().data() + read.offset;
  const std::size_t bytes = std::min(read.into.size(), kLinesAhead * kCacheLine);
  for (std::size_t i = 0; i < bytes; i += kCacheLine) base::prefetch(at + i);
}

/// Those of the first ones that are of one region.
std::span<const Read> of_one_region(std::span<const Read> all) {
  const auto other = std::find_if(all.begin(), all.end(), [&](const Read& one) {
    return one.region.key != all.front().region.key;
  });
  return all.first(static_cast<std::size_t>(other - all.begin()));
}

}  // namespace

Status LocalPort::read(PeerId peer, std::span<const Read> reads, TimeUs until) {
  while (!reads.empty()) {
    const auto now = of_one_region(reads);
    BRECCIA_TRY(read_region(peer, now, until));
    reads = reads.subspan(now.size());
  }
  return Status::OK();
}

Status LocalPort::read_region(PeerId peer, std::span<const Read> reads, TimeUs until) {
  const RegionName& region = reads.front().region;
  BRECCIA_TAKE(const SharedMemory* const memory, memory_of(peer, region, until));
  for (std::size_t i = 1; i < std::min(kAhead, reads.size()); ++i) prefetch(*memory, reads[i]);
  for (std::size_t i = 0; i < reads.size(); ++i) {
    if (i + kAhead < reads.size()) prefetch(*memory, reads[i + kAhead]);
    const Read& one = reads[i];
    if (!is_within(*memory, one.offset, one.into.size())) return beyond_its_end();
    std::memcpy(one.into.data(), memory->bytes().data() + one.offset, one.into.size());
  }
  // What was read before it ended counts.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (!memory->is_revoked()) return Status::OK();
  peers_.at(peer).memory.erase(region.key);
  return ended();
}

Status LocalPort::write(PeerId peer, std::span<const Write> writes, TimeUs until) {
  for (const Write& one : writes) {
    BRECCIA_TAKE(const SharedMemory* const memory, memory_of(peer, one.region, until));
    if (!is_within(*memory, one.offset, one.from.size())) return beyond_its_end();
    if (!memory->may_write()) return Status::InvalidArgument("a region that is only read");
    std::memcpy(memory->bytes().data() + one.offset, one.from.data(), one.from.size());
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!memory->is_revoked()) continue;
    peers_.at(peer).memory.erase(one.region.key);
    return ended();
  }
  return Status::OK();
}

// ---- messages ----------------------------------------------------------------------------------

Status LocalPort::send(PeerId peer, const Header& header, std::span<const std::byte> payload,
                       TimeUs until) {
  // What did not fit of the message before goes first.
  if (Peer* const to = find(peer); to != nullptr && !to->rest.empty()) {
    const std::vector<std::byte> rest = std::move(to->rest);
    std::span<const std::byte> left = rest;
    Status pushed = push_until(peer, &left, until);
    keep_rest(peer, left);
    BRECCIA_TRY(std::move(pushed));
  }
  const WireHeader head = encode(header, payload);
  std::vector<std::byte> message;
  message.reserve(head.size() + payload.size());
  message.insert(message.end(), head.begin(), head.end());
  message.insert(message.end(), payload.begin(), payload.end());
  std::span<const std::byte> left = message;
  Status pushed = push_until(peer, &left, until);
  if (!pushed.IsTimedOut() || left.size() == message.size()) return pushed;
  // Half of it is there, and the rest follows: it is handed over.
  keep_rest(peer, left);
  return Status::OK();
}

/// As many bytes as the socket takes. None: the peer is gone.
std::optional<std::size_t> LocalPort::push(PeerId peer, std::span<const std::byte> bytes) {
  const Peer* const to = find(peer);
  if (to == nullptr) return std::nullopt;
  const ssize_t sent =
      ::send(to->socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent >= 0) return static_cast<std::size_t>(sent);
  if (errno == EAGAIN || errno == EINTR) return 0;
  note_gone(peer);
  return std::nullopt;
}

Status LocalPort::push_until(PeerId peer, std::span<const std::byte>* left, TimeUs until) {
  while (true) {
    const auto sent = push(peer, *left);
    if (!sent.has_value()) return Status::IOError("the peer is gone");
    *left = left->subspan(*sent);
    if (left->empty()) return Status::OK();
    if (base::now_us() >= until) return Status::TimedOut("a peer takes no messages");
    // It may wait for room itself, so what it has sent is taken meanwhile.
    const bool takes = inbox_bytes_ < kInboxBytesMax;
    const int socket = peers_.at(peer).socket.get();
    (void)wait_for(socket, static_cast<short>(takes ? POLLOUT | POLLIN : POLLOUT), until);
    if (takes && wait_for(socket, POLLIN, 0)) receive(peer);
  }
}

void LocalPort::keep_rest(PeerId peer, std::span<const std::byte> left) {
  Peer* const to = find(peer);
  if (to == nullptr) return;
  to->rest.assign(left.begin(), left.end());
  watch(peer, /*for_room=*/!left.empty());
}

void LocalPort::push_rest(PeerId peer) {
  Peer* const to = find(peer);
  if (to == nullptr) return;
  const std::vector<std::byte> rest = std::move(to->rest);
  const auto sent = push(peer, rest);
  if (sent.has_value()) keep_rest(peer, std::span(rest).subspan(*sent));
}

void LocalPort::watch(PeerId peer, bool for_room) {
  epoll_event event{.events = EPOLLIN | EPOLLRDHUP, .data = {.u64 = peer}};
  if (for_room) event.events |= EPOLLOUT;
  const int socket = peers_.at(peer).socket.get();
  BRECCIA_ASSERT(::epoll_ctl(watch_.get(), EPOLL_CTL_MOD, socket, &event) == 0);
}

std::optional<Arrival> LocalPort::poll(TimeUs until) {
  while (true) {
    if (inbox_.empty()) look_who_sends();
    if (!inbox_.empty()) break;
    const TimeUs now = base::now_us();
    if (now >= until) return std::nullopt;
    // Who has just heard something hears more before long, and to be woken takes longer.
    if (now < heard_ + spin_us_) continue;
    if (!wait_for(watch_.get(), POLLIN, until)) return std::nullopt;
  }
  Arrival arrival = std::move(inbox_.front());
  inbox_.pop_front();
  const std::size_t bytes = sizeof arrival + arrival.payload.size();
  BRECCIA_ASSERT(inbox_bytes_ >= bytes);
  inbox_bytes_ -= bytes;
  return arrival;
}

void LocalPort::look_who_sends() {
  std::array<epoll_event, kEventsMax> events;
  const int count = ::epoll_wait(watch_.get(), events.data(), kEventsMax, 0);
  for (int i = 0; i < count; ++i) {
    if (events[i].data.u64 == kDoor) {
      let_guests_in();
      continue;
    }
    const auto peer = static_cast<PeerId>(events[i].data.u64);
    if ((events[i].events & EPOLLOUT) != 0) push_rest(peer);
    if ((events[i].events & ~std::uint32_t{EPOLLOUT}) != 0) receive(peer);
  }
}

/// What a peer has sent, up to a bound, and not more: who sends too much waits.
void LocalPort::receive(PeerId peer) {
  Peer* const from = find(peer);
  if (from == nullptr) return;
  buffer_.resize(kReceiveBytes);
  const ssize_t got = ::recv(from->socket.get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return note_gone(peer);
  std::span<const std::byte> came = std::span(buffer_).first(static_cast<std::size_t>(got));
  if (!from->came.empty()) {
    from->came.insert(from->came.end(), came.begin(), came.end());
    came = from->came;
  }
  // Where there is no memory for one of them, those behind it are lost, too.
  std::optional<std::size_t> taken;
  base::as_memory_allows([&] { taken = take_messages(peer, came); });
  if (!taken.has_value()) return note_gone(peer);
  // A copy first: they may lie there.
  std::vector<std::byte> left(came.begin() + static_cast<std::ptrdiff_t>(*taken), came.end());
  from->came = std::move(left);
}

/// How many bytes were messages. None: what came is no message, so what comes behind it is not
/// known to be one.
std::optional<std::size_t> LocalPort::take_messages(PeerId peer, std::span<const std::byte> came) {
  std::size_t at = 0;
  while (came.size() - at >= kHeaderBytes) {
    const std::span<const std::byte> rest = came.subspan(at);
    const auto bytes = message_bytes(rest);
    if (!bytes.has_value()) return std::nullopt;
    if (*bytes > rest.size()) break;
    Arrival arrival{.kind = Arrival::Kind::kMessage, .peer = peer, .header = {}, .payload = {}};
    std::span<const std::byte> payload;
    if (decode(rest.first(*bytes), &arrival.header, &payload) != Damage::kNone) return std::nullopt;
    arrival.payload.assign(payload.begin(), payload.end());
    arrive(std::move(arrival));
    at += *bytes;
  }
  return at;
}

void LocalPort::arrive(Arrival arrival) {
  heard_ = base::now_us();
  const std::size_t bytes = sizeof arrival + arrival.payload.size();
  inbox_.push_back(std::move(arrival));
  inbox_bytes_ += bytes;
}

}  // namespace breccia::fabric::local
