#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/histogram.h"
#include "bench/engines/engine.h"

/// Runs streams of requests against an engine on threads and takes the time.
///
/// 1. Each thread opens its session and, outside of the clock, builds its first group (or all of
///    them; a transaction is given up), so that memory is allocated and touched.
/// 2. All wait at a gate. The clock starts when the last one is there.
/// 3. A thread runs requests one by one, reading the clock once per request, or in groups, reading
///    it once per group. It shares nothing that is written: its counters have their own lines.
///    A transaction's time begins before it is opened and filled. The filling of groups, and the
///    making of single requests in chunks, has a clock of its own.
/// 4. With a rate each request has a time at which it is due, and its latency counts from there,
///    also where the thread comes late to it: the loop is open.
/// 5. The caller's thread sleeps and wakes once a second to count what was done in it.
/// 6. The clock stops when the last thread is done.
namespace breccia::bench {

struct DriverConfig {
  std::uint32_t threads = 1;
  std::uint64_t requests_per_thread = 0;
  double duration_s = 0;         // if positive: time decides, not requests_per_thread
  std::uint32_t batch_size = 1;  // 1: single requests
  bool batch_calls = false;      // groups even of one request
  bool transactions = false;     // each group is a transaction
  bool prebuilt = false;         // groups are built before the clock starts
  bool ready = false;            // requests are made before the clock starts
  bool by_kind = false;          // keep latencies per kind of request too
  double target_per_s = 0;       // of all threads together; 0: as fast as it goes
  std::uint64_t sample_every = Sampling().every;  // about so many requests for one that is audited
  /// What the lookups of transactions see.
  Lookups lookups = Lookups::kInOrder;
};

struct DriverStreams {
  /// The stream of thread `index`, 0 to threads - 1. Called on that thread.
  std::function<std::unique_ptr<Stream>(std::uint32_t index)> counted;
  /// A writer beside them that runs until they are done and is not counted; may be empty.
  std::function<std::unique_ptr<Stream>()> beside;
};

struct DriverOutcome {
  Status status;  // the first failure of a request; the figures then say nothing
  std::uint64_t requests = 0;
  double seconds = 0;
  base::Histogram latency;  // nanoseconds per request, or per group
  std::vector<base::Histogram> by_kind{kKinds};
  std::uint64_t filling_ns = 0;           // making requests and groups, summed over the threads
  std::uint64_t call_ns = 0;              // in the engine, likewise
  std::vector<std::uint64_t> per_second;  // requests of each whole second
  std::uint64_t disk_bytes = 0;           // that the process gave to disks meanwhile
  Findings findings;

  /// The part of the threads' time that was the engine's, with the filling of groups.
  [[nodiscard]] double call_share() const {
    const auto both = static_cast<double>(filling_ns + call_ns);
    return both > 0 ? static_cast<double>(call_ns) / both : 1;
  }
};

/// Shown once a second.
struct LiveFigures {
  double seconds;
  std::uint64_t requests;
  double requests_per_s;  // in the last second
  double p99_us;          // in the last second
};

/// Runs `streams` to the end.
/// Owner   `engine` and the streams must live until it returns.
void drive(Engine* engine, const DriverConfig& config, const DriverStreams& streams,
           const std::function<void(const LiveFigures&)>& live, DriverOutcome* outcome);

/// Moves what was written into files, as a part of the run that `outcome` is of.
Status flush_timed(Engine* engine, const DriverConfig& config, DriverOutcome* outcome);

}  // namespace breccia::bench
