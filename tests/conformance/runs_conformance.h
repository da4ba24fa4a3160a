#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "conformance/runs_model.h"
#include "record/key_hash.h"
#include "runs/backend.h"

/// What every Backend must do. A `Maker` has `static std::shared_ptr<Backend> make(seed)`, the
/// bytes that one keeps when nothing is alive, and whether it knows the rates of a device's copies.
namespace breccia::runs::conformance {

/// Host memory as callers have it: any, or the backend's own.
inline exec::HostMemory& some_memory(Backend& backend, base::Random& random) {
  return random.one_in(2) ? backend.host_memory() : exec::plain_host_memory();
}

inline void expect_payloads(Backend& backend, const Run& run, const model::Entries& expected) {
  ASSERT_EQ(run.count(), expected.size());
  std::vector<std::uint64_t> payloads(run.count() + 1, 1);
  ASSERT_TRUE(backend.read_payloads(run, payloads.data()).ok());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(payloads[i], expected[i].payload) << i;
  }
  ASSERT_EQ(payloads.back(), 1U) << "written behind the end";
  if (const RunRef* const view = run.host_view()) {
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(model::key_at(view->keys, i), expected[i].key) << i;
      if (!run.has_values()) continue;
      ASSERT_EQ(view->value[i], model::value_of(expected[i].payload)) << i;
    }
  }
}

/// A backend beside the model of what it holds.
class Twin {
 public:
  Twin(Backend& backend, std::uint64_t seed, std::uint64_t first_payload)
      : backend_(backend), random_(seed), base_(first_payload) {
    shape_ = model::random_shape(random_);
    values_in_ = random_.below(4);
    columns_in_ = random_.below(4);
  }

  void build(std::uint64_t count) {
    const auto batch = model::random_batch(random_, some_shape(), count, base_);
    base_ += 8 * 11 * (count + 1);
    const bool uniform = all_but_one_in(columns_in_);
    const bool with_values = all_but_one_in(values_in_);
    const model::Columns columns(some_memory(backend_, random_), batch.keys, uniform);
    exec::HostVector<std::uint32_t> descriptors(some_memory(backend_, random_));
    ASSERT_TRUE(descriptors.reserve(count + 1));
    descriptors.extend(count + 1)[count] = 77;
    const bool described = random_.one_in(2);
    auto run = backend_.build_run(batch.ref(columns.ref(), with_values && count > 0),
                                  described ? descriptors.data() : nullptr);
    ASSERT_TRUE(run.ok()) << run.status().ToString();
    ASSERT_EQ(run.value()->has_values(), with_values && count > 0);
    ASSERT_EQ(run.value()->uniform_bytes(), columns.ref().uniform_bytes);
    runs_.insert(runs_.begin(), run.take());
    entries_.insert(entries_.begin(), batch.entries());
    expect_payloads(backend_, *runs_[0], entries_[0]);
    for (std::uint64_t i = 0; described && i < count; ++i) {
      ASSERT_EQ(descriptors[i], (entries_[0][i].payload - batch.base) >> 3) << i;
    }
    ASSERT_EQ(descriptors[count], 77U);
    if (random_.one_in(3)) build_again(batch.ref(columns.ref(), with_values && count > 0));
  }

  /// Builds the newest run once more, from the columns of a run of `entries` on the host.
  void build_again(const record::EntriesRef& entries) {
    const auto host = make_host_backend();
    const auto run = host->build_run(entries, /*descriptors=*/nullptr);
    ASSERT_TRUE(run.ok()) << run.status().ToString();
    const RunRef& columns = *run.value()->host_view();
    auto again = backend_.build_run(
        {columns.keys, columns.payload, /*base=*/0, columns.value, /*sorted=*/true},
        /*descriptors=*/nullptr);
    ASSERT_TRUE(again.ok()) << again.status().ToString();
    runs_[0] = again.take();
    expect_payloads(backend_, *runs_[0], entries_[0]);
  }

  /// Merges the runs [first, first + count) in place.
  void merge(std::size_t first, std::size_t count, Keep keep) {
    const auto begin = static_cast<std::ptrdiff_t>(first);
    const auto end = static_cast<std::ptrdiff_t>(first + count);
    auto run = backend_.merge_runs(std::span(runs_).subspan(first, count), keep);
    ASSERT_TRUE(run.ok()) << run.status().ToString();
    const std::span merged = std::span(runs_).subspan(first, count);
    ASSERT_EQ(run.value()->has_values(),
              std::all_of(merged.begin(), merged.end(), [](const RunPtr& one) {
                return one->has_values() || one->count() == 0;
              }));
    const std::vector<model::Entries> inputs(entries_.begin() + begin, entries_.begin() + end);
    runs_.erase(runs_.begin() + begin, runs_.begin() + end);
    entries_.erase(entries_.begin() + begin, entries_.begin() + end);
    runs_.insert(runs_.begin() + begin, run.take());
    entries_.insert(entries_.begin() + begin, model::merged(inputs, keep));
    expect_payloads(backend_, *runs_[first], entries_[first]);
  }

  void search(std::uint64_t count) {
    auto keys = model::random_keys(random_, some_shape(), count);
    const std::size_t row_bytes = random_.one_in(2) ? 0 : random_.one_in(2) ? 8 : 16;
    for (std::string& key : keys) {
      if (row_bytes > 0) key.resize(row_bytes);
    }
    const model::Columns columns(some_memory(backend_, random_), keys, random_.one_in(2));
    exec::HostVector<std::uint64_t> bounds(some_memory(backend_, random_));
    exec::HostVector<std::uint64_t> found(some_memory(backend_, random_));
    exec::HostVector<std::uint64_t> values(some_memory(backend_, random_));
    ASSERT_TRUE(bounds.reserve(count + 1) && found.reserve(count + 1) && values.reserve(count + 1));
    const auto everything = model::merged(entries_, Keep::kAll);
    for (const std::string& key : keys) {
      bounds.push(model::random_bound(random_, everything, key, base_ + 8));
    }
    std::fill_n(found.extend(count + 1), count + 1, 3);
    std::fill_n(values.extend(count + 1), count + 1, 3);
    const bool with_values = all_have_values() && random_.one_in(2);
    const bool own_bounds = random_.one_in(2);
    const bool all = random_.one_in(2);
    QueriesRef queries{columns.ref(), own_bounds ? bounds.data() : nullptr,
                       all ? ~std::uint64_t{0} : base_ / 2};
    exec::HostVector<std::uint64_t> rows(some_memory(backend_, random_));
    if (count > 0 && row_bytes > 0 && random_.one_in(2)) bring_as_rows(keys, &rows, &queries);
    const bool as_ops = with_values && random_.one_in(2);
    exec::HostVector<std::uint8_t> ops(some_memory(backend_, random_));
    ASSERT_TRUE(ops.reserve(count + 1));
    std::fill_n(ops.extend(count + 1), count + 1, 3);
    FoundRef out{found.data(), with_values ? values.data() : nullptr};
    if (as_ops) out = {nullptr, values.data(), ops.data()};
    const Status status = backend_.search(runs_, queries, out);
    ASSERT_TRUE(status.ok()) << status.ToString();
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t newest = model::newest(everything, keys[i], queries.bound_at(i));
      const std::uint64_t operation = newest & kOperationMask;
      if (as_ops) {
        ASSERT_EQ(ops[i], newest == kNotFound ? kNoOp : operation) << i;
      } else {
        ASSERT_EQ(found[i], newest) << i;
      }
      if (!with_values || newest == kNotFound) continue;
      const bool is_payload = as_ops && operation != kPutOperation;
      ASSERT_EQ(values[i], is_payload ? newest : model::value_of(newest)) << i;
    }
    ASSERT_EQ(ops[count], 3U) << "written behind the end";
    ASSERT_EQ(found[count], 3U) << "written behind the end";
    ASSERT_EQ(values[count], 3U) << "written behind the end";
  }

  /// The same with a table of tags: of each key that no run holds, the place of its tag.
  void search_with_tags(std::uint64_t count, std::uint64_t set_count) {
    const auto keys = model::random_keys(random_, some_shape(), count);
    const model::Columns columns(some_memory(backend_, random_), keys, random_.one_in(2));
    const auto seed = static_cast<std::uint32_t>(random_.next());
    std::vector<std::uint32_t> table(set_count * kTagWays, 0);
    for (std::uint64_t i = 0; i < count; ++i) {
      if (random_.one_in(3)) continue;
      const std::uint64_t hash = record::hash_key(columns.ref(), i, seed);
      const std::uint64_t way = random_.below(kTagWays);
      table[set_of(hash, set_count) * kTagWays + way] = tag_of(hash);
    }
    auto tags = backend_.copy_tags(table.data(), set_count);
    ASSERT_TRUE(tags.ok()) << tags.status().ToString();
    ASSERT_EQ(tags.value()->set_count(), set_count);
    exec::HostVector<std::uint64_t> found(some_memory(backend_, random_));
    exec::HostVector<std::uint32_t> refs(some_memory(backend_, random_));
    ASSERT_TRUE(found.reserve(count + 1) && refs.reserve(count + 1));
    std::fill_n(found.extend(count + 1), count + 1, 3);
    std::fill_n(refs.extend(count + 1), count + 1, 77);
    const QueriesRef queries{columns.ref(), nullptr, ~std::uint64_t{0}};
    const Status status =
        backend_.search_with_tags(runs_, queries, *tags.value(), seed, {found.data()}, refs.data());
    ASSERT_TRUE(status.ok()) << status.ToString();
    const auto everything = model::merged(entries_, Keep::kAll);
    for (std::uint64_t i = 0; i < count; ++i) {
      ASSERT_EQ(found[i], model::newest(everything, keys[i], queries.bound_at(i))) << i;
      const std::uint64_t hash = record::hash_key(columns.ref(), i, seed);
      const auto begin =
          table.begin() + static_cast<std::ptrdiff_t>(set_of(hash, set_count)) * kTagWays;
      const auto tag = std::find(begin, begin + kTagWays, tag_of(hash));
      const bool has_place = found[i] == kNotFound && tag != begin + kTagWays;
      ASSERT_EQ(refs[i], has_place ? tag - table.begin() + 1 : 0) << i;
    }
    ASSERT_EQ(found[count], 3U) << "written behind the end";
    ASSERT_EQ(refs[count], 77U) << "written behind the end";
  }

  void ranges(std::uint64_t count) {
    const auto begins = model::random_keys(random_, some_shape(), count);
    const auto ends = model::random_keys(random_, some_shape(), count);
    const model::Columns begin(some_memory(backend_, random_), begins, random_.one_in(2));
    const model::Columns end(some_memory(backend_, random_), ends, random_.one_in(2));
    const auto everything = model::merged(entries_, Keep::kAll);
    std::vector<std::uint64_t> out_at{0};
    std::vector<std::uint64_t> bounds;
    const std::uint64_t room_max = random_.one_in(8) ? 300 : 6;
    for (std::uint64_t i = 0; i < count; ++i) {
      out_at.push_back(out_at.back() + random_.below(room_max));
      bounds.push_back(model::random_bound(random_, everything, begins[i], base_ + 8));
    }
    const bool pairs = fit_pairs() && !random_.one_in(4);
    const std::uint64_t words = pairs ? 2 * out_at.back() : out_at.back();
    exec::HostVector<std::uint64_t> out(some_memory(backend_, random_));
    exec::HostVector<std::uint32_t> emitted(some_memory(backend_, random_));
    ASSERT_TRUE(out.reserve(words + 1) && emitted.reserve(count + 1));
    std::fill_n(out.extend(words + 1), words + 1, 3);
    std::fill_n(emitted.extend(count + 1), count + 1, 77);
    const bool own_bounds = random_.one_in(2);
    const RangesRef ref{begin.ref(), end.ref(), out_at.data(), own_bounds ? bounds.data() : nullptr,
                        random_.one_in(2) ? ~std::uint64_t{0} : base_ / 2};
    const Status status = backend_.ranges(
        runs_, ref, {pairs ? nullptr : out.data(), pairs ? out.data() : nullptr, emitted.data()});
    ASSERT_TRUE(status.ok()) << status.ToString();
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto expected = model::range(everything, begins[i], ends[i], ref.bound_at(i),
                                         out_at[i + 1] - out_at[i], pairs);
      ASSERT_EQ(emitted[i], expected.size()) << i;
      expect_walked(out, out_at[i], pairs, expected);
    }
    ASSERT_EQ(out[words], 3U) << "written behind the end";
    ASSERT_EQ(emitted[count], 77U) << "written behind the end";
  }

  void random_steps(int steps, std::uint64_t count_max) {
    for (int step = 0; step < steps && !testing::Test::HasFatalFailure(); ++step) {
      const std::uint64_t choice = random_.below(5);
      if (choice == 0 && runs_.size() > 1) {
        const std::size_t first = random_.below(runs_.size());
        merge(first, 1 + random_.below(runs_.size() - first), random_keep());
      } else if (choice <= 1) {
        build(random_.below(count_max));
      } else if (choice == 2) {
        ranges(random_.below(count_max) / 4);
      } else {
        search(random_.below(count_max));
      }
    }
  }
  [[nodiscard]] std::size_t runs() const { return runs_.size(); }

 private:
  /// Puts keys of one length into rows, and leaves no columns of them.
  static void bring_as_rows(const std::vector<std::string>& keys,
                            exec::HostVector<std::uint64_t>* rows, QueriesRef* queries) {
    const auto bytes = static_cast<std::uint32_t>(keys.front().size());
    const std::uint64_t words = bytes / sizeof(std::uint64_t);
    ASSERT_TRUE(rows->reserve(keys.size() * words));
    for (const std::string& key : keys) std::memcpy(rows->extend(words), key.data(), bytes);
    queries->keys = {};
    queries->keys.count = keys.size();
    queries->keys.uniform_bytes = bytes;
    queries->rows = rows->data();
  }

  static void expect_walked(const exec::HostVector<std::uint64_t>& out, std::uint64_t at,
                            bool pairs, const model::Entries& expected) {
    for (std::size_t j = 0; j < expected.size(); ++j) {
      if (!pairs) {
        ASSERT_EQ(out[at + j], expected[j].payload);
      } else {
        const auto* const key = reinterpret_cast<const char*>(&out[2 * (at + j)]);
        ASSERT_EQ(std::string(key, 8), expected[j].key);
        ASSERT_EQ(out[2 * (at + j) + 1], model::value_of(expected[j].payload));
      }
    }
  }

  /// In most cases that of all others.
  model::KeyShape some_shape() { return random_.one_in(6) ? model::random_shape(random_) : shape_; }
  bool all_but_one_in(std::uint64_t n) { return n == 0 || !random_.one_in(n); }
  [[nodiscard]] bool all_have_values() const {
    return std::all_of(runs_.begin(), runs_.end(),
                       [](const RunPtr& run) { return run->has_values() || run->count() == 0; });
  }
  [[nodiscard]] bool fit_pairs() const {
    return all_have_values() && std::all_of(runs_.begin(), runs_.end(), [](const RunPtr& run) {
             return run->uniform_bytes() == 8 || run->count() == 0;
           });
  }
  Keep random_keep() { return model::kEveryKeep[random_.below(std::size(model::kEveryKeep))]; }

  Backend& backend_;
  base::Random random_;
  model::KeyShape shape_;
  std::uint64_t values_in_;   // runs without values, and without uniform keys: one in so many,
  std::uint64_t columns_in_;  // none for 0
  std::uint64_t base_;
  std::vector<RunPtr> runs_;  // newest first
  std::vector<model::Entries> entries_;
};

template <class Maker>
class BackendConformance : public testing::Test {};
TYPED_TEST_SUITE_P(BackendConformance);

// Goal: any sequence of builds, merges, searches and ranges answers as the model does.
// Method: random steps of random sizes from one seed, with host memory of either kind.
// Mutation: merging oldest first, or dropping the bound, fails within a few seeds.
TYPED_TEST_P(BackendConformance, StreamsFollowTheModel) {
  for (const std::uint64_t seed : model::seeds_to_run(60)) {
    SCOPED_TRACE(model::replay(seed));
    const auto backend = TypeParam::make(seed);
    {
      Twin twin(*backend, seed, 8);
      twin.random_steps(30, seed % 4 == 0 ? 2000 : 70);
    }
    if (this->HasFatalFailure()) return;
    ASSERT_LE(backend->tenant().used(), TypeParam::kIdleBytesMax) << "memory was not given back";
  }
}

// Goal: the sizes at which roads part give the same answers.
// Method: batches and searches at the edge sizes, beyond what goes in one staging block too.
// Mutation: a small search that forgets its last warp fails at 33.
TYPED_TEST_P(BackendConformance, EdgeSizes) {
  for (const std::uint64_t seed : model::seeds_to_run(2)) {
    SCOPED_TRACE(model::replay(seed));
    const auto backend = TypeParam::make(seed);
    for (const std::uint64_t size : {0, 1, 31, 32, 33, 63, 64, 65, 4096, 16'384, 16'385, 40'000}) {
      Twin twin(*backend, seed + size, 8);
      twin.build(size);
      twin.search(size);
      twin.ranges(size);
      twin.build(64);
      twin.search(100);
      twin.ranges(100);
      twin.merge(0, 2, seed % 2 == 0 ? Keep::kNewest : Keep::kStacks);
      twin.search(size);
      if (this->HasFatalFailure()) return;
    }
  }
}

// Goal: a search visits as many runs as the limit allows.
// Method: 128 small runs, searched at several counts on the way.
// Mutation: a run table of fixed size without a second road fails behind its end.
TYPED_TEST_P(BackendConformance, ManyRuns) {
  for (const std::uint64_t seed : model::seeds_to_run(2)) {
    SCOPED_TRACE(model::replay(seed));
    const auto backend = TypeParam::make(seed);
    Twin twin(*backend, seed, 8);
    twin.search(50);
    while (twin.runs() < 128) {
      twin.build(1 + twin.runs() % 50);
      const std::size_t runs = twin.runs();
      if (runs == 1 || (runs >= 31 && runs <= 34) || runs == 128) {
        twin.search(300);
        twin.ranges(40);
      }
      if (this->HasFatalFailure()) return;
    }
    twin.merge(0, 128, Keep::kStacks);
    twin.search(300);
  }
}

// Goal: what no run holds is looked for among the tags of its set, and found in the first way.
// Method: tables of few and many sets that hold the tags of some of the keys, at the edge sizes,
//         with runs and without.
// Mutation: a lookup that reads the first ways of a set only, or another set, fails.
TYPED_TEST_P(BackendConformance, TagsFollowTheModel) {
  for (const std::uint64_t seed : model::seeds_to_run(4)) {
    SCOPED_TRACE(model::replay(seed));
    const auto backend = TypeParam::make(seed);
    for (const std::uint64_t size : {0, 1, 31, 32, 33, 63, 64, 65, 300, 4096, 20'000}) {
      Twin twin(*backend, seed + size, 8);
      twin.search_with_tags(size, 1 + size % 3);
      twin.build(size / 2);
      twin.search_with_tags(size, 1 + size / 8);
      twin.build(10);
      twin.search_with_tags(size, 1000);
      if (this->HasFatalFailure()) return;
    }
    ASSERT_LE(backend->tenant().used(), TypeParam::kIdleBytesMax) << "memory was not given back";
  }
}

// Goal: operations on numbers leave each key with what they would one after the other, on what
//   runs have of it that came since its base, or on that; where those have an operand nobody is
//   told a result.
// Method: batches of puts, deletions and merge operands on few or many keys, that have a value
//   before or not, at the edge sizes, begun before up to three runs of newer versions are built;
//   compared with a map.
// Mutation: walking a key's operations newest first, comparing bytes as numbers, taking a base that
//   a newer version hides, or the older of two versions, fails.
TYPED_TEST_P(BackendConformance, UpdatesFollowTheModel) {
  for (const std::uint64_t seed : model::seeds_to_run(20)) {
    SCOPED_TRACE(model::replay(seed));
    const auto backend = TypeParam::make(seed);
    base::Random random(seed);
    for (const std::uint64_t n : {0, 1, 2, 31, 32, 33, 64, 65, 300, 4097}) {
      const auto shape = model::random_shape(random);
      const std::uint64_t distinct = random.one_in(2) ? 1 + random.below(20) : n + 1;
      const NumberOp op = std::array{NumberOp::kAdd, NumberOp::kMax, NumberOp::kMin,
                                     NumberOp::kPut}[random.below(4)];
      const model::Updates updates(random, shape, n, distinct);
      const model::Columns columns(some_memory(*backend, random), updates.keys, random.one_in(2));
      exec::HostVector<std::uint64_t> result(some_memory(*backend, random));
      ASSERT_TRUE(result.reserve(n + 1));
      std::fill_n(result.extend(n + 1), n + 1, 3);
      const UpdatesRef ref{columns.ref(),       updates.operations.data(), updates.operands.data(),
                           updates.base.data(), updates.has_base.data(),   op};
      auto begun = backend->begin_update(ref);
      ASSERT_TRUE(begun.ok()) << begun.status().ToString();
      model::Updates::Newer newer;
      std::vector<RunPtr> runs;
      for (std::uint64_t i = random.below(4); i > 0; --i) {
        const model::Batch batch =
            updates.newer_batch(random, shape, 1 + random.below(200), (8 << 20) / i, 4, &newer);
        const model::Columns own(some_memory(*backend, random), batch.keys, random.one_in(2));
        auto run = backend->build_run(
            {own.ref(), batch.offsets.data(), batch.base, batch.values.data(), false}, nullptr);
        ASSERT_TRUE(run.ok()) << run.status().ToString();
        runs.insert(runs.begin(), run.take());
      }
      bool fits = false;
      const Status status = backend->finish_update(*begun.value(), runs, result.data(), &fits);
      ASSERT_TRUE(status.ok()) << status.ToString();
      ASSERT_EQ(fits, !updates.meets_operand(newer));
      if (!fits) continue;
      const auto expected = updates.results(op, newer);
      for (std::uint64_t i = 0; i < n; ++i) {
        if (!model::is_operand(updates.operations[i])) continue;
        ASSERT_EQ(result[i], expected[i]) << i << " of " << n;
      }
      ASSERT_EQ(result[n], 3U) << "written behind the end";
    }
    ASSERT_LE(backend->tenant().used(), TypeParam::kIdleBytesMax) << "memory was not given back";
  }
}

// Goal: client threads share a backend.
// Method: eight threads, each with its own stream of steps and its own runs.
// Mutation: sharing one work space or stream between calls mixes their answers.
TYPED_TEST_P(BackendConformance, ConcurrentStreams) {
  for (const std::uint64_t seed : model::seeds_to_run(3)) {
    SCOPED_TRACE(model::replay(seed));
    const auto backend = TypeParam::make(seed);
    std::vector<std::thread> clients;
    for (std::uint64_t client = 0; client < 8; ++client) {
      clients.emplace_back([&, client] {
        Twin twin(*backend, 100 * seed + client, 8);
        twin.random_steps(20, 300);
      });
    }
    for (std::thread& client : clients) client.join();
  }
}

// Goal: memory that was adopted is as good as the backend's own, and may be given up.
// Method: keys in adopted pages, built and searched; then the same pages unadopted.
// Mutation: a range that is still known after disown() is read by address after it moved.
TYPED_TEST_P(BackendConformance, AdoptedMemory) {
  constexpr std::size_t kBytes = 1 << 20;
  const auto backend = TypeParam::make(1);
  auto* const memory = static_cast<std::uint64_t*>(std::aligned_alloc(4096, kBytes));
  for (const bool adopted : {true, false, true}) {
    const bool reached = adopted && backend->device().adopt(memory, kBytes);
    constexpr std::uint64_t kCount = 30'000;
    std::vector<std::uint64_t> offsets(kCount);
    for (std::uint64_t i = 0; i < kCount; ++i) {
      memory[i] = base::mix64(i);
      offsets[i] = 8 * i + 1;
    }
    const record::KeyColumnsRef keys{memory, nullptr, nullptr, kCount, 0, 8};
    auto run = backend->build_run({keys, offsets.data(), 8, memory, false}, nullptr);
    ASSERT_TRUE(run.ok()) << run.status().ToString();
    const RunPtr runs[] = {run.take()};
    const FoundRef found{memory + kCount, memory + 2 * kCount};
    ASSERT_TRUE(backend->search(runs, QueriesRef{keys, nullptr, 1 << 30}, found).ok());
    for (std::uint64_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(found.payload[i], 8 + offsets[i]) << i;
      ASSERT_EQ(found.value[i], memory[i]) << i;
    }
    if (reached) backend->device().disown(memory);
  }
  std::free(memory);
}

// Goal: a backend says what it is and what it can do.
// Method: its description, limits and rates are asked for.
// Mutation: rates left at zero.
TYPED_TEST_P(BackendConformance, DescribesItself) {
  const auto backend = TypeParam::make(1);
  EXPECT_FALSE(backend->device().describe().empty());
  EXPECT_GT(backend->tenant().bytes_max(), 0U);
  const exec::Calibration& rates = backend->device().calibration();
  EXPECT_GT(rates.host_gather_rows_per_s, 0);
  EXPECT_GT(rates.launch_us, 0);
  if (TypeParam::kMeasuresCopies) {
    EXPECT_GT(rates.copy_in_bytes_per_s, 0);
    EXPECT_GT(rates.copy_out_bytes_per_s, 0);
    EXPECT_GT(rates.zero_copy_bytes_per_s, 0);
    EXPECT_GT(rates.zero_copy_accesses_per_s, 0);
  }
  void* const memory = backend->host_memory().allocate(100);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 64, 0U);
  backend->host_memory().release(memory, 100);
}

REGISTER_TYPED_TEST_SUITE_P(BackendConformance, StreamsFollowTheModel, EdgeSizes, ManyRuns,
                            TagsFollowTheModel, UpdatesFollowTheModel, ConcurrentStreams,
                            AdoptedMemory, DescribesItself);

}  // namespace breccia::runs::conformance
