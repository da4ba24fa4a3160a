#include "exec/crew.h"

#include <algorithm>
#include <chrono>

#include "base/assert.h"
#include "base/memory.h"
#include "base/waiting.h"

namespace breccia::exec {

namespace {

/// Longer than a small batch takes on the device, so that a client in a loop finds the crew awake.
constexpr auto kSpin = std::chrono::microseconds(200);

}  // namespace

Crew::Crew(int threads) {
  // Fewer than were asked for do the same work.
  base::as_memory_allows([&] {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { serve(); });
  });
}

Crew::~Crew() {
  stopping_.store(true, std::memory_order_release);
  rouse();
  for (std::thread& thread : threads_) thread.join();
}

Crew& Crew::shared() {
  static Crew crew(static_cast<int>(shared_size() - 1));
  return crew;
}

std::uint64_t Crew::shared_size() {
  constexpr std::uint64_t kOthers = 2;  // cores for merges, say, and a driver's threads
  constexpr std::uint64_t kMost = 16;   // more take longer to wake than they spare
  const std::uint64_t cores = std::max(1U, std::thread::hardware_concurrency());
  return std::min(kMost, std::max(cores - std::min(cores, kOthers), cores / 2 + 1));
}

void Crew::rouse() {
  wakes_.fetch_add(1, std::memory_order_release);
  wakes_.notify_all();
}

void Crew::serve() {
  while (true) {
    // Before stopping_: a stop that comes later changes wakes_ once more.
    const std::uint32_t seen = wakes_.load(std::memory_order_acquire);
    if (stopping_.load(std::memory_order_acquire)) return;
    bool had_job = true;
    while (had_job) had_job = spin();
    wakes_.wait(seen, std::memory_order_acquire);
  }
}

bool Crew::spin() {
  const std::uint32_t jobs = jobs_.load(std::memory_order_relaxed);
  const auto until = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 64; ++i) {
      if (open_.load(std::memory_order_relaxed) != 0) help();
      base::relax();
    }
  } while (std::chrono::steady_clock::now() < until);
  return jobs_.load(std::memory_order_relaxed) != jobs;
}

void Crew::help() {
  std::uint32_t open = open_.load(std::memory_order_acquire);  // pairs with run_job's release
  while (open != 0) {
    if (!open_.compare_exchange_weak(open, open - 1, std::memory_order_acquire)) continue;
    call_(work_, open - 1);
    left_.fetch_sub(1, std::memory_order_release);  // read by run_job
    open = open_.load(std::memory_order_acquire);
  }
}

void Crew::run_job(std::uint32_t parts, Call call, const void* work) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || parts < 2) {
    for (std::uint32_t part = 0; part < parts; ++part) call(work, part);
    return;
  }
  BRECCIA_ASSERT(left_.load(std::memory_order_relaxed) == 0);
  jobs_.fetch_add(1, std::memory_order_relaxed);
  call_ = call;
  work_ = work;
  left_.store(parts, std::memory_order_relaxed);
  open_.store(parts, std::memory_order_release);
  help();
  while (left_.load(std::memory_order_acquire) != 0) base::relax();
}

}  // namespace breccia::exec
