#include <benchmark/benchmark.h>
#include <breccia/options.h>
#include <breccia/store.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "base/random.h"

/// Single puts of one thread and of two into a store's memtable that holds a million entries: new
/// keys of 16 bytes in any order, values of 100 bytes. Items are puts.

namespace breccia {

namespace {

constexpr std::uint64_t kLoaded = 1 << 20;
constexpr std::uint64_t kPuts = 400'000;  // of each thread

std::string key_of(std::uint64_t id) {
  const std::uint64_t words[] = {base::mix64(id), id};
  return {reinterpret_cast<const char*>(words), sizeof words};
}

class MemtableStore {
 public:
  MemtableStore() {
    std::filesystem::remove_all(folder_);
    Options options;
    options.create_if_missing = true;
    options.backend = BackendChoice::kHost;
    options.memtable_bytes = 4ULL << 30;
    options.rocksdb.info_log_level = rocksdb::InfoLogLevel::FATAL_LEVEL;
    if (!Store::Open(options, folder_, &store_).ok()) std::abort();
    for (std::uint64_t id = 0; id < kLoaded; ++id) put(id);
  }
  ~MemtableStore() {
    store_.reset();
    std::filesystem::remove_all(folder_);
  }
  MemtableStore(const MemtableStore&) = delete;
  MemtableStore& operator=(const MemtableStore&) = delete;

  void put(std::uint64_t id) {
    if (!store_->Put({}, key_of(id), value_).ok()) std::abort();
  }

 private:
  const std::string folder_ = "/dev/shm/breccia-micro-single-put";
  const std::string value_ = std::string(100, 'v');
  std::unique_ptr<Store> store_;
};

void BM_SinglePut(benchmark::State& state) {
  static std::unique_ptr<MemtableStore> store;
  if (state.thread_index() == 0) store = std::make_unique<MemtableStore>();
  std::uint64_t id = kLoaded + static_cast<std::uint64_t>(state.thread_index()) * kPuts * 2;
  for (auto _ : state) store->put(++id);
  state.SetItemsProcessed(state.iterations());
  if (state.thread_index() == 0) store.reset();
}

BENCHMARK(BM_SinglePut)
    ->Iterations(kPuts)
    ->Threads(1)
    ->Threads(2)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace

}  // namespace breccia
