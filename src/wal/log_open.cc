#include "wal/log_open.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "base/assert.h"
#include "base/parallel.h"
#include "base/secret.h"
#include "wal/frame.h"
#include "wal/recovery.h"

/// Opening a log.
///
///   1. make and lock the folder, open all segments, read those that reach above `from`
///   2. scan them (recovery.h) and hand the frames over, or let an intake have their records; so
///   far
///      nothing is changed
///   3. remove what a crash left: unfinished files, and segments behind the chain's end
///   4. make the fresh segment, of a file below `from` if there is one
///   5. settle: write again what may not be synced, close the chain's last segment, sync
/// What lies below `from` is kept as far as keep_bytes and hold_from reach; the rest is stock for
/// the pool.

namespace breccia::wal {
namespace {

class Opening {
 public:
  /// `intake`: of the records; null: frames are listed for a replay.
  Opening(const LogOptions& options, std::uint64_t from, LogIntake* intake)
      : options_(options),
        from_(std::max(from, limits::kLogWindowBytes)),
        is_new_(from == 0),
        intake_(intake) {}

  ~Opening() {
    for (OpenFile& open : files_) unmap(std::move(open.file));
  }

  Result<OpenedLog> run(const std::function<Status(const RecoveredFrame&)>& replay,
                        LogRecovery* recovery) {
    BRECCIA_TRY(make_folder(options_.dir));
    BRECCIA_TRY(scan());
    BRECCIA_TRY(check_reach(files_.empty() ? from_ : scan_.end));
    if (files_.empty()) return start_new(recovery);
    BRECCIA_TRY(hand_over(replay, recovery));
    return continue_log();
  }

  Result<ReadLog> read() {
    ReadLog log;
    BRECCIA_TRY(scan());
    log.recovery.end = from_;
    if (!files_.empty()) {
      BRECCIA_TRY(hand_over(
          [&](const RecoveredFrame& frame) {
            log.frames.push_back(frame);
            return Status::OK();
          },
          &log.recovery));
    }
    log.store_id = scan_.store_id;
    for (OpenFile& open : files_) {
      const std::uint64_t size = open.file->size();
      log.segments.push_back(std::make_shared<Segment>(
          Segment{open.base, size, std::move(open.path), std::move(open.file)}));
    }
    files_.clear();
    log.lock = std::move(lock_);
    return log;
  }

  Result<std::uint64_t> identity() {
    BRECCIA_TAKE(lock_, options_.files->lock(options_.dir));
    BRECCIA_TRY(find());
    if (files_.empty()) return std::uint64_t{0};
    std::uint64_t store_id = 0;
    std::uint64_t first = 0;
    BRECCIA_TRY(check_segment(header_of(files_.back()), &store_id, &first));
    return store_id;
  }

 private:
  /// Makes the folder and those above it that are missing, each durable before there is one in it.
  /// So of those that an earlier process has made, only the deepest may not be durable.
  Status make_folder(const std::string& dir) {
    const std::string above = folder_above(dir);
    auto made = options_.files->create_dir(dir);
    if (made.status().IsNotFound()) {
      BRECCIA_TRY(make_folder(above));
      BRECCIA_TRY(options_.files->create_dir(dir).status());
    } else {
      BRECCIA_TRY(made.status());
      BRECCIA_TRY(sync_found(made.value() ? above : dir));
      if (!made.value()) return Status::OK();
    }
    return options_.files->sync_dir(above);
  }

  /// Makes the name of a folder durable that was there. One that lies where this user may not read
  /// is another's.
  Status sync_found(const std::string& dir) {
    const Status synced = options_.files->sync_dir(folder_above(dir));
    return synced.IsNotSupported() ? Status::OK() : synced;
  }

  /// Locks the folder and says what lies in it.
  /// Errors  as Log::open.
  Status scan() {
    BRECCIA_TAKE(lock_, options_.files->lock(options_.dir));
    BRECCIA_TRY(find());
    if (files_.empty()) return is_new_ ? Status::OK() : missing();
    BRECCIA_TRY(load());
    BRECCIA_TRY(check_identity());
    if (needed_ == files_.size()) return scan_released();
    BRECCIA_TAKE(scan_, scan_log(views_, from_, intake_));
    return Status::OK();
  }

  [[nodiscard]] Status missing() const {
    return Status::Corruption(
        options_.dir + ": the log is missing, and position " + std::to_string(from_) +
            " of it is needed",
        "Nothing was changed. Restore the log folder from a copy, or restore the database from "
        "a backup.");
  }

  struct OpenFile {
    std::uint64_t base = 0;
    std::string path;
    std::unique_ptr<SegmentFile> file;

    [[nodiscard]] std::uint64_t end() const { return base + file->size(); }
  };

  /// Opens all segments; sets needed_ to the first that reaches above from_.
  Status find() {
    BRECCIA_TAKE(const auto names, options_.files->list(options_.dir));
    for (const std::string& name : names) {
      if (is_unfinished_name(name)) unfinished_.push_back(path_of(name));
      const std::optional<std::uint64_t> base = segment_base(name);
      if (base) files_.push_back({*base, path_of(name), nullptr});
    }
    std::sort(files_.begin(), files_.end(),
              [](const OpenFile& a, const OpenFile& b) { return a.base < b.base; });
    for (OpenFile& open : files_) {
      BRECCIA_TAKE(open.file, options_.files->open(open.path));
      if (options_.on_map) options_.on_map(open.file->image(), open.file->size());
      const std::uint64_t size = open.file->size();
      if (size == 0 || size % limits::kLogWindowBytes != 0 ||
          open.base % limits::kLogWindowBytes != 0 || open.base == 0 || open.end() < open.base) {
        return Status::Corruption(open.path + ": the file's name or length is not a segment's",
                                  "Nothing was changed. Restore the log folder from a copy.");
      }
    }
    const auto needed = std::find_if(files_.begin(), files_.end(),
                                     [&](const OpenFile& open) { return open.end() > from_; });
    needed_ = static_cast<std::size_t>(needed - files_.begin());
    return Status::OK();
  }

  /// A segment of which only the header is known.
  static SegmentView header_of(const OpenFile& open) {
    BRECCIA_ASSERT(open.file != nullptr);
    return {open.base, open.file->size(), open.file->image(), open.path, kOpenedBytes};
  }

  /// Reads the needed segments. If none is needed, the newest, whose header knows the store.
  Status load() {
    BRECCIA_ASSERT(!files_.empty() && needed_ <= files_.size());
    const std::size_t first = std::min(needed_, files_.size() - 1);
    std::vector<Status> statuses(files_.size() - first);
    views_.resize(statuses.size());
    base::parallel_for(std::size_t{0}, statuses.size(), [&](std::size_t index) {
      const OpenFile& open = files_[first + index];
      auto used = open.file->load();
      statuses[index] = used.status();
      if (!used.ok()) return;
      views_[index] = {open.base, open.file->size(), open.file->image(), open.path, used.value()};
    });
    for (const Status& status : statuses) BRECCIA_TRY(status);
    return Status::OK();
  }

  /// Before the scan, which would take a foreign log for a damaged one.
  Status check_identity() {
    BRECCIA_ASSERT(!views_.empty());
    std::uint64_t store_id = 0;
    std::uint64_t first = 0;
    // A header that is not intact is the scan's to report.
    const bool is_known = check_segment(views_.front(), &store_id, &first).ok();
    if (options_.store_id == 0 || !is_known || store_id == options_.store_id) return Status::OK();
    return Status::Corruption(
        options_.dir + ": the log in this folder belongs to another store",
        "Nothing was changed. Set Options::wal_dir to the folder of this store's own log; a new "
        "store's is empty.");
  }

  /// All frames lie below from_: there is nothing to replay, only the store's identity to keep.
  Status scan_released() {
    BRECCIA_ASSERT(views_.size() == 1);
    std::uint64_t first = 0;
    BRECCIA_TRY(check_segment(views_.back(), &scan_.store_id, &first));
    scan_.end = from_;
    return Status::OK();
  }

  [[nodiscard]] Status check_reach(std::uint64_t end) const {
    if (end >= options_.needed_end) return Status::OK();
    return Status::Corruption(options_.dir + ": the log ends at position " + std::to_string(end) +
                                  ", and what was written up to " +
                                  std::to_string(options_.needed_end) + " is needed",
                              "Nothing was changed. Restore the log folder from a copy.");
  }

  Status hand_over(const std::function<Status(const RecoveredFrame&)>& replay,
                   LogRecovery* recovery) {
    recovery->end = scan_.end;
    recovery->dropped_bytes = scan_.dropped_bytes;
    recovery->message = scan_.message;
    recovery->joins = scan_.joins;
    recovery->frames = scan_.frame_count;
    recovery->entries = scan_.entries;
    recovery->bytes = scan_.record_bytes;
    for (const std::byte* const at : scan_.frames) {
      const RecoveredFrame frame = recovered_frame(at);
      BRECCIA_ASSERT(frame.records_position + frame.record_bytes < scan_.end);
      BRECCIA_TRY(replay(frame));
    }
    return Status::OK();
  }

  Result<OpenedLog> start_new(LogRecovery* recovery) {
    BRECCIA_ASSERT(is_new_ && segments_.empty());
    const std::uint64_t store_id = options_.store_id != 0 ? options_.store_id : draw_store_id();
    pool_ = std::make_shared<SegmentPool>(options_, store_id);
    remove_unfinished();
    BRECCIA_TRY(make_fresh(from_));
    recovery->end = end_;
    BRECCIA_TRY(pool_->stock(options_.preallocate_bytes));
    return result();
  }

  Result<OpenedLog> continue_log() {
    pool_ = std::make_shared<SegmentPool>(options_, scan_.store_id);
    remove_unfinished();
    const bool any_needed = needed_ < files_.size();
    std::size_t kept = files_.size();
    if (any_needed) kept = needed_ + scan_.last_segment + (scan_.last_is_empty ? 0 : 1);
    std::uint64_t fresh = from_ - from_ % limits::kLogWindowBytes;
    if (any_needed) fresh = kept < files_.size() ? files_[kept].base : files_.back().end();
    BRECCIA_ASSERT(needed_ <= kept && kept <= files_.size());
    BRECCIA_ASSERT(fresh % limits::kLogWindowBytes == 0);
    BRECCIA_TRY(discard(kept, fresh));
    BRECCIA_ASSERT(files_.size() == kept);
    // Files below from_ may serve as the fresh segment: their frames bear lower positions. What
    // was discarded may not, since the positions in it will be used again. Nor may the newest:
    // until the fresh one is there, its header is the log's identity.
    const std::size_t newest = files_.size() - 1;
    // The one that was needed may be discarded: it held nothing, and the fresh one takes its place.
    const bool any_stays = needed_ < files_.size();
    const std::size_t first_kept = first_to_keep(any_stays ? files_[needed_].base : fresh);
    BRECCIA_ASSERT(first_kept <= needed_);
    for (std::size_t index = 0; index < std::min(needed_, newest); ++index) {
      if (index < first_kept) give_away(index);
    }
    BRECCIA_TRY(make_fresh(fresh));
    if (!any_needed && newest < first_kept) give_away(newest);
    for (std::size_t index = first_kept; index < needed_; ++index) {
      OpenFile& open = files_[index];
      BRECCIA_ASSERT(released_.empty() || released_.back().end == open.base);
      released_.push_back({open.base, open.end(), open.path});
      unmap(std::move(open.file));
    }
    for (std::size_t index = needed_; index < kept; ++index) {
      OpenFile& open = files_[index];
      segments_.insert(segments_.end() - 1,
                       pool_->adopt(open.base, open.path, std::move(open.file)));
    }
    BRECCIA_ASSERT(segments_.size() == kept - needed_ + 1);
    BRECCIA_TRY(settle());
    pool_->trim();
    BRECCIA_TRY(pool_->stock(options_.preallocate_bytes));
    return result();
  }

  /// Index of the oldest file below `below`, where the files that are needed begin, to keep: from
  /// there on there is no gap, and options_.keep_bytes or hold_from reach down to it.
  [[nodiscard]] std::size_t first_to_keep(std::uint64_t below) const {
    std::size_t first = needed_;
    while (first > 0 && files_[first - 1].end() == below && is_to_keep(files_[first - 1])) {
      below = files_[--first].base;
    }
    return first;
  }

  [[nodiscard]] bool is_to_keep(const OpenFile& open) const {
    const std::uint64_t behind = scan_.end - std::min(open.end(), scan_.end);
    const bool is_held = options_.hold_from != 0 && open.end() > options_.hold_from;
    if (behind >= options_.keep_bytes && !is_held) return false;
    // A crash may have left one that was about to become another segment.
    std::uint64_t store_id = 0;
    std::uint64_t first = 0;
    const bool is_whole = check_segment(header_of(open), &store_id, &first).ok();
    return is_whole && store_id == scan_.store_id;
  }

  void give_away(std::size_t index) {
    BRECCIA_ASSERT(index < needed_);
    pool_->give(files_[index].path, std::move(files_[index].file));
  }

  void remove_unfinished() {
    for (const std::string& path : unfinished_) pool_->discard(path);
  }

  /// Removes segments from the newest down to files_[kept], each durably before the next, so that
  /// a crash leaves no gap. The one with base `fresh` stays until the fresh one takes its place.
  Status discard(std::size_t kept, std::uint64_t fresh) {
    // An earlier process may have been killed behind a removal, before that was durable.
    if (files_.size() > kept) BRECCIA_TRY(options_.files->sync_dir(options_.dir));
    while (files_.size() > kept) {
      OpenFile& open = files_.back();
      if (open.base != fresh) {
        BRECCIA_TRY(options_.files->remove(open.path));
        BRECCIA_TRY(options_.files->sync_dir(options_.dir));
      }
      unmap(std::move(open.file));
      files_.pop_back();
    }
    return Status::OK();
  }

  Status make_fresh(std::uint64_t base) {
    end_ = base + sizeof(SegmentHeader);
    if (from_ > end_) end_ = base::round_up(from_, 64);
    std::uint64_t size = options_.segment_bytes;
    // If from_ lies near the end of its window, the segment takes one window more.
    while (end_ + 2 * kClosingFrameBytes > base + size) size += limits::kLogWindowBytes;
    BRECCIA_ASSERT(segments_.empty());
    BRECCIA_TAKE(SegmentPtr made, pool_->make(base, end_, size));
    segments_.push_back(std::move(made));
    return Status::OK();
  }

  /// Makes durable what was replayed, since new frames will say it is, and closes its last segment.
  /// Part of it may be in the page cache alone, and clean there: the sync of an earlier process had
  /// failed, and the kernel forgets. Only what is written again is sure to be synced. What the
  /// frames themselves say was synced needs none of this.
  Status settle() {
    if (segments_.size() == 1) return Status::OK();
    BRECCIA_ASSERT(segments_.size() - 1 <= scan_.chain.size());
    const Segment& last = *segments_[segments_.size() - 2];
    const bool has_closing_frame = scan_.last_is_empty;
    if (!has_closing_frame) {
      BRECCIA_ASSERT(last.base < scan_.end && scan_.end + kClosingFrameBytes <= last.end());
      write_closing_frame(last.file->image() + (scan_.end - last.base), scan_.end, 0);
      scan_.chain[segments_.size() - 2].end += kClosingFrameBytes;
    }
    for (std::size_t index = 0; index + 1 < segments_.size(); ++index) {
      const LogScan::Extent& extent = scan_.chain[index];
      BRECCIA_ASSERT(segments_[index]->base < extent.begin && extent.begin <= extent.end);
      BRECCIA_ASSERT(extent.end <= segments_[index]->end());
      BRECCIA_TRY(write_again(*segments_[index], std::max(extent.begin, scan_.synced), extent.end));
    }
    return Status::OK();
  }

  static Status write_again(const Segment& segment, std::uint64_t from, std::uint64_t to) {
    if (from >= to) return Status::OK();
    BRECCIA_ASSERT(from >= segment.base + sizeof(SegmentHeader) && to <= segment.end());
    BRECCIA_TRY(segment.file->wake(segment.path));
    BRECCIA_TRY(segment.file->write(from - segment.base, to - from));
    BRECCIA_TRY(segment.file->sync(from - segment.base, to - from));
    segment.file->rest();
    return Status::OK();
  }

  Result<OpenedLog> result() {
    BRECCIA_ASSERT(lock_ != nullptr && pool_->store_id() != 0);
    BRECCIA_ASSERT(segments_.back()->base < end_ && end_ < segments_.back()->end());
    return OpenedLog{std::move(lock_),     std::move(pool_),      std::move(segments_),
                     std::move(released_), std::min(from_, end_), end_};
  }

  [[nodiscard]] std::string path_of(const std::string& name) const {
    return options_.dir + "/" + name;
  }

  void unmap(std::unique_ptr<SegmentFile> file) {
    if (file == nullptr) return;
    if (options_.on_unmap) options_.on_unmap(file->image());
  }

  const LogOptions& options_;
  const std::uint64_t from_;
  const bool is_new_;
  LogIntake* const intake_;
  std::unique_ptr<FolderLock> lock_;  // Before the files: they close under it.
  std::vector<OpenFile> files_;
  std::vector<std::string> unfinished_;
  std::size_t needed_ = 0;
  std::vector<SegmentView> views_;
  LogScan scan_;
  std::shared_ptr<SegmentPool> pool_;
  std::vector<SegmentPtr> segments_;
  std::vector<KeptSegment> released_;
  std::uint64_t end_ = 0;
};

}  // namespace

std::uint64_t draw_store_id() {
  // Odd, as 0 stands for none.
  return base::draw_secret_word() | 1;
}

Result<OpenedLog> open_log(const LogOptions& options, std::uint64_t from,
                           const std::function<Status(const RecoveredFrame&)>& replay,
                           LogRecovery* recovery) {
  *recovery = LogRecovery();
  return Opening(options, from, nullptr).run(replay, recovery);
}

Result<OpenedLog> open_log(const LogOptions& options, std::uint64_t from, LogIntake* intake,
                           LogRecovery* recovery) {
  BRECCIA_ASSERT(intake != nullptr);
  *recovery = LogRecovery();
  const auto no_list = [](const RecoveredFrame&) { return Status::OK(); };
  return Opening(options, from, intake).run(no_list, recovery);
}

Result<ReadLog> read_log(const LogOptions& options, std::uint64_t from) {
  return Opening(options, from, nullptr).read();
}

Result<std::uint64_t> log_identity(const std::string& dir) {
  return log_identity(dir, read_only_files());
}

Result<std::uint64_t> log_identity(const std::string& dir, const std::shared_ptr<Files>& files) {
  LogOptions options;
  options.dir = dir;
  options.files = files->for_looking();
  return Opening(options, 0, nullptr).identity();
}

}  // namespace breccia::wal
