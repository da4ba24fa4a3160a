#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "records.h"
#include "wal/frame.h"
#include "wal/recovery.h"

namespace breccia::wal::testing {

/// A log of small segments in memory, byte for byte as Log writes it, for tests of scan_log.
class TinyLog {
 public:
  struct Placed {
    std::uint64_t position;
    std::uint64_t end;  // behind the commit record
    std::size_t segment;
    Records records;
    bool closes;
  };

  explicit TinyLog(std::uint64_t segment_bytes) : segment_bytes_(segment_bytes) {
    add_segment(segment_bytes);
  }

  /// Appends a frame that was written when all before it was synced (or, if not `synced`, nothing).
  /// `flags`: beside kFrameAligned.
  void append(const Records& records, bool descriptors, bool synced, std::uint32_t flags = 0) {
    append(records, descriptors ? descriptors_of(records) : std::vector<std::uint32_t>(), synced,
           flags);
  }
  void append(const Records& records, const std::vector<std::uint32_t>& descriptors, bool synced,
              std::uint32_t flags) {
    FrameHeader header{};
    header.flags = flags | (records.count() >= 3 ? kFrameAligned : 0);
    header.position = end_;
    header.record_bytes = records.bytes.size();
    header.record_count = records.count();
    header.descriptor_count = static_cast<std::uint32_t>(descriptors.size());
    FrameLayout layout = layout_of(header);
    if (end_ + layout.end + kClosingFrameBytes > views_.back().end()) {
      close(synced);
      header.position = end_;
      layout = layout_of(header);
    }
    header.synced = synced ? end_ : 0;
    finish(&header);
    std::byte* const at = here();
    std::memcpy(at, &header, sizeof header);
    std::uint64_t sum = copy_and_sum(at, layout, RecordsInOnePiece(records.bytes.data()));
    std::copy(descriptors.begin(), descriptors.end(),
              reinterpret_cast<std::uint32_t*>(at + layout.descriptors));
    sum = sum_descriptors(sum, at, layout, header.descriptor_count);
    const CommitRecord commit = make_commit(header.position, sum);
    std::memcpy(at + layout.commit, &commit, sizeof commit);
    placed_.push_back({end_, end_ + layout.end, views_.size() - 1, records, false});
    end_ += layout.end;
  }

  /// Closes the segment and begins the next.
  void close(bool synced) {
    write_closing_frame(here(), end_, synced ? end_ : 0);
    placed_.push_back({end_, end_ + kClosingFrameBytes, views_.size() - 1, {}, true});
    add_segment(segment_bytes_);
  }

  [[nodiscard]] const std::vector<SegmentView>& views() const { return views_; }
  [[nodiscard]] const std::vector<Placed>& placed() const { return placed_; }
  [[nodiscard]] std::uint64_t begin() const { return views_.front().base + sizeof(SegmentHeader); }
  [[nodiscard]] std::uint64_t end() const { return end_; }
  /// The byte at `position`, to be damaged.
  std::byte& at(std::uint64_t position) {
    for (std::size_t index = 0; index < views_.size(); ++index) {
      if (position < views_[index].end()) return images_[index][position - views_[index].base];
    }
    BRECCIA_ASSERT(false);
    return images_[0][0];
  }

  static FrameLayout layout_of(const FrameHeader& header) {
    return FrameLayout::of(header.position, header.flags, header.record_bytes,
                           header.descriptor_count);
  }

 private:
  void add_segment(std::uint64_t size) {
    const std::uint64_t base = views_.empty() ? 4096 : views_.back().end();
    images_.emplace_back(size);
    SegmentHeader header{};
    header.store_id = 42;
    header.base = base;
    header.size = size;
    header.first = base + sizeof header;
    finish(&header);
    std::memcpy(images_.back().data(), &header, sizeof header);
    views_.push_back({base, size, images_.back().data(), "segment " + std::to_string(base)});
    end_ = header.first;
  }
  std::byte* here() { return images_.back().data() + (end_ - views_.back().base); }

  const std::uint64_t segment_bytes_;
  std::deque<std::vector<std::byte>> images_;
  std::vector<SegmentView> views_;
  std::vector<Placed> placed_;
  std::uint64_t end_ = 0;
};

/// Checks that the scan's frames are the first `count` of those placed that hold records.
inline void expect_prefix(const LogScan& scan, const TinyLog& log, std::size_t count) {
  ASSERT_EQ(scan.frames.size(), count);
  std::size_t index = 0;
  for (const TinyLog::Placed& placed : log.placed()) {
    if (placed.closes) continue;
    if (index == count) return;
    const std::byte* const at = scan.frames[index++];
    FrameHeader header;
    std::memcpy(&header, at, sizeof header);
    ASSERT_EQ(header.position, placed.position);
    const std::byte* const records = at + TinyLog::layout_of(header).records;
    ASSERT_TRUE(std::equal(placed.records.bytes.begin(), placed.records.bytes.end(), records));
  }
}

}  // namespace breccia::wal::testing
