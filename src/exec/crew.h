#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace breccia::exec {

/// A few threads that finish a short piece of work within microseconds: they spin for a while after
/// each job before they sleep, where a task scheduler's workers would have to be woken. For what
/// follows a device's answer to a small batch, and what a small write wants done at once; longer
/// work belongs to oneTBB.
///
/// Threads run() and rouse() by any number; while one caller has the crew, others work alone.
class Crew {
 public:
  explicit Crew(int threads);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  /// The process's crew: all of the machine's cores but two, or half of few, sixteen at most. Its
  /// threads start with the first call.
  static Crew& shared();
  /// Threads that work on a job of that crew's, with the one that brings it. Starts none.
  static std::uint64_t shared_size();

  /// Threads that work on a job, with the one that brings it.
  [[nodiscard]] std::uint64_t size() const { return threads_.size() + 1; }

  /// Wakes the threads, so that they are ready when run() comes.
  void rouse();

  /// Calls work(part) for every part in [0, parts), here and on the crew; returns when all are
  /// done.
  template <class Work>
  void run(std::uint32_t parts, const Work& work) {
    const auto call = [](const void* what, std::uint32_t part) {
      (*static_cast<const Work*>(what))(part);
    };
    run_job(parts, call, &work);
  }

 private:
  using Call = void (*)(const void*, std::uint32_t);

  void run_job(std::uint32_t parts, Call call, const void* work);
  void serve();
  /// Helps for a while. Whether there was a job meanwhile.
  bool spin();
  /// Takes and does parts of the current job while there are any.
  void help();

  std::mutex mutex_;  // who holds it has the crew
  // Parts of the current job that nobody took yet. A part can only be taken from a job that is not
  // done, so whoever took one may read call_ and work_.
  std::atomic<std::uint32_t> open_{0};
  std::atomic<std::uint32_t> left_{0};  // parts that are not done
  Call call_ = nullptr;
  const void* work_ = nullptr;
  std::atomic<std::uint32_t> jobs_{0};  // so far
  std::atomic<std::uint32_t> wakes_{0};
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> threads_;
};

}  // namespace breccia::exec
