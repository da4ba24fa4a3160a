#include "fabric/local/local_port.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "base/clock.h"
#include "base/memory.h"

namespace breccia::fabric::local {

namespace {

constexpr std::string_view kScheme = "local:";
constexpr TimeUs kLookUs = 1000;
constexpr std::size_t kReceiveBytes = 256 << 10;
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
  const auto peer = static_cast<PeerId>(peers_.size());
  epoll_event event{.events = EPOLLIN | EPOLLRDHUP, .data = {.u64 = peer}};
  if (::epoll_ctl(watch_.get(), EPOLL_CTL_ADD, socket.get(), &event) != 0) {
    return Status::IOError("a connection cannot be watched", std::strerror(errno));
  }
  peers_.emplace_back();
  peers_.back().socket = std::move(socket);
  peers_.back().path = std::move(path);
  return peer;
}

void LocalPort::let_guests_in() {
  for (Door::Guest& guest : door_->take_guests()) {
    (void)add_peer(std::move(guest.socket), std::move(guest.path));
  }
}

void LocalPort::disconnect(PeerId peer) {
  Peer& gone = peers_.at(peer);
  gone.is_gone = true;
  gone.socket = Descriptor();
  gone.memory.clear();
  gone.came = {};
}

void LocalPort::note_gone(PeerId peer) {
  if (peers_.at(peer).is_gone) return;
  disconnect(peer);
  inbox_.push_back({.kind = Arrival::Kind::kGone, .peer = peer, .header = {}, .payload = {}});
}

/// Looks from time to time: memory of who has ended stays mapped.
bool LocalPort::is_there(PeerId peer) {
  Peer& one = peers_.at(peer);
  if (one.is_gone) return false;
  const TimeUs now = base::now_us();
  if (now - one.looked_us < kLookUs) return true;
  pollfd socket{.fd = one.socket.get(), .events = POLLRDHUP, .revents = 0};
  if (::poll(&socket, 1, 0) > 0) {
    // What it has sent before comes first.
    while (!one.is_gone) receive(peer);
    return false;
  }
  one.looked_us = now;
  return true;
}

// ---- memory of others --------------------------------------------------------------------------

Result<SharedMemory*> LocalPort::memory_of(PeerId peer, const RegionName& region,
                                           std::uint64_t offset, std::uint64_t bytes,
                                           TimeUs until) {
  if (!is_there(peer)) return Status::IOError("the peer is gone");
  auto& known = peers_.at(peer).memory;
  auto found = known.find(region.key);
  if (found == known.end()) {
    BRECCIA_TAKE(Descriptor file, ask_for_region(peers_.at(peer).path, region.key, until));
    BRECCIA_TAKE(auto memory, SharedMemory::map(std::move(file), region.key));
    found = known.emplace(region.key, std::move(memory)).first;
  }
  const std::uint64_t all = found->second->bytes().size();
  if (offset > all || bytes > all - offset) {
    return Status::InvalidArgument("beyond the end of a region");
  }
  return found->second.get();
}

namespace {

Status ended() { return Status::InvalidArgument("the region has ended"); }

}  // namespace

Status LocalPort::read(PeerId peer, std::span<const Read> reads, TimeUs until) {
  for (const Read& one : reads) {
    BRECCIA_TAKE(const SharedMemory* const memory,
                 memory_of(peer, one.region, one.offset, one.into.size(), until));
    std::memcpy(one.into.data(), memory->bytes().data() + one.offset, one.into.size());
    // What was read before it ended counts.
    std::atomic_thread_fence(std::memory_order_acquire);
    if (!memory->is_revoked()) continue;
    peers_.at(peer).memory.erase(one.region.key);
    return ended();
  }
  return Status::OK();
}

Status LocalPort::write(PeerId peer, std::span<const Write> writes, TimeUs until) {
  for (const Write& one : writes) {
    BRECCIA_TAKE(const SharedMemory* const memory,
                 memory_of(peer, one.region, one.offset, one.from.size(), until));
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
  if (peers_.at(peer).is_gone) return Status::IOError("the peer is gone");
  const WireHeader head = encode(header, payload);
  std::array<std::span<const std::byte>, 2> left = {std::span(head), payload};
  while (!left[0].empty() || !left[1].empty()) {
    Peer& to = peers_.at(peer);
    if (to.is_gone) return Status::IOError("the peer is gone");
    std::array<iovec, 2> parts;
    for (std::size_t i = 0; i < 2; ++i) {
      parts[i] = {const_cast<std::byte*>(left[i].data()), left[i].size()};
    }
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t sent = ::sendmsg(to.socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno != EAGAIN) {
      note_gone(peer);
      continue;
    }
    auto more = static_cast<std::size_t>(std::max<ssize_t>(sent, 0));
    for (auto& part : left) {
      const std::size_t of_part = std::min(more, part.size());
      part = part.subspan(of_part);
      more -= of_part;
    }
    if (sent > 0) continue;
    // It may wait for room itself, so what it has sent is taken meanwhile.
    pollfd socket{.fd = to.socket.get(), .events = POLLOUT | POLLIN, .revents = 0};
    if (!wait_for(socket.fd, POLLOUT | POLLIN, until)) {
      // Half a message is no beginning of another.
      const bool is_half = left[0].size() + left[1].size() < kHeaderBytes + payload.size();
      if (is_half) note_gone(peer);
      return Status::TimedOut("a peer takes no messages");
    }
    if (::poll(&socket, 1, 0) > 0 && (socket.revents & POLLIN) != 0) receive(peer);
  }
  return Status::OK();
}

std::optional<Arrival> LocalPort::poll(TimeUs until) {
  while (inbox_.empty()) {
    look_who_sends();
    if (!inbox_.empty()) break;
    if (!wait_for(watch_.get(), POLLIN, until)) return std::nullopt;
  }
  Arrival arrival = std::move(inbox_.front());
  inbox_.pop_front();
  return arrival;
}

void LocalPort::look_who_sends() {
  std::array<epoll_event, kEventsMax> events;
  const int count = ::epoll_wait(watch_.get(), events.data(), kEventsMax, 0);
  for (int i = 0; i < count; ++i) {
    if (events[i].data.u64 == kDoor) {
      let_guests_in();
    } else {
      receive(static_cast<PeerId>(events[i].data.u64));
    }
  }
}

/// What a peer has sent, up to a bound, and not more: who sends too much waits.
void LocalPort::receive(PeerId peer) {
  Peer& from = peers_.at(peer);
  if (from.is_gone) return;
  const std::size_t before = from.came.size();
  from.came.resize(before + kReceiveBytes);
  const ssize_t got =
      ::recv(from.socket.get(), from.came.data() + before, kReceiveBytes, MSG_DONTWAIT);
  from.came.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0 || !take_messages(peer)) note_gone(peer);
}

/// False: what came is no message, so what comes behind it is not known to be one.
bool LocalPort::take_messages(PeerId peer) {
  std::vector<std::byte>& came = peers_.at(peer).came;
  std::size_t at = 0;
  while (came.size() - at >= kHeaderBytes) {
    const std::span<const std::byte> rest = std::span(came).subspan(at);
    const auto bytes = message_bytes(rest);
    if (!bytes.has_value()) return false;
    if (*bytes > rest.size()) break;
    Arrival arrival{.kind = Arrival::Kind::kMessage, .peer = peer, .header = {}, .payload = {}};
    std::span<const std::byte> payload;
    if (decode(rest.first(*bytes), &arrival.header, &payload) != Damage::kNone) return false;
    arrival.payload.assign(payload.begin(), payload.end());
    inbox_.push_back(std::move(arrival));
    at += *bytes;
  }
  came.erase(came.begin(), came.begin() + static_cast<std::ptrdiff_t>(at));
  return true;
}

}  // namespace breccia::fabric::local
