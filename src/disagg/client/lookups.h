#pragma once

#include <breccia/status.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "disagg/bucket.h"
#include "disagg/client/location_cache.h"
#include "disagg/client/routes.h"
#include "disagg/key_id.h"
#include "disagg/location.h"
#include "fabric/port.h"

namespace breccia::disagg {

/// A key that is looked up, and what came of it.
/// Owner   key and value are the caller's; *value is written while it is looked up.
struct Lookup {
  enum class Found : std::uint8_t {
    kNotYet,
    kValue,
    kNothing,
    kLost,     // the memory server that had the value is lost
    kSpoiled,  // what an entry leads to is no value
  };
  Slice key;
  std::string* value = nullptr;
  Found found = Found::kNotYet;

  /// Errors  NotFound, IOError, Corruption; TimedOut: not yet.
  [[nodiscard]] Status status() const;
};

/// What a client has done.
struct ClientCounts {
  std::uint64_t reads = 0;    // of others' memory
  std::uint64_t torn = 0;     // of these, not whole
  std::uint64_t anew = 0;     // lookups that began once more
  std::uint64_t cached = 0;   // lookups that found the value where it had been
  std::uint64_t stale = 0;    // and that did not
  std::uint64_t ordered = 0;  // lookups of the ordered server, as the hash index was being built
  std::uint64_t again = 0;    // operations that began once more, maybe with another server
  std::uint64_t lost = 0;     // blocks of which nobody knows whether they are in use

  ClientCounts& operator+=(const ClientCounts& more);
};

/// Lookups in servers' memory, many at once: what they read in a step goes to the network together,
/// first all that was remembered, then of each chain a bucket and what its entries lead to.
/// Owner   port, routes, cache and counts outlive it.
/// Threads the port's.
/// Source  [hstore] 4.2. Deviation: docs/impl/disagg.md, "A lookup".
class Lookups {
 public:
  Lookups(fabric::Port* port, Routes* routes, LocationCache* cache, ClientCounts* counts)
      : port_(port), routes_(routes), cache_(cache), counts_(counts) {}

  /// Those of these shards that are not done yet, whose hash servers are trusted and whole when
  /// this begins.
  /// Errors  TryAgain, TimedOut: some are not done.
  Status run(std::span<Lookup> all, ShardSet of, fabric::TimeUs until);

 private:
  /// A lookup on its way along a chain.
  struct Way {
    Lookup* of = nullptr;
    std::uint32_t shard = 0;
    KeyId id;
    std::uint32_t at = 0;      // the bucket that it is to read
    std::uint32_t length = 0;  // buckets that it has read
    Bucket bucket;             // the last one
    bool is_read = false;      // that was whole, and what it leads to was read, too
    bool has_doubt = false;    // it leads to what is not whole
    bool is_lost = false;      // or to a server that is lost
    bool has_ended = false;    // the chain has no more
    bool has_changed = false;  // since it was read
  };
  /// A block that may have a way's value.
  struct Candidate {
    std::size_t way;
    Location location;
    std::size_t begin;  // in bytes_
    bool is_read = false;
    bool is_lost = false;
  };
  /// A bucket that a way has behind it.
  struct Seen {
    const Lookup* of;
    std::uint32_t at;
    Bucket bucket;
  };
  struct BucketRead {
    std::uint32_t shard;
    std::uint32_t at;
    Bucket* into;
  };

  Status run_some(std::span<Lookup> some, ShardSet of, fabric::TimeUs until);
  [[nodiscard]] bool are_trusted() const;
  Status look_where_they_were(fabric::TimeUs until);
  Status step(fabric::TimeUs until);
  Status read_tables(fabric::TimeUs until);
  Status read_buckets(fabric::TimeUs until);
  void note_candidates();
  void add_candidate(std::size_t way, const Location& location);
  Status read_candidates(fabric::TimeUs until);
  void look_at(const Candidate& candidate);
  Status go_on(bool is_late, fabric::TimeUs until);
  Status settle_doubts(fabric::TimeUs until);
  Status settle_ends(fabric::TimeUs until);
  Status read_again(fabric::TimeUs until);
  void begin(Way* way) const;
  void begin_anew(Way* way);
  [[nodiscard]] std::span<const std::byte> bytes_of(const Candidate& candidate) const;

  fabric::Port* const port_;
  Routes* const routes_;
  LocationCache* const cache_;
  ClientCounts* const counts_;
  // Of one run_some(); members, so that their memory is used again.
  ShardSet shards_;
  std::vector<Way> ways_;
  std::vector<Seen> seen_;
  std::vector<Bucket> now_;
  std::vector<BucketRead> bucket_reads_;
  std::vector<Routes::TableReads> table_reads_;
  std::vector<Candidate> candidates_;
  std::vector<Routes::NodeReads> node_reads_;
  std::vector<std::byte> bytes_;
  std::size_t bytes_used_ = 0;
};

}  // namespace breccia::disagg
