#include "rocks/install_gate.h"

#include <algorithm>
#include <chrono>

#include "base/assert.h"

namespace breccia::rocks {

void InstallGate::OnCompactionBegin(rocksdb::DB* /*db*/, const rocksdb::CompactionJobInfo& job) {
  std::unique_lock lock(mutex_);
  wait_for_ingests(&lock);
  jobs_.emplace(job.job_id, 0);
}

void InstallGate::OnCompactionCompleted(rocksdb::DB* /*db*/,
                                        const rocksdb::CompactionJobInfo& job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.erase(job.job_id);
  }
  changed_.notify_all();
}

void InstallGate::OnSubcompactionBegin(const rocksdb::SubcompactionJobInfo& job) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = jobs_.find(job.job_id);
    if (found == jobs_.end()) return;  // CompactFiles
    ++found->second;
  }
  changed_.notify_all();
}

void InstallGate::OnSubcompactionCompleted(const rocksdb::SubcompactionJobInfo& job) {
  std::unique_lock lock(mutex_);
  wait_for_ingests(&lock);
  const auto found = jobs_.find(job.job_id);
  if (found == jobs_.end()) return;
  BRECCIA_ASSERT(found->second > 0);
  --found->second;
}

void InstallGate::begin_ingest(const std::function<bool()>& idle) {
  constexpr auto kLookAgain = std::chrono::milliseconds(100);
  std::unique_lock lock(mutex_);
  ++ingests_;
  while (!changed_.wait_for(lock, kLookAgain, [&] { return !may_install(); })) {
    if (idle()) return;
  }
}

void InstallGate::end_ingest() {
  {
    const std::lock_guard lock(mutex_);
    BRECCIA_ASSERT(ingests_ > 0);
    --ingests_;
  }
  changed_.notify_all();
}

bool InstallGate::may_install() const {
  return std::any_of(jobs_.begin(), jobs_.end(), [](const auto& job) { return job.second == 0; });
}

void InstallGate::wait_for_ingests(std::unique_lock<std::mutex>* lock) {
  changed_.wait(*lock, [&] { return ingests_ == 0; });
}

}  // namespace breccia::rocks
