#pragma once

#include <breccia/options.h>

#include <memory>
#include <span>
#include <string>

#include "support/fake_gpu.h"

namespace breccia::metamorphic {

/// Where batches run.
enum class Backend {
  kUnderTest,  // testing::backend_under_test()
  kSimulator,
  kDevice,         // a fake one, whose runs the host cannot read
  kFailingDevice,  // the same, until one of its operations fails
};

/// How the log's files are made.
enum class LogFiles {
  kPwrite,  // buffered
  kRing,    // buffered, written by io_uring
  kMapped,
};

/// A way to run a store that changes nothing of what it answers.
struct OptionSet {
  const char* name;
  Backend backend;
  std::uint32_t device_requests_min;
  std::uint64_t memtable_bytes;
  int flush_threads;
  LogFiles log_files;
  rocksdb::CompactionStyle compaction;
  int level0_files;  // from which on the tree compacts by itself
};

/// All twelve.
[[nodiscard]] std::span<const OptionSet> option_sets();

/// The merge operator of a family, by its number; null for the last.
[[nodiscard]] std::shared_ptr<rocksdb::MergeOperator> merge_operator_of(std::uint32_t family);
[[nodiscard]] std::string family_name(std::uint32_t family);
/// The number of the family of that name.
[[nodiscard]] std::uint32_t family_of(const std::string& name);

/// Options of a family, for whatever database.
[[nodiscard]] rocksdb::ColumnFamilyOptions family_options(std::uint32_t family);
/// Options of a database without noise.
[[nodiscard]] rocksdb::Options database_options();
/// Options of a store, without its log files; a third of the seeds keep nothing that was flushed, a
/// third little. `gpu`: for a fake device.
[[nodiscard]] Options store_options(const OptionSet& set, std::uint64_t seed,
                                    testing::FakeGpu* gpu);

}  // namespace breccia::metamorphic
