#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "conformance/exec_model.h"
#include "exec/backend.h"

/// What every Backend must do. A `Maker` has `static std::unique_ptr<Backend> make(seed)`.
namespace breccia::exec::conformance {

/// Host memory as callers have it: any, or the backend's own.
inline HostMemory& some_memory(Backend& backend, base::Random& random) {
  return random.one_in(2) ? backend.host_memory() : plain_host_memory();
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
    }
  }
}

/// A backend beside the model of what it holds.
class Twin {
 public:
  Twin(Backend& backend, std::uint64_t seed, std::uint64_t first_payload)
      : backend_(backend), random_(seed), base_(first_payload) {
    shape_ = model::random_shape(random_);
  }

  void build(std::uint64_t count) {
    const auto batch = model::random_batch(random_, shape_, count, base_);
    base_ += 8 * 11 * (count + 1);
    const model::Columns columns(some_memory(backend_, random_), batch.keys, random_.one_in(2));
    HostVector<std::uint32_t> descriptors(some_memory(backend_, random_));
    ASSERT_TRUE(descriptors.reserve(count + 1));
    descriptors.extend(count + 1)[count] = 77;
    const bool described = random_.one_in(2);
    auto run = backend_.build_run(columns.ref(), batch.offsets.data(), batch.base, batch.sorted,
                                  described ? descriptors.data() : nullptr);
    ASSERT_TRUE(run.ok()) << run.status().ToString();
    runs_.insert(runs_.begin(), run.take());
    entries_.insert(entries_.begin(), batch.entries());
    expect_payloads(backend_, *runs_[0], entries_[0]);
    for (std::uint64_t i = 0; described && i < count; ++i) {
      ASSERT_EQ(descriptors[i], (entries_[0][i].payload - batch.base) >> 3) << i;
    }
    ASSERT_EQ(descriptors[count], 77U);
  }

  /// Merges the runs [first, first + count) in place.
  void merge(std::size_t first, std::size_t count, bool newest_only) {
    const auto begin = static_cast<std::ptrdiff_t>(first);
    const auto end = static_cast<std::ptrdiff_t>(first + count);
    auto run = backend_.merge_runs(std::span(runs_).subspan(first, count), newest_only);
    ASSERT_TRUE(run.ok()) << run.status().ToString();
    const std::vector<model::Entries> inputs(entries_.begin() + begin, entries_.begin() + end);
    runs_.erase(runs_.begin() + begin, runs_.begin() + end);
    entries_.erase(entries_.begin() + begin, entries_.begin() + end);
    runs_.insert(runs_.begin() + begin, run.take());
    entries_.insert(entries_.begin() + begin, model::merged(inputs, newest_only));
    expect_payloads(backend_, *runs_[first], entries_[first]);
  }

  void search(std::uint64_t count) {
    const auto keys = model::random_keys(random_, shape_, count);
    const model::Columns columns(some_memory(backend_, random_), keys, random_.one_in(2));
    HostVector<std::uint64_t> bounds(some_memory(backend_, random_));
    HostVector<std::uint64_t> found(some_memory(backend_, random_));
    ASSERT_TRUE(bounds.reserve(count + 1) && found.reserve(count + 1));
    const auto everything = model::merged(entries_, false);
    for (const std::string& key : keys) {
      bounds.push(model::random_bound(random_, everything, key, base_ + 8));
    }
    std::fill_n(found.extend(count + 1), count + 1, 3);
    const bool own_bounds = random_.one_in(2);
    const bool all = random_.one_in(2);
    const QueriesRef queries{columns.ref(), own_bounds ? bounds.data() : nullptr,
                             all ? ~std::uint64_t{0} : base_ / 2};
    const Status status = backend_.search(runs_, queries, found.data());
    ASSERT_TRUE(status.ok()) << status.ToString();
    for (std::uint64_t i = 0; i < count; ++i) {
      ASSERT_EQ(found[i], model::newest(everything, keys[i], queries.bound_at(i))) << i;
    }
    ASSERT_EQ(found[count], 3U) << "written behind the end";
  }

  void random_steps(int steps, std::uint64_t count_max) {
    for (int step = 0; step < steps && !testing::Test::HasFatalFailure(); ++step) {
      const std::uint64_t choice = random_.below(4);
      if (choice == 0 && runs_.size() > 1) {
        const std::size_t first = random_.below(runs_.size());
        merge(first, 1 + random_.below(runs_.size() - first), random_.one_in(2));
      } else if (choice <= 1) {
        build(random_.below(count_max));
      } else {
        search(random_.below(count_max));
      }
    }
  }
  [[nodiscard]] std::size_t runs() const { return runs_.size(); }

 private:
  Backend& backend_;
  base::Random random_;
  model::KeyShape shape_;
  std::uint64_t base_;
  std::vector<RunPtr> runs_;  // newest first
  std::vector<model::Entries> entries_;
};

template <class Maker>
class BackendConformance : public testing::Test {};
TYPED_TEST_SUITE_P(BackendConformance);

// Goal: any sequence of builds, merges and searches answers as the model does.
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
    ASSERT_LE(backend->memory_used(), TypeParam::kIdleBytesMax) << "memory was not given back";
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
      twin.build(64);
      twin.search(100);
      twin.merge(0, 2, seed % 2 == 0);
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
      if (runs == 1 || (runs >= 31 && runs <= 34) || runs == 128) twin.search(300);
      if (this->HasFatalFailure()) return;
    }
    twin.merge(0, 128, true);
    twin.search(300);
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
    const bool reached = adopted && backend->adopt(memory, kBytes);
    constexpr std::uint64_t kCount = 30'000;
    std::vector<std::uint64_t> offsets(kCount);
    for (std::uint64_t i = 0; i < kCount; ++i) {
      memory[i] = base::mix64(i);
      offsets[i] = 8 * i + 1;
    }
    const KeyColumnsRef keys{memory, nullptr, nullptr, kCount, 0, 8};
    auto run = backend->build_run(keys, offsets.data(), 8, false, nullptr);
    ASSERT_TRUE(run.ok()) << run.status().ToString();
    const RunPtr runs[] = {run.take()};
    std::uint64_t* const found = memory + kCount;
    ASSERT_TRUE(backend->search(runs, QueriesRef{keys, nullptr, 1 << 30}, found).ok());
    for (std::uint64_t i = 0; i < kCount; ++i) ASSERT_EQ(found[i], 8 + offsets[i]) << i;
    if (reached) backend->disown(memory);
  }
  std::free(memory);
}

// Goal: a backend says what it is and what it can do.
// Method: its description, limits and rates are asked for.
// Mutation: rates left at zero.
TYPED_TEST_P(BackendConformance, DescribesItself) {
  const auto backend = TypeParam::make(1);
  EXPECT_FALSE(backend->describe().empty());
  EXPECT_GT(backend->memory_limit(), 0U);
  const Calibration& rates = backend->calibration();
  EXPECT_GT(rates.host_gather_rows_per_s, 0);
  EXPECT_GT(rates.launch_us, 0);
  if (backend->kind() == BackendKind::kCuda) {
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
                            ConcurrentStreams, AdoptedMemory, DescribesItself);

}  // namespace breccia::exec::conformance
