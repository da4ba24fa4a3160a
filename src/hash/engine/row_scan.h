#pragma once

#include <breccia/hash_store.h>

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "hash/engine/live.h"

namespace breccia::hash {

/// Errors  InvalidArgument: a size that rows do not have.
[[nodiscard]] Status check_row_bytes(std::size_t row_bytes);

/// The id that a record has as its key.
[[nodiscard]] std::uint64_t id_of(const std::byte* record);

/// Payloads of the rows of a range that count at one moment, some at a time.
/// Owner   `state` lives longer.
/// Threads one.
class LiveRows {
 public:
  LiveRows(State* state, const RowRange& range, std::uint64_t records_at_once);

  /// More of them; none at the end.
  /// Errors  as LiveRecords::next.
  [[nodiscard]] Status next(std::vector<std::uint64_t>* payload);
  /// Copies rows of payloads, and their ids.
  /// Shape   ids[payload.size()], rows[payload.size() * row_bytes]
  /// Errors  MemoryLimit.
  [[nodiscard]] Status copy(std::span<const std::uint64_t> payload, std::uint64_t* ids,
                            char* rows) const;
  [[nodiscard]] const LiveRecords& records() const { return records_; }

 private:
  const RowRange range_;
  LiveRecords records_;
};

/// RowScan over a store.
class EngineRowScan final : public RowScan {
 public:
  /// `check`: whether the store is still open.
  EngineRowScan(const RowRange& range, LiveRows rows, std::function<Status()> check)
      : range_(range), rows_(std::move(rows)), check_(std::move(check)) {}

  Status Next(std::size_t count_max, std::uint64_t* ids, void* rows, std::size_t* count) override;
  [[nodiscard]] std::uint64_t Position() const override { return rows_.records().position(); }

 private:
  Status take(std::size_t count_max, std::uint64_t* ids, char* rows, std::size_t* count);

  const RowRange range_;
  LiveRows rows_;
  const std::function<Status()> check_;
  std::vector<std::uint64_t> found_;  // payloads, up to taken_ of which were given out
  std::size_t taken_ = 0;
  bool is_over_ = false;
  Status failed_;
};

}  // namespace breccia::hash
