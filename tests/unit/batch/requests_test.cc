#include "batch/requests.h"

#include <breccia/batch.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/random.h"
#include "support/seeds.h"
#include "unit/batch/scarce_memory.h"

namespace breccia::batch {

namespace {

constexpr FamilyId kFamilies[] = {kDefaultFamily, 1, 7, ~FamilyId{0}};

std::string random_key(base::Random* random) {
  constexpr std::uint64_t kLengths[] = {0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 1000};
  std::string key(kLengths[random->below(std::size(kLengths))], '\0');
  for (char& c : key) c = static_cast<char>(random->one_in(3) ? 0 : random->next());
  return key;
}

std::string restored(const record::KeyColumnsRef& keys, std::uint64_t i) {
  std::string key(keys.bytes_at(i), 'x');
  record::restore_key(keys, i, key.data());
  return key;
}

const Writes* writes_of(const Requests& requests, FamilyId family) {
  for (const auto& writes : requests.writes()) {
    if (writes->family() == family) return writes.get();
  }
  return nullptr;
}

Reads* reads_of(const Requests& requests, FamilyId family) {
  for (const auto& reads : requests.reads()) {
    if (reads->family() == family) return reads.get();
  }
  return nullptr;
}

Ranges* ranges_of(const Requests& requests, FamilyId family) {
  for (const auto& ranges : requests.ranges()) {
    if (ranges->family() == family) return ranges.get();
  }
  return nullptr;
}

/// The laid out records, brought together in pieces.
const std::byte* laid_out_records(Requests& requests) {
  static thread_local std::vector<std::byte> all;
  requests.lay_out();
  all.assign(requests.record_bytes(), std::byte{0xee});
  constexpr std::uint64_t kPiece = 100;
  for (std::uint64_t at = 0; at < all.size(); at += kPiece) {
    const std::uint64_t end = std::min<std::uint64_t>(at + kPiece, all.size());
    const std::byte* const piece = requests.bytes(at, end, all.data() + at);
    if (piece != all.data() + at) std::memcpy(all.data() + at, piece, end - at);
  }
  return all.data();
}

/// A record as a log holds it.
struct Record {
  record::Op op;
  std::string key;
  std::string value;
  bool operator==(const Record&) const = default;
};

Record record_at(const std::byte* record) {
  const record::RecordHeader header = record::record_header(record);
  return {header.op(),
          {record::record_key(record), header.key_bytes()},
          {record::record_value(record), header.value_bytes}};
}

/// The records that lie in `bytes` bytes, by family and by offset, each family once, the default
/// one first; names of families are not among them.
using Parsed = std::map<FamilyId, std::map<std::uint64_t, Record>>;
Parsed parse(const std::byte* records, std::uint64_t bytes) {
  Parsed parsed;
  FamilyId family = kDefaultFamily;
  for (std::uint64_t at = 0; at < bytes; at += record::record_header(records + at).record_bytes()) {
    const Record record = record_at(records + at);
    if (record.op == record::Op::kFamily) {
      EXPECT_EQ(record.value.size(), sizeof family);
      std::memcpy(&family, record.value.data(), sizeof family);
      EXPECT_FALSE(parsed.contains(family)) << "family " << family << " twice";
      EXPECT_EQ(record.key, "");
    } else {
      parsed[family].emplace(at, record);
    }
  }
  return parsed;
}

/// What a batch should hold: a list of what was added.
class Model {
 public:
  struct Write {
    FamilyId family;
    Record record;
  };
  struct Read {
    FamilyId family;
    std::string key;
    std::size_t writes_before;  // of its family
    std::string end = {};       // of a range, and how many entries it asks for
    std::uint32_t limit = 0;
  };

  /// Adds a random request to both; true if `requests` took it.
  bool add(base::Random* random, Requests* requests) {
    const FamilyId family = kFamilies[random->below(families_)];
    const std::string key = random_key(random);
    const std::uint64_t dice = random->below(10);
    if (dice < 3) {
      if (!requests->add_read(family, key).ok()) return false;
      reads.push_back({family, key, writes_to(family)});
    } else if (dice == 3) {
      const std::string end = random_key(random);
      const auto limit = static_cast<std::uint32_t>(random->below(9));
      if (!requests->add_range(family, key, end, limit).ok()) return false;
      ranges.push_back({family, key, writes_to(family), end, limit});
    } else {
      Record record = random_record(random, dice, key);
      if (!requests->add_write(record.op, family, record.key, record.value).ok()) return false;
      writes.push_back({family, std::move(record)});
    }
    return true;
  }

  [[nodiscard]] std::size_t writes_to(FamilyId family) const {
    std::size_t count = 0;
    for (const Write& write : writes) count += write.family == family ? 1 : 0;
    return count;
  }

  std::vector<Write> writes;
  std::vector<Read> reads;
  std::vector<Read> ranges;

  explicit Model(std::uint64_t families) : families_(families) {}

 private:
  static Record random_record(base::Random* random, std::uint64_t dice, const std::string& key) {
    const std::string value(random->one_in(2) ? 8 : random->below(40), 'v');
    switch (dice) {
      case 4:
        return {record::Op::kDelete, key, ""};
      case 5:
        return {record::Op::kSingleDelete, key, ""};
      case 6:
        return {record::Op::kMerge, key, value};
      case 7:
        if (random->one_in(2)) return {record::Op::kDeleteRange, key, key + value};
        return {record::Op::kPut, key, value};
      default:
        return {record::Op::kPut, key, value};
    }
  }

  const std::uint64_t families_;  // that requests are for
};

/// Compares one family's part with the model; `laid` are its records in the frame.
void expect_writes(const Writes& writes, const Model& model,
                   const std::map<std::uint64_t, Record>& laid) {
  std::size_t points = 0;
  std::size_t deletes = 0;
  std::uint64_t merges = 0;
  bool only_numbers = true;
  auto at = laid.begin();
  for (const Model::Write& write : model.writes) {
    if (write.family != writes.family()) continue;
    ASSERT_NE(at, laid.end());
    ASSERT_EQ(at->second, write.record);
    ASSERT_EQ(record_at(writes.records() + (at->first - writes.base())), write.record);
    if (write.record.op == record::Op::kDeleteRange) {
      ASSERT_LT(deletes, writes.range_deletes().size());
      ASSERT_EQ(writes.base() + writes.range_deletes()[deletes++], at->first);
    } else {
      ASSERT_LT(points, writes.point_count());
      ASSERT_EQ(writes.base() + record::position_of(writes.offsets()[points]), at->first);
      ASSERT_EQ(record::op_of(writes.offsets()[points]), write.record.op);
      ASSERT_EQ(restored(writes.keys(), points++), write.record.key);
    }
    merges += write.record.op == record::Op::kMerge ? 1 : 0;
    const bool has_value =
        write.record.op == record::Op::kMerge || write.record.op == record::Op::kPut;
    only_numbers = only_numbers && (!has_value || write.record.value.size() == 8);
    ++at;
  }
  EXPECT_EQ(at, laid.end());
  EXPECT_EQ(writes.point_count(), points);
  EXPECT_EQ(writes.range_deletes().size(), deletes);
  EXPECT_EQ(writes.merges(), merges);
  EXPECT_EQ(writes.only_numbers(), only_numbers);
  const std::size_t names = writes.family() == kDefaultFamily || laid.empty() ? 0 : 1;
  EXPECT_EQ(writes.record_count(), laid.size() + names);
}

/// Checks that a bound at `place` in the frame lets a read see what it should of its family.
void expect_bound(const Model::Read& read, std::uint64_t place,
                  const std::map<std::uint64_t, Record>& laid) {
  std::size_t seen = 0;
  for (const auto& [offset, record] : laid) seen += offset < place ? 1 : 0;
  EXPECT_EQ(seen, read.writes_before);
}

/// Compares the batch with the model. `laid_out`: what lay_out() gave; not asked without writes.
void expect_equal(Requests& requests, const Model& model, const std::byte* laid_out) {
  ASSERT_EQ(requests.write_count(), model.writes.size());
  ASSERT_EQ(requests.read_count(), model.reads.size());
  ASSERT_EQ(requests.range_count(), model.ranges.size());
  const Parsed laid = parse(laid_out, requests.record_bytes());
  std::uint32_t records = 0;
  bool only_points = true;
  bool is_mixed = false;
  for (const FamilyId family : kFamilies) {
    const auto own = laid.find(family);
    if (own == laid.end()) {
      ASSERT_EQ(model.writes_to(family), 0u);
      EXPECT_EQ(requests.base_of(family), 0u);
      continue;
    }
    const Writes* const writes = writes_of(requests, family);
    ASSERT_NE(writes, nullptr);
    EXPECT_EQ(requests.base_of(family), writes->base());
    expect_writes(*writes, model, own->second);
    records += writes->record_count();
    only_points = only_points && writes->range_deletes().empty();
    is_mixed = is_mixed || family != kDefaultFamily || !writes->range_deletes().empty();
  }
  EXPECT_EQ(requests.record_count(), records);
  EXPECT_EQ(requests.only_points(), only_points);
  EXPECT_EQ(requests.is_mixed(), is_mixed);

  const auto laid_of = [&](FamilyId family) {
    const auto found = laid.find(family);
    return found == laid.end() ? std::map<std::uint64_t, Record>() : found->second;
  };
  std::map<FamilyId, std::uint64_t> places;
  for (const Model::Read& read : model.reads) {
    const Reads& part = *reads_of(requests, read.family);
    const std::uint64_t place = places[read.family]++;
    ASSERT_EQ(restored(part.keys(), place), read.key);
    expect_bound(read, requests.base_of(read.family) + part.after(place), laid_of(read.family));
  }
  places.clear();
  for (const Model::Read& range : model.ranges) {
    const Ranges& part = *ranges_of(requests, range.family);
    const std::uint64_t place = places[range.family]++;
    ASSERT_EQ(restored(part.begin(), place), range.key);
    ASSERT_EQ(restored(part.end(), place), range.end);
    ASSERT_EQ(part.limits()[place], range.limit);
    expect_bound(range, requests.base_of(range.family) + part.after()[place],
                 laid_of(range.family));
  }
}

/// Writes results of every read and range and checks that they are found by arrival order.
void expect_results_in_order(Requests& requests, const Model& model) {
  ASSERT_EQ(requests.result_count(), model.reads.size());
  std::map<FamilyId, std::uint64_t> places;
  for (std::uint32_t i = 0; i < model.reads.size(); ++i) {
    Reads* const reads = reads_of(requests, model.reads[i].family);
    reads->results()[places[reads->family()]++] = {nullptr, i, Status::Code::kOk};
  }
  for (std::uint32_t i = 0; i < model.reads.size(); ++i) {
    ASSERT_EQ(requests.result(i).bytes, i);
  }
  ASSERT_EQ(requests.range_result_count(), model.ranges.size());
  places.clear();
  for (std::uint32_t i = 0; i < model.ranges.size(); ++i) {
    Ranges* const ranges = ranges_of(requests, model.ranges[i].family);
    ranges->results()[places[ranges->family()]++] = {nullptr, nullptr, i, Status::Code::kOk};
  }
  for (std::uint32_t i = 0; i < model.ranges.size(); ++i) {
    ASSERT_EQ(requests.range_result(i).count, i);
  }
}

}  // namespace

// Goal: keys up to 64 KiB and values up to 1 GiB are taken, longer ones refused, nothing changed.
// Method: limit - 1, limit, limit + 1 for keys; a value of 1 GiB + 1 that has no memory behind it.
// Mutation: `<` instead of `<=` in the key check, or copying before checking, fails.
TEST(Requests, Limits) {
  Requests requests(exec::shared_plain_host_memory());
  std::uint64_t added = 0;
  for (const std::uint64_t bytes : {limits::kKeyBytesMax - 1, limits::kKeyBytesMax}) {
    const std::string key(bytes, 'k');
    EXPECT_TRUE(requests.add_write(record::Op::kPut, 0, key, "v").ok());
    EXPECT_TRUE(requests.add_write(record::Op::kDelete, 1, key, Slice()).ok());
    EXPECT_TRUE(requests.add_write(record::Op::kDeleteRange, 1, "a", key).ok());
    EXPECT_TRUE(requests.add_read(0, key).ok());
    EXPECT_TRUE(requests.add_range(1, key, key, 1).ok());
    ++added;
  }
  const std::uint64_t bytes_before = requests.record_bytes();
  const std::string too_long(limits::kKeyBytesMax + 1, 'k');
  const Slice huge("unread", limits::kValueBytesMax + 1);
  for (const FamilyId family : {0u, 1u, 2u}) {
    EXPECT_TRUE(requests.add_write(record::Op::kPut, family, too_long, "v").IsInvalidArgument());
    EXPECT_TRUE(requests.add_write(record::Op::kDelete, family, too_long, "").IsInvalidArgument());
    EXPECT_TRUE(requests
                    .add_write(record::Op::kDeleteRange, family, "a", too_long)  //
                    .IsInvalidArgument());
    EXPECT_TRUE(requests.add_read(family, too_long).IsInvalidArgument());
    EXPECT_TRUE(requests.add_range(family, too_long, "", 1).IsInvalidArgument());
    EXPECT_TRUE(requests.add_range(family, "", too_long, 1).IsInvalidArgument());
    EXPECT_TRUE(requests.add_write(record::Op::kPut, family, "k", huge).IsInvalidArgument());
    EXPECT_TRUE(requests.add_write(record::Op::kMerge, family, "k", huge).IsInvalidArgument());
  }
  EXPECT_EQ(requests.write_count(), 3 * added);
  EXPECT_EQ(requests.read_count(), added);
  EXPECT_EQ(requests.range_count(), added);
  EXPECT_EQ(requests.record_bytes(), bytes_before);
}

// Goal: a range deletion that ends before it begins is refused, an empty one is not, as in RocksDB.
// Method: ends around a begin, also ones that differ in length alone.
// Mutation: refusing equal keys, or comparing lengths first, fails.
TEST(Requests, RangeDeletionsEndBehindTheirBegin) {
  Requests requests(exec::shared_plain_host_memory());
  const auto add = [&](const std::string& begin, const std::string& end) {
    return requests.add_write(record::Op::kDeleteRange, 0, begin, end);
  };
  EXPECT_TRUE(add("b", "a").IsInvalidArgument());
  EXPECT_TRUE(add("aa", "a").IsInvalidArgument());
  EXPECT_TRUE(add("a", "").IsInvalidArgument());
  EXPECT_EQ(requests.write_count(), 0u);
  EXPECT_FALSE(requests.is_mixed());
  EXPECT_TRUE(add("b", "b").ok());
  EXPECT_TRUE(add("", "").ok());
  EXPECT_TRUE(add("b", "ba").ok());
  EXPECT_TRUE(add("b", "c").ok());
  EXPECT_EQ(requests.write_count(), 4u);
  EXPECT_TRUE(requests.is_mixed());
  EXPECT_FALSE(requests.only_points());
}

// Goal: records, columns, places and bounds say what was added, in its order, family by family, in
//   one layout; and again after clear().
// Method: random mixes of all requests, of keys of all lengths, of one to four families; compared
//   with a list.
// Mutation: laying families out in the order of their first write, or counting a read's bound from
//   the batch's bytes instead of its family's, fails.
TEST(Requests, KeepsWhatWasAdded) {
  for (const std::uint64_t seed : testing::seeds_to_run(300)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    Requests requests(exec::shared_plain_host_memory());
    for (int round = 0; round < 3 && !HasFailure(); ++round) {
      Model model(1 + random.below(std::size(kFamilies)));
      for (std::uint64_t i = random.below(100); i > 0; --i) {
        ASSERT_TRUE(model.add(&random, &requests));
      }
      for (int times = 0; times < 2; ++times) {  // a batch may be submitted again
        const std::byte* laid_out = nullptr;
        if (!model.writes.empty()) {
          laid_out = laid_out_records(requests);
          ASSERT_NE(laid_out, nullptr);
        }
        expect_equal(requests, model, laid_out);
        ASSERT_TRUE(requests.prepare_results(1, random.one_in(2)));
        expect_results_in_order(requests, model);
      }
      requests.clear();
      EXPECT_EQ(requests.record_bytes() + requests.record_count() + requests.write_count(), 0u);
      EXPECT_EQ(requests.result_count() + requests.range_result_count(), 0u);
      EXPECT_FALSE(requests.is_mixed());
    }
  }
}

// Goal: lookups that are written where they come to stand know what was written before them,
//   however many come between two writes, and whatever their lengths.
// Method: thousands of lookups and puts of one family, more or less of either; keys and bounds are
//   compared with a list.
// Mutation: a row that goes on as if nothing had been written, one that takes no account of what
//   is left for tails, or a first write that is easy, fails.
TEST(Requests, LookupsBetweenWrites) {
  constexpr std::uint64_t kMost[] = {1, 2, 9, 3};  // lengths of keys, from 8 or 16 on
  for (const std::uint64_t seed : testing::seeds_to_run(40)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    Requests requests(exec::shared_plain_host_memory());
    for (int round = 0; round < 2; ++round) {
      const std::uint64_t one_put_in = std::uint64_t{2} << random.below(13);
      const std::uint64_t lengths = kMost[random.below(std::size(kMost))];
      const std::uint64_t least = random.one_in(2) ? 8 : 16;
      std::vector<std::pair<std::string, std::uint64_t>> lookups;
      std::uint64_t bytes = 0;
      for (std::uint64_t i = 0; i < 10'000; ++i) {
        std::string key(least + random.below(lengths), '\0');
        for (char& c : key) c = static_cast<char>(random.next());
        if (random.one_in(one_put_in)) {
          ASSERT_TRUE(requests.add_write(record::Op::kPut, 0, key, "value").ok());
          bytes += record::RecordHeader::make(record::Op::kPut, key.size(), 5).record_bytes();
        } else {
          ASSERT_TRUE(requests.add_read(0, key).ok());
          lookups.emplace_back(key, bytes);
        }
        ASSERT_EQ(requests.read_count(), lookups.size());
      }
      ASSERT_EQ(requests.record_bytes(), bytes);
      const Reads& reads = *requests.reads().front();
      ASSERT_EQ(reads.count(), lookups.size());
      for (std::size_t i = 0; i < lookups.size(); ++i) {
        ASSERT_EQ(restored(reads.keys(), i), lookups[i].first);
        ASSERT_EQ(reads.after(i), lookups[i].second);
      }
      requests.clear();
    }
  }
}

// Goal: while all keys have one length, columns keep no lengths, and the first that differs turns
//   them.
// Method: batches that are uniform up to a random place.
// Mutation: taking a key's place in the tail before the columns turn variable fails.
TEST(Requests, ColumnsTurnVariable) {
  for (const std::uint64_t seed : testing::seeds_to_run(100)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    Requests requests(exec::shared_plain_host_memory());
    std::vector<std::string> keys;
    const std::uint64_t uniform_until = random.below(100);
    for (std::uint64_t i = 0; i < 100; ++i) {
      keys.push_back(i < uniform_until ? std::string(12, 'u') : random_key(&random));
      ASSERT_TRUE(requests.add_write(record::Op::kPut, 0, keys[i], "v").ok());
      ASSERT_TRUE(requests.add_read(0, keys[i]).ok());
      if (i + 1 == uniform_until) {
        EXPECT_TRUE(requests.writes()[0]->keys().uniform());
      }
    }
    for (std::size_t i = 0; i < keys.size(); ++i) {
      ASSERT_EQ(restored(requests.writes()[0]->keys(), i), keys[i]);
      ASSERT_EQ(restored(requests.reads()[0]->keys(), i), keys[i]);
    }
  }
}

// Goal: what is refused for want of memory leaves the batch as it was: it can be added again, or
//   not, and the batch is whole.
// Method: the same random requests with allocation 1, 2, 3, ... failing; compared with the list of
//   those that were taken.
// Mutation: naming a family before there is room for its first record leaves half of it behind.
TEST(Requests, WantOfMemoryChangesNothing) {
  for (const std::uint64_t seed : testing::seeds_to_run(6)) {
    SCOPED_TRACE(testing::replay_command(seed));
    std::uint64_t calls = 1;
    for (std::uint64_t k = 0; k <= calls && !HasFailure(); ++k) {
      SCOPED_TRACE("allocation " + std::to_string(k));
      const auto memory = std::make_shared<ScarceMemory>();
      memory->fail_at(k);
      Requests requests(memory);
      Model model(std::size(kFamilies));
      base::Random random(seed);
      const std::uint64_t count = 1 + random.below(60);
      for (std::uint64_t i = 0; i < count; ++i) {
        base::Random one(base::mix64(seed * 1000 + i));
        if (model.add(&one, &requests)) continue;
        base::Random again(base::mix64(seed * 1000 + i));
        if (seed % 2 == 0) {
          ASSERT_TRUE(model.add(&again, &requests)) << "the only want is over";
        }
      }
      const std::byte* laid_out = nullptr;
      if (!model.writes.empty()) {
        laid_out = laid_out_records(requests);
        if (laid_out == nullptr) laid_out = laid_out_records(requests);
        ASSERT_NE(laid_out, nullptr);
      }
      expect_equal(requests, model, laid_out);
      if (!requests.prepare_results(1, true)) {
        ASSERT_TRUE(requests.prepare_results(1, true));
      }
      expect_results_in_order(requests, model);
      calls = std::max(calls, memory->calls());
    }
    EXPECT_GT(calls, 3u);
  }
}

// Goal: lookups know of a family's first write also where one was tried before that found no
//   memory.
// Method: a batch whose memory has room for a small put, but not for a large one.
// Mutation: a part that takes a first write as one more of those that are there fails.
TEST(Requests, AWriteThatFailsIsNotTheFirst) {
  const auto memory = std::make_shared<ScarceMemory>();
  Requests requests(memory);
  ASSERT_TRUE(requests.add_write(record::Op::kPut, 0, "key", "value").ok());
  ASSERT_TRUE(requests.add_read(0, "key").ok());
  requests.clear();
  ASSERT_TRUE(requests.add_read(0, "key").ok());
  memory->fail_at(memory->calls() + 1);
  ASSERT_FALSE(requests.add_write(record::Op::kPut, 0, "key", std::string(1 << 20, 'v')).ok());
  ASSERT_TRUE(requests.add_read(0, "key").ok());
  ASSERT_TRUE(requests.add_write(record::Op::kPut, 0, "key", "value").ok());
  ASSERT_TRUE(requests.add_read(0, "key").ok());
  const Reads& reads = *requests.reads().front();
  EXPECT_EQ(reads.after(0), 0u);
  EXPECT_EQ(reads.after(1), 0u);
  EXPECT_EQ(reads.after(2), requests.record_bytes());
}

// Goal: results lie in the order of the reads and keep their bytes in place.
// Method: 1,000 results whose values force the arena to grow.
// Mutation: moving an arena's blocks when it grows fails.
TEST(Requests, ResultsStayInPlace) {
  constexpr std::size_t kReads = 1000;
  Requests requests(exec::shared_plain_host_memory());
  for (std::size_t i = 0; i < kReads; ++i) ASSERT_TRUE(requests.add_read(0, "k").ok());
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(requests.prepare_results(3, /*with_bounds=*/true));
    ASSERT_EQ(requests.result_count(), kReads);
    for (std::size_t i = 0; i < kReads; ++i) {
      const std::uint64_t bytes = i % 300;
      char* const value = requests.arena(i % 3).allocate(bytes);
      std::fill_n(value, bytes, static_cast<char>(i));
      requests.reads()[0]->results()[i] = {value, static_cast<std::uint32_t>(bytes),
                                           Status::Code::kOk};
    }
    for (std::size_t i = 0; i < kReads; ++i) {
      const ReadResult& result = requests.result(i);
      ASSERT_EQ(Slice(result.data, result.bytes), std::string(i % 300, static_cast<char>(i)));
    }
  }
}

// Goal: Clear makes a batch as new.
// Method: fill, clear, fill with less; the counts and the bytes are those of the second filling.
// Mutation: leaving out one of the arrays in Requests::clear fails.
TEST(Requests, ClearForgetsEverything) {
  Batch batch;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(batch.Put("key " + std::to_string(i), "value").ok());
    ASSERT_TRUE(batch.Merge(5, "key " + std::to_string(i), "value").ok());
    ASSERT_TRUE(batch.DeleteRange(5, "a", "b").ok());
    ASSERT_TRUE(batch.Get("key").ok());
    ASSERT_TRUE(batch.Get(5, "key").ok());
    ASSERT_TRUE(batch.Range(5, "a", "b", 3).ok());
  }
  batch.Clear();
  EXPECT_EQ(batch.writes(), 0u);
  EXPECT_EQ(batch.reads(), 0u);
  EXPECT_EQ(batch.ranges(), 0u);
  EXPECT_EQ(batch.bytes(), 0u);
  ASSERT_TRUE(batch.Get("a").ok());
  ASSERT_TRUE(batch.Put("b", "c").ok());
  EXPECT_EQ(batch.writes(), 1u);
  EXPECT_EQ(batch.reads(), 1u);
  const Requests& requests = batch.requests();
  EXPECT_EQ(reads_of(requests, 0)->after(0), 0u);
  EXPECT_EQ(requests.result_count(), 0u);
  EXPECT_EQ(requests.range_result_count(), 0u);
  EXPECT_EQ(restored(writes_of(requests, 0)->keys(), 0), "b");
  EXPECT_EQ(writes_of(requests, 0)->merges(), 0u);
  EXPECT_TRUE(requests.only_points());
  EXPECT_FALSE(requests.is_mixed());
}

// Goal: values of 8 bytes are there as a column as long as all are of 8 bytes.
// Method: puts, an operand and deletions of such values; exchanged for others and back, which shows
//   in the records; then one value of another length, and a batch that is used again.
// Mutation: a deletion that adds no number, or write_record without the number, fails.
TEST(Requests, NumbersAsAColumn) {
  const auto number = [](std::uint64_t n) {
    return std::string(reinterpret_cast<const char*>(&n), sizeof n);
  };
  Requests requests(exec::shared_plain_host_memory());
  ASSERT_TRUE(requests.add_write(record::Op::kPut, 0, "a", number(7)).ok());
  ASSERT_TRUE(requests.add_write(record::Op::kDelete, 0, "bb", Slice()).ok());
  ASSERT_TRUE(requests.add_write(record::Op::kDeleteRange, 0, "c", "d").ok());
  ASSERT_TRUE(requests.add_write(record::Op::kMerge, 0, "a", number(9)).ok());
  Writes& writes = *requests.writes()[0];
  ASSERT_EQ(writes.point_count(), 3u);
  ASSERT_NE(writes.numbers(), nullptr);
  EXPECT_EQ(writes.numbers()[0], 7u);
  EXPECT_EQ(writes.numbers()[2], 9u);

  const std::string before(reinterpret_cast<const char*>(writes.records()), writes.record_bytes());
  exec::HostVector<std::uint64_t> others(exec::plain_host_memory());
  ASSERT_TRUE(others.reserve(3));
  for (const std::uint64_t other : {7, 0, 16}) others.push(other);
  writes.swap_numbers(&others);
  writes.set_operation(2, record::Op::kPut);
  EXPECT_EQ(std::memcmp(before.data(), writes.records(), before.size()), 0);
  writes.write_record(2);
  EXPECT_EQ(writes.numbers()[2], 16u);
  EXPECT_EQ(record::op_of(writes.offsets()[2]), record::Op::kPut);
  const std::byte* const record = writes.records() + record::position_of(writes.offsets()[2]);
  EXPECT_EQ(record::record_header(record).op(), record::Op::kPut);
  EXPECT_EQ(std::memcmp(record::record_value(record), number(16).data(), 8), 0);
  writes.swap_numbers(&others);
  writes.set_operation(2, record::Op::kMerge);
  writes.write_record(2);
  EXPECT_EQ(std::memcmp(before.data(), writes.records(), before.size()), 0);

  ASSERT_TRUE(requests.add_write(record::Op::kPut, 0, "e", "short").ok());
  EXPECT_EQ(writes.numbers(), nullptr);
  ASSERT_TRUE(requests.add_write(record::Op::kPut, 0, "f", number(1)).ok());
  EXPECT_EQ(writes.numbers(), nullptr);
  requests.clear();
  ASSERT_TRUE(requests.add_write(record::Op::kPut, 0, "f", number(1)).ok());
  ASSERT_NE(requests.writes()[0]->numbers(), nullptr);
  EXPECT_EQ(requests.writes()[0]->numbers()[0], 1u);
}

// Goal: entries of a range are read the same way from either form of result.
// Method: the same two entries as records and as pairs.
// Mutation: reading pair j at j instead of 2 * j fails.
TEST(Requests, RangesAsPairs) {
  Batch batch;
  ASSERT_TRUE(batch.Range("a", "z", 2).ok());
  Requests& requests = batch.requests();
  ASSERT_TRUE(requests.prepare_results(1, /*with_bounds=*/false));
  Ranges& ranges = *requests.ranges()[0];
  std::uint64_t* const pairs = ranges.make_pairs(3);
  ASSERT_NE(pairs, nullptr);
  for (std::size_t word = 0; word < 6; ++word)
    std::memset(pairs + word, 'a' + static_cast<int>(word), 8);
  ranges.results()[0] = {pairs + 2, nullptr, 2, Status::Code::kOk};
  ASSERT_EQ(batch.range_size(0), 2u);
  EXPECT_EQ(batch.range_entry(0, 0), std::make_pair(Slice("cccccccc"), Slice("dddddddd")));
  EXPECT_EQ(batch.range_entry(0, 1), std::make_pair(Slice("eeeeeeee"), Slice("ffffffff")));
  EXPECT_EQ(batch.range_pairs(0), pairs + 2);
}

}  // namespace breccia::batch
