#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compaction/backend.h"
#include "compaction/merge_job.h"
#include "sst/table.h"

namespace breccia::compaction {

/// The tables of a job, and what their properties say.
struct Inputs {
  struct File {
    std::unique_ptr<sst::Table> table;
    sst::algo::FilePlace place;  // is_checked: the host reads its blocks
    double growth = 1;           // keys and values, in parts of what is stored; at least 1
  };
  std::vector<std::vector<File>> runs;
  std::uint64_t bytes = 0;
  std::uint64_t creation_time = 0;  // of the oldest, as far as is known; 0: of none
  MergeCounts counts;               // what is read
  bool has_counts = true;           // properties say how many entries there are

  /// Opens them.
  /// Errors  NotSupported: what is not merged here; those of Table::open.
  static Status open(const MergeJob& job, Inputs* inputs);
};

/// Bytes of a job's slices, and how many of them are under way at once, each with a thread.
std::uint64_t slice_bytes_of(const MergeJob& job, const exec::Device& device);
std::size_t slices_at_once_of(const MergeJob& job, exec::Tenant& tenant);

/// User keys at which the ranges of slices end, ascending and within the job's bounds, so that each
/// slice has about that many bytes of keys and values, by what the tables' properties say; the last
/// slice ends with the job.
std::vector<std::string> slice_ends(const Inputs& inputs, const MergeJob& job,
                                    std::uint64_t slice_bytes);

/// Stretches of a job's slices whose files are written at once: so many that each makes two files
/// or more, if what comes out is midway between the largest run and all runs.
std::size_t lanes_of(const Inputs& inputs, const MergeJob& job, std::size_t slices,
                     std::uint64_t slice_bytes);

/// A separator's user key: not less than those of its block, and not greater than those behind it.
rocksdb::Slice end_of(const sst::Table& table, const sst::DataBlock& block);

}  // namespace breccia::compaction
