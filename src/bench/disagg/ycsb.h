#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/disagg/data.h"
#include "bench/disagg/worker.h"
#include "bench/ycsb/ycsb.h"

namespace breccia::bench::disagg {

/// One of YCSB's core workloads, as requests of clients. Records are the loaded keys; what clients
/// insert lies behind them, and is deleted at the end.
///
/// What is found is compared: a value is one of its key, of a version that somebody has begun to
/// write, and no older than what the client itself has written; a range has at least the loaded
/// keys that there are behind its beginning.
/// Threads step() and clean() one for each client.
class Ycsb {
 public:
  /// Shape   letter of a to f; `requests` for each client, at most.
  Ycsb(char letter, const Data& data, std::uint32_t clients, std::uint64_t requests,
       std::uint64_t seed);

  [[nodiscard]] static bool is_workload(char letter) { return letter >= 'a' && letter <= 'f'; }
  [[nodiscard]] static bool has_ranges(char letter) { return letter == 'e'; }
  /// Keys that so many clients insert at most.
  [[nodiscard]] static std::uint64_t inserts_max(char letter, std::uint32_t clients,
                                                 std::uint64_t requests);

  /// What parts of the requests are called.
  [[nodiscard]] const std::vector<std::string>& parts() const { return parts_; }
  /// Chooses the requests of one client.
  void choose(std::uint32_t client);
  /// Does a client's next request; *part: which one it is of. kNoMore: there are no more.
  Status step(Worker* worker, Way* way, const std::vector<const Versions*>& versions,
              std::size_t* part);
  /// Deletes what a client has inserted.
  Status clean(Worker* worker, Way* way);

 private:
  struct Client {
    YcsbChoices choices;
    std::uint64_t next = 0;
    std::vector<std::uint64_t> inserted;
  };

  Status read(Worker* worker, Way* way, const std::vector<const Versions*>& versions,
              std::uint64_t record) const;
  Status write(Worker* worker, Way* way, std::uint64_t record) const;
  Status scan(Worker* worker, Way* way, std::uint64_t record, std::uint32_t limit) const;

  const Data& data_;
  const YcsbWorkload workload_;
  const std::uint64_t seed_;
  std::vector<std::string> parts_;
  std::vector<std::size_t> part_of_;  // by Kind
  std::vector<Client> clients_;
  std::vector<std::uint64_t> from_there_;  // loaded keys from a record's on, by record
};

}  // namespace breccia::bench::disagg
