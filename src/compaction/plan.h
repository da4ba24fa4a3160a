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

/// The tables of a job, mapped, and what their properties say.
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

/// User keys at which the ranges of slices end, ascending, so that each slice has about that many
/// bytes of keys and values, by what the tables' properties say; the last slice has no end.
std::vector<std::string> slice_ends(const Inputs& inputs, std::uint64_t slice_bytes);

/// A slice, and bytes of it that are not those of a mapped file.
struct ReadSlice {
  Slice slice;
  std::vector<std::unique_ptr<std::string>> rooms;
};

/// Finds and, where that is the host's work, checks and decompresses the blocks of a range of keys.
/// Errors  those of Table::read_data.
Status read_slice(const Inputs& inputs, std::optional<std::string> begin,
                  std::optional<std::string> end, ReadSlice* read);

}  // namespace breccia::compaction
