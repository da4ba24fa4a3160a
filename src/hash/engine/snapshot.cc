#include "hash/engine/snapshot.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/memory.h"
#include "hash/engine/engine.h"
#include "hash/engine/mark.h"
#include "hash/engine/step.h"
#include "record/record.h"
#include "wal/log.h"
#include "wal/log_open.h"

namespace breccia::hash {

namespace {

/// Bytes of a frame, unless one record has more.
constexpr std::uint64_t kFrameBytes = 4 << 20;

/// A log that one thread fills with puts.
class PutsLog {
 public:
  PutsLog(std::unique_ptr<wal::Log> log, std::uint64_t sync_bytes)
      : log_(std::move(log)), sync_bytes_(sync_bytes), synced_(log_->end()) {}

  Status add(const std::byte* record) {
    const record::RecordHeader header = record::record_header(record);
    const std::uint64_t bytes = header.record_bytes();
    BRECCIA_ASSERT(header.op() == record::Op::kPut);
    if (!records_.empty() && records_.size() + bytes > kFrameBytes) BRECCIA_TRY(write());
    records_.insert(records_.end(), record, record + bytes);
    has_gap_ = has_gap_ || header.gap_words() > 0;
    ++count_;
    return Status::OK();
  }
  /// All of it is durable.
  Status finish() {
    if (count_ > 0) BRECCIA_TRY(write());
    return log_->commit(log_->end(), /*sync=*/true);
  }
  [[nodiscard]] const wal::Log& log() const { return *log_; }

 private:
  Status write() {
    BRECCIA_TAKE(wal::Frame frame,
                 log_->reserve(records_.size(), count_, /*descriptor_count=*/0, has_gap_));
    log_->fill(&frame, records_.data());
    log_->seal(&frame);
    records_.clear();
    count_ = 0;
    has_gap_ = false;
    const bool is_much = frame.end() - synced_ >= sync_bytes_;
    BRECCIA_TRY(log_->commit(frame.end(), is_much));
    if (!is_much) return Status::OK();
    synced_ = frame.end();
    // Files stay, as the log keeps what is released; their images go.
    return log_->release_below(synced_);
  }

  const std::unique_ptr<wal::Log> log_;
  const std::uint64_t sync_bytes_;
  std::uint64_t synced_;
  std::vector<std::byte> records_;
  std::uint32_t count_ = 0;
  bool has_gap_ = false;  // one of them
};

/// Whoever opens a log in it makes its name durable.
/// Errors  InvalidArgument: it is there.
Status make_folder(const SnapshotPlace& place) {
  BRECCIA_TAKE(const bool is_new, place.files->create_dir(place.folder));
  if (is_new) return Status::OK();
  return Status::InvalidArgument(place.folder + " is there",
                                 "name a folder that is not; remove one that a snapshot has left "
                                 "which failed");
}

}  // namespace

Status write_snapshot(const SnapshotPlace& place, LiveRecords* records,
                      std::optional<std::uint64_t> step) {
  BRECCIA_TRY(make_folder(place));
  Mark mark{.store_id = wal::draw_store_id()};
  wal::LogOptions options;
  options.dir = place.folder + "/log";
  options.segment_bytes = place.segment_bytes;
  options.keep_bytes = ~std::uint64_t{0};
  options.files = place.files;
  options.roll_bytes = place.roll_bytes;
  options.prepare_ahead = place.prepare_ahead;
  options.store_id = mark.store_id;
  wal::LogRecovery nothing;
  BRECCIA_TAKE(auto log,
               wal::Log::open(
                   options, 0, [](const wal::RecoveredFrame&) { return Status::OK(); }, &nothing));
  mark.from = log->begin();
  std::uint64_t end = 0;
  {
    PutsLog puts(std::move(log), place.segment_bytes);
    std::vector<std::uint64_t> payload;
    do {
      payload.clear();
      BRECCIA_TRY(records->next(&payload));
      for (const std::uint64_t one : payload) BRECCIA_TRY(puts.add(records->record(one)));
    } while (!payload.empty());
    BRECCIA_TRY(puts.finish());
    end = puts.log().end();
  }
  if (step.has_value()) {
    BRECCIA_TRY(StepFile(place.disk, place.folder, mark.store_id).write({*step, end}));
  }
  return MarkFile(place.disk, place.folder).write(mark);
}

Status Engine::Snapshot(const std::string& folder) {
  return base::or_memory_limit([&] {
    BRECCIA_TRY(check_open());
    const std::optional<std::uint64_t> step = FlushedStep();  // before the view: it has its data
    LiveRecords records(state_.get(), state_->view(), ground_.scanned_at_once,
                        [](const Slice& /*key*/) { return true; });
    return write_snapshot({.files = ground_.files,
                           .disk = ground_.disk,
                           .folder = folder,
                           .segment_bytes = options_.log_segment_bytes,
                           .roll_bytes = ground_.roll_bytes,
                           .prepare_ahead = ground_.is_scripted ? 0U : 1U},
                          &records, step);
  });
}

}  // namespace breccia::hash
