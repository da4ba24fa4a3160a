#include "hash/engine/intake.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/limits.h"
#include "base/random.h"
#include "record/keyed_hash.h"
#include "wal/intake.h"

namespace breccia::hash {
namespace {

/// Records as they lie in a log, in windows of it, and what a map would say of their keys.
class Records {
 public:
  /// With room for so many windows.
  explicit Records(std::uint64_t windows) : bytes_(windows * limits::kLogWindowBytes) {
    for (std::uint64_t i = 0; i < windows; ++i) {
      windows_.push_back(bytes_.data() + i * limits::kLogWindowBytes);
    }
  }

  void append(record::Op op, const std::string& key, const std::string& value) {
    append(record::RecordHeader::make(op, key.size(), value.size()), key, value);
  }
  void append(const record::RecordHeader& header, const std::string& key,
              const std::string& value) {
    ASSERT_LE(end_ + header.record_bytes(), bytes_.size());
    record::write_record(bytes_.data() + end_, header, key.data(), key.size(), value.data(),
                         value.size());
    common_.add(header);
    newest_[key] = kBase + end_;
    if (record::is_deletion(header.op())) newest_.erase(key);
    places_.push_back(end_);
    end_ += header.record_bytes();
  }

  [[nodiscard]] std::uint64_t count() const { return places_.size(); }
  [[nodiscard]] const Common& common() const { return common_; }
  [[nodiscard]] wal::RecordSpan span(std::uint64_t begin, std::uint64_t end) const {
    const std::uint64_t to = end == count() ? end_ : places_[end];
    return {kBase + places_[begin], bytes_.data() + places_[begin], to - places_[begin],
            static_cast<std::uint32_t>(end - begin), true};
  }
  [[nodiscard]] wal::SegmentTable::Places log() const {
    return {windows_.data(), windows_.size(), kBase / limits::kLogWindowBytes};
  }
  [[nodiscard]] const std::unordered_map<std::string, std::uint64_t>& newest() const {
    return newest_;
  }

 private:
  static constexpr std::uint64_t kBase = 3 * limits::kLogWindowBytes;
  std::vector<std::byte> bytes_;
  std::vector<const std::byte*> windows_;
  std::vector<std::uint64_t> places_;
  std::unordered_map<std::string, std::uint64_t> newest_;
  std::uint64_t end_ = 0;
  Common common_;
};

std::string word(std::uint64_t id) { return {reinterpret_cast<const char*>(&id), sizeof id}; }

std::unique_ptr<KeyMap> make_map(std::uint64_t number_mask) {
  return KeyMap::make(make_host_backend(), 1 << 12, Numbering({1, 3}, number_mask)).take();
}

/// Whether the map has the newest record of each key, and no others.
void expect_newest(const KeyMap& map, const Records& records) {
  EXPECT_EQ(map.keys(), records.newest().size());
  Entries asked;
  std::vector<std::uint64_t> expected;
  for (const auto& [key, position] : records.newest()) {
    asked.add(map.numbering().of(Slice(key)), position);
    expected.push_back(position);
  }
  std::vector<std::uint64_t> found(asked.count());
  ASSERT_TRUE(map.index().find(asked.number.data(), found.data(), asked.count()).ok());
  EXPECT_TRUE(found == expected);
}

/// What records are like.
struct Kind {
  bool other_keys;  // than those of 8 bytes
  bool other_size;  // the last record has one of its own
  bool deletions;
  std::uint64_t keys;  // how many different ones there may be
  bool other_gap;      // one of the puts has it, and is as long as the others
};

constexpr std::uint64_t kFew = 1000;

void play(const Kind& kind, std::uint64_t count, std::uint64_t seed) {
  base::Random random(seed);
  Records records(2);
  for (std::uint64_t i = 0; i + 1 < count; ++i) {
    const bool is_deletion = kind.deletions && random.one_in(5);
    const std::string id = word(random.below(kind.keys));
    const std::string key = kind.other_keys && random.one_in(3) ? "other" + id : id;
    if (kind.other_gap && i == count / 2) {
      records.append(record::RecordHeader::make(record::Op::kPut, key.size(), 0, 1), key, "");
      continue;
    }
    // As long as a put's: so that sizes tell nothing.
    records.append(is_deletion ? record::Op::kDelete : record::Op::kPut, key, word(i));
  }
  records.append(record::Op::kPut, "the last", kind.other_size ? std::string(64, 'x') : word(1));
  const auto map = make_map(~std::uint64_t{0});
  MapIntake intake(map.get());
  for (std::uint64_t begin = 0; begin < count;) {
    auto part = intake.make_part(count - begin);
    for (std::uint64_t spans = 2 + random.below(2); spans > 0 && begin < count; --spans) {
      std::uint64_t end = begin + 1 + random.below(count - begin);
      // Some, then more than there are columns for, and some behind them.
      if (count > kFew && begin < kFew) end = begin == 0 ? kFew / 2 : count - kFew;
      part->add(records.span(begin, end));
      begin = end;
    }
    intake.take_in(std::move(part), records.log());
  }
  ASSERT_TRUE(intake.status().ok()) << intake.status().ToString();
  expect_newest(*map, records);
  EXPECT_EQ(map->has_only_words(), records.common().only_words);
  EXPECT_EQ(map->common_put(), records.common().put.shared());
}

// Goal: an intake makes of records what writing them had made of a map, however they come: in small
//   spans, or in ones that are larger than its columns; of one size or of several; deletions too.
// Method: random records, cut at random, beside a map.
// Mutation: records of one size that are not asked for it; a part's rest that comes before its
//   columns; keys of other lengths, or a put of another header, that nobody is told of.
TEST(HashIntake, MakesOfRecordsWhatTheySay) {
  std::uint64_t seed = 1;
  for (const std::uint64_t count :
       {std::uint64_t{1}, std::uint64_t{2}, kFew, std::uint64_t{2'300'000}}) {
    const bool is_large = count > kFew;
    for (const Kind& kind :
         {Kind{false, false, false, count, false}, Kind{false, true, true, count / 2 + 1, false},
          Kind{false, false, true, count / 2 + 1, false},
          Kind{false, false, true, count / 2 + 1, true},
          Kind{true, false, true, count / 3 + 1, false}}) {
      if (is_large && !kind.deletions) continue;
      SCOPED_TRACE("count=" + std::to_string(count) + " seed=" + std::to_string(seed));
      play(kind, count, seed++);
    }
  }
}

// Goal: what another engine wrote is no key.
// Method: a span that says so, between others.
// Mutation: taking it in.
TEST(HashIntake, RefusesWhatIsNotItsOwn) {
  Records records(1);
  for (std::uint64_t i = 0; i < 10; ++i) records.append(record::Op::kPut, word(i), word(i));
  const auto map = make_map(~std::uint64_t{0});
  MapIntake intake(map.get());
  auto part = intake.make_part(10);
  part->add(records.span(0, 5));
  wal::RecordSpan foreign = records.span(5, 10);
  foreign.only_default_points = false;
  part->add(foreign);
  intake.take_in(std::move(part), records.log());
  EXPECT_TRUE(intake.status().IsCorruption());
  auto behind = intake.make_part(5);
  behind->add(records.span(0, 5));
  intake.take_in(std::move(behind), records.log());
  EXPECT_TRUE(intake.status().IsCorruption());
  EXPECT_EQ(map->keys(), 0U);
}

}  // namespace
}  // namespace breccia::hash
