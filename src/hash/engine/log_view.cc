#include "hash/engine/log_view.h"

#include <algorithm>
#include <vector>

#include "base/assert.h"
#include "base/memory.h"

namespace breccia::hash {

void LogView::map(std::byte* image, std::uint64_t bytes) {
  // An image that nobody has noted is read by the host.
  base::as_memory_allows([&] {
    const std::lock_guard lock(mutex_);
    const bool is_new = images_.emplace(image, Image{bytes, State::kMapped}).second;
    BRECCIA_ASSERT(is_new);
  });
  changes_.notify_all();
}

void LogView::unmap(std::byte* image) {
  std::unique_lock lock(mutex_);
  const auto at = images_.find(image);
  if (at == images_.end()) return;
  changes_.wait(lock, [&] { return at->second.state != State::kBeingAdopted; });
  const bool was_adopted = at->second.state == State::kAdopted;
  images_.erase(at);
  if (!was_adopted) return;
  ++adoptions_;
  lock.unlock();
  backend_->device().disown(image);
}

LogWindowsPtr LogView::get(const wal::SegmentTablePtr& table) {
  {
    const std::lock_guard lock(mutex_);
    if (!thread_.joinable() && !stops_) {
      // Without a thread the host reads all.
      base::or_error([&] {
        thread_ = std::thread([this] { adopt_all(); });
        return Status::OK();
      }).PermitUncheckedError();
    }
    if (windows_ != nullptr && windows_->is_of(table, adoptions_)) return windows_;
  }
  // Who comes while others make them takes what there is.
  const std::unique_lock making(making_, std::try_to_lock);
  if (making.owns_lock()) refresh(table);
  const std::lock_guard lock(mutex_);
  return windows_;
}

void LogView::let_go(const wal::SegmentTablePtr& table) {
  const std::lock_guard making(making_);
  {
    const std::lock_guard lock(mutex_);
    if (windows_ == nullptr) return;
  }
  refresh(table);
}

void LogView::stop() {
  LogWindowsPtr gone;
  std::thread thread;
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
    gone.swap(windows_);
    thread.swap(thread_);
  }
  changes_.notify_all();
  if (thread.joinable()) thread.join();
}

std::uint64_t LogView::adopted_bytes() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t bytes = 0;
  for (const auto& [image, one] : images_) bytes += one.state == State::kAdopted ? one.bytes : 0;
  return bytes;
}

void LogView::adopt_all() {
  std::unique_lock lock(mutex_);
  while (!stops_) {
    const auto next = std::find_if(images_.begin(), images_.end(), [](const auto& image) {
      return image.second.state == State::kMapped;
    });
    if (next == images_.end()) {
      changes_.wait(lock);
      continue;
    }
    // It stays in the map as long as this says so.
    next->second.state = State::kBeingAdopted;
    lock.unlock();
    const bool is_adopted = backend_->device().adopt(next->first, next->second.bytes);
    const char* const there =
        is_adopted ? backend_->reach(reinterpret_cast<char*>(next->first)) : nullptr;
    lock.lock();
    next->second.there = there;
    next->second.state = is_adopted ? State::kAdopted : State::kRefused;
    adoptions_ += is_adopted ? 1 : 0;
    changes_.notify_all();
  }
}

/// Called by one at a time. Where there is no memory nothing can be read.
void LogView::refresh(const wal::SegmentTablePtr& table) {
  if (table->segments().empty()) return;
  std::uint64_t adoptions = 0;
  {
    const std::lock_guard lock(mutex_);
    // Who comes late may not bring segments back that were let go.
    if (windows_ != nullptr && windows_->is_ahead_of(*table)) return;
    adoptions = adoptions_;
  }
  LogWindowsPtr made;
  base::as_memory_allows([&] { made = make(table, adoptions); });
  const std::lock_guard lock(mutex_);
  if (!stops_) windows_.swap(made);  // the old ones go behind the lock: a segment may go with them
}

LogWindowsPtr LogView::make(const wal::SegmentTablePtr& table, std::uint64_t adoptions) {
  std::vector<const char*> window;
  for (const wal::SegmentPtr& segment : table->segments()) {
    std::byte* const image = segment->file->image();
    const char* begin = nullptr;
    {
      const std::lock_guard lock(mutex_);
      const auto at = images_.find(image);
      if (at != images_.end()) begin = at->second.there;
    }
    for (std::uint64_t at = 0; at < segment->size; at += LogRef::kWindowBytes) {
      window.push_back(begin == nullptr ? nullptr : begin + at);
    }
  }
  auto there = exec::Array<const char*>::make(backend_->tenant().pool(), window.size());
  if (!there.ok()) return nullptr;
  const Status copied = backend_->copy_in(reinterpret_cast<char*>(there.value().data()),
                                          reinterpret_cast<const char*>(window.data()),
                                          window.size() * sizeof window[0]);
  if (!copied.ok()) return nullptr;
  const std::uint64_t first = table->segments().front()->base / LogRef::kWindowBytes;
  return std::make_shared<const LogWindows>(table, there.take(), first, adoptions);
}

}  // namespace breccia::hash
