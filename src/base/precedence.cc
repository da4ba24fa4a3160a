#include "base/precedence.h"

#include <algorithm>

#include "base/assert.h"

namespace breccia::base {

Precedence& Precedence::of_process() {
  static auto* const precedence = new Precedence();
  return *precedence;
}

Precedence::First::First(Precedence* precedence) : precedence_(precedence) {
  const std::lock_guard lock(precedence_->mutex_);
  if (precedence_->first_++ == 0) precedence_->next_ = Clock::now();
}

Precedence::First::~First() {
  {
    const std::lock_guard lock(precedence_->mutex_);
    BRECCIA_ASSERT(precedence_->first_ > 0);
    if (--precedence_->first_ > 0) return;
  }
  precedence_->changed_.notify_all();
}

void Precedence::give_way(std::uint64_t bytes) {
  const std::chrono::duration<double> taken(static_cast<double>(bytes) / kBesideBytesPerSecond);
  std::unique_lock lock(mutex_);
  while (first_ > 0) {
    const Clock::time_point now = Clock::now();
    if (now >= next_) {
      next_ = now + std::chrono::duration_cast<Clock::duration>(taken);
      return;
    }
    changed_.wait_until(lock, next_);
  }
}

}  // namespace breccia::base
