#pragma once

#include <breccia/store_options.h>
#include <rocksdb/options.h>

#include <cstdint>
#include <memory>
#include <string>

/// Compactions of a RocksDB database on a GPU, or on many cores at once, in a program that goes on
/// using RocksDB as it is:
///
///   rocksdb::Options options = ...;
///   options.compaction_service = breccia::NewCompactionService(&options);
///   rocksdb::DB::Open(options, ...);

namespace breccia {

/// How NewCompactionService() works. The defaults are for any program.
struct CompactionServiceOptions {
  /// Where compactions run. kAuto: on the GPU, on cores or in RocksDB, wherever each is expected to
  /// end first; kHost: on cores; kCuda: on the GPU only.
  BackendChoice backend = BackendChoice::kAuto;
  std::uint64_t simulator_seed = 1;  // of kSimulator, which is for tests
  /// Which GPU, by CUDA's number.
  int device = 0;
  /// Memory of the GPU, at most. 0: as much as the process may have.
  std::uint64_t device_bytes_max = 0;

  /// Compactions of fewer bytes are left to RocksDB.
  std::uint64_t bytes_min = 1ULL << 20;
  /// With one of these the GPU gets the compactions of at least so many files and bytes, and
  /// RocksDB the others. Both 0: each compaction goes where it is expected to end first, by what
  /// was measured of those before it.
  std::uint64_t device_files_min = 0;
  std::uint64_t device_bytes_min = 0;

  /// Compactions that run at once; others wait, each on its thread of RocksDB's.
  std::uint64_t running_max = 2;
  /// Compactions that run or wait; RocksDB does what comes then.
  std::uint64_t jobs_max = 8;
  /// A compaction that waited so long is RocksDB's.
  std::uint64_t wait_us_max = 30'000'000;

  /// Says that databases with `allow_2pc` (those of a TransactionDB) write what is committed and
  /// nothing before: the default WRITE_COMMITTED. RocksDB does not tell, and compactions of others
  /// must not be done here; so without it all of them are left to RocksDB.
  bool has_only_committed = false;
};

/// A service that does compactions of databases that are opened with these options, one or several,
/// and adds to `options->listeners` the listener that it needs. Their files are those that RocksDB
/// would write, in content; RocksDB checks, installs and reads them as its own.
///
/// A compaction that it cannot do (merge operands, compaction filters, blobs, comparators, ...), or
/// that fails here for whatever reason, RocksDB does itself, as if there were no service. The list
/// of reasons, with counts, is in CompactionServiceReport().
///
/// What is different: listeners find no table properties of files that were written here, and hear
/// neither of their creation nor of subcompactions; RocksDB's rate limiter, SstFileManager and its
/// compaction tickers do not see them. Databases with a rate limiter, or an SstFileManager that has
/// limits or was set before this call, are left to RocksDB. A family other than the default one
/// whose `cf_paths` name a second folder must have it on the file system of the first.
///
/// While a compaction runs, its files are in `breccia-compaction` in the database's folder. What a
/// process that was killed left there goes at the next compaction.
/// Shape   RocksDB 7.8 or 7.9; with others every compaction is left to it.
/// Owner   RocksDB's options and databases hold it; it is gone after the last of them.
/// Threads one service may serve any number of databases.
[[nodiscard]] std::shared_ptr<rocksdb::CompactionService> NewCompactionService(
    rocksdb::DBOptions* options, const CompactionServiceOptions& how = {});

/// What a service has done so far, for people: jobs by place, bytes, rates, and why jobs were left
/// to RocksDB. Empty for a service of another kind.
/// Threads any.
[[nodiscard]] std::string CompactionServiceReport(const rocksdb::CompactionService& service);

}  // namespace breccia
