#pragma once

#include <cstdint>
#include <string>

namespace breccia::bench {

/// How RocksDB's writers share its log and memtable.
enum class Writers {
  kPipelined,  // enable_pipelined_write, db_bench's default
  kUnordered,  // unordered_write: snapshots may see a batch in parts
  kOneQueue,   // RocksDB's default
};

/// How RocksDB takes keys of which it has none yet, and which will be in files at the end.
enum class Loading {
  kWrites,  // as other writes
  kVector,  // VectorRep: memtables that are sorted when they are full; one writer at a time
  kFiles,   // groups are sorted, written as SST files and ingested
};

/// What a transaction of RocksDB is.
enum class Transacting {
  kOptimistic,  // one of its OptimisticTransactionDB: validated at its commit
  kSnapshot,    // MultiGet at a snapshot and a WriteBatch: nothing is validated
};

/// How RocksDB is used: what a program that knows it well might choose.
struct RocksdbTuning {
  std::uint32_t write_batch = 0;  // writes of a WriteBatch, at most; 0: all of a group
  Writers writers = Writers::kPipelined;
  Loading loading = Loading::kWrites;
  /// A merge is a read, an addition and a put under locks of our own.
  bool merge_by_reading = false;
  std::uint32_t multi_get = 256;  // keys of a MultiGet, at most; it looks up 32 at a time
  bool sorted = false;            // lookups of a group are sorted first
  bool async_io = false;
  bool hash_index = false;  // in data blocks
  std::uint64_t row_cache_bytes = 0;
  Transacting transacting = Transacting::kOptimistic;

  /// The settings in words, as they stand in tables and rows.
  [[nodiscard]] std::string words() const;
};

}  // namespace breccia::bench
