#pragma once

#include <breccia/batch.h>
#include <breccia/store_options.h>

namespace breccia {

/// Requests, up to millions, that happen together or not at all: opened with
/// Store::OpenTransaction, filled, and carried out by Close as one batch with one commit record.
///
/// Source  [hrocks] section 6.4, Transaction Open, operations, Close. Deviation: what the
///         transaction reads before it closes is validated then (Read), so that it may depend on
///         it.
/// Owner   the store lives longer. A transaction that ends without Close has done nothing.
/// Threads one at a time.
class Transaction {
 public:
  virtual ~Transaction() = default;

  /// The requests that Close carries out, in arrival order. Its lookups see the writes before them,
  /// and their results are there when Close has returned ok.
  [[nodiscard]] virtual Batch& batch() = 0;

  /// Answers the lookups and ranges of `reads` now, all of them in all calls as of the moment when
  /// the transaction was opened. Close fails if anybody has written to a key that was looked up, or
  /// into a range, since then. What stands in batch() has not happened yet and is not seen.
  /// Errors  InvalidArgument: there are writes in it, or a family is not there; MemoryLimit.
  /// Owner   `reads` must live, untouched, until Close has returned.
  virtual Status Read(Batch* reads) = 0;

  /// Carries the requests out. The transaction is over then, whatever it returns.
  /// Errors  those of Store::Submit. Busy, which means this alone: what was read has changed,
  ///         nothing was done: run the transaction again. TryAgain: whether it has changed cannot
  ///         be said any more, as more was flushed since than is kept (Options::memtable_bytes);
  ///         nothing was done. InvalidArgument: it was closed before.
  /// Cost    the keys that were read are validated on the backend, like a batch of lookups; other
  ///         writers wait meanwhile.
  virtual Status Close(const WriteOptions& options) = 0;
};

}  // namespace breccia
