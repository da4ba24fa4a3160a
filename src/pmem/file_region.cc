#include "pmem/file_region.h"

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "pmem/file_image.h"
#include "pmem/lines.h"
#include "pmem/redo_log.h"

namespace breccia::pmem {
namespace {

constexpr std::uint64_t kLoadBytes = 1ULL << 20;
static_assert(kLoadBytes % kPageBytes == 0);

bool is_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

///   persist     lines of the image that the medium may hold otherwise -> redo log, sync; whoever
///               finds nobody at it does so for all who wait, with one record
///   checkpoint  pages with lines logged since the last one -> file, sync -> redo log restarts
///   open        file -> image, redo log -> image, checkpoint
/// Which lines a persist logs and what a page is written from is the image's to say: one of its own
/// has a shadow, what is durable; memory of the caller's has none.
class FileRegion final : public Region {
 public:
  FileRegion(std::uint64_t bytes, const FileRegionOptions& options, std::unique_ptr<DiskFile> file,
             std::unique_ptr<RedoLog> redo, std::unique_ptr<FileImage> image)
      : size_(bytes),
        redo_bytes_max_(options.redo_bytes_max),
        file_(std::move(file)),
        redo_(std::move(redo)),
        image_(std::move(image)),
        page_is_dirty_(base::round_up(bytes, kPageBytes) / kPageBytes, false) {
    BRECCIA_ASSERT(size_ > 0 && file_ != nullptr && redo_->empty() && image_ != nullptr);
  }

  RegionKind kind() const override { return RegionKind::kFile; }
  std::byte* data() override { return image_->data(); }
  std::uint64_t size() const override { return size_; }

  Status recover() {
    BRECCIA_TRY(load());
    BRECCIA_TRY(redo_->replay([this](std::uint64_t offset, const Line& line) {
      image_->load(offset, std::as_bytes(std::span(line)));
      mark_page(offset);
    }));
    if (!redo_->empty()) BRECCIA_TRY(checkpoint());
    BRECCIA_ASSERT(redo_->empty() && redo_->staged() == 0 && dirty_pages_.empty());
    BRECCIA_INVARIANT(image_->is_as_loaded());
    return Status::OK();
  }

  using Region::persist;
  Status persist(std::span<const Range> ranges) override;

 private:
  /// A call of persist().
  struct Waiting {
    std::span<const Range> ranges;
    bool done = false;
    Status status;
  };
  /// Offsets [begin, end) of whole lines.
  using Lines = std::pair<std::uint64_t, std::uint64_t>;

  Status load();
  static std::vector<Lines> lines_of(const std::vector<Waiting*>& group);
  static bool are_apart(const std::vector<Lines>& parts);
  Status persist_lines(const std::vector<Lines>& parts);
  Status checkpoint();
  Status write_pages(std::uint64_t offset, std::uint64_t bytes);
  void mark_page(std::uint64_t offset);
  [[nodiscard]] bool notes_dirty_pages() const;

  std::uint64_t size_;
  std::uint64_t redo_bytes_max_;
  std::unique_ptr<DiskFile> file_;
  std::unique_ptr<RedoLog> redo_;
  std::unique_ptr<FileImage> image_;
  std::vector<bool> page_is_dirty_;
  std::vector<std::uint64_t> dirty_pages_;
  Status failed_;

  std::mutex mutex_;  // of what follows; all above is the one's who is at work
  std::condition_variable done_;
  std::vector<Waiting*> waiting_;
  bool at_work_ = false;
};

Status FileRegion::load() {
  BRECCIA_ASSERT(dirty_pages_.empty());  // what the file holds need not be written to it
  std::vector<std::byte> chunk(std::min(kLoadBytes, size_));
  for (std::uint64_t offset = 0; offset < size_; offset += chunk.size()) {
    const std::uint64_t chunk_bytes = std::min<std::uint64_t>(chunk.size(), size_ - offset);
    BRECCIA_TRY(file_->read(offset, std::span(chunk).first(chunk_bytes)));
    for (std::uint64_t at = 0; at < chunk_bytes; at += kPageBytes) {
      const auto page = std::span(chunk).subspan(at, std::min(kPageBytes, chunk_bytes - at));
      // Memory starts as zeros; a page that is not stored into takes none.
      if (is_zero(page)) continue;
      image_->load(offset + at, page);
    }
  }
  return Status::OK();
}

Status FileRegion::persist(std::span<const Range> ranges) {
  for (const Range& range : ranges) {
    BRECCIA_ASSERT(range.offset <= size_ && range.bytes <= size_ - range.offset);
  }
  Waiting own{ranges, false, Status()};
  std::unique_lock lock(mutex_);
  waiting_.push_back(&own);
  done_.wait(lock, [&] { return own.done || !at_work_; });
  if (own.done) return own.status;
  at_work_ = true;
  const std::vector<Waiting*> group = std::exchange(waiting_, {});
  lock.unlock();
  // After a failed write or sync nobody knows what the medium holds: no later call may succeed.
  if (failed_.ok()) failed_ = persist_lines(lines_of(group));
  lock.lock();
  for (Waiting* one : group) {
    BRECCIA_ASSERT(!one->done);
    one->status = failed_;
    one->done = true;
  }
  BRECCIA_ASSERT(own.done && at_work_);
  at_work_ = false;
  done_.notify_all();
  return own.status;
}

/// All lines of the ranges, ascending, each once.
std::vector<FileRegion::Lines> FileRegion::lines_of(const std::vector<Waiting*>& group) {
  std::vector<Lines> parts;
  for (const Waiting* one : group) {
    for (const Range& range : one->ranges) {
      parts.emplace_back(line_start(range.offset), lines_end(range.offset, range.bytes));
    }
  }
  std::sort(parts.begin(), parts.end());
  std::vector<Lines> merged;
  for (const Lines& part : parts) {
    if (!merged.empty() && part.first <= merged.back().second) {
      merged.back().second = std::max(merged.back().second, part.second);
    } else {
      merged.push_back(part);
    }
  }
  BRECCIA_INVARIANT(are_apart(merged));
  return merged;
}

/// True if the parts ascend and no two of them touch.
bool FileRegion::are_apart(const std::vector<Lines>& parts) {
  return std::adjacent_find(parts.begin(), parts.end(), [](const Lines& a, const Lines& b) {
           return a.second >= b.first;
         }) == parts.end();
}

Status FileRegion::persist_lines(const std::vector<Lines>& parts) {
  redo_->clear_staged();
  for (const auto& [begin, end] : parts) {
    BRECCIA_ASSERT(begin <= end && end <= base::round_up(size_, kLineBytes));
    image_->stage(begin, end, *redo_);
  }
  if (redo_->staged() == 0) return Status::OK();
  if (!redo_->empty() && redo_->bytes_with_staged() > redo_bytes_max_) BRECCIA_TRY(checkpoint());
  BRECCIA_TRY(redo_->append_staged());
  for (std::uint64_t i = 0; i < redo_->staged(); ++i) {
    const RedoEntry& entry = redo_->staged_entry(i);
    image_->logged(entry);
    mark_page(entry.offset);
  }
  return Status::OK();
}

void FileRegion::mark_page(std::uint64_t offset) {
  BRECCIA_ASSERT(offset % kLineBytes == 0 && offset < size_);
  const std::uint64_t page = offset / kPageBytes;
  if (page_is_dirty_[page]) return;
  page_is_dirty_[page] = true;
  dirty_pages_.push_back(page);
}

// The pages overwrite the file in place, and a power cut may tear them: each sector of 512 bytes,
// eight whole lines, is as before or as written. It does no harm, line by line:
//   logged since the last checkpoint   open takes it from the log, which holds it until restart()
//                                      after the sync
//   not logged since, shadowed image   before and as written are the same
//   not logged since, lent image       before, it is what the last checkpoint or open made durable,
//                                      and that is as new as any persist of it: what was logged up
//                                      to then was in memory when its page was written. As written,
//                                      it may have stores since, which nobody has persisted yet and
//                                      which may be durable at any moment.
// A persist whose lines are staged already may come behind a checkpoint that wrote newer stores to
// them. Then open shows the staged ones, rightly: nobody was told that the newer ones are durable.
Status FileRegion::checkpoint() {
  std::sort(dirty_pages_.begin(), dirty_pages_.end());
  BRECCIA_INVARIANT(notes_dirty_pages());
  for (std::size_t i = 0; i < dirty_pages_.size();) {
    std::size_t run = 1;
    while (i + run < dirty_pages_.size() && dirty_pages_[i + run] == dirty_pages_[i] + run) ++run;
    const std::uint64_t offset = dirty_pages_[i] * kPageBytes;
    BRECCIA_ASSERT(offset < size_);
    const std::uint64_t run_bytes = std::min(run * kPageBytes, size_ - offset);
    BRECCIA_TRY(write_pages(offset, run_bytes));
    i += run;
  }
  BRECCIA_TRY(file_->sync());
  for (const std::uint64_t page : dirty_pages_) page_is_dirty_[page] = false;
  dirty_pages_.clear();
  return redo_->restart();
}

Status FileRegion::write_pages(std::uint64_t offset, std::uint64_t bytes) {
  while (bytes > 0) {
    const std::span<const std::byte> part = image_->to_write(offset, bytes);
    BRECCIA_ASSERT(!part.empty() && part.size() <= bytes);
    BRECCIA_TRY(file_->write(offset, part));
    offset += part.size();
    bytes -= part.size();
  }
  return Status::OK();
}

/// True if the pages that are dirty are those that are to be written, each once, ascending.
bool FileRegion::notes_dirty_pages() const {
  std::size_t noted = 0;
  for (std::uint64_t page = 0; page < page_is_dirty_.size(); ++page) {
    if (!page_is_dirty_[page]) continue;
    if (noted == dirty_pages_.size() || dirty_pages_[noted] != page) return false;
    ++noted;
  }
  return noted == dirty_pages_.size();
}

std::string redo_path(const std::string& path) { return path + ".redo"; }

/// The rename is the moment at which the region exists: before it, a crash leaves nothing that
/// open would take for a region; after it, both files are whole.
Status create_files(Disk& disk, const std::string& path, std::uint64_t bytes,
                    const FileRegionOptions& options) {
  BRECCIA_ASSERT(bytes > 0 && options.redo_bytes_max > 0);
  const std::string fresh = path + ".new";
  BRECCIA_TRY(RedoLog::create(disk, redo_path(path), bytes, options.redo_bytes_max));
  {
    BRECCIA_TAKE(const auto file, disk.create(fresh, bytes));
    BRECCIA_TRY(file->sync());
  }
  BRECCIA_TRY(disk.sync_folder_of(path));
  BRECCIA_TRY(disk.rename(fresh, path));
  return disk.sync_folder_of(path);
}

Result<std::unique_ptr<DiskFile>> open_or_create(Disk& disk, const std::string& path,
                                                 std::uint64_t bytes,
                                                 const FileRegionOptions& options) {
  auto file = disk.open(path);
  if (file.ok()) {
    // Whoever created it may have died between the rename and the sync that makes it durable.
    BRECCIA_TRY(disk.sync_folder_of(path));
    return file;
  }
  if (!file.status().IsNotFound() || bytes == 0) return file;
  BRECCIA_TRY(create_files(disk, path, bytes, options));
  return disk.open(path);
}

Result<std::unique_ptr<FileImage>> make_image(std::uint64_t bytes, std::span<std::byte> memory) {
  if (memory.empty()) return make_shadowed_image(bytes);
  BRECCIA_ASSERT(memory.size() == bytes);
  return make_lent_image(memory);
}

}  // namespace

FileRegionOptions default_file_region_options(std::uint64_t region_bytes) {
  return {.redo_bytes_max = std::clamp<std::uint64_t>(region_bytes, 1ULL << 20, 64ULL << 20)};
}

Result<std::unique_ptr<Region>> open_file_region_on(std::shared_ptr<Disk> disk,
                                                    const std::string& path, std::uint64_t bytes,
                                                    const FileRegionOptions& options) {
  BRECCIA_ASSERT(options.memory.empty() || options.memory.size() == bytes);
  BRECCIA_TAKE(auto file, open_or_create(*disk, path, bytes, options));
  BRECCIA_TAKE(const std::uint64_t size, file->size());
  if (size == 0) return Status::Corruption(path, "the region is empty");
  if (bytes != 0 && bytes != size) {
    return Status::InvalidArgument(path, "the region has another size");
  }
  auto redo = RedoLog::open(*disk, redo_path(path), size);
  if (!redo.ok()) {
    if (redo.status().IsNotFound()) return Status::Corruption(path, "the redo log is missing");
    return redo.status();
  }
  BRECCIA_TAKE(auto image, make_image(size, options.memory));
  auto region =
      std::make_unique<FileRegion>(size, options, std::move(file), redo.take(), std::move(image));
  BRECCIA_TRY(region->recover());
  return std::unique_ptr<Region>(std::move(region));
}

Result<std::unique_ptr<Region>> open_file_region(const std::string& path, std::uint64_t bytes) {
  // Nobody has said how large the region is if `bytes` is 0: it gets the highest limit.
  const std::uint64_t bytes_max = bytes == 0 ? ~0ULL : bytes;
  return open_file_region_on(real_disk(), path, bytes, default_file_region_options(bytes_max));
}

Result<std::unique_ptr<Region>> open_file_region_over(const std::string& path,
                                                      std::span<std::byte> memory) {
  BRECCIA_ASSERT(!memory.empty());
  FileRegionOptions options = default_file_region_options(memory.size());
  options.memory = memory;
  return open_file_region_on(real_disk(), path, memory.size(), options);
}

/// Without the log the region would be damaged, so the log goes last.
Status remove_region(const std::string& path) {
  for (const std::string& one : {path, redo_path(path)}) {
    std::error_code error;
    std::filesystem::remove(one, error);
    if (error) return Status::IOError("cannot remove " + one, error.message());
  }
  return real_disk()->sync_folder_of(path);
}

}  // namespace breccia::pmem
