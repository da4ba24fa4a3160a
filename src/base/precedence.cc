#include "base/precedence.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include <filesystem>
#include <map>

#include "base/assert.h"

namespace breccia::base {

Precedence* Precedence::of_disk(const std::string& folder) {
  struct statfs system;
  struct stat about;
  if (::statfs(folder.c_str(), &system) != 0 || ::stat(folder.c_str(), &about) != 0) {
    return nullptr;
  }
  if (system.f_type == TMPFS_MAGIC) return nullptr;
  static std::mutex mutex;
  static auto* const disks = new std::map<dev_t, Precedence>();
  const std::lock_guard lock(mutex);
  return &(*disks)[about.st_dev];
}

Precedence* Precedence::of_file(const std::string& path) {
  return of_disk(std::filesystem::path(path).parent_path().string());
}

Precedence::First::First(Precedence* precedence) : precedence_(precedence) {
  if (precedence_ == nullptr) return;
  const std::lock_guard lock(precedence_->mutex_);
  if (precedence_->first_++ == 0) precedence_->next_ = Clock::now();
}

Precedence::First::~First() {
  if (precedence_ == nullptr) return;
  {
    const std::lock_guard lock(precedence_->mutex_);
    BRECCIA_ASSERT(precedence_->first_ > 0);
    if (--precedence_->first_ > 0) return;
  }
  precedence_->changed_.notify_all();
}

bool Precedence::has_first() {
  const std::lock_guard lock(mutex_);
  return first_ > 0;
}

void Precedence::give_way(std::uint64_t bytes) {
  const std::chrono::duration<double> taken(static_cast<double>(bytes) / kBesideBytesPerSecond);
  std::unique_lock lock(mutex_);
  while (first_ > 0) {
    const Clock::time_point now = Clock::now();
    if (now >= next_) {
      next_ = now + std::chrono::duration_cast<Clock::duration>(taken);
      return;
    }
    changed_.wait_until(lock, next_);
  }
}

}  // namespace breccia::base
