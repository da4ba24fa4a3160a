#pragma once

#include <breccia/options.h>
#include <rocksdb/db.h>

#include <cstdint>
#include <string>

#include "base/result.h"

/// What a store is in RocksDB's terms: which families, folders and keys are breccia's own.

namespace breccia::tree {

/// The hidden family's name.
inline constexpr char kHiddenFamily[] = "breccia.watermark";
/// A family like the user's, with RocksDB's default options, that layers above keep prepared
/// transactions in; there once it was made.
inline constexpr char kPreparedFamily[] = "breccia.prepared";
/// True for the families that are breccia's own, which users neither see nor name.
[[nodiscard]] inline bool is_reserved(const std::string& family) {
  return family == kHiddenFamily || family == kPreparedFamily;
}
/// The folder of files on their way into the tree, in the database's.
inline constexpr char kStagingFolder[] = "breccia-staging";
/// How the names of files there begin that are for a family of breccia's own.
inline constexpr char kOwnStaged[] = "own-";
/// True if `path` is of a file there; of one for a family of breccia's own.
[[nodiscard]] bool is_staged(const std::string& path);
[[nodiscard]] bool is_own_staged(const std::string& path);

/// The hidden family's one key.
inline constexpr char kWatermarkKey[] = "applied";
/// How the tree and the log belong together: the hidden family's value.
struct Watermark {
  std::uint64_t applied = 0;   // all records below this position lie in the tree
  std::uint64_t store_id = 0;  // the log that positions refer to (wal::LogOptions::store_id)
};
static_assert(sizeof(Watermark) == 16);

/// The watermark in the hidden family of `db`; zeros if it was never written.
/// Errors  Corruption: it is no watermark; those of the tree.
Result<Watermark> read_watermark(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* hidden);

/// The folder of a store's log.
[[nodiscard]] std::string log_folder(const Options& options, const std::string& path);

/// Turns off what the tree would do with memtables and a log of its own, which stay empty: keep
/// statistics by writing them, and refuse snapshots, or to open, for values changed in place.
void without_memtables(rocksdb::DBOptions* db);
void without_memtables(rocksdb::ColumnFamilyOptions* family);

}  // namespace breccia::tree
