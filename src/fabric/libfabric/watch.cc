#include "fabric/libfabric/watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "base/clock.h"
#include "base/memory.h"

namespace breccia::fabric::libfabric {

namespace {

/// So late it may see that the owner has gone elsewhere.
constexpr int kNapUs = 200;
/// Naps of one and the same call of the owner's, before it sleeps.
constexpr int kNapsMax = 10;
constexpr int kSleepUs = 500'000;
constexpr TimeUs kForever = ~TimeUs{0};

}  // namespace

Watch::Presence::Presence(Watch* watch) : watch_(watch) {
  watch_->calls_.fetch_add(1, std::memory_order_relaxed);
  watch_->owner_is_there_.store(true, std::memory_order_seq_cst);
}

Watch::Presence::~Presence() {
  watch_->owner_is_there_.store(false, std::memory_order_seq_cst);
  if (watch_->sleeps_.load(std::memory_order_seq_cst)) watch_->ring();
}

Result<std::unique_ptr<Watch>> Watch::start(Engine* engine) {
  base::Descriptor bell(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!bell.is_open()) return Status::IOError("no event descriptor", std::strerror(errno));
  std::unique_ptr<Watch> watch(new Watch(engine, std::move(bell)));
  watch->thread_ = std::thread([watch = watch.get()] { watch->run(); });
  return watch;
}

Watch::~Watch() {
  stops_.store(true, std::memory_order_seq_cst);
  ring();
  if (thread_.joinable()) thread_.join();
}

void Watch::ring() {
  const std::uint64_t one = 1;
  BRECCIA_ASSERT(::write(bell_.get(), &one, sizeof one) == sizeof one);
}

void Watch::run() {
  while (!stops_.load(std::memory_order_seq_cst)) {
    if (owner_is_there_.load(std::memory_order_seq_cst)) {
      rest();
    } else {
      serve();
    }
  }
}

/// Until the owner comes. That is looked at with the lock, and the owner says it before it takes
/// that: so this takes nothing that the owner has begun to wait for.
void Watch::serve() {
  Engine::Lock lock = engine_->lock();
  Engine::Wait wait{.until = kForever, .idle_us = base::now_us(), .also = bell_.get()};
  while (!owner_is_there_.load(std::memory_order_seq_cst) &&
         !stops_.load(std::memory_order_seq_cst)) {
    base::as_memory_allows([&] { (void)engine_->turn(&lock, &wait); });
    // A ring that came late is of a rest that is over.
    if (std::exchange(wait.has_also_rung, false)) hush();
  }
}

void Watch::rest() {
  std::uint64_t call = calls_.load(std::memory_order_relaxed);
  int naps = 0;
  while (owner_is_there_.load(std::memory_order_seq_cst) && naps < kNapsMax) {
    nap(kNapUs);
    if (stops_.load(std::memory_order_seq_cst)) return;
    const std::uint64_t now = calls_.load(std::memory_order_relaxed);
    naps = now == call ? naps + 1 : 0;
    call = now;
  }
  if (naps < kNapsMax) return;
  sleeps_.store(true, std::memory_order_seq_cst);
  if (owner_is_there_.load(std::memory_order_seq_cst)) nap(kSleepUs);
  sleeps_.store(false, std::memory_order_seq_cst);
}

void Watch::nap(int wait_us) {
  pollfd bell{.fd = bell_.get(), .events = POLLIN, .revents = 0};
  const timespec time{.tv_sec = 0, .tv_nsec = wait_us * 1000L};
  if (::ppoll(&bell, 1, &time, nullptr) > 0) hush();
}

void Watch::hush() {
  std::uint64_t rings = 0;
  (void)!::read(bell_.get(), &rings, sizeof rings);
}

}  // namespace breccia::fabric::libfabric
