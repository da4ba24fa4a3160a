#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compaction/backend.h"
#include "compaction/plan.h"
#include "exec/host_vector.h"
#include "sst/range_reader.h"

namespace breccia::compaction {

/// Reads slices of a job's tables into memory that the backend reaches at full speed.
/// Threads one owner; any number of readers of the same tables at once.
class SliceReader {
 public:
  /// Owner   `inputs` and `memory` live longer.
  SliceReader(const Inputs& inputs, exec::HostMemory& memory) : inputs_(inputs), room_(memory) {}

  /// The blocks that may have keys of a range, each checked and decompressed where that is the
  /// host's work. What it gives lives until the next call.
  /// Errors  those of Table::open_data.
  Status read(std::optional<std::string> begin, std::optional<std::string> end, Slice* slice);

 private:
  /// Blocks of one file, one behind the other.
  struct Stretch {
    const Inputs::File* file = nullptr;
    std::uint32_t number = 0;  // among the slice's files
    std::size_t first = 0;
    std::size_t last = 0;
    std::uint64_t at = 0;  // where its bytes are, in the room or in what is stored

    [[nodiscard]] bool is_checked() const { return file->place.is_checked != 0; }
    [[nodiscard]] std::uint64_t begin() const;
    [[nodiscard]] std::uint64_t bytes() const;
  };

  void find(const std::optional<std::string>& begin, const std::optional<std::string>& end,
            Slice* slice);
  static Status check_gaps(const Stretch& stretch);
  Status read_stretches();
  void list_plain(const Stretch& stretch, Slice* slice) const;
  Status unpack(const Stretch& stretch, Slice* slice);

  const Inputs& inputs_;
  sst::RangeReader reader_;
  std::vector<Stretch> stretches_;
  std::string stored_;           // blocks that the host checks
  exec::HostVector<char> room_;  // what the executor reads, in one piece
};

}  // namespace breccia::compaction
