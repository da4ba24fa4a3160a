#include "bench/runner.h"

#include <algorithm>
#include <limits>

#include "bench/ready_stream.h"

namespace breccia::bench {

namespace {

// A sleeping thread wakes so much later than it should; the rest of a wait it looks at the clock.
constexpr std::chrono::microseconds kWakeUp{100};

std::uint64_t ns_between(Clock::time_point from, Clock::time_point to) {
  return static_cast<std::uint64_t>((to - from).count());
}

Clock::duration seconds(double count) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(count));
}

void wait_until(Clock::time_point due) {
  std::this_thread::sleep_until(due - kWakeUp);
  while (Clock::now() < due) std::this_thread::yield();
}

}  // namespace

Runner::Runner(SharedRun* shared, Engine* engine,
               std::function<std::unique_ptr<Stream>()> make_stream, const RunnerPlace& place)
    : shared_(shared),
      config_(shared->config),
      engine_(engine),
      make_stream_(std::move(make_stream)),
      place_(place),
      sampling_{.every = config_.sample_every},
      limit_(place.counted && config_.duration_s <= 0 ? config_.requests_per_thread
                                                      : std::numeric_limits<std::uint64_t>::max()),
      by_kind_(config_.by_kind ? kKinds : 0) {}

void Runner::add_to(DriverOutcome* outcome) const {
  const std::uint64_t whole_ns = ns_between(shared_->begin, end_);
  outcome->requests += requests();
  outcome->latency.merge(latency_);
  outcome->filling_ns += filling_ns_;
  outcome->call_ns += whole_ns - idle_ns_ - (config_.prebuilt ? 0 : filling_ns_);
  outcome->findings.merge(audit_->findings());
  for (std::size_t kind = 0; kind < by_kind_.size(); ++kind) {
    outcome->by_kind[kind].merge(by_kind_[kind]);
  }
}

void Runner::work() {
  Status status = prepare();
  shared_->ready.count_down();
  shared_->go.wait();
  if (status.ok() && config_.duration_s > 0) {
    deadline_ = shared_->begin + seconds(config_.duration_s);
  }
  if (status.ok()) status = grouped() ? run_groups() : run_singles();
  end_ = Clock::now();
  const std::lock_guard lock(shared_->mutex);
  if (!status.ok()) {
    if (shared_->failure.ok()) shared_->failure = status;
    shared_->stop.store(true, std::memory_order_relaxed);
  }
  if (place_.counted && --shared_->counted_left == 0) {
    shared_->stop.store(true, std::memory_order_relaxed);
  }
  if (--shared_->left == 0) shared_->done.notify_all();
}

// Groups that will be run, or one that is only for the memory it leaves.
Status Runner::prepare() {
  stream_ = make_stream_();
  if (config_.ready && place_.counted) {
    BRECCIA_ASSERT(config_.duration_s <= 0);
    BRECCIA_TAKE(stream_, ReadyStream::make(std::move(stream_), limit_));
  }
  audit_ = std::make_unique<Audit>(stream_.get(), std::uint64_t{place_.index} << 40);
  session_ = engine_->session(sampling_, stream_->key_size_max());
  if (!grouped()) return Status();
  if (config_.transactions) {
    std::uint64_t uncounted_ns = 0;
    return session_->transact(*stream_, 0, group_size(0), config_.lookups, /*audit=*/nullptr,
                              &uncounted_ns);
  }
  if (!config_.prebuilt) return session_->build(*stream_, 0, group_size(0), 0);
  std::size_t place = 0;
  for (std::uint64_t from = 0; from < limit_; from += group_size(from)) {
    BRECCIA_TRY(build(from, group_size(from), place++));
  }
  return Status();
}

Status Runner::build(std::uint64_t first, std::uint32_t count, std::size_t place) {
  const Clock::time_point begin = Clock::now();
  Status status = session_->build(*stream_, first, count, place);
  filling_ns_ += ns_between(begin, Clock::now());
  return status;
}

Status Runner::run_groups() {
  std::size_t place = 0;
  std::uint64_t done = 0;
  while (done < limit_) {
    Clock::time_point begin = next_begin(done, Clock::now());
    const std::uint32_t count = group_size(done);
    BRECCIA_TRY(run_group(done, count, place, &begin));
    const Clock::time_point end = Clock::now();
    latency_.record(ns_between(begin, end));
    if (config_.by_kind) record_group(session_->counts(place), ns_between(begin, end));
    done += count;
    done_.store(done, std::memory_order_relaxed);
    if (config_.prebuilt) ++place;
    if (over(end)) break;
  }
  return Status();
}

Status Runner::run_group(std::uint64_t first, std::uint32_t count, std::size_t place,
                         Clock::time_point* begin) {
  if (config_.transactions) {
    return session_->transact(*stream_, first, count, config_.lookups, audit_.get(), &filling_ns_);
  }
  if (!config_.prebuilt) {
    BRECCIA_TRY(build(first, count, 0));
    // Without a rate, a group's latency is the store's share; with one, it counts from when the
    // group was due.
    if (config_.target_per_s <= 0) *begin = Clock::now();
  }
  return session_->run(place, audit_.get());
}

Status Runner::run_singles() {
  std::uint64_t done = 0;
  Chunk chunk(stream_->key_size_max());
  while (done < limit_) {
    const auto count =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(kChunkRequests, limit_ - done));
    const Clock::time_point before = Clock::now();
    stream_->fill(done, count, &chunk);
    Clock::time_point now = Clock::now();
    filling_ns_ += ns_between(before, now);
    for (std::uint32_t i = 0; i < chunk.count; ++i) {
      const Clock::time_point begin = next_begin(done, now);
      BRECCIA_TRY(run_single(done, chunk, i));
      now = Clock::now();
      record_single(chunk.kind[i], ns_between(begin, now));
      done_.store(++done, std::memory_order_relaxed);
      if (over(now)) return Status();
    }
  }
  return Status();
}

Status Runner::run_single(std::uint64_t number, const Chunk& chunk, std::uint32_t i) {
  switch (chunk.kind[i]) {
    case Kind::kUpdate:
    case Kind::kInsert:
      return session_->put(chunk.key[i], chunk.value[i]);
    case Kind::kDelete:
      return session_->erase(chunk.key[i]);
    case Kind::kMerge:
      return session_->merge(chunk.key[i], chunk.value[i]);
    case Kind::kScan:
      return run_scan(number, chunk, i);
    case Kind::kGet:
    case Kind::kReadModifyWrite:
      break;
  }
  return run_lookup(number, chunk, i);
}

Status Runner::run_scan(std::uint64_t number, const Chunk& chunk, std::uint32_t i) {
  ScanDigest digest(sampling_.takes(number));
  const Status scanned = session_->scan(chunk.key[i], chunk.scan_entries[i], &digest);
  if (sampling_.takes(number)) audit_->scan(number, scanned.code(), digest);
  return scanned;
}

Status Runner::run_lookup(std::uint64_t number, const Chunk& chunk, std::uint32_t i) {
  Slice value;
  const Clock::time_point begin = config_.by_kind ? Clock::now() : Clock::time_point();
  Status status = session_->get(chunk.key[i], &value);
  if (sampling_.takes(number)) {
    audit_->lookup(number, status.code(), value);
    audit_->judge();  // many at once would hold up one request
  }
  if (status.IsNotFound()) status = Status();
  if (status.ok() && chunk.kind[i] == Kind::kReadModifyWrite) {
    const Clock::time_point between = Clock::now();
    status = session_->put(chunk.key[i], chunk.value[i]);
    if (config_.by_kind) {
      record_kind(Kind::kGet, ns_between(begin, between), 1);
      record_kind(Kind::kUpdate, ns_between(between, Clock::now()), 1);
    }
  }
  return status;
}

void Runner::record_single(Kind kind, std::uint64_t ns) {
  latency_.record(ns);
  if (config_.by_kind) record_kind(kind, ns, 1);
}

void Runner::record_group(const KindCounts& counts, std::uint64_t ns) {
  const std::uint32_t both = counts[static_cast<std::size_t>(Kind::kReadModifyWrite)];
  for (std::size_t i = 0; i < kKinds; ++i) {
    const auto kind = static_cast<Kind>(i);
    const bool half = kind == Kind::kGet || kind == Kind::kUpdate;
    const std::uint32_t times = counts[i] + (half ? both : 0);
    if (times > 0) record_kind(kind, ns, times);
  }
}

void Runner::record_kind(Kind kind, std::uint64_t ns, std::uint64_t times) {
  by_kind_[static_cast<std::size_t>(kind)].record_many(ns, times);
}

// When the next request begins, having waited for it: with a rate, when it is due, even if that is
// over. What waits behind a slow request is late by as much, and its latency says so.
Clock::time_point Runner::next_begin(std::uint64_t done, Clock::time_point now) {
  if (config_.target_per_s <= 0 || !place_.counted) return now;
  const double turn = static_cast<double>(done) * config_.threads +
                      static_cast<double>(place_.index) * (grouped() ? config_.batch_size : 1);
  const Clock::time_point due = shared_->begin + seconds(turn / config_.target_per_s);
  if (due > now) {
    wait_until(due);
    idle_ns_ += ns_between(now, due);
  }
  return due;
}

}  // namespace breccia::bench
