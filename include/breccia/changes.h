#pragma once

#include <breccia/family.h>
#include <breccia/status.h>

#include <cstdint>
#include <span>

namespace breccia {

/// One write of a committed batch.
struct Change {
  enum class Kind : std::uint8_t { kPut, kDelete, kMerge, kSingleDelete, kDeleteRange };
  Kind kind;
  FamilyId family;
  Slice key;
  Slice value;  // kMerge: the operand; kDeleteRange: the end, not part of it; empty for deletions
};

struct ChangesOptions {
  /// Only batches that survive a power cut. Without it a consumer may be told of a batch that a
  /// power cut takes back.
  bool only_synced = false;
  /// The stream keeps the log from its position on for itself, whatever is flushed, while it is at
  /// most so many bytes behind. One that falls further behind gets NotFound.
  std::uint64_t hold_bytes_max = 1ULL << 30;
};

/// What was written to a store, batch by batch, in commit order: each committed batch once and
/// whole, from a position on. Batches that failed or that a crash tore never appear.
///
/// A position stays valid when the store is opened again, as long as the log reaches back to it:
/// to what is not flushed, and Options::log_keep_bytes beyond.
///
/// Merge operands that the store worked out at once (breccia/merge_operators.h) appear as puts of
/// their results. Changes of families that were dropped appear with the numbers they had. What came
/// into the tree without the log (ingested files, imports) does not appear.
///
/// Owner   ends before the store does.
/// Threads one owner, beside any use of the store.
class ChangeStream {
 public:
  virtual ~ChangeStream() = default;

  /// Moves on to the next batch; waits for it for up to `wait_us` microseconds.
  /// Errors  TimedOut: there is none yet, and the stream stays where it is; NotFound: the log there
  ///         was released; Corruption, IOError: it cannot be read.
  virtual Status Next(std::uint64_t wait_us) = 0;

  /// True after a Next() that returned ok.
  [[nodiscard]] virtual bool Valid() const = 0;
  /// The batch's writes, in their order.
  /// Shape   Valid().
  /// Owner   they last until the next Next().
  [[nodiscard]] virtual std::span<const Change> changes() const = 0;
  /// Where the batch begins in the log.
  /// Shape   Valid().
  [[nodiscard]] virtual std::uint64_t begin() const = 0;
  /// Where to go on: behind the batch, or where the stream began.
  [[nodiscard]] virtual std::uint64_t position() const = 0;
};

}  // namespace breccia
