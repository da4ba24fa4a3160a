#include "facade/db/write_gate.h"

namespace breccia::facade {

void WriteGate::enter() {
  while (true) {
    inside_.fetch_add(1);
    if (!closed_.load()) return;
    leave();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !closed_.load(); });
  }
}

void WriteGate::leave() {
  if (inside_.fetch_sub(1) != 1 || !closed_.load()) return;
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

void WriteGate::close() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !closed_.load(); });
  closed_.store(true);
  changed_.wait(lock, [&] { return inside_.load() == 0; });
}

bool WriteGate::open() {
  const std::lock_guard lock(mutex_);
  if (!closed_.load()) return false;
  closed_.store(false);
  changed_.notify_all();
  return true;
}

}  // namespace breccia::facade
