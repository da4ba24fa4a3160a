#include "wal/log.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/log.h"
#include "base/memory.h"
#include "wal/frame.h"
#include "wal/log_open.h"
#include "wal/segment_pool.h"

/// The running log.
///
///   1. open() takes what log_open has read and repaired: the chain of segments, the last one fresh
///   2. reserve() takes positions at the end of the newest; where they do not fit, the chain rolls:
///      a segment that is durable, prepared ahead or made now, then the closing frame that promises
///      it
///   3. fill() and seal() write a frame into the newest segment's image
///   4. commit() writes what images hold and media do not, oldest first, and syncs what is not in
///      SST files yet; the rest of it only if somebody wants released segments kept
///   5. release_below() takes segments off the chain's other end: to the pool, or among those that
///      are kept for whoever follows the log; from there segment_at() opens them again
///
/// released | kept | chain: begin_ ... synced_ <= written_ <= end_

namespace breccia::wal {
namespace {

/// Segments behind the newest that may hold frames that are not synced.
constexpr std::size_t kUnsyncedSegmentsMax = 128;

/// Segments made ahead where rolls had to wait for one; at most.
constexpr std::size_t kAheadMax = 8;
constexpr std::uint64_t kAheadBytesMax = 512ULL << 20;

/// Makes the next segments before they are needed, so that a roll does not wait for the disk: as
/// many as it was told at first, and twice as many each time that a roll waits all the same.
/// Threads request, take and give_up by one caller at a time.
class Preparer {
 public:
  Preparer(std::shared_ptr<SegmentPool> pool, std::uint64_t size, std::size_t ahead)
      : pool_(std::move(pool)),
        size_(size),
        ahead_least_(ahead),
        ahead_most_(std::max<std::size_t>(ahead, std::min(kAheadMax, kAheadBytesMax / size))),
        ahead_(ahead) {
    BRECCIA_ASSERT(ahead > 0 && size > 0);
    made_.reserve(ahead_most_ + 1);  // from here on nothing wants memory
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }

  /// Asks for segments from `base` on, where the newest one ends.
  void request(std::uint64_t base) {
    BRECCIA_ASSERT(base % limits::kLogWindowBytes == 0);
    {
      const std::lock_guard lock(mutex_);
      // Once per base: a full disk is not asked again with every frame.
      if (asked_ == base) return;
      BRECCIA_ASSERT(asked_ < base && (made_.empty() || made_.front()->base == base));
      asked_ = base;
      if (made_.empty() && !makes()) next_ = base;
      until_ = std::max(until_, base + ahead_ * size_);
    }
    wake_.notify_all();
  }

  /// The segment behind the newest one, or none: nobody asked, or making it failed. Waits for it if
  /// it is to be made.
  SegmentPtr take() {
    std::unique_lock lock(mutex_);
    if (made_.empty() && makes()) {
      ahead_ = std::min(2 * ahead_, ahead_most_);
      wake_.wait(lock, [this] { return !made_.empty() || !makes(); });
    }
    if (made_.empty()) return nullptr;
    SegmentPtr first = std::move(made_.front());
    made_.erase(made_.begin());
    return first;
  }

  /// Takes back what take() gave, or what lies in its place.
  void put_back(SegmentPtr segment) {
    const std::lock_guard lock(mutex_);
    BRECCIA_ASSERT(segment->size == size_ && made_.size() <= ahead_most_);
    BRECCIA_ASSERT(made_.empty() || made_.front()->base == segment->end());
    if (made_.empty() && next_ != segment->end()) next_ = until_ = segment->end();
    made_.insert(made_.begin(), std::move(segment));
  }

  /// All that are made, in order; no more are until somebody asks again.
  std::vector<SegmentPtr> give_up() {
    std::vector<SegmentPtr> all;
    all.reserve(ahead_most_ + 1);
    std::unique_lock lock(mutex_);
    until_ = next_;
    wake_.wait(lock, [this] { return !is_making_; });
    ahead_ = ahead_least_;
    if (!made_.empty()) next_ = made_.front()->base;
    until_ = next_;
    all.swap(made_);
    return all;
  }

 private:
  [[nodiscard]] bool makes() const { return next_ < until_; }

  void run(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (wake_.wait(lock, stop, [this] { return makes() && made_.size() < ahead_most_; }) &&
           !stop.stop_requested()) {
      const std::uint64_t at = next_;
      is_making_ = true;
      lock.unlock();
      // On failure the roll tries again itself and reports what it finds.
      Result<SegmentPtr> made =
          base::or_memory_limit([&] { return pool_->make(at, at + sizeof(SegmentHeader), size_); });
      if (!made.ok()) say_why(made.status());
      lock.lock();
      BRECCIA_ASSERT(next_ == at && (made_.empty() || made_.back()->end() == at));
      is_making_ = false;
      if (made.ok()) {
        made_.push_back(made.take());
        next_ += size_;
      } else {
        until_ = next_;
      }
      wake_.notify_all();
      if (makes()) continue;
      lock.unlock();
      pool_->remove_one_obsolete();
      lock.lock();
    }
    // Nobody takes after the stop, but a request may be open.
    until_ = next_;
  }

  static void say_why(const Status& failed) {
    constexpr const char* kWhat = "no segment of the log is made ahead, batches may wait for one: ";
    base::as_memory_allows([&] { log(LogLevel::kWarning, kWhat + failed.ToString()); });
  }

  const std::shared_ptr<SegmentPool> pool_;
  const std::uint64_t size_;
  const std::size_t ahead_least_;
  const std::size_t ahead_most_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::size_t ahead_;
  std::uint64_t asked_ = 0;
  std::uint64_t next_ = 0;        // where the next one is made,
  std::uint64_t until_ = 0;       // if that is below it
  std::vector<SegmentPtr> made_;  // one behind the other, the last up to next_
  bool is_making_ = false;
  std::jthread thread_;  // Last: it uses all of the above.
};

class LogImpl final : public Log {
 public:
  LogImpl(const LogOptions& options, OpenedLog opened)
      : options_(options),
        lock_(std::move(opened.lock)),
        pool_(std::move(opened.pool)),
        begin_(opened.begin),
        end_(opened.end),
        written_(opened.end),
        synced_(opened.end) {
    for (const SegmentPtr& segment : opened.segments) {
      chain_.push_back({segment, segment->end()});
    }
    for (KeptSegment& one : opened.released) kept_.push_back({std::move(one), {}});
    if (options.hold_from != 0) holds_[++holds_given_] = {options.hold_from, ~std::uint64_t{0}};
    static_assert(kOpeningHold == 1);
    table_ = table_with(nullptr);
    BRECCIA_ASSERT(end_ % 8 == 0 && chain_.back().segment->base < end_);
    BRECCIA_INVARIANT(is_whole() && is_kept_whole());
    if (options_.prepare_ahead > 0) {
      preparer_.emplace(pool_, options_.segment_bytes, options_.prepare_ahead);
    }
  }

  ~LogImpl() override {
    // One that was made ahead stays; an opening would read all of them.
    base::or_memory_limit([&] {
      auto ahead = preparer_ ? preparer_->give_up() : std::vector<SegmentPtr>();
      if (ahead.size() < 2) return Status::OK();
      const std::uint64_t behind_first = ahead[1]->base;
      return pool_->clear_names(behind_first, std::move(ahead));
    }).PermitUncheckedError();
    preparer_.reset();
    pool_->close();
  }

  using Log::reserve;
  [[nodiscard]] Result<Frame> reserve(std::uint64_t record_bytes, std::uint32_t record_count,
                                      std::uint32_t descriptor_count, bool aligned) override;
  using Log::fill;
  void fill(Frame* frame, const RecordSource& records) override;
  void begin_fill(Frame* frame) override;
  void seal(Frame* frame) override;
  [[nodiscard]] Status commit(std::uint64_t end, bool sync) override;
  using Log::release_below;
  Status release_below(std::uint64_t position, std::uint64_t needed_from) override;
  [[nodiscard]] std::uint64_t synced() const override {
    return synced_.load(std::memory_order_acquire);
  }
  std::uint64_t add_hold(std::uint64_t position, std::uint64_t bytes_max) override;
  void move_hold(std::uint64_t hold, std::uint64_t position) override;
  void remove_hold(std::uint64_t hold) override;
  [[nodiscard]] bool keeps() const override {
    const std::lock_guard lock(mutex_);
    return keeps_some();
  }
  [[nodiscard]] std::uint64_t oldest() const override;
  [[nodiscard]] Result<SegmentPtr> segment_at(std::uint64_t position) override;
  [[nodiscard]] Result<SegmentPtr> take_back() override;

  [[nodiscard]] SegmentTablePtr table() const override {
    const std::lock_guard lock(mutex_);
    return table_;
  }
  [[nodiscard]] std::uint64_t end() const override {
    const std::lock_guard lock(mutex_);
    return end_;
  }
  [[nodiscard]] std::uint64_t begin() const override {
    const std::lock_guard lock(mutex_);
    return begin_;
  }

 private:
  /// A segment in use. Its frames end at `end`: behind its closing frame, or, in the newest and in
  /// those of an earlier life of the log, at its own end.
  struct Link {
    SegmentPtr segment;
    std::uint64_t end;
  };
  /// A released segment whose file is kept.
  struct Kept {
    KeptSegment place;
    std::weak_ptr<Segment> open;  // of somebody who reads it now
  };
  struct Hold {
    std::uint64_t position;
    std::uint64_t bytes_max;
  };
  struct Range {
    SegmentPtr segment;
    std::uint64_t offset;
    std::uint64_t bytes;
    bool completes;  // the last bytes that will ever be written to the segment
  };
  struct Positions {
    std::uint64_t from = 0;
    std::uint64_t to = 0;
  };
  /// What a commit does to files.
  struct Work {
    std::vector<Range> writes;
    std::vector<Range> leaves;  // left out of syncs
    std::vector<Range> again;   // was left out, and may have been forgotten by the system since
    std::vector<Range> syncs;
  };

  [[nodiscard]] Status roll(std::uint64_t frame_bytes_max);
  void enter(const SegmentPtr& next, const Segment& last);
  [[nodiscard]] Result<SegmentPtr> next_segment(std::uint64_t base, std::uint64_t size);
  [[nodiscard]] bool fits(const Frame& frame) const;
  [[nodiscard]] std::vector<Range> ranges(std::uint64_t from, std::uint64_t to) const;
  [[nodiscard]] std::uint64_t sync_end(std::uint64_t written, bool sync) const;
  [[nodiscard]] Work work_up_to(std::uint64_t written, std::uint64_t synced, Positions* left_out);
  [[nodiscard]] Status write_out(const Work& work, const Segment& newest);
  [[nodiscard]] SegmentTablePtr table_with(const SegmentPtr& next) const;
  [[nodiscard]] bool keeps_some() const { return options_.keep_bytes > 0 || !holds_.empty(); }
  [[nodiscard]] static Status has_length(const Segment& opened, const KeptSegment& place);
  [[nodiscard]] std::uint64_t wanted_from() const;
  [[nodiscard]] std::vector<std::string> take_unwanted();
  void prepare_if_half_full();
  [[nodiscard]] bool is_whole() const;
  [[nodiscard]] bool is_kept_whole() const;

  const LogOptions options_;
  const std::unique_ptr<FolderLock> lock_;
  const std::shared_ptr<SegmentPool> pool_;

  mutable std::mutex mutex_;  // What follows, up to preparer_; never held during I/O.
  std::deque<Link> chain_;    // The front changes in release_below, the back in reserve.
  SegmentTablePtr table_;
  std::uint64_t begin_;
  std::uint64_t end_;
  std::uint64_t written_;  // All frames below lie on the medium, unless released.
  Status failure_;
  Positions left_out_;     // no sync was asked for: all of it lies in SST files
  std::deque<Kept> kept_;  // below chain_, without gaps
  std::map<std::uint64_t, Hold> holds_;
  std::uint64_t holds_given_ = 0;

  std::atomic<std::uint64_t> synced_;  // All frames below survive a power cut, unless released.
  std::optional<Preparer> preparer_;
};

Result<Frame> LogImpl::reserve(std::uint64_t record_bytes, std::uint32_t record_count,
                               std::uint32_t descriptor_count, bool aligned) {
  BRECCIA_ASSERT(record_bytes % 8 == 0 && record_bytes <= limits::kFrameBytesMax);
  BRECCIA_ASSERT(record_count * sizeof(record::RecordHeader) <= record_bytes);
  BRECCIA_ASSERT(descriptor_count == 0 || descriptor_count == record_count);
  Frame frame;
  frame.flags = aligned || record_count >= kAlignedRecordsMin ? kFrameAligned : 0;
  frame.record_bytes = record_bytes;
  frame.record_count = record_count;
  frame.descriptor_count = descriptor_count;

  std::unique_lock lock(mutex_);
  if (!failure_.ok()) return failure_;
  frame.position = end_;
  if (!fits(frame)) {
    lock.unlock();
    // Whatever the position, alignment adds less than 64 bytes.
    BRECCIA_TRY(roll(frame.layout().end + 64));
    lock.lock();
    frame.position = end_;
  }
  const Segment& segment = *chain_.back().segment;
  BRECCIA_ASSERT(frame.position >= segment.base + sizeof(SegmentHeader));
  frame.at = segment.file->image() + (frame.position - segment.base);
  end_ = frame.end();
  // Devices read the records of such a frame by whole lines.
  BRECCIA_ASSERT((frame.flags & kFrameAligned) == 0 ||
                 reinterpret_cast<std::uintptr_t>(frame.at + frame.layout().records) % 64 == 0);
  BRECCIA_ASSERT(end_ + kClosingFrameBytes <= segment.end());
  prepare_if_half_full();
  return frame;
}

/// True if there is room for the frame and for a closing frame behind it.
bool LogImpl::fits(const Frame& frame) const {
  const Segment& segment = *chain_.back().segment;
  BRECCIA_ASSERT(segment.base < end_ && end_ + kClosingFrameBytes <= segment.end());
  const std::uint64_t used = end_ - segment.base;
  if (options_.roll_bytes != 0 && used >= options_.roll_bytes) return false;
  return frame.layout().end + kClosingFrameBytes <= segment.size - used;
}

void LogImpl::prepare_if_half_full() {
  if (!preparer_) return;
  const Segment& segment = *chain_.back().segment;
  const std::uint64_t full = options_.roll_bytes != 0 ? options_.roll_bytes : segment.size;
  if (end_ - segment.base >= full / 2) preparer_->request(segment.end());
}

/// Closes the newest segment and begins the next. The next one is durable before a closing frame
/// can promise it.
/// Errors  as reserve: the newest segment stays as it is.
Status LogImpl::roll(std::uint64_t frame_bytes_max) {
  const SegmentPtr last = [this] {
    const std::lock_guard lock(mutex_);
    return chain_.back().segment;
  }();
  const std::uint64_t need = sizeof(SegmentHeader) + frame_bytes_max + kClosingFrameBytes;
  const std::uint64_t size =
      std::max(options_.segment_bytes, base::round_up(need, limits::kLogWindowBytes));
  BRECCIA_TAKE(const SegmentPtr next, next_segment(last->end(), size));
  BRECCIA_ASSERT(next->base == last->end() && next->size == size);
  const Status entered = base::or_memory_limit([&] {
    enter(next, *last);
    return Status::OK();
  });
  // It lies where the next roll looks for one. A larger one is nobody's: the next clears its name.
  if (!entered.ok() && preparer_ && size == options_.segment_bytes) preparer_->put_back(next);
  return entered;
}

/// Puts a segment behind the last one and closes that. What needs memory comes first: behind a
/// closing frame there must be a segment.
/// Errors  std::bad_alloc, with nothing changed.
void LogImpl::enter(const SegmentPtr& next, const Segment& last) {
  const std::lock_guard lock(mutex_);
  BRECCIA_ASSERT(chain_.back().segment.get() == &last && end_ + kClosingFrameBytes <= last.end());
  SegmentTablePtr table = table_with(next);
  chain_.push_back({next, next->end()});
  table_ = std::move(table);
  write_closing_frame(last.file->image() + (end_ - last.base), end_, synced_);
  chain_[chain_.size() - 2].end = end_ + kClosingFrameBytes;
  end_ = next->base + sizeof(SegmentHeader);
  BRECCIA_INVARIANT(is_whole());
}

Result<SegmentPtr> LogImpl::next_segment(std::uint64_t base, std::uint64_t size) {
  if (size != options_.segment_bytes) {
    // Whatever was made ahead lies where the larger one is to lie.
    BRECCIA_TRY(
        pool_->clear_names(base, preparer_ ? preparer_->give_up() : std::vector<SegmentPtr>()));
  } else if (preparer_) {
    SegmentPtr prepared = preparer_->take();
    BRECCIA_ASSERT(prepared == nullptr || (prepared->base == base && prepared->size == size));
    if (prepared != nullptr) return prepared;
  }
  return pool_->make(base, base + sizeof(SegmentHeader), size);
}

void LogImpl::fill(Frame* frame, const RecordSource& records) {
  begin_fill(frame);
  frame->checksum = copy_and_sum(frame->at, frame->layout(), records);
}

void LogImpl::begin_fill(Frame* frame) {
  BRECCIA_ASSERT(frame->at != nullptr && reinterpret_cast<std::uintptr_t>(frame->at) % 8 == 0);
  FrameHeader header{};
  header.flags = frame->flags | (frame->mixed ? kFrameMixed : 0);
  header.position = frame->position;
  header.record_bytes = frame->record_bytes;
  header.record_count = frame->record_count;
  header.descriptor_count = frame->descriptor_count;
  header.synced = synced_.load(std::memory_order_acquire);
  // Commits do not pass an unsealed frame.
  BRECCIA_ASSERT(header.synced <= header.position);
  finish(&header);
  std::memcpy(frame->at, &header, sizeof header);
}

void LogImpl::seal(Frame* frame) {
  BRECCIA_ASSERT(frame->position >= synced());
  const FrameLayout layout = frame->layout();
  frame->checksum = sum_descriptors(frame->checksum, frame->at, layout, frame->descriptor_count);
  const CommitRecord commit = make_commit(frame->position, frame->checksum);
  // On a mapped medium a kill may come between any two stores: the record goes last.
  std::atomic_thread_fence(std::memory_order_release);
  std::memcpy(frame->at + layout.commit, &commit, sizeof commit);
  BRECCIA_INVARIANT(is_whole_frame(frame->at, frame->position));
}

/// The frames' bytes in [from, to), one range a segment.
std::vector<LogImpl::Range> LogImpl::ranges(std::uint64_t from, std::uint64_t to) const {
  BRECCIA_ASSERT(from <= to && to <= end_);
  // From the newest on: there may be thousands, and few are asked for.
  std::size_t first = chain_.size() - 1;
  while (first > 0 && chain_[first - 1].end > from) --first;
  std::vector<Range> found;
  for (std::size_t index = first; index < chain_.size(); ++index) {
    const Link& link = chain_[index];
    const std::uint64_t base = link.segment->base;
    const std::uint64_t begin = std::max(from, base + sizeof(SegmentHeader));
    const std::uint64_t end = std::min(to, link.end);
    if (begin >= end) continue;
    const bool completes = end == link.end && index + 1 < chain_.size();
    found.push_back({link.segment, begin - base, end - begin, completes});
  }
  return found;
}

/// Up to where a commit that writes up to `written` syncs: segments that are left behind unsynced
/// hold a descriptor each, so there is a limit to them.
std::uint64_t LogImpl::sync_end(std::uint64_t written, bool sync) const {
  BRECCIA_ASSERT(synced_ <= written && written <= end_);
  if (sync) return written;
  const bool mapped = chain_.back().segment->file->mapped();
  if (mapped || chain_.size() <= kUnsyncedSegmentsMax) return synced_;
  const Link& link = chain_[chain_.size() - 1 - kUnsyncedSegmentsMax];
  return std::max(synced_.load(), std::min(written, link.end));
}

Status LogImpl::commit(std::uint64_t end, bool sync) {
  Work work;
  SegmentPtr newest;
  Positions left_out;
  std::uint64_t written = 0;
  std::uint64_t synced = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.ok()) return failure_;
    BRECCIA_ASSERT(end <= end_);
    BRECCIA_ASSERT(synced_ <= written_ && written_ <= end_);
    written = std::max(written_, end);
    synced = sync_end(written, sync);
    newest = chain_.back().segment;
    work = work_up_to(written, synced, &left_out);
  }
  const Status status = write_out(work, *newest);
  const std::lock_guard lock(mutex_);
  if (!status.ok()) {
    // Not for want of memory: the next call writes and syncs all of it.
    if (!status.IsMemoryLimit()) failure_ = base::copy_of(status);
    return base::copy_of(status);
  }
  BRECCIA_ASSERT(written_ <= written && synced_ <= synced && synced <= written);
  written_ = written;
  left_out_ = left_out;
  synced_.store(synced, std::memory_order_release);
  return status;
}

/// What lies below begin_ survives a power cut in SST files, so no sync asks for it, unless it may
/// be read from its own file when it is released. `left_out`: as left_out_ when all is done.
LogImpl::Work LogImpl::work_up_to(std::uint64_t written, std::uint64_t synced,
                                  Positions* left_out) {
  BRECCIA_ASSERT(left_out_.from <= left_out_.to && left_out_.to <= synced_);
  BRECCIA_ASSERT(begin_ <= end_ && written <= end_);
  const bool keeps = keeps_some();
  const std::uint64_t from = keeps ? synced_.load() : std::clamp(begin_, synced_.load(), synced);
  Work work;
  work.writes = ranges(written_, written);
  work.leaves = ranges(synced_, from);
  work.syncs = ranges(from, synced);
  *left_out = left_out_;
  if (from > synced_) *left_out = {left_out_.to > 0 ? left_out_.from : synced_.load(), from};
  if (keeps && left_out_.to > 0) {
    work.again = ranges(left_out_.from, left_out_.to);
    *left_out = {};
  }
  return work;
}

Status LogImpl::write_out(const Work& work, const Segment& newest) {
  for (const Range& range : work.writes) {
    BRECCIA_ASSERT(range.offset >= sizeof(SegmentHeader) && range.bytes > 0);
    BRECCIA_TRY(range.segment->file->write(range.offset, range.bytes));
  }
  for (const Range& range : work.leaves) {
    if (range.completes) range.segment->file->rest();
  }
  // Only what is written again is sure to be synced: the file may have been at rest.
  for (const Range& range : work.again) {
    SegmentFile& file = *range.segment->file;
    BRECCIA_TRY(file.wake(range.segment->path));
    BRECCIA_TRY(file.write(range.offset, range.bytes));
    BRECCIA_TRY(file.sync(range.offset, range.bytes));
    if (range.segment.get() != &newest) file.rest();
  }
  for (const Range& range : work.syncs) {
    BRECCIA_TRY(range.segment->file->sync(range.offset, range.bytes));
    if (range.completes) range.segment->file->rest();
  }
  return Status::OK();
}

Status LogImpl::release_below(std::uint64_t position, std::uint64_t needed_from) {
  std::vector<SegmentPtr> released;  // Outlives the lock: the last reference may go with it.
  std::vector<std::string> unwanted;
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.ok()) return failure_;
    BRECCIA_ASSERT(position <= end_);
    released.reserve(chain_.size());  // so that each step of the loop is done or not
    begin_ = std::max(begin_, position);
    const std::uint64_t below = std::min(begin_, needed_from);
    // The newest stays: a log without segments would look lost.
    while (chain_.size() > 1 && chain_.front().segment->end() <= below) {
      const Link& link = chain_.front();
      if (link.segment->end() > wanted_from()) {
        // What is kept must be read from its file: if it is not all there yet, the next time.
        if (synced_ < link.end || link.segment->base < left_out_.to) break;
        BRECCIA_ASSERT(kept_.empty() || kept_.back().place.end <= link.segment->base);
        kept_.push_back(
            {{link.segment->base, link.segment->end(), link.segment->path}, link.segment});
        link.segment->keeps_file = true;
      }
      released.push_back(std::move(chain_.front().segment));
      chain_.pop_front();
    }
    // An earlier call may have found no memory for it.
    if (table_->segments().size() != chain_.size()) table_ = table_with(nullptr);
    unwanted = take_unwanted();
    BRECCIA_INVARIANT(is_whole() && is_kept_whole());
  }
  released.clear();
  for (const std::string& path : unwanted) pool_->discard(path);
  pool_->trim();
  return Status::OK();
}

// ---- what is kept ------------------------------------------------------------------------------

/// Position from which on released segments are kept; end_ if none are.
std::uint64_t LogImpl::wanted_from() const {
  std::uint64_t from = end_;
  if (options_.keep_bytes > 0) from = end_ - std::min(end_, options_.keep_bytes);
  for (const auto& [number, hold] : holds_) {
    if (hold.position < from && end_ - hold.position <= hold.bytes_max) from = hold.position;
  }
  BRECCIA_ASSERT(from <= end_);
  return from;
}

/// Takes what nobody wants any more from kept_, and names its files.
std::vector<std::string> LogImpl::take_unwanted() {
  std::vector<std::string> paths;
  paths.reserve(kept_.size());
  const std::uint64_t wanted = wanted_from();
  while (!kept_.empty() && kept_.front().place.end <= wanted) {
    paths.push_back(std::move(kept_.front().place.path));
    kept_.pop_front();
  }
  return paths;
}

std::uint64_t LogImpl::add_hold(std::uint64_t position, std::uint64_t bytes_max) {
  const std::lock_guard lock(mutex_);
  holds_[++holds_given_] = {position, bytes_max};
  return holds_given_;
}

void LogImpl::move_hold(std::uint64_t hold, std::uint64_t position) {
  const std::lock_guard lock(mutex_);
  Hold& one = holds_.at(hold);
  BRECCIA_ASSERT(one.position <= position && position <= end_);
  one.position = position;
}

// Files that nobody wants now go with the next release.
void LogImpl::remove_hold(std::uint64_t hold) {
  const std::lock_guard lock(mutex_);
  const std::size_t removed = holds_.erase(hold);
  BRECCIA_ASSERT(removed == 1);
}

std::uint64_t LogImpl::oldest() const {
  const std::lock_guard lock(mutex_);
  BRECCIA_ASSERT(kept_.empty() || kept_.front().place.base < chain_.front().segment->base);
  const std::uint64_t base =
      kept_.empty() ? chain_.front().segment->base : kept_.front().place.base;
  return base + sizeof(SegmentHeader);
}

Result<SegmentPtr> LogImpl::segment_at(std::uint64_t position) {
  while (true) {
    KeptSegment place;
    {
      const std::lock_guard lock(mutex_);
      for (const Link& link : chain_) {
        if (link.segment->base <= position && position < link.segment->end()) return link.segment;
      }
      for (const Kept& kept : kept_) {
        if (position < kept.place.base || position >= kept.place.end) continue;
        if (SegmentPtr open = kept.open.lock()) return open;
        place = kept.place;
      }
    }
    if (place.end == 0) {
      return Status::NotFound("position " + std::to_string(position) + " of the log was released",
                              "raise Options::log_keep_bytes, or follow the log more closely");
    }
    auto opened = pool_->open_kept(place.base, place.path);
    const std::lock_guard lock(mutex_);
    const auto kept = std::find_if(kept_.begin(), kept_.end(),
                                   [&](const Kept& one) { return one.place.base == place.base; });
    if (kept == kept_.end()) continue;  // meanwhile it came back into use, or went for good
    if (SegmentPtr first = kept->open.lock()) return first;  // one mapping that all readers share
    BRECCIA_TRY(opened.status());
    BRECCIA_TRY(has_length(*opened.value(), place));
    kept->open = opened.value();
    return opened;
  }
}

Status LogImpl::has_length(const Segment& opened, const KeptSegment& place) {
  BRECCIA_ASSERT(opened.base == place.base);
  if (opened.end() == place.end) return Status::OK();
  return Status::Corruption(place.path + ": the file has another length than the log gave it");
}

Result<SegmentPtr> LogImpl::take_back() {
  KeptSegment place;
  {
    const std::lock_guard lock(mutex_);
    if (kept_.empty() || !kept_.back().open.expired()) return SegmentPtr();
    place = kept_.back().place;
  }
  BRECCIA_TAKE(SegmentPtr taken, pool_->take_kept(place.base, place.path));
  BRECCIA_TRY(has_length(*taken, place));
  const std::lock_guard lock(mutex_);
  BRECCIA_ASSERT(!kept_.empty() && kept_.back().place.base == place.base);
  // Who came meanwhile reads it through a mapping of its own, which a file used again would change.
  if (!kept_.back().open.expired()) return SegmentPtr();
  std::vector<SegmentPtr> segments{taken};
  for (const Link& link : chain_) segments.push_back(link.segment);
  auto table = std::make_shared<const SegmentTable>(std::move(segments));
  chain_.push_front({taken, taken->end()});  // from here on nothing wants memory
  table_ = std::move(table);
  kept_.pop_back();
  taken->keeps_file = false;
  BRECCIA_INVARIANT(is_whole() && is_kept_whole());
  return taken;
}

/// A table of the chain, and of `next` behind it unless that is null.
SegmentTablePtr LogImpl::table_with(const SegmentPtr& next) const {
  std::vector<SegmentPtr> segments;
  segments.reserve(chain_.size() + 1);
  for (const Link& link : chain_) segments.push_back(link.segment);
  if (next != nullptr) segments.push_back(next);
  return std::make_shared<const SegmentTable>(std::move(segments));
}

/// True if the chain has no gap, its frames end inside their segments, and the positions of the log
/// stand in their order.
bool LogImpl::is_whole() const {
  std::uint64_t base = chain_.front().segment->base;
  for (const Link& link : chain_) {
    const Segment& segment = *link.segment;
    if (segment.base != base || link.end <= base || link.end > segment.end()) return false;
    base = segment.end();
  }
  return begin_ <= end_ && synced_ <= written_ && written_ <= end_ && end_ <= base;
}

/// True if what is kept has no gap, up to the chain.
bool LogImpl::is_kept_whole() const {
  std::uint64_t end = kept_.empty() ? chain_.front().segment->base : kept_.front().place.base;
  for (const Kept& one : kept_) {
    if (one.place.base != end || one.place.end <= end) return false;
    end = one.place.end;
  }
  return end == chain_.front().segment->base;
}

Status check_options(const LogOptions& options) {
  if (options.segment_bytes != 0 && options.segment_bytes % limits::kLogWindowBytes == 0) {
    return Status::OK();
  }
  return Status::InvalidArgument("segment_bytes must be a multiple of 64 MiB");
}

}  // namespace

Result<std::unique_ptr<Log>> Log::open(const LogOptions& options, std::uint64_t from,
                                       const std::function<Status(const RecoveredFrame&)>& replay,
                                       LogRecovery* recovery) {
  BRECCIA_TRY(check_options(options));
  BRECCIA_TAKE(OpenedLog opened, open_log(options, from, replay, recovery));
  return std::unique_ptr<Log>(std::make_unique<LogImpl>(options, std::move(opened)));
}

Result<std::unique_ptr<Log>> Log::open(const LogOptions& options, std::uint64_t from,
                                       LogIntake* intake, LogRecovery* recovery) {
  BRECCIA_TRY(check_options(options));
  BRECCIA_TAKE(OpenedLog opened, open_log(options, from, intake, recovery));
  return std::unique_ptr<Log>(std::make_unique<LogImpl>(options, std::move(opened)));
}

}  // namespace breccia::wal
