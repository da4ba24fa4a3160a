#include "wal/recovery.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <tuple>
#include <vector>

#include "base/random.h"
#include "tiny_log.h"

namespace breccia::wal {
namespace {

using testing::append_record;
using testing::descriptors_of;
using testing::expect_prefix;
using testing::random_records;
using testing::Records;
using testing::TinyLog;

constexpr std::uint64_t kSeed = 1;
constexpr std::uint64_t kSegmentBytes = 1024;

/// Keeps the bytes of the records that it takes in.
class KeptRecords final : public LogIntake {
 public:
  std::unique_ptr<Part> make_part(std::uint64_t /*records*/) override {
    return std::make_unique<Kept>();
  }
  void take_in(std::unique_ptr<Part> part, const SegmentTable::Places& /*log*/) override {
    const auto& kept = static_cast<const Kept&>(*part);
    bytes_.insert(bytes_.end(), kept.bytes.begin(), kept.bytes.end());
    positions_.insert(positions_.end(), kept.positions.begin(), kept.positions.end());
    ++parts_;
  }

  /// Whether it has the records of these frames, and no others.
  [[nodiscard]] bool has(const std::vector<const std::byte*>& frames) const {
    std::vector<std::byte> bytes;
    std::vector<std::uint64_t> positions;
    for (const std::byte* const at : frames) {
      const RecoveredFrame frame = recovered_frame(at);
      bytes.insert(bytes.end(), frame.records, frame.records + frame.record_bytes);
      std::uint64_t offset = 0;
      for (std::uint32_t i = 0; i < frame.record_count; ++i) {
        positions.push_back(frame.records_position + offset);
        offset += record::record_header(frame.records + offset).record_bytes();
      }
    }
    return bytes == bytes_ && positions == positions_;
  }
  [[nodiscard]] std::uint64_t parts() const { return parts_; }

 private:
  struct Kept final : Part {
    void add(const RecordSpan& records) override {
      std::uint64_t offset = 0;
      for (std::uint32_t i = 0; i < records.count; ++i) {
        positions.push_back(records.position + offset);
        offset += record::record_header(records.at + offset).record_bytes();
      }
      EXPECT_EQ(offset, records.bytes);
      bytes.insert(bytes.end(), records.at, records.at + records.bytes);
    }
    std::vector<std::byte> bytes;
    std::vector<std::uint64_t> positions;
  };

  std::vector<std::byte> bytes_;
  std::vector<std::uint64_t> positions_;
  std::uint64_t parts_ = 0;
};

/// scan_log(), which says the same to an intake, whatever the frames of its parts.
Result<LogScan> scan_both(std::span<const SegmentView> segments, std::uint64_t from) {
  Result<LogScan> listed = scan_log(segments, from);
  for (const std::uint64_t run_bytes : {std::uint64_t{1}, std::uint64_t{300}, ~std::uint64_t{0}}) {
    KeptRecords kept;
    const Result<LogScan> taken = scan_log(segments, from, &kept, run_bytes);
    EXPECT_EQ(taken.status().ToString(), listed.status().ToString());
    if (!taken.ok() || !listed.ok()) continue;
    const LogScan& one = taken.value();
    const LogScan& other = listed.value();
    EXPECT_TRUE(kept.has(other.frames));
    EXPECT_TRUE(one.frames.empty());
    EXPECT_EQ(one.frame_count, other.frames.size());
    EXPECT_EQ(
        std::tie(one.frame_count, one.entries, one.record_bytes, one.end, one.synced,
                 one.dropped_bytes, one.message, one.joins, one.last_segment, one.last_is_empty),
        std::tie(other.frame_count, other.entries, other.record_bytes, other.end, other.synced,
                 other.dropped_bytes, other.message, other.joins, other.last_segment,
                 other.last_is_empty));
    EXPECT_EQ(one.chain.size(), other.chain.size());
  }
  return listed;
}

/// Frames of 0 to 4 records, every other with descriptors, over some segments.
TinyLog make_log(std::uint64_t seed, int frames, bool synced) {
  base::Random random(seed);
  TinyLog log(kSegmentBytes);
  for (int index = 0; index < frames; ++index) {
    log.append(random_records(&random, random.below(5)), index % 2 == 0, synced);
  }
  return log;
}

std::size_t frames_below(const TinyLog& log, std::uint64_t position) {
  std::size_t count = 0;
  for (const TinyLog::Placed& placed : log.placed()) {
    if (!placed.closes && placed.end <= position) ++count;
  }
  return count;
}

// Goal: an intact log gives back all its frames, whatever their number and whichever were synced.
// Method: logs of 0 to 40 frames, with and without the synced positions.
// Mutation: hopping to the next segment without reading its first position loses frames.
TEST(WalScan, IntactLogComesBackWhole) {
  for (int frames = 0; frames <= 40; ++frames) {
    SCOPED_TRACE("seed=" + std::to_string(kSeed + frames));
    const TinyLog log = make_log(kSeed + frames, frames, frames % 2 == 0);
    Result<LogScan> scan = scan_both(log.views(), log.begin());
    ASSERT_TRUE(scan.ok()) << scan.status().ToString();
    expect_prefix(scan.value(), log, static_cast<std::size_t>(frames));
    EXPECT_EQ(scan.value().end, log.end());
    EXPECT_EQ(scan.value().dropped_bytes, 0u);
    EXPECT_EQ(scan.value().last_is_empty, log.end() == log.views().back().base + 64);
  }
}

// Goal: a flipped bit never yields a wrong record, and is called a torn tail only at the tail.
// Method: every bit of every byte from the first segment header to the end of a synced log.
// Mutation: leaving the padding out of the checksum, or the search behind the chain's end, fails.
TEST(WalScan, EveryBitFlipIsFound) {
  SCOPED_TRACE("seed=" + std::to_string(kSeed));
  TinyLog log = make_log(kSeed, 12, /*synced=*/true);
  const std::size_t all = frames_below(log, log.end());
  ASSERT_GE(log.views().size(), 3u);
  const TinyLog::Placed last = log.placed().back();
  ASSERT_FALSE(last.closes);
  for (const TinyLog::Placed& placed : log.placed()) {
    for (std::uint64_t at = placed.position; at < placed.end; ++at) {
      for (int bit = 0; bit < 8; ++bit) {
        SCOPED_TRACE("position=" + std::to_string(at) + " bit=" + std::to_string(bit));
        log.at(at) ^= std::byte{1} << bit;
        Result<LogScan> scan = scan_both(log.views(), log.begin());
        log.at(at) ^= std::byte{1} << bit;
        if (placed.position != last.position) {
          ASSERT_FALSE(scan.ok());
          ASSERT_TRUE(scan.status().IsCorruption());
          continue;
        }
        ASSERT_TRUE(scan.ok()) << scan.status().ToString();
        expect_prefix(scan.value(), log, all - 1);
        ASSERT_GT(scan.value().dropped_bytes, 0u);
        ASSERT_FALSE(scan.value().message.empty());
        ASSERT_EQ(scan.value().end, last.position);
      }
    }
  }
}

// Goal: a damaged segment header is found, in whichever segment it lies.
// Method: every bit of every segment header.
// Mutation: checking only the first segment's header fails.
TEST(WalScan, EveryBitOfSegmentHeadersCounts) {
  SCOPED_TRACE("seed=" + std::to_string(kSeed));
  TinyLog log = make_log(kSeed, 12, /*synced=*/true);
  for (const SegmentView& view : log.views()) {
    for (std::uint64_t at = view.base; at < view.base + sizeof(SegmentHeader); ++at) {
      for (int bit = 0; bit < 8; ++bit) {
        log.at(at) ^= std::byte{1} << bit;
        ASSERT_TRUE(scan_both(log.views(), log.begin()).status().IsCorruption()) << at;
        log.at(at) ^= std::byte{1} << bit;
      }
    }
  }
}

// Goal: a log cut short anywhere keeps exactly the frames that are whole, and says what it dropped.
// Method: zeroes, or a stale frame of another position, from every byte of the log to its end.
// Mutation: taking a frame without its commit record, or reporting 0 dropped bytes, fails.
TEST(WalScan, TornAtEveryByte) {
  SCOPED_TRACE("seed=" + std::to_string(kSeed));
  const TinyLog whole = make_log(kSeed, 12, /*synced=*/false);
  for (const bool stale : {false, true}) {
    TinyLog log = make_log(kSeed, 12, /*synced=*/false);
    for (std::uint64_t cut = log.end(); cut-- > log.begin();) {
      const SegmentView& view = *std::find_if(log.views().begin(), log.views().end(),
                                              [&](const auto& one) { return cut < one.end(); });
      if (cut < view.base + sizeof(SegmentHeader)) continue;
      log.at(cut) = stale ? whole.views()[0].image[cut % 512 + 64] : std::byte{0};
      // Bytes may happen to be what they were: then nothing is torn yet.
      std::uint64_t first_torn = cut;
      const SegmentView& twin = whole.views()[static_cast<std::size_t>(&view - &log.views()[0])];
      while (first_torn < view.end() && *view.at(first_torn) == *twin.at(first_torn)) ++first_torn;
      if (first_torn == view.end()) continue;
      SCOPED_TRACE("cut=" + std::to_string(cut));
      Result<LogScan> scan = scan_both(log.views(), log.begin());
      ASSERT_TRUE(scan.ok()) << scan.status().ToString();
      expect_prefix(scan.value(), log, frames_below(whole, first_torn));
    }
  }
}

// Goal: what was never synced may be torn anywhere: what comes behind is dropped, not refused.
// Method: a bit in every frame of a log that claims no sync, as a power cut can leave it.
// Mutation: treating any intact frame behind the gap as proof of damage fails.
TEST(WalScan, UnsyncedFramesMayBeTornInAnyOrder) {
  SCOPED_TRACE("seed=" + std::to_string(kSeed));
  TinyLog log = make_log(kSeed, 12, /*synced=*/false);
  for (const TinyLog::Placed& placed : log.placed()) {
    log.at(placed.position + 20) ^= std::byte{1};
    Result<LogScan> scan = scan_both(log.views(), log.begin());
    log.at(placed.position + 20) ^= std::byte{1};
    ASSERT_TRUE(scan.ok()) << scan.status().ToString();
    expect_prefix(scan.value(), log, frames_below(log, placed.position));
    EXPECT_EQ(scan.value().end, placed.position);
    if (!placed.closes) {
      EXPECT_GT(scan.value().dropped_bytes, 0u);
    }
  }
}

// Goal: a closing frame behind a torn one promises nothing: an opening that cuts off a torn tail of
// several segments removes them one by one, and may be cut off itself.
// Method: the commit record of every frame of a log that claims no sync, and any number of its last
// segments left out, as such an opening leaves it.
// Mutation: asking for the segment that a closing frame promises before the frames are verified.
TEST(WalScan, WhatLiesBehindATornFrameMayBeMissing) {
  SCOPED_TRACE("seed=" + std::to_string(kSeed));
  TinyLog log = make_log(kSeed, 24, /*synced=*/false);
  ASSERT_GE(log.views().size(), 4u);
  for (const TinyLog::Placed& placed : log.placed()) {
    for (std::size_t left = placed.segment + 1; left < log.views().size(); ++left) {
      log.at(placed.end - 1) ^= std::byte{1};
      Result<LogScan> scan = scan_both(std::span(log.views()).first(left), log.begin());
      log.at(placed.end - 1) ^= std::byte{1};
      ASSERT_TRUE(scan.ok()) << left << ": " << scan.status().ToString();
      expect_prefix(scan.value(), log, frames_below(log, placed.position));
      EXPECT_EQ(scan.value().end, placed.position);
      EXPECT_EQ(scan.value().last_segment, placed.segment);
    }
  }
}

// Goal: only frames at or above `from` are given back, and damage below it is no matter.
// Method: every frame's position as `from`, with all frames before it destroyed.
// Mutation: not trying `from` itself after damage fails; so does checking bodies below `from`.
TEST(WalScan, FromInTheMiddle) {
  SCOPED_TRACE("seed=" + std::to_string(kSeed));
  const TinyLog intact = make_log(kSeed, 12, /*synced=*/true);
  for (const bool destroy : {false, true}) {
    TinyLog log = make_log(kSeed, 12, /*synced=*/true);
    for (const TinyLog::Placed& placed : intact.placed()) {
      SCOPED_TRACE("from=" + std::to_string(placed.position));
      const std::vector<SegmentView> views(
          log.views().begin() + static_cast<std::ptrdiff_t>(placed.segment), log.views().end());
      Result<LogScan> scan = scan_both(views, placed.position);
      ASSERT_TRUE(scan.ok()) << scan.status().ToString();
      EXPECT_EQ(scan.value().frames.size(),
                frames_below(log, log.end()) - frames_below(log, placed.position));
      EXPECT_EQ(scan.value().end, log.end());
      for (std::uint64_t at = placed.position; destroy && at < placed.end; ++at) {
        log.at(at) = std::byte{0xab};
      }
    }
  }
}

/// True if a log that ends in this frame is damaged: a frame that was sealed as it is was not torn
/// by a crash.
bool is_damage(const Records& records, const std::vector<std::uint32_t>& descriptors,
               std::uint32_t flags) {
  TinyLog log(kSegmentBytes);
  log.append(Records(), false, /*synced=*/true);
  log.append(records, descriptors, /*synced=*/false, flags);
  const Result<LogScan> scan = scan_both(log.views(), log.begin());
  EXPECT_TRUE(scan.ok() || scan.status().IsCorruption());
  EXPECT_TRUE(!scan.ok() || scan.value().frames.size() == 2);
  return !scan.ok();
}

// Goal: frames that never were valid are refused although their checksums are right, and not taken
//   for a torn tail.
// Method: a frame each with a lying count, operation, length or descriptor.
// Mutation: leaving out any one check in content_fault fails here, under asan at the latest.
TEST(WalScan, WellSealedNonsenseIsDamage) {
  const auto refuse = [](const char* what, auto&& change, bool descriptors) {
    SCOPED_TRACE(what);
    base::Random random(kSeed);
    Records records = random_records(&random, 2);
    std::vector<std::uint32_t> order;
    if (descriptors) order = descriptors_of(records);
    change(&records);
    for (std::size_t index = 0; index < order.size(); ++index) {
      order[index] = static_cast<std::uint32_t>(records.offsets[index] / 8);
    }
    EXPECT_TRUE(is_damage(records, order, 0));
  };
  const auto set_header = [](Records* records, std::uint32_t key_and_op, std::uint32_t value) {
    const record::RecordHeader header{key_and_op, value};
    std::memcpy(records->bytes.data(), &header, sizeof header);
  };
  refuse(
      "too few records", [](Records* r) { r->offsets.push_back(0); }, false);
  refuse(
      "too many records", [](Records* r) { r->offsets.pop_back(); }, false);
  refuse(
      "operation", [&](Records* r) { set_header(r, 7u << 24, 0); }, false);
  refuse(
      "key length", [&](Records* r) { set_header(r, 0xffffff, 0); }, false);
  refuse(
      "value length", [&](Records* r) { set_header(r, 0, 0xffffffff); }, false);
  refuse(
      "past the end", [&](Records* r) { set_header(r, 0, 1u << 20); }, false);
  // What lies at a descriptor decides nothing before the descriptor is known for a record's.
  refuse(
      "descriptor twice", [](Records* r) { r->offsets[1] = r->offsets[0]; }, true);
  refuse(
      "descriptor inside", [](Records* r) { r->offsets[1] -= 8; }, true);
  refuse(
      "descriptor outside", [](Records* r) { r->offsets[1] = 1ULL << 30; }, true);
}

// Goal: descriptors in any order but the one that the format asks for are damage, in each family's
//   part of a frame, and so are those that leave their part.
// Method: frames of one and of three families with equal keys among theirs; each two descriptors
//   are swapped in turn, each is named twice in turn.
// Mutation: comparing keys alone lets the versions of one key stand in any order; not keeping to
//   the part lets two families swap records.
TEST(WalScan, DescriptorsStandInTheirOrder) {
  Records plain;
  for (const char* const key : {"b", "a", "", "b", "bb", "a"}) {
    append_record(&plain, record::Op::kPut, key, "value");
  }
  Records mixed = plain;
  for (char family = 1; family < 3; ++family) {
    append_record(&mixed, record::Op::kFamily, "", std::string(4, family));
    for (const char* const key : {"b", "a", "b"})
      append_record(&mixed, record::Op::kMerge, key, "operand");
  }
  for (const auto& [records, flags] : {std::pair(plain, 0U), std::pair(mixed, kFrameMixed)}) {
    const std::vector<std::uint32_t> order = descriptors_of(records);
    EXPECT_FALSE(is_damage(records, order, flags));
    for (std::size_t i = 0; i < order.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        std::vector<std::uint32_t> wrong = order;
        std::swap(wrong[i], wrong[j]);
        EXPECT_TRUE(is_damage(records, wrong, flags)) << i << " and " << j;
        wrong[i] = wrong[j];
        EXPECT_TRUE(is_damage(records, wrong, flags)) << i << " and " << j;
      }
    }
  }
}

// Goal: a frame holds no range deletion and no family's name unless its header announces them, and
//   no name that is none.
// Method: well-sealed frames of each operation, with and without the flag and descriptors; names of
//   wrong lengths, with a key.
// Mutation: leaving out the check of the flag lets recovery take a mixed frame for a plain one.
TEST(WalScan, MixedFramesAreAnnounced) {
  const auto frames = [](const Records& records, bool descriptors, std::uint32_t flags) {
    const auto order = descriptors ? descriptors_of(records) : std::vector<std::uint32_t>();
    return is_damage(records, order, flags) ? 0u : 1u;
  };
  const auto records_with = [](record::Op op, const std::string& key, const std::string& value) {
    Records records;
    append_record(&records, record::Op::kPut, "before", "value");
    append_record(&records, op, key, value);
    append_record(&records, record::Op::kDelete, "behind", "");
    return records;
  };
  for (const bool descriptors : {false, true}) {
    for (const record::Op op :
         {record::Op::kPut, record::Op::kDelete, record::Op::kMerge, record::Op::kSingleDelete}) {
      const Records records = records_with(op, "key", record::is_deletion(op) ? "" : "value");
      EXPECT_EQ(frames(records, descriptors, 0), 1u) << static_cast<int>(op);
      EXPECT_EQ(frames(records, descriptors, kFrameMixed), 1u) << static_cast<int>(op);
    }
    const Records range = records_with(record::Op::kDeleteRange, "a", "b");
    EXPECT_EQ(frames(range, descriptors, 0), 0u);
    EXPECT_EQ(frames(range, descriptors, kFrameMixed), descriptors ? 0u : 1u);
    const Records family = records_with(record::Op::kFamily, "", std::string(4, '\1'));
    EXPECT_EQ(frames(family, descriptors, 0), 0u);
    EXPECT_EQ(frames(family, descriptors, kFrameMixed), 1u);
  }
  for (const std::uint64_t bytes : {0, 3, 5, 8}) {
    EXPECT_EQ(
        frames(records_with(record::Op::kFamily, "", std::string(bytes, 'f')), false, kFrameMixed),
        0u);
  }
  EXPECT_EQ(frames(records_with(record::Op::kFamily, "k", "four"), false, kFrameMixed), 0u);
}

// Goal: the search behind the end misses no header, wherever it lies, and none that `used` covers.
// Method: one header that says the end was synced, at each place of a segment; the rest is zeros,
// or
//   words that claim what a header there would, so that the fast look helps nowhere.
// Mutation: looking at 63 of 64 places, or not at the part of a look before the end, misses some.
TEST(WalScan, HeadersBehindTheEndAreFoundAnywhere) {
  constexpr std::uint64_t kBytes = 4096;
  for (const bool noise : {false, true}) {
    TinyLog log(kBytes);
    log.append(Records(), false, /*synced=*/true);
    const std::uint64_t end = log.end();
    const SegmentView view = log.views().front();
    for (std::uint64_t place = end; noise && place + 8 < view.end(); place += 8) {
      std::memcpy(&log.at(place + 8), &place, sizeof place);
    }
    const auto scan = [&](std::uint64_t used) {
      SegmentView some = view;
      some.used = used;
      return scan_both({&some, 1}, log.begin());
    };
    ASSERT_TRUE(scan(kBytes).ok());
    for (std::uint64_t place = end + 8; place + kClosingFrameBytes <= view.end(); place += 8) {
      std::array<std::byte, sizeof(FrameHeader)> before;
      std::memcpy(before.data(), view.at(place), before.size());
      FrameHeader header{};
      header.flags = kFrameCloses;
      header.position = place;
      header.synced = end + 8;
      finish(&header);
      std::memcpy(&log.at(place), &header, sizeof header);
      const std::uint64_t offset = place - view.base;
      EXPECT_TRUE(scan(kBytes).status().IsCorruption()) << noise << place;
      EXPECT_TRUE(scan(offset + sizeof header).status().IsCorruption()) << noise << place;
      EXPECT_TRUE(scan(offset).ok()) << noise << place;
      std::memcpy(&log.at(place), before.data(), before.size());
    }
  }
}

// Goal: segments of another store, gaps and a lost tail are found, each in its place: the former at
// the begin of a file.
// Method: a log with one segment's id changed, one left out, the first or the last left out.
// Mutation: not asking for the segment that a closing frame promises loses the tail silently;
// position 0 for a segment's begin names another offset.
TEST(WalScan, ForeignAndMissingSegments) {
  SCOPED_TRACE("seed=" + std::to_string(kSeed));
  const auto is_at_begin = [](const Status& status) {
    return status.ToString().find("offset 0:") != std::string::npos;
  };
  TinyLog log = make_log(kSeed, 20, /*synced=*/true);
  std::vector<SegmentView> views = log.views();
  ASSERT_GE(views.size(), 4u);
  for (std::size_t left_out = 0; left_out < views.size(); ++left_out) {
    std::vector<SegmentView> some = views;
    some.erase(some.begin() + static_cast<std::ptrdiff_t>(left_out));
    const Status status = scan_both(some, log.begin()).status();
    EXPECT_TRUE(status.IsCorruption()) << left_out;
    EXPECT_EQ(is_at_begin(status), left_out + 1 < views.size()) << status.ToString();
  }
  SegmentHeader header;
  std::memcpy(&header, views[1].image, sizeof header);
  ++header.store_id;
  finish(&header);
  std::memcpy(&log.at(views[1].base), &header, sizeof header);
  const Status status = scan_both(views, log.begin()).status();
  EXPECT_TRUE(status.IsCorruption() && is_at_begin(status)) << status.ToString();
}

/// Frames of all sizes: single records, some thousands, pieces of the checksum and more, one that
/// many cores check; with and without descriptors.
TinyLog make_large_log(std::uint64_t seed) {
  base::Random random(seed);
  TinyLog log(18 << 20);
  for (int i = 0; i < 400; ++i) log.append(random_records(&random, 1), false, i % 2 == 0);
  for (const std::uint64_t records : {3000, 1, 20'000, 4000}) {
    for (const bool descriptors : {false, true}) {
      log.append(random_records(&random, records), descriptors, /*synced=*/false);
    }
  }
  log.append(testing::large_record(kOnePassBytes, 'x'), false, /*synced=*/false);
  Records many;
  for (int i = 0; i < 180'000; ++i) {
    append_record(&many, record::Op::kPut, "of one size", std::string(77, 'v'));
  }
  log.append(many, false, /*synced=*/false);
  for (int i = 0; i < 40; ++i) {
    log.append(random_records(&random, 1 + random.below(4000)), i % 3 == 0, /*synced=*/false);
  }
  return log;
}

// Goal: many cores read a log as one does: an intake gets its parts in order, up to the first frame
//   that is wrong, and no more of that frame's part.
// Method: logs of 20 MiB and more with frames of all sizes; a bit anywhere, or none.
// Mutation: taking in parts as they come; a part that keeps what the bad frame added; runs behind
//   the first bad one; a last piece that is not looked at.
TEST(WalScan, ManyCoresReadWhatOneReads) {
  for (std::uint64_t seed = kSeed; seed < kSeed + 12; ++seed) {
    SCOPED_TRACE("seed=" + std::to_string(seed));
    base::Random random(seed);
    TinyLog log = make_large_log(seed);
    ASSERT_GE(log.views().size(), 3U);
    const std::vector<TinyLog::Placed> frames = log.placed();
    if (seed > kSeed) {
      const TinyLog::Placed& bad = frames[random.below(frames.size())];
      log.at(bad.position + random.below(bad.end - bad.position)) ^= std::byte{1};
    }
    for (const std::uint64_t run_bytes : {std::uint64_t{1}, std::uint64_t{100} << 10}) {
      const Result<LogScan> listed = scan_log(log.views(), log.begin(), nullptr, run_bytes);
      KeptRecords kept;
      const Result<LogScan> taken = scan_log(log.views(), log.begin(), &kept, run_bytes);
      ASSERT_EQ(taken.status().ToString(), listed.status().ToString());
      if (seed == kSeed) {
        ASSERT_TRUE(listed.ok()) << listed.status().ToString();
        EXPECT_EQ(listed.value().end, log.end());
      }
      if (!listed.ok()) continue;
      EXPECT_TRUE(kept.has(listed.value().frames));
      EXPECT_EQ(taken.value().end, listed.value().end);
      EXPECT_EQ(taken.value().message, listed.value().message);
      expect_prefix(listed.value(), log, listed.value().frames.size());
      EXPECT_EQ(listed.value().frames.size(), frames_below(log, listed.value().end));
    }
  }
}

}  // namespace
}  // namespace breccia::wal
