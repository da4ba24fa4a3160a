#pragma once

#include <breccia/status.h>
#include <rocksdb/options.h>

#include <cstdint>
#include <memory>
#include <string>

namespace breccia {

namespace exec {
class Backend;
}
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
  /// Device memory for runs and work space. 0: three quarters of what is free at open.
  std::uint64_t device_bytes_max = 0;

  /// Folder of the log, for this store alone. Empty: `log` in the store's folder. A folder on DAX
  /// or tmpfs is mapped.
  std::string wal_dir;
  /// Bytes of a log segment, rounded up to a multiple of 64 MiB.
  std::uint64_t log_segment_bytes = 64ULL << 20;
  /// Bytes of log segments to make ready when the store opens, so that a burst of writes finds them
  /// in memory (and known to the device). More are made as they are needed.
  std::uint64_t log_preallocate_bytes = 0;
  /// Bytes of log that may wait for a flush to SST files. A flush starts at half of it; writers
  /// wait when it is full. 0: an eighth of the machine's memory, 512 MiB to 16 GiB.
  std::uint64_t memtable_bytes = 0;
  /// How long a write may wait for room before it fails with Busy.
  std::uint64_t wait_us_max = 60'000'000;
  /// Threads and key ranges of a flush. 0: one per core, at most 8.
  int flush_threads = 0;

  /// The database below. Its own write-ahead log and memtables stay empty.
  rocksdb::Options rocksdb;

  /// For tests: files of the log, and a backend made elsewhere. Null: the real ones.
  std::shared_ptr<wal::Files> log_files;
  std::shared_ptr<exec::Backend> backend_override;
};

struct WriteOptions {
  Durability durability = Durability::kDefault;
};

}  // namespace breccia
