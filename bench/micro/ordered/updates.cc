#include <benchmark/benchmark.h>
#include <breccia/merge_operators.h>
#include <breccia/options.h>
#include <breccia/store.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "bench/ycsb/generators.h"

/// Batches of n additions to keys of 16 bytes that lie in the tree, a million of them: uniform, and
/// Zipfian with 0.99. Each batch finds memory empty. Items are requests.

namespace breccia {

namespace {

constexpr std::uint64_t kKeys = 1 << 20;
constexpr std::uint64_t kLoadRequests = 64 << 10;

std::string key_of(std::uint64_t id) {
  const std::uint64_t words[] = {base::mix64(id), id};
  return {reinterpret_cast<const char*>(words), sizeof words};
}

/// A store with all keys in its tree; one for all benchmarks, as filling it takes seconds.
class FullStore {
 public:
  FullStore() {
    std::filesystem::remove_all(folder_);
    Options options;
    options.create_if_missing = true;
    options.backend = BackendChoice::kHost;
    options.rocksdb.info_log_level = rocksdb::InfoLogLevel::FATAL_LEVEL;
    options.rocksdb.merge_operator = NewInt64AddOperator();
    if (!Store::Open(options, folder_, &store_).ok()) std::abort();
    const std::string value(8, '\0');
    for (std::uint64_t id = 0; id < kKeys;) {
      Batch batch;
      for (std::uint64_t i = 0; i < kLoadRequests; ++i, ++id) {
        if (!batch.Put(key_of(id), value).ok()) std::abort();
      }
      if (!store_->Submit({}, &batch).ok()) std::abort();
    }
  }
  ~FullStore() {
    store_.reset();
    std::filesystem::remove_all(folder_);
  }
  Store* operator->() { return store_.get(); }

 private:
  const std::string folder_ = "/dev/shm/breccia-micro-updates";
  std::unique_ptr<Store> store_;
};

void BM_Updates(benchmark::State& state) {
  static FullStore store;
  base::Random random(1);
  bench::ScrambledZipfianGenerator popular;
  const std::string one("\1\0\0\0\0\0\0\0", 8);
  for (auto _ : state) {
    state.PauseTiming();
    if (!store->Flush().ok()) std::abort();
    Batch batch;
    for (std::int64_t i = 0; i < state.range(0); ++i) {
      const bool zipfian = state.range(1) != 0;
      const std::uint64_t id = zipfian ? popular.next(kKeys, &random) : random.below(kKeys);
      if (!batch.Merge(key_of(id), one).ok()) std::abort();
    }
    state.ResumeTiming();
    if (!store->Submit({}, &batch).ok()) std::abort();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

BENCHMARK(BM_Updates)
    ->ArgNames({"n", "zipfian"})
    ->ArgsProduct({{4 << 10, 64 << 10}, {0, 1}})
    ->UseRealTime()
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace

}  // namespace breccia
