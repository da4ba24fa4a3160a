#include <benchmark/benchmark.h>
#include <breccia/options.h>
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "ordered/engine.h"

/// Batches of n lookups of keys that lie in the tree alone, eight million of 16 B / 100 B, all of
/// their blocks in the block cache, uniform, two threads: by the store, and by RocksDB's MultiGet
/// on the very tree below it. Items are lookups. What RocksDB finds stays pinned where it is; the
/// store copies it. And of keys that are nowhere, with the store's filter and without.

namespace breccia {

namespace {

constexpr std::uint64_t kKeys = 8 << 20;
constexpr std::uint64_t kLoadRequests = 64 << 10;
constexpr std::size_t kKeyBytes = 16;

using Key = std::array<std::uint64_t, 2>;

Key key_of(std::uint64_t id) { return {base::mix64(id), id}; }
Slice bytes_of(const Key& key) { return {reinterpret_cast<const char*>(key.data()), kKeyBytes}; }

/// The one store of all benchmarks, as filling it takes a minute.
class FullTree {
 public:
  static FullTree& instance() {
    static FullTree tree;
    return tree;
  }
  FullTree(const FullTree&) = delete;
  FullTree& operator=(const FullTree&) = delete;

  struct Memory {
    std::uint64_t entry_cache_bytes = 64 << 20;
    std::uint64_t tree_filter_bytes = 0;
    bool operator==(const Memory&) const = default;
  };

  /// Opens it with such memory, if it has another one.
  void use(const Memory& memory) {
    if (engine_ != nullptr && memory_ == memory) return;
    engine_.reset();
    memory_ = memory;
    Options options;
    options.create_if_missing = true;
    options.backend = BackendChoice::kHost;
    options.entry_cache_bytes = memory.entry_cache_bytes;
    options.tree_filter_bytes = memory.tree_filter_bytes;
    options.clean_bytes = 0;  // what was flushed lies in the tree alone
    options.rocksdb.info_log_level = rocksdb::InfoLogLevel::FATAL_LEVEL;
    options.rocksdb.compression = rocksdb::kNoCompression;
    rocksdb::BlockBasedTableOptions table;
    table.block_cache = rocksdb::NewLRUCache(std::size_t{4} << 30);
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
    options.rocksdb.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    if (!ordered::Engine::open(options, folder_, &engine_).ok()) std::abort();
    if (!is_loaded_) load();
    const std::unique_ptr<rocksdb::Iterator> all(tree()->NewIterator({}));
    std::uint64_t count = 0;
    for (all->SeekToFirst(); all->Valid(); all->Next()) ++count;
    if (count != kKeys) std::abort();
    fill_entry_cache();
    if (memory.tree_filter_bytes > 0) build_filter();
  }
  [[nodiscard]] ordered::Engine& engine() { return *engine_; }
  [[nodiscard]] rocksdb::DB* tree() { return engine_->below().db(); }

 private:
  FullTree() { std::filesystem::remove_all(folder_); }

  void load() {
    const std::string value(100, 'v');
    for (std::uint64_t id = 0; id < kKeys;) {
      Batch batch = engine_->NewBatch();
      for (std::uint64_t i = 0; i < kLoadRequests; ++i, ++id) {
        if (!batch.Put(bytes_of(key_of(id)), value).ok()) std::abort();
      }
      if (!engine_->Submit({.durability = Durability::kNone}, &batch).ok()) std::abort();
    }
    if (!engine_->Flush().ok()) std::abort();
    if (!tree()->CompactRange({}, nullptr, nullptr).ok()) std::abort();
    // Registered behind RocksDB's globals, which it needs, and some of which come late.
    if (std::atexit([] { instance().remove(); }) != 0) std::abort();
    is_loaded_ = true;
  }

  void remove() {
    engine_.reset();
    std::filesystem::remove_all(folder_);
  }

  /// With other keys than those that are measured, until it holds as many as it can.
  void fill_entry_cache() {
    base::Random random(0);
    Batch batch = engine_->NewBatch();
    for (std::uint64_t i = 0; i < kKeys / 4; ++i) {
      if (!batch.Get(bytes_of(key_of(random.below(kKeys)))).ok()) std::abort();
    }
    if (!engine_->Submit({}, &batch).ok()) std::abort();
  }

  /// By misses that pay for it.
  void build_filter() {
    std::string built = "0";
    for (std::uint64_t from = kKeys; built == "0"; from += kLoadRequests) {
      Batch batch = engine_->NewBatch();
      for (std::uint64_t i = 0; i < kLoadRequests; ++i) {
        if (!batch.Get(bytes_of(key_of(from + i))).ok()) std::abort();
      }
      if (!engine_->Submit({}, &batch).ok()) std::abort();
      if (!engine_->GetProperty("breccia.tree-filter.builds", &built)) std::abort();
    }
  }

  const std::string folder_ = "/dev/shm/breccia-micro-tree";
  std::unique_ptr<ordered::Engine> engine_;
  Memory memory_;
  bool is_loaded_ = false;
};

std::uint64_t seed_of(const benchmark::State& state) {
  return static_cast<std::uint64_t>(state.thread_index()) + 1;
}

void BM_TreeGets(benchmark::State& state) {
  if (state.thread_index() == 0) {
    FullTree::instance().use({static_cast<std::uint64_t>(state.range(1)) << 20});
  }
  base::Random random(seed_of(state));
  std::unique_ptr<Batch> batch;
  for (auto _ : state) {
    state.PauseTiming();
    ordered::Engine& engine = FullTree::instance().engine();
    if (batch == nullptr) batch = std::make_unique<Batch>(engine.NewBatch());
    batch->Clear();
    for (std::int64_t i = 0; i < state.range(0); ++i) {
      if (!batch->Get(bytes_of(key_of(random.below(kKeys)))).ok()) std::abort();
    }
    state.ResumeTiming();
    if (!engine.Submit({}, batch.get()).ok()) std::abort();
    if (batch->code(0) != Status::kOk) std::abort();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void BM_RocksdbMultiGets(benchmark::State& state) {
  if (state.thread_index() == 0) FullTree::instance().use({});
  const auto n = static_cast<std::size_t>(state.range(0));
  const auto call = static_cast<std::size_t>(state.range(1));
  const bool sorts = state.range(2) != 0;
  rocksdb::ReadOptions options;
  options.async_io = state.range(3) != 0;
  base::Random random(seed_of(state));
  std::vector<Key> keys(n);
  std::vector<Slice> slices(n);
  std::vector<rocksdb::PinnableSlice> values(call);
  std::vector<Status> statuses(call);
  for (auto _ : state) {
    state.PauseTiming();
    rocksdb::DB* const db = FullTree::instance().tree();
    for (std::size_t i = 0; i < n; ++i) {
      keys[i] = key_of(random.below(kKeys));
      slices[i] = bytes_of(keys[i]);
    }
    state.ResumeTiming();
    if (sorts) {
      std::sort(slices.begin(), slices.end(),
                [](const Slice& left, const Slice& right) { return left.compare(right) < 0; });
    }
    for (std::size_t from = 0; from < n; from += call) {
      for (rocksdb::PinnableSlice& value : values) value.Reset();
      db->MultiGet(options, db->DefaultColumnFamily(), std::min(call, n - from), &slices[from],
                   values.data(), statuses.data(), sorts);
      if (!statuses[0].ok()) std::abort();
    }
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

/// Keys that are nowhere.
void BM_TreeMisses(benchmark::State& state) {
  FullTree& store = FullTree::instance();
  store.use({.tree_filter_bytes = static_cast<std::uint64_t>(state.range(1)) << 20});
  base::Random random(1);
  Batch batch = store.engine().NewBatch();
  for (auto _ : state) {
    state.PauseTiming();
    batch.Clear();
    for (std::int64_t i = 0; i < state.range(0); ++i) {
      if (!batch.Get(bytes_of(key_of(kKeys + random.below(kKeys)))).ok()) std::abort();
    }
    state.ResumeTiming();
    if (!store.engine().Submit({}, &batch).ok()) std::abort();
    if (batch.code(0) != Status::kNotFound) std::abort();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

/// The same by RocksDB, whose client sorts them before.
void BM_RocksdbMisses(benchmark::State& state) {
  constexpr std::size_t kCall = 32;
  FullTree::instance().use({});
  rocksdb::DB* const db = FullTree::instance().tree();
  const auto n = static_cast<std::size_t>(state.range(0));
  base::Random random(1);
  std::vector<Key> keys(n);
  std::vector<Slice> slices(n);
  std::array<rocksdb::PinnableSlice, kCall> values;
  std::array<Status, kCall> statuses;
  for (auto _ : state) {
    state.PauseTiming();
    for (std::size_t i = 0; i < n; ++i) {
      keys[i] = key_of(kKeys + random.below(kKeys));
      slices[i] = bytes_of(keys[i]);
    }
    state.ResumeTiming();
    std::sort(slices.begin(), slices.end(),
              [](const Slice& left, const Slice& right) { return left.compare(right) < 0; });
    for (std::size_t from = 0; from < n; from += kCall) {
      db->MultiGet({}, db->DefaultColumnFamily(), std::min(kCall, n - from), &slices[from],
                   values.data(), statuses.data(), /*sorted_input=*/true);
      if (!statuses[0].IsNotFound()) std::abort();
    }
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

BENCHMARK(BM_TreeMisses)
    ->ArgNames({"n", "filter_mib"})
    ->ArgsProduct({{4 << 10, 64 << 10, 1 << 20}, {0, 256}})
    ->UseRealTime()
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMicrosecond);

BENCHMARK(BM_RocksdbMisses)
    ->ArgName("n")
    ->Arg(64 << 10)
    ->Arg(1 << 20)
    ->UseRealTime()
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMicrosecond);

BENCHMARK(BM_TreeGets)
    ->ArgNames({"n", "entry_cache_mib"})
    ->ArgsProduct({{256, 4 << 10, 64 << 10, 1 << 20}, {64, 0}})
    ->Threads(2)
    ->UseRealTime()
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMicrosecond);

BENCHMARK(BM_RocksdbMultiGets)
    ->ArgNames({"n", "call", "sorted", "async"})
    ->ArgsProduct({{1 << 20}, {32, 256, 4 << 10}, {0, 1}, {0, 1}})
    ->Args({64 << 10, 32, 1, 0})
    ->Threads(2)
    ->UseRealTime()
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace

}  // namespace breccia
