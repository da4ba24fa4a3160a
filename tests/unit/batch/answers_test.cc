#include "batch/answers.h"

#include <breccia/batch.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "batch/requests.h"
#include "support/seeds.h"

namespace breccia::batch {

namespace {

constexpr char kBefore = '-';  // what arrays hold before

/// An array of the caller's, and the lookups that go into it.
struct Array {
  std::uint64_t count;
  std::size_t width;
  std::size_t stride;
  std::vector<char> bytes;
  std::vector<std::uint8_t> found;

  Array(std::uint64_t reads, std::size_t value_bytes, std::size_t gap, std::size_t ahead)
      : count(reads),
        width(value_bytes),
        stride(value_bytes + gap),
        bytes(ahead + reads * stride + 64, kBefore),
        found(reads, 2),
        ahead_(ahead) {}
  [[nodiscard]] ValueArray into() {
    return {bytes.data() + ahead_, width, static_cast<std::ptrdiff_t>(stride), found.data()};
  }

 private:
  std::size_t ahead_;
};

/// Lookups of a batch: into arrays, and between them to the batch.
struct Lookups {
  Batch batch;
  std::vector<std::unique_ptr<Array>> arrays;

  explicit Lookups(base::Random random) {
    for (std::uint64_t left = 1 + random.below(6); left > 0; --left) {
      if (random.one_in(2)) {
        for (std::uint64_t i = random.below(300); i > 0; --i) EXPECT_TRUE(batch.Get("key").ok());
        continue;
      }
      constexpr std::size_t kWidths[] = {1, 8, 8, 8, 31, 32, 64, 100, 128, 3000};
      const std::size_t gap = random.one_in(3) ? random.below(20) : 0;
      arrays.push_back(std::make_unique<Array>(1 + random.below(300), kWidths[random.below(10)],
                                               gap, random.below(8) * (random.one_in(2) ? 8 : 1)));
      const std::vector<std::string> keys(arrays.back()->count, "key");
      const std::vector<Slice> slices(keys.begin(), keys.end());
      EXPECT_TRUE(batch
                      .Get(kDefaultFamily, BytesColumn::Slices(slices.data(), slices.size()),
                           arrays.back()->into())
                      .ok());
    }
    EXPECT_TRUE(batch.Get("last").ok());
    EXPECT_TRUE(batch.requests().prepare_results(1, /*with_bounds=*/false));
  }
  [[nodiscard]] Reads* reads() { return batch.requests().reads()[0].get(); }
};

/// Gives every lookup an answer that follows from `random`; in some batches most find nothing.
void answer(Lookups* lookups, bool streams, base::Random random) {
  Reads* const reads = lookups->reads();
  const std::uint64_t misses_in_8 = random.below(6);
  const std::size_t value_bytes = random.one_in(2) ? 100 : 1 + random.below(200);
  std::uint64_t* const numbers = reads->make_numbers();
  for (std::uint64_t i = 0; i < reads->count(); ++i) numbers[i] = random.next();
  const bool as_numbers = random.one_in(2);
  const bool in_rows = random.one_in(2);
  std::vector<bool> is_there(reads->count());
  for (std::uint64_t i = 0; i < reads->count(); ++i) is_there[i] = random.below(8) >= misses_in_8;
  std::string value;
  std::string rows(reads->count() + 3000, '\0');
  for (char& c : rows) c = static_cast<char>(random.next());
  const auto row_of = [&](std::uint64_t i) {
    const Stretch stretch = reads->stretch_at(i);
    const bool fits = stretch.into.found != nullptr && i % 50 != 0;
    return is_there[i] ? Slice(rows.data() + i, fits ? stretch.into.width : value_bytes)
                       : Slice(nullptr, 0);
  };
  Answers answers(reads, &lookups->batch.requests().arena(0));
  if (streams) answers.stream_values();
  for (std::uint64_t i = 0; i < reads->count(); ++i) {
    if (as_numbers) {
      i = answers.add_numbers(i, reads->count(), numbers + i,
                              [&](std::uint64_t read) { return is_there[read]; });
      if (i == reads->count()) break;
    } else if (in_rows) {
      i = answers.add_values(i, reads->count(), row_of);
      if (i == reads->count()) break;
    }
    if (!is_there[i]) {
      answers.add(i, Status::Code::kNotFound);
      continue;
    }
    if (in_rows && !as_numbers) {
      answers.add_value(i, row_of(i));
      continue;
    }
    const Stretch stretch = reads->stretch_at(i);
    const bool fits = stretch.into.found != nullptr && !random.one_in(20);
    const bool varies = random.one_in(3);
    value.resize(fits ? stretch.into.width : varies ? random.below(2500) : value_bytes);
    for (char& c : value) c = static_cast<char>(random.next());
    answers.add_value(i, value);
  }
}

}  // namespace

// Goal: values that go past the caches are where, and what, they would be otherwise.
// Method: the same answers to the same lookups, into arrays of many widths and strides and to the
//         batch, with and without; among them misses, which begin a stream anew, and numbers.
// Mutation: a stream that goes on behind a gap, is not written out, or writes a line that it has
//           not all of, fails; so does a number for a read that has none, or a line of numbers that
//           is left out.
TEST(Answers, PassTheCachesUnchanged) {
  for (const std::uint64_t seed : testing::seeds_to_run(300)) {
    SCOPED_TRACE(testing::replay_command(seed));
    Lookups plain{base::Random(seed)};
    Lookups streamed{base::Random(seed)};
    answer(&plain, /*streams=*/false, base::Random(seed + 1));
    answer(&streamed, /*streams=*/true, base::Random(seed + 1));
    for (std::uint64_t i = 0; i < plain.batch.reads(); ++i) {
      ASSERT_EQ(plain.batch.code(i), streamed.batch.code(i)) << i;
      if (plain.batch.code(i) != Status::Code::kOk) continue;
      ASSERT_EQ(plain.batch.value(i), streamed.batch.value(i)) << i;
    }
    ASSERT_EQ(plain.arrays.size(), streamed.arrays.size());
    for (std::size_t i = 0; i < plain.arrays.size(); ++i) {
      ASSERT_EQ(plain.arrays[i]->bytes, streamed.arrays[i]->bytes) << i;
      ASSERT_EQ(plain.arrays[i]->found, streamed.arrays[i]->found) << i;
    }
  }
}

}  // namespace breccia::batch
