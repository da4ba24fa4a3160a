#pragma once

#include <breccia/batch.h>
#include <breccia/changes.h>
#include <breccia/store_options.h>
#include <breccia/transaction.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace breccia {

struct Options;
struct HashOptions;
struct SlabOptions;
struct DisaggOptions;

/// What the last Open found in the log.
struct RecoveryReport {
  std::uint64_t frames = 0;         // committed batches replayed
  std::uint64_t entries = 0;        // records replayed
  std::uint64_t bytes = 0;          // log bytes read
  std::uint64_t dropped_bytes = 0;  // behind the last whole batch: a torn tail, never acknowledged
                                    // as durable
  double seconds = 0;
  std::string message;  // one sentence for people; empty if there was nothing to say
};

/// A key-value store: one request model over every engine.
///
/// Semantics are RocksDB's. Acknowledged writes are durable as WriteOptions says. After an error of
/// the log's medium the store is read-only: writes fail with the cause, reads go on; reopening
/// recovers everything acknowledged.
///
/// Owner   delete it, or Close() it before, after its transactions and change streams. Batches may
///         outlive it.
/// Threads any number may call any member at once, but for Close() and the destructor: nobody may
///         be in another call then.
class Store {
 public:
  /// As Close(), but nobody hears of what failed.
  virtual ~Store() = default;

  /// Opens the store in folder `path`, replaying its log. The engine is that of the options:
  /// Options (breccia/options.h), the ordered one.
  /// Errors  InvalidArgument: options do not fit, or the store is missing or exists against them;
  ///         Corruption: acknowledged data in the log is damaged; IOError: the medium, or another
  ///         process holds the store.
  static Status Open(const Options& options, const std::string& path,
                     std::unique_ptr<Store>* store);
  /// The same of HashOptions (breccia/hash_options.h), the hash engine.
  static Status Open(const HashOptions& options, const std::string& path,
                     std::unique_ptr<Store>* store);
  /// An empty store of the slab engine, by SlabOptions (breccia/slab_options.h): nothing of it
  /// outlives it.
  static Status Open(const SlabOptions& options, std::unique_ptr<Store>* store);
  /// The store of a cluster of servers, by DisaggOptions (breccia/disagg_options.h), as one of its
  /// clients.
  /// Errors  besides those above: TimedOut: no cluster is there.
  static Status Open(const DisaggOptions& options, std::unique_ptr<Store>* store);

  /// Ends the store: what was submitted to run later runs, what has no log yet is logged, and with
  /// Options::flush_at_close everything is flushed. Afterwards figures, names and positions can
  /// still be asked for, and whatever else returns a Status says ShutdownInProgress. The folder is
  /// free for another Open when the store is deleted.
  /// Errors  the cause of an earlier fault, or why the log or the flush failed now: writes with
  ///         Durability::kNone may be lost. A second call says the same again.
  virtual Status Close() = 0;

  /// Runs the batch: all writes, then its reads, each at its place in arrival order.
  /// Order   writes are visible to everybody when this returns, and as durable as `options` say.
  /// Bound   waits for room for up to WriteOptions::wait_us_max.
  /// Errors  Incomplete: no room in that time; InvalidArgument: a family is not there;
  ///         NotSupported: an update of a family without a merge operator; MemoryLimit;
  ///         ShutdownInProgress; or the cause of an earlier fault: none of the writes happened.
  ///         Another error of the log or the tree: the store is read-only now, and whether these
  ///         writes are among what reopening finds is open, as after a crash. Errors of single
  ///         reads are in Batch::code.
  /// Owner   `batch` is the caller's, and its results last as Batch says.
  /// Threads several may submit batches at once, each its own.
  virtual Status Submit(const WriteOptions& options, Batch* batch) = 0;

  /// A transaction over what the store holds now.
  [[nodiscard]] virtual std::unique_ptr<Transaction> OpenTransaction() = 0;

  /// Submit on a thread of the store; `done` is called there when the batch has finished. Many
  /// small batches are run together (Options::admission_requests_min), each atomic by itself.
  /// Order   batches take effect and finish in the order in which they were submitted.
  /// Errors  to `done`, besides those of Submit: Incomplete: too many batches wait;
  ///         ShutdownInProgress. Both are told at once, on the calling thread.
  /// Owner   `batch` must live, untouched, until then.
  /// Threads `done` must not wait for other batches; it may submit them.
  virtual void SubmitAsync(const WriteOptions& options, Batch* batch,
                           std::function<void(Status)> done) = 0;

  /// An empty batch with the memory that suits the store's backend: pinned with a GPU, so one that
  /// is used again and again is worth more than one for each call.
  /// Errors  none; requests that find no memory say so.
  /// Owner   the caller; it may outlive the store.
  [[nodiscard]] virtual Batch NewBatch() = 0;
  /// Lets the store's device, if it has one, read memory of the caller's where it lies: keys of
  /// lookups that come as columns and stay in place (Batch::SetColumnsInPlace), each 8 or each 16
  /// bytes and one behind the other, then pass no core. It is pinned until the last copy of
  /// `registration` goes; to a store without a device it is memory like any other.
  /// Errors  MemoryLimit: the system does not pin so much, or parts of it are pinned already;
  ///         ShutdownInProgress. What is not registered works, too, if more slowly.
  /// Owner   the memory must not be freed before; it must be there while a batch of it is
  ///         submitted.
  /// Threads any.
  /// Cost    about 0.1 ms a MiB, once: for arrays that are used again.
  virtual Status RegisterMemory(void* memory, std::size_t bytes,
                                MemoryRegistration* registration) = 0;

  virtual Status Put(const WriteOptions& options, const Slice& key, const Slice& value) = 0;
  virtual Status Delete(const WriteOptions& options, const Slice& key) = 0;
  /// The store's merge operator combines `operand` with what the key has.
  /// Errors  NotSupported: the store was opened without one.
  virtual Status Merge(const WriteOptions& options, const Slice& key, const Slice& operand) = 0;
  /// Errors  NotFound: no such key; *value is as before.
  virtual Status Get(const Slice& key, std::string* value) = 0;
  /// Looks up keys[n] at one point in time.
  /// Shape   n statuses are returned, and *values has n strings, empty where there is no value.
  /// Errors  per key: NotFound, also of a key that is longer than a key may be, or the tree's.
  ///         MemoryLimit, ShutdownInProgress: of all.
  virtual std::vector<Status> MultiGet(std::span<const Slice> keys,
                                       std::vector<std::string>* values) = 0;

  /// A new column family with the options of the default one; see Options::families for others.
  /// Errors  InvalidArgument: there is one of that name.
  virtual Status CreateFamily(const std::string& name, FamilyId* family) = 0;
  /// Drops a column family with all that it holds.
  /// Errors  InvalidArgument: the default family, or not there.
  virtual Status DropFamily(FamilyId family) = 0;
  [[nodiscard]] virtual std::vector<std::pair<std::string, FamilyId>> Families() const = 0;

  /// Follows what is written, from log position `from` on; 0: from the oldest that the log has.
  /// Positions come from Position() and from streams.
  /// Errors  NotFound: the log below was released; InvalidArgument: no batch begins or ends there;
  ///         Corruption, IOError: the log cannot be read there; ShutdownInProgress.
  /// Owner   the stream is the caller's and ends before the store does.
  virtual Status Changes(std::uint64_t from, const ChangesOptions& options,
                         std::unique_ptr<ChangeStream>* stream) = 0;
  /// The position behind everything that is visible: what is written from now on comes after it.
  [[nodiscard]] virtual std::uint64_t Position() const = 0;

  /// Makes every write acknowledged so far durable as Durability::kSync.
  virtual Status SyncLog() = 0;
  /// Moves everything acknowledged so far into SST files and waits for it.
  virtual Status Flush() = 0;

  /// Whether it tells of the moment at which a batch happens (WriteOptions::moment).
  [[nodiscard]] virtual bool TellsMoments() const { return false; }

  /// A figure by name; false if there is none of that name. Names: those of docs/statistics.md, as
  /// `breccia.backend` or `breccia.flush.count`; `breccia.stats`, all of them; and RocksDB's
  /// properties, of the tree's default family.
  /// Owner   *value is replaced if there is one, else left alone.
  virtual bool GetProperty(const std::string& name, std::string* value) = 0;
  [[nodiscard]] virtual RecoveryReport recovery() const = 0;
};

}  // namespace breccia
