#include "residency/unmapper.h"

#include <sys/mman.h>

#include <chrono>
#include <utility>

#include "base/assert.h"
#include "base/clock.h"
#include "base/memory.h"

namespace breccia::residency {

namespace {

/// What takes longer has kept the disk busy.
constexpr std::uint64_t kBusyMicros = 1'000;

}  // namespace

Unmapper::Unmapper() {
  base::or_error([this] {
    thread_ = std::thread([this] { run(); });
    return Status::OK();
  }).PermitUncheckedError();
}

Unmapper::~Unmapper() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
  BRECCIA_ASSERT(given_ == nullptr);
}

void Unmapper::unmap(std::unique_ptr<Mapping> mapping) {
  BRECCIA_ASSERT(mapping->next == nullptr && mapping->bytes > 0);
  if (!thread_.joinable()) {
    (void)munmap(mapping->data, mapping->bytes);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    mapping->next = std::move(given_);
    given_ = std::move(mapping);
  }
  changed_.notify_all();
}

void Unmapper::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return given_ != nullptr || ends_; });
    if (given_ == nullptr) return;
    const std::unique_ptr<Mapping> mapping = std::move(given_);
    given_ = std::move(mapping->next);
    lock.unlock();
    const base::Stopwatch watch;
    (void)munmap(mapping->data, mapping->bytes);
    const std::uint64_t micros = watch.micros();
    lock.lock();
    // As long again is left to others: a disk does little else while it discards.
    if (micros > kBusyMicros) {
      changed_.wait_for(lock, std::chrono::microseconds(micros), [this] { return ends_; });
    }
  }
}

}  // namespace breccia::residency
