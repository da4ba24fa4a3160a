#include "batch/columns.h"

#include <breccia/batch.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/random.h"
#include "base/streamed_bytes.h"
#include "batch/answers.h"
#include "batch/chunks.h"
#include "batch/requests.h"
#include "support/random_column.h"
#include "support/seeds.h"
#include "unit/batch/bus_memory.h"
#include "unit/batch/same_requests.h"
#include "unit/batch/scarce_memory.h"

namespace breccia::batch {

namespace {

using testing::RandomColumn;

enum class Kind : std::uint8_t { kPut, kDelete, kMerge, kGet, kRange };

record::Op op_of(Kind kind) {
  return kind == Kind::kPut     ? record::Op::kPut
         : kind == Kind::kMerge ? record::Op::kMerge
                                : record::Op::kDelete;
}

std::string random_string(std::uint64_t bytes, base::Random* random) {
  std::string string(bytes, '\0');
  for (char& c : string) c = static_cast<char>(random->one_in(3) ? 0 : random->next());
  return string;
}

/// Strings of one length, or of several.
std::vector<std::string> random_strings(std::uint64_t count, base::Random* random) {
  constexpr std::uint64_t kLengths[] = {0, 1, 3, 4, 7, 8, 9, 15, 16, 17, 24, 100, 255, 300, 2100};
  const std::uint64_t length = kLengths[random->below(std::size(kLengths))];
  const bool same = random->one_in(2);
  std::vector<std::string> strings;
  for (std::uint64_t i = 0; i < count; ++i) {
    strings.push_back(random_string(same ? length : random->below(2 * length + 1), random));
  }
  return strings;
}

/// Requests of one kind, and the columns that they come as.
struct Call {
  Call(std::uint64_t count, base::Random* random)
      : kind(Kind(random->below(5))),
        family(static_cast<FamilyId>(random->below(3))),
        keys(random_strings(count, random)),
        others(kind == Kind::kDelete ? std::vector<std::string>(count)
                                     : random_strings(count, random)),
        key_column(keys, random),
        other_column(others, random) {
    for (std::uint64_t i = 0; i < count; ++i) {
      limits.push_back(static_cast<std::uint32_t>(random->below(40)));
    }
    if (random->one_in(2)) limits.assign(count, 17);
    values.assign(count, '.');
    found.assign(count, 9);
    if (random->one_in(3)) into = {values.data(), 1, 1, found.data()};
  }

  Status add_columns(Requests* to) const {
    if (kind == Kind::kGet) return to->add_reads(family, key_column.column(), into);
    if (kind == Kind::kRange) {
      return to->add_ranges(family, key_column.column(), other_column.column(), limits);
    }
    return to->add_writes(op_of(kind), family, key_column.column(), other_column.column());
  }
  Status add_each(Requests* to) const {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      BRECCIA_TRY(kind == Kind::kGet     ? to->add_read(family, keys[i])
                  : kind == Kind::kRange ? to->add_range(family, keys[i], others[i], limits[i])
                                         : to->add_write(op_of(kind), family, keys[i], others[i]));
    }
    return Status::OK();
  }

  Kind kind;
  FamilyId family;
  std::vector<std::string> keys;
  std::vector<std::string> others;  // values, or ends
  std::vector<std::uint32_t> limits;
  std::string values;
  std::vector<std::uint8_t> found;
  ValueArray into;  // of lookups by columns; maybe none
  RandomColumn key_column;
  RandomColumn other_column;
};

/// The k-th result of a part names family and k; compares them in the order of both batches.
void expect_same_places(Requests* a, Requests* b) {
  for (Requests* const batch : {a, b}) {
    ASSERT_TRUE(batch->prepare_results(1, /*with_bounds=*/true));
    for (const auto& reads : batch->reads()) {
      for (std::uint32_t i = 0; i < reads->count(); ++i) {
        reads->results()[i] = {nullptr, 4 * i + reads->family(), Status::Code::kNotFound};
      }
    }
    for (const auto& ranges : batch->ranges()) {
      for (std::uint32_t i = 0; i < ranges->count(); ++i) {
        ranges->results()[i] = {nullptr, nullptr, 4 * i + ranges->family(), Status::Code::kOk};
      }
    }
  }
  for (std::uint64_t i = 0; i < a->read_count(); ++i) {
    ASSERT_EQ(a->result(i).bytes, b->result(i).bytes);
  }
  for (std::uint64_t i = 0; i < a->range_count(); ++i) {
    ASSERT_EQ(a->range_result(i).count, b->range_result(i).count);
  }
}

/// Memory for the values of lookups, with something that is no value around and in it.
struct Arrays {
  Arrays(std::uint64_t count, std::size_t width, std::ptrdiff_t stride)
      : bytes(count * static_cast<std::size_t>(std::abs(stride)) + width, '.'), found(count, 9) {
    char* const first = stride < 0 ? bytes.data() + (count - 1) * -stride : bytes.data();
    array = {first, width, stride, found.data()};
  }
  [[nodiscard]] std::string at(std::uint64_t i) const {
    return {static_cast<const char*>(array.values) + static_cast<std::ptrdiff_t>(i) * array.stride,
            array.width};
  }
  std::string bytes;
  std::vector<std::uint8_t> found;
  ValueArray array;
};

/// Lookups in stretches, with arrays for their values and without.
struct ArrayReads {
  explicit ArrayReads(base::Random* random) : requests(exec::shared_plain_host_memory()) {
    for (std::uint64_t stretches = 1 + random->below(6); stretches > 0; --stretches) {
      const std::uint64_t count = 1 + random->below(40);
      const auto keys = BytesColumn::Fixed("key", count, 3, 0);
      if (random->one_in(3)) {
        arrays.push_back(nullptr);
        EXPECT_TRUE(requests.add_reads(0, keys, ValueArray()).ok());
      } else {
        const auto width = static_cast<std::ptrdiff_t>(random->one_in(2) ? 8 : random->below(40));
        const auto stride = width + static_cast<std::ptrdiff_t>(random->below(9));
        arrays.push_back(
            std::make_unique<Arrays>(count, width, random->one_in(3) ? -stride : stride));
        EXPECT_TRUE(requests.add_reads(0, keys, arrays.back()->array).ok());
      }
      for (std::uint64_t i = 0; i < count; ++i) place_of.emplace_back(arrays.size() - 1, i);
    }
  }
  [[nodiscard]] const Arrays* array_of(std::uint64_t read) const {
    return arrays[place_of[read].first].get();
  }

  Requests requests;
  std::vector<std::unique_ptr<Arrays>> arrays;                  // null: none
  std::vector<std::pair<std::size_t, std::uint64_t>> place_of;  // stretch, and place in it
};

/// Compares batches that both are appended to, all of their requests or all but some.
void expect_same_joined(const Requests& a, const Requests& b, bool all) {
  Requests both[2] = {Requests(exec::shared_plain_host_memory()),
                      Requests(exec::shared_plain_host_memory())};
  for (Requests& one : both) {
    const Requests& from = &one == &both[0] ? a : b;
    ASSERT_TRUE(one.add_write(record::Op::kPut, 1, "odd", "one").ok());
    Selection chosen = from.none_chosen();
    for (auto& part : chosen.writes) {
      for (std::size_t i = 0; i < part.points.size(); ++i) part.points[i] = i % 3 != 0;
    }
    for (auto& part : chosen.reads) std::fill(part.begin(), part.end(), 1);
    ASSERT_TRUE(all ? one.append(from) : one.append(from, chosen));
  }
  expect_same(both[0], both[1]);
}

constexpr std::uint64_t kSizes[] = {0, 1, 2, 31, 32, 33, 63, 64, 65};

}  // namespace

// Goal: columns make the batch that their requests make one by one, to the byte of the log's
//   records, whatever comes before and behind them, and its results have the same places.
// Method: random calls of all kinds, families and forms of columns, of which one batch gets the
//   requests in turn, and the other some as columns; those are overwritten behind the call, unless
//   they may stay in place. Twice in the same batches. What stayed is appended to a third batch,
//   whole or chosen, and gathered.
// Mutation: a key's tail counted from its chunk, padding that is left, the name of a family that
//   is forgotten, a record at the end of a piece taken whole, or records that are not gathered
//   before others come behind them fails.
TEST(Columns, AreTheirRequests) {
  for (const std::uint64_t seed : testing::seeds_to_run(400)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    Requests columns(exec::shared_plain_host_memory());
    Requests singles(exec::shared_plain_host_memory());
    for (int round = 0; round < 2 && !HasFailure(); ++round) {
      std::vector<std::unique_ptr<Call>> calls;
      bool has_arrays = false;
      const bool in_place = random.one_in(2);
      columns.set_columns_in_place(in_place);
      for (std::uint64_t more = random.below(8); more > 0; --more) {
        calls.push_back(std::make_unique<Call>(
            random.one_in(3) ? random.below(200) : kSizes[random.below(std::size(kSizes))],
            &random));
        Call& call = *calls.back();
        has_arrays = has_arrays || call.into.found != nullptr;
        const bool by_columns = !random.one_in(4);
        ASSERT_TRUE((by_columns ? call.add_columns(&columns) : call.add_each(&columns)).ok());
        if (!in_place) call.key_column.spoil();
        if (!in_place) call.other_column.spoil();
        ASSERT_TRUE(call.add_each(&singles).ok());
      }
      expect_same(columns, singles);
      if (in_place) expect_same_joined(columns, singles, random.one_in(2));
      expect_same(columns, singles);
      if (!has_arrays) expect_same_places(&columns, &singles);
      columns.clear();
      singles.clear();
    }
    if (HasFailure()) return;
  }
}

// Goal: lookups that come one by one, of which most are only counted when somebody asks, are those
//   that come as a column, whatever comes between them, whoever asks, and when the batch is used
//   again.
// Method: stretches of lookups of one length, around the sizes at which room runs out, each behind
//   a lookup of another length, a write, a range, a column, another family's lookup, a batch that
//   is appended, a question, or nothing.
// Mutation: a write, a column or a batch appended that leaves the stretch before it uncounted, or a
//   count without it, fails.
TEST(Columns, LookupsInARowAreCounted) {
  for (const std::uint64_t seed : testing::seeds_to_run(200)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    Requests columns(exec::shared_plain_host_memory());
    Requests singles(exec::shared_plain_host_memory());
    Requests more(exec::shared_plain_host_memory());
    const auto each = [&](const auto& add) { return add(&columns).ok() && add(&singles).ok(); };
    for (int round = 0; round < 2; ++round) {
      for (std::uint64_t steps = 1 + random.below(6); steps > 0; --steps) {
        const std::size_t bytes = std::array<std::size_t, 4>{8, 16, 16, 11}[random.below(4)];
        const std::uint64_t count = 1 + random.below(random.one_in(8) ? 9000 : 150);
        std::string keys(count * bytes, '\0');
        for (char& byte : keys) byte = static_cast<char>(random.below(256));
        const auto column = BytesColumn::Fixed(keys.data(), count, bytes);
        ASSERT_TRUE(columns.add_reads(kDefaultFamily, column, ValueArray()).ok());
        if (random.one_in(5)) {
          ASSERT_TRUE(singles.add_reads(kDefaultFamily, column, ValueArray()).ok());
        } else {
          for (std::uint64_t i = 0; i < count; ++i) {
            ASSERT_TRUE(singles.add_read(kDefaultFamily, column.at(i)).ok());
          }
        }
        ASSERT_EQ(singles.read_count(), columns.read_count());
        const std::uint64_t what = random.below(8);
        if (what == 0) {
          ASSERT_TRUE(each(
              [](Requests* to) { return to->add_write(record::Op::kPut, 0, "key", "value"); }));
        } else if (what == 1) {
          ASSERT_TRUE(each([](Requests* to) { return to->add_range(0, "a", "b", 3); }));
        } else if (what == 2) {
          ASSERT_TRUE(each([](Requests* to) { return to->add_read(1, "of another family"); }));
        } else if (what == 3) {
          const auto both = BytesColumn::Fixed("appendedthis too", 2, 8);
          ASSERT_TRUE(columns.add_reads(0, both, ValueArray()).ok());
          ASSERT_TRUE(more.add_read(0, both.at(0)).ok() && more.add_read(0, both.at(1)).ok());
          ASSERT_TRUE(singles.append(more));
          more.clear();
        } else if (what == 4) {
          expect_same(columns, singles);
        }
      }
      if (!random.one_in(3)) expect_same(columns, singles);
      columns.clear();
      singles.clear();
    }
    if (HasFailure()) return;
  }
}

// Goal: the same of columns that threads share, in chunks.
// Method: sizes around those of chunks and of what is shared, behind an odd request; fixed and
//   variable strings.
// Mutation: a chunk that begins at its neighbour's place fails.
TEST(Columns, ManyAreShared) {
  base::Random random(testing::seeds_to_run(1).front());
  for (const std::uint64_t count :
       {kChunkRequests, kChunkRequests + 1, kSharedChunksMin * kChunkRequests - 1,
        kSharedChunksMin * kChunkRequests + 1, 20 * kChunkRequests}) {
    for (const std::uint64_t lengths : {1, 2, 31}) {
      SCOPED_TRACE(std::to_string(count) + " requests of " + std::to_string(lengths) + " lengths");
      std::vector<std::string> keys;
      std::vector<std::string> values;
      for (std::uint64_t i = 0; i < count; ++i) {
        keys.push_back(random_string(16 + random.below(lengths), &random));
        values.push_back(random_string(25 + random.below(lengths), &random));
      }
      const RandomColumn key_column(keys, &random);
      const RandomColumn value_column(values, &random);
      Requests columns(exec::shared_plain_host_memory());
      Requests singles(exec::shared_plain_host_memory());
      const bool in_place = random.one_in(2);
      columns.set_columns_in_place(in_place);
      for (Requests* const batch : {&columns, &singles}) {
        ASSERT_TRUE(batch->add_write(record::Op::kPut, 1, "odd", "one").ok());
      }
      ASSERT_TRUE(
          columns.add_writes(record::Op::kPut, 1, key_column.column(), value_column.column()).ok());
      ASSERT_TRUE(columns.add_reads(1, key_column.column(), ValueArray()).ok());
      for (std::uint64_t i = 0; i < count; ++i) {
        ASSERT_TRUE(singles.add_write(record::Op::kPut, 1, keys[i], values[i]).ok());
      }
      for (const std::string& key : keys) ASSERT_TRUE(singles.add_read(1, key).ok());
      expect_same(columns, singles);
      if (!in_place) continue;
      ASSERT_TRUE(columns.writes()[0]->gather());
      expect_same(columns, singles);
      if (HasFailure()) return;
    }
  }
}

// Goal: beside a device the columns of many keys leave the caches, and are the same.
// Method: puts and lookups of more keys than that takes, behind an odd request: keys of 8 and 16
//   bytes and of several lengths, values of 8 bytes, which are noted, and of others.
// Mutation: words of a chunk's stage that are lost, or a tail counted from its chunk, fails.
TEST(Columns, ManyKeysAreStreamed) {
  constexpr std::uint64_t kCount = record::kStreamedKeysMin + kChunkRequests + 3;
  struct Shape {
    std::uint64_t key_bytes, key_lengths, value_bytes;
  };
  base::Random random(testing::seeds_to_run(1).front());
  for (const Shape& shape : {Shape{8, 1, 8}, Shape{16, 1, 25}, Shape{9, 31, 8}}) {
    std::vector<std::string> keys;
    std::vector<std::string> values;
    for (std::uint64_t i = 0; i < kCount; ++i) {
      keys.push_back(random_string(shape.key_bytes + random.below(shape.key_lengths), &random));
      values.push_back(random_string(shape.value_bytes, &random));
    }
    const RandomColumn key_column(keys, &random);
    const RandomColumn value_column(values, &random);
    Requests streamed(std::make_shared<BusMemory>());
    Requests singles(exec::shared_plain_host_memory());
    streamed.set_columns_in_place(shape.value_bytes == 8);
    for (Requests* const batch : {&streamed, &singles}) {
      ASSERT_TRUE(batch->add_write(record::Op::kPut, 1, "odd key!", "a number").ok());
      ASSERT_TRUE(batch->add_read(1, "odd key!").ok());
    }
    ASSERT_TRUE(
        streamed.add_writes(record::Op::kPut, 1, key_column.column(), value_column.column()).ok());
    ASSERT_TRUE(streamed.add_reads(1, key_column.column(), ValueArray()).ok());
    for (std::uint64_t i = 0; i < kCount; ++i) {
      ASSERT_TRUE(singles.add_write(record::Op::kPut, 1, keys[i], values[i]).ok());
    }
    for (const std::string& key : keys) ASSERT_TRUE(singles.add_read(1, key).ok());
    expect_same(streamed, singles);
    if (HasFailure()) return;
  }
}

// Goal: the same of records that leave the caches.
// Method: 72 MB of records, which begin at no line, behind an odd one; each is looked at.
// Mutation: lines of a chunk's stage that are lost fail.
TEST(Columns, LargeOnesAreStreamed) {
  constexpr std::uint64_t kCount = 36'000;
  constexpr std::uint64_t kRecordBytes = 8 + 17 + 2000 + 7;
  base::Random random(testing::seeds_to_run(1).front());
  const std::string keys = random_string(17 * kCount, &random);
  const std::string value = random_string(2000, &random);
  Requests requests(exec::shared_plain_host_memory());
  ASSERT_TRUE(requests.add_write(record::Op::kPut, 0, "odd", "one").ok());
  ASSERT_TRUE(requests
                  .add_writes(record::Op::kPut, 0, BytesColumn::Fixed(keys.data(), kCount, 17),
                              BytesColumn::Fixed(value.data(), kCount, value.size(), 0))
                  .ok());
  const Writes& writes = *requests.writes()[0];
  ASSERT_EQ(writes.record_bytes(), 16 + kCount * kRecordBytes);
  for (std::uint64_t i = 0; i < kCount; ++i) {
    const std::byte* const record = writes.records() + 16 + i * kRecordBytes;
    const record::RecordHeader header = record::record_header(record);
    ASSERT_EQ(header.key_bytes(), 17u);
    ASSERT_EQ(Slice(record::record_key(record), 17), Slice(keys.data() + 17 * i, 17)) << i;
    ASSERT_EQ(Slice(record::record_value(record), header.value_bytes), value) << i;
    const std::string padding(record::record_value(record) + 2000, 7);
    ASSERT_EQ(padding, std::string(7, '\0')) << i;
    ASSERT_EQ(writes.offsets()[i + 1], 16 + i * kRecordBytes);
  }
}

// Goal: records of single requests that leave the caches are those that were added, whatever comes
//       between them.
// Method: 40 MB of records, some larger than what is staged; column writes, a look at the records
//         and a deletion in between; again in the memory that the first time has left, where
//         nothing grows.
// Mutation: a reader that does not wait for what is on its way, or memory that grows without it,
//           fails.
TEST(Requests, LargeBatchesAreStreamed) {
  constexpr std::uint64_t kCount = 50'000;
  base::Random random(testing::seeds_to_run(1).front());
  const std::string bytes = random_string(4000, &random);
  Requests requests(exec::shared_plain_host_memory());
  for (int round = 0; round < 2; ++round) {
    std::vector<std::pair<std::string, Slice>> expected;
    const auto record_of = [&](std::uint64_t i) {
      const Writes& writes = *requests.writes()[0];
      const std::byte* const record = writes.records() + record::position_of(writes.offsets()[i]);
      const record::RecordHeader header = record::record_header(record);
      return std::pair(std::string(record::record_key(record), header.key_bytes()),
                       Slice(record::record_value(record), header.value_bytes));
    };
    for (std::uint64_t i = 0; i < kCount; ++i) {
      const std::string key = std::to_string(i) + bytes.substr(0, i % 20);
      const Slice value(bytes.data() + i % 7, i % 100 == 0 ? 3000 : random.below(1600));
      ASSERT_TRUE(requests.add_write(record::Op::kPut, 0, key, value).ok());
      expected.emplace_back(key, value);
      if (i % 9000 == 8999) {
        ASSERT_TRUE(requests.add_write(record::Op::kDelete, 0, key, Slice()).ok());
        expected.emplace_back(key, Slice());
        ASSERT_TRUE(requests
                        .add_writes(record::Op::kPut, 0, BytesColumn::Fixed(bytes.data(), 3, 5),
                                    BytesColumn::Fixed(bytes.data(), 3, 40))
                        .ok());
        for (int j = 0; j < 3; ++j) {
          expected.emplace_back(bytes.substr(5 * j, 5), Slice(bytes.data() + 40 * j, 40));
        }
        ASSERT_EQ(record_of(i), expected[i]);
      }
    }
    ASSERT_GT(requests.record_bytes(), 40U << 20);
    requests.lay_out();
    for (std::uint64_t i = 0; i < expected.size(); ++i) ASSERT_EQ(record_of(i), expected[i]) << i;
    requests.clear();
  }
}

// Goal: a stride of 0 is one string for all requests.
// Method: puts of one value under many keys, merges of one operand to one key.
// Mutation: a stride of 0 taken for the width fails.
TEST(Columns, OneStringForAll) {
  Requests requests(exec::shared_plain_host_memory());
  const std::string keys = "abcdef";
  const auto one_value = BytesColumn::Fixed("value", 6, 5, 0);
  ASSERT_TRUE(
      requests.add_writes(record::Op::kPut, 0, BytesColumn::Fixed(keys.data(), 6, 1), one_value)
          .ok());
  ASSERT_TRUE(
      requests.add_writes(record::Op::kMerge, 0, BytesColumn::Fixed("key", 6, 3, 0), one_value)
          .ok());
  Requests singles(exec::shared_plain_host_memory());
  for (const char key : keys) {
    ASSERT_TRUE(singles.add_write(record::Op::kPut, 0, Slice(&key, 1), "value").ok());
  }
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE(singles.add_write(record::Op::kMerge, 0, "key", "value").ok());
  }
  expect_same(requests, singles);
}

// Goal: what is wrong in a column is refused with all its requests.
// Method: each error at a random place among good requests, or of the columns themselves; strings
//   over a limit have no memory behind them. The batch is compared with one that never saw them.
// Mutation: `<` instead of `<=` in a limit, checking the first string alone, or adding the requests
//   before the wrong one fails.
TEST(Columns, WrongOnesAreRefusedAsAWhole) {
  base::Random random(testing::seeds_to_run(1).front());
  Requests requests(exec::shared_plain_host_memory());
  Requests before(exec::shared_plain_host_memory());
  const Call good(20, &random);
  for (Requests* const batch : {&requests, &before}) ASSERT_TRUE(good.add_each(batch).ok());
  const auto refused = [&](const Status& status) {
    EXPECT_TRUE(status.IsInvalidArgument()) << status.ToString();
    expect_same(requests, before);
  };
  const auto put = [&](const BytesColumn& keys, const BytesColumn& values) {
    return requests.add_writes(record::Op::kPut, 1, keys, values);
  };
  const std::string key(limits::kKeyBytesMax + 1, 'k');
  const auto some = BytesColumn::Fixed(key.data(), 3, 5);
  const auto none = BytesColumn::Fixed(nullptr, 3, 0);
  refused(put(some, BytesColumn::Fixed(key.data(), 2, 5)));
  refused(requests.add_ranges(1, some, BytesColumn::Fixed(key.data(), 4, 5), {}));
  const std::uint32_t two[] = {1, 2};
  refused(requests.add_ranges(1, some, some, two));

  const auto too_wide = BytesColumn::Fixed(key.data(), 3, limits::kKeyBytesMax + 1, 0);
  refused(put(too_wide, none));
  refused(requests.add_reads(1, too_wide, ValueArray()));
  refused(requests.add_ranges(1, some, too_wide, {two, 1}));
  refused(requests.add_ranges(1, too_wide, some, {two, 1}));
  refused(put(some, BytesColumn::Fixed(key.data(), 3, limits::kValueBytesMax + 1, 0)));
  const std::int64_t one_too_long[] = {0, 5, 5, static_cast<std::int64_t>(key.size()) + 5};
  refused(put(BytesColumn::Variable(key.data(), one_too_long, 3), none));
  const std::int32_t falling32[] = {0, 5, 4, 9};
  refused(put(BytesColumn::Variable(key.data(), falling32, 3), none));
  const std::int64_t falling64[] = {7, 0, 4, 9};
  refused(put(some, BytesColumn::Variable(key.data(), falling64, 3)));

  // More than a batch may have, of requests and of bytes.
  const auto endless = [&](std::uint64_t count) {
    return BytesColumn::Fixed(key.data(), count, 1, 0);
  };
  const std::uint64_t room = limits::kBatchRequestsMax -
                             (before.write_count() + before.read_count() + before.range_count());
  refused(put(endless(room + 1), endless(room + 1)));
  refused(put(endless(~std::uint64_t{0}), endless(~std::uint64_t{0})));
  refused(requests.add_reads(1, endless(room + 1), ValueArray()));
  refused(requests.add_ranges(1, endless(room + 1), endless(room + 1), {two, 1}));
  refused(put(endless(33), BytesColumn::Fixed(key.data(), 33, limits::kValueBytesMax, 0)));

  Arrays arrays(3, 8, 8);
  arrays.array.stride = 7;
  refused(requests.add_reads(1, some, arrays.array));
  arrays.array.stride = -7;
  refused(requests.add_reads(1, some, arrays.array));
  const std::string longest(limits::kKeyBytesMax, 'k');
  EXPECT_TRUE(put(BytesColumn::Fixed(longest.data(), 1, longest.size()), endless(1)).ok());
}

// Goal: the batch's own calls say what they are given wrong, too.
// Method: an array without `found`, one limit for two ranges; and that good ones are added.
// Mutation: taking one limit for all, or an array without `found` for none, fails.
TEST(Columns, ABatchTakesThem) {
  Batch batch;
  const auto keys = BytesColumn::Fixed("abcdef", 2, 3);
  std::string values(16, '.');
  std::uint8_t found[2];
  const std::uint32_t limits[] = {4, 5};
  EXPECT_TRUE(batch.Get(3, keys, {values.data(), 8, 8, nullptr}).IsInvalidArgument());
  EXPECT_TRUE(batch.Range(3, keys, keys, std::span(limits, 1)).IsInvalidArgument());
  EXPECT_TRUE(batch.Range(3, keys, keys, std::span(limits, 0)).IsInvalidArgument());
  EXPECT_EQ(batch.reads() + batch.ranges(), 0u);
  EXPECT_TRUE(batch.Get(3, keys, {values.data(), 8, 8, found}).ok());
  EXPECT_TRUE(batch.Get(3, keys).ok());
  EXPECT_TRUE(batch.Range(3, keys, keys, limits).ok());
  EXPECT_TRUE(batch.Range(3, keys, keys, 6).ok());
  EXPECT_TRUE(batch.Put(3, keys, keys).ok());
  EXPECT_TRUE(batch.Merge(3, keys, keys).ok());
  EXPECT_TRUE(batch.Delete(3, keys).ok());
  EXPECT_TRUE(batch.Put(3, BytesColumn(), BytesColumn()).ok());
  EXPECT_EQ(batch.reads(), 4u);
  EXPECT_EQ(batch.ranges(), 4u);
  EXPECT_EQ(batch.writes(), 6u);
  const Ranges& ranges = *batch.requests().ranges()[0];
  EXPECT_EQ(std::vector(ranges.limits(), ranges.limits() + 4),
            (std::vector<std::uint32_t>{4, 5, 6, 6}));
  const Writes& writes = *batch.requests().writes()[0];
  EXPECT_EQ(writes.merges(), 2u);
  EXPECT_EQ(writes.deletes(), 2u);
}

// Goal: columns that find no memory leave the batch as it was, and can be added again.
// Method: random calls with allocation 1, 2, 3, ... failing, against a batch that has memory.
// Mutation: naming a family, or giving keys their lengths, before all room is made fails.
TEST(Columns, WantOfMemoryChangesNothing) {
  for (const std::uint64_t seed : testing::seeds_to_run(6)) {
    SCOPED_TRACE(testing::replay_command(seed));
    std::uint64_t calls = 1;
    for (std::uint64_t k = 1; k <= calls && !HasFailure(); ++k) {
      SCOPED_TRACE("allocation " + std::to_string(k));
      const auto memory = std::make_shared<ScarceMemory>();
      memory->fail_at(k);
      Requests scarce(memory);
      Requests ample(exec::shared_plain_host_memory());
      base::Random random(seed);
      for (int i = 0; i < 8; ++i) {
        const Call call(1 + random.below(90), &random);
        const Status status = call.add_columns(&scarce);
        if (!status.ok()) {
          ASSERT_TRUE(status.IsMemoryLimit());
          expect_same(scarce, ample);
          ASSERT_TRUE(call.add_columns(&scarce).ok()) << "the only want is over";
        }
        ASSERT_TRUE(call.add_columns(&ample).ok());
        expect_same(scarce, ample);
      }
      calls = std::max(calls, memory->calls());
    }
    EXPECT_GT(calls, 3u);
  }
}

// Goal: values go into the arrays of their own lookups, and to the batch where there are none;
//   nothing else is written; and the batch knows both.
// Method: lookups with and without arrays of several strides in random order, answered in random
//   order with values of the right and of wrong lengths, with numbers, and with errors; directly,
//   or handed over from another batch.
// Mutation: counting places from the family's first read, keeping what has another length, or not
//   setting `found` to 0 fails.
TEST(Columns, ValuesGoIntoArrays) {
  for (const std::uint64_t seed : testing::seeds_to_run(200)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    ArrayReads reads(&random);
    Requests& requests = reads.requests;
    Requests whole(exec::shared_plain_host_memory());
    ASSERT_TRUE(whole.append(requests));
    const bool handed_over = random.one_in(2);
    ASSERT_TRUE(requests.prepare_results(1, /*with_bounds=*/false));
    ASSERT_TRUE(whole.prepare_results(1, /*with_bounds=*/false));
    Requests& answered = handed_over ? whole : requests;
    std::uint64_t* const numbers = answered.reads()[0]->make_numbers();

    std::vector<std::pair<Status::Code, std::string>> expected(reads.place_of.size());
    Answers answers(answered.reads()[0].get(), &answered.arena(0));
    std::vector<std::uint64_t> order;
    for (std::uint64_t i = 0; i < reads.place_of.size(); ++i) {
      order.insert(order.begin() + static_cast<std::ptrdiff_t>(random.below(i + 1)), i);
    }
    for (const std::uint64_t i : order) {
      const Arrays* const array = reads.array_of(i);
      const std::uint64_t width = array == nullptr ? 11 : array->array.width;
      if (random.one_in(4)) {
        const auto code = random.one_in(2) ? Status::Code::kNotFound : Status::Code::kAborted;
        answers.add(i, code);
        expected[i] = {code, ""};
        continue;
      }
      std::string value = random_string(random.one_in(4) ? random.below(40) : width, &random);
      if (random.one_in(4)) {
        value = random_string(8, &random);
        std::memcpy(numbers + i, value.data(), 8);
        answers.add_number(i, numbers + i);
      } else {
        answers.add_value(i, value);
      }
      const bool fits = array == nullptr || value.size() == width;
      expected[i] = {fits ? Status::Code::kOk : Status::Code::kInvalidArgument, fits ? value : ""};
    }
    if (handed_over) whole.hand_over(&requests);

    ASSERT_EQ(requests.result_count(), reads.place_of.size());
    for (std::uint64_t i = 0; i < reads.place_of.size(); ++i) {
      const auto& [code, value] = expected[i];
      const ReadResult result = requests.result(i);
      ASSERT_EQ(result.code, code) << i;
      const Slice bytes = result.data == nullptr ? Slice() : Slice(result.data, result.bytes);
      ASSERT_EQ(bytes, value) << i;
      const Arrays* const array = reads.array_of(i);
      if (array == nullptr) continue;
      const bool is_there = code == Status::Code::kOk;
      ASSERT_EQ(array->found[reads.place_of[i].second], is_there ? 1 : 0);
      ASSERT_EQ(array->at(reads.place_of[i].second),
                is_there ? value : std::string(array->array.width, '.'));
    }
  }
}

// Goal: values become an Arrow array of any part of the reads, in offsets of both kinds.
// Method: reads of two families, so that they have places, with values of all lengths and errors;
//   random parts of them, one in an array of the caller's.
// Mutation: offsets from the batch's first read, or bytes of a read that failed, fails.
TEST(Columns, ValuesAsArrowHasThem) {
  for (const std::uint64_t seed : testing::seeds_to_run(50)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    Batch batch;
    Arrays arrays(3, 4, 4);
    ASSERT_TRUE(batch.Get(0, BytesColumn::Fixed("k", 3, 1, 0), arrays.array).ok());
    const std::uint64_t count = 3 + random.below(300);
    for (std::uint64_t i = 3; i < count; ++i) {
      ASSERT_TRUE(batch.Get(FamilyId{random.one_in(2) ? 5U : 0U}, Slice("k")).ok());
    }
    ASSERT_TRUE(batch.requests().prepare_results(1, /*with_bounds=*/false));
    for (const auto& reads : batch.requests().reads()) {
      Answers answers(reads.get(), &batch.requests().arena(0));
      for (std::uint64_t i = 0; i < reads->count(); ++i) {
        if (random.one_in(5)) {
          answers.add(i, Status::Code::kNotFound);
        } else {
          answers.add_value(i, random_string(random.one_in(3) ? 4 : random.below(30), &random));
        }
      }
    }
    const std::uint64_t first = random.below(count + 1);
    const std::uint64_t some = random.below(count - first + 1);
    std::vector<std::uint8_t> found(some, 9);
    std::vector<std::int32_t> offsets32(some + 1);
    std::vector<std::int64_t> offsets64(some + 1);
    ASSERT_TRUE(batch.ValueOffsets(first, some, offsets32.data(), found.data()).ok());
    ASSERT_TRUE(batch.ValueOffsets(first, some, offsets64.data(), found.data()).ok());
    std::string bytes32(static_cast<std::size_t>(offsets32[some]), '?');
    std::string bytes64(static_cast<std::size_t>(offsets64[some]), '?');
    batch.CopyValues(first, some, offsets32.data(), bytes32.data());
    batch.CopyValues(first, some, offsets64.data(), bytes64.data());
    std::string expected;
    for (std::uint64_t i = 0; i < some; ++i) {
      ASSERT_EQ(offsets32[i], static_cast<std::int32_t>(expected.size()));
      ASSERT_EQ(offsets64[i], static_cast<std::int64_t>(expected.size()));
      ASSERT_EQ(found[i], batch.code(first + i) == Status::Code::kOk ? 1 : 0);
      expected += batch.value(first + i).ToString();
    }
    ASSERT_EQ(bytes32, expected);
    ASSERT_EQ(bytes64, expected);
  }
}

// Goal: more bytes than offsets of 32 bits can tell are refused there, and nowhere else.
// Method: results that say to have 2^31 - 1 bytes, and one more; nobody looks at them.
// Mutation: a sum of 32 bits fails.
TEST(Columns, OffsetsOf32BitsHaveAnEnd) {
  Batch batch;
  ASSERT_TRUE(batch.Get(0, BytesColumn::Fixed("k", 2, 1, 0)).ok());
  Requests& requests = batch.requests();
  ASSERT_TRUE(requests.prepare_results(0, /*with_bounds=*/false));
  const std::uint32_t bytes_max = std::numeric_limits<std::int32_t>::max();
  std::uint8_t found[2];
  std::int32_t offsets32[3];
  std::int64_t offsets64[3];
  for (const std::uint32_t more : {0, 1}) {
    requests.reads()[0]->results()[0] = {nullptr, bytes_max, Status::Code::kOk};
    requests.reads()[0]->results()[1] = {nullptr, more, Status::Code::kOk};
    EXPECT_EQ(batch.ValueOffsets(0, 2, offsets32, found).ok(), more == 0);
    EXPECT_TRUE(batch.ValueOffsets(0, 2, offsets64, found).ok());
    EXPECT_EQ(offsets64[2], static_cast<std::int64_t>(bytes_max) + more);
  }
}

// Goal: what is written past the caches is there, and nothing beside it.
// Method: pieces of random lengths, some larger than the stage, from every place in a line on.
// Mutation: a first line written whole, or a rest that is forgotten, fails.
TEST(StreamedBytes, ArePiecesInTurn) {
  for (const std::uint64_t seed : testing::seeds_to_run(100)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    std::string memory(80'000, '-');
    const std::uint64_t first = 64 + random.below(64);
    std::string expected;
    {
      base::StreamedBytes bytes(reinterpret_cast<std::byte*>(memory.data() + first));
      for (std::uint64_t pieces = random.below(60); pieces > 0; --pieces) {
        const std::uint64_t size = random.one_in(20) ? 2000 + random.below(160) : random.below(320);
        const std::string piece = random_string(size, &random);
        ASSERT_EQ(reinterpret_cast<char*>(bytes.end()), memory.data() + first + expected.size());
        std::memcpy(bytes.next(piece.size()), piece.data(), piece.size());
        expected += piece;
      }
    }
    const std::uint64_t end = first + expected.size();
    ASSERT_EQ(memory.substr(first, expected.size()), expected);
    ASSERT_EQ(memory.substr(0, first), std::string(first, '-'));
    ASSERT_EQ(memory.substr(end), std::string(memory.size() - end, '-'));
  }
}

}  // namespace breccia::batch
