#include "bench/driver.h"

#include <fstream>
#include <string>

#include "base/assert.h"
#include "bench/runner.h"

/// One step of a benchmark: threads make their streams of requests, meet, and start together; the
/// clock runs until the last counted one is done, or the time is over. Each has its own histogram
/// of latencies and its own sample of results, whose hash engines must agree in.

namespace breccia::bench {

namespace {

constexpr std::chrono::milliseconds kMoment{50};

using Runners = std::vector<std::unique_ptr<Runner>>;

/// Bytes that this process has given to disks, as the kernel counts them: what is written to a
/// page of a file counts when the page gets dirty. 0 where it does not count.
std::uint64_t bytes_to_disks() {
  std::ifstream file("/proc/self/io");
  std::string name;
  for (std::uint64_t bytes = 0; file >> name >> bytes;) {
    if (name == "write_bytes:") return bytes;
  }
  return 0;
}

// Looks at a run once a second.
class Watch {
 public:
  Watch(SharedRun* shared, const Runners& runners,
        const std::function<void(const LiveFigures&)>& live)
      : shared_(shared), runners_(runners), live_(live), last_(shared->begin) {}

  // Returns when all threads are done; *per_second gets the requests of each whole second, and of
  // a last one that is whole but for a moment.
  void until_done(std::vector<std::uint64_t>* per_second) {
    std::unique_lock lock(shared_->mutex);
    auto next = shared_->begin + std::chrono::seconds(1);
    while (!shared_->done.wait_until(lock, next, [this] { return shared_->left == 0; })) {
      lock.unlock();
      per_second->push_back(second());
      next += std::chrono::seconds(1);
      lock.lock();
    }
    if (Clock::now() > next - kMoment) per_second->push_back(second());
  }

 private:
  std::uint64_t second() {
    std::uint64_t requests = 0;
    for (const auto& runner : runners_) {
      if (runner->counted()) requests += runner->requests();
    }
    const std::uint64_t in_second = requests - requests_before_;
    requests_before_ = requests;
    if (live_) show(requests, in_second);
    return in_second;
  }

  void show(std::uint64_t requests, std::uint64_t in_second) {
    auto latency = std::make_unique<base::Histogram>();
    for (const auto& runner : runners_) {
      if (runner->counted()) latency->merge(runner->latency());
    }
    const auto time = Clock::now();
    const double second = std::chrono::duration<double>(time - last_).count();
    live_({std::chrono::duration<double>(time - shared_->begin).count(), requests,
           static_cast<double>(in_second) / second,
           static_cast<double>(latency->percentile_since(99, latency_before_.get())) / 1000});
    latency_before_ = std::move(latency);
    last_ = time;
  }

  SharedRun* const shared_;
  const Runners& runners_;
  const std::function<void(const LiveFigures&)>& live_;
  std::unique_ptr<base::Histogram> latency_before_ = std::make_unique<base::Histogram>();
  std::uint64_t requests_before_ = 0;
  Clock::time_point last_;
};

}  // namespace

void drive(Engine* engine, const DriverConfig& config, const DriverStreams& streams,
           const std::function<void(const LiveFigures&)>& live, DriverOutcome* outcome) {
  BRECCIA_ASSERT(config.threads > 0 && config.batch_size > 0 && config.sample_every > 0);
  BRECCIA_ASSERT(!config.prebuilt || (config.duration_s <= 0 && !streams.beside));
  const std::uint32_t total = config.threads + (streams.beside ? 1 : 0);
  SharedRun shared(config, total);
  shared.counted_left = config.threads;
  shared.left = total;
  Runners runners;
  for (std::uint32_t i = 0; i < total; ++i) {
    const bool counted = i < config.threads;
    auto make_stream = [&streams, counted, i] {
      return counted ? streams.counted(i) : streams.beside();
    };
    runners.push_back(std::make_unique<Runner>(&shared, engine, std::move(make_stream),
                                               RunnerPlace{.index = i, .counted = counted}));
  }
  for (const auto& runner : runners) runner->start();
  shared.ready.wait();
  const std::uint64_t disk_bytes_before = bytes_to_disks();
  shared.begin = Clock::now();
  shared.go.count_down();
  Watch(&shared, runners, live).until_done(&outcome->per_second);
  auto end = shared.begin;
  for (const auto& runner : runners) {
    runner->join();
    if (!runner->counted()) continue;
    end = std::max(end, runner->end());
    runner->add_to(outcome);
  }
  outcome->seconds = std::chrono::duration<double>(end - shared.begin).count();
  outcome->disk_bytes = bytes_to_disks() - disk_bytes_before;
  outcome->status = shared.failure;
}

Status flush_timed(Engine* engine, const DriverConfig& config, DriverOutcome* outcome) {
  const Clock::time_point begin = Clock::now();
  Status status = engine->flush();
  const Clock::duration taken = Clock::now() - begin;
  outcome->seconds += std::chrono::duration<double>(taken).count();
  outcome->call_ns += static_cast<std::uint64_t>(taken.count()) * config.threads;
  return status;
}

}  // namespace breccia::bench
