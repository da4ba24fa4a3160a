#include <benchmark/benchmark.h>
#include <breccia/options.h>
#include <breccia/store.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "exec/fake/fake_device.h"

/// Single lookups of keys that memory holds, of a store on the host and of one on a fake device, of
/// whose runs the host has orders only. 4 Mi entries with values of 100 bytes in one run; keys of
/// 16 bytes, which are random, or text behind a common prefix of 8 bytes. Half of a percent of the
/// lookups find nothing. One item is one lookup; the counters are nanoseconds.

namespace breccia {

namespace {

constexpr std::uint64_t kKeys = 4 << 20;
constexpr std::uint64_t kLoadRequests = 64 << 10;
constexpr std::uint64_t kMissesOneIn = 200;
constexpr int kDeviceNumber = 900;

enum class Keys { kRandom, kText };

std::string key_of(std::uint64_t id, Keys keys) {
  const std::uint64_t word = base::mix64(id);
  if (keys == Keys::kText) {
    const std::string digits = std::to_string(word % 100'000'000'000'000);
    return "user" + std::string(18 - digits.size(), '0') + digits;
  }
  const std::uint64_t words[] = {word, id};
  return {reinterpret_cast<const char*>(words), sizeof words};
}

/// A store with all keys in its runs; filling it takes seconds.
class FullStore {
 public:
  FullStore(bool on_device, Keys keys)
      : keys_(keys), folder_("/dev/shm/breccia-micro-single-get-" + std::to_string(on_device)) {
    std::filesystem::remove_all(folder_);
    Options options;
    options.create_if_missing = true;
    options.memtable_bytes = 4ULL << 30;
    options.rocksdb.info_log_level = rocksdb::InfoLogLevel::FATAL_LEVEL;
    options.backend = on_device ? BackendChoice::kAuto : BackendChoice::kHost;
    if (on_device) options.device = kDeviceNumber;
    if (!Store::Open(options, folder_, &store_).ok()) std::abort();
    const std::string value(100, 'v');
    for (std::uint64_t id = 0; id < kKeys;) {
      Batch batch = store_->NewBatch();
      for (std::uint64_t i = 0; i < kLoadRequests; ++i, ++id) {
        if (!batch.Put(key_of(id, keys_), value).ok()) std::abort();
      }
      if (!store_->Submit({}, &batch).ok()) std::abort();
    }
  }
  ~FullStore() {
    store_.reset();
    std::filesystem::remove_all(folder_);
  }
  FullStore(const FullStore&) = delete;
  FullStore& operator=(const FullStore&) = delete;

  /// Looks up one key; nanoseconds.
  std::uint64_t get(base::Random* random) {
    const bool is_there = !random->one_in(kMissesOneIn);
    const std::string key = key_of(is_there ? random->below(kKeys) : kKeys + 1, keys_);
    const auto begin = std::chrono::steady_clock::now();
    const Status status = store_->Get(key, &value_);
    const auto end = std::chrono::steady_clock::now();
    if (status.ok() != is_there) std::abort();
    return static_cast<std::uint64_t>((end - begin).count());
  }
  /// Looks keys up until merges and what follows the first searches are done.
  void settle(base::Random* random) {
    std::string runs;
    for (int i = 0; i < 1'000 && runs != "1"; ++i) {
      for (int j = 0; j < 20'000; ++j) get(random);
      if (!store_->GetProperty("breccia.runs", &runs)) std::abort();
    }
    for (int i = 0; i < 200'000; ++i) get(random);
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }

 private:
  const Keys keys_;
  const std::string folder_;
  std::unique_ptr<Store> store_;
  std::string value_;
};

std::array<std::unique_ptr<FullStore>, 2> stores;  // emptied before what stores stand on goes

/// Both stores are kept, so that measurements of the two can take turns.
FullStore& store_of(bool on_device, Keys keys) {
  static exec::FakeFaults faults;
  static const exec::InstalledDevice device(
      kDeviceNumber, [] { return exec::fake::make_fake_device(&faults, 8ULL << 30); });
  static Keys of = keys;
  if (of != keys) stores = {};
  of = keys;
  auto& store = stores[on_device ? 1 : 0];
  if (store == nullptr) {
    base::Random random(1);
    store = std::make_unique<FullStore>(on_device, keys);
    store->settle(&random);
    // Behind the first store: what it made of its own is destroyed later, then.
    static const bool is_emptied_at_exit = std::atexit([] { stores = {}; }) == 0;
    if (!is_emptied_at_exit) std::abort();
  }
  return *store;
}

void BM_SingleGet(benchmark::State& state) {
  FullStore& store = store_of(state.range(0) != 0, static_cast<Keys>(state.range(1)));
  base::Random random(2);
  std::vector<std::uint64_t> nanos;
  nanos.reserve(1 << 20);
  for (auto _ : state) nanos.push_back(store.get(&random));
  std::sort(nanos.begin(), nanos.end());
  const auto at = [&](double share) {
    return static_cast<double>(nanos[static_cast<std::size_t>(share * (nanos.size() - 1))]);
  };
  double sum = 0;
  for (const std::uint64_t one : nanos) sum += static_cast<double>(one);
  state.counters["mean_ns"] = sum / static_cast<double>(nanos.size());
  state.counters["p50_ns"] = at(0.5);
  state.counters["p99_ns"] = at(0.99);
  state.SetItemsProcessed(state.iterations());
}

BENCHMARK(BM_SingleGet)
    ->ArgNames({"device", "text"})
    ->ArgsProduct({{0, 1}, {0, 1}})
    ->Iterations(500'000)
    ->Unit(benchmark::kMicrosecond);

}  // namespace

}  // namespace breccia
