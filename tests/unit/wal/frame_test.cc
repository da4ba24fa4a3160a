#include "wal/frame.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "base/checksum.h"
#include "base/random.h"
#include "records.h"

namespace breccia::wal {
namespace {

using testing::large_record;
using testing::random_records;
using testing::Records;

constexpr std::uint64_t kSeed = 31;

// Goal: padding is zero whatever a recycled image held before.
// Method: frames of 1 to 9 records with descriptors at odd positions over an image of ones.
// Mutation: leaving out either memset fails.
TEST(WalFrame, PaddingIsZero) {
  SCOPED_TRACE("seed=" + std::to_string(kSeed));
  base::Random random(kSeed);
  for (std::uint64_t count = 1; count < 10; ++count) {
    const Records records = random_records(&random, count);
    const std::uint64_t position = 4096 + 8 * count;
    const FrameLayout layout =
        FrameLayout::of(position, kFrameAligned, records.bytes.size(), count);
    std::vector<std::byte> image(layout.end, std::byte{0xff});
    const std::uint64_t sum =
        copy_and_sum(image.data(), layout, RecordsInOnePiece(records.bytes.data()));
    sum_descriptors(sum, image.data(), layout, count);
    const auto all_zero = [&](std::uint64_t from, std::uint64_t to) {
      return std::all_of(image.begin() + static_cast<std::ptrdiff_t>(from),
                         image.begin() + static_cast<std::ptrdiff_t>(to),
                         [](std::byte byte) { return byte == std::byte{0}; });
    };
    EXPECT_TRUE(all_zero(sizeof(FrameHeader), layout.records));
    EXPECT_TRUE(all_zero(layout.descriptors + 4 * count, layout.commit));
    EXPECT_EQ((position + layout.records) % 64, 0u);
  }
}

// Goal: a header bears flags that are known and go together, or it is none.
// Method: all flags up to the next power of two, each sealed with the right checksum.
// Mutation: testing for kFrameCloses as a bit, instead of alone, takes a mixed closing frame.
TEST(WalFrame, FlagsThatGoTogether) {
  for (std::uint32_t flags = 0; flags < 16; ++flags) {
    FrameHeader header{};
    header.magic = kFrameMagic;
    header.flags = flags;
    header.position = 64;
    header.crc = base::crc32c(0, &header, offsetof(FrameHeader, crc));
    const bool known = flags == kFrameCloses || (flags & ~(kFrameAligned | kFrameMixed)) == 0;
    FrameHeader read;
    EXPECT_EQ(read_header(reinterpret_cast<const std::byte*>(&header), 64, &read), known) << flags;
  }
}

// Goal: frames around a piece of the checksum, and around the size from which cores share the work,
// are summed alike when written and when checked, and a changed byte shows in every piece.
// Method: one record each of the sizes around the limits; one byte of each piece is changed.
// Mutation: folding pieces without regard to order, or leaving out the last short one, fails.
TEST(WalFrame, ChecksumPieces) {
  for (const std::uint64_t bytes : {kChecksumPieceBytes, std::uint64_t{4} << 20}) {
    for (const int off : {-8, 0, 8}) {
      const Records records = large_record(bytes - 64 + static_cast<std::uint64_t>(off), 'v');
      FrameHeader header{};
      header.position = 64;
      header.record_bytes = records.bytes.size();
      header.record_count = 1;
      finish(&header);
      const FrameLayout layout = FrameLayout::of(64, 0, header.record_bytes, 0);
      ASSERT_EQ(layout.descriptors, bytes + static_cast<std::uint64_t>(off));
      std::vector<std::byte> image(layout.end);
      std::memcpy(image.data(), &header, sizeof header);
      const std::uint64_t sum =
          copy_and_sum(image.data(), layout, RecordsInOnePiece(records.bytes.data()));
      const CommitRecord commit = make_commit(64, sum);
      std::memcpy(image.data() + layout.commit, &commit, sizeof commit);
      ASSERT_EQ(frame_fault(image.data(), header), nullptr);
      for (std::uint64_t at = 4000; at < layout.commit; at += kChecksumPieceBytes) {
        image[at] ^= std::byte{1};
        EXPECT_NE(frame_fault(image.data(), header), nullptr);
        image[at] ^= std::byte{1};
      }
    }
  }
}

// Goal: a frame that goes to the log past the caches is as any other.
// Method: a frame of 33 MiB at places beside a line, each byte compared, and its checksum.
// Mutation: a piece whose ends are not copied, or summed from another place, fails.
TEST(WalFrame, LargeOnesAreStreamed) {
  base::Random random(kSeed);
  std::vector<std::byte> records(33 << 20);
  for (std::size_t at = 0; at < records.size(); at += 8) {
    const std::uint64_t word = random.next();
    std::memcpy(records.data() + at, &word, sizeof word);
  }
  for (const std::uint64_t shift : {0, 8, 56}) {
    FrameHeader header{};
    header.position = 64 + shift;
    header.flags = kFrameAligned;
    header.record_bytes = records.size();
    finish(&header);
    const FrameLayout layout = FrameLayout::of(header);
    std::vector<std::byte> image(shift + layout.end, std::byte{0xff});
    std::byte* const frame = image.data() + shift;
    std::memcpy(frame, &header, sizeof header);
    const std::uint64_t sum = copy_and_sum(frame, layout, RecordsInOnePiece(records.data()));
    EXPECT_TRUE(std::equal(records.begin(), records.end(), frame + layout.records));
    const CommitRecord commit = make_commit(header.position, sum);
    std::memcpy(frame + layout.commit, &commit, sizeof commit);
    EXPECT_EQ(seal_fault(frame, header), nullptr);
  }
}

// Goal: frames that are copied piece by piece, in any order, are those that are copied at once.
// Method: frames whose records end within the first piece, at a piece's end, behind it, and further
//   on, over an image that held something else; pieces from the last on.
// Mutation: digests folded in another order, or a last piece left out.
TEST(WalFrame, PiecesMakeTheWhole) {
  base::Random random(kSeed);
  for (const std::uint64_t bytes : {std::uint64_t{8}, kChecksumPieceBytes - 64, kChecksumPieceBytes,
                                    5 * kChecksumPieceBytes + 8}) {
    std::vector<std::byte> records(bytes);
    for (std::byte& one : records) one = static_cast<std::byte>(random.below(256));
    FrameHeader header{};
    header.position = 72;
    header.flags = kFrameAligned;
    header.record_bytes = bytes;
    finish(&header);
    const FrameLayout layout = FrameLayout::of(header);
    std::vector<std::byte> whole(layout.end, std::byte{0xff});
    std::memcpy(whole.data(), &header, sizeof header);
    std::vector<std::byte> pieces = whole;
    const RecordsInOnePiece source(records.data());
    std::vector<std::uint64_t> digests(piece_count(layout));
    for (std::uint64_t piece = digests.size(); piece-- > 0;) {
      digests[piece] = copy_piece(pieces.data(), layout, source, piece);
    }
    EXPECT_EQ(sum_digests(digests), copy_and_sum(whole.data(), layout, source));
    EXPECT_EQ(pieces, whole);
  }
}

// Goal: many records of one size, which many cores look at, hide nothing that one core would find.
// Method: 200,000 records, right ones, and with one of each kind that is wrong, at places where the
//   part of a core begins or ends, and others; sizes that add up all the same.
// Mutation: a size that is not compared, a record of a task that is not looked at, an operation
//   that is not announced, a gap that is not counted or stands in what is no put.
TEST(WalFrame, ManyRecordsOfOneSize) {
  constexpr std::uint32_t kCount = 200'000;
  Records records;
  for (std::uint32_t i = 0; i < kCount; ++i) {
    testing::append_record(&records, record::Op::kPut, "a key", "a value of 22 bytes...");
  }
  const std::uint64_t bytes = records.bytes.size() / kCount;
  FrameHeader header{};
  header.position = 64;
  header.record_bytes = records.bytes.size();
  header.record_count = kCount;
  finish(&header);
  std::vector<std::byte> image(FrameLayout::of(header).end);
  std::byte* const first = image.data() + FrameLayout::of(header).records;
  std::copy(records.bytes.begin(), records.bytes.end(), first);
  ASSERT_EQ(content_fault(image.data(), header), nullptr);
  const auto set = [&](std::uint64_t i, const record::RecordHeader& is) {
    std::memcpy(first + i * bytes, &is, sizeof is);
  };
  const auto right = record::RecordHeader::make(record::Op::kPut, 5, 22);
  for (const std::uint64_t i : {0U, 1U, 65'535U, 65'536U, 131'071U, 131'072U, kCount - 1}) {
    for (const auto& wrong :
         {record::RecordHeader{6U << 24 | 5, 22}, record::RecordHeader{7U << 24 | 5, 22},
          record::RecordHeader{(1U << 27 | 7U << 24) | 5, 22},
          record::RecordHeader::make(record::Op::kDelete, 5, 14, 1),
          record::RecordHeader::make(record::Op::kMerge, 5, 14, 1),
          record::RecordHeader::make(record::Op::kPut, 5, 22, 1),
          record::RecordHeader::make(record::Op::kPut, 5, 22, 31),
          record::RecordHeader::make(record::Op::kDeleteRange, 5, 22),
          record::RecordHeader::make(record::Op::kFamily, 5, 22),
          record::RecordHeader::make(record::Op::kPut, 5, 30),
          record::RecordHeader::make(record::Op::kPut, 5, 14),
          record::RecordHeader::make(record::Op::kPut, 5, 1U << 31)}) {
      set(i, wrong);
      EXPECT_NE(content_fault(image.data(), header), nullptr) << i;
      set(i, right);
    }
    // Of the same size, with a gap.
    set(i, record::RecordHeader::make(record::Op::kPut, 5, 14, 1));
    EXPECT_EQ(content_fault(image.data(), header), nullptr) << i;
    set(i, right);
  }
  // One of two takes what the other one leaves: right, and not of one size.
  set(100'001, record::RecordHeader::make(record::Op::kPut, 5, 22 - 8));
  std::memset(first + 100'002 * bytes - 8, 0, 8 + sizeof right);
  const auto longer = record::RecordHeader::make(record::Op::kPut, 5, 22 + 8);
  std::memcpy(first + 100'002 * bytes - 8, &longer, sizeof longer);
  EXPECT_EQ(content_fault(image.data(), header), nullptr);
}

// Goal: a wrong order of descriptors shows wherever it is, also in frames that many cores check.
// Method: 100,000 records in key order; neighbours are swapped around each place where the part of
// one core may end.
// Mutation: tasks that do not compare the last of theirs with the first of the next miss a swap.
TEST(WalFrame, OrderOfManyDescriptors) {
  constexpr std::uint32_t kCount = 100'000;
  Records records;
  for (std::uint32_t i = 0; i < kCount; ++i) {
    const std::uint64_t number = __builtin_bswap64(i);
    testing::append_record(&records, record::Op::kPut,
                           {reinterpret_cast<const char*>(&number), sizeof number}, "");
  }
  FrameHeader header{};
  header.position = 64;
  header.record_bytes = records.bytes.size();
  header.record_count = header.descriptor_count = kCount;
  finish(&header);
  const FrameLayout layout = FrameLayout::of(header);
  std::vector<std::byte> image(layout.end);
  std::memcpy(image.data(), &header, sizeof header);
  copy_and_sum(image.data(), layout, RecordsInOnePiece(records.bytes.data()));
  auto* const descriptors = reinterpret_cast<std::uint32_t*>(image.data() + layout.descriptors);
  for (std::uint32_t i = 0; i < kCount; ++i) {
    descriptors[i] = static_cast<std::uint32_t>(records.offsets[i] / 8);
  }
  ASSERT_EQ(content_fault(image.data(), header), nullptr);
  for (std::uint32_t i = 0; i + 1 < kCount; i += i % 4096 == 1 ? 4093 : 1) {
    std::swap(descriptors[i], descriptors[i + 1]);
    EXPECT_NE(content_fault(image.data(), header), nullptr) << i;
    std::swap(descriptors[i], descriptors[i + 1]);
  }
}

}  // namespace
}  // namespace breccia::wal
