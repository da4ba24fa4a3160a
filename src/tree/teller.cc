#include "tree/teller.h"

#include "base/assert.h"
#include "base/memory.h"

namespace breccia::tree {

void Teller::start() {
  const std::lock_guard lock(mutex_);
  BRECCIA_ASSERT(!thread_.joinable() && !stopping_);
  thread_ = std::thread([this] { run(); });
}

void Teller::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (!thread_.joinable()) return;
  BRECCIA_ASSERT(thread_.get_id() != std::this_thread::get_id());
  thread_.join();
}

void Teller::post(std::function<void()> event) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    events_.push_back(std::move(event));
    ++posted_;
  }
  changed_.notify_all();
}

std::uint64_t Teller::posted() const {
  const std::lock_guard lock(mutex_);
  return posted_;
}

bool Teller::wait(std::uint64_t count) {
  std::unique_lock lock(mutex_);
  if (id_ == std::this_thread::get_id()) return false;
  changed_.wait(lock, [&] { return told_ >= count; });
  return true;
}

void Teller::run() {
  std::unique_lock lock(mutex_);
  id_ = std::this_thread::get_id();
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !events_.empty(); });
    if (events_.empty()) return;
    std::function<void()> event = std::move(events_.front());
    events_.pop_front();
    lock.unlock();
    base::as_memory_allows(event);
    event = nullptr;  // what it holds goes without the lock
    lock.lock();
    ++told_;
    BRECCIA_ASSERT(told_ <= posted_);
    changed_.notify_all();
  }
}

}  // namespace breccia::tree
