#pragma once

#include <sys/mman.h>

#include <cstring>
#include <memory>
#include <string>

#include "wal/format.h"
#include "wal/segment_table.h"

namespace breccia::memtable {

/// A segment's file that is memory alone.
class MemoryFile final : public wal::SegmentFile {
 public:
  MemoryFile()
      : image_(
            static_cast<std::byte*>(::mmap(nullptr, limits::kLogWindowBytes, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
    BRECCIA_ASSERT(image_ != MAP_FAILED);
  }
  ~MemoryFile() override { ::munmap(image_, limits::kLogWindowBytes); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  [[nodiscard]] std::byte* image() override { return image_; }
  [[nodiscard]] std::uint64_t size() const override { return limits::kLogWindowBytes; }
  [[nodiscard]] bool mapped() const override { return false; }
  void rest() override {}
  [[nodiscard]] Status wake(const std::string&) override { return Status::OK(); }
  [[nodiscard]] Status write(std::uint64_t, std::uint64_t) override { return Status::OK(); }
  [[nodiscard]] Status sync(std::uint64_t, std::uint64_t) override { return Status::OK(); }
  [[nodiscard]] Result<std::uint64_t> load() override { return size(); }

 private:
  std::byte* const image_;
};

/// Records in one segment, one behind the other: what a memtable's entries point to.
class RecordsInMemory {
 public:
  RecordsInMemory() : segment_(std::make_shared<wal::Segment>()) {
    segment_->base = limits::kLogWindowBytes;
    segment_->size = limits::kLogWindowBytes;
    segment_->file = std::make_unique<MemoryFile>();
    end_ = segment_->base + 64;
  }

  /// Appends a record and returns its position.
  std::uint64_t add(record::Op op, const std::string& key, const std::string& value) {
    const auto header = record::RecordHeader::make(op, key.size(), value.size());
    BRECCIA_ASSERT(end_ + header.record_bytes() <= segment_->end());
    std::byte* const at = record(end_);
    std::memcpy(at, &header, sizeof header);
    std::memcpy(at + sizeof header, key.data(), key.size());
    std::memcpy(at + sizeof header + key.size(), value.data(), value.size());
    const std::uint64_t position = end_;
    end_ += header.record_bytes();
    return position;
  }
  [[nodiscard]] std::byte* record(std::uint64_t position) const {
    return segment_->file->image() + (position - segment_->base);
  }
  [[nodiscard]] std::uint64_t end() const { return end_; }
  [[nodiscard]] const wal::SegmentPtr& segment() const { return segment_; }
  [[nodiscard]] wal::SegmentTablePtr table() const {
    return std::make_shared<const wal::SegmentTable>(std::vector<wal::SegmentPtr>{segment_});
  }

 private:
  wal::SegmentPtr segment_;
  std::uint64_t end_;
};

}  // namespace breccia::memtable
