#include "bench/driver.h"

#include <atomic>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <latch>
#include <limits>
#include <mutex>
#include <thread>

#include "base/assert.h"

/// One step of a benchmark: threads make their streams of requests, meet, and start together; the
/// clock runs until the last counted one is done, or the time is over. Each has its own histogram
/// of latencies and its own sample of results, whose hash engines must agree in.

namespace breccia::bench {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kLineBytes = 64;

std::uint64_t ns_between(Clock::time_point from, Clock::time_point to) {
  return static_cast<std::uint64_t>((to - from).count());
}

// What the threads of a run share. It is written at its ends only, but for `stop`.
struct Shared {
  Shared(const DriverConfig& set, std::uint32_t threads) : config(set), ready(threads), go(1) {}

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

class alignas(kLineBytes) Runner {
 public:
  /// `make_stream` is called on the runner's thread: choosing requests may take a while, and the
  /// thread that touches memory first has it near.
  Runner(Shared* shared, Engine* engine, std::function<std::unique_ptr<Stream>()> make_stream,
         bool counted, const Sampling& sampling)
      : shared_(shared),
        config_(shared->config),
        engine_(engine),
        make_stream_(std::move(make_stream)),
        counted_(counted),
        sampling_(sampling),
        limit_(counted && config_.duration_s <= 0 ? config_.requests_per_thread
                                                  : std::numeric_limits<std::uint64_t>::max()),
        by_kind_(config_.by_kind ? kKinds : 0) {}

  void start() {
    thread_ = std::thread([this] { work(); });
  }
  void join() { thread_.join(); }

  [[nodiscard]] bool counted() const { return counted_; }
  [[nodiscard]] std::uint64_t requests() const { return done_.load(std::memory_order_relaxed); }
  [[nodiscard]] const base::Histogram& latency() const { return latency_; }
  [[nodiscard]] Clock::time_point end() const { return end_; }

  void add_to(DriverOutcome* outcome) const {
    outcome->requests += requests();
    outcome->latency.merge(latency_);
    outcome->hash.merge(hash_);
    for (std::size_t kind = 0; kind < by_kind_.size(); ++kind) {
      outcome->by_kind[kind].merge(by_kind_[kind]);
    }
  }

 private:
  [[nodiscard]] bool grouped() const {
    return config_.batch_size > 1 || config_.batch_calls || config_.transactions;
  }

  void work() {
    Status status = prepare();
    shared_->ready.count_down();
    shared_->go.wait();
    if (status.ok() && config_.duration_s > 0) {
      deadline_ = shared_->begin + std::chrono::duration_cast<Clock::duration>(
                                       std::chrono::duration<double>(config_.duration_s));
    }
    if (status.ok()) status = grouped() ? run_groups() : run_singles();
    end_ = Clock::now();
    const std::lock_guard lock(shared_->mutex);
    if (!status.ok()) {
      if (shared_->failure.ok()) shared_->failure = status;
      shared_->stop.store(true, std::memory_order_relaxed);
    }
    if (counted_ && --shared_->counted_left == 0) {
      shared_->stop.store(true, std::memory_order_relaxed);
    }
    if (--shared_->left == 0) shared_->done.notify_all();
  }

  // Groups that will be run, or one that is only for the memory it leaves.
  Status prepare() {
    stream_ = make_stream_();
    session_ = engine_->session(sampling_, stream_->key_size_max());
    if (!grouped()) return Status();
    if (config_.transactions) {
      return session_->transact(*stream_, 0, group_size(0), config_.lookups, /*hash=*/nullptr);
    }
    std::uint64_t from = 0;
    std::size_t place = 0;
    do {
      const std::uint32_t count = group_size(from);
      Status status = session_->build(*stream_, from, count, place++);
      if (!status.ok()) return status;
      from += count;
    } while (config_.prebuilt && from < limit_);
    return Status();
  }

  [[nodiscard]] std::uint32_t group_size(std::uint64_t done) const {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(config_.batch_size, limit_ - done));
  }

  [[nodiscard]] bool over(Clock::time_point now) const {
    return shared_->stop.load(std::memory_order_relaxed) || now >= deadline_;
  }

  Status run_groups() {
    std::size_t place = 0;
    std::uint64_t done = 0;
    Clock::time_point begin = Clock::now();
    while (done < limit_) {
      const std::uint32_t count = group_size(done);
      BRECCIA_TRY(run_group(done, count, place, &begin));
      const Clock::time_point end = Clock::now();
      latency_.record(ns_between(begin, end));
      if (config_.by_kind) record_group(session_->counts(place), ns_between(begin, end));
      done += count;
      done_.store(done, std::memory_order_relaxed);
      if (config_.prebuilt) ++place;
      if (over(end)) break;
      begin = pace(done, end);
    }
    return Status();
  }

  Status run_group(std::uint64_t first, std::uint32_t count, std::size_t place,
                   Clock::time_point* begin) {
    if (config_.transactions)
      return session_->transact(*stream_, first, count, config_.lookups, &hash_);
    if (!config_.prebuilt) {
      BRECCIA_TRY(session_->build(*stream_, first, count, 0));
      // Without a pace, a group's latency is the store's share; with one, it counts from when the
      // group was due.
      if (config_.target_per_s <= 0) *begin = Clock::now();
    }
    return session_->run(place, &hash_);
  }

  Status run_singles() {
    std::uint64_t done = 0;
    Chunk chunk(stream_->key_size_max());
    Clock::time_point begin = Clock::now();
    while (done < limit_) {
      const auto count =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(kChunkRequests, limit_ - done));
      stream_->fill(done, count, &chunk);
      for (std::uint32_t i = 0; i < chunk.count; ++i) {
        Status status = run_single(done, chunk, i);
        if (!status.ok()) return status;
        const Clock::time_point end = Clock::now();
        record_single(chunk.kind[i], ns_between(begin, end));
        done_.store(++done, std::memory_order_relaxed);
        if (over(end)) return Status();
        begin = pace(done, end);
      }
    }
    return Status();
  }

  Status run_single(std::uint64_t number, const Chunk& chunk, std::uint32_t i) {
    const Slice& key = chunk.key[i];
    const Kind kind = chunk.kind[i];
    if (kind == Kind::kUpdate || kind == Kind::kInsert) return session_->put(key, chunk.value[i]);
    if (kind == Kind::kDelete) return session_->erase(key);
    if (kind == Kind::kMerge) return session_->merge(key, chunk.value[i]);
    if (kind == Kind::kScan) {
      ScanDigest digest(sampling_.takes(number));
      const Status scanned = session_->scan(key, chunk.scan_entries, &digest);
      if (sampling_.takes(number)) {
        hash_.add(number + sampling_.id_offset, scanned.code(), digest.bytes());
      }
      return scanned;
    }
    Slice value;
    const Clock::time_point begin = config_.by_kind ? Clock::now() : Clock::time_point();
    Status status = session_->get(key, &value);
    if (sampling_.takes(number)) hash_.add(number + sampling_.id_offset, status.code(), value);
    if (status.IsNotFound()) status = Status();
    if (status.ok() && kind == Kind::kReadModifyWrite) {
      const Clock::time_point between = Clock::now();
      status = session_->put(key, chunk.value[i]);
      if (config_.by_kind) {
        record_kind(Kind::kGet, ns_between(begin, between), 1);
        record_kind(Kind::kUpdate, ns_between(between, Clock::now()), 1);
      }
    }
    return status;
  }

  void record_single(Kind kind, std::uint64_t ns) {
    latency_.record(ns);
    if (config_.by_kind) record_kind(kind, ns, 1);
  }

  void record_group(const KindCounts& counts, std::uint64_t ns) {
    const std::uint32_t both = counts[static_cast<std::size_t>(Kind::kReadModifyWrite)];
    for (std::size_t i = 0; i < kKinds; ++i) {
      const auto kind = static_cast<Kind>(i);
      const bool half = kind == Kind::kGet || kind == Kind::kUpdate;
      const std::uint32_t times = counts[i] + (half ? both : 0);
      if (times > 0) record_kind(kind, ns, times);
    }
  }

  void record_kind(Kind kind, std::uint64_t ns, std::uint64_t times) {
    by_kind_[static_cast<std::size_t>(kind)].record_many(ns, times);
  }

  // Waits until the target rate allows more; returns when the next request begins.
  Clock::time_point pace(std::uint64_t done, Clock::time_point now) const {
    if (config_.target_per_s <= 0 || !counted_) return now;
    const double due_s = static_cast<double>(done) * config_.threads / config_.target_per_s;
    const auto due = shared_->begin + std::chrono::duration_cast<Clock::duration>(
                                          std::chrono::duration<double>(due_s));
    if (due <= now) return now;
    std::this_thread::sleep_until(due);
    return Clock::now();
  }

  Shared* const shared_;
  const DriverConfig& config_;
  Engine* const engine_;
  const std::function<std::unique_ptr<Stream>()> make_stream_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Session> session_;
  const bool counted_;
  const Sampling sampling_;
  const std::uint64_t limit_;
  Clock::time_point deadline_ = Clock::time_point::max();
  Clock::time_point end_;
  base::Histogram latency_;
  std::vector<base::Histogram> by_kind_;
  ResultHash hash_;
  std::thread thread_;
  // Read by the thread that shows live figures: it has a line of its own.
  alignas(kLineBytes) std::atomic<std::uint64_t> done_{0};
};

using Runners = std::vector<std::unique_ptr<Runner>>;

// Waits for all threads, showing figures once a second.
void watch(Shared* shared, const Runners& runners,
           const std::function<void(const LiveFigures&)>& live) {
  auto before = std::make_unique<base::Histogram>();
  std::uint64_t requests_before = 0;
  auto last = shared->begin;
  std::unique_lock lock(shared->mutex);
  while (!shared->done.wait_for(lock, std::chrono::seconds(1),
                                [shared] { return shared->left == 0; })) {
    if (!live) continue;
    lock.unlock();
    auto now = std::make_unique<base::Histogram>();
    std::uint64_t requests = 0;
    for (const auto& runner : runners) {
      if (!runner->counted()) continue;
      now->merge(runner->latency());
      requests += runner->requests();
    }
    const auto time = Clock::now();
    const double second = std::chrono::duration<double>(time - last).count();
    live({std::chrono::duration<double>(time - shared->begin).count(), requests,
          static_cast<double>(requests - requests_before) / second,
          static_cast<double>(now->percentile_since(99, before.get())) / 1000});
    before = std::move(now);
    requests_before = requests;
    last = time;
    lock.lock();
  }
}

}  // namespace

void drive(Engine* engine, const DriverConfig& config, const DriverStreams& streams,
           const std::function<void(const LiveFigures&)>& live, DriverOutcome* outcome) {
  BRECCIA_ASSERT(config.threads > 0 && config.batch_size > 0);
  BRECCIA_ASSERT(std::has_single_bit(config.sample_every));
  BRECCIA_ASSERT(!config.prebuilt || (config.duration_s <= 0 && !streams.beside));
  const std::uint32_t total = config.threads + (streams.beside ? 1 : 0);
  Shared shared(config, total);
  shared.counted_left = config.threads;
  shared.left = total;
  Runners runners;
  for (std::uint32_t i = 0; i < total; ++i) {
    const bool counted = i < config.threads;
    const Sampling sampling{.every = config.sample_every, .id_offset = std::uint64_t{i} << 40};
    auto make_stream = [&streams, counted, i] {
      return counted ? streams.counted(i) : streams.beside();
    };
    runners.push_back(
        std::make_unique<Runner>(&shared, engine, std::move(make_stream), counted, sampling));
  }
  for (const auto& runner : runners) runner->start();
  shared.ready.wait();
  shared.begin = Clock::now();
  shared.go.count_down();
  watch(&shared, runners, live);
  auto end = shared.begin;
  for (const auto& runner : runners) {
    runner->join();
    if (!runner->counted()) continue;
    end = std::max(end, runner->end());
    runner->add_to(outcome);
  }
  outcome->seconds = std::chrono::duration<double>(end - shared.begin).count();
  outcome->status = shared.failure;
}

}  // namespace breccia::bench
