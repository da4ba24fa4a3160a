#include "wal/read/changes.h"

#include <algorithm>
#include <vector>

#include "base/assert.h"
#include "base/clock.h"
#include "base/memory.h"
#include "record/operations.h"
#include "wal/frame.h"
#include "wal/recovery.h"

namespace breccia::wal {

namespace {

/// Ends a hold on the log.
class Hold {
 public:
  Hold(Log* log, std::uint64_t position, std::uint64_t bytes_max)
      : log_(log), id_(log->add_hold(position, bytes_max)) {}
  ~Hold() { log_->remove_hold(id_); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

  void move(std::uint64_t position) { log_->move_hold(id_, position); }

 private:
  Log* log_;
  std::uint64_t id_;
};

Change::Kind kind_of(record::Op op) {
  BRECCIA_ASSERT(op != record::Op::kFamily);  // the name of a family is no operation
  switch (op) {
    case record::Op::kDelete:
      return Change::Kind::kDelete;
    case record::Op::kMerge:
      return Change::Kind::kMerge;
    case record::Op::kSingleDelete:
      return Change::Kind::kSingleDelete;
    case record::Op::kDeleteRange:
      return Change::Kind::kDeleteRange;
    case record::Op::kPut:
    case record::Op::kFamily:
      break;
  }
  return Change::Kind::kPut;
}

class LogChanges final : public ChangeStream {
 public:
  LogChanges(const ChangeSource& source, std::uint64_t from, const ChangesOptions& options)
      : source_(source), options_(options), hold_(source.log, from, options.hold_bytes_max) {}

  /// Goes to `from`. `exactly`: a batch must begin or end there, else the first that ends behind it
  /// is next.
  Status start(std::uint64_t from, bool exactly) {
    if (from == 0) exactly = false;
    if (!exactly) from = std::max(from, source_.log->oldest());
    const std::uint64_t visible = source_.commits->visible();
    if (from > visible) return behind_the_end(from, visible);
    BRECCIA_TRY(go_to_segment(from));
    return go_to_frame(from, exactly);
  }

  Status Next(std::uint64_t wait_us) override {
    return base::or_memory_limit([&] { return go_on(wait_us); });
  }
  [[nodiscard]] bool Valid() const override { return valid_; }
  [[nodiscard]] std::span<const Change> changes() const override { return changes_; }
  [[nodiscard]] std::uint64_t begin() const override { return begin_; }
  [[nodiscard]] std::uint64_t position() const override { return position_; }

 private:
  Status go_on(std::uint64_t wait_us) {
    valid_ = false;
    const auto deadline = base::deadline_after(wait_us);
    while (true) {
      if (position_ >= limit()) {
        const auto more = [this] { return position_ < limit(); };
        if (!source_.commits->wait_until(deadline, more)) return Status::TimedOut("no new batch");
      }
      FrameHeader header;
      BRECCIA_TRY(read_header(&header));
      if (header.flags != kFrameCloses) return take(header);
      const std::uint64_t next = segment_->end();
      BRECCIA_TRY(go_to_segment(next));
      BRECCIA_ASSERT(segment_->base == next);
      hold_.move(position_);
    }
  }

  /// Positions below which the stream may see.
  [[nodiscard]] std::uint64_t limit() const {
    const std::uint64_t visible = source_.commits->visible();
    return options_.only_synced ? std::min(visible, source_.log->synced()) : visible;
  }

  static Status behind_the_end(std::uint64_t position, std::uint64_t end) {
    return Status::InvalidArgument(
        "position " + std::to_string(position) + " lies behind the log's end at " +
            std::to_string(end),
        "it belongs to another store, or to batches that a power cut took back");
  }

  static Status no_batch(std::uint64_t position) {
    return Status::InvalidArgument(
        "no batch begins or ends at position " + std::to_string(position),
        "use a position that a stream of this store gave");
  }

  /// To the first frame of the segment that holds `position`.
  Status go_to_segment(std::uint64_t position) {
    BRECCIA_TAKE(SegmentPtr segment, source_.log->segment_at(position));
    BRECCIA_ASSERT(segment->base <= position);
    SegmentView view{segment->base, segment->size, segment->file->image(), segment->path,
                     segment->size};
    std::uint64_t store_id = 0;
    std::uint64_t first = 0;
    BRECCIA_TRY(check_segment(view, &store_id, &first));
    segment_ = std::move(segment);  // all three or none: Next() may be called again
    view_ = std::move(view);
    position_ = first;
    BRECCIA_ASSERT(segment_->base < position_ && position_ < segment_->end());
    return Status::OK();
  }

  /// From the segment's first frame to the one at `from`; see start().
  Status go_to_frame(std::uint64_t from, bool exactly) {
    while (position_ < from) {
      FrameHeader header;
      if (!header_at(view_, position_, &header)) return no_batch(from);
      const std::uint64_t end = position_ + FrameLayout::of(header).end;
      if (header.flags == kFrameCloses || (!exactly && end > from)) break;
      position_ = end;
      BRECCIA_ASSERT(position_ + kClosingFrameBytes <= view_.end());
    }
    return position_ == from || !exactly ? Status::OK() : no_batch(from);
  }

  Status read_header(FrameHeader* header) {
    BRECCIA_ASSERT(view_.base < position_ && position_ < view_.end());
    if (header_at(view_, position_, header)) {
      const char* const fault = frame_fault(view_.at(position_), *header);
      if (fault == nullptr) return Status::OK();
      return damaged(fault);
    }
    return damaged("has no intact header");
  }

  Status damaged(const char* fault) const {
    return Status::Corruption(view_.path + ", offset " + std::to_string(position_ - view_.base) +
                                  ": the frame here " + fault,
                              "take a copy of the store, and begin a stream where it ends");
  }

  Status take(const FrameHeader& header) {
    const auto layout = FrameLayout::of(header);
    changes_.clear();
    record::for_each_operation(
        view_.at(position_) + layout.records, header.record_count,
        [this](const record::Operation& one) {
          changes_.push_back({kind_of(one.op), one.family, one.key, one.value});
        });
    BRECCIA_ASSERT(changes_.size() <= header.record_count);
    begin_ = position_;
    position_ += layout.end;
    BRECCIA_ASSERT(position_ <= limit());  // batches are visible, and synced, as a whole
    valid_ = true;
    return Status::OK();
  }

  const ChangeSource source_;
  const ChangesOptions options_;
  Hold hold_;
  SegmentPtr segment_;  // of position_, kept in memory
  SegmentView view_;
  std::uint64_t position_ = 0;
  std::uint64_t begin_ = 0;
  bool valid_ = false;
  std::vector<Change> changes_;
};

Result<std::unique_ptr<ChangeStream>> open_stream(const ChangeSource& source, std::uint64_t from,
                                                  bool exactly, const ChangesOptions& options) {
  // The hold comes first: nothing is released between here and the first batch.
  const std::uint64_t held = from == 0 ? source.log->oldest() : from;
  auto stream = std::make_unique<LogChanges>(source, held, options);
  BRECCIA_TRY(stream->start(from, exactly));
  return std::unique_ptr<ChangeStream>(std::move(stream));
}

}  // namespace

Result<std::unique_ptr<ChangeStream>> open_changes(const ChangeSource& source, std::uint64_t from,
                                                   const ChangesOptions& options) {
  return open_stream(source, from, /*exactly=*/true, options);
}

Result<std::unique_ptr<ChangeStream>> open_changes_at(const ChangeSource& source,
                                                      std::uint64_t position,
                                                      const ChangesOptions& options) {
  return open_stream(source, position == 0 ? 0 : position - 1, /*exactly=*/false, options);
}

}  // namespace breccia::wal
