#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "rocks/below.h"
#include "rocks/state.h"
#include "wal/log.h"

namespace breccia::rocks {

struct MaintenanceOptions {
  std::uint64_t log_bytes_max = 0;  // writers wait above it; a flush starts at half of it
  int flush_parts = 1;
};

/// Bytes of the log that a batch may take: claimed before it takes its place, given back with the
/// claim's end, when the log itself counts them.
class RoomClaim {
 public:
  RoomClaim(std::atomic<std::uint64_t>* claimed, std::uint64_t bytes)
      : claimed_(claimed), bytes_(bytes) {}
  RoomClaim(RoomClaim&& other) noexcept
      : claimed_(std::exchange(other.claimed_, nullptr)), bytes_(other.bytes_) {}
  RoomClaim& operator=(RoomClaim&&) = delete;
  ~RoomClaim() {
    if (claimed_ != nullptr) claimed_->fetch_sub(bytes_, std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint64_t>* claimed_;
  std::uint64_t bytes_;
};

/// Work in the background: merges runs so that few are left to search, flushes runs to SST files,
/// and holds writers back while there is no room.
///
/// Threads start() and stop() by one; the rest by any number.
class Maintenance {
 public:
  /// What the engine does for maintenance.
  struct Hooks {
    /// Turns the host memtable into a run; ok if it was empty. Entries below *sealed_below lie in
    /// runs or in the tree then.
    std::function<Status(std::uint64_t* sealed_below)> seal_active;
    /// Publishes a changed copy of the current view; `change` runs under the publish lock.
    std::function<void(const std::function<void(memtable::View*)>& change)> change_view;
    /// Moves the current view to the host; for whoever retired the device.
    std::function<void()> leave_device;
  };

  Maintenance(const MaintenanceOptions& options, ViewState* state, BackendSlot* backends,
              wal::Log* log, Below* below, Fault* fault, Hooks hooks);
  ~Maintenance();

  void start();
  void stop();

  /// Waits until a write of `bytes` has room in the log, and merges if runs have piled up.
  /// Errors  Busy: no room within `wait_us_max`; the store's fault.
  Result<RoomClaim> claim_room(std::uint64_t bytes, std::uint64_t wait_us_max);
  /// To be called when a run was published and the view has `runs` now, or when `probes` runs
  /// beyond the first were searched.
  void note_runs(std::size_t runs);
  void note_probes(std::uint64_t probes);
  /// Flushes everything published so far and waits for it.
  Status flush();

  [[nodiscard]] std::uint64_t flushes() const { return flushes_.load(); }
  [[nodiscard]] std::uint64_t merges() const { return merges_.load(); }

 private:
  void run_merger();
  void run_flusher();
  /// Merges what is due, if anything.
  bool merge_once();
  void give_back(const memtable::TakenRange& range);
  bool claim_if(std::uint64_t bytes, std::uint64_t needed, std::uint64_t bytes_max);
  Status flush_once();
  Status write_tree(const memtable::View& view, std::uint64_t applied);
  Result<memtable::MemRunPtr> merged(const std::vector<memtable::MemRunPtr>& runs);
  static Result<memtable::MemRunPtr> merged_on(exec::Backend& backend,
                                               const std::vector<memtable::MemRunPtr>& runs);
  std::vector<memtable::MemRunPtr> take_for_merge();
  memtable::ViewPtr take_for_flush();
  [[nodiscard]] std::uint64_t log_bytes() const;
  [[nodiscard]] std::uint64_t visible_bytes() const;
  void wake_merger();
  [[nodiscard]] bool device_is_full() const;

  const MaintenanceOptions options_;
  ViewState* state_;
  BackendSlot* backends_;
  wal::Log* log_;
  Below* below_;
  Fault* fault_;
  Hooks hooks_;

  std::mutex mutex_;
  std::condition_variable merger_wakes_;
  std::condition_variable flusher_wakes_;
  std::condition_variable room_;
  bool stopping_ = false;
  bool merge_hint_ = false;
  std::uint64_t flushes_wanted_ = 0;
  std::uint64_t flushes_done_ = 0;
  std::vector<memtable::TakenRange> taken_;  // runs that merges and the flush work on
  bool flush_waits_ = false;                 // for merges to end: none may begin
  std::atomic<std::uint64_t> claimed_{0};    // log bytes that writers are about to take
  std::atomic<std::size_t> runs_{0};
  std::atomic<std::uint64_t> probes_{0};
  std::atomic<std::uint64_t> flushes_{0};
  std::atomic<std::uint64_t> merges_{0};
  std::thread merger_;
  std::thread flusher_;
};

}  // namespace breccia::rocks
