#include "fabric/local/door.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/assert.h"
#include "base/clock.h"
#include "base/memory.h"

namespace breccia::fabric::local {

namespace {

/// Who connects says hello so soon, or is not heard.
constexpr TimeUs kSilenceUsMax = 1'000'000;
constexpr std::size_t kSilentMax = 256;
constexpr int kPauseMs = 50;

void ring(const Descriptor& bell) {
  const std::uint64_t one = 1;
  BRECCIA_ASSERT(::write(bell.get(), &one, sizeof one) == sizeof one);
}

}  // namespace

Result<std::unique_ptr<Door>> Door::open(const std::string& path) {
  std::unique_ptr<Door> door(new Door(path));
  door->bell_ = Descriptor(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  door->stop_ = Descriptor(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!door->bell_.is_open() || !door->stop_.is_open()) {
    return Status::IOError("no event descriptor", std::strerror(errno));
  }
  BRECCIA_TAKE(door->listener_, listen_at(path));
  door->thread_ = std::thread([door = door.get()] { door->serve(); });
  return door;
}

Door::~Door() {
  if (!thread_.joinable()) return;  // it did not open
  ring(stop_);
  thread_.join();
  ::unlink(path_.c_str());
}

void Door::open_region(std::uint64_t key, int file) {
  const std::lock_guard lock(mutex_);
  BRECCIA_ASSERT(regions_.emplace(key, file).second);
}

void Door::close_region(std::uint64_t key) {
  const std::lock_guard lock(mutex_);
  BRECCIA_ASSERT(regions_.erase(key) == 1);
}

std::vector<Door::Guest> Door::take_guests() {
  std::uint64_t rings = 0;
  (void)!::read(bell_.get(), &rings, sizeof rings);  // nothing: nobody has come
  std::vector<Guest> guests;
  const std::lock_guard lock(mutex_);
  guests_.swap(guests);
  return guests;
}

/// Where there is no memory, or no descriptor, for somebody, it waits, or is not let in.
void Door::serve() {
  bool stops = false;
  while (!stops) {
    bool could = false;
    base::as_memory_allows([&] { could = serve_once(&stops); });
    if (could) continue;
    pollfd stop{.fd = stop_.get(), .events = POLLIN, .revents = 0};
    stops = ::poll(&stop, 1, kPauseMs) > 0;
  }
}

/// False: not now.
bool Door::serve_once(bool* stops) {
  std::vector<pollfd> all = {{stop_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
  for (const Silent& one : silent_) all.push_back({one.socket.get(), POLLIN, 0});
  ::poll(all.data(), all.size(), silent_.empty() ? -1 : kPauseMs);
  *stops = all.front().revents != 0;
  if (*stops) return true;
  hear_all();
  return accept_all();
}

bool Door::accept_all() {
  while (true) {
    Descriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.is_open()) return errno == EAGAIN || errno == ECONNABORTED || errno == EINTR;
    if (!is_of_same_user(socket) || silent_.size() >= kSilentMax) continue;
    silent_.push_back({std::move(socket), base::now_us() + kSilenceUsMax});
  }
}

void Door::hear_all() {
  std::vector<Silent> still;
  still.reserve(silent_.size());  // before any of them is moved
  for (Silent& one : silent_) {
    Hello hello;
    // All of it, or nothing: it was sent by one call, into an empty socket.
    const ssize_t got = ::recv(one.socket.get(), &hello, sizeof hello, 0);
    if (got == sizeof hello) {
      hear(std::move(one.socket), hello);
    } else if (got < 0 && errno == EAGAIN && base::now_us() < one.until) {
      still.push_back(std::move(one));
    }
  }
  silent_ = std::move(still);
}

void Door::hear(Descriptor socket, const Hello& hello) {
  if (hello.magic != Hello::kMagic) return;
  if (hello.version != kWireVersion) {
    (void)answer(socket, Answer::kOtherVersion, -1);
    return;
  }
  const std::lock_guard lock(mutex_);
  if (hello.wants == Hello::Wants::kRegion) {
    const auto found = regions_.find(hello.key);
    const bool is_there = found != regions_.end();
    (void)answer(socket, is_there ? Answer::kYes : Answer::kNoSuchRegion,
                 is_there ? found->second : -1);
  } else if (hello.wants == Hello::Wants::kMessages && answer(socket, Answer::kYes, -1)) {
    const char* const end = std::find(hello.path, hello.path + Hello::kPathMax, '\0');
    guests_.push_back({std::move(socket), std::string(hello.path, end)});
    ring(bell_);
  }
}

}  // namespace breccia::fabric::local
