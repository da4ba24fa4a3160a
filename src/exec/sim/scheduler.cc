// Fibers jump with _setjmp and _longjmp, which spare the system call that swapcontext makes. Their
// checked form takes a jump to another stack for an error, hence no fortification here. Sanitizers
// follow swapcontext only.
#undef _FORTIFY_SOURCE

#include "exec/sim/scheduler.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <csetjmp>
#include <cstddef>

#include "base/assert.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#elif defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace breccia::exec::sim {

namespace {

constexpr std::size_t kStackBytes = 256 << 10;
constexpr std::size_t kGuardBytes = 4 << 10;

}  // namespace

/// A place to go on from: a fiber's, or that of the thread that called run() (which has no stack
/// of ours).
struct Scheduler::Fiber {
  explicit Fiber(Scheduler* owner_of_stack) : owner(owner_of_stack) {
    if (owner == nullptr) return;
    // The lowest page stays closed, so that an overflow faults.
    stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    BRECCIA_ASSERT(stack != MAP_FAILED);
    BRECCIA_ASSERT(mprotect(stack, kGuardBytes, PROT_NONE) == 0);
    BRECCIA_ASSERT(getcontext(&context) == 0);
    context.uc_stack.ss_sp = stack;
    context.uc_stack.ss_size = kStackBytes;
    const auto address = reinterpret_cast<std::uintptr_t>(this);
    makecontext(&context, reinterpret_cast<void (*)()>(&Scheduler::enter), 2,
                static_cast<unsigned>(address >> 32), static_cast<unsigned>(address));
#if defined(__SANITIZE_THREAD__)
    tsan_fiber = __tsan_create_fiber(0);
#endif
  }
  ~Fiber() {
    if (owner == nullptr) return;
#if defined(__SANITIZE_THREAD__)
    __tsan_destroy_fiber(tsan_fiber);
#elif defined(__SANITIZE_ADDRESS__)
    // The fiber never returned, so its frames are still marked; the next mapping must not see that.
    __asan_unpoison_memory_region(static_cast<char*>(stack) + kGuardBytes,
                                  kStackBytes - kGuardBytes);
#endif
    BRECCIA_ASSERT(munmap(stack, kStackBytes) == 0);
  }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  void switch_to(Fiber& to);
  /// The first thing after a switch has come back to this fiber.
  void arrived();

  Scheduler* owner;
  void* stack = nullptr;
  ucontext_t context{};
  bool started = false;
  std::jmp_buf place;
#if defined(__SANITIZE_ADDRESS__)
  const void* bottom = nullptr;
  std::size_t bytes = 0;
  void* fake_stack = nullptr;
#elif defined(__SANITIZE_THREAD__)
  void* tsan_fiber = nullptr;
#endif
};

void Scheduler::Fiber::switch_to(Fiber& to) {
#if defined(__SANITIZE_ADDRESS__)
  const void* const to_bottom = to.owner != nullptr ? to.stack : to.bottom;
  const std::size_t to_bytes = to.owner != nullptr ? kStackBytes : to.bytes;
  __sanitizer_start_switch_fiber(&fake_stack, to_bottom, to_bytes);
  BRECCIA_ASSERT(swapcontext(&context, &to.context) == 0);
#elif defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(to.tsan_fiber, 0);
  BRECCIA_ASSERT(swapcontext(&context, &to.context) == 0);
#else
  if (_setjmp(place) == 0) {
    if (to.started) _longjmp(to.place, 1);
    to.started = true;
    setcontext(&to.context);
  }
#endif
  arrived();
}

void Scheduler::Fiber::arrived() {
#if defined(__SANITIZE_ADDRESS__)
  const void* from_bottom = nullptr;
  std::size_t from_bytes = 0;
  __sanitizer_finish_switch_fiber(fake_stack, &from_bottom, &from_bytes);
  // Only the first fiber of a run comes from the main stack, and tells us where that lies.
  Fiber& main = *(owner != nullptr ? owner->main_.get() : this);
  if (main.bottom == nullptr) {
    main.bottom = from_bottom;
    main.bytes = from_bytes;
  }
#endif
}

Scheduler::Scheduler(std::uint64_t seed) : random_(seed), main_(std::make_unique<Fiber>(nullptr)) {
  main_->started = true;
}

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
    auto& fiber = fibers_[live_count_];
    if (fiber == nullptr) fiber = std::make_unique<Fiber>(this);
    live_[live_count_] = fiber.get();
  }
#if defined(__SANITIZE_ADDRESS__)
  main_->bottom = nullptr;
#elif defined(__SANITIZE_THREAD__)
  main_->tsan_fiber = __tsan_get_current_fiber();
#endif
  draw_steps();
  current_ = static_cast<int>(random_.below(fibers));
  main_->switch_to(*live_[current_]);
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
  live_[from]->switch_to(*live_[current_]);
}

void Scheduler::enter(unsigned high, unsigned low) {
  auto* const self = reinterpret_cast<Fiber*>(std::uintptr_t{high} << 32 | low);
  self->arrived();
  self->owner->work(*self);
}

// A fiber never ends: when a run has no more bodies it stops here and goes on in the next run.
void Scheduler::work(Fiber& self) {
  for (;;) {
    while (next_ < count_) {
      call_(body_, next_++);
      step();
    }
    const auto own = std::find(live_.begin(), live_.begin() + live_count_, &self);
    --live_count_;
    *own = live_[live_count_];
    if (live_count_ == 0) {
      self.switch_to(*main_);
    } else {
      current_ = static_cast<int>(random_.below(static_cast<std::uint64_t>(live_count_)));
      self.switch_to(*live_[current_]);
    }
  }
}

}  // namespace breccia::exec::sim
