#include <benchmark/benchmark.h>
#include <breccia/options.h>
#include <breccia/store.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"

/// Single requests of n client threads, each of which waits for its answer: by Put and Get, or as
/// batches of one that are run together (SubmitAsync) while their clients sleep. What gathering
/// blocking clients costs and gains. Items are requests.

namespace breccia {

namespace {

constexpr std::uint64_t kKeys = 1 << 20;
constexpr std::uint64_t kRequests = 200'000;  // of one round, all clients together

std::string folder() {
  const char* const memory = "/dev/shm";
  const std::string place = std::filesystem::exists(memory) ? memory : "/tmp";
  return place + "/breccia-micro-gathered";
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

std::uint64_t some_key(base::Random* random) { return base::mix64(random->below(kKeys)); }

Slice slice_of(const std::uint64_t& id) { return {reinterpret_cast<const char*>(&id), sizeof id}; }

void fill(Store* store) {
  Batch batch;
  for (std::uint64_t i = 0; i < kKeys; ++i) {
    const std::uint64_t id = base::mix64(i);
    if (!batch.Put(slice_of(id), slice_of(id)).ok()) std::abort();
  }
  if (!store->Submit({}, &batch).ok()) std::abort();
}

void ask_alone(Store* store, bool reads, const Slice& key, std::string* value) {
  const Status status = reads ? store->Get(key, value) : store->Put({}, key, key);
  if (!status.ok()) std::abort();
}

void ask_together(Store* store, bool reads, const Slice& key, Batch* batch) {
  batch->Clear();
  if (!(reads ? batch->Get(key) : batch->Put(key, key)).ok()) std::abort();
  std::atomic<int> done{0};
  store->SubmitAsync({}, batch, [&done](const Status& status) {
    if (!status.ok()) std::abort();
    done.store(1, std::memory_order_release);
    done.notify_one();
  });
  done.wait(0, std::memory_order_acquire);
}

void run(benchmark::State& state, bool reads, bool together) {
  const auto store = open_store();
  if (store == nullptr) return state.SkipWithError("the store cannot be opened");
  fill(store.get());
  const auto clients = static_cast<std::uint64_t>(state.range(0));
  std::uint64_t seed = 0;
  for (auto _ : state) {
    std::vector<std::thread> threads;
    for (std::uint64_t client = 0; client < clients; ++client) {
      threads.emplace_back([&, random = base::Random(++seed)]() mutable {
        Batch batch;
        std::string value;
        for (std::uint64_t i = 0; i < kRequests / clients; ++i) {
          const std::uint64_t id = some_key(&random);
          if (together) {
            ask_together(store.get(), reads, slice_of(id), &batch);
          } else {
            ask_alone(store.get(), reads, slice_of(id), &value);
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  state.SetItemsProcessed(state.iterations() *
                          static_cast<std::int64_t>(kRequests / clients * clients));
}

void BM_ClientsPut(benchmark::State& state) { run(state, /*reads=*/false, /*together=*/false); }
void BM_ClientsPutGathered(benchmark::State& state) { run(state, false, /*together=*/true); }
void BM_ClientsGet(benchmark::State& state) { run(state, /*reads=*/true, /*together=*/false); }
void BM_ClientsGetGathered(benchmark::State& state) { run(state, true, /*together=*/true); }

BENCHMARK(BM_ClientsPut)->Arg(1)->Arg(2)->Arg(16)->Arg(128)->Arg(1024)->UseRealTime();
BENCHMARK(BM_ClientsPutGathered)->Arg(1)->Arg(2)->Arg(16)->Arg(128)->Arg(1024)->UseRealTime();
BENCHMARK(BM_ClientsGet)->Arg(1)->Arg(2)->Arg(16)->Arg(128)->Arg(1024)->UseRealTime();
BENCHMARK(BM_ClientsGetGathered)->Arg(1)->Arg(2)->Arg(16)->Arg(128)->Arg(1024)->UseRealTime();

}  // namespace

}  // namespace breccia
