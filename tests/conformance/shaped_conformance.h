#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/random.h"
#include "conformance/hash_model.h"
#include "exec/pool.h"
#include "hash/shapes/shaped_table.h"
#include "support/seeds.h"

/// What tables of [gphash]'s shapes owe a benchmark on every executor.

namespace breccia::hash::shapes::conformance {

using hash::conformance::Executor;

/// A column in a backend's memory.
template <class T>
class There {
 public:
  There(Backend& backend, const std::vector<T>& from) : backend_(backend), count_(from.size()) {
    auto made = exec::Array<T>::make(backend.tenant().pool(), count_);
    EXPECT_TRUE(made.ok());
    array_ = made.take();
    EXPECT_TRUE(
        backend.copy_in(bytes(), reinterpret_cast<const char*>(from.data()), count_ * sizeof(T))
            .ok());
  }
  [[nodiscard]] T* data() const { return array_.data(); }
  [[nodiscard]] std::vector<T> get() const {
    std::vector<T> to(count_);
    EXPECT_TRUE(
        backend_.copy_out(reinterpret_cast<char*>(to.data()), bytes(), count_ * sizeof(T)).ok());
    return to;
  }

 private:
  [[nodiscard]] char* bytes() const { return reinterpret_cast<char*>(array_.data()); }

  Backend& backend_;
  const std::size_t count_;
  exec::Array<T> array_;
};

struct Answers {
  std::vector<Code> code;
  std::vector<std::uint64_t> found;
};

inline Answers run(Backend& backend, ShapedTable& table, Operation operation,
                   const std::vector<std::uint64_t>& keys) {
  std::vector<std::uint64_t> values = keys;
  for (std::uint64_t& value : values) value = ~value;
  const There<std::uint64_t> key(backend, keys);
  const There<std::uint64_t> value(backend, values);
  const There<std::uint64_t> found(backend, std::vector<std::uint64_t>(keys.size(), 7));
  const There<Code> code(backend, std::vector<Code>(keys.size(), Code::kCrowded));
  const Status status = table.run_here({.all = operation,
                                        .key = key.data(),
                                        .value = value.data(),
                                        .found = found.data(),
                                        .code = code.data(),
                                        .count = keys.size()});
  EXPECT_TRUE(status.ok()) << status.ToString();
  return {code.get(), found.get()};
}

class ShapedConformance : public ::testing::TestWithParam<Executor> {};

// Goal: a key that was told to be in is found with its value, one that found no room is not, and
//       no other is; a table takes keys until all candidates of one are full.
// Method: tables of some shape, looked at by some width, that are filled in batches beyond what
//         they have slots for; keys again, and keys that are not there.
// Mutation: a level that begins elsewhere; a bucket of another lane's; slots of a share that are
//           not looked at; an exchange that failed and counts; an insertion that does not look.
TEST_P(ShapedConformance, WhatIsInIsFound) {
  const std::vector<std::uint64_t> seeds =
      testing::seeds_to_run(std::max<std::uint64_t>(1, 400 * GetParam().share / 100));
  for (const std::uint64_t seed : seeds) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const auto backend = GetParam().make(seed);
    ShapedOptions options;
    options.slots_min = 64 + random.below(1500);
    options.secret = {
        .add = random.next(), .factor = random.next() | 3, .second_factor = random.next() | 3};
    do {
      options.shape = {.levels = 1 << random.below(3),
                       .locations = 1 << random.below(3),
                       .slots = 1 << random.below(6)};
      options.lanes = 4 << random.below(4);
    } while (share_of(options.shape, options.lanes) == 0);
    SCOPED_TRACE(options.shape.name() + " by " + std::to_string(options.lanes));
    auto made = make_shaped_table(backend->tenant_ptr(), options);
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    ShapedTable& table = *made.value();
    ASSERT_GE(table.slot_count(), options.slots_min);

    std::vector<std::uint64_t> in, out;
    while (in.size() + out.size() < table.slot_count() * 5 / 4) {
      std::vector<std::uint64_t> keys(1 + random.below(table.slot_count() / 2));
      for (std::uint64_t& key : keys) key = random.next();
      const std::size_t fresh = keys.size();
      const Answers answers = run(*backend, table, Operation::kInsert, keys);
      for (std::size_t i = 0; i < fresh; ++i) {
        ASSERT_TRUE(answers.code[i] == Code::kAbsent || answers.code[i] == Code::kNoRoom);
        (answers.code[i] == Code::kAbsent ? in : out).push_back(keys[i]);
      }
    }
    ASSERT_LE(in.size(), table.slot_count());
    // With as many candidates a table holds most of what it has slots for.
    if (options.shape.candidates() >= 16) {
      EXPECT_GT(in.size(), table.slot_count() * 6 / 10);
    }

    for (const Operation operation : {Operation::kFind, Operation::kInsert}) {
      const Answers of_in = run(*backend, table, operation, in);
      for (std::size_t i = 0; i < in.size(); ++i) {
        ASSERT_EQ(of_in.code[i], Code::kPresent);
        ASSERT_EQ(of_in.found[i], ~in[i]);
      }
    }
    const Answers of_out = run(*backend, table, Operation::kFind, out);
    for (const Code code : of_out.code) ASSERT_EQ(code, Code::kAbsent);
  }
}

// Goal: keys go where there is most room, so that a table is full late.
// Method: a table of the paper's shape, filled a little at a time until a key finds no room.
// Mutation: the first bucket with room; the one with the least.
TEST_P(ShapedConformance, IsFullLate) {
  const auto backend = GetParam().make(1);
  base::Random random(1);
  auto made = make_shaped_table(
      backend->tenant_ptr(),
      {.shape = {}, .lanes = 8, .slots_min = 4096, .secret = {random.next(), 5, 7}});
  ASSERT_TRUE(made.ok());
  ShapedTable& table = *made.value();
  std::uint64_t in = 0;
  for (bool has_room = true; has_room;) {
    std::vector<std::uint64_t> keys(32);
    for (std::uint64_t& key : keys) key = random.next();
    for (const Code code : run(*backend, table, Operation::kInsert, keys).code) {
      if (code == Code::kNoRoom) has_room = false;
      if (code == Code::kAbsent) ++in;
    }
  }
  EXPECT_GT(in, table.slot_count() * 8 / 10);
}

// Goal: no table where a width cannot look at all candidates at once, and no other requests.
// Method: all widths of some shapes; an update.
TEST_P(ShapedConformance, SaysWhatItCannot) {
  const auto backend = GetParam().make(1);
  const auto made_with = [&](const char* name, int lanes) {
    return make_shaped_table(
        backend->tenant_ptr(),
        {.shape = *Shape::of_name(name), .lanes = lanes, .slots_min = 100, .secret = {1, 3, 5}});
  };
  EXPECT_TRUE(made_with("2L-2H-8S", 32).ok());
  EXPECT_TRUE(made_with("2L-2H-8S", 4).ok());
  EXPECT_TRUE(made_with("4L-2H-4S", 4).status().IsInvalidArgument());   // 8 of two buckets
  EXPECT_TRUE(made_with("1L-2H-8S", 32).status().IsInvalidArgument());  // lanes without a slot
  EXPECT_TRUE(made_with("1L-2H-8S", 1).status().IsInvalidArgument());
  for (const char* const name :
       {"3L-1H-8S", "2L-2H-16S", "2L-2H-8", "2L-2H-8S ", "02L-2H-8S", ""}) {
    EXPECT_FALSE(Shape::of_name(name).has_value()) << name;
  }
  auto made = made_with("2L-2H-8S", 32);
  EXPECT_TRUE(made.value()->run_here({.all = Operation::kUpdate}).IsInvalidArgument());
}

}  // namespace breccia::hash::shapes::conformance
