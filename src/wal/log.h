#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/result.h"
#include "wal/format.h"
#include "wal/intake.h"
#include "wal/log_options.h"
#include "wal/segment_table.h"

/// The write-ahead log: one stream of positions over a chain of segment files. It is also the value
/// buffer: values are written here once and read from here until they lie in SST files.
///
/// A write goes through five steps; the caller (commit_queue.h) orders them:
///   1. reserve   takes a range of positions            one caller at a time
///   2. fill      copies records, keeps their checksum   any number of frames at once
///   3. (the backend writes the frame's descriptors in place)
///   4. seal      writes header and commit record        any number of frames at once
///   5. commit    makes all frames below an end durable  one caller at a time, in position order
/// A frame that will never be sealed poisons what comes after it: the caller must stop the log.
///
/// Source  [hrocks] section 5 (G-WAL: values contiguous, descriptors by lane, no locks). Deviation:
///         one commit record a frame, positions instead of pointers (docs/impl/wal.md).

namespace breccia::wal {

/// A frame between reserve and commit.
/// Threads what reserve() set is not changed any more: who commits other frames reads it.
struct Frame {
  std::uint64_t position = 0;
  std::uint32_t flags = 0;  // of the layout
  bool mixed = false;       // kFrameMixed; the caller says so before fill()
  std::uint64_t record_bytes = 0;
  std::uint32_t record_count = 0;
  std::uint32_t descriptor_count = 0;
  std::byte* at = nullptr;  // the frame's header in the image
  std::uint64_t checksum = 0;

  [[nodiscard]] FrameLayout layout() const {
    return FrameLayout::of(position, flags, record_bytes, descriptor_count);
  }
  /// Position of the frame's first record.
  [[nodiscard]] std::uint64_t records_position() const { return position + layout().records; }
  [[nodiscard]] std::uint64_t end() const { return position + layout().end; }
  [[nodiscard]] std::uint32_t* descriptors() const {
    return reinterpret_cast<std::uint32_t*>(at + layout().descriptors);
  }
};

/// The records of a frame, one behind the other, wherever they lie.
class RecordSource {
 public:
  virtual ~RecordSource() = default;
  /// Bytes [begin, end) of them: where they lie, or in `room`, into which they were brought.
  /// Shape   room[end - begin]; kChecksumPieceBytes at most.
  /// Threads any number.
  [[nodiscard]] virtual const std::byte* bytes(std::uint64_t begin, std::uint64_t end,
                                               std::byte* room) const = 0;
};

/// Those that lie in one piece.
class RecordsInOnePiece final : public RecordSource {
 public:
  explicit RecordsInOnePiece(const std::byte* records) : records_(records) {}
  [[nodiscard]] const std::byte* bytes(std::uint64_t begin, std::uint64_t /*end*/,
                                       std::byte* /*room*/) const override {
    return records_ + begin;
  }

 private:
  const std::byte* const records_;
};

/// The log of one store.
/// Threads any number, where a call does not say otherwise.
class Log {
 public:
  /// Opens or creates the log in options.dir and replays what lies at or above position `from`
  /// (everything below is in SST files). `replay` sees each committed frame once, in order, after
  /// its checksum, lengths and descriptors have been verified: records tile record_bytes exactly
  /// and descriptors are a permutation of the record offsets.
  /// New frames go into a fresh segment. Segments wholly below `from` are recycled.
  /// Owner   the folder stays locked until the log's end.
  /// Errors  Corruption: a frame at or above `from` is damaged and a committed frame lies behind
  ///         it, a segment in the middle is missing or unreadable, or the log begins above `from`
  ///         (data is missing), or it bears another identity than options.store_id: nothing is
  ///         changed on the medium. IOError: also if another log is open in the folder. NoSpace.
  ///         A torn tail (nothing committed behind it) is no error: it is cut off and reported.
  static Result<std::unique_ptr<Log>> open(
      const LogOptions& options, std::uint64_t from,
      const std::function<Status(const RecoveredFrame&)>& replay, LogRecovery* recovery);
  /// The same, with an intake in the place of `replay`: it has taken in records by the time this
  /// returns, also with an error, and is not asked for anything then.
  static Result<std::unique_ptr<Log>> open(const LogOptions& options, std::uint64_t from,
                                           LogIntake* intake, LogRecovery* recovery);
  virtual ~Log() = default;

  /// Takes the next range of positions. Opens a new segment if the current one has no room; a frame
  /// larger than a segment gets one of its own size.
  /// Large frames (1,000 records and more) are kFrameAligned, others where `aligned` says so.
  /// Errors  NoSpace, IOError: no segment could be made; nothing was taken.
  /// Threads one caller at a time.
  [[nodiscard]] virtual Result<Frame> reserve(std::uint64_t record_bytes,
                                              std::uint32_t record_count,
                                              std::uint32_t descriptor_count, bool aligned) = 0;
  [[nodiscard]] Result<Frame> reserve(std::uint64_t record_bytes, std::uint32_t record_count,
                                      std::uint32_t descriptor_count) {
    return reserve(record_bytes, record_count, descriptor_count, /*aligned=*/false);
  }

  /// Copies the frame's records (record_bytes bytes in format) into the image.
  /// Threads any number, of different frames.
  virtual void fill(Frame* frame, const RecordSource& records) = 0;
  void fill(Frame* frame, const std::byte* records) { fill(frame, RecordsInOnePiece(records)); }
  /// The same by several threads: begin_fill(), the pieces by copy_piece() (wal/frame.h), then what
  /// sum_digests() says is the frame's checksum.
  virtual void begin_fill(Frame* frame) = 0;

  /// Checksums the descriptors, then writes header and commit record. The frame is not durable yet.
  virtual void seal(Frame* frame) = 0;

  /// Makes every sealed frame up to position `end` survive the process; with `sync`, also a power
  /// cut. All frames below `end` must be sealed. Ranges that earlier frames left unwritten
  /// (Durability::kNone) are written first: what survives is always a prefix.
  /// Errors  IOError, NoSpace: from now on the log refuses every call with this status.
  /// Threads one caller at a time.
  [[nodiscard]] virtual Status commit(std::uint64_t end, bool sync) = 0;

  /// Segments that readers may need now.
  [[nodiscard]] virtual SegmentTablePtr table() const = 0;

  /// Everything below `position` lies in SST files: segments wholly below it leave table(), in
  /// order, and their files are reused once no reader holds them, or kept. Those that reach above
  /// `needed_from` stay until another call.
  virtual Status release_below(std::uint64_t position, std::uint64_t needed_from) = 0;
  Status release_below(std::uint64_t position) { return release_below(position, position); }

  /// Everything below survives a power cut.
  [[nodiscard]] virtual std::uint64_t synced() const = 0;

  // ---- what was released and is kept all the same ----

  /// Keeps what is released from `position` on, while the log's end is at most `bytes_max` ahead of
  /// it. Moved and removed by its number.
  virtual std::uint64_t add_hold(std::uint64_t position, std::uint64_t bytes_max) = 0;
  virtual void move_hold(std::uint64_t hold, std::uint64_t position) = 0;
  virtual void remove_hold(std::uint64_t hold) = 0;
  /// True if release_below() may have something to keep: it keeps only what was synced.
  [[nodiscard]] virtual bool keeps() const = 0;
  /// Lowest position that segment_at() knows.
  [[nodiscard]] virtual std::uint64_t oldest() const = 0;
  /// The segment that holds `position`, in use or kept. One that was released is read again; its
  /// frames are to be checked before they are believed.
  /// Errors  NotFound: it is not kept; Corruption, IOError.
  [[nodiscard]] virtual Result<SegmentPtr> segment_at(std::uint64_t position) = 0;

  /// Brings the newest kept segment back into table(), as if it had never been released; it goes
  /// with a later release_below(). Null: none is kept, or somebody reads it just now.
  /// Errors  as segment_at: it stays kept.
  /// Threads one caller of this and release_below() at a time.
  [[nodiscard]] virtual Result<SegmentPtr> take_back() = 0;

  /// Position behind the last reserved frame, and the position below which all was released.
  [[nodiscard]] virtual std::uint64_t end() const = 0;
  [[nodiscard]] virtual std::uint64_t begin() const = 0;
  /// Bytes between the two.
  [[nodiscard]] std::uint64_t bytes_in_use() const {
    const std::uint64_t from = begin();  // first: it never passes an end read later
    return end() - from;
  }
};

}  // namespace breccia::wal
