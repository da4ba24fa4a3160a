#include "wal/recovery.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/assert.h"
#include "base/checksum.h"
#include "base/parallel.h"
#include "wal/frame.h"
#include "wal/read/runs.h"

namespace breccia::wal {
namespace {

/// Headers of segments with fewer bytes are looked at by one core.
constexpr std::uint64_t kParallelBytesMin = 4 * limits::kLogWindowBytes;
constexpr std::size_t kFramesPerTask = 64;
/// With so many frames of a size, many cores are busy with one each.
constexpr std::uint64_t kFramesEnough = 32;
/// The search for headers looks at so many places at once.
constexpr std::uint32_t kPlacesPerLook = 64;
constexpr std::uint64_t kBytesPerLook = 8ULL * kPlacesPerLook;

/// True if a header at one of the next kPlacesPerLook multiples of 8 would bear its own position,
/// which stale frames do not. No jumps and 32 bits of each position, so that the compiler makes
/// vector instructions of it: the search takes little longer than reading the memory.
bool may_hold_header(const std::byte* at, std::uint64_t position) {
  BRECCIA_ASSERT(position % 8 == 0);
  const auto low = static_cast<std::uint32_t>(position);
  std::uint32_t found = 0;
  for (std::uint32_t place = 0; place < kPlacesPerLook; ++place) {
    std::uint64_t claimed;
    std::memcpy(&claimed, at + 8 * place + offsetof(FrameHeader, position), sizeof claimed);
    found |= static_cast<std::uint32_t>(claimed) == low + 8 * place ? 1U : 0U;
  }
  return found != 0;
}

Status damaged(const SegmentView& segment, std::uint64_t position, const std::string& what) {
  BRECCIA_ASSERT(segment.base <= position && position <= segment.end());
  return Status::Corruption(
      segment.path + ", offset " + std::to_string(position - segment.base) + ": " + what,
      "Nothing was changed. Restore the log folder from a copy, or move it away and restore the "
      "database from a backup.");
}

std::uint64_t bytes_used(std::span<const SegmentView> segments) {
  std::uint64_t bytes = 0;
  for (const SegmentView& segment : segments) bytes += segment.used;
  return bytes;
}

class Scan {
 public:
  Scan(std::span<const SegmentView> segments, std::uint64_t from, LogIntake* intake,
       std::uint64_t run_bytes)
      : segments_(segments), from_(from), intake_(intake), run_bytes_(run_bytes) {}

  Result<LogScan> run() {
    BRECCIA_TRY(check_segments());
    hop();
    BRECCIA_TRY(verify());
    BRECCIA_TRY(judge_end());
    if (intake_ == nullptr) list_frames();
    scan_.last_segment = segment_of(scan_.end);
    scan_.last_is_empty = scan_.end == firsts_[scan_.last_segment];
    scan_.chain.resize(scan_.last_segment + 1);
    scan_.chain.back().end = scan_.end;
    scan_.synced = std::min(scan_.synced, scan_.end);
    BRECCIA_ASSERT(scan_.chain.back().begin <= scan_.end);
    BRECCIA_INVARIANT(is_in_order());
    return std::move(scan_);
  }

 private:
  Status check_segments() {
    BRECCIA_ASSERT(!segments_.empty());
    for (const SegmentView& segment : segments_) {
      std::uint64_t store_id = 0;
      BRECCIA_TRY(check_segment(segment, &store_id, &firsts_.emplace_back()));
      if (firsts_.size() == 1) scan_.store_id = store_id;
      if (store_id != scan_.store_id)
        return damaged(segment, segment.base, "belongs to another store");
    }
    if (segments_.front().base > from_) {
      return damaged(
          segments_.front(), segments_.front().base,
          "the log begins here, above position " + std::to_string(from_) + " that is needed");
    }
    for (std::size_t index = 1; index < segments_.size(); ++index) {
      if (segments_[index - 1].end() == segments_[index].base) continue;
      return damaged(segments_[index], segments_[index].base,
                     "the segment before this one is missing");
    }
    BRECCIA_ASSERT(firsts_.size() == segments_.size());
    return Status::OK();
  }

  bool header_at(std::size_t index, std::uint64_t position, FrameHeader* header) const {
    return position >= firsts_[index] && wal::header_at(segments_[index], position, header);
  }

  /// Fills runs_ by headers alone and sets scan_.end to the chain's end, and missing_.
  void hop() {
    // What lies behind the chain's end is hopped through as well, and is no part of it.
    std::vector<SegmentHops> hops(segments_.size());
    const auto hop_one = [&](std::size_t index) {
      hops[index] = wal::hop(segments_[index],
                             {.first = firsts_[index], .from = from_, .run_bytes = run_bytes_});
    };
    if (bytes_used(segments_) < kParallelBytesMin) {
      for (std::size_t i = 0; i < segments_.size(); ++i) hop_one(i);
    } else {
      base::parallel_for(std::size_t{0}, segments_.size(), hop_one);
    }
    std::size_t index = 0;
    for (;; ++index) {
      const SegmentHops& here = hops[index];
      scan_.joins = scan_.joins || here.joins;
      scan_.synced = std::max(scan_.synced, here.synced);
      scan_.chain.push_back({here.begin, here.end + (here.closes ? kClosingFrameBytes : 0)});
      runs_.insert(runs_.end(), here.runs.begin(), here.runs.end());
      if (here.fault != nullptr) fault_ = here.fault;
      if (!here.closes || index + 1 == segments_.size()) break;
    }
    scan_.end = hops[index].end;
    if (hops[index].closes) {
      missing_ = damaged(segments_[index], scan_.end, "the segment after this one is missing");
    }
    BRECCIA_ASSERT(firsts_[index] <= scan_.end && scan_.end < segments_[index].end());
    BRECCIA_ASSERT(scan_.chain.size() == index + 1);
  }

  /// True if chain and frames ascend, and the chain's end is the end of both.
  [[nodiscard]] bool is_in_order() const {
    std::uint64_t end = 0;
    for (const LogScan::Extent& extent : scan_.chain) {
      if (extent.begin < end || extent.end < extent.begin) return false;
      end = extent.end;
    }
    end = 0;
    for (const std::byte* const frame : scan_.frames) {
      const FrameHeader header = header_of(frame);
      if (header.position < end) return false;
      end = header.position + FrameLayout::of(header).end;
      if (end <= from_) return false;
    }
    return end <= scan_.end;
  }

  static FrameHeader header_of(const std::byte* frame) {
    FrameHeader header;
    std::memcpy(&header, frame, sizeof header);
    return header;
  }

  /// Cuts runs_ and scan_.end at the first frame with a fault. If it was sealed with it, no
  /// power cut has made it so. A closing frame behind it promises nothing: an opening that removes
  /// segments behind a torn tail may end before it has removed all of them.
  Status verify() {
    const std::vector<const std::byte*> windows = windows_of_segments();
    const SegmentTable::Places places(windows.data(), windows.size(),
                                      segments_.front().base / limits::kLogWindowBytes);
    std::uint64_t bytes = 0;
    for (const FrameRun& run : runs_) bytes += run.end - run.begin;
    // Of frames that there are some of for each core, each is one core's.
    const std::uint64_t one_pass_bytes = std::max(kOnePassBytes, bytes / kFramesEnough);
    const ReadEnd end =
        read_runs(runs_, intake_, places, [&](const FrameRun& run, LogIntake::Part* part) {
          return first_fault(run, one_pass_bytes, part);
        });
    const bool all_are_right = end.run == runs_.size();
    BRECCIA_ASSERT(end.run <= runs_.size());
    if (!all_are_right) {
      runs_.resize(end.run + 1);
      runs_.back() = runs_.back().up_to(end.position);
    }
    for (const FrameRun& run : runs_) {
      scan_.frame_count += run.frames;
      scan_.entries += run.entries;
      scan_.record_bytes += run.record_bytes;
    }
    if (all_are_right) return missing_;
    scan_.end = end.position;
    const std::byte* const bad = segments_[segment_of(scan_.end)].at(scan_.end);
    fault_ = seal_fault(bad, header_of(bad));
    if (fault_ != nullptr) return Status::OK();
    const char* const wrong = content_fault(bad, header_of(bad));
    return damaged(segments_[segment_of(scan_.end)], scan_.end,
                   std::string("the frame here was sealed, and ") +
                       (wrong != nullptr ? wrong : "changes while it is read"));
  }

  /// The position of a run's first frame that is not right, or its end.
  static std::uint64_t first_fault(const FrameRun& run, std::uint64_t one_pass_bytes,
                                   LogIntake::Part* part) {
    std::uint64_t end = run.end;
    run.for_each([&](const FrameHeader& header, const std::byte* at) {
      if (frame_fault(at, header, one_pass_bytes, part) == nullptr) return true;
      end = header.position;
      return false;
    });
    BRECCIA_ASSERT(run.begin <= end && end <= run.end);
    return end;
  }

  [[nodiscard]] std::vector<const std::byte*> windows_of_segments() const {
    std::vector<const std::byte*> windows;
    for (const SegmentView& segment : segments_) {
      for (std::uint64_t at = 0; at < segment.size; at += limits::kLogWindowBytes) {
        windows.push_back(segment.image + at);
      }
    }
    BRECCIA_ASSERT(windows.size() >= segments_.size());
    return windows;
  }

  void list_frames() {
    scan_.frames.reserve(scan_.frame_count);
    for (const FrameRun& run : runs_) {
      run.for_each([&](const FrameHeader&, const std::byte* at) {
        scan_.frames.push_back(at);
        return true;
      });
    }
    BRECCIA_ASSERT(scan_.frames.size() == scan_.frame_count);
  }

  [[nodiscard]] std::size_t segment_of(std::uint64_t position) const {
    std::size_t index = segments_.size() - 1;
    while (index > 0 && segments_[index].base > position) --index;
    BRECCIA_ASSERT(segments_[index].base <= position);
    return index;
  }

  /// Tells a torn tail from damage. Headers behind the end know how far the log was synced when
  /// they were written: if that is beyond the end, what is lost here had been durable.
  Status judge_end() {
    BRECCIA_ASSERT(fault_ != nullptr);
    const std::size_t last = segment_of(scan_.end);
    const std::uint64_t needed = std::max(scan_.end, from_);
    std::uint64_t written_end = scan_.end;
    std::uint64_t frames_behind = 0;
    for (std::size_t index = last; index < segments_.size(); ++index) {
      std::uint64_t position = index == last ? behind_end(last, &written_end) : firsts_[index];
      while (next_header(index, &position)) {
        const FrameHeader header = header_of(segments_[index].at(position));
        if (header.synced > needed) {
          return damaged(segments_[last], scan_.end,
                         std::string("the frame here ") + fault_ +
                             ", but was synced: " + segments_[index].path + ", offset " +
                             std::to_string(position - segments_[index].base) + " says so");
        }
        ++frames_behind;
        position += FrameLayout::of(header).end;
        written_end = position;
      }
    }
    BRECCIA_ASSERT(scan_.end <= written_end && written_end <= segments_.back().end());
    scan_.dropped_bytes = written_end - scan_.end;
    if (scan_.dropped_bytes > 0) {
      scan_.message =
          segments_[last].path + ", offset " + std::to_string(scan_.end - segments_[last].base) +
          ": the log ends in a frame that " + fault_ + "; it and " + std::to_string(frames_behind) +
          " behind it, none of them synced, were dropped (" + std::to_string(scan_.dropped_bytes) +
          " bytes).";
    }
    return Status::OK();
  }

  /// Where the search behind the chain's end begins: behind the broken frame if its header is
  /// intact, so that values inside it are not taken for headers.
  std::uint64_t behind_end(std::size_t last, std::uint64_t* written_end) const {
    const SegmentView& segment = segments_[last];
    BRECCIA_ASSERT(segment.base < scan_.end && scan_.end % 8 == 0);
    FrameHeader header;
    if (header_at(last, scan_.end, &header)) {
      *written_end = scan_.end + FrameLayout::of(header).end;
      return *written_end;
    }
    const std::uint64_t room = segment.end() - std::min(segment.end(), scan_.end);
    if (room >= sizeof header) {
      header = header_of(segment.at(scan_.end));
      const bool stale = read_header(segment.at(scan_.end), header.position, &header);
      // A header begun or damaged, not an intact one that a recycled file still holds.
      if (!stale && (header.position == scan_.end || header.magic == kFrameMagic)) {
        *written_end = scan_.end + sizeof header;
      }
    }
    return scan_.end + 8;
  }

  /// Moves `position` on to the next intact frame header of segment `index`.
  bool next_header(std::size_t index, std::uint64_t* position) const {
    const SegmentView& segment = segments_[index];
    BRECCIA_ASSERT(segment.base < *position && *position % 8 == 0);
    // No header begins in zeros, nor where no frame fits.
    const std::uint64_t end =
        segment.base + std::min(segment.used, segment.size - kClosingFrameBytes + 1);
    while (*position < end) {
      const std::uint64_t look_end = std::min(*position + kBytesPerLook, end);
      const bool is_whole = look_end - *position == kBytesPerLook;
      if (is_whole && !may_hold_header(segment.at(*position), *position)) {
        *position = look_end;
        continue;
      }
      FrameHeader header;
      for (; *position < look_end; *position += 8) {
        if (header_at(index, *position, &header)) return true;
      }
    }
    return false;
  }

  const std::span<const SegmentView> segments_;
  const std::uint64_t from_;
  LogIntake* const intake_;
  const std::uint64_t run_bytes_;
  std::vector<std::uint64_t> firsts_;
  std::vector<FrameRun> runs_;
  const char* fault_ = "has no intact header";
  Status missing_;  // what to say of a segment that a closing frame promises; OK: none is missing
  LogScan scan_;
};

}  // namespace

bool header_at(const SegmentView& segment, std::uint64_t position, FrameHeader* header) {
  BRECCIA_ASSERT(segment.image != nullptr && segment.size >= kClosingFrameBytes);
  if (position % 8 != 0 || position < segment.base + sizeof(SegmentHeader)) return false;
  if (position >= segment.end() || segment.end() - position < kClosingFrameBytes) return false;
  if (!read_header(segment.at(position), position, header)) return false;
  // No overflow: read_header bounds the lengths far below 2^63.
  const std::uint64_t behind = header->flags == kFrameCloses ? 0 : kClosingFrameBytes;
  return FrameLayout::of(*header).end + behind <= segment.end() - position;
}

Status check_segment(const SegmentView& segment, std::uint64_t* store_id, std::uint64_t* first) {
  if (segment.size < sizeof(SegmentHeader)) {
    return damaged(segment, segment.base, "the file is too short for a segment");
  }
  SegmentHeader header;
  std::memcpy(&header, segment.image, sizeof header);
  if (header.magic != kSegmentMagic ||
      header.crc != base::crc32c(0, &header, offsetof(SegmentHeader, crc))) {
    return damaged(segment, segment.base, "the segment's header is damaged");
  }
  if (header.version != kFormatVersion) {
    return Status::NotSupported(segment.path + ": log format version " +
                                std::to_string(header.version) + " is not known here");
  }
  if (header.store_id == 0) {
    return damaged(segment, segment.base, "the segment belongs to no store");
  }
  if (header.base != segment.base || header.size != segment.size) {
    return damaged(segment, segment.base, "the file's name or length do not match its header");
  }
  if (header.first % 8 != 0 || header.first < header.base + sizeof header ||
      header.first > segment.end() - kClosingFrameBytes) {
    return damaged(segment, segment.base, "the segment's first frame lies outside of it");
  }
  *store_id = header.store_id;
  *first = header.first;
  return Status::OK();
}

RecoveredFrame recovered_frame(const std::byte* at) {
  FrameHeader header;
  std::memcpy(&header, at, sizeof header);
  const FrameLayout layout = FrameLayout::of(header);
  RecoveredFrame frame{};
  frame.records_position = header.position + layout.records;
  frame.records = at + layout.records;
  frame.record_bytes = header.record_bytes;
  frame.record_count = header.record_count;
  frame.only_default_points = (header.flags & kFrameMixed) == 0;
  if (header.descriptor_count != 0) {
    frame.descriptors = reinterpret_cast<const std::uint32_t*>(at + layout.descriptors);
  }
  BRECCIA_ASSERT(frame.records_position % 8 == 0);
  return frame;
}

Result<std::vector<RecoveredFrame>> whole_frames(const SegmentView& segment, std::uint64_t from,
                                                 std::uint64_t to, std::uint64_t* begin) {
  BRECCIA_ASSERT(segment.base <= from && from < to && to <= segment.end());
  std::uint64_t store_id = 0;
  std::uint64_t position = 0;
  BRECCIA_TRY(check_segment(segment, &store_id, &position));
  std::vector<const std::byte*> frames;
  *begin = from;
  while (position < to) {
    FrameHeader header;
    if (!header_at(segment, position, &header)) {
      return damaged(segment, position, "no intact frame is here");
    }
    const std::byte* const at = segment.at(position);
    if (header.flags == kFrameCloses) {
      if (to == segment.end() && frame_fault(at, header) == nullptr) break;
      return damaged(segment, position, "the frames end before they should");
    }
    const std::uint64_t end = position + FrameLayout::of(header).end;
    if (end > to) return damaged(segment, position, "the frame here reaches too far");
    if (position >= from) {
      frames.push_back(at);
    } else {
      *begin = std::max(from, end);
    }
    position = end;
  }
  std::atomic<bool> all_are_whole{true};
  base::parallel_for(tbb::blocked_range<std::size_t>(0, frames.size(), kFramesPerTask),
                     [&](const tbb::blocked_range<std::size_t>& range) {
                       for (std::size_t i = range.begin(); i != range.end(); ++i) {
                         FrameHeader header;
                         std::memcpy(&header, frames[i], sizeof header);
                         if (frame_fault(frames[i], header) != nullptr) all_are_whole = false;
                       }
                     });
  if (!all_are_whole) return damaged(segment, from, "a frame behind this is damaged");
  BRECCIA_ASSERT(from <= *begin && *begin <= to);
  std::vector<RecoveredFrame> found(frames.size());
  std::transform(frames.begin(), frames.end(), found.begin(), recovered_frame);
  return found;
}

Result<LogScan> scan_log(std::span<const SegmentView> segments, std::uint64_t from,
                         LogIntake* intake, std::uint64_t run_bytes) {
  return Scan(segments, from, intake, run_bytes).run();
}

Result<LogScan> scan_log(std::span<const SegmentView> segments, std::uint64_t from) {
  return scan_log(segments, from, nullptr);
}

Result<LogScan> scan_log(std::span<const SegmentView> segments, std::uint64_t from,
                         LogIntake* intake) {
  return scan_log(segments, from, intake, run_bytes_for(bytes_used(segments)));
}

}  // namespace breccia::wal
