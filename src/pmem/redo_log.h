#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "base/result.h"
#include "pmem/disk.h"
#include "pmem/lines.h"

/// The redo log of a file region: changed lines, one record per persist.
///
///   block 0      RedoHeader, 64 bytes, rewritten in place (one 512-byte sector: atomic)
///   block 1 ...  records, each from the start of a 4096-byte block:
///                RedoRecord (64 bytes), its entries (72 bytes each), zeros up to the next block
///
/// Records begin at blocks of their own, so that an append never writes to a block that holds an
/// acknowledged record. Sequence numbers never repeat: restart() moves `first_sequence` up and
/// appends from block 1 again, and older records behind the new ones are known by their numbers.
/// Layout and rules of recovery: docs/impl/pmem.md.

namespace breccia::pmem {

struct RedoHeader {
  std::uint64_t magic;
  std::uint64_t version;
  std::uint64_t region_bytes;
  std::uint64_t first_sequence;  // of the record in block 1, if there is one
  std::uint64_t reserved[3];     // zero
  std::uint64_t checksum;        // XXH3 of the bytes before it
};
static_assert(sizeof(RedoHeader) == 64);

struct RedoRecord {
  std::uint64_t magic;
  std::uint64_t sequence;
  std::uint64_t position;  // of this record in the file: a copy of it elsewhere is no record
  std::uint64_t entries;
  std::uint64_t reserved[3];  // zero
  std::uint64_t checksum;     // XXH3 of the bytes before it, then of the entries
};
static_assert(sizeof(RedoRecord) == 64);

struct RedoEntry {
  std::uint64_t offset;  // of the line in the region, a multiple of 64
  Line line;
};
static_assert(sizeof(RedoEntry) == 72 && std::is_trivially_copyable_v<RedoEntry>);

/// Threads one at a time.
class RedoLog {
 public:
  using Apply = std::function<void(std::uint64_t offset, const Line& line)>;

  /// Makes an empty log for a region of `region_bytes`, durable but for its name; `log_bytes` are
  /// reserved for records.
  static Status create(Disk& disk, const std::string& path, std::uint64_t region_bytes,
                       std::uint64_t log_bytes);
  /// Errors  NotFound; Corruption: the header is damaged or belongs to another region.
  static Result<std::unique_ptr<RedoLog>> open(Disk& disk, const std::string& path,
                                               std::uint64_t region_bytes);

  /// Applies each entry of each whole record in order, then makes sure that what was applied is on
  /// the medium. Called once, before any append.
  /// Errors  Corruption: a record is damaged and a whole one lies behind it.
  /// Cost    one sync.
  Status replay(const Apply& apply);

  /// Adds a line to the record in the making, behind those that it has.
  void stage(std::uint64_t offset, const Line& line);
  [[nodiscard]] std::uint64_t staged() const { return staged_.size(); }
  [[nodiscard]] const RedoEntry& staged_entry(std::uint64_t index) const { return staged_[index]; }
  /// Forgets the record in the making.
  void clear_staged() { staged_.clear(); }
  /// Appends the staged record and makes it durable; it stays staged.
  /// Cost    one write, one sync.
  Status append_staged();

  /// Bytes of the log's blocks in use, and what they would be with the staged record.
  [[nodiscard]] bool empty() const { return end_ == kPageBytes; }
  [[nodiscard]] std::uint64_t bytes_with_staged() const;

  /// Empties the log. Only after all of it is durable in the image.
  /// Cost    one write, one sync.
  Status restart();

 private:
  RedoLog(std::unique_ptr<DiskFile> file, const RedoHeader& header, std::uint64_t file_bytes);
  /// Reads the record at `position` into staged_ and answers true if it is whole and its number
  /// is `sequence_min` or above.
  Result<bool> read_record(std::uint64_t position, std::uint64_t sequence_min, RedoRecord* record);
  Status check_nothing_behind();
  Status settle(std::uint64_t last_position);
  Status check_offsets() const;

  std::unique_ptr<DiskFile> file_;
  RedoHeader header_;
  std::uint64_t file_bytes_;
  std::uint64_t end_ = kPageBytes;
  std::uint64_t next_sequence_;
  std::vector<RedoEntry> staged_;
  std::vector<std::byte> buffer_;
};

}  // namespace breccia::pmem
