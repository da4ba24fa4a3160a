#include "exec/in_flight.h"

#include "base/assert.h"

namespace breccia::exec {

InFlight::Pause::Pause(InFlight& all) : all_(all) {
  const std::lock_guard lock(all_.mutex_);
  ++all_.pauses_;
}

InFlight::Pause::~Pause() {
  const std::lock_guard lock(all_.mutex_);
  if (--all_.pauses_ == 0) all_.goes_on_.notify_all();
}

// What is behind some work that is not done is asked only where there is no room else.
void InFlight::make_room() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      goes_on_.wait(lock, [&] { return pauses_ == 0; });
    }
    reap();
    if (count() < kWorkMax) return;
    reap_all();
    std::shared_ptr<Work> first;
    {
      const std::lock_guard lock(mutex_);
      if (work_.size() >= kWorkMax) first = work_.front();
    }
    if (first == nullptr) return;
    first->finish();
    let_go(first);
    // Somebody may have begun to pause it meanwhile.
  }
}

void InFlight::add(Place place) noexcept {
  BRECCIA_ASSERT(place.size() == 1 && place.front() != nullptr);
  const std::lock_guard lock(mutex_);
  place.front()->number_ = ++added_;
  work_.splice(work_.end(), place);
}

// Who waits for some of it keeps nobody from adding more, and what another one waits for stays in
// the list until it has ended.
void InFlight::finish_all() {
  std::uint64_t last = 0;
  for (bool is_first = true;; is_first = false) {
    std::shared_ptr<Work> work;
    {
      const std::lock_guard lock(mutex_);
      if (is_first) last = added_;
      if (work_.empty() || work_.front()->number_ > last) return;
      work = work_.front();
    }
    work->finish();
    let_go(work);
  }
}

std::size_t InFlight::count() const {
  const std::lock_guard lock(mutex_);
  return work_.size();
}

/// `in_order`: up to the first that is not done.
bool InFlight::reap(bool in_order) {
  Place done;  // ends without the lock, as memory goes back with it
  const std::lock_guard lock(mutex_);
  for (auto at = work_.begin(); at != work_.end();) {
    const auto work = at++;
    if ((*work)->is_done()) {
      (*work)->finish();
      done.splice(done.end(), work_, work);
    } else if (in_order) {
      break;
    }
  }
  return work_.empty();
}

void InFlight::let_go(const std::shared_ptr<Work>& work) {
  const std::lock_guard lock(mutex_);
  work_.remove(work);
}

}  // namespace breccia::exec
