#include "wal/segment_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/sometimes.h"
#include "wal/frame.h"
#include "wal/recovery.h"

namespace breccia::wal {
namespace {

constexpr const char* kUnfinishedSuffix = ".new";

std::string digits(std::uint64_t base) {
  char text[32];
  std::snprintf(text, sizeof text, "%020llu", static_cast<unsigned long long>(base));
  return text;
}

}  // namespace

std::string segment_name(std::uint64_t base) { return digits(base) + ".log"; }

std::optional<std::uint64_t> segment_base(const std::string& name) {
  constexpr std::size_t kDigits = 20;
  if (name.size() != kDigits + 4 || !name.ends_with(".log")) return std::nullopt;
  std::uint64_t base = 0;
  for (std::size_t index = 0; index < kDigits; ++index) {
    if (name[index] < '0' || name[index] > '9') return std::nullopt;
    base = base * 10 + static_cast<std::uint64_t>(name[index] - '0');
  }
  // Also catches what does not fit 64 bits.
  if (segment_name(base) != name) return std::nullopt;
  return base;
}

bool is_unfinished_name(const std::string& name) { return name.ends_with(kUnfinishedSuffix); }

Result<SegmentPtr> SegmentPool::make(std::uint64_t base, std::uint64_t first, std::uint64_t size) {
  BRECCIA_ASSERT(base % limits::kLogWindowBytes == 0 && size % limits::kLogWindowBytes == 0);
  BRECCIA_ASSERT(first >= base + sizeof(SegmentHeader) && first < base + size);
  const std::lock_guard lock(files_mutex_);
  const std::string target = options_.dir + "/" + segment_name(base);
  auto segment = std::make_unique<Segment>();
  BRECCIA_TRY(finish_clearing());
  obsolete_.erase(target);  // the rename takes its place
  bool was_free = false;
  BRECCIA_TRY(clear_name(target, &was_free));
  BRECCIA_TAKE(Free free, take(size, base));
  const Status status = base::or_memory_limit([&] { return name(&free, base, first, size); });
  if (!status.ok()) {
    // Under its final name it stays: it is a whole segment, and may be one that is needed. Under
    // the other it is unfinished or below what recovery asks for.
    if (free.path != target) base::as_memory_allows([&] { remove(free.path); });
    unmap(std::move(free.file));
    return status;
  }
  BRECCIA_ASSERT(free.path == target);
  segment->base = base;
  segment->path = std::move(free.path);
  segment->file = std::move(free.file);
  return adopt(std::move(segment));
}

Result<SegmentPool::Free> SegmentPool::take(std::uint64_t size, std::uint64_t base) {
  Free found;
  {
    const std::lock_guard lock(free_mutex_);
    for (Free& free : free_) {
      if (free.file->size() != size) continue;
      std::swap(free, free_.back());
      found = std::move(free_.back());
      free_.pop_back();
      break;
    }
  }
  if (found.file == nullptr) return create(unfinished_path(digits(base)), size);
  if (found.file->is_stale() || BRECCIA_SOMETIMES(10)) renew(&found, base);
  return found;
}

/// Gives a free file's image another file, so that the system need not write what the old one
/// holds. As it was, if there is no other, or no memory: an image must not go without a word.
void SegmentPool::renew(Free* free, std::uint64_t base) {
  base::as_memory_allows([&] {
    std::string path = unfinished_path(digits(base));
    // Removed later, when nobody waits for a segment: that takes a while.
    const auto [old, is_new] = obsolete_.try_emplace(free->path);
    BRECCIA_ASSERT(is_new);
    const Status renewed = base::or_memory_limit([&] { return free->file->renew(path); });
    if (renewed.ok()) {
      free->path = std::move(path);
    } else {
      obsolete_.erase(old);
    }
  });
}

/// A path that no file has.
std::string SegmentPool::unfinished_path(const std::string& begin) {
  std::string path;
  do {
    path = options_.dir + "/" + begin + "-" + std::to_string(++names_given_) + kUnfinishedSuffix;
  } while (obsolete_.contains(path));
  return path;
}

Result<SegmentPool::Free> SegmentPool::create(const std::string& path, std::uint64_t size) {
  Free free{path, nullptr};
  BRECCIA_TAKE(free.file, options_.files->create(path, size));
  BRECCIA_ASSERT(reinterpret_cast<std::uintptr_t>(free.file->image()) % 4096 == 0);
  if (options_.on_map) options_.on_map(free.file->image(), free.file->size());
  return free;
}

Status SegmentPool::stock(std::uint64_t bytes) {
  const std::lock_guard lock(files_mutex_);
  const std::uint64_t count = bytes / options_.segment_bytes;
  std::vector<Free> made(count);
  std::vector<Status> statuses(count);
  {
    // No file may be lost behind on_map.
    const std::lock_guard free_lock(free_mutex_);
    free_.reserve(free_.size() + count);
  }
  for (Free& free : made) free.path = unfinished_path("stock");
  base::parallel_for(std::uint64_t{0}, count, [&](std::uint64_t i) {
    auto free = create(made[i].path, options_.segment_bytes);
    statuses[i] = free.status();
    if (!free.ok()) return;
    made[i] = free.take();
    BRECCIA_ASSERT(made[i].file->size() == options_.segment_bytes);
    made[i].file->rest();
    // Advice: without it the first writes pay for the page faults.
    (void)madvise(made[i].file->image(), made[i].file->size(), MADV_POPULATE_WRITE);
  });
  const std::lock_guard free_lock(free_mutex_);
  free_max_ = std::max<std::size_t>(free_max_, count);
  for (Free& free : made) {
    if (free.file != nullptr) free_.push_back(std::move(free));
  }
  for (const Status& status : statuses) BRECCIA_TRY(status);
  return Status::OK();
}

Status SegmentPool::name(Free* free, std::uint64_t base, std::uint64_t first, std::uint64_t size) {
  SegmentHeader header{};
  header.store_id = store_id_;
  header.base = base;
  header.size = size;
  header.first = first;
  finish(&header);
  BRECCIA_ASSERT(free->file->size() == size);
  BRECCIA_TRY(free->file->wake(free->path));
  std::memcpy(free->file->image(), &header, sizeof header);
  // Alone: a recycled file may have all that it held before still to be written.
  BRECCIA_TRY(free->file->write_through(0, sizeof header));
  std::string target = options_.dir + "/" + segment_name(base);
  BRECCIA_ASSERT(free->path != target);
  BRECCIA_TRY(options_.files->rename(free->path, target));
  free->path = std::move(target);
  return options_.files->sync_dir(options_.dir);
}

/// A free file that has that name gets another one, durably: else it would be removed or renamed
/// later under a name that is another file's by then. After an error it belongs to nobody; an
/// opening removes it, or a rename takes its place.
Status SegmentPool::clear_name(const std::string& path, bool* was_free) {
  std::string aside = unfinished_path("aside");
  Free free;
  {
    const std::lock_guard lock(free_mutex_);
    const auto found =
        std::find_if(free_.begin(), free_.end(), [&](const Free& one) { return one.path == path; });
    *was_free = found != free_.end();
    if (!*was_free) return Status::OK();
    std::swap(*found, free_.back());
    free = std::move(free_.back());
    free_.pop_back();
    BRECCIA_ASSERT(!has_free(path));  // no two files have one name
  }
  const Status status = base::or_memory_limit([&] {
    BRECCIA_TRY(options_.files->rename(path, aside));
    return options_.files->sync_dir(options_.dir);
  });
  if (!status.ok()) {
    unmap(std::move(free.file));
    return status;
  }
  give(std::move(aside), std::move(free.file));
  return status;
}

// Until that is done nobody takes a free file, or removes one, so theirs are the only names there.
Status SegmentPool::clear_names(std::uint64_t base, std::vector<SegmentPtr> ahead) {
  const std::lock_guard lock(files_mutex_);
  clear_from_ = std::min(base, clear_from_.value_or(base));
  ahead.clear();
  return finish_clearing();
}

Status SegmentPool::finish_clearing() {
  if (!clear_from_.has_value()) return Status::OK();
  BRECCIA_TAKE(const auto names, options_.files->list(options_.dir));
  std::vector<std::string> above;
  for (const std::string& name : names) {
    const std::optional<std::uint64_t> at = segment_base(name);
    if (at.has_value() && *at >= *clear_from_) above.push_back(options_.dir + "/" + name);
  }
  std::sort(above.rbegin(), above.rend());  // names of one length: by position, the last one first
  for (const std::string& path : above) {
    bool was_free = false;
    BRECCIA_TRY(clear_name(path, &was_free));
    if (was_free) continue;
    BRECCIA_TRY(options_.files->remove(path));
    BRECCIA_TRY(options_.files->sync_dir(options_.dir));
  }
  clear_from_.reset();
  return Status::OK();
}

SegmentPtr SegmentPool::adopt(std::uint64_t base, std::string path,
                              std::unique_ptr<SegmentFile> file) {
  auto segment = std::make_unique<Segment>();
  segment->base = base;
  segment->path = std::move(path);
  segment->file = std::move(file);
  return adopt(std::move(segment));
}

SegmentPtr SegmentPool::adopt(std::unique_ptr<Segment> segment) {
  segment->size = segment->file->size();
  BRECCIA_ASSERT(segment->base % limits::kLogWindowBytes == 0 && segment->base > 0);
  BRECCIA_ASSERT(segment->size % limits::kLogWindowBytes == 0 && segment->size > 0);
  {
    const std::lock_guard lock(free_mutex_);
    most_in_use_ = std::max(most_in_use_, ++in_use_);
  }
  return {segment.release(), [pool = shared_from_this()](Segment* last) {
            pool->note_released();
            if (last->keeps_file) {
              pool->unmap(std::move(last->file));
            } else {
              pool->give(std::move(last->path), std::move(last->file));
            }
            delete last;
          }};
}

/// The file of a kept segment, read.
Result<std::unique_ptr<SegmentFile>> SegmentPool::open_own(std::uint64_t base,
                                                           const std::string& path) {
  const std::lock_guard lock(files_mutex_);
  BRECCIA_TAKE(auto file, options_.files->open(path));
  BRECCIA_TAKE(const std::uint64_t used, file->load());
  std::uint64_t store_id = 0;
  std::uint64_t first = 0;
  BRECCIA_TRY(check_segment({base, file->size(), file->image(), path, used}, &store_id, &first));
  if (store_id != store_id_) {
    return Status::Corruption(path + ": the file is another log's");
  }
  return file;
}

Result<SegmentPtr> SegmentPool::open_kept(std::uint64_t base, const std::string& path) {
  BRECCIA_TAKE(auto file, open_own(base, path));
  auto segment = std::make_shared<Segment>();
  segment->base = base;
  segment->size = file->size();
  segment->path = path;
  segment->file = std::move(file);
  return SegmentPtr(std::move(segment));
}

Result<SegmentPtr> SegmentPool::take_kept(std::uint64_t base, const std::string& path) {
  BRECCIA_TAKE(auto file, open_own(base, path));
  file->rest();
  auto segment = std::make_unique<Segment>();
  segment->base = base;
  segment->path = path;
  segment->file = std::move(file);
  segment->keeps_file = true;  // as long as it is among those that are kept
  BRECCIA_ASSERT(segment->file->image() != nullptr && path == segment->path);
  if (options_.on_map) options_.on_map(segment->file->image(), segment->file->size());
  return adopt(std::move(segment));
}

void SegmentPool::discard(const std::string& path) {
  const std::lock_guard lock(files_mutex_);
  remove(path);
}

void SegmentPool::remove(const std::string& path) {
  const Status status = options_.files->remove(path);
  if (status.ok()) {
    obsolete_.erase(path);
  } else if (!std::exchange(obsolete_[path], true)) {
    log(LogLevel::kWarning,
        path + " is not needed any more, but cannot be removed: " + status.ToString() +
            ". It is tried again with each flush; check who may write to the folder, or remove the "
            "file when the store is closed.");
  }
}

void SegmentPool::give(std::string path, std::unique_ptr<SegmentFile> file) {
  BRECCIA_ASSERT(!path.empty() && file != nullptr);
  {
    const std::lock_guard lock(free_mutex_);
    BRECCIA_INVARIANT(!has_free(path));
    if (!closed_ && has_room_for_one_more()) {
      file->rest();
      free_.push_back({std::move(path), std::move(file)});
      return;
    }
  }
  unmap(std::move(file));
}

void SegmentPool::note_released() {
  const std::lock_guard lock(free_mutex_);
  BRECCIA_ASSERT(in_use_ > 0);
  --in_use_;
}

/// False: there is no memory to note a file. It stays where it is, for the next opening; until then
/// a rename to its name takes its place.
bool SegmentPool::has_room_for_one_more() {
  base::as_memory_allows([this] { free_.reserve(free_.size() + 1); });
  return free_.capacity() > free_.size();
}

/// True if a free file has that name; no other may.
bool SegmentPool::has_free(const std::string& path) const {
  return std::any_of(free_.begin(), free_.end(),
                     [&](const Free& free) { return free.path == path; });
}

void SegmentPool::trim() {
  const std::lock_guard files_lock(files_mutex_);
  if (!base::or_memory_limit([&] { return finish_clearing(); }).ok()) return;
  std::vector<Free> excess;
  {
    const std::lock_guard lock(free_mutex_);
    std::vector<Free> kept;
    kept.reserve(free_.size());
    excess.reserve(free_.size());
    const std::size_t most = std::max(most_in_use_, most_before_);
    const std::size_t free_max = std::max(free_max_, most - in_use_);
    most_before_ = std::exchange(most_in_use_, in_use_);
    for (Free& free : free_) {
      const bool keep = free.file->size() == options_.segment_bytes && kept.size() < free_max;
      (keep ? kept : excess).push_back(std::move(free));
    }
    free_ = std::move(kept);
  }
  for (Free& free : excess) {
    base::as_memory_allows([&] { remove(free.path); });
    unmap(std::move(free.file));
  }
  const std::map<std::string, bool> all = obsolete_;
  for (const auto& [path, is_told] : all) remove(path);
}

void SegmentPool::remove_one_obsolete() {
  const std::lock_guard lock(files_mutex_);
  // What could not be removed waits for the next trim.
  const auto one = std::find_if(obsolete_.begin(), obsolete_.end(),
                                [](const auto& entry) { return !entry.second; });
  if (one == obsolete_.end()) return;
  base::as_memory_allows([&] { remove(std::string(one->first)); });
}

void SegmentPool::close() {
  std::vector<Free> all;
  {
    const std::lock_guard lock(free_mutex_);
    closed_ = true;
    all = std::exchange(free_, {});
  }
  for (Free& free : all) unmap(std::move(free.file));
}

void SegmentPool::unmap(std::unique_ptr<SegmentFile> file) const {
  BRECCIA_ASSERT(file != nullptr);
  if (options_.on_unmap) options_.on_unmap(file->image());
  file.reset();
}

}  // namespace breccia::wal
