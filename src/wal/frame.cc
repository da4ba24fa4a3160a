#include "wal/frame.h"

#include <rocksdb/slice.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <vector>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/checksum.h"
#include "base/parallel.h"
#include "base/prefetch.h"
#include "base/random.h"
#include "base/streamed_bytes.h"

namespace breccia::wal {
namespace {

using base::Checksum64;

/// Below this, handing pieces to other cores costs more than it brings.
constexpr std::uint64_t kParallelBytesMin = 4ULL << 20;

std::uint64_t fold(std::uint64_t sum, std::uint64_t digest) { return base::mix64(sum ^ digest); }

/// Frames of so many bytes go to the log past the caches: nobody reads them there soon.
constexpr std::uint64_t kStreamedBytesMin = 32 << 20;

std::uint64_t pieces_of(std::uint64_t bytes) {
  return (bytes + kChecksumPieceBytes - 1) / kChecksumPieceBytes;
}

/// Calls digest(begin, end) for each piece of [0, bytes) and folds what it returns, in order.
template <class Digest>
std::uint64_t fold_pieces(std::uint64_t sum, std::uint64_t bytes, const Digest& digest) {
  const auto piece = [&](std::uint64_t index) {
    const std::uint64_t begin = index * kChecksumPieceBytes;
    return digest(begin, std::min(begin + kChecksumPieceBytes, bytes));
  };
  const std::uint64_t pieces = pieces_of(bytes);
  if (bytes < kParallelBytesMin) {
    for (std::uint64_t index = 0; index < pieces; ++index) sum = fold(sum, piece(index));
    return sum;
  }
  std::vector<std::uint64_t> digests(pieces);
  base::shared_for(std::uint64_t{0}, pieces,
                   [&](std::uint64_t index) { digests[index] = piece(index); });
  for (const std::uint64_t one : digests) sum = fold(sum, one);
  return sum;
}

std::uint64_t sum_bytes(std::uint64_t sum, const std::byte* data, std::uint64_t bytes) {
  return fold_pieces(sum, bytes, [&](std::uint64_t begin, std::uint64_t end) {
    return Checksum64::of(data + begin, end - begin);
  });
}

std::uint32_t commit_crc(const CommitRecord& commit, std::uint64_t position) {
  BRECCIA_ASSERT(position % 8 == 0);
  const std::uint32_t crc = base::crc32c(0, &commit, offsetof(CommitRecord, crc));
  return base::crc32c(crc, &position, sizeof position);
}

/// One bit per 8 bytes of a frame's records.
class OffsetSet {
 public:
  explicit OffsetSet(std::uint64_t record_bytes) : offsets_(record_bytes / 8) {
    BRECCIA_ASSERT(record_bytes <= limits::kFrameBytesMax);
    words_.resize((offsets_ + 63) / 64);
  }
  void add(std::uint64_t offset) {
    BRECCIA_ASSERT(offset < offsets_);
    words_[offset / 64] |= 1ULL << (offset % 64);
  }
  [[nodiscard]] bool contains(std::uint64_t offset) const {
    return offset < offsets_ && (words_[offset / 64] & 1ULL << (offset % 64)) != 0;
  }

 private:
  std::uint64_t offsets_;
  std::vector<std::uint64_t> words_;
};

/// What is wrong with a record of which `left` bytes of the frame can be.
const char* record_fault(const record::RecordHeader& record, std::uint64_t left,
                         const FrameHeader& header) {
  BRECCIA_ASSERT(left >= sizeof record);
  if (static_cast<int>(record.op()) >= record::kOpCount) return "holds an unknown operation";
  if (record.gap_words() != 0 && record.op() != record::Op::kPut) {
    return "holds a gap in what is no put";
  }
  if (!record::is_point(record.op()) && (header.flags & kFrameMixed) == 0) {
    return "holds an operation that its header does not announce";
  }
  if (record.op() == record::Op::kDeleteRange && header.descriptor_count != 0) {
    return "holds a range deletion among records with descriptors";
  }
  if (record.op() == record::Op::kFamily && (record.key_bytes() != 0 || record.value_bytes != 4)) {
    return "holds a column family without a name";
  }
  if (record.key_bytes() > limits::kKeyBytesMax) return "holds a key above the limit";
  if (record.value_bytes > limits::kValueBytesMax) return "holds a value above the limit";
  return left < record.record_bytes() ? "holds a record that reaches past its end" : nullptr;
}

/// Goes through the records of a frame, in one or more steps. Reads nothing outside of them,
/// whatever they say.
class RecordWalk {
 public:
  RecordWalk(const std::byte* records, const FrameHeader& header)
      : records_(records), header_(header) {}

  /// Calls visit(index, offset, operation) for the records that begin below `end`.
  /// Errors  as content_fault().
  template <class Visit>
  const char* go(std::uint64_t end, const Visit& visit) {
    while (index_ < header_.record_count && offset_ < end) {
      const std::uint64_t left = header_.record_bytes - offset_;
      if (left < sizeof(record::RecordHeader)) return "has too few records";
      const record::RecordHeader record = record::record_header(records_ + offset_);
      const char* const fault = record_fault(record, left, header_);
      if (fault != nullptr) return fault;
      const std::uint64_t bytes = record.record_bytes();
      // Those behind it that have the same header are as right, and where they are is known before
      // they are read.
      do {
        visit(index_, offset_, record.op());
        offset_ += bytes;
        ++index_;
        BRECCIA_INVARIANT(offset_ <= header_.record_bytes);
      } while (index_ < header_.record_count && offset_ < end &&
               header_.record_bytes - offset_ >= bytes &&
               record::has_header(records_ + offset_, record));
    }
    return nullptr;
  }
  /// Of what go() has not come to: null if there is nothing.
  [[nodiscard]] const char* fault_at_end() const {
    if (index_ < header_.record_count) return "has too few records";
    return offset_ == header_.record_bytes ? nullptr : "has more bytes than its records";
  }

  [[nodiscard]] std::uint64_t offset() const { return offset_; }
  [[nodiscard]] std::uint32_t index() const { return index_; }

 private:
  const std::byte* const records_;
  const FrameHeader& header_;
  std::uint64_t offset_ = 0;
  std::uint32_t index_ = 0;
};

/// Walks the records and calls visit(index, offset, operation) for each.
template <class Visit>
const char* walk_records(const std::byte* records, const FrameHeader& header, const Visit& visit) {
  RecordWalk walk(records, header);
  const char* const fault = walk.go(header.record_bytes, visit);
  return fault != nullptr ? fault : walk.fault_at_end();
}

/// True if a large frame's records are right and all of the first one's size, so that each tells
/// where the next one is, and many cores can look at once.
bool are_of_one_size(const std::byte* records, const FrameHeader& header) {
  constexpr std::uint64_t kPerTask = 64 << 10;
  BRECCIA_ASSERT(header.descriptor_count == 0);
  const std::uint64_t count = header.record_count;
  if (count < 2 * kPerTask || header.record_bytes / count < sizeof(record::RecordHeader)) {
    return false;
  }
  const std::uint64_t bytes = header.record_bytes / count;
  if (bytes % 8 != 0 || bytes * count != header.record_bytes) return false;
  std::atomic<bool> all{true};
  base::parallel_for(tbb::blocked_range<std::uint64_t>(0, count, kPerTask), [&](const auto& range) {
    bool these = true;
    for (std::uint64_t i = range.begin(); i < range.end() && these; ++i) {
      const record::RecordHeader record = record::record_header(records + i * bytes);
      these = record.record_bytes() == bytes && record_fault(record, bytes, header) == nullptr;
    }
    if (!these) all = false;
  });
  return all;
}

/// A record's key, and its first bytes as a number that compares as they do.
struct KeyAt {
  KeyAt(const std::byte* records, std::uint32_t descriptor) {
    const std::byte* const record = records + std::uint64_t{descriptor} * 8;
    key = {record::record_key(record), record::record_header(record).key_bytes()};
    prefix = key.size() >= 8 ? base::load_big_endian_8(key.data())
                             : base::load_big_endian(key.data(), key.size());
  }
  rocksdb::Slice key;
  std::uint64_t prefix;
};

/// The records that one family has in a frame, in a row: `begin` is the first one's number, that of
/// its name if it has one, and `begin_offset` its place; those of the next family end it.
struct FamilyPart {
  std::uint32_t begin;
  std::uint64_t begin_offset;
  bool has_name;
};

/// True if descriptors [from, to), of records of one family, go by ascending key, and of one key
/// the newest first. So no two are alike.
bool is_ordered(const std::byte* records, const std::uint32_t* descriptors, std::uint64_t from,
                std::uint64_t to) {
  // The records lie all over the frame: they are asked for well before they are looked at.
  constexpr std::uint64_t kAhead = 32;
  BRECCIA_ASSERT(from < to);
  KeyAt before(records, descriptors[from]);
  for (std::uint64_t i = from + 1; i < to; ++i) {
    if (i + kAhead < to) base::prefetch(records + std::uint64_t{descriptors[i + kAhead]} * 8);
    const KeyAt now(records, descriptors[i]);
    if (before.prefix >= now.prefix) {
      const int order = before.prefix > now.prefix ? 1 : before.key.compare(now.key);
      if (order > 0 || (order == 0 && descriptors[i - 1] <= descriptors[i])) return false;
    }
    before = now;
  }
  return true;
}

/// is_ordered(), where there are many by all cores.
const char* order_fault(const std::byte* records, const std::uint32_t* descriptors,
                        std::uint64_t from, std::uint64_t to) {
  BRECCIA_ASSERT(from <= to);
  constexpr std::uint64_t kPerTask = 32 << 10;
  constexpr const char* kFault = "has descriptors that are not in the order of its keys";
  if (from == to) return nullptr;
  if (to - from <= kPerTask) return is_ordered(records, descriptors, from, to) ? nullptr : kFault;
  std::atomic<bool> ordered{true};
  base::parallel_for(std::uint64_t{0}, (to - from + kPerTask - 1) / kPerTask, [&](std::uint64_t i) {
    const std::uint64_t begin = from + i * kPerTask;
    // With the first of the next task's: neighbours are compared across tasks, too.
    const std::uint64_t end = std::min(begin + kPerTask + 1, to);
    if (!is_ordered(records, descriptors, begin, end)) ordered.store(false);
  });
  return ordered.load() ? nullptr : kFault;
}

/// As many descriptors as records, part by part: the name's, then one for each record.
const char* descriptors_fault(const std::byte* records, const FrameHeader& header,
                              const std::uint32_t* descriptors, const OffsetSet& starts,
                              const std::vector<FamilyPart>& parts) {
  constexpr const char* kOthers = "has descriptors that do not match its records";
  BRECCIA_ASSERT(!parts.empty() && parts.front().begin == 0);
  for (std::size_t index = 0; index < parts.size(); ++index) {
    const FamilyPart& part = parts[index];
    const bool is_last = index + 1 == parts.size();
    const std::uint64_t end = is_last ? header.record_count : parts[index + 1].begin;
    const std::uint64_t end_offset = is_last ? header.record_bytes : parts[index + 1].begin_offset;
    std::uint64_t from = part.begin;
    BRECCIA_ASSERT(from < end && part.begin_offset < end_offset);
    if (part.has_name && descriptors[from++] * std::uint64_t{8} != part.begin_offset) {
      return kOthers;
    }
    const std::uint64_t first = part.begin_offset / 8 + (part.has_name ? 1 : 0);
    for (std::uint64_t i = from; i < end; ++i) {
      const bool is_own = descriptors[i] >= first && descriptors[i] < end_offset / 8;
      if (!is_own || !starts.contains(descriptors[i])) return kOthers;
    }
    const char* const fault = order_fault(records, descriptors, from, end);
    if (fault != nullptr) return fault;
  }
  return nullptr;
}

bool plausible(const FrameHeader& header) {
  if (header.padding != 0 || header.synced > header.position) return false;
  if (header.record_bytes % 8 != 0 || header.record_bytes > limits::kFrameBytesMax) return false;
  if (header.descriptor_count != 0 && header.descriptor_count != header.record_count) return false;
  if (header.flags == kFrameCloses) return header.record_bytes == 0 && header.record_count == 0;
  return (header.flags & ~(kFrameAligned | kFrameMixed)) == 0;
}

constexpr const char* kNoCommit = "has no commit record";
constexpr const char* kNoMatch = "does not match its checksum";

bool has_commit(const std::byte* at, std::uint64_t position, CommitRecord* commit) {
  BRECCIA_ASSERT(at != nullptr && commit != nullptr);
  std::memcpy(commit, at, sizeof *commit);
  return commit->magic == kCommitMagic && commit->crc == commit_crc(*commit, position);
}

/// frame_fault() of a frame without descriptors.
const char* fault_in_one_pass(const std::byte* at, const FrameHeader& header,
                              LogIntake::Part* part) {
  BRECCIA_ASSERT(plausible(header) && header.descriptor_count == 0);
  const FrameLayout layout = FrameLayout::of(header);
  CommitRecord commit;
  if (!has_commit(at + layout.commit, header.position, &commit)) return kNoCommit;
  const RecordSpan all = span_of(at, header);
  RecordWalk walk(all.at, header);
  const char* fault = nullptr;
  std::uint64_t sum = 0;
  for (std::uint64_t begin = 0; begin < layout.descriptors; begin += kChecksumPieceBytes) {
    const std::uint64_t end = std::min(begin + kChecksumPieceBytes, layout.descriptors);
    sum = fold(sum, Checksum64::of(at + begin, end - begin));
    if (fault != nullptr || end <= layout.records) continue;
    const std::uint64_t offset = walk.offset();
    const std::uint32_t index = walk.index();
    fault = walk.go(end - layout.records, [](std::uint32_t, std::uint64_t, record::Op) {});
    if (part == nullptr || walk.index() == index) continue;
    part->add({all.position + offset, all.at + offset, walk.offset() - offset, walk.index() - index,
               all.only_default_points});
  }
  if (sum != commit.checksum) return kNoMatch;
  return fault != nullptr ? fault : walk.fault_at_end();
}

}  // namespace

void finish(FrameHeader* header) {
  header->magic = kFrameMagic;
  header->padding = 0;
  header->crc = base::crc32c(0, header, offsetof(FrameHeader, crc));
  BRECCIA_ASSERT(plausible(*header));
}

void finish(SegmentHeader* header) {
  header->magic = kSegmentMagic;
  header->version = kFormatVersion;
  header->padding = 0;
  for (std::uint64_t& word : header->reserved) word = 0;
  header->crc = base::crc32c(0, header, offsetof(SegmentHeader, crc));
  BRECCIA_ASSERT(header->store_id != 0 && header->first % 8 == 0);
  BRECCIA_ASSERT(header->first >= header->base + sizeof *header);
  BRECCIA_ASSERT(header->first + kClosingFrameBytes <= header->base + header->size);
}

CommitRecord make_commit(std::uint64_t position, std::uint64_t checksum) {
  CommitRecord commit{checksum, kCommitMagic, 0};
  commit.crc = commit_crc(commit, position);
  return commit;
}

std::uint64_t piece_count(const FrameLayout& layout) { return pieces_of(layout.descriptors); }

std::uint64_t sum_digests(std::span<const std::uint64_t> digests) {
  return std::accumulate(digests.begin(), digests.end(), std::uint64_t{0}, fold);
}

std::uint64_t copy_piece(std::byte* frame, const FrameLayout& layout, const RecordSource& records,
                         std::uint64_t piece) {
  BRECCIA_ASSERT(sizeof(FrameHeader) <= layout.records && layout.records <= layout.descriptors);
  const std::uint64_t begin = piece * kChecksumPieceBytes;
  const std::uint64_t end = std::min(begin + kChecksumPieceBytes, layout.descriptors);
  BRECCIA_ASSERT(begin < end);
  if (layout.descriptors >= kStreamedBytesMin && begin >= layout.records) {
    alignas(base::kLineBytes) std::byte room[kChecksumPieceBytes];
    const std::byte* const own = records.bytes(begin - layout.records, end - layout.records, room);
    const std::uint64_t digest = Checksum64::of(own, end - begin);  // now it is in a cache
    base::stream_copy(frame + begin, own, end - begin);
    return digest;
  }
  if (begin == 0) std::memset(frame + sizeof(FrameHeader), 0, layout.records - sizeof(FrameHeader));
  const std::uint64_t from = std::max(begin, layout.records);
  if (from < end) {
    std::byte* const to = frame + from;
    const std::byte* const own = records.bytes(from - layout.records, end - layout.records, to);
    if (own != to) std::memcpy(to, own, end - from);
  }
  return Checksum64::of(frame + begin, end - begin);
}

std::uint64_t copy_and_sum(std::byte* frame, const FrameLayout& layout,
                           const RecordSource& records) {
  return fold_pieces(0, layout.descriptors, [&](std::uint64_t begin, std::uint64_t /*end*/) {
    return copy_piece(frame, layout, records, begin / kChecksumPieceBytes);
  });
}

std::uint64_t sum_descriptors(std::uint64_t sum, std::byte* frame, const FrameLayout& layout,
                              std::uint64_t descriptor_count) {
  const std::uint64_t end = layout.descriptors + descriptor_count * sizeof(std::uint32_t);
  BRECCIA_ASSERT(end <= layout.commit && layout.commit - end < 8);
  std::memset(frame + end, 0, layout.commit - end);
  return sum_bytes(sum, frame + layout.descriptors, layout.commit - layout.descriptors);
}

void write_closing_frame(std::byte* at, std::uint64_t position, std::uint64_t synced) {
  FrameHeader header{};
  header.flags = kFrameCloses;
  header.position = position;
  header.synced = synced;
  finish(&header);
  std::memcpy(at, &header, sizeof header);
  const CommitRecord commit = make_commit(position, sum_bytes(0, at, sizeof header));
  std::memcpy(at + sizeof header, &commit, sizeof commit);
  BRECCIA_INVARIANT(is_whole_frame(at, position));
}

bool read_header(const std::byte* at, std::uint64_t position, FrameHeader* header) {
  std::memcpy(header, at, sizeof *header);
  return header->magic == kFrameMagic && header->position == position &&
         header->crc == base::crc32c(0, header, offsetof(FrameHeader, crc)) && plausible(*header);
}

RecordSpan span_of(const std::byte* at, const FrameHeader& header) {
  const FrameLayout layout = FrameLayout::of(header);
  BRECCIA_ASSERT((header.position + layout.records) % 8 == 0);
  return {header.position + layout.records, at + layout.records, header.record_bytes,
          header.record_count, (header.flags & kFrameMixed) == 0};
}

const char* frame_fault(const std::byte* at, const FrameHeader& header,
                        std::uint64_t one_pass_bytes, LogIntake::Part* part) {
  BRECCIA_ASSERT(plausible(header));
  const FrameLayout layout = FrameLayout::of(header);
  if (header.descriptor_count == 0 && layout.end <= one_pass_bytes) {
    return fault_in_one_pass(at, header, part);
  }
  const char* fault = seal_fault(at, header);
  if (fault == nullptr) fault = content_fault(at, header);
  if (fault == nullptr && part != nullptr && header.record_count > 0) {
    part->add(span_of(at, header));
  }
  return fault;
}

bool is_whole_frame(const std::byte* at, std::uint64_t position) {
  FrameHeader header;
  return read_header(at, position, &header) && frame_fault(at, header) == nullptr;
}

const char* seal_fault(const std::byte* at, const FrameHeader& header) {
  BRECCIA_ASSERT(plausible(header));
  const FrameLayout layout = FrameLayout::of(header);
  CommitRecord commit;
  if (!has_commit(at + layout.commit, header.position, &commit)) return kNoCommit;
  std::uint64_t sum = sum_bytes(0, at, layout.descriptors);
  sum = sum_bytes(sum, at + layout.descriptors, layout.commit - layout.descriptors);
  return sum == commit.checksum ? nullptr : kNoMatch;
}

const char* content_fault(const std::byte* at, const FrameHeader& header) {
  BRECCIA_ASSERT(plausible(header));
  const FrameLayout layout = FrameLayout::of(header);
  const std::byte* const records = at + layout.records;
  if (header.descriptor_count == 0) {
    if (are_of_one_size(records, header)) return nullptr;
    return walk_records(records, header, [](std::uint32_t, std::uint64_t, record::Op) {});
  }
  OffsetSet starts(header.record_bytes);
  std::vector<FamilyPart> parts;
  const char* const fault =
      walk_records(records, header, [&](std::uint32_t index, std::uint64_t offset, record::Op op) {
        starts.add(offset / 8);
        const bool has_name = op == record::Op::kFamily;
        if (index == 0 || has_name) parts.push_back({index, offset, has_name});
      });
  if (fault != nullptr) return fault;
  const auto* const descriptors = reinterpret_cast<const std::uint32_t*>(at + layout.descriptors);
  BRECCIA_ASSERT(reinterpret_cast<std::uintptr_t>(descriptors) % alignof(std::uint32_t) == 0);
  return descriptors_fault(records, header, descriptors, starts, parts);
}

}  // namespace breccia::wal
