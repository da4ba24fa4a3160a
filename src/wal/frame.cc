#include "wal/frame.h"

#include <algorithm>
#include <span>
#include <vector>

#include "base/assert.h"
#include "base/checksum.h"
#include "base/parallel.h"
#include "base/random.h"

namespace breccia::wal {
namespace {

using base::Checksum64;

/// Below this, handing pieces to other cores costs more than it brings.
constexpr std::uint64_t kParallelBytesMin = 4ULL << 20;

std::uint64_t fold(std::uint64_t sum, std::uint64_t digest) { return base::mix64(sum ^ digest); }

/// Calls digest(begin, end) for each piece of [0, bytes) and folds what it returns, in order.
template <class Digest>
std::uint64_t fold_pieces(std::uint64_t sum, std::uint64_t bytes, const Digest& digest) {
  const auto piece = [&](std::uint64_t index) {
    const std::uint64_t begin = index * kChecksumPieceBytes;
    return digest(begin, std::min(begin + kChecksumPieceBytes, bytes));
  };
  const std::uint64_t pieces = (bytes + kChecksumPieceBytes - 1) / kChecksumPieceBytes;
  if (bytes < kParallelBytesMin) {
    for (std::uint64_t index = 0; index < pieces; ++index) sum = fold(sum, piece(index));
    return sum;
  }
  std::vector<std::uint64_t> digests(pieces);
  base::parallel_for(std::uint64_t{0}, pieces,
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
  const std::uint32_t crc = base::crc32c(0, &commit, offsetof(CommitRecord, crc));
  return base::crc32c(crc, &position, sizeof position);
}

/// One bit per 8 bytes of a frame's records.
class OffsetSet {
 public:
  explicit OffsetSet(std::uint64_t record_bytes) : offsets_(record_bytes / 8) {
    words_.resize((offsets_ + 63) / 64);
  }
  void add(std::uint64_t offset) { words_[offset / 64] |= 1ULL << (offset % 64); }
  /// False if `offset` is not in the set.
  bool take(std::uint64_t offset) {
    if (offset >= offsets_) return false;
    const std::uint64_t bit = 1ULL << (offset % 64);
    const bool was_there = (words_[offset / 64] & bit) != 0;
    words_[offset / 64] &= ~bit;
    return was_there;
  }

 private:
  std::uint64_t offsets_;
  std::vector<std::uint64_t> words_;
};

/// Walks the records and calls visit(offset) for each.
template <class Visit>
const char* walk_records(const std::byte* records, const FrameHeader& header, const Visit& visit) {
  std::uint64_t offset = 0;
  for (std::uint32_t index = 0; index < header.record_count; ++index) {
    if (header.record_bytes - offset < sizeof(RecordHeader)) return "has too few records";
    const RecordHeader record = record_header(records + offset);
    if (static_cast<int>(record.op()) >= kOpCount) return "holds an unknown operation";
    if (!is_point(record.op()) && (header.flags & kFrameMixed) == 0) {
      return "holds an operation that its header does not announce";
    }
    if (record.op() == Op::kFamily && (record.key_bytes() != 0 || record.value_bytes != 4)) {
      return "holds a column family without a name";
    }
    if (record.key_bytes() > limits::kKeyBytesMax) return "holds a key above the limit";
    if (record.value_bytes > limits::kValueBytesMax) return "holds a value above the limit";
    if (header.record_bytes - offset < record.record_bytes()) {
      return "holds a record that reaches past its end";
    }
    visit(offset);
    offset += record.record_bytes();
  }
  return offset == header.record_bytes ? nullptr : "has more bytes than its records";
}

const char* records_fault(const std::byte* at, const FrameHeader& header,
                          const FrameLayout& layout) {
  const std::byte* const records = at + layout.records;
  if (header.descriptor_count == 0) {
    return walk_records(records, header, [](std::uint64_t) {});
  }
  OffsetSet open(header.record_bytes);
  const char* const fault =
      walk_records(records, header, [&](std::uint64_t offset) { open.add(offset / 8); });
  if (fault != nullptr) return fault;
  // As many descriptors as records, each a record's offset, none twice: a permutation.
  const auto* const descriptors = reinterpret_cast<const std::uint32_t*>(at + layout.descriptors);
  for (std::uint32_t index = 0; index < header.descriptor_count; ++index) {
    if (!open.take(descriptors[index])) return "has descriptors that do not match its records";
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
}

CommitRecord make_commit(std::uint64_t position, std::uint64_t checksum) {
  CommitRecord commit{checksum, kCommitMagic, 0};
  commit.crc = commit_crc(commit, position);
  return commit;
}

std::uint64_t copy_and_sum(std::byte* frame, const FrameLayout& layout, const std::byte* records) {
  std::memset(frame + sizeof(FrameHeader), 0, layout.records - sizeof(FrameHeader));
  return fold_pieces(0, layout.descriptors, [&](std::uint64_t begin, std::uint64_t end) {
    const std::uint64_t from = std::max(begin, layout.records);
    if (from < end) std::memcpy(frame + from, records + (from - layout.records), end - from);
    return Checksum64::of(frame + begin, end - begin);
  });
}

std::uint64_t sum_descriptors(std::uint64_t sum, std::byte* frame, const FrameLayout& layout,
                              std::uint64_t descriptor_count) {
  const std::uint64_t end = layout.descriptors + descriptor_count * sizeof(std::uint32_t);
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
}

bool read_header(const std::byte* at, std::uint64_t position, FrameHeader* header) {
  std::memcpy(header, at, sizeof *header);
  return header->magic == kFrameMagic && header->position == position &&
         header->crc == base::crc32c(0, header, offsetof(FrameHeader, crc)) && plausible(*header);
}

const char* frame_fault(const std::byte* at, const FrameHeader& header) {
  const FrameLayout layout = FrameLayout::of(header);
  CommitRecord commit;
  std::memcpy(&commit, at + layout.commit, sizeof commit);
  if (commit.magic != kCommitMagic || commit.crc != commit_crc(commit, header.position)) {
    return "has no commit record";
  }
  std::uint64_t sum = sum_bytes(0, at, layout.descriptors);
  sum = sum_bytes(sum, at + layout.descriptors, layout.commit - layout.descriptors);
  if (sum != commit.checksum) return "does not match its checksum";
  return records_fault(at, header, layout);
}

}  // namespace breccia::wal
