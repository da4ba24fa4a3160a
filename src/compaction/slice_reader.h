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
  /// `streams`: what lies in memory, and is checked by the backend, is read when that wants it. A
  /// copy of it that no cache holds would cost twice as much.
  /// Owner   `inputs` and `memory` live longer.
  SliceReader(const Inputs& inputs, exec::HostMemory& memory, bool streams = false)
      : inputs_(inputs), streams_(streams), room_(memory) {}

  /// The blocks that may have keys of a range, each checked and decompressed where that is the
  /// host's work. What it gives lives until the next call.
  /// Errors  those of Table::open_data.
  Status read(std::optional<std::string> begin, std::optional<std::string> end, Slice* slice);

 private:
  enum class Place { kRoom, kStream, kStored };  // stored: what the host checks

  /// Blocks of one file, one behind the other.
  struct Stretch {
    const Inputs::File* file = nullptr;
    std::uint32_t number = 0;  // among the slice's files
    std::size_t first = 0;
    std::size_t last = 0;
    Place place = Place::kRoom;
    std::uint64_t at = 0;  // where its bytes are there
    [[nodiscard]] std::uint64_t begin() const;
    [[nodiscard]] std::uint64_t bytes() const;
  };

  void find(const std::optional<std::string>& begin, const std::optional<std::string>& end,
            Slice* slice);
  static Status check_gaps(const Stretch& stretch);
  [[nodiscard]] Place place_of(const Inputs::File& file) const;
  Status read_stretches();
  /// Reads bytes of the stream.
  [[nodiscard]] Status fill(char* to, std::uint64_t offset, std::uint64_t count) const;
  static void list_plain(const Stretch& stretch, std::uint32_t part, Slice* slice);
  Status unpack(const Stretch& stretch, Slice* slice);

  const Inputs& inputs_;
  const bool streams_;
  sst::RangeReader reader_;
  std::vector<Stretch> stretches_;
  std::uint64_t stream_bytes_ = 0;
  std::string stored_;
  exec::HostVector<char> room_;  // what the executor reads, in one piece
};

}  // namespace breccia::compaction
