#include <benchmark/benchmark.h>
#include <breccia/options.h>
#include <breccia/store.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

/// Batches of one lookup each, made, submitted and thrown away, with so many alive at once: what
/// the memory of a small batch costs. Items are batches.

namespace breccia {

namespace {

constexpr std::uint64_t kKeys = 1 << 10;

std::string key_of(std::uint64_t id) { return "key" + std::to_string(10000 + id); }

void BM_FreshGet(benchmark::State& state) {
  const std::string folder = "/dev/shm/breccia-micro-fresh";
  std::filesystem::remove_all(folder);
  Options options;
  options.create_if_missing = true;
  options.backend = BackendChoice::kHost;
  options.rocksdb.info_log_level = rocksdb::InfoLogLevel::FATAL_LEVEL;
  std::unique_ptr<Store> store;
  if (!Store::Open(options, folder, &store).ok()) return state.SkipWithError("no store");
  const std::string value(100, 'v');
  for (std::uint64_t i = 0; i < kKeys; ++i) {
    if (!store->Put({}, key_of(i), value).ok()) std::abort();
  }
  std::vector<std::string> keys;
  for (std::uint64_t i = 0; i < kKeys; ++i) keys.push_back(key_of(i));
  const auto alive = static_cast<std::uint64_t>(state.range(0));
  for (auto _ : state) {
    std::vector<Batch> batches(alive);
    for (std::uint64_t i = 0; i < alive; ++i) {
      if (!batches[i].Get(keys[i % kKeys]).ok() || !store->Submit({}, &batches[i]).ok() ||
          batches[i].value(0) != value) {
        std::abort();
      }
    }
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
  store.reset();
  std::filesystem::remove_all(folder);
}

BENCHMARK(BM_FreshGet)->Arg(1)->Arg(16)->Arg(1024)->Arg(65536)->UseRealTime();

}  // namespace

}  // namespace breccia
