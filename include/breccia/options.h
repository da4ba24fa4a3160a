#pragma once

#include <breccia/compaction.h>
#include <breccia/store_options.h>
#include <rocksdb/options.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace breccia {

/// Options of a store of the ordered engine: one that is a RocksDB database below.
struct Options : StoreOptions {
  /// Memory for entries of the tree below that are read often, taken as it fills; 0: none. None
  /// chosen: 64 MiB, or what `read_defaults` says. An entry of more than 1.8 KiB is not kept, nor
  /// one of a column family that a compaction may change (compaction filters, FIFO).
  std::optional<std::uint64_t> entry_cache_bytes = {};
  /// Memory for filters of the keys that the tree below holds, ten bits a key: lookups of keys that
  /// are nowhere are answered without asking it; 0: none. A new column family has one from its
  /// beginning; where the tree held keys before, it is built in the background, by reading all of
  /// them, when so many lookups have found nothing there that they pay for it. A family whose
  /// filter does not fit, or which a compaction may change, has none.
  std::uint64_t tree_filter_bytes = 256ULL << 20;

  /// Device memory for the keys of the tree's SST files and the places of their values, 24 bytes
  /// for a key of 16: lookups that memory does not answer then find the value in the file, which is
  /// mapped, without asking RocksDB, and batches of ranges read on there; 0: none. Files are read
  /// in the background, by 1 to 8 threads, each of which takes up to 512 MiB beside while it reads;
  /// the newest levels first, as many as there is room for. RocksDB is asked where a file is not
  /// there yet, and of keys with range deletions or merge operands in files. Not for a column
  /// family that a compaction may change, nor with an sst_file_manager, which may cut files off.
  /// Tables are then written by whole huge pages, 2 MiB of memory for each that is being written.
  std::uint64_t residency_bytes = 0;

  /// Bytes of log that may wait for a flush to SST files. A flush starts at half of it; writers
  /// wait when it is full. 0: an eighth of the machine's memory, 512 MiB to 16 GiB.
  std::uint64_t memtable_bytes = 0;
  /// Bytes of log whose entries stay in memory when they have been flushed, so that lookups find
  /// them there as before: the newest ones. None: as many as memtable_bytes; 0: nothing stays. Not
  /// those of a column family that a compaction may change, nor, until they are flushed again,
  /// those of one into which merge operands or range deletions were flushed. A store that is opened
  /// again fills them from its log in the background, so the log keeps as much over a close.
  std::optional<std::uint64_t> clean_bytes = {};
  /// Threads and key ranges of a flush. 0: one per core, at most 8.
  int flush_threads = 0;
  /// Whether Close() and the destructor, of a Store or a Rocks, flush first, so that the folder is
  /// left as a database that RocksDB's tools read whole.
  bool flush_at_close = false;

  /// How compactions of the tree below are done; kAuto: on the store's own device, on cores or by
  /// RocksDB, wherever each is expected to end first. None: by RocksDB; where
  /// `rocksdb.compaction_service` is set: by that. By RocksDB, too, where there are listeners: of a
  /// compaction that it does not do itself it would tell them less.
  std::optional<CompactionServiceOptions> compactions = CompactionServiceOptions();

  /// Whether Store::Open chooses what is left open here and, for every family, in the table options
  /// below: an entry cache of a sixteenth of the memory that the process may use, 64 MiB at least;
  /// a block cache of an eighth of it (RocksDB's: 8 MiB), one for all families; Bloom filters of
  /// ten bits a key (RocksDB's: none), which files get when they are written. A block cache of 8
  /// MiB that nobody else holds is taken for RocksDB's own. False: they are taken as they are. A
  /// Rocks never chooses.
  bool read_defaults = true;

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
};

}  // namespace breccia
