#include <benchmark/benchmark.h>
#include <breccia/options.h>
#include <breccia/store.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"

/// Batches of n puts or lookups of 8-byte keys and values, submitted one after the other and waited
/// for each (Submit), or all at once (SubmitAsync): what running batches together gains. Items are
/// requests.

namespace breccia {

namespace {

constexpr std::uint64_t kRequests = 1 << 20;  // of one round, at most
constexpr std::uint64_t kBatches = 64 << 10;
constexpr std::uint64_t kKeys = 1 << 20;

std::string folder() {
  const char* const memory = "/dev/shm";
  const std::string place = std::filesystem::exists(memory) ? memory : "/tmp";
  return place + "/breccia-micro-async";
}

std::unique_ptr<Store> open_store() {
  std::filesystem::remove_all(folder());
  Options options;
  options.create_if_missing = true;
  options.backend = BackendChoice::kHost;
  options.rocksdb.info_log_level = rocksdb::InfoLogLevel::FATAL_LEVEL;
  std::unique_ptr<Store> store;
  const Status status = Store::Open(options, folder(), &store);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return store;
}

std::vector<Batch> make_batches(std::uint64_t batch_requests, bool reads) {
  base::Random random(1);
  std::vector<Batch> batches(std::min(kRequests / batch_requests, kBatches));
  for (Batch& batch : batches) {
    for (std::uint64_t i = 0; i < batch_requests; ++i) {
      const std::uint64_t id = base::mix64(random.below(kKeys));
      const Slice key(reinterpret_cast<const char*>(&id), sizeof id);
      const Status status = reads ? batch.Get(key) : batch.Put(key, key);
      if (!status.ok()) std::abort();
    }
  }
  return batches;
}

void run(benchmark::State& state, bool reads, bool async) {
  const auto store = open_store();
  if (store == nullptr) return state.SkipWithError("the store cannot be opened");
  const auto size = static_cast<std::uint64_t>(state.range(0));
  for (Batch& batch : make_batches(kBatches, /*reads=*/false)) {
    if (reads && !store->Submit({}, &batch).ok()) std::abort();
  }
  auto batches = make_batches(size, reads);
  for (auto _ : state) {
    std::atomic<std::uint64_t> left{batches.size()};
    for (Batch& batch : batches) {
      if (async) {
        store->SubmitAsync({}, &batch, [&](const Status& status) {
          if (!status.ok()) std::abort();
          if (--left == 0) left.notify_one();
        });
      } else if (!store->Submit({}, &batch).ok()) {
        std::abort();
      }
    }
    for (std::uint64_t now = left; async && now > 0; now = left) left.wait(now);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(batches.size() * size));
}

void BM_Put(benchmark::State& state) { run(state, /*reads=*/false, /*async=*/false); }
void BM_PutAsync(benchmark::State& state) { run(state, /*reads=*/false, /*async=*/true); }
void BM_Get(benchmark::State& state) { run(state, /*reads=*/true, /*async=*/false); }
void BM_GetAsync(benchmark::State& state) { run(state, /*reads=*/true, /*async=*/true); }

BENCHMARK(BM_Put)->Arg(1)->Arg(16)->Arg(256)->Arg(65536)->UseRealTime();
BENCHMARK(BM_PutAsync)->Arg(1)->Arg(16)->Arg(256)->Arg(65536)->UseRealTime();
BENCHMARK(BM_Get)->Arg(1)->Arg(16)->Arg(256)->Arg(65536)->UseRealTime();
BENCHMARK(BM_GetAsync)->Arg(1)->Arg(16)->Arg(256)->Arg(65536)->UseRealTime();

}  // namespace

}  // namespace breccia
