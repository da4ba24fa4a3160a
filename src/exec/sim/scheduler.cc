#include "exec/sim/scheduler.h"

#include <algorithm>
#include <cstddef>

#include "base/assert.h"
#include "base/fiber.h"

namespace breccia::exec::sim {

namespace {

constexpr std::size_t kStackBytes = 256 << 10;

}  // namespace

/// What runs bodies, one after the other.
struct Scheduler::Worker {
  explicit Worker(Scheduler* owner) : fiber(kStackBytes, &Worker::enter, this), scheduler(owner) {}
  static void enter(void* of) {
    auto* const self = static_cast<Worker*>(of);
    self->scheduler->work(*self);
  }

  base::Fiber fiber;
  Scheduler* const scheduler;
};

Scheduler::Scheduler(std::uint64_t seed) : random_(seed), main_(std::make_unique<base::Fiber>()) {}

Scheduler::~Scheduler() { BRECCIA_ASSERT(live_count_ == 0); }

void Scheduler::run_erased(std::uint64_t count, const void* body, Call call) {
  BRECCIA_ASSERT(live_count_ == 0);
  if (count == 0) return;
  body_ = body;
  call_ = call;
  next_ = 0;
  count_ = count;
  const std::uint64_t fibers = std::min<std::uint64_t>(count, 1 + random_.below(kFibersMax));
  for (; live_count_ < static_cast<int>(fibers); ++live_count_) {
    auto& worker = workers_[live_count_];
    if (worker == nullptr) worker = std::make_unique<Worker>(this);
    live_[live_count_] = worker.get();
  }
  draw_steps();
  current_ = static_cast<int>(random_.below(fibers));
  main_->switch_to(live_[current_]->fiber);
  BRECCIA_ASSERT(live_count_ == 0 && next_ == count_);
}

// Short turns interleave closely; now and then a long one lets a rival pass by many steps.
void Scheduler::draw_steps() {
  const std::uint64_t draw = random_.next();
  steps_left_ = 1 << (draw % 4 == 0 ? draw / 4 % 8 : draw / 4 % 3);
}

void Scheduler::switch_by_seed() {
  draw_steps();
  if (live_count_ <= 1) return;
  const int from = current_;
  current_ = static_cast<int>(random_.below(static_cast<std::uint64_t>(live_count_)));
  if (current_ == from) return;
  live_[from]->fiber.switch_to(live_[current_]->fiber);
}

// A fiber never ends: when a run has no more bodies it stops here and goes on in the next run.
void Scheduler::work(Worker& self) {
  for (;;) {
    while (next_ < count_) {
      call_(body_, next_++);
      step();
    }
    const auto own = std::find(live_.begin(), live_.begin() + live_count_, &self);
    --live_count_;
    *own = live_[live_count_];
    if (live_count_ == 0) {
      self.fiber.switch_to(*main_);
    } else {
      current_ = static_cast<int>(random_.below(static_cast<std::uint64_t>(live_count_)));
      self.fiber.switch_to(live_[current_]->fiber);
    }
  }
}

}  // namespace breccia::exec::sim
