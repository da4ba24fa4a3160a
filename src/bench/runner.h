#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "bench/driver.h"

/// One thread of a run: makes its stream, meets the others, runs its requests and takes the time.

namespace breccia::bench {

using Clock = std::chrono::steady_clock;

inline constexpr std::size_t kLineBytes = 64;

/// What the threads of a run share. It is written at its ends only, but for `stop`.
struct SharedRun {
  SharedRun(const DriverConfig& set, std::uint32_t threads) : config(set), ready(threads), go(1) {}

  const DriverConfig& config;
  std::latch ready;
  std::latch go;
  Clock::time_point begin;
  std::atomic<bool> stop{false};  // somebody failed, or the counted threads are done
  std::mutex mutex;
  std::condition_variable done;
  std::uint32_t counted_left = 0;
  std::uint32_t left = 0;
  Status failure;
};

/// Which thread of a run it is.
struct RunnerPlace {
  std::uint32_t index = 0;
  bool counted = true;  // false: it writes beside those that count
};

class alignas(kLineBytes) Runner {
 public:
  /// `make_stream` is called on the runner's thread: choosing requests may take a while, and the
  /// thread that touches memory first has it near.
  /// Owner   `shared` and `engine` live longer.
  Runner(SharedRun* shared, Engine* engine, std::function<std::unique_ptr<Stream>()> make_stream,
         const RunnerPlace& place);

  void start() {
    thread_ = std::thread([this] { work(); });
  }
  void join() { thread_.join(); }

  [[nodiscard]] bool counted() const { return place_.counted; }
  [[nodiscard]] std::uint64_t requests() const { return done_.load(std::memory_order_relaxed); }
  [[nodiscard]] const base::Histogram& latency() const { return latency_; }
  [[nodiscard]] Clock::time_point end() const { return end_; }

  /// Shape   after join().
  void add_to(DriverOutcome* outcome) const;

 private:
  [[nodiscard]] bool grouped() const {
    return config_.batch_size > 1 || config_.batch_calls || config_.transactions;
  }
  [[nodiscard]] std::uint32_t group_size(std::uint64_t done) const {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(config_.batch_size, limit_ - done));
  }
  [[nodiscard]] bool over(Clock::time_point now) const {
    return shared_->stop.load(std::memory_order_relaxed) || now >= deadline_;
  }

  void work();
  Status prepare();
  Status build(std::uint64_t first, std::uint32_t count, std::size_t place);
  Status run_groups();
  Status run_group(std::uint64_t first, std::uint32_t count, std::size_t place,
                   Clock::time_point* begin);
  Status run_singles();
  Status run_single(std::uint64_t number, const Chunk& chunk, std::uint32_t i);
  Status run_scan(std::uint64_t number, const Chunk& chunk, std::uint32_t i);
  Status run_lookup(std::uint64_t number, const Chunk& chunk, std::uint32_t i);
  void record_single(Kind kind, std::uint64_t ns);
  void record_group(const KindCounts& counts, std::uint64_t ns);
  void record_kind(Kind kind, std::uint64_t ns, std::uint64_t times);
  [[nodiscard]] Clock::time_point next_begin(std::uint64_t done, Clock::time_point now);

  SharedRun* const shared_;
  const DriverConfig& config_;
  Engine* const engine_;
  const std::function<std::unique_ptr<Stream>()> make_stream_;
  const RunnerPlace place_;
  const Sampling sampling_;
  const std::uint64_t limit_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Audit> audit_;
  Clock::time_point deadline_ = Clock::time_point::max();
  Clock::time_point end_;
  std::uint64_t filling_ns_ = 0;
  std::uint64_t idle_ns_ = 0;  // until requests were due
  base::Histogram latency_;
  std::vector<base::Histogram> by_kind_;
  std::thread thread_;
  // Read by the thread that shows live figures: it has a line of its own.
  alignas(kLineBytes) std::atomic<std::uint64_t> done_{0};
};

}  // namespace breccia::bench
