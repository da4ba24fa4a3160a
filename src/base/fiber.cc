// Fibers jump with _setjmp and _longjmp, which spare the system call that swapcontext makes. Their
// checked form takes a jump to another stack for an error, hence no fortification here. Sanitizers
// follow swapcontext only.
#undef _FORTIFY_SOURCE

#include "base/fiber.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <csetjmp>
#include <cstdint>

#include "base/assert.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#elif defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace breccia::base {

namespace {

constexpr std::size_t kGuardBytes = 4 << 10;

}  // namespace

struct Fiber::Place {
  /// The first thing after a switch has come to this place.
  void arrived();
  static void enter(unsigned high, unsigned low);

  Body body = nullptr;  // null: a thread's
  void* of = nullptr;
  void* stack = nullptr;
  std::size_t stack_bytes = 0;
  ucontext_t context{};
  std::jmp_buf jump;
  bool has_begun = false;
#if defined(__SANITIZE_ADDRESS__)
  Place* from = nullptr;  // where the last switch came from
  const void* bottom = nullptr;
  std::size_t bytes = 0;
  void* fake_stack = nullptr;
#elif defined(__SANITIZE_THREAD__)
  void* tsan_fiber = nullptr;
#endif
};

Fiber::Fiber() : place_(std::make_unique<Place>()) { place_->has_begun = true; }

Fiber::Fiber(std::size_t stack_bytes, Body body, void* of) : place_(std::make_unique<Place>()) {
  BRECCIA_ASSERT(body != nullptr && stack_bytes > kGuardBytes);
  // The lowest page stays closed, so that an overflow faults.
  void* const stack = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  BRECCIA_ASSERT(stack != MAP_FAILED);
  BRECCIA_ASSERT(mprotect(stack, kGuardBytes, PROT_NONE) == 0);
  place_->body = body;
  place_->of = of;
  place_->stack = stack;
  place_->stack_bytes = stack_bytes;
  BRECCIA_ASSERT(getcontext(&place_->context) == 0);
  place_->context.uc_stack.ss_sp = stack;
  place_->context.uc_stack.ss_size = stack_bytes;
  const auto address = reinterpret_cast<std::uintptr_t>(place_.get());
  makecontext(&place_->context, reinterpret_cast<void (*)()>(&Place::enter), 2,
              static_cast<unsigned>(address >> 32), static_cast<unsigned>(address));
#if defined(__SANITIZE_ADDRESS__)
  place_->bottom = stack;
  place_->bytes = stack_bytes;
#elif defined(__SANITIZE_THREAD__)
  place_->tsan_fiber = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
  if (place_->body == nullptr) return;
#if defined(__SANITIZE_THREAD__)
  __tsan_destroy_fiber(place_->tsan_fiber);
#elif defined(__SANITIZE_ADDRESS__)
  // The fiber never returned, so its frames are still marked; the next mapping must not see that.
  __asan_unpoison_memory_region(static_cast<char*>(place_->stack) + kGuardBytes,
                                place_->stack_bytes - kGuardBytes);
#endif
  BRECCIA_ASSERT(munmap(place_->stack, place_->stack_bytes) == 0);
}

void Fiber::switch_to(Fiber& other) {
  Place& to = *other.place_;
#if defined(__SANITIZE_ADDRESS__)
  to.from = place_.get();
  __sanitizer_start_switch_fiber(&place_->fake_stack, to.bottom, to.bytes);
  BRECCIA_ASSERT(swapcontext(&place_->context, &to.context) == 0);
#elif defined(__SANITIZE_THREAD__)
  if (place_->body == nullptr) place_->tsan_fiber = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(to.tsan_fiber, 0);
  BRECCIA_ASSERT(swapcontext(&place_->context, &to.context) == 0);
#else
  if (_setjmp(place_->jump) == 0) {
    if (to.has_begun) _longjmp(to.jump, 1);
    to.has_begun = true;
    setcontext(&to.context);
  }
#endif
  place_->arrived();
}

void Fiber::Place::arrived() {
#if defined(__SANITIZE_ADDRESS__)
  const void* from_bottom = nullptr;
  std::size_t from_bytes = 0;
  __sanitizer_finish_switch_fiber(fake_stack, &from_bottom, &from_bytes);
  // A thread's stack is known only to who comes from there.
  if (from->body != nullptr) return;
  from->bottom = from_bottom;
  from->bytes = from_bytes;
#endif
}

void Fiber::Place::enter(unsigned high, unsigned low) {
  auto* const self = reinterpret_cast<Place*>(std::uintptr_t{high} << 32 | low);
  self->arrived();
  self->body(self->of);
  BRECCIA_ASSERT(false);  // it has nowhere to return to
}

}  // namespace breccia::base
