#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "base/fiber.h"
#include "base/random.h"

namespace breccia::exec::sim {

/// Interleaves bodies of work on one thread; a seed decides every switch, so a failure replays.
///
/// Each body runs on a fiber with a stack of its own and calls step() wherever a rival might come
/// in between. The interleaving is sequentially consistent: it finds races of logic, not of weak
/// memory.
/// Threads one at a time; the thread may change from one run() to the next.
class Scheduler {
 public:
  /// Bodies that are under way at once, at most.
  static constexpr int kFibersMax = 8;

  explicit Scheduler(std::uint64_t seed);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Runs body(0) to body(count - 1) and returns when all have ended. They start in this order;
  /// how many are under way at once, and who goes on at each step, is the seed's choice.
  /// Bound   no allocation after the first run. Bodies throw nothing and start no further run.
  template <class Body>
  void run(std::uint64_t count, const Body& body) {
    run_erased(count, &body, [](const void* erased, std::uint64_t index) {
      (*static_cast<const Body*>(erased))(index);
    });
  }

  /// Called by a body: may let others go on before it returns. Does nothing outside run().
  void step() {
    if (--steps_left_ <= 0) switch_by_seed();
  }

  [[nodiscard]] base::Random& random() { return random_; }

 private:
  struct Worker;
  using Call = void (*)(const void* body, std::uint64_t index);

  void run_erased(std::uint64_t count, const void* body, Call call);
  void switch_by_seed();
  void draw_steps();
  void work(Worker& self);

  base::Random random_;
  int steps_left_ = 0;
  const void* body_ = nullptr;
  Call call_ = nullptr;
  std::uint64_t next_ = 0;
  std::uint64_t count_ = 0;
  std::unique_ptr<base::Fiber> main_;
  std::array<std::unique_ptr<Worker>, kFibersMax> workers_;
  std::array<Worker*, kFibersMax> live_{};  // the first live_count_ are under way
  int live_count_ = 0;
  int current_ = 0;  // which of live_ runs now
};

}  // namespace breccia::exec::sim
