#include <benchmark/benchmark.h>
#include <breccia/options.h>
#include <breccia/store.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"

/// What a batch costs to fill, and to answer, where the caller has arrays: request by request, or
/// by columns. Items are requests.

namespace breccia {

namespace {

/// Keys and values as rows of arrays.
struct Rows {
  Rows(std::uint64_t count, std::uint64_t key_width, std::uint64_t value_width)
      : count(count), key_bytes(key_width), value_bytes(value_width) {
    keys.resize(count * key_bytes);
    values.assign(count * value_bytes, 'v');
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t words[] = {base::mix64(i), i};
      std::memcpy(keys.data() + i * key_bytes, words, key_bytes);
    }
  }
  [[nodiscard]] Slice key(std::uint64_t i) const {
    return {keys.data() + i * key_bytes, key_bytes};
  }
  [[nodiscard]] Slice value(std::uint64_t i) const {
    return {values.data() + i * value_bytes, value_bytes};
  }
  [[nodiscard]] BytesColumn key_column() const {
    return BytesColumn::Fixed(keys.data(), count, key_bytes);
  }
  [[nodiscard]] BytesColumn value_column() const {
    return BytesColumn::Fixed(values.data(), count, value_bytes);
  }

  const std::uint64_t count;
  const std::uint64_t key_bytes;
  const std::uint64_t value_bytes;
  std::string keys;
  std::string values;
};

void demand(const Status& status) {
  if (!status.ok()) std::abort();
}

void BM_FillPuts(benchmark::State& state) {
  const Rows rows(state.range(0), state.range(1), state.range(2));
  const bool by_columns = state.range(3) != 0;
  Batch batch;
  for (auto _ : state) {
    batch.Clear();
    if (by_columns) {
      demand(batch.Put(kDefaultFamily, rows.key_column(), rows.value_column()));
      continue;
    }
    for (std::uint64_t i = 0; i < rows.count; ++i) demand(batch.Put(rows.key(i), rows.value(i)));
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void BM_FillGets(benchmark::State& state) {
  const Rows rows(state.range(0), state.range(1), 0);
  const bool by_columns = state.range(2) != 0;
  Batch batch;
  for (auto _ : state) {
    batch.Clear();
    if (by_columns) {
      demand(batch.Get(kDefaultFamily, rows.key_column()));
      continue;
    }
    for (std::uint64_t i = 0; i < rows.count; ++i) demand(batch.Get(rows.key(i)));
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

enum Way : std::int64_t { kEach, kIntoArray, kAsArrow };

/// Takes the values of all lookups out of the batch, one by one.
void copy_each(const Batch& batch, const Rows& rows, std::string* values,
               std::vector<std::uint8_t>* found) {
  for (std::uint64_t i = 0; i < rows.count; ++i) {
    (*found)[i] = batch.code(i) == Status::Code::kOk ? 1 : 0;
    const Slice value = batch.value(i);
    std::memcpy(values->data() + i * rows.value_bytes, value.data(), value.size());
  }
}

/// Lookups of all keys of a store, which are in memory, from filling the batch to values in an
/// array.
void BM_Get(benchmark::State& state) {
  const Rows rows(state.range(0), state.range(1), state.range(2));
  const std::int64_t way = state.range(3);
  const std::string folder = "/dev/shm/breccia-micro-columns";
  std::filesystem::remove_all(folder);
  Options options;
  options.create_if_missing = true;
  options.backend = BackendChoice::kHost;
  options.rocksdb.info_log_level = rocksdb::InfoLogLevel::FATAL_LEVEL;
  std::unique_ptr<Store> store;
  if (!Store::Open(options, folder, &store).ok()) return state.SkipWithError("no store");
  Batch batch;
  demand(batch.Put(kDefaultFamily, rows.key_column(), rows.value_column()));
  demand(store->Submit({}, &batch));
  std::string values(rows.values.size(), '.');
  std::vector<std::uint8_t> found(rows.count);
  std::vector<std::int64_t> offsets(rows.count + 1);
  for (auto _ : state) {
    batch.Clear();
    if (way == kEach) {
      for (std::uint64_t i = 0; i < rows.count; ++i) demand(batch.Get(rows.key(i)));
    } else if (way == kIntoArray) {
      const auto stride = static_cast<std::ptrdiff_t>(rows.value_bytes);
      demand(batch.Get(kDefaultFamily, rows.key_column(),
                       {values.data(), rows.value_bytes, stride, found.data()}));
    } else {
      demand(batch.Get(kDefaultFamily, rows.key_column()));
    }
    demand(store->Submit({}, &batch));
    if (way == kEach) copy_each(batch, rows, &values, &found);
    if (way == kAsArrow) {
      demand(batch.ValueOffsets(0, rows.count, offsets.data(), found.data()));
      batch.CopyValues(0, rows.count, offsets.data(), values.data());
    }
  }
  if (values != rows.values || found.front() != 1) std::abort();
  state.SetItemsProcessed(state.iterations() * state.range(0));
  store.reset();
  std::filesystem::remove_all(folder);
}

constexpr std::int64_t kSmall = 4 << 10;
constexpr std::int64_t kLarge = 256 << 10;

void with_sizes(benchmark::internal::Benchmark* micro, const std::vector<std::int64_t>& ways) {
  for (const std::int64_t n : {kSmall, kLarge}) {
    for (const std::int64_t way : ways) {
      micro->Args({n, 16, 100, way});
      micro->Args({n, 8, 8, way});
    }
  }
}

BENCHMARK(BM_FillPuts)
    ->ArgNames({"n", "key", "value", "columns"})
    ->Apply([](auto* micro) {
      with_sizes(micro, {0, 1});
    }) -> UseRealTime();
BENCHMARK(BM_FillGets)
    ->ArgNames({"n", "key", "columns"})
    ->ArgsProduct({{kSmall, kLarge}, {16, 8}, {0, 1}})
    ->UseRealTime();
BENCHMARK(BM_Get)
    ->ArgNames({"n", "key", "value", "way"})
    ->Apply([](auto* micro) {
      with_sizes(micro, {kEach, kIntoArray, kAsArrow});
    }) -> UseRealTime();

}  // namespace

}  // namespace breccia
