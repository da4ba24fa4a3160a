#include "batch/key_order.h"

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <memory>

#include "base/random.h"
#include "batch/requests.h"
#include "bench/ycsb/generators.h"

/// The order per key of a batch of n requests with keys of 16 bytes out of a million, every second
/// one a lookup: uniform, and Zipfian with 0.99. Items are requests.

namespace breccia::batch {

namespace {

constexpr std::uint64_t kKeys = 1 << 20;

std::unique_ptr<Requests> make_batch(std::uint64_t requests, bool zipfian) {
  auto batch = std::make_unique<Requests>(exec::shared_plain_host_memory());
  base::Random random(1);
  bench::ScrambledZipfianGenerator popular;
  for (std::uint64_t i = 0; i < requests; ++i) {
    const std::uint64_t id = zipfian ? popular.next(kKeys, &random) : random.below(kKeys);
    const std::uint64_t words[] = {base::mix64(id), id};
    const Slice key(reinterpret_cast<const char*>(words), sizeof words);
    const Status status = i % 2 == 0 ? batch->add_read(kDefaultFamily, key)
                                     : batch->add_write(record::Op::kPut, kDefaultFamily, key, key);
    if (!status.ok()) std::abort();
  }
  return batch;
}

void BM_KeyOrder(benchmark::State& state) {
  const auto batch = make_batch(state.range(0), state.range(1) != 0);
  KeyOrder order(exec::plain_host_memory());
  for (auto _ : state) {
    if (!order.build(batch->writes()[0].get(), batch->reads()[0].get())) std::abort();
  }
  state.counters["shared"] = static_cast<double>(order.shared().size());
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

BENCHMARK(BM_KeyOrder)
    ->ArgNames({"n", "zipfian"})
    ->ArgsProduct({{64, 4 << 10, 64 << 10, 1 << 20}, {0, 1}})
    ->UseRealTime();

}  // namespace

}  // namespace breccia::batch
