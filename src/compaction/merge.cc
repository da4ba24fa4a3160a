#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <mutex>

#include "base/memory.h"
#include "base/own_threads.h"
#include "compaction/backend.h"
#include "compaction/merge_job.h"
#include "compaction/plan.h"
#include "compaction/slice_reader.h"
#include "sst/seal.h"
#include "sst/table_writer.h"

/// The way of a job: its range of keys is cut into slices of about as many bytes. Several threads
/// take one slice after the other: each reads its own, has it merged and encoded, seals it, learns
/// in its turn where in which file it goes, and writes it there. So one's transfers overlap with
/// another's work on the device and with the files' kernel. Who writes the last of a file writes
/// its filter and the rest, and syncs it.
///
/// The threads are the job's own: most of them wait, for the device or for a file, and there are
/// more than cores.

namespace breccia::compaction {

namespace {

/// What went wrong first.
/// Threads any.
class FirstError {
 public:
  void note(const Status& status) {
    if (status.ok()) return;
    const std::lock_guard lock(mutex_);
    if (first_.ok()) first_ = base::copy_of(status);
    is_set_.store(true, std::memory_order_release);
  }
  [[nodiscard]] bool is_set() const { return is_set_.load(std::memory_order_acquire); }
  [[nodiscard]] Status get() const {
    const std::lock_guard lock(mutex_);
    return base::copy_of(first_);
  }

 private:
  mutable std::mutex mutex_;
  Status first_;
  std::atomic<bool> is_set_{false};
};

/// A file that is written, and the hashes of its keys.
struct OpenFile {
  std::uint64_t number = 0;
  std::string name;
  std::unique_ptr<sst::TableWriter> writer;
  std::vector<HashRange> hashes;
  MergedFile* result = nullptr;
  std::atomic<std::uint64_t> unwritten{1};  // pieces, with that which says that it gets no more
  std::mutex mutex;  // one writes at a time: the kernel has one lock a file, for which writers spin
};

/// Blocks of a slice that have a place in a file; of no bytes: the file gets no more.
struct Piece {
  std::shared_ptr<OpenFile> file;
  sst::DataPlace place;
};

/// A slice between the stages.
struct Work {
  explicit Work(exec::HostMemory& memory) : merged(memory) {}

  MergedSlice merged;
  sst::SealedBlocks sealed;
  std::vector<Piece> pieces;
};
using WorkPtr = std::shared_ptr<Work>;

/// What all files of a job have in common.
struct FileMaker {
  const MergeJob& job;
  Backend& backend;
  std::uint64_t creation_time = 0;
  std::atomic<std::uint64_t> next_number{0};
};

/// Takes sealed slices in order and makes files of them.
/// Threads add() one at a time, write() any, the others behind all.
class Files {
 public:
  explicit Files(FileMaker& maker) : maker_(maker), job_(maker.job) {}
  ~Files() {
    if (is_kept_) return;
    for (const std::string& path : paths_) ::unlink(path.c_str());
  }

  /// Gives a slice's blocks their places; behind the last slice there is no file at hand.
  Status add(Work* work, bool is_last) {
    const std::vector<sst::SealedBlock>& blocks = work->sealed.blocks;
    for (std::size_t first = 0; first < blocks.size();) {
      std::size_t last = first + 1;
      while (last < blocks.size() && (!job_.has_stock_cuts || !blocks[last].info.begins_file))
        ++last;
      const bool begins = job_.has_stock_cuts && blocks[first].info.begins_file != 0;
      const std::uint64_t bytes = blocks[last - 1].info.offset - blocks[first].info.offset;
      if (begins || is_full(bytes, is_last)) close(work);
      if (file_ == nullptr) BRECCIA_TRY(open());
      BRECCIA_TAKE(const sst::DataPlace place,
                   file_->writer->add(work->sealed.bytes, {blocks.data() + first, last - first}));
      work->pieces.push_back({file_, place});
      ++file_->unwritten;
      note_hashes(*work, first, last);
      first = last;
    }
    if (is_last) close(work);
    return Status::OK();
  }

  /// Writes what has its place. Files that have all of theirs end.
  Status write(const Work& work) {
    for (const Piece& piece : work.pieces) {
      if (piece.place.count > 0) {
        const std::lock_guard lock(piece.file->mutex);
        BRECCIA_TRY(piece.file->writer->write_data(piece.place));
      }
      BRECCIA_ASSERT(piece.file->unwritten > 0);
      if (--piece.file->unwritten == 0) BRECCIA_TRY(end_file(*piece.file));
    }
    return Status::OK();
  }

  /// Adds them to what a job has made.
  void tell(Merged* merged) const {
    BRECCIA_ASSERT(file_ == nullptr);
    for (const auto& file : results_) {
      merged->counts.bytes_written += file->bytes;
      merged->counts.entries_written += file->entries;
      merged->files.push_back(*file);
    }
    merged->counts.deletions_written += deletions_;
  }
  void keep() { is_kept_ = true; }

 private:
  /// Whether the file is nearer to its size without what comes; what comes last makes no file for
  /// itself that is a small one.
  [[nodiscard]] bool is_full(std::uint64_t more, bool is_last) const {
    if (job_.has_stock_cuts || file_ == nullptr) return false;
    const std::uint64_t bytes = file_->writer->data_bytes();
    return (is_last ? (bytes + more) / 3 * 2 : bytes + more / 2) >= job_.file_bytes;
  }

  Status open() {
    auto file = std::make_shared<OpenFile>();
    file->number = maker_.next_number++;
    file->name = std::to_string(file->number) + ".sst";
    paths_.push_back(job_.folder + "/" + file->name);
    BRECCIA_TAKE(auto made,
                 sst::create_table_file(paths_.back(), {job_.by_whole_pages,
                                                        /*gives_way=*/true, job_.is_urgent}));
    file->writer = std::make_unique<sst::TableWriter>(std::move(made), job_.shape);
    results_.push_back(std::make_unique<MergedFile>());
    file->result = results_.back().get();
    file_ = std::move(file);
    return Status::OK();
  }

  /// The file at hand, if there is one, gets no more.
  void close(Work* work) {
    if (file_ == nullptr) return;
    deletions_ += file_->writer->sums().deletions;
    work->pieces.push_back({file_, {}});
    file_.reset();
  }

  void note_hashes(const Work& work, std::size_t first, std::size_t last) {
    if (work.merged.hashes == nullptr) return;
    const auto& blocks = work.sealed.blocks;
    const std::uint64_t begin = blocks[first].info.first_entry;
    const std::uint64_t end = blocks[last - 1].info.first_entry + blocks[last - 1].info.entries;
    file_->hashes.push_back({work.merged.hashes, begin, end - begin});
  }

  Status end_file(const OpenFile& file) {
    const sst::TableSums& sums = file.writer->sums();
    std::string filter;
    if (job_.shape.filter_millibits > 0) {
      // A device counted them.
      if (sums.filter_entries == 0 || sums.filter_entries > sums.entries) {
        return Status::Corruption("a table with more or fewer hashes than entries");
      }
      const auto shape = sst::FilterShape::of(sums.filter_entries, job_.shape.filter_millibits);
      filter.resize(shape.bytes());
      BRECCIA_TRY(maker_.backend.build_filter(file.hashes, shape, filter.data()));
      filter += shape.tail();
    }
    sst::TableOrigin origin = job_.origin;
    origin.file_number = file.number;
    origin.creation_time = maker_.creation_time;
    if (origin.file_creation_time == 0) {
      origin.file_creation_time = static_cast<std::uint64_t>(std::time(nullptr));
    }
    BRECCIA_TAKE(const std::uint64_t bytes, file.writer->finish(origin, filter));
    *file.result = {file.number,
                    file.name,
                    sums.smallest,
                    sums.largest,
                    sums.smallest_sequence,
                    sums.largest_sequence,
                    bytes,
                    sums.entries,
                    origin.creation_time,
                    origin.file_creation_time};
    return Status::OK();
  }

  FileMaker& maker_;
  const MergeJob& job_;
  std::shared_ptr<OpenFile> file_;  // that gets what comes
  std::vector<std::unique_ptr<MergedFile>> results_;
  std::vector<std::string> paths_;
  std::uint64_t deletions_ = 0;
  bool is_kept_ = false;
};

/// Lets threads do something in the order of numbers: it is that number's turn, once those of all
/// numbers below are over.
class Turn {
 public:
  Turn(std::atomic<std::size_t>* turns, std::size_t number) : turns_(*turns) {
    for (std::size_t now = turns_.load(std::memory_order_acquire); now != number;
         now = turns_.load(std::memory_order_acquire)) {
      turns_.wait(now, std::memory_order_acquire);
    }
  }
  ~Turn() {
    turns_.fetch_add(1, std::memory_order_acq_rel);
    turns_.notify_all();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  std::atomic<std::size_t>& turns_;
};

/// Slices that lie one behind the other, and the files that they become.
struct Lane {
  Lane(std::size_t begin_slice, std::size_t end_slice, FileMaker& maker)
      : begin(begin_slice), end(end_slice), files(maker) {}

  const std::size_t begin;
  const std::size_t end;
  std::atomic<std::size_t> turns{0};  // of its slices that are over
  Files files;
};

/// Readers of slices, and their memory, each for one slice at a time.
/// Threads any.
class Readers {
 public:
  Readers(const Inputs& inputs, exec::HostMemory& memory) : inputs_(inputs), memory_(memory) {}

  /// It comes back when it is dropped.
  std::shared_ptr<SliceReader> take() {
    std::unique_ptr<SliceReader> reader = take_idle();
    if (reader == nullptr) reader = std::make_unique<SliceReader>(inputs_, memory_);
    return {reader.release(), [this](SliceReader* used) { give_back(used); }};
  }

 private:
  std::unique_ptr<SliceReader> take_idle() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return nullptr;
    std::unique_ptr<SliceReader> reader = std::move(idle_.back());
    idle_.pop_back();
    return reader;
  }
  void give_back(SliceReader* used) {
    std::unique_ptr<SliceReader> reader(used);
    const std::lock_guard lock(mutex_);
    base::as_memory_allows([&] { idle_.push_back(std::move(reader)); });
  }

  const Inputs& inputs_;
  exec::HostMemory& memory_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<SliceReader>> idle_;
};

/// One job on its way.
class JobRun {
 public:
  JobRun(const MergeJob& job, Backend& backend) : job_(job), backend_(backend) {}

  Status run(Merged* merged) {
    BRECCIA_TRY(Inputs::open(job_, &inputs_));
    maker_.next_number = job_.first_file_number;
    maker_.creation_time =
        inputs_.creation_time != 0 ? inputs_.creation_time : job_.origin.creation_time;
    const std::uint64_t slice_bytes = slice_bytes_of(job_, backend_.device());
    if (!job_.has_stock_cuts) ends_ = slice_ends(inputs_, job_, slice_bytes);
    plan_lanes(slice_bytes);
    work_together();
    merged->counts = inputs_.counts;
    merged->counts.bytes_read = inputs_.bytes;
    check_counts();
    if (error_.is_set()) return error_.get();
    for (const auto& lane : lanes_) lane->files.tell(merged);
    for (const auto& lane : lanes_) lane->files.keep();
    return Status::OK();
  }

 private:
  /// A slice, and whose it is.
  struct Step {
    Lane* lane = nullptr;
    std::size_t slice = 0;
  };

  [[nodiscard]] std::size_t slices() const { return ends_.size() + 1; }

  /// All lanes go on at the same pace.
  void plan_lanes(std::uint64_t slice_bytes) {
    const std::size_t count = lanes_of(inputs_, job_, slices(), slice_bytes);
    for (std::size_t i = 0; i < count; ++i) {
      lanes_.push_back(
          std::make_unique<Lane>(slices() * i / count, slices() * (i + 1) / count, maker_));
    }
    for (std::size_t at = 0; steps_.size() < slices(); ++at) {
      for (const auto& lane : lanes_) {
        if (lane->begin + at < lane->end) steps_.push_back({lane.get(), lane->begin + at});
      }
    }
  }

  /// Does all steps, with as many threads as there are to be, or as can be had.
  void work_together() {
    const std::size_t most = std::min(slices_at_once_of(job_, backend_.tenant()), slices());
    // Flushes and requests want the cores, too, and wait for them.
    base::in_own_threads(
        most, [this](std::size_t) { take_steps(); }, base::Urgency::kBackground);
  }

  void take_steps() noexcept {
    for (std::size_t i = next_step_++; i < steps_.size(); i = next_step_++) {
      const auto [lane, slice] = steps_[i];
      const WorkPtr work = merge_slice(slice);
      {
        const Turn turn(&lane->turns, slice - lane->begin);
        place(work.get(), slice + 1 == lane->end, &lane->files);
      }
      write(work.get(), &lane->files);
    }
  }

  WorkPtr merge_slice(std::size_t i) {
    WorkPtr work;
    if (error_.is_set()) return work;
    attempt([&] {
      work = std::make_shared<Work>(backend_.device().host_memory());
      const auto begin = begin_of(i);
      const auto end = end_of(i);
      if (begin.has_value() && end.has_value() && *begin >= *end) return Status::OK();
      Slice slice;
      const auto reader = readers_.take();
      BRECCIA_TRY(reader->read(begin, end, &slice));
      if (slice.blocks.empty()) return Status::OK();
      BRECCIA_TRY(backend_.merge(slice, job_.rules, job_.shape,
                                 {job_.ordering, job_.has_stock_cuts ? job_.file_bytes : 0},
                                 &work->merged));
      const std::span<const sst::algo::EncodedBlock> blocks(work->merged.blocks.data(),
                                                            work->merged.blocks.size());
      return sst::seal(job_.shape, work->merged.bytes.data(), encoded_bytes(work->merged),
                       work->merged.entries_kept, blocks, &work->sealed);
    });
    return work;
  }

  /// Does work(), and notes its error. Nobody catches what a thread throws: whatever it is, RocksDB
  /// can still do the job.
  template <class Step>
  void attempt(const Step& step) noexcept {
    error_.note(base::or_error(step));
  }

  /// A slice's bounds.
  [[nodiscard]] std::optional<std::string> begin_of(std::size_t i) const {
    return i == 0 ? job_.begin : ends_[i - 1];
  }
  [[nodiscard]] std::optional<std::string> end_of(std::size_t i) const {
    return i == ends_.size() ? job_.end : ends_[i];
  }

  void place(Work* work, bool is_last, Files* files) {
    if (work == nullptr || error_.is_set()) return;
    entries_read_ += work->merged.entries_read;
    attempt([&] { return files->add(work, is_last); });
  }

  void write(Work* work, Files* files) {
    if (work == nullptr || error_.is_set()) return;
    attempt([&] { return files->write(*work); });
  }

  /// Each entry of the inputs was in one slice.
  void check_counts() {
    const bool is_whole = !job_.begin.has_value() && !job_.end.has_value() && inputs_.has_counts;
    if (error_.is_set() || !is_whole || entries_read_ == inputs_.counts.entries_read) return;
    error_.note(
        Status::Corruption("a merge read " + std::to_string(entries_read_) + " entries",
                           "its inputs say " + std::to_string(inputs_.counts.entries_read)));
  }

  const MergeJob& job_;
  Backend& backend_;
  Inputs inputs_;
  Readers readers_{inputs_, backend_.device().host_memory()};
  std::vector<std::string> ends_;
  FileMaker maker_{job_, backend_};
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<Step> steps_;
  std::atomic<std::size_t> next_step_{0};
  FirstError error_;
  std::atomic<std::uint64_t> entries_read_ = 0;
};

}  // namespace

Status merge(const MergeJob& job, Backend& backend, Merged* merged) {
  return base::or_memory_limit([&] { return JobRun(job, backend).run(merged); });
}

}  // namespace breccia::compaction
