#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "hash/engine/state.h"
#include "record/operations.h"
#include "wal/log_options.h"

namespace breccia::hash {

/// The records that count at one moment, found while the store goes on.
///
/// It goes through the log up to that moment, and asks the map, as it is by then, for the newest
/// record of each key:
///
///   the record itself    it counts
///   another one of then  it does not count
///   a later one, or none  put aside: the key was written, or deleted, since, or copied by the
///                        cleaner
///
/// What the map says of a key is a later one, or none, from some time on and for good. So of what
/// is put aside of a key the newest is the newest of then, and if that is a put it counts. Nobody
/// waits for it, and it takes 16 bytes for each key that was written since or deleted.
///
/// Owner   `state` lives longer. What lies in the view's segments stays in memory as long as this.
/// Threads one.
class LiveRecords {
 public:
  /// Whether a key is asked for.
  using Wants = std::function<bool(const Slice& key)>;

  /// Asks the map for so many records at a time.
  static constexpr std::uint64_t kRecordsAtOnce = 64 << 10;

  LiveRecords(State* state, View view, std::uint64_t records_at_once, Wants wants);

  /// Appends payloads of records that count: some, or none at the end. Each key's is there once.
  /// Errors  those of State::newest; Corruption: of the log.
  [[nodiscard]] Status next(std::vector<std::uint64_t>* payload);

  [[nodiscard]] const wal::SegmentTable& table() const { return *view_.table; }
  [[nodiscard]] const wal::SegmentTablePtr& table_ptr() const { return view_.table; }
  /// The moment, as a position.
  [[nodiscard]] std::uint64_t position() const { return view_.end; }
  [[nodiscard]] const std::byte* record(std::uint64_t payload) const {
    return view_.table->at(record::position_of(payload));
  }

 private:
  Status read_frames();
  bool read_records(Entries* records);
  Status sort_out(const Entries& records, std::vector<std::uint64_t>* payload);
  void reduce_aside();
  void take_from_aside(std::vector<std::uint64_t>* payload);

  State* const state_;
  const View view_;
  const std::uint64_t records_at_once_;
  const Wants wants_;
  std::uint64_t from_;                       // frames below it were read
  std::vector<wal::RecoveredFrame> frames_;  // read, and gone through up to:
  std::size_t frame_ = 0;
  std::uint32_t record_ = 0;  // of that frame
  std::uint64_t offset_ = 0;  // of that record
  bool is_log_read_ = false;
  Entries aside_;
  std::uint64_t reduce_at_;  // entries of aside_
  bool is_done_ = false;
};

}  // namespace breccia::hash
