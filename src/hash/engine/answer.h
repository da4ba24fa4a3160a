#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "batch/key_order.h"
#include "batch/requests.h"
#include "hash/engine/state.h"

namespace breccia::hash {

/// Room for the results of a batch's lookups, before anything is done.
/// Errors  MemoryLimit.
[[nodiscard]] Status prepare_answers(batch::Requests* requests);

/// Answers lookups of the default family by what was found for them: values are copied from the
/// log by many cores, each record's key compared on the way.
/// Shape   after prepare_answers().
void answer(const Found& found, batch::Requests* requests);

/// Copies values of `row_bytes` out of the log by many cores: found[i] is 1 where that of
/// payload[i] has as many, else 0.
/// Shape   rows[payload.size() * row_bytes], found[payload.size()]
/// Order   rows are written past the caches: a device reads them.
/// Cost    the lines of each row; its record's first one, too, where puts share no header.
void gather_rows(const RowPlaces& places, std::span<const std::uint64_t> payload,
                 std::uint64_t row_bytes, char* rows, std::uint8_t* found);

/// Whether two lookups of the same keys, at two times, say the same.
[[nodiscard]] bool is_unchanged(const record::KeyColumnsRef& keys, const Found& before,
                                const Found& now);

/// Which lookups of a batch have writes of the same batch before them.
class OwnWrites {
 public:
  OwnWrites() : order_(exec::plain_host_memory()) {}

  /// Errors  MemoryLimit.
  [[nodiscard]] Status look(const batch::Writes& writes, const batch::Reads& reads);
  /// Gives those lookups what the writes did.
  /// Shape   behind look(); `position`: of the frame's records.
  void show(const batch::Writes& writes, std::uint64_t position, Found* found) const;

 private:
  batch::KeyOrder order_;
};

}  // namespace breccia::hash
