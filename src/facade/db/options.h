#pragma once

#include <breccia/options.h>
#include <rocksdb/db.h>

#include <string>
#include <vector>

#include "base/result.h"

/// RocksDB's options as the engine wants them, and back.

namespace breccia::facade {

using Descriptors = std::vector<rocksdb::ColumnFamilyDescriptor>;

/// Folder of the log below the one where RocksDB keeps its own.
inline constexpr char kLogFolder[] = "log";

/// How long a write of a RocksDB program waits for room: it knows stalls, but no refusal. A year,
/// as deadlines are computed with it.
inline constexpr std::uint64_t kWaitUsMax = 365ULL * 24 * 3600 * 1'000'000;

/// Options of a database opened the way of RocksDB.
///
/// The log lies in `log` below wal_dir, or below `name`; what RocksDB
/// would keep in memtables (write_buffer_size * max_write_buffer_number over all families, at most
/// db_write_buffer_size, the WriteBufferManager's size and max_total_wal_size) becomes
/// memtable_bytes, 128 MiB at least. RocksDB's default sizes leave it to breccia's.
[[nodiscard]] Options engine_options(const rocksdb::DBOptions& options, const std::string& name,
                                     const Descriptors& families);

/// Puts `families` in the place of those in `options`.
void set_families(const Descriptors& families, Options* options);

/// Errors  InvalidArgument: a comparator other than the default one, a reserved family's name;
///         NotSupported: an option that the engine cannot keep, plain or cuckoo tables.
Status check_options(const Options& options, const std::string& name);
Status check_family(const std::string& name, const rocksdb::ColumnFamilyOptions& options);

/// Compares the families that a user names with those that the database has.
/// Errors  InvalidArgument, as RocksDB says it: one is missing, or not named.
Status check_families(const Options& options, const std::string& name, const Descriptors& families);

/// The families of a database without the hidden one, as rocksdb::DB::ListColumnFamilies.
Status list_families(const rocksdb::DBOptions& options, const std::string& name,
                     std::vector<std::string>* families);

/// True if the database is a store: it has the hidden family. What cannot be listed is none.
bool is_store(const rocksdb::DBOptions& options, const std::string& name);

/// Takes a store's families from what an OPTIONS file has to what the user gave: without breccia's
/// own, and with the user's triggers (tree/level0_triggers.h).
void restore_given(Descriptors* families);

}  // namespace breccia::facade
