#pragma once

#include <breccia/status.h>

#include <cstdint>
#include <vector>

#include "disagg/asking.h"
#include "disagg/cluster_map.h"
#include "disagg/index/growing_table.h"
#include "disagg/index/memory_scan.h"
#include "disagg/index/telling.h"
#include "disagg/memory_peers.h"
#include "fabric/port.h"

namespace breccia::disagg {

/// Makes a hash index of what memory servers have, where both indexes were lost: each key's value
/// is that of its last write that a hash server took.
///
/// Of a key several may be there: what was replaced is marked only when the ordered server has the
/// write. All but the last are to be marked before the index is anybody's (losers()), or a key that
/// is deleted would come back with the one before when both indexes are lost again.
/// Owner   port, asking, memory and table outlive it.
/// Threads the port's.
/// Source  [hstore] 4.3. Deviation: memory servers read themselves, and tell keys' hashes.
class MemoryBuild {
 public:
  struct Options {
    fabric::TimeUs again_us = 0;  // what was not answered so long is asked again
    fabric::TimeUs read_us = 0;   // what is read of a block has so long
    KeySeeds seeds;
  };

  MemoryBuild(fabric::Port* port, Asking* asking, MemoryPeers* memory, GrowingTable* table,
              const Options& options)
      : port_(port),
        memory_(memory),
        table_(table),
        options_(options),
        scan_(port, asking, memory, options.again_us, options.seeds) {}

  void follow(const ClusterMap& map) { scan_.follow(map); }
  /// Asks for values, and puts what has come into the table, as far as there is room.
  /// Errors  MemoryLimit: the table is too small.
  [[nodiscard]] Status tend();
  [[nodiscard]] fabric::TimeUs wake() const;
  void hear(const fabric::Arrival& arrival) { scan_.hear(arrival); }

  /// Each key has its value.
  [[nodiscard]] bool is_over() const { return is_over_; }
  /// No write that was found is a later one.
  [[nodiscard]] std::uint64_t last() const { return last_; }
  /// What is to be told memory servers by kRetire.
  [[nodiscard]] const Telling::News& losers() const { return losers_; }

 private:
  [[nodiscard]] Status put_found();
  void settle();
  [[nodiscard]] bool settle(const ValueEntry& other);
  void lose(Slot slot, std::uint64_t sequence);

  fabric::Port* const port_;
  MemoryPeers* const memory_;
  GrowingTable* const table_;
  const Options options_;
  MemoryScan scan_;
  std::vector<ValueEntry> contested_;  // of keys that have another value in the table
  fabric::TimeUs settle_again_ = 0;
  Telling::News losers_;
  std::uint64_t last_ = 0;
  bool is_over_ = false;
};

}  // namespace breccia::disagg
