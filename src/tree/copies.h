#pragma once

#include <breccia/options.h>

#include <cstdint>
#include <string>

#include "base/result.h"

/// What tells a store from a copy that RocksDB made of one, and from a database that never was one.
///
/// A store's folder holds a file, the mark, with the identity of its log. Checkpoint and
/// BackupEngine copy the tree, in which the same identity stands, and not the mark. So a database
/// owns a log only if mark and tree agree on the log's identity.

namespace breccia::tree {

/// The mark's name in the store's folder. BackupEngine removes it when it restores to that folder.
inline constexpr char kStoreMark[] = "BRECCIA_STORE";

/// The identity in the mark of the database in `path`; 0: there is no mark.
/// Errors  Corruption: the file is no mark; IOError.
Result<std::uint64_t> read_mark(rocksdb::Env* env, const std::string& path);
/// Writes the mark, durable on return; a crash leaves the one before or this one.
/// Errors  IOError, NoSpace.
Status write_mark(rocksdb::Env* env, const std::string& path, std::uint64_t store_id);

/// Makes names in `path` durable. Errors  IOError.
Status sync_folder(rocksdb::Env* env, const std::string& path);

/// Says that the log's folder is free for a database that owns no log: nothing is changed.
/// Errors  Corruption: there is a log, of whatever store; IOError: that store is open.
Status check_no_log(const Options& options, const std::string& path);

/// Notes that the files in `path` are being replaced: until end_restore() no store opens there.
/// Both are durable on return.
/// Errors  IOError, NoSpace.
Status begin_restore(rocksdb::Env* env, const std::string& path);
Status end_restore(rocksdb::Env* env, const std::string& path);
/// Errors  Corruption: a restore to `path` began and did not end.
Status check_restored(rocksdb::Env* env, const std::string& path);

/// Drops breccia's own families of a closed store, opened by RocksDB itself: what remains is an
/// ordinary database. Where there are none, or no database, nothing is done.
/// Errors  those of opening and closing the tree.
Status drop_own_families(const Options& options, const std::string& name);

}  // namespace breccia::tree
