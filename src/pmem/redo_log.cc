#include "pmem/redo_log.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "base/assert.h"
#include "base/checksum.h"

namespace breccia::pmem {
namespace {

constexpr std::uint64_t kHeaderMagic = 0x676f6c2d6f646572;  // "redo-log"
constexpr std::uint64_t kRecordMagic = 0x6e6f632d6f646572;  // "redo-con"
constexpr std::uint64_t kVersion = 1;

template <class T>
std::span<const std::byte> bytes_of(const T& object) {
  return std::as_bytes(std::span(&object, 1));
}

std::uint64_t checksum_of(const RedoHeader& header) {
  return base::Checksum64::of(&header, offsetof(RedoHeader, checksum));
}

std::uint64_t checksum_of(const RedoRecord& record, const RedoEntry* entries) {
  base::Checksum64 checksum;
  checksum.update(&record, offsetof(RedoRecord, checksum));
  checksum.update(entries, record.entries * sizeof(RedoEntry));
  return checksum.digest();
}

std::uint64_t record_bytes(std::uint64_t entries) {
  return base::round_up(sizeof(RedoRecord) + entries * sizeof(RedoEntry), kPageBytes);
}

/// True if a record of `position` lies in `bytes` as read_record() believes one.
bool is_whole_record(std::span<const std::byte> bytes, std::uint64_t position) {
  RedoRecord record;
  std::memcpy(&record, bytes.data(), sizeof record);
  std::vector<RedoEntry> entries(record.entries);
  std::memcpy(entries.data(), bytes.data() + sizeof record, entries.size() * sizeof(RedoEntry));
  return record.position == position && record.checksum == checksum_of(record, entries.data());
}

RedoHeader make_header(std::uint64_t region_bytes, std::uint64_t first_sequence) {
  RedoHeader header{kHeaderMagic, kVersion, region_bytes, first_sequence, {}, 0};
  header.checksum = checksum_of(header);
  return header;
}

}  // namespace

Status RedoLog::create(Disk& disk, const std::string& path, std::uint64_t region_bytes,
                       std::uint64_t log_bytes) {
  BRECCIA_ASSERT(region_bytes > 0);
  BRECCIA_TAKE(auto file, disk.create(path, kPageBytes + log_bytes));
  BRECCIA_TRY(file->write(0, bytes_of(make_header(region_bytes, /*first_sequence=*/1))));
  return file->sync();
}

Result<std::unique_ptr<RedoLog>> RedoLog::open(Disk& disk, const std::string& path,
                                               std::uint64_t region_bytes) {
  BRECCIA_TAKE(auto file, disk.open(path));
  BRECCIA_TAKE(const std::uint64_t file_bytes, file->size());
  if (file_bytes < kPageBytes) return Status::Corruption(path, "the redo log has no header");
  RedoHeader header;
  BRECCIA_TRY(file->read(0, std::as_writable_bytes(std::span(&header, 1))));
  if (header.magic != kHeaderMagic || header.checksum != checksum_of(header)) {
    return Status::Corruption(path, "the redo log's header is damaged");
  }
  if (header.version != kVersion) return Status::NotSupported(path, "redo log of another version");
  if (header.region_bytes != region_bytes) {
    return Status::Corruption(path, "the redo log belongs to a region of another size");
  }
  // Half of the numbers is more than any file can use up.
  if (header.first_sequence == 0 || header.first_sequence >> 63 != 0) {
    return Status::Corruption(path, "the redo log begins with a record that cannot be");
  }
  return std::unique_ptr<RedoLog>(new RedoLog(std::move(file), header, file_bytes));
}

RedoLog::RedoLog(std::unique_ptr<DiskFile> file, const RedoHeader& header, std::uint64_t file_bytes)
    : file_(std::move(file)),
      header_(header),
      file_bytes_(file_bytes),
      next_sequence_(header.first_sequence) {
  BRECCIA_ASSERT(file_bytes_ >= kPageBytes && header_.checksum == checksum_of(header_));
}

Result<bool> RedoLog::read_record(std::uint64_t position, std::uint64_t sequence_min,
                                  RedoRecord* record) {
  BRECCIA_ASSERT(position >= kPageBytes && position % kPageBytes == 0);
  if (position + sizeof(RedoRecord) > file_bytes_) return false;
  BRECCIA_TRY(file_->read(position, std::as_writable_bytes(std::span(record, 1))));
  const bool plausible = record->magic == kRecordMagic && record->position == position &&
                         record->sequence >= sequence_min;
  // The count is not to be believed yet: what it says must fit the file before memory is taken.
  const std::uint64_t room = file_bytes_ - position - sizeof(RedoRecord);
  if (!plausible || record->entries > room / sizeof(RedoEntry)) return false;
  staged_.resize(record->entries);
  const auto entries = std::as_writable_bytes(std::span(staged_));
  BRECCIA_TRY(file_->read(position + sizeof(RedoRecord), entries));
  return record->checksum == checksum_of(*record, staged_.data());
}

Status RedoLog::replay(const Apply& apply) {
  BRECCIA_ASSERT(empty() && next_sequence_ == header_.first_sequence);
  std::uint64_t last_position = 0;
  for (;;) {
    RedoRecord record;
    BRECCIA_TAKE(const bool whole, read_record(end_, next_sequence_, &record));
    if (!whole) break;
    if (record.sequence != next_sequence_) return Status::Corruption("redo record out of order");
    BRECCIA_TRY(check_offsets());
    for (const RedoEntry& entry : staged_) apply(entry.offset, entry.line);
    last_position = end_;
    end_ += record_bytes(record.entries);
    ++next_sequence_;
  }
  BRECCIA_ASSERT(empty() == (last_position == 0));
  BRECCIA_TRY(check_nothing_behind());
  BRECCIA_TRY(settle(last_position));
  clear_staged();
  return Status::OK();
}

Status RedoLog::check_offsets() const {
  for (const RedoEntry& entry : staged_) {
    if (entry.offset % kLineBytes != 0 || entry.offset >= header_.region_bytes) {
      return Status::Corruption("redo entry outside the region");
    }
  }
  return Status::OK();
}

// A record is appended only after the one before it is durable. So a power cut can tear the last
// record only, and if a whole one lies behind, an acknowledged one was damaged.
Status RedoLog::check_nothing_behind() {
  for (std::uint64_t at = end_ + kPageBytes; at < file_bytes_; at += kPageBytes) {
    RedoRecord record;
    BRECCIA_TAKE(const bool whole, read_record(at, next_sequence_, &record));
    if (whole) return Status::Corruption("a redo record is damaged and whole ones lie behind it");
  }
  return Status::OK();
}

// What was read may be in the page cache only: the process may have died before its sync, or the
// sync may have failed, after which the kernel calls the pages clean. Writing the same bytes again
// makes them dirty, so that this sync means something. Only the last record or, if there is none,
// the header can be in that state; all else was synced before something was written behind it.
Status RedoLog::settle(std::uint64_t last_position) {
  BRECCIA_TRY(file_->write(0, bytes_of(header_)));
  if (last_position != 0) {
    BRECCIA_ASSERT(last_position < end_ && (end_ - last_position) % kPageBytes == 0);
    // A log that grew for this record may end in its zeros: a power cut left it no longer.
    buffer_.assign(end_ - last_position, std::byte{0});
    const std::uint64_t there =
        std::min<std::uint64_t>(buffer_.size(), file_bytes_ - last_position);
    BRECCIA_TRY(file_->read(last_position, std::span(buffer_).first(there)));
    BRECCIA_TRY(file_->write(last_position, buffer_));
  }
  return file_->sync();
}

void RedoLog::stage(std::uint64_t offset, const Line& line) {
  BRECCIA_ASSERT(offset % kLineBytes == 0 && offset < header_.region_bytes);
  BRECCIA_ASSERT(staged_.empty() || staged_.back().offset < offset);
  staged_.push_back({offset, line});
}

std::uint64_t RedoLog::bytes_with_staged() const {
  BRECCIA_ASSERT(end_ >= kPageBytes);
  return end_ - kPageBytes + record_bytes(staged_.size());
}

Status RedoLog::append_staged() {
  BRECCIA_ASSERT(!staged_.empty() && end_ % kPageBytes == 0);
  RedoRecord record{kRecordMagic, next_sequence_, end_, staged_.size(), {}, 0};
  record.checksum = checksum_of(record, staged_.data());
  buffer_.assign(record_bytes(staged_.size()), std::byte{0});
  std::memcpy(buffer_.data(), &record, sizeof(record));
  std::memcpy(buffer_.data() + sizeof(record), staged_.data(), staged_.size() * sizeof(RedoEntry));
  BRECCIA_INVARIANT(is_whole_record(buffer_, end_));
  BRECCIA_TRY(file_->write(end_, buffer_));
  BRECCIA_TRY(file_->sync());
  end_ += buffer_.size();
  ++next_sequence_;
  return Status::OK();
}

Status RedoLog::restart() {
  BRECCIA_ASSERT(next_sequence_ >= header_.first_sequence);
  const RedoHeader header = make_header(header_.region_bytes, next_sequence_);
  BRECCIA_TRY(file_->write(0, bytes_of(header)));
  // Without this sync a record in block 1 could reach the medium before the header that expects it.
  BRECCIA_TRY(file_->sync());
  header_ = header;
  end_ = kPageBytes;
  return Status::OK();
}

}  // namespace breccia::pmem
