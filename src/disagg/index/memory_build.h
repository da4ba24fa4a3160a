#pragma once

#include <breccia/status.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "disagg/asking.h"
#include "disagg/cluster_map.h"
#include "disagg/index/growing_table.h"
#include "disagg/index/memory_scan.h"
#include "disagg/index/telling.h"
#include "disagg/memory_peers.h"
#include "fabric/port.h"

namespace breccia::disagg {

/// Makes a shard's hash index of what memory servers have, where both indexes were lost: each key's
/// value is that of its last write that a hash server took.
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

  void follow(const ClusterMap& map, std::uint32_t shard) {
    shard_ = shard;
    scan_.follow(map, shard);
  }
  /// Asks for values, and puts what has come into the table, as far as there is room.
  /// Errors  MemoryLimit: the table is too small.
  [[nodiscard]] Status tend();
  /// When tend() has something to do.
  [[nodiscard]] fabric::TimeUs wake() const;
  void hear(const fabric::Arrival& arrival) { scan_.hear(arrival); }

  /// Each key has its value.
  [[nodiscard]] bool is_over() const { return is_over_; }
  /// No write that was found, or that a memory server was told of, is a later one.
  [[nodiscard]] std::uint64_t last() const { return std::max(last_, scan_.last()); }
  /// Some of what is to be told memory servers by kRetire; nothing: they were told all.
  [[nodiscard]] Telling::News take_losers();

 private:
  [[nodiscard]] Status put_found();
  void note_rival(const ValueEntry& one);
  void settle();
  [[nodiscard]] bool read_sequences(std::span<const ValueEntry> others,
                                    std::vector<std::uint64_t>* sequences);
  void settle(const ValueEntry& other, std::uint64_t sequence);

  fabric::Port* const port_;
  MemoryPeers* const memory_;
  GrowingTable* const table_;
  const Options options_;
  MemoryScan scan_;
  std::uint32_t shard_ = 0;
  /// The latest of each key beside that in the table, by both of its hashes.
  std::map<std::pair<std::uint64_t, std::uint64_t>, ValueEntry> rivals_;
  fabric::TimeUs settle_again_ = 0;
  bool waits_for_room_ = false;
  struct Loser {
    Slot slot = 0;
    std::uint64_t sequence = 0;
  };
  std::vector<Loser> losers_;
  std::uint64_t last_ = 0;
  bool is_over_ = false;
};

}  // namespace breccia::disagg
