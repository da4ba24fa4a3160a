#include "hash/engine/live.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/assert.h"
#include "record/record.h"
#include "wal/read/walk.h"

namespace breccia::hash {

namespace {

/// Entries aside, in pieces, that are worth a look for those that are not needed.
constexpr std::uint64_t kReducePieces = 16;

}  // namespace

LiveRecords::LiveRecords(State* state, View view, std::uint64_t records_at_once, Wants wants)
    : state_(state),
      view_(std::move(view)),
      records_at_once_(records_at_once),
      wants_(std::move(wants)),
      from_(view_.table->segments().front()->base),
      reduce_at_(kReducePieces * records_at_once) {}

Status LiveRecords::next(std::vector<std::uint64_t>* payload) {
  const std::size_t before = payload->size();
  while (!is_log_read_) {
    Entries records;
    while (records.count() < records_at_once_) {
      if (read_records(&records)) continue;
      BRECCIA_TRY(read_frames());
      if (frames_.empty()) break;
    }
    is_log_read_ = records.count() < records_at_once_;
    BRECCIA_TRY(sort_out(records, payload));
    if (payload->size() > before) return Status::OK();
  }
  if (!is_done_) take_from_aside(payload);
  is_done_ = true;
  return Status::OK();
}

/// The next frames of the view; none at its end.
Status LiveRecords::read_frames() {
  frames_.clear();
  frame_ = 0;
  std::uint64_t records = 0;
  // To end a walk is no error, so it has a code that a walk does not end with by itself.
  const Status walked = wal::walk_frames(
      *view_.table, from_, view_.end, [&](const wal::RecoveredFrame& frame, std::uint64_t end) {
        BRECCIA_ASSERT(frame.only_default_points && frame.record_count > 0);
        frames_.push_back(frame);
        from_ = end;
        records += frame.record_count;
        return records < records_at_once_ ? Status::OK() : Status::Incomplete();
      });
  return walked.IsIncomplete() ? Status::OK() : base::copy_of(walked);
}

/// Goes through the rest of a frame, or as much as there is room for. False: there is none.
bool LiveRecords::read_records(Entries* records) {
  if (frame_ == frames_.size()) return false;
  const wal::RecoveredFrame& frame = frames_[frame_];
  for (; record_ < frame.record_count && records->count() < records_at_once_; ++record_) {
    const std::byte* const record = frame.records + offset_;
    const record::RecordHeader header = record::record_header(record);
    const Slice key = key_of(record);
    if (wants_(key)) {
      records->add(state_->numbering().of(key),
                   (frame.records_position + offset_) | static_cast<std::uint64_t>(header.op()));
    }
    offset_ += header.record_bytes();
  }
  if (record_ < frame.record_count) return true;
  ++frame_;
  record_ = 0;
  offset_ = 0;
  return true;
}

Status LiveRecords::sort_out(const Entries& records, std::vector<std::uint64_t>* payload) {
  if (records.count() == 0) return Status::OK();
  std::vector<std::uint64_t> newest(records.count());
  BRECCIA_TRY(state_->newest(records, *view_.table, newest.data()));
  for (std::uint64_t i = 0; i < records.count(); ++i) {
    const std::uint64_t one = records.payload[i];
    if (newest[i] == 0 || record::position_of(newest[i]) >= view_.end) {
      aside_.add(records.number[i], one);
    } else if (newest[i] == one && record::op_of(one) == record::Op::kPut) {
      payload->push_back(one);
    }
  }
  if (aside_.count() >= reduce_at_) {
    reduce_aside();
    reduce_at_ = std::max(reduce_at_, 2 * aside_.count());
  }
  return Status::OK();
}

/// Leaves the newest entry of each key.
void LiveRecords::reduce_aside() {
  std::vector<std::uint64_t> order(aside_.count());
  std::iota(order.begin(), order.end(), std::uint64_t{0});
  std::sort(order.begin(), order.end(), [&](std::uint64_t a, std::uint64_t b) {
    return std::pair(aside_.number[a], aside_.payload[b]) <
           std::pair(aside_.number[b], aside_.payload[a]);
  });
  Entries left;
  std::size_t same = 0;  // the first entry of the same number
  for (const std::uint64_t i : order) {
    if (same == left.count() || left.number[same] != aside_.number[i]) same = left.count();
    // Mostly there is one: few numbers are of several keys.
    const Slice key = key_of(record(aside_.payload[i]));
    const bool is_older =
        std::any_of(left.payload.begin() + static_cast<std::ptrdiff_t>(same), left.payload.end(),
                    [&](std::uint64_t newer) { return key_of(record(newer)) == key; });
    if (!is_older) left.add(aside_.number[i], aside_.payload[i]);
  }
  aside_ = std::move(left);
}

void LiveRecords::take_from_aside(std::vector<std::uint64_t>* payload) {
  reduce_aside();
  const auto begin = static_cast<std::ptrdiff_t>(payload->size());
  for (const std::uint64_t one : aside_.payload) {
    if (record::op_of(one) == record::Op::kPut) payload->push_back(one);
  }
  // By their places, as they are read next.
  std::sort(payload->begin() + begin, payload->end());
  aside_.clear();
}

}  // namespace breccia::hash
