#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/assert.h"
#include "wal/log_options.h"
#include "wal/segment_table.h"

/// Makes segments, from recycled files where there are any. Private to the log.
///
/// A file gets its identity in an order that a crash cannot break: header, sync, rename to its
/// final name, sync of the folder. So whatever has a segment's name has an intact header, and a
/// segment exists durably before the first frame goes into it. A recycled file keeps its old name
/// until then: the name of a segment that lies below what recovery asks for. Once renamed, a file
/// stays, whatever fails behind it: it may have taken the place of a segment that is needed.
///
/// Files that nobody needs are removed as well as can be: one that cannot be removed is tried again
/// with each trim(), and does no harm while it lies there.

namespace breccia::wal {

/// Files kept for reuse, where no more of them were in use lately; others are removed.
inline constexpr std::size_t kFreeSegmentsMax = 8;

/// The name of the segment that begins at position `base`.
std::string segment_name(std::uint64_t base);
/// The base position in a segment's name, or none if it is no such name.
std::optional<std::uint64_t> segment_base(const std::string& name);

/// Threads any, except where it says otherwise.
class SegmentPool : public std::enable_shared_from_this<SegmentPool> {
 public:
  SegmentPool(const LogOptions& options, std::uint64_t store_id)
      : options_(options), store_id_(store_id) {
    BRECCIA_ASSERT(store_id != 0);
    BRECCIA_ASSERT(options.segment_bytes > 0 &&
                   options.segment_bytes % limits::kLogWindowBytes == 0);
  }
  ~SegmentPool() { close(); }
  SegmentPool(const SegmentPool&) = delete;
  SegmentPool& operator=(const SegmentPool&) = delete;

  [[nodiscard]] std::uint64_t store_id() const { return store_id_; }

  /// A new segment at [base, base + size), first frame at `first`, durable on return. Takes the
  /// place of a file of that name.
  /// Errors  NoSpace, IOError: there is no new segment.
  [[nodiscard]] Result<SegmentPtr> make(std::uint64_t base, std::uint64_t first,
                                        std::uint64_t size);
  /// Makes files for `bytes` bytes of segments, their memory touched, and keeps them free.
  /// Errors  NoSpace, IOError: some may have been made.
  [[nodiscard]] Status stock(std::uint64_t bytes);
  /// A segment around an open file.
  SegmentPtr adopt(std::uint64_t base, std::string path, std::unique_ptr<SegmentFile> file);
  SegmentPtr adopt(std::unique_ptr<Segment> segment);
  /// Opens a segment that was released and kept, for reading.
  /// Errors  Corruption: it is not this log's; IOError.
  [[nodiscard]] Result<SegmentPtr> open_kept(std::uint64_t base, const std::string& path);
  /// The same, to become a segment in use: its file stays until keeps_file is cleared.
  [[nodiscard]] Result<SegmentPtr> take_kept(std::uint64_t base, const std::string& path);
  /// Removes a file that nobody needs any more and that is not open.
  void discard(const std::string& path);
  /// Keeps a file that holds nothing of worth.
  void give(std::string path, std::unique_ptr<SegmentFile> file);
  /// Takes their names from files that lie at or above `base`, where the log has no segment: from
  /// those that were made ahead, `ahead`, which become free, and from what a call that failed has
  /// left there. From the last on, each durably, so that a crash leaves no gap.
  /// Errors  MemoryLimit, IOError: some still have theirs; whatever comes next clears them first.
  [[nodiscard]] Status clear_names(std::uint64_t base, std::vector<SegmentPtr> ahead);
  /// Discards free files of an unusual size, and those beyond kFreeSegmentsMax or as many as made
  /// the most segments that were in use since the trim before the last one, whichever is more; and
  /// tries again to remove what could not be removed before.
  void trim();
  /// Removes one of the files in whose place there are others: one takes some time.
  void remove_one_obsolete();
  /// From now on files that come back are closed and stay where they are.
  void close();

 private:
  struct Free {
    std::string path;
    std::unique_ptr<SegmentFile> file;
  };

  [[nodiscard]] Result<std::unique_ptr<SegmentFile>> open_own(std::uint64_t base,
                                                              const std::string& path);
  [[nodiscard]] Result<Free> take(std::uint64_t size, std::uint64_t base);
  void renew(Free* free, std::uint64_t base);
  [[nodiscard]] Result<Free> create(const std::string& path, std::uint64_t size);
  [[nodiscard]] std::string unfinished_path(const std::string& begin);
  void remove(const std::string& path);
  [[nodiscard]] bool has_room_for_one_more();
  [[nodiscard]] bool has_free(const std::string& path) const;
  [[nodiscard]] Status name(Free* free, std::uint64_t base, std::uint64_t first,
                            std::uint64_t size);
  [[nodiscard]] Status clear_name(const std::string& path, bool* was_free);
  [[nodiscard]] Status finish_clearing();
  void note_released();
  void unmap(std::unique_ptr<SegmentFile> file) const;

  const LogOptions options_;
  const std::uint64_t store_id_;
  std::mutex files_mutex_;  // calls of options_.files and what follows; before free_mutex_
  std::uint64_t names_given_ = 0;
  /// Paths that are to be removed, and whether it was told that they cannot be.
  std::map<std::string, bool> obsolete_;
  /// Where names are to be cleared from, and not all are: some of the free files have such names.
  std::optional<std::uint64_t> clear_from_;
  std::mutex free_mutex_;
  std::vector<Free> free_;
  std::size_t in_use_ = 0;       // segments
  std::size_t most_in_use_ = 0;  // since the last trim,
  std::size_t most_before_ = 0;  // and between it and the one before
  std::size_t free_max_ = kFreeSegmentsMax;
  bool closed_ = false;
};

/// The name of a file that is no segment yet; recovery removes what a crash leaves of them.
bool is_unfinished_name(const std::string& name);

}  // namespace breccia::wal
