#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/disagg/all_keys.h"
#include "bench/disagg/data.h"
#include "bench/disagg/figures.h"
#include "bench/disagg/flags.h"
#include "bench/disagg/nodes.h"
#include "bench/disagg/worker.h"
#include "bench/disagg/ycsb.h"
#include "bench/threads.h"

namespace breccia::bench::disagg {

struct RoundOptions {
  breccia::disagg::ClusterConfig network;
  Indexes indexes = Indexes::kBoth;
  std::string indexes_name;
  std::vector<std::string> workloads;
  std::uint32_t clients = 1;
  std::uint32_t value_bytes = 0;
  std::uint64_t seed = 0;
  /// Ports are watched: there are phases of operations instead of all else.
  bool is_watched = false;
};

/// Servers of a store, clients that load it, and figures of what they do then.
/// Threads one owner; it has threads of its own.
class Round {
 public:
  Round(const DisaggFlags& flags, const RoundOptions& options);
  ~Round();
  Round(const Round&) = delete;
  Round& operator=(const Round&) = delete;

  /// Prints the rows. What the store as it is does in a second goes into *reference; beside others
  /// it is said.
  Status run(Reference* reference);

 private:
  /// What one operation does; *part: of which part it is, or one of kNoMore and kLeftOut.
  using Operation = std::function<Status(Worker*, std::size_t* part)>;
  using GoesOn = std::function<bool(Clock::time_point now)>;
  using Figures = std::vector<std::unique_ptr<Figure>>;

  Status run_in(const std::string& folder, Reference* reference);
  Status add_worker(std::uint32_t number);
  Status fill();
  [[nodiscard]] bool wants(const char* workload) const;
  [[nodiscard]] bool wants_ycsb() const;
  [[nodiscard]] bool remembers() const;

  Status measure(const std::string& name, const std::vector<std::string>& parts,
                 const Operation& operation, const GoesOn& goes_on, Figures* figures);
  Status measure(const std::string& name, const std::function<Status(Worker*)>& operation);
  Status measure_basic();
  Status measure_batches();
  Status measure_phases();
  Status watch(const char* name, const std::function<Status(Worker*)>& operation);
  Status measure_ycsb(char letter);
  [[nodiscard]] std::uint64_t reads_so_far() const;
  [[nodiscard]] std::uint64_t inserts_max() const;

  Status read_64(Worker* worker) const;
  Status get(Worker* worker, Way* way) const;
  Status miss(Worker* worker) const;
  Status put(Worker* worker) const;
  Status scan(Worker* worker) const;
  Status get_batch(Worker* worker, Way* way, std::uint32_t size) const;
  Status put_batch(Worker* worker, std::uint32_t size) const;

  Status measure_rebuilds();
  Status measure_reads_without(breccia::disagg::Role lost);
  Status rebuild(breccia::disagg::Role role, const std::string& name, const Operation& operation,
                 double* seconds, std::unique_ptr<Figure>* figure);

  void say_all(Reference* reference);

  const DisaggFlags& flags_;
  const RoundOptions options_;
  const Data data_;
  const AllKeys all_keys_;
  Setting setting_;
  Watch hash_watch_{1 << 22};
  std::vector<std::unique_ptr<Watch>> watches_;  // of the workers
  std::unique_ptr<Nodes> nodes_;
  Workers workers_;
  std::vector<const Versions*> versions_;  // of the workers
  Figures figures_;
  double r_us_ = 0;
};

}  // namespace breccia::bench::disagg
