#pragma once

#include <functional>
#include <string>
#include <vector>

/// Looks at the machine, one question per check. Nothing is changed, but for a file that the fsync
/// check makes and removes.
namespace breccia::cli {

struct Finding {
  enum class Verdict { kOk, kWarn, kFail };
  Verdict verdict = Verdict::kOk;
  std::string name;   // a word, stable for scripts
  std::string found;  // what is there
  std::string fix;    // what to do; empty if all is well
};

Finding check_gpu();
Finding check_rocksdb();
Finding check_io_uring();
Finding check_memory();
Finding check_huge_pages();
Finding check_open_files();
Finding check_locked_memory();
/// The block cache that a Store gets if its options choose none.
Finding check_block_cache();
Finding check_entry_cache();
/// The filters that a Store's new files get if its options choose none, and those that the database
/// in `db` had when it was opened last, if there is one.
Finding check_filters(const std::string& db);

/// What lookups past RocksDB would want: memory for the keys of the tables in `db`, and these in
/// the system's cache.
Finding check_residency(const std::string& db);

/// The file system of `path`, or of its nearest folder that exists.
Finding check_file_system(const std::string& name, const std::string& path);
/// Writes a block and calls fdatasync 100 times beside `path`.
Finding check_sync_latency(const std::string& name, const std::string& path);

}  // namespace breccia::cli
