#pragma once

#include <breccia/status.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "disagg/client/leased_blocks.h"
#include "disagg/client/location_cache.h"
#include "disagg/client/routes.h"
#include "disagg/location.h"
#include "fabric/port.h"

namespace breccia::disagg {

/// A write of a key.
struct Change {
  Slice key;
  std::optional<Slice> value;  // none: it is deleted
  bool is_done = false;
};

/// Errors  InvalidArgument: no store has such a key, or such a value.
[[nodiscard]] Status check(const Change& change);

/// Writes, many at once: their values into blocks of memory servers, those of each server
/// together, then a question to each shard's hash server, all at once; it takes them in their
/// order.
/// Owner   port, routes, blocks and cache outlive it.
/// Threads the port's.
/// Source  [hstore] 4.2. Deviation: a question has many writes.
class Writes {
 public:
  struct Options {
    fabric::TimeUs busy_us = 0;    // a hash server that is busy for so long may be another one
    fabric::TimeUs answer_us = 0;  // an answer comes by then, or the question is put again
    std::uint64_t seed = 0;        // of generations
  };

  Writes(fabric::Port* port, Routes* routes, LeasedBlocks* blocks, LocationCache* cache,
         const Options& options)
      : port_(port),
        routes_(routes),
        blocks_(blocks),
        cache_(cache),
        options_(options),
        random_(options.seed) {}

  /// Some of the first ones that are not done, which are done then; of a shard in their order. What
  /// is of a shard whose hash server cannot be met is left out.
  /// Shape   keys and values as long as blocks have them; at least one change that is not done.
  /// Errors  TryAgain, Busy, TimedOut, MemoryLimit, InvalidArgument: what is not done has not
  ///         happened. IOError: of some of that it is not known.
  Status run(std::span<Change> changes, fabric::TimeUs until);

 private:
  /// A change, and a block with its value that no entry leads to yet.
  struct Made {
    Change* of = nullptr;
    std::uint32_t shard = 0;
    std::optional<Location> location;  // none: of a deletion
    std::uint32_t generation = 0;
    std::vector<std::byte> bytes;
  };
  /// A question for a shard's hash server, of some of what was made.
  struct Asked {
    Routes::ToShard question;
    std::string member;                   // that it is put to
    fabric::TimeUs trusted_until_us = 0;  // as far as was known then
    std::span<const Made> made;
  };

  Status choose(std::span<Change> changes, fabric::TimeUs until);
  [[nodiscard]] std::vector<Made> first_of(std::span<Change> changes, ShardSet but) const;
  Status make_blocks(fabric::TimeUs until);
  Status write_blocks(fabric::TimeUs until);
  void lose_unwritten(std::uint32_t node);
  void let_rest(std::span<const Made> made, fabric::TimeUs since);
  [[nodiscard]] std::vector<Asked> questions() const;
  void ask(std::span<Asked> all, fabric::TimeUs until);
  Status take(const Asked& asked, fabric::TimeUs since, fabric::TimeUs until);
  Result<std::vector<Slot>> replaced_in(const Asked& asked, fabric::TimeUs until);
  void note(const Made& made, Slot replaced, fabric::TimeUs since);

  fabric::Port* const port_;
  Routes* const routes_;
  LeasedBlocks* const blocks_;
  LocationCache* const cache_;
  const Options options_;
  base::Random random_;
  std::vector<Made> made_;  // of one run(), by shard
};

}  // namespace breccia::disagg
