#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "cache/row_cache.h"
#include "ordered/listeners.h"
#include "ordered/read/history.h"
#include "ordered/state.h"
#include "ordered/write/publisher.h"
#include "tree/tree.h"
#include "wal/commit_queue.h"
#include "wal/log.h"

namespace breccia::ordered {

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
  Maintenance(const MaintenanceOptions& options, ViewState* state, Backends* backends,
              const RunBuilder* builder, Publisher* publisher, wal::CommitQueue* commits,
              wal::Log* log, tree::Tree* below, History* history, Fault* fault,
              Statistics* statistics, Listeners* listeners);
  ~Maintenance();

  void start();
  void stop();

  /// Waits until a write of `bytes` has room in the log, and merges if runs have piled up.
  /// Errors  Incomplete: no room within `wait_us_max`; the store's fault.
  Result<RoomClaim> claim_room(std::uint64_t bytes, std::uint64_t wait_us_max);
  /// To be called when a family changed and the fullest one has `runs` now, all together
  /// `tombstones` range deletions, or when `probes` runs beyond the first were searched.
  void note_view(std::size_t runs, std::size_t tombstones);
  void note_probes(std::uint64_t probes);
  /// To be called when the host searched in more than one order of a run: begins to read those that
  /// the runs have on the device.
  void want_orders();
  /// Another tenant of the device waits for memory: begins a flush.
  void give_device_memory();
  /// Flushes everything published so far and waits for it, and until its listeners have heard of
  /// it. `waits_for_tree`: begins when the tree is not overloaded any more.
  Status flush(bool waits_for_tree);

 private:
  /// Runs of one family that a merge works on.
  struct Taken {
    FamilyId family;
    std::vector<MemRunPtr> runs;
  };

  void run_merger();
  void run_flusher();
  /// Merges what is due, if anything: then *merged. Errors  it failed; another call may not.
  Status merge_once(bool* merged);
  Status merge_taken(const Taken& taken);
  /// Reads one run's own order from the device, if any is not read: then *read.
  Status read_order_once(bool* read);
  std::optional<Taken> take_for_order();
  Taken take(const FamilyView& family, RunRange range);
  void give_back(const Taken& taken);
  void give_back(const std::function<bool(const TakenRange&)>& is_mine);
  bool claim_if(std::uint64_t bytes, std::uint64_t needed, std::uint64_t bytes_max);
  Status flush_once(bool manual, std::uint64_t* told);
  Status show_when_flushed(const ViewPtr& view, std::uint64_t applied,
                           cache::RowCache::Change* change);
  Status flush_taken(const ViewPtr& view, std::uint64_t applied, bool manual, std::uint64_t* told);
  bool wait_for_tree();
  template <class Over>
  bool wait_until(std::chrono::steady_clock::time_point deadline, const Over& over);
  Result<RoomClaim> wait_for_room(std::uint64_t bytes, std::uint64_t wait_us_max);
  void note_waiter(int more);
  /// What a write is told that found no room.
  Status refused(std::uint64_t wait_us_max);
  void show_flushed(const ViewPtr& flushed, std::uint64_t applied, cache::RowCache::Change* change);
  Status release_log(std::uint64_t applied);
  Result<MemRunPtr> merged(const std::vector<MemRunPtr>& runs, bool reads_order);
  /// Puts `one` in the place of what was taken. False: the view has other runs by now.
  bool install(const Taken& taken, const MemRunPtr& one);
  static Result<MemRunPtr> merged_on(runs::Backend& backend, const std::vector<MemRunPtr>& runs,
                                     bool reads_order);
  std::optional<Taken> take_for_merge();
  Status take_for_flush(ViewPtr* view, std::uint64_t* applied);
  [[nodiscard]] std::uint64_t visible_bytes() const;
  void wake_merger();
  [[nodiscard]] bool device_is_full() const;

  const MaintenanceOptions options_;
  ViewState* state_;
  Backends* backends_;
  const RunBuilder* builder_;
  Publisher* publisher_;
  wal::CommitQueue* commits_;
  wal::Log* log_;
  tree::Tree* below_;
  History* history_;
  Fault* fault_;
  Statistics* statistics_;
  Listeners* listeners_;

  std::mutex mutex_;
  std::condition_variable merger_wakes_;
  std::condition_variable flusher_wakes_;
  std::condition_variable room_;
  bool stopping_ = false;
  bool merge_hint_ = false;
  bool device_memory_wanted_ = false;
  std::uint64_t flushes_wanted_ = 0;
  std::uint64_t flushes_done_ = 0;
  std::uint64_t flushes_at_once_ = 0;      // up to this one they do not wait for the tree
  std::uint64_t flush_told_ = 0;           // what Listeners::wait wants of the last one
  std::vector<TakenRange> taken_;          // runs that merges and the flush work on
  bool flush_waits_ = false;               // for merges to end: none may begin
  std::atomic<std::uint64_t> claimed_{0};  // log bytes that writers are about to take
  std::mutex waiters_mutex_;
  int waiters_ = 0;  // writers that wait for room
  std::atomic<std::size_t> runs_{0};
  std::atomic<std::size_t> tombstones_{0};
  std::atomic<std::uint64_t> probes_{0};
  std::atomic<bool> orders_wanted_{false};
  std::thread merger_;
  std::thread flusher_;
};

}  // namespace breccia::ordered
