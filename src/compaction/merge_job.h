#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "sst/table_shape.h"

/// What a compaction is, whoever asked for it: files of entries go in, files of those that live
/// come out.

namespace breccia::compaction {

struct InputFile {
  std::string path;
  /// The sequence number of all its entries, if it was ingested: its keys say 0.
  std::optional<std::uint64_t> sequence;
};

/// Files in key order whose keys do not overlap: a file of level 0, or those of another level.
using InputRun = std::vector<InputFile>;

/// User keys from `smallest` to `largest`, both inclusive.
struct KeyRange {
  std::string smallest;
  std::string largest;

  bool operator==(const KeyRange&) const = default;
};

/// Which entries live.
/// Source  RocksDB 7.8's compaction iterator, for deletions and values.
struct MergeRules {
  std::vector<std::uint64_t> snapshots;  // sequence numbers, ascending
  /// No file that is not an input has a key of the inputs' range and may hold older versions.
  bool is_bottommost = false;
  /// Deletions that every snapshot sees end where no file below the output's level may hold their
  /// key. False: only in a bottommost compaction.
  bool drops_deletions = false;
  /// What files below the output's level may hold, ascending, not overlapping.
  std::vector<KeyRange> deeper;
};

/// How entries of sorted runs are put into one order. The order is the same.
enum class Ordering : std::uint8_t {
  kAuto,   // merges, until a sort was measured to be faster
  kMerge,  // runs are merged pairwise: as many passes as the number of runs has bits
  kSort,   // a radix sort of one word of each key; as many passes, whatever the number of runs
};

struct MergeJob {
  std::vector<InputRun> runs;
  /// User keys from `begin` on, and below `end`; none: no bound.
  std::optional<std::string> begin;
  std::optional<std::string> end;
  MergeRules rules;
  sst::TableShape shape;
  sst::TableOrigin origin;  // but for file_number, and creation_time, which the inputs say
  std::uint64_t first_file_number = 1;
  std::uint64_t file_bytes = 64ULL << 20;  // a file ends when it has that many
  std::string folder;                      // of the outputs; it exists
  bool by_whole_pages = false;             // they are written so (sst/table_file.h)
  /// Whether writers wait for the job: while it is not urgent, files give way to flushes
  /// (base/precedence.h). Empty: it is not. Threads any.
  std::function<bool()> is_urgent;
  /// Blocks and files end exactly where RocksDB would end them: for tests, and slow.
  bool has_stock_cuts = false;
  Ordering ordering = Ordering::kAuto;
  std::uint64_t slice_bytes = 0;     // of keys and values; 0: what suits the backend
  std::uint64_t slices_at_once = 0;  // 0: what suits it
};

/// A table that was written, and synced.
struct MergedFile {
  std::uint64_t number = 0;
  std::string name;      // in the folder
  std::string smallest;  // internal keys
  std::string largest;
  std::uint64_t smallest_sequence = 0;
  std::uint64_t largest_sequence = 0;
  std::uint64_t bytes = 0;
  std::uint64_t entries = 0;
  std::uint64_t creation_time = 0;
  std::uint64_t file_creation_time = 0;
};

struct MergeCounts {
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_written = 0;
  std::uint64_t entries_read = 0;
  std::uint64_t deletions_read = 0;
  std::uint64_t key_bytes_read = 0;  // internal keys
  std::uint64_t value_bytes_read = 0;
  std::uint64_t entries_written = 0;
  std::uint64_t deletions_written = 0;
};

struct Merged {
  std::vector<MergedFile> files;  // in key order
  MergeCounts counts;
};

class Backend;

/// Does a job. What was written lies in the job's folder; after an error nothing does.
/// Errors  NotSupported: inputs that are not merged here; Corruption: an input is broken, or what
///         came out did not stand the checks; IOError; MemoryLimit; a device's. Whoever asked may
///         let RocksDB do the job.
/// Threads any; each call uses as many as the backend has for it.
Status merge(const MergeJob& job, Backend& backend, Merged* merged);

}  // namespace breccia::compaction
