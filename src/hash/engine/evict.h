#pragma once

#include <breccia/hash_store.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "hash/engine/row_scan.h"
#include "hash/engine/state.h"
#include "wal/commit_queue.h"

namespace breccia::hash {

/// One call that deletes rows by their scores.
///
/// A row goes only as it was scored: its deletion takes its place in the log while nobody else may
/// enter, right behind the look at whether it is still so, as a cleaner's copies do.
/// Threads one.
class Eviction {
 public:
  struct Parts {
    wal::Log* log;
    wal::CommitQueue* commits;
    State* state;
    /// Called before some are deleted, and behind that with records and bytes that were written.
    std::function<void()> help;
    std::function<void(std::uint64_t records, std::uint64_t bytes)> note_written;
  };

  Eviction(Parts parts, LiveRows rows, const EvictOptions& options);

  /// Errors  as HashStore::EvictRows.
  [[nodiscard]] Status run();
  /// Rows that were deleted.
  [[nodiscard]] std::uint64_t evicted() const { return evicted_; }

 private:
  struct Scored {
    double score;
    std::uint64_t payload;
  };

  Status score(std::span<const std::uint64_t> payload);
  Status drop_all(std::span<const std::uint64_t> payload);
  Status drop(std::span<const std::uint64_t> payload);
  Status find_unchanged(std::span<const std::uint64_t> payload,
                        std::vector<std::uint64_t>* left) const;
  void write_deletions(std::span<const std::uint64_t> payload, WriteTicket* ticket,
                       std::vector<std::byte>* records) const;
  Status tell(std::span<const std::uint64_t> payload);
  [[nodiscard]] std::vector<std::uint64_t> lowest();

  const Parts parts_;
  LiveRows rows_;
  const EvictOptions options_;
  const std::size_t rows_at_once_;
  std::vector<Scored> others_;      // than those below score_min
  std::vector<std::uint64_t> ids_;  // of the rows that a callback gets
  std::vector<std::uint64_t> words_;
  std::uint64_t evicted_ = 0;
};

}  // namespace breccia::hash
