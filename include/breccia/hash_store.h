#pragma once

#include <breccia/hash_options.h>
#include <breccia/store.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace breccia {

/// Ids and the rows that they have: keys of 8 bytes, as they lie, and values of one size.
///
/// Shape   ids[count], rows[count * row_bytes], found[count]; row_bytes and the rows' address
///         divide by 8. missing[count] and one missing_count, or neither. All of them lie in memory
///         of the store's device (HashStore::Device); missing_count may also lie in memory of the
///         host that the device writes to, as what is pinned. Where count_at is not null, the
///         number of ids lies there, in the device's memory, too, and `count` is the most that it
///         may be: what is behind it is neither read nor written, but costs kernels some time.
/// Units   row_bytes: bytes.
/// Order   the arrays are read and written behind what `stream` has to do by then, a cudaStream_t;
///         null: the default stream. Without a GPU it says nothing.
struct IdRows {
  const std::uint64_t* ids = nullptr;
  std::size_t count = 0;
  void* rows = nullptr;
  std::size_t row_bytes = 0;
  std::uint8_t* found = nullptr;  // of lookups
  void* stream = nullptr;
  std::uint32_t* missing = nullptr;         // of lookups; null: nobody asks
  std::uint64_t* missing_count = nullptr;   // likewise
  const std::uint64_t* count_at = nullptr;  // null: `count` says how many they are
};

/// Which rows of a store a call is about: ids from first_id to last_id, as numbers, both among
/// them, that have a value of row_bytes. What lies under other keys, or is of another size, is
/// passed over.
struct RowRange {
  std::size_t row_bytes = 0;
  std::uint64_t first_id = 0;
  std::uint64_t last_id = ~std::uint64_t{0};
};

/// The rows of a range as they were at one moment, while the store goes on: nobody waits for a
/// scan. In no order, each id once.
/// Owner   the caller; it ends before the store does. Until then what was there at that moment
///         stays in memory, though the log may have given it up.
/// Threads one at a time.
class RowScan {
 public:
  RowScan() = default;
  virtual ~RowScan() = default;
  RowScan(const RowScan&) = delete;
  RowScan& operator=(const RowScan&) = delete;

  /// Copies the next rows into arrays in the host's memory: *count of them, fewer than count_max
  /// only at the end.
  /// Shape   ids[count_max], rows[count_max * row_bytes]; rows lie at a multiple of 8 bytes.
  /// Errors  InvalidArgument: how the arrays lie; MemoryLimit, Corruption, ShutdownInProgress: the
  ///         scan says the same from then on.
  /// Cost    a look at each record of the log in turn, a lookup for each that is asked for, a copy;
  ///         16 bytes of memory for each id that is written or deleted meanwhile.
  virtual Status Next(std::size_t count_max, std::uint64_t* ids, void* rows,
                      std::size_t* count) = 0;
  /// The moment: Store::Changes() from here on says what happened since.
  [[nodiscard]] virtual std::uint64_t Position() const = 0;
};

/// Rows that stay in a device's cache until this ends.
/// Owner   the caller; it ends before the store does.
/// Threads one at a time.
class RowPins {
 public:
  RowPins() = default;
  virtual ~RowPins() = default;
  RowPins(const RowPins&) = delete;
  RowPins& operator=(const RowPins&) = delete;

  /// How many they are, each counted once.
  [[nodiscard]] virtual std::uint64_t Rows() const = 0;
  /// Ids that were asked for and are not pinned, though there may be rows of theirs, as often as
  /// they were asked for: there was no place for them, fifteen others have them, or there is no
  /// cache.
  [[nodiscard]] virtual std::uint64_t Refused() const = 0;
};

/// Which rows of a range go.
///
/// A score says how long a row is worth keeping, from what is in the row: when it was looked up
/// last, say, or how often, if that is kept there. The store itself knows neither, nor when a row
/// was written: cleaning moves rows in its log.
struct EvictOptions {
  static constexpr std::uint64_t kAnyNumber = ~std::uint64_t{0};

  /// Shape   ids[n], rows[n * row_bytes], score[n], in the host's memory; none is NaN.
  /// Errors  what it returns ends the call.
  using Score = std::function<Status(std::span<const std::uint64_t> ids, const void* rows,
                                     std::span<double> score)>;
  /// Rows that are deleted by now, as they were.
  using Gone = std::function<void(std::span<const std::uint64_t> ids, const void* rows)>;

  RowRange range;
  Score score = {};
  /// Rows with a lower score go.
  double score_min = -std::numeric_limits<double>::infinity();
  /// Of the others those with the lowest scores, until so many are left.
  std::uint64_t rows_max = kAnyNumber;
  Gone gone = {};           // may be empty
  WriteOptions write = {};  // how durable the deletions are
};

/// A store of the hash engine, with the calls that it has for arrays in its device's memory: tables
/// of embeddings, features by id. They are calls of Store in another form: FindRows is a batch of
/// lookups, PutRows one of puts, DeleteRows one of deletions, and keys written by either are found
/// by the other.
/// Threads any number.
class HashStore : public Store {
 public:
  /// As Store::Open of HashOptions.
  static Status Open(const HashOptions& options, const std::string& path,
                     std::unique_ptr<HashStore>* store);

  /// CUDA's number of the device in whose memory arrays lie; -1: in that of the host.
  [[nodiscard]] virtual int Device() const = 0;

  /// Looks up ids: found[i] becomes 1 where there is a value of row_bytes, else 0, and its row
  /// is of no sense. The numbers i of the others come to the front of `missing`, in ascending
  /// order, and how many they are to *missing_count: rows that want their first values, say.
  /// Order   all at one moment; done on return.
  /// Errors  as Submit; InvalidArgument: row_bytes, or how arrays lie; IOError also: the device.
  /// Cost    of rows that are not in the device's cache (HashOptions::row_cache_bytes), and without
  ///         one of all: a copy by a core, and its bytes over the bus. Of `missing` five launches;
  ///         of count_at, here and in all calls that are done on return, a wait more.
  virtual Status FindRows(const IdRows& rows) = 0;

  /// FindRows for a caller that waits for nothing: it returns while the device is at work, and what
  /// `stream` is given from then on finds the results there. found[i] becomes 1 where the device's
  /// cache has the row; the others, which `missing` lists, are elsewhere or nowhere, as FindRows
  /// says of them.
  ///
  /// Where there is no such cache (HashOptions::row_cache_bytes, for rows of another size, without
  /// a GPU, or once it is lost), it is FindRows.
  /// Order   each id at a moment of its own, at which it has all that was acknowledged before the
  ///         call. The arrays stay as they are until the stream has come so far.
  /// Errors  as FindRows. If the device is lost later, the stream says so.
  /// Cost    some launches; the first calls also make what up to sixteen at once need. It waits for
  ///         what streams have to do where sixteen calls are under way, where rows are pinned, and
  ///         where one lookup in some that brought rows is to get them into the cache. A write
  ///         waits for it while the index grows, or rows are pinned, others then for the write, and
  ///         so does the end of the store: what a stream has to do before must not wait for a call
  ///         of a store.
  virtual Status FindCachedRows(const IdRows& rows) = 0;

  /// Brings the rows of ids into the device's cache, those that are not in it, and keeps all of
  /// them there until *pins ends: FindCachedRows finds them, whatever else is looked up meanwhile.
  /// For those of the next step, while this one is at work. Of `ids` only ids, count, count_at,
  /// row_bytes and stream are looked at.
  ///
  /// A row that PutRows writes meanwhile stays where it is, as it was written. One that is deleted,
  /// written by a batch, or by two calls of PutRows at the same time, is not there any more, nor,
  /// seldom, one that lies elsewhere in the log by then, as that was cleaned, or that was written
  /// again and again while it was pinned; FindCachedRows says that they are missing. Where a
  /// device's memory goes to others the cache is lost with all that is pinned in it
  /// (HashOptions::row_cache_bytes). Where there is none for rows of this size all ids are refused.
  /// Order   as Submit, some 64 MiB of rows at a moment; done on return. Up to fifteen may have a
  ///         row pinned.
  /// Errors  as FindRows; a failure leaves *pins as it was.
  /// Cost    as FindRows of many ids, and work space for as many rows; a bit for each row of the
  ///         cache. It waits for what FindCachedRows began, and more is not begun meanwhile: what a
  ///         stream has to do before those must not wait for a call of a store. A row may lie in
  ///         seven places: until a third of the cache is pinned two rows in a thousand find none,
  ///         until half of it is one in a hundred.
  virtual Status PinRows(const IdRows& ids, std::unique_ptr<RowPins>* pins) = 0;

  /// Writes a row for each id; of several of one id the last one stays. They become visible at
  /// once, as those of a batch. `rows` is not changed, and `found` not looked at.
  /// What the device's cache has of the ids is written over, so that it has them still, unless
  /// lookups that FindCachedRows began are under way just then; while rows are pinned it waits for
  /// those. The arrays stay as they are until it returns.
  /// Order   as Submit, and durable as it is then.
  /// Errors  likewise; InvalidArgument: row_bytes, or how the arrays lie; IOError also: the device.
  /// Cost    the records over the bus; with a cache, a kernel and a wait more, and once more where
  ///         an id is there twice.
  virtual Status PutRows(const WriteOptions& options, const IdRows& rows) = 0;

  /// Deletes ids, of which some may be there more than once, or have nothing. They vanish at once,
  /// as those of a batch. Of `ids` only ids, count, count_at and stream are looked at.
  /// Order   as Submit, and durable as it is then.
  /// Errors  likewise; InvalidArgument: how the array lies; IOError also: the device.
  virtual Status DeleteRows(const WriteOptions& options, const IdRows& ids) = 0;

  /// Scans the rows of a range as they are now: to export them, while training goes on. They come
  /// back by PutRows.
  /// Errors  InvalidArgument: row_bytes; ShutdownInProgress.
  virtual Status ScanRows(const RowRange& range, std::unique_ptr<RowScan>* scan) = 0;

  /// Writes all that the store has now, whatever its keys, into a folder that is not there yet, and
  /// which is then a store of its own: to be opened, here or elsewhere, or kept. The store goes on
  /// meanwhile, and nobody waits. It knows of the step that FlushedStep() says.
  /// Order   durable on return. A folder that is left by a crash or a failure is no store.
  /// Errors  InvalidArgument: the folder is there; NotFound: the one above it is not; NoSpace,
  ///         IOError: of that folder; as RowScan::Next.
  /// Cost    writes each key's newest value; of memory a segment (HashOptions::log_segment_bytes),
  ///         and what RowScan says.
  virtual Status Snapshot(const std::string& folder) = 0;

  /// Deletes rows by their scores. *evicted: how many.
  ///
  /// It goes through the rows as they are when it begins, and only those go that are still so when
  /// they do: one that has other bytes by then stays.
  /// Order   some thousands at a time, each lot as a batch of deletions; what went before a failure
  ///         is gone. The callbacks are called by this thread, and may use the store.
  /// Errors  InvalidArgument: row_bytes, no score, or one that is NaN; as Submit and RowScan::Next;
  ///         those of the score.
  /// Cost    a scan of the range; with rows_max 16 bytes of memory for each row. Others wait to
  ///         write while a lot of deletions is made.
  virtual Status EvictRows(const EvictOptions& options, std::uint64_t* evicted) = 0;

  using Store::Flush;
  /// Makes every write acknowledged so far durable as Durability::kSync, and then the number of the
  /// training step that they belong to.
  /// Errors  as SyncLog; NoSpace, IOError also: of the file with the number. The one before may
  ///         still be there, and the store goes on.
  /// Cost    a sync of the log, one of a small file, and one of its folder.
  virtual Status Flush(std::uint64_t step) = 0;
  /// The step of the last Flush(step) that succeeded, in an earlier life of the store, too; nothing
  /// if there was none. All that was acknowledged before it is there, and what was written since
  /// may be.
  [[nodiscard]] virtual std::optional<std::uint64_t> FlushedStep() const = 0;
};

}  // namespace breccia
