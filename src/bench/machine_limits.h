#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "bench/engines/engine.h"
#include "exec/calibrate.h"

namespace breccia::bench {

/// What the machine gives in this run, all of its cores together: figures of a store are shares of
/// these.
struct MachineLimits {
  double copy_bytes_per_s = 0;       // memcpy of what is in no cache: bytes read and bytes written
  double gather_rows_per_s = 0;      // random rows of 128 bytes, copied
  double values_gathered_per_s = 0;  // 100 bytes of such rows, into columns past the caches
  double mapped_values_gathered_per_s = 0;  // the same from a mapped file; 0: nobody does
  double mapped_values_anywhere_per_s = 0;  // the same where they begin at any byte of it
  double random_reads_per_s = 0;            // random words of 8 bytes
  double disk_bytes_per_s = 0;     // written in sequence and synced where the database lies
  double disk_reads_per_s = 0;     // random 4 KiB of the file above past the cache; 0: nobody does
  std::uint64_t memory_bytes = 0;  // that the first five went over
  std::optional<exec::Calibration> device;  // of the GPU that batches run on, if there is one
};

/// Measures the machine; the disk in `folder`, or in the nearest folder above it that is there.
/// Bound   four seconds, and where files are to be resident what writing one takes; 16 GiB of
///         memory, which no cache holds, at most an eighth of what this process may use.
/// Errors  IOError: `folder` cannot be written; those of a device that was asked for.
Result<MachineLimits> measure_machine(const std::string& folder, const EngineConfig& engine);

}  // namespace breccia::bench
