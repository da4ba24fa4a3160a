#pragma once

#include <breccia/status.h>
#include <rocksdb/options.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace breccia {

namespace wal {
class Files;
}

/// Where batches run.
enum class BackendChoice {
  kAuto,       // CUDA if there is a usable device, else the host
  kHost,       // CPU threads
  kCuda,       // refuse to open without a device
  kSimulator,  // deterministic interleaving by Options::simulator_seed; for tests
};

/// What an acknowledgement means.
enum class Durability {
  kNone,     // in memory: lost with the process, unless a later write was logged
  kDefault,  // in the log, handed to the operating system: survives the process
  kSync,     // in the log on its medium: survives a power cut
};

struct Options {
  bool create_if_missing = false;
  bool error_if_exists = false;

  BackendChoice backend = BackendChoice::kAuto;
  std::uint64_t simulator_seed = 1;
  /// Batches of fewer requests take the CPU path. 0: chosen by the backend.
  std::uint32_t device_requests_min = 0;
  /// Which of the machine's devices, by CUDA's number. All stores of a process that use one share
  /// it.
  int device = 0;
  /// Device memory for runs and work space, at most. 0: as much as the process may have of it,
  /// three quarters of what was free when the first store used it. What stores ask for may add up
  /// to more; then who waits for memory makes others flush.
  std::uint64_t device_bytes_max = 0;

  /// Batches given to Store::SubmitAsync go at once while requests come slowly. When so many wait,
  /// they go to the backend together, and from then on batches wait for each other. So many
  /// requests are the first and lowest threshold; it grows tenfold where it is reached within a
  /// millisecond, to at most admission_requests_max, and is halved where it is not reached in time.
  std::uint64_t admission_requests_min = 10'000;
  std::uint64_t admission_requests_max = 100'000;
  /// No batch waits longer for others.
  std::uint64_t admission_wait_us_max = 10'000;
  /// So many changes a second between the two ways are no reason to stay with one for a second.
  std::uint64_t admission_switches_max = 3;

  /// Memory for entries of the tree below that are read often; 0: none. An entry of more than 1.8
  /// KiB is not kept, nor one of a column family that a compaction may change (compaction filters,
  /// FIFO).
  std::uint64_t entry_cache_bytes = 64ULL << 20;

  /// Folder of the log, for this store alone. Empty: `log` in the store's folder. A folder on DAX
  /// or tmpfs is mapped. A new store and a copy (Checkpoint, BackupEngine) need one without a log.
  std::string wal_dir;
  /// Bytes of a log segment, rounded up to a multiple of 64 MiB.
  std::uint64_t log_segment_bytes = 64ULL << 20;
  /// Bytes of log segments to make ready when the store opens, so that a burst of writes finds them
  /// in memory (and known to the device). More are made as they are needed.
  std::uint64_t log_preallocate_bytes = 0;
  /// Bytes of the log, counted from its end, that stay on the medium for change streams
  /// (Store::Changes) when they have been flushed.
  std::uint64_t log_keep_bytes = 0;
  /// Bytes of log that may wait for a flush to SST files. A flush starts at half of it; writers
  /// wait when it is full. 0: an eighth of the machine's memory, 512 MiB to 16 GiB.
  std::uint64_t memtable_bytes = 0;
  /// How long a write may wait for room before it fails with Incomplete. None: a minute for a
  /// Store; for a Rocks as long as it takes, as RocksDB's writes do.
  std::optional<std::uint64_t> wait_us_max = {};
  /// Threads and key ranges of a flush. 0: one per core, at most 8.
  int flush_threads = 0;
  /// Whether Close() and the destructor, of a Store or a Rocks, flush first, so that the folder is
  /// left as a database that RocksDB's tools read whole.
  bool flush_at_close = false;

  /// The database below. Its own write-ahead log and memtables stay empty. The column family part
  /// is for the default family and for those that are not among `families`.
  ///
  /// Not looked at, as there are fields for it above (one that is set here alone is said so in the
  /// log; Rocks::Open with RocksDB's options hands them on): create_if_missing, error_if_exists;
  /// wal_dir, where RocksDB keeps its own, empty log; write_buffer_size, max_write_buffer_number,
  /// db_write_buffer_size, write_buffer_manager, max_total_wal_size (memtable_bytes);
  /// WAL_size_limit_MB (log_keep_bytes). Without effect: whatever else speaks of RocksDB's log,
  /// memtables and writes (docs/rocksdb.md lists them).
  /// Overridden: create_missing_column_families is true (a Rocks still refuses a family that is
  /// missing without it); avoid_flush_during_recovery, inplace_update_support and
  /// persist_stats_to_disk are false; triggers on level-0 files are multiplied by flush_threads, as
  /// a flush adds so many; listeners and statistics are wrapped.
  /// Refused: a comparator other than the bytewise one. By a Rocks also: an Env that is not the
  /// default one (a Store writes its log past it), a wal_filter, plain and cuckoo tables.
  rocksdb::Options rocksdb;
  /// Column families with options of their own; those that are missing are created.
  std::vector<std::pair<std::string, rocksdb::ColumnFamilyOptions>> families;

  /// For tests: files of the log. Null: the real ones.
  std::shared_ptr<wal::Files> log_files;
};

struct WriteOptions {
  Durability durability = Durability::kDefault;
  /// How long this write may wait for room; none: Options::wait_us_max.
  std::optional<std::uint64_t> wait_us_max = {};
};

}  // namespace breccia
