#include <tbb/parallel_pipeline.h>
#include <tbb/task_group.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <mutex>

#include "base/memory.h"
#include "compaction/backend.h"
#include "compaction/merge_job.h"
#include "compaction/plan.h"
#include "compaction/slice_reader.h"
#include "sst/seal.h"
#include "sst/table_writer.h"

/// The way of a job: its range of keys is cut into slices of about as many bytes. Slices are read,
/// merged, encoded and sealed by several threads at once, so that one's transfers overlap with
/// another's work on the device; one stage takes them in their order and says where in which file
/// they go; several threads write them there; filters, the rest of each file, and its sync are work
/// of their own beside that.

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
  std::atomic<std::uint64_t> unwritten{1};  // pieces; and one until it gets no more
  std::mutex mutex;  // one writes at a time: the kernel has one lock a file, for which writers spin
};

/// Blocks of a slice that have a place in a file.
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

/// Takes sealed slices in order and makes files of them.
/// Threads add() one at a time, write() any, finish() behind both.
class Files {
 public:
  Files(const MergeJob& job, Backend& backend, std::uint64_t creation_time, FirstError* error)
      : job_(job), backend_(backend), creation_time_(creation_time), error_(*error) {}
  ~Files() {
    closing_.wait();
    if (is_kept_) return;
    for (const std::string& path : paths_) ::unlink(path.c_str());
  }

  /// Gives a slice's blocks their places.
  Status add(Work* work) {
    const std::vector<sst::SealedBlock>& blocks = work->sealed.blocks;
    for (std::size_t first = 0; first < blocks.size();) {
      std::size_t last = first + 1;
      while (last < blocks.size() && (!job_.has_stock_cuts || !blocks[last].info.begins_file))
        ++last;
      const bool begins = job_.has_stock_cuts && blocks[first].info.begins_file != 0;
      const std::uint64_t bytes = blocks[last - 1].info.offset - blocks[first].info.offset;
      if (file_ != nullptr && (begins || is_full(bytes))) close();
      if (file_ == nullptr) BRECCIA_TRY(open());
      BRECCIA_TAKE(const sst::DataPlace place,
                   file_->writer->add(work->sealed.bytes, {blocks.data() + first, last - first}));
      work->pieces.push_back({file_, place});
      ++file_->unwritten;
      note_hashes(*work, first, last);
      first = last;
    }
    return Status::OK();
  }

  /// Writes what has its place. Files that have all of theirs end.
  Status write(const Work& work) {
    for (const Piece& piece : work.pieces) {
      {
        const std::lock_guard lock(piece.file->mutex);
        BRECCIA_TRY(piece.file->writer->write_data(piece.place));
      }
      end_if_written(piece.file);
    }
    return Status::OK();
  }

  /// Waits for all files, and says what they are.
  void finish(Merged* merged) {
    if (file_ != nullptr) close();
    if (closing_.wait() != tbb::complete) error_.note(Status::Aborted("a merge was cancelled"));
    if (error_.is_set()) return;
    for (const auto& file : results_) {
      merged->counts.bytes_written += file->bytes;
      merged->counts.entries_written += file->entries;
      merged->files.push_back(*file);
    }
    merged->counts.deletions_written = deletions_;
    is_kept_ = true;
  }

 private:
  /// Whether the file is nearer to its size without what comes.
  [[nodiscard]] bool is_full(std::uint64_t more) const {
    return !job_.has_stock_cuts && file_->writer->data_bytes() + more / 2 >= job_.file_bytes;
  }

  Status open() {
    auto file = std::make_shared<OpenFile>();
    file->number = job_.first_file_number + results_.size();
    file->name = std::to_string(file->number) + ".sst";
    paths_.push_back(job_.folder + "/" + file->name);
    BRECCIA_TAKE(auto made, sst::create_table_file(paths_.back()));
    file->writer = std::make_unique<sst::TableWriter>(std::move(made), job_.shape);
    results_.push_back(std::make_unique<MergedFile>());
    file->result = results_.back().get();
    file_ = std::move(file);
    return Status::OK();
  }

  void note_hashes(const Work& work, std::size_t first, std::size_t last) {
    if (work.merged.hashes == nullptr) return;
    const auto& blocks = work.sealed.blocks;
    const std::uint64_t begin = blocks[first].info.first_entry;
    const std::uint64_t end = blocks[last - 1].info.first_entry + blocks[last - 1].info.entries;
    file_->hashes.push_back({work.merged.hashes, begin, end - begin});
  }

  /// The file at hand gets no more.
  void close() {
    deletions_ += file_->writer->sums().deletions;
    end_if_written(std::exchange(file_, nullptr));
  }

  /// What is left of a file is done beside the slices that come.
  void end_if_written(const std::shared_ptr<OpenFile>& file) {
    BRECCIA_ASSERT(file->unwritten > 0);
    if (--file->unwritten > 0) return;
    closing_.run([this, file] {
      if (error_.is_set()) return;
      error_.note(base::or_memory_limit([&] { return end_file(*file); }));
    });
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
      BRECCIA_TRY(backend_.build_filter(file.hashes, shape, filter.data()));
      filter += shape.tail();
    }
    sst::TableOrigin origin = job_.origin;
    origin.file_number = file.number;
    origin.creation_time = creation_time_;
    if (origin.file_creation_time == 0) {
      origin.file_creation_time = static_cast<std::uint64_t>(std::time(nullptr));
    }
    BRECCIA_TAKE(const std::uint64_t bytes, file.writer->finish(origin, filter));
    *file.result = {file.name,
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

  const MergeJob& job_;
  Backend& backend_;
  const std::uint64_t creation_time_;
  FirstError& error_;
  std::shared_ptr<OpenFile> file_;  // that gets what comes
  std::vector<std::unique_ptr<MergedFile>> results_;
  std::vector<std::string> paths_;
  std::uint64_t deletions_ = 0;
  bool is_kept_ = false;
  // Of its own: a group would else belong to the pipeline that is about to end.
  tbb::task_group_context closing_context_{tbb::task_group_context::isolated};
  tbb::task_group closing_{closing_context_};
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
    const std::uint64_t created =
        inputs_.creation_time != 0 ? inputs_.creation_time : job_.origin.creation_time;
    if (!job_.has_stock_cuts) ends_ = slice_ends(inputs_, slice_bytes_of(job_, backend_.device()));
    Files files(job_, backend_, created, &error_);
    std::size_t next = 0;
    // RocksDB may be called from tasks of the program's.
    tbb::task_group_context context(tbb::task_group_context::isolated);
    tbb::parallel_pipeline(
        slices_at_once_of(job_, backend_.device()),
        tbb::make_filter<void, std::size_t>(tbb::filter_mode::serial_in_order,
                                            [&](tbb::flow_control& flow) {
                                              if (next > ends_.size() || error_.is_set()) {
                                                flow.stop();
                                                return std::size_t{0};
                                              }
                                              return next++;
                                            }) &
            tbb::make_filter<std::size_t, WorkPtr>(tbb::filter_mode::parallel,
                                                   [&](std::size_t i) { return merge_slice(i); }) &
            tbb::make_filter<WorkPtr, WorkPtr>(tbb::filter_mode::serial_in_order,
                                               [&](const WorkPtr& work) {
                                                 keep(work.get(), &files);
                                                 return work;
                                               }) &
            tbb::make_filter<WorkPtr, void>(
                tbb::filter_mode::parallel,
                [&](const WorkPtr& work) { write(work.get(), &files); }),
        context);
    merged->counts = inputs_.counts;
    merged->counts.bytes_read = inputs_.bytes;
    check_counts();
    files.finish(merged);
    return error_.get();
  }

 private:
  WorkPtr merge_slice(std::size_t i) {
    WorkPtr work;
    if (error_.is_set()) return work;
    error_.note(base::or_memory_limit([&] {
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
      const std::span<const sst::algo::BlockInfo> blocks(work->merged.blocks.data(),
                                                         work->merged.blocks.size());
      return sst::seal(job_.shape, work->merged.bytes.data(), encoded_bytes(work->merged),
                       work->merged.entries_kept, blocks, &work->sealed);
    }));
    return work;
  }

  /// The slice's bounds, within the job's.
  [[nodiscard]] std::optional<std::string> begin_of(std::size_t i) const {
    if (i == 0) return job_.begin;
    return job_.begin.has_value() ? std::max(*job_.begin, ends_[i - 1]) : ends_[i - 1];
  }
  [[nodiscard]] std::optional<std::string> end_of(std::size_t i) const {
    if (i == ends_.size()) return job_.end;
    return job_.end.has_value() ? std::min(*job_.end, ends_[i]) : ends_[i];
  }

  void keep(Work* work, Files* files) {
    if (work == nullptr || error_.is_set()) return;
    entries_read_ += work->merged.entries_read;
    error_.note(base::or_memory_limit([&] { return files->add(work); }));
  }

  void write(Work* work, Files* files) {
    if (work == nullptr || error_.is_set()) return;
    error_.note(base::or_memory_limit([&] { return files->write(*work); }));
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
  FirstError error_;
  std::uint64_t entries_read_ = 0;
};

}  // namespace

Status merge(const MergeJob& job, Backend& backend, Merged* merged) {
  return base::or_memory_limit([&] { return JobRun(job, backend).run(merged); });
}

}  // namespace breccia::compaction
