#include <benchmark/benchmark.h>
#include <breccia/batch.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/prefetch.h"
#include "base/random.h"
#include "batch/answers.h"
#include "batch/requests.h"
#include "exec/host_vector.h"

/// What it costs to gather values that lie all over main memory into a batch, past the caches, as
/// beside a device. Items are values.

namespace breccia::batch {

namespace {

constexpr std::uint64_t kRecordBytes = 128;
constexpr std::uint64_t kKeyEnd = 24;  // where a record's value begins
constexpr std::uint64_t kAhead = 24;   // as the reader fetches them

/// Records in an order that no cache knows.
struct Records {
  explicit Records(std::uint64_t lookups) : bytes(exec::plain_host_memory()) {
    constexpr std::uint64_t kBytes = 512 << 20;
    if (!bytes.reserve(kBytes)) std::abort();
    std::fill_n(bytes.extend(kBytes), kBytes, 'v');
    base::Random random(1);
    for (std::uint64_t i = 0; i < lookups; ++i) {
      places.push_back(random.below(kBytes / kRecordBytes) * kRecordBytes);
    }
  }
  exec::HostVector<char> bytes;
  std::vector<std::uint64_t> places;
};

void BM_KeepValues(benchmark::State& state) {
  const auto n = static_cast<std::uint64_t>(state.range(0));
  const auto value_bytes = static_cast<std::uint64_t>(state.range(1));
  const Records records(n);
  Requests requests(exec::shared_plain_host_memory());
  for (std::uint64_t i = 0; i < n; ++i) {
    if (!requests.add_read(kDefaultFamily, "16 bytes of keys").ok()) std::abort();
  }
  Reads* const reads = requests.reads().front().get();
  const char* const bytes = records.bytes.data();
  const std::uint64_t* const places = records.places.data();
  for (auto _ : state) {
    if (!requests.prepare_results(1, /*with_bounds=*/false)) std::abort();
    Answers answers(reads, &requests.arena(0));
    answers.stream_values();
    const std::uint64_t end = answers.add_values(0, n, [&](std::uint64_t i) {
      if (i + kAhead < n) {
        const char* const next = bytes + places[i + kAhead];
        base::prefetch_far(next);
        base::prefetch_far(next + kRecordBytes / 2);
      }
      return Slice(bytes + places[i] + kKeyEnd, value_bytes);
    });
    if (end != n) std::abort();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

}  // namespace

BENCHMARK(BM_KeepValues)
    ->ArgNames({"n", "value"})
    ->ArgsProduct({{1 << 18, 1 << 20}, {100}})
    ->UseRealTime();

}  // namespace breccia::batch
