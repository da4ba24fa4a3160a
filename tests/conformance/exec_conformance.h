#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "conformance/runs_model.h"
#include "runs/algo/runs.cuh"
#include "runs/algo/search_wide.cuh"

/// What every executor must do (the contract of exec/executor.h), and what the
/// algorithms over it must do. A `Rig` is made from a seed and has `x()`, its executor.
namespace breccia::exec::conformance {

template <class T, class X>
Array<T> put(X& x, const std::vector<T>& values) {
  auto array = Array<T>::make(x.pool(), values.size());
  EXPECT_TRUE(array.ok());
  auto imported = x.import(values.data(), values.size());
  EXPECT_TRUE(imported.ok()) << imported.status().ToString();
  EXPECT_TRUE(x.copy(array.value().data(), imported.value().data(), values.size()).ok());
  EXPECT_TRUE(x.finish().ok());
  return array.take();
}

template <class T, class X>
std::vector<T> get(X& x, const T* from, std::uint64_t count) {
  std::vector<T> values(count);
  EXPECT_TRUE(x.copy_out(values.data(), from, count).ok());
  EXPECT_TRUE(x.finish().ok());
  return values;
}

template <class X>
runs::model::Entries read_run(X& x, const runs::RunRef& run) {
  const std::uint64_t n = run.keys.count;
  const auto head = get(x, run.keys.head, n);
  const auto meta = get(x, run.keys.meta, run.keys.uniform() ? 0 : n);
  const auto tail = get(x, run.keys.tail, run.keys.tail_count);
  const auto payload = get(x, run.payload, n);
  const auto fence = get(x, run.fence, runs::fence_count(n));
  for (std::uint64_t j = 0; j < fence.size(); ++j)
    EXPECT_EQ(fence[j], head[j * runs::kFenceStride]);
  record::KeyColumnsRef keys = run.keys;
  keys.head = head.data();
  keys.meta = meta.data();
  keys.tail = tail.data();
  runs::model::Entries entries;
  for (std::uint64_t i = 0; i < n; ++i)
    entries.push_back({runs::model::key_at(keys, i), payload[i]});
  return entries;
}

/// Each lane says what it saw of its group: its own value, the vote, one lane's value.
struct Probe {
  std::uint64_t* own;
  std::uint64_t* vote;
  std::uint64_t* told;
  std::uint64_t count;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const auto value = group.per_lane(
        [&](int lane) { return (first + static_cast<std::uint64_t>(lane)) * 3 + 1; });
    const LaneMask odd = group.ballot([&](int lane) { return value[lane] % 2 == 1; });
    const int source = first_set(odd);
    const std::uint64_t one = group.from(source, [&](int lane) { return value[lane]; });
    group.each_lane([&](int lane) {
      const std::uint64_t i = first + static_cast<std::uint64_t>(lane);
      if (i >= count) return;
      own[i] = value[lane];
      vote[i] = odd;
      told[i] = one;
    });
  }
};

template <class Rig>
class ExecConformance : public testing::Test {};
TYPED_TEST_SUITE_P(ExecConformance);

template <int W, class X>
void probe_groups(X& x, std::uint64_t n) {
  const std::vector<std::uint64_t> unset(n, ~std::uint64_t{0});
  const auto own = put(x, unset);
  const auto vote = put(x, unset);
  const auto told = put(x, unset);
  ASSERT_TRUE((x.template launch<W>(n, Probe{own.data(), vote.data(), told.data(), n})).ok());
  const auto got_own = get(x, own.data(), n);
  const auto got_vote = get(x, vote.data(), n);
  const auto got_told = get(x, told.data(), n);
  for (std::uint64_t i = 0; i < n; ++i) {
    const std::uint64_t first = i / W * W;
    std::uint64_t odd = 0;
    for (std::uint64_t lane = 0; lane < W; ++lane) {
      odd |= ((first + lane) * 3 + 1) % 2 << lane;
    }
    ASSERT_EQ(got_own[i], i * 3 + 1) << "width " << W << " of " << n;
    ASSERT_EQ(got_vote[i], odd) << "width " << W << " of " << n;
    ASSERT_EQ(got_told[i], (first + std::countr_zero(odd)) * 3 + 1) << "width " << W;
  }
}

// Goal: every lane of every group runs once, sees its own results, the group's vote and one lane's.
// Method: lanes write down what they saw, at the sizes around group and block ends.
// Mutation: a group one lane too narrow at its end leaves the last item unset.
TYPED_TEST_P(ExecConformance, GroupsKeepTheLaneContract) {
  for (const std::uint64_t seed : runs::model::seeds_to_run(3)) {
    SCOPED_TRACE(runs::model::replay(seed));
    TypeParam rig(seed);
    for (const std::uint64_t n : {0, 1, 2, 31, 32, 33, 63, 64, 65, 255, 256, 257, 1000}) {
      // A group of one whose only value is even has no odd lane to ask.
      probe_groups<4>(rig.x(), n);
      probe_groups<8>(rig.x(), n);
      probe_groups<16>(rig.x(), n);
      probe_groups<32>(rig.x(), n);
    }
  }
}

/// The same for groups of one lane, whose vote may be empty.
struct ProbeAlone {
  std::uint64_t* seen;
  std::uint64_t count;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const LaneMask odd = group.ballot([&](int) { return first % 2 == 1; });
    const std::uint64_t told = group.from(0, [&](int) { return first * 2; });
    group.each_lane([&](int lane) {
      const std::uint64_t i = first + static_cast<std::uint64_t>(lane);
      if (i < count) seen[i] = told + odd;
    });
  }
};

// Goal: a group of one lane is a thread by itself.
// Method: as above, for width 1.
// Mutation: a ballot over the whole warp gives wrong votes.
TYPED_TEST_P(ExecConformance, GroupsOfOneLane) {
  for (const std::uint64_t seed : runs::model::seeds_to_run(3)) {
    SCOPED_TRACE(runs::model::replay(seed));
    TypeParam rig(seed);
    for (const std::uint64_t n : {0, 1, 31, 257, 1000}) {
      const auto seen = put(rig.x(), std::vector<std::uint64_t>(n, 7));
      ASSERT_TRUE((rig.x().template launch<1>(n, ProbeAlone{seen.data(), n})).ok());
      const auto got = get(rig.x(), seen.data(), n);
      for (std::uint64_t i = 0; i < n; ++i) ASSERT_EQ(got[i], i * 2 + i % 2);
    }
  }
}

inline std::vector<std::uint64_t> random_words(base::Random& random, std::uint64_t n) {
  // Few bits in one of the bytes only, or many everywhere, or few in the first bytes and many
  // behind those: radix sorts skip equal bytes, and may look at the last ones of neighbours alone.
  const std::array<std::uint64_t, 3> masks = {
      ~std::uint64_t{0}, std::uint64_t{0x1f} << 8 * random.below(8), 0x0100'0301'00ff'ffff};
  const std::uint64_t mask = masks[random.below(masks.size())];
  const std::uint64_t common = random.next() & ~mask;
  std::vector<std::uint64_t> words;
  for (std::uint64_t i = 0; i < n; ++i) words.push_back(common | (random.next() & mask));
  return words;
}

inline std::vector<std::uint32_t> counted(std::uint64_t n) {
  std::vector<std::uint32_t> ids(n);
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

// Goal: sort_pairs sorts pairs by key and keeps the order of equal keys.
// Method: words with many repeats at the edge sizes, compared with std::stable_sort.
// Mutation: merging parts with < instead of <= swaps equal keys.
TYPED_TEST_P(ExecConformance, SortPairs) {
  for (const std::uint64_t seed : runs::model::seeds_to_run(4)) {
    SCOPED_TRACE(runs::model::replay(seed));
    TypeParam rig(seed);
    base::Random random(seed);
    std::vector<std::uint64_t> sizes = runs::model::edge_sizes();
    sizes.push_back(300'000 + random.below(100'000));
    for (const std::uint64_t n : sizes) {
      const auto words = random_words(random, n);
      auto expected = counted(n);
      std::stable_sort(expected.begin(), expected.end(),
                       [&](auto a, auto b) { return words[a] < words[b]; });
      const auto keys = put(rig.x(), words);
      const auto ids = put(rig.x(), counted(n));
      ASSERT_TRUE(rig.x().sort_pairs(keys.data(), ids.data(), n).ok());
      ASSERT_EQ(get(rig.x(), ids.data(), n), expected) << n;
      auto sorted = words;
      std::sort(sorted.begin(), sorted.end());
      ASSERT_EQ(get(rig.x(), keys.data(), n), sorted) << n;
    }
  }
}

/// Compares ids by words that repeat much.
struct WordLess {
  const std::uint64_t* word;
  BRECCIA_HD bool operator()(std::uint32_t a, std::uint32_t b) const { return word[a] < word[b]; }
};

// Goal: stable_sort and merge put ids in order and keep equal ones as they came, `a` before `b`.
// Method: words with at most 16 values, compared with the standard library.
// Mutation: a merge that takes equal entries of `b` first fails at once.
TYPED_TEST_P(ExecConformance, StableSortAndMerge) {
  for (const std::uint64_t seed : runs::model::seeds_to_run(4)) {
    SCOPED_TRACE(runs::model::replay(seed));
    TypeParam rig(seed);
    base::Random random(seed);
    for (const std::uint64_t n : runs::model::edge_sizes()) {
      std::vector<std::uint64_t> words(n);
      for (std::uint64_t& word : words) word = random.below(16);
      const auto device_words = put(rig.x(), words);
      const auto host_less = [&](auto a, auto b) { return words[a] < words[b]; };
      const WordLess less{device_words.data()};

      const auto ids = put(rig.x(), counted(n));
      ASSERT_TRUE(rig.x().stable_sort(ids.data(), n, less).ok());
      auto expected = counted(n);
      std::stable_sort(expected.begin(), expected.end(), host_less);
      ASSERT_EQ(get(rig.x(), ids.data(), n), expected) << n;

      const auto cut = static_cast<std::int64_t>(random.one_in(4) ? 0 : random.below(n + 1));
      auto sides = counted(n);
      std::stable_sort(sides.begin(), sides.begin() + cut, host_less);
      std::stable_sort(sides.begin() + cut, sides.end(), host_less);
      std::merge(sides.begin(), sides.begin() + cut, sides.begin() + cut, sides.end(),
                 expected.begin(), host_less);
      const auto in = put(rig.x(), sides);
      ASSERT_TRUE(rig.x().merge(in.data(), cut, in.data() + cut, n - cut, ids.data(), less).ok());
      ASSERT_EQ(get(rig.x(), ids.data(), n), expected) << n << " cut at " << cut;
    }
  }
}

// Goal: exclusive_scan, select and difference answer on the host, select_here where it ran; at
//   every size.
// Method: random input at the edge sizes, compared with plain loops; the scan also in place.
// Mutation: a total taken after an in-place scan counts the last word twice or not at all.
TYPED_TEST_P(ExecConformance, ScanSelectDifference) {
  for (const std::uint64_t seed : runs::model::seeds_to_run(4)) {
    SCOPED_TRACE(runs::model::replay(seed));
    TypeParam rig(seed);
    base::Random random(seed);
    for (const std::uint64_t n : runs::model::edge_sizes()) {
      const auto words = random_words(random, n);
      std::vector<std::uint64_t> sums(n);
      std::exclusive_scan(words.begin(), words.end(), sums.begin(), std::uint64_t{0});
      const auto in = put(rig.x(), words);
      std::uint64_t answer = 5;
      ASSERT_TRUE(rig.x().difference(in.data(), n, &answer).ok());
      std::uint64_t bits = 0;
      for (const std::uint64_t word : words) bits |= word ^ words[0];
      ASSERT_EQ(answer, bits) << n;
      ASSERT_TRUE(rig.x().exclusive_scan(in.data(), in.data(), n, &answer).ok());
      ASSERT_EQ(get(rig.x(), in.data(), n), sums) << n;
      ASSERT_EQ(answer, std::accumulate(words.begin(), words.end(), std::uint64_t{0}));

      std::vector<std::uint8_t> flags(n);
      std::vector<std::uint32_t> expected;
      const std::uint64_t share = 1 + random.below(4);
      for (std::uint64_t i = 0; i < n; ++i) {
        flags[i] = random.one_in(share);
        if (flags[i] != 0) expected.push_back(static_cast<std::uint32_t>(i));
      }
      const auto device_flags = put(rig.x(), flags);
      const auto ids = put(rig.x(), counted(n));
      const auto kept = put(rig.x(), counted(n));
      ASSERT_TRUE(rig.x().select(ids.data(), device_flags.data(), n, kept.data(), &answer).ok());
      ASSERT_EQ(answer, expected.size());
      ASSERT_EQ(get(rig.x(), kept.data(), answer), expected) << n;

      const auto kept_here = put(rig.x(), counted(n));
      const auto count_here = put(rig.x(), std::vector<std::uint64_t>{5});
      ASSERT_TRUE(rig.x().make_room_to_select(n).ok());
      ASSERT_TRUE(
          rig.x()
              .select_here(ids.data(), device_flags.data(), n, kept_here.data(), count_here.data())
              .ok());
      ASSERT_EQ(get(rig.x(), count_here.data(), 1).front(), expected.size()) << n;
      ASSERT_EQ(get(rig.x(), kept_here.data(), answer), expected) << n;
    }
  }
}

// Goal: Gather and Scatter are each other's inverse.
// Method: a random permutation there and back.
// Mutation: swapping index and position in either fails.
TYPED_TEST_P(ExecConformance, GatherAndScatter) {
  for (const std::uint64_t seed : runs::model::seeds_to_run(4)) {
    SCOPED_TRACE(runs::model::replay(seed));
    TypeParam rig(seed);
    base::Random random(seed);
    for (const std::uint64_t n : runs::model::edge_sizes()) {
      auto order = counted(n);
      std::shuffle(order.begin(), order.end(), random);
      const auto words = random_words(random, n);
      const auto source = put(rig.x(), words);
      const auto index = put(rig.x(), order);
      const auto there = put(rig.x(), std::vector<std::uint64_t>(n));
      const auto back = put(rig.x(), std::vector<std::uint64_t>(n));
      ASSERT_TRUE(
          (rig.x().template launch<32>(
               n, runs::algo::Gather<std::uint64_t>{source.data(), index.data(), n, there.data()}))
              .ok());
      ASSERT_TRUE(
          (rig.x().template launch<8>(
               n, runs::algo::Scatter<std::uint64_t>{there.data(), index.data(), n, back.data()}))
              .ok());
      const auto gathered = get(rig.x(), there.data(), n);
      for (std::uint64_t i = 0; i < n; ++i) ASSERT_EQ(gathered[i], words[order[i]]);
      ASSERT_EQ(get(rig.x(), back.data(), n), words);
    }
  }
}

// Goal: sort_keys puts keys of any kind in byte order, the newest of equal keys first.
// Method: every key shape at several sizes, and keys of up to 64 KiB, compared with std::string.
// Mutation: comparing lengths before words, or leaving ties unbroken, fails on nasty keys.
TYPED_TEST_P(ExecConformance, SortKeys) {
  for (const std::uint64_t seed : runs::model::seeds_to_run(6)) {
    SCOPED_TRACE(runs::model::replay(seed));
    TypeParam rig(seed);
    base::Random random(seed);
    for (const std::uint64_t n : {0, 1, 2, 33, 64, 1000, 5000}) {
      const auto shape = runs::model::random_shape(random);
      auto keys = runs::model::random_keys(random, shape, n);
      if (n == 33) {
        keys[5] = keys[7] = std::string(64 << 10, 'p');
        keys[9] = std::string((64 << 10) - 1, 'p');
        keys[11] = keys[9] + "q";
      }
      auto expected = counted(n);
      std::reverse(expected.begin(), expected.end());
      std::stable_sort(expected.begin(), expected.end(),
                       [&](auto a, auto b) { return keys[a] < keys[b]; });
      const runs::model::Columns columns(plain_host_memory(), keys, random.one_in(2));
      record::KeyColumnsRef ref = columns.ref();
      auto head = rig.x().import(ref.head, n);
      auto meta = rig.x().import(ref.meta, ref.uniform() ? 0 : n);
      auto tail = rig.x().import(ref.tail, ref.tail_count);
      ASSERT_TRUE(head.ok() && meta.ok() && tail.ok());
      ref.head = head.value().data();
      ref.meta = meta.value().data();
      ref.tail = tail.value().data();
      const auto ids = put(rig.x(), counted(n));
      ASSERT_TRUE(runs::algo::sort_keys(rig.x(), ref, ids.data()).ok());
      ASSERT_EQ(get(rig.x(), ids.data(), n), expected) << n;
    }
  }
}

template <class X>
Result<runs::algo::RunArrays> build(X& x, const runs::model::Batch& batch, bool allow_uniform,
                                    std::vector<std::uint32_t>* descriptors) {
  const runs::model::Columns columns(plain_host_memory(), batch.keys, allow_uniform);
  return runs::algo::build_run(x, batch.ref(columns.ref(), /*with_values=*/false),
                               descriptors->data());
}

/// Searches with W lanes on each query; `narrow` is what a search with a lane each found.
template <int W, class X>
void search_wide(X& x, const std::vector<runs::RunRef>& runs, const runs::QueriesRef& host,
                 const std::vector<std::uint64_t>& narrow) {
  const std::uint64_t n = host.keys.count;
  auto head = x.import(host.keys.head, n);
  auto meta = x.import(host.keys.meta, host.keys.uniform() ? 0 : n);
  auto tail = x.import(host.keys.tail, host.keys.tail_count);
  auto bound = x.import(host.bound, host.bound == nullptr ? 0 : n);
  auto refs = x.import(runs.data(), runs.size());
  ASSERT_TRUE(head.ok() && meta.ok() && tail.ok() && bound.ok() && refs.ok());
  runs::QueriesRef queries = host;
  queries.keys.head = head.value().data();
  queries.keys.meta = meta.value().data();
  queries.keys.tail = tail.value().data();
  queries.bound = host.bound == nullptr ? nullptr : bound.value().data();
  const auto found = put(x, std::vector<std::uint64_t>(n, 3));
  const runs::algo::SearchWide search{
      refs.value().data(), static_cast<int>(runs.size()), queries, {found.data()}};
  ASSERT_TRUE((x.template launch<W>(n * W, search)).ok());
  ASSERT_EQ(get(x, found.data(), n), narrow) << "width " << W;
}

// Goal: batches become runs, runs merge, and searches find the newest version below their bound.
// Method: random batches of every key shape, compared with sorted vectors of strings.
// Mutation: taking payloads at the bound, or oldest runs first, fails within a few seeds.
TYPED_TEST_P(ExecConformance, RunsFollowTheModel) {
  for (const std::uint64_t seed : runs::model::seeds_to_run(40)) {
    SCOPED_TRACE(runs::model::replay(seed));
    TypeParam rig(seed);
    base::Random random(seed);
    const auto shape = runs::model::random_shape(random);
    std::vector<runs::algo::RunArrays> runs;
    std::vector<runs::model::Entries> expected;
    std::uint64_t base = 8 + random.below(1000) * 8;
    for (std::uint64_t r = 1 + random.below(5); r > 0; --r) {
      const auto batch = runs::model::random_batch(random, shape, random.below(400), base);
      std::vector<std::uint32_t> descriptors(batch.keys.size() + 1);
      auto run = build(rig.x(), batch, random.one_in(2), &descriptors);
      ASSERT_TRUE(run.ok()) << run.status().ToString();
      runs.insert(runs.begin(), run.take());
      expected.insert(expected.begin(), batch.entries());
      ASSERT_EQ(read_run(rig.x(), runs[0].ref()), expected[0]);
      for (std::size_t i = 0; i < expected[0].size(); ++i) {
        ASSERT_EQ(descriptors[i], (expected[0][i].payload - batch.base) >> 3);
      }
      base += 8 * 11 * 400;
    }
    std::vector<runs::RunRef> refs;
    for (const auto& run : runs) refs.push_back(run.ref());
    const auto all = runs::model::merged(expected, runs::Keep::kAll);
    for (const runs::Keep keep : runs::model::kEveryKeep) {
      auto merged = runs::algo::merge_runs(rig.x(), refs, keep);
      ASSERT_TRUE(merged.ok()) << merged.status().ToString();
      ASSERT_EQ(read_run(rig.x(), merged.value().ref()), runs::model::merged(expected, keep));
    }
    const auto keys = runs::model::random_keys(random, shape, random.below(200));
    const runs::model::Columns columns(plain_host_memory(), keys, random.one_in(2));
    std::vector<std::uint64_t> bounds(keys.size() + 1);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      bounds[i] = runs::model::random_bound(random, all, keys[i], base + 8);
    }
    const bool own_bounds = random.one_in(2);
    const runs::QueriesRef queries{columns.ref(), own_bounds ? bounds.data() : nullptr, base / 2};
    std::vector<std::uint64_t> found(keys.size() + 1, 3);
    ASSERT_TRUE(runs::algo::search(rig.x(), refs, queries, {found.data()}).ok());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      ASSERT_EQ(found[i], runs::model::newest(all, keys[i], queries.bound_at(i))) << i;
    }
    ASSERT_EQ(found[keys.size()], 3U) << "written behind the end";
    found.pop_back();
    search_wide<8>(rig.x(), refs, queries, found);
    search_wide<32>(rig.x(), refs, queries, found);
  }
}

// Goal: several lanes on each query find what one lane finds, in runs of many fences.
// Method: runs of all key shapes, with few keys of many versions or many that share heads, of sizes
//         around those of blocks and of what lanes look at at once; keys in them and not, below
//         bounds; payloads are known by the number of their entry.
// Mutation: the block behind the right one; heads behind the run's end that count; entries behind
//           those that a group looks at that are passed over; a version at the bound.
TYPED_TEST_P(ExecConformance, ManyLanesFindTheSame) {
  for (const std::uint64_t seed : runs::model::seeds_to_run(20)) {
    SCOPED_TRACE(runs::model::replay(seed));
    TypeParam rig(seed);
    base::Random random(seed);
    const std::uint64_t counts[] = {1, 63, 64, 65, 127, 4096, 1000 + random.below(9000)};
    const auto shape = runs::model::random_shape(random);
    std::vector<runs::algo::RunArrays> runs;
    std::vector<runs::RunRef> refs;
    std::vector<std::string> keys;
    std::uint64_t base = 8;
    for (std::uint64_t r = 1 + random.below(3); r > 0; --r) {
      auto batch = runs::model::random_batch(random, shape, counts[random.below(7)], base);
      if (random.one_in(3)) {  // few keys with many versions
        const std::size_t few = 1 + random.below(5);
        for (std::size_t i = few; i < batch.keys.size(); ++i) batch.keys[i] = batch.keys[i % few];
        batch.sorted = false;
      }
      for (std::size_t i = 0; i < batch.keys.size(); i += 1 + batch.keys.size() / 40) {
        keys.push_back(batch.keys[i]);
      }
      std::vector<std::uint32_t> descriptors(batch.keys.size() + 1);
      auto run = build(rig.x(), batch, random.one_in(2), &descriptors);
      ASSERT_TRUE(run.ok()) << run.status().ToString();
      runs.insert(runs.begin(), run.take());
      base += 8 * 11 * 10'000;
    }
    for (const auto& run : runs) refs.push_back(run.ref());
    for (const auto& key : runs::model::random_keys(random, shape, 60)) keys.push_back(key);
    const runs::model::Columns columns(plain_host_memory(), keys, random.one_in(2));
    std::vector<std::uint64_t> bounds(keys.size());
    for (std::uint64_t& bound : bounds) bound = random.below(base);
    const runs::QueriesRef queries{columns.ref(), random.one_in(2) ? bounds.data() : nullptr, base};
    std::vector<std::uint64_t> found(keys.size());
    ASSERT_TRUE(runs::algo::search(rig.x(), refs, queries, {found.data()}).ok());
    search_wide<4>(rig.x(), refs, queries, found);
    search_wide<16>(rig.x(), refs, queries, found);
    search_wide<32>(rig.x(), refs, queries, found);
  }
}

// Goal: a merge that keeps stacks keeps of each key the newest version, and below operands all down
//   to the first version that is none.
// Method: few keys with many versions, mostly operands, at the edge sizes: stacks of one entry up
// to
//   stacks that are longer than a block, in one run and over several.
// Mutation: ending a stretch before its base instead of behind it, or not at the next key, fails.
TYPED_TEST_P(ExecConformance, MergesKeepStacks) {
  for (const std::uint64_t seed : runs::model::seeds_to_run(12)) {
    SCOPED_TRACE(runs::model::replay(seed));
    TypeParam rig(seed);
    base::Random random(seed);
    for (const std::uint64_t n : {0, 1, 2, 31, 32, 33, 63, 64, 65, 257, 1000, 5000}) {
      const std::uint64_t distinct = 1 + random.below(20);
      const std::uint64_t operands_in = 1 + random.below(200);  // all but one in so many
      std::vector<runs::algo::RunArrays> runs;
      std::vector<runs::model::Entries> expected;
      std::uint64_t base = 8;
      for (std::uint64_t r = 1 + random.below(4); r > 0; --r) {
        runs::model::Batch batch;
        batch.base = base;
        for (std::uint64_t i = 0; i < n; ++i) {
          batch.keys.push_back(
              runs::model::random_key(random, runs::model::KeyShape::kUniform16, distinct));
          batch.offsets.push_back(8 * i | (random.one_in(operands_in) ? random.below(4) : 2));
        }
        base += 8 * (n + 1);
        std::vector<std::uint32_t> descriptors(n);
        auto run = build(rig.x(), batch, random.one_in(2), &descriptors);
        ASSERT_TRUE(run.ok()) << run.status().ToString();
        runs.push_back(run.take());
        expected.push_back(batch.entries());
      }
      std::vector<runs::RunRef> refs;
      for (const auto& run : runs) refs.push_back(run.ref());
      for (const runs::Keep keep : runs::model::kEveryKeep) {
        auto merged = runs::algo::merge_runs(rig.x(), refs, keep);
        ASSERT_TRUE(merged.ok()) << merged.status().ToString();
        ASSERT_EQ(read_run(rig.x(), merged.value().ref()), runs::model::merged(expected, keep))
            << n;
      }
    }
  }
}

// Goal: import, copy_out and reach work from any host memory and at any length.
// Method: words there and back; where reach offers a place, a kernel writes there.
// Mutation: staging that forgets its last part loses the end of the long one.
TYPED_TEST_P(ExecConformance, CopiesAndReach) {
  for (const std::uint64_t seed : runs::model::seeds_to_run(4)) {
    SCOPED_TRACE(runs::model::replay(seed));
    TypeParam rig(seed);
    base::Random random(seed);
    for (const std::uint64_t n : {0, 1, 4097, 100'000, 262'144, 524'289, 1'000'003}) {
      const auto words = random_words(random, n);
      const auto array = put(rig.x(), words);
      ASSERT_EQ(get(rig.x(), array.data(), n), words) << n;
    }
    HostVector<std::uint64_t> host(rig.host_memory());
    ASSERT_TRUE(host.reserve(100));
    std::fill_n(host.extend(100), 100, 9);
    const auto index = put(rig.x(), counted(100));
    if (std::uint64_t* const there = rig.x().reach(host.data())) {
      const auto source = put(rig.x(), std::vector<std::uint64_t>(100, 4));
      ASSERT_TRUE(
          (rig.x().template launch<32>(
               100, runs::algo::Gather<std::uint64_t>{source.data(), index.data(), 100, there}))
              .ok());
      ASSERT_TRUE(rig.x().finish().ok());
      for (std::uint64_t i = 0; i < 100; ++i) ASSERT_EQ(host[i], 4U);
    }
  }
}

REGISTER_TYPED_TEST_SUITE_P(ExecConformance, GroupsKeepTheLaneContract, GroupsOfOneLane, SortPairs,
                            StableSortAndMerge, ScanSelectDifference, GatherAndScatter, SortKeys,
                            RunsFollowTheModel, ManyLanesFindTheSame, MergesKeepStacks,
                            CopiesAndReach);

}  // namespace breccia::exec::conformance
