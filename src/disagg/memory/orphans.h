#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "disagg/asking.h"
#include "disagg/cluster_map.h"
#include "disagg/memory/pool.h"
#include "fabric/port.h"

namespace breccia::disagg {

/// Finds blocks of a memory server that are in use and nobody's: their clients died, or do not know
/// whether a write happened.
///
/// A client neither writes a block that it was leased longer ago than half of hold_us, nor gives
/// back one that was replaced so long ago. So a block that has been in use for hold_us at least, is
/// where no entry leads then, nor a write that waits, and is in use, never given back, hold_us
/// later, is nobody's. That goes on in rounds.
/// Owner   port, asking and pool outlive it.
/// Threads the port's.
class Orphans {
 public:
  struct Options {
    fabric::TimeUs hold_us = 0;
    fabric::TimeUs again_us = 0;
    fabric::TimeUs meet_us = 0;
  };
  using Blocks = std::vector<std::pair<std::uint32_t, std::uint64_t>>;  // class and line

  Orphans(fabric::Port* port, Asking* asking, Pool* pool, const Options& options)
      : port_(port), asking_(asking), pool_(pool), options_(options) {}
  ~Orphans() { leave(); }
  Orphans(const Orphans&) = delete;
  Orphans& operator=(const Orphans&) = delete;

  /// Which servers have the entries, one for each shard. If these are others a round begins anew.
  void follow(const ClusterMap& map, std::uint32_t node);
  /// Asks which blocks entries lead to, if it is time to. Those that are nobody's, at the end of a
  /// round; they are still in use.
  Blocks tend();
  /// When tend() has something to do.
  [[nodiscard]] fabric::TimeUs wake() const { return next_; }
  /// An answer of the hash server's, or its end.
  void hear(const fabric::Arrival& arrival);

 private:
  enum class Phase : std::uint8_t { kAge, kLook, kRest };

  void begin();
  void look_anew();
  void leave();
  void look();
  void take_places(WireReader answer);
  [[nodiscard]] Blocks blocks_left() const;

  fabric::Port* const port_;
  Asking* const asking_;
  Pool* const pool_;
  const Options options_;
  std::vector<ClusterMap::Index> hashes_;  // by shard
  std::uint32_t node_ = 0;
  std::uint32_t epoch_ = 0;

  Phase phase_ = Phase::kAge;
  fabric::TimeUs next_ = 0;
  std::optional<fabric::PeerId> peer_;
  std::uint64_t request_ = 0;   // 0: none is under way
  std::size_t shard_ = 0;       // those before this one have told all
  std::uint64_t position_ = 0;  // of its chains those before this one were told
};

}  // namespace breccia::disagg
