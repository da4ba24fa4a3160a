#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "base/bell.h"
#include "base/fault.h"
#include "base/result.h"
#include "hash/engine/log_view.h"
#include "hash/engine/mark.h"
#include "hash/engine/state.h"
#include "wal/commit_queue.h"

namespace breccia::hash {

/// Gives log space back, oldest segment first: records in it that are still the newest of their
/// keys are written again at the log's end, the mark says that all below is gone, and the segment
/// is used again. A deletion needs no copy: what it deleted lay before it.
///
/// Order   a copy takes its place in the log while nobody else may enter, right behind the look at
///         what is newest: whatever is written to its key later has a later place.
/// Source  log-structured storage, Rosenblum and Ousterhout 1992. Deviation: always the oldest
///         segment, so what is in use is one stretch of positions.
/// Threads any.
class Cleaner {
 public:
  struct Parts {
    wal::Log* log;
    wal::CommitQueue* commits;
    State* state;
    base::Fault* fault;
    LogView* view;
  };
  struct Figures {
    std::uint64_t segments = 0;      // that were given back
    std::uint64_t copied_bytes = 0;  // records that were written again
  };

  /// How long the log may be: so many times what its newest records take, and so many bytes.
  struct Room {
    double factor;
    std::uint64_t bytes;
  };

  Cleaner(const Parts& parts, MarkFile mark, std::uint64_t store_id, const Room& room);
  ~Cleaner() { stop(); }
  Cleaner(const Cleaner&) = delete;
  Cleaner& operator=(const Cleaner&) = delete;

  /// Cleans in the background from now on.
  void start();
  void stop();
  /// So many records of so many bytes were written.
  void note_written(std::uint64_t records, std::uint64_t bytes);
  /// Cleans in the caller's thread, if the log is twice as long as it should be: who writes so fast
  /// pays for it.
  void help();
  /// Cleans the log's oldest segment, if it is not its newest one. *was_done: there was one.
  /// Errors  the store's fault; those of the log and the mark: the store is read-only then.
  Status clean_one(bool* was_done);

  [[nodiscard]] Figures figures() const { return {segments_.load(), copied_bytes_.load()}; }
  /// Bytes that the log should not exceed.
  [[nodiscard]] std::uint64_t log_bytes_max() const;

 private:
  void work();
  void look();
  void begin_pass_if_over(const wal::Segment& oldest);
  Status clean_segment(const wal::Segment& segment, const wal::SegmentTable& table);
  Status copy_newest(const Entries& records, const wal::SegmentTable& table);
  [[nodiscard]] Result<Entries> newest_of(const Entries& records,
                                          const wal::SegmentTable& table) const;
  Status release(std::uint64_t end);

  /// One way through the log.
  struct Pass {
    std::uint64_t end = 0;        // where the log ended when it began
    std::uint64_t log_bytes = 0;  // what the log took then
    std::uint64_t looked_at = 0;  // bytes of records
    std::uint64_t copied = 0;     // of them, those that are still the newest
  };

  const Parts parts_;
  const MarkFile mark_;
  const std::uint64_t store_id_;
  const Room room_;
  std::mutex mutex_;                                  // one cleans at a time
  std::atomic<std::uint64_t> records_{0}, bytes_{0};  // written so far: of them a record's bytes
  std::atomic<std::uint64_t> measured_max_{0};        // by the last pass; 0: there was none
  Pass pass_;
  std::atomic<std::uint64_t> look_at_{0};  // the log's end from which on it is looked at again
  std::atomic<bool> is_far_too_long_{false};
  std::atomic<std::uint64_t> segments_{0}, copied_bytes_{0};
  std::atomic<bool> stops_{false};
  base::Bell bell_;
  std::thread thread_;
};

}  // namespace breccia::hash
