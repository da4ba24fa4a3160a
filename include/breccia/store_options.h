#pragma once

#include <breccia/hot_options.h>
#include <breccia/status.h>

#include <cstdint>
#include <optional>
#include <string>

namespace breccia {

/// Where batches run.
enum class BackendChoice {
  kAuto,       // CUDA if there is a usable device, else the host
  kHost,       // CPU threads
  kCuda,       // refuse to open without a device
  kSimulator,  // deterministic interleaving by StoreOptions::simulator_seed; for tests
};

/// What an acknowledgement means.
enum class Durability {
  kNone,     // in memory: lost with the process, unless a later write was logged
  kDefault,  // in the log, handed to the operating system: survives the process
  kSync,     // in the log on its medium: survives a power cut
};

/// What stores of every engine have. Which engine a store has is said by the type of its options:
/// Options (breccia/options.h) are those of the ordered one.
struct StoreOptions {
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

  /// Folder of the log, for this store alone. Empty: `log` in the store's folder. A folder on DAX
  /// or tmpfs is mapped. A new store and a copy (Checkpoint, BackupEngine) need one without a log.
  std::string wal_dir;
  /// Bytes of a log segment, rounded up to a multiple of 64 MiB. 0: 64 MiB; of an ordered store
  /// whose log is not on tmpfs a sixteenth of Options::memtable_bytes, if that is more, and at most
  /// 256 MiB, or log_preallocate_bytes.
  std::uint64_t log_segment_bytes = 0;
  /// Bytes of log segments to make ready when the store opens, so that a burst of writes finds them
  /// in memory (and known to the device). More are made as they are needed.
  std::uint64_t log_preallocate_bytes = 0;
  /// Bytes of the log, counted from its end, that stay on the medium for change streams
  /// (Store::Changes) when they have been flushed.
  std::uint64_t log_keep_bytes = 0;
  /// Keeps hot keys on the CPU, in front of the engine; none: it does not. Of Store::Open.
  std::optional<HotOptions> hot_tier = {};

  /// How long a write may wait for room before it fails with Incomplete. None: a minute for a
  /// Store; for a Rocks as long as it takes, as RocksDB's writes do.
  std::optional<std::uint64_t> wait_us_max = {};
};

class Moment;

struct WriteOptions {
  Durability durability = Durability::kDefault;
  /// How long this write may wait for room; none: StoreOptions::wait_us_max.
  std::optional<std::uint64_t> wait_us_max = {};
  /// Told when what is written happens, if anything is; null: nobody. For stores that tell it
  /// (Store::TellsMoments), but not for SubmitAsync; others say NotSupported to writes.
  /// Owner   outlives the call.
  Moment* moment = nullptr;
};

}  // namespace breccia
