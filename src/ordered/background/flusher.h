#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "cache/row_cache.h"
#include "ordered/background/clean_runs.h"
#include "ordered/background/merger.h"
#include "ordered/background/refill.h"
#include "ordered/background/room.h"
#include "ordered/background/taken_runs.h"
#include "ordered/read/history.h"
#include "wal/commit_queue.h"

namespace breccia::ordered {

/// Writes what memory holds to SST files in the background, when somebody asks for it, or when log,
/// range deletions or device memory become many.
///
/// Threads start() and stop() by one; the rest by any number.
class Flusher {
 public:
  struct Sizes {
    int files = 1;                  // that each family becomes
    std::uint64_t clean_bytes = 0;  // Options::clean_bytes
  };
  Flusher(const StoreParts& parts, const Sizes& sizes, Publisher* publisher,
          wal::CommitQueue* commits, History* history, Merger* merger, TakenRuns* taken,
          Room* room);
  ~Flusher();

  void start();
  void stop();

  /// Flushes everything published so far and waits for it, and until its listeners have heard of
  /// it. `waits_for_tree`: begins when the tree is not overloaded any more.
  Status flush(bool waits_for_tree);
  /// Another tenant of the device waits for memory: lets go of what was flushed, or begins a flush.
  void give_device_memory();

 private:
  void run();
  [[nodiscard]] bool is_due();
  [[nodiscard]] std::uint64_t visible_bytes() const;
  [[nodiscard]] bool device_is_full() const;
  [[nodiscard]] bool device_wants_flush() const;
  [[nodiscard]] std::uint64_t clean_on_device() const;
  bool wait_for_tree();
  [[nodiscard]] bool is_wanted_at_once();
  Status flush_once(bool manual, std::uint64_t* told);
  Status take_all(ViewPtr* view, std::uint64_t* applied);
  Status flush_taken(const ViewPtr& view, std::uint64_t applied, bool manual, std::uint64_t* told);
  Status show_when_flushed(const ViewPtr& view, std::uint64_t applied, const FlushedRuns& merged,
                           cache::RowCache::Change* change);
  void show_flushed(const ViewPtr& flushed, std::uint64_t applied, const FlushedRuns& merged,
                    cache::RowCache::Change* change);
  [[nodiscard]] bool is_in_use(const MemRun& run) const;
  [[nodiscard]] CleanBudget clean_budget(const View& view, const FlushedRuns& merged) const;
  bool give_clean_memory();
  void note_log();
  Status merge_clean();
  Status merge_clean_once(const FamilyView& family, RunRange due);
  Status release_log(std::uint64_t applied);
  void note_end(const Status& status, std::uint64_t wanted, std::uint64_t told);

  const StoreParts parts_;
  const Sizes sizes_;
  Publisher* publisher_;
  wal::CommitQueue* commits_;
  History* history_;
  Merger* merger_;
  TakenRuns* taken_;
  Room* room_;

  std::mutex mutex_;
  std::condition_variable ended_;
  std::uint64_t wanted_ = 0;  // flushes that were asked for, and done
  std::uint64_t done_ = 0;
  std::uint64_t at_once_ = 0;  // up to this one they do not wait for the tree
  std::uint64_t told_ = 0;     // what Listeners::wait wants of the last one
  bool device_memory_wanted_ = false;
  Refill refill_;            // the flusher's thread
  bool keeps_clean_ = true;  // the flusher's thread: what it flushes now may stay
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace breccia::ordered
