#pragma once

#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include <deque>
#include <string>
#include <vector>

#include "bench/engines/engine.h"

namespace breccia::bench {

/// Writes cut into WriteBatches, whose memory is used again.
struct RocksdbWrites {
  std::deque<rocksdb::WriteBatch> batches;
  std::size_t used = 0;

  /// The batch that the next write goes into; each takes `writes_max`, or all if that is 0.
  rocksdb::WriteBatch& next(std::uint32_t writes_max);
  void clear();
};

/// A group of requests as RocksDB gets them.
/// Threads one owner.
struct RocksdbGroup {
  struct Read {
    Slice key;
    std::uint64_t number;
    bool sampled;
  };
  /// A merge that is done by reading.
  struct Addition {
    Slice key;
    std::uint64_t operand;
  };
  struct Scan {
    Slice begin;
    std::uint32_t entries;
  };
  /// An entry of a file.
  struct Entry {
    Slice key;
    Slice value;  // the stream's
  };

  RocksdbWrites first;
  RocksdbWrites second;  // of read-modify-writes
  std::vector<Read> reads;
  std::vector<Addition> additions;
  std::vector<Entry> entries;
  std::vector<Scan> scans;
  std::vector<SampledRead> sampled_scans;
  KindCounts counts{};

  /// A copy of `key` that stays where it is until clear().
  Slice keep(const Slice& key);
  /// Sorts `entries` and gives them to `db` as a file; nothing, if there are none.
  /// Errors  those of the file and of the database.
  Status ingest_into(rocksdb::DB* db);
  /// Forgets everything but the memory.
  void clear();

 private:
  std::vector<std::vector<char>> key_blocks_;
  std::size_t key_blocks_used_ = 0;
};

}  // namespace breccia::bench
