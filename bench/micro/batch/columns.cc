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

/// A store with rows in memory.
class Stored {
 public:
  explicit Stored(const Rows& rows) {
    std::filesystem::remove_all(kFolder);
    Options options;
    options.create_if_missing = true;
    options.backend = BackendChoice::kHost;
    options.rocksdb.info_log_level = rocksdb::InfoLogLevel::FATAL_LEVEL;
    demand(Store::Open(options, kFolder, &store_));
    Batch batch;
    demand(batch.Put(kDefaultFamily, rows.key_column(), rows.value_column()));
    demand(store_->Submit({}, &batch));
  }
  ~Stored() {
    store_.reset();
    std::filesystem::remove_all(kFolder);
  }
  Stored(const Stored&) = delete;
  Stored& operator=(const Stored&) = delete;

  Store* operator->() const { return store_.get(); }

 private:
  static constexpr char kFolder[] = "/dev/shm/breccia-micro-columns";
  std::unique_ptr<Store> store_;
};

/// Entries in the store that ranges are of.
constexpr std::uint64_t kStored = 256 << 10;

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
  const Stored store(rows);
  Batch batch;
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
}

/// Lookups of all keys of a store, from filling the batch by columns to a look at each value: all
/// of its words, or its first one.
void BM_GetAndLook(benchmark::State& state) {
  const Rows rows(state.range(0), 16, state.range(1));
  const std::uint64_t looked_at = state.range(2) != 0 ? rows.value_bytes / 8 : 1;
  const Stored store(rows);
  Batch batch;
  batch.SetValuesInPlace(state.range(3) != 0);
  std::uint64_t sum = 0;
  for (auto _ : state) {
    batch.Clear();
    demand(batch.Get(kDefaultFamily, rows.key_column()));
    demand(store->Submit({}, &batch));
    for (std::uint64_t i = 0; i < rows.count; ++i) {
      const char* const value = batch.value(i).data();
      for (std::uint64_t word = 0; word < looked_at; ++word) {
        std::uint64_t number;
        std::memcpy(&number, value + 8 * word, sizeof number);
        sum += number;
      }
    }
  }
  benchmark::DoNotOptimize(sum);
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

/// Takes what all ranges found out of the batch, entry by entry; returns how many there are.
std::size_t copy_each_entry(const Batch& batch, const Rows& rows, std::string* keys,
                            std::string* values) {
  std::size_t at = 0;
  for (std::size_t range = 0; range < batch.ranges(); ++range) {
    for (std::size_t i = 0; i < batch.range_size(range); ++i) {
      const auto [key, value] = batch.range_entry(range, i);
      std::memcpy(keys->data() + at * rows.key_bytes, key.data(), key.size());
      std::memcpy(values->data() + at * rows.value_bytes, value.data(), value.size());
      ++at;
    }
  }
  return at;
}

/// Taking the entries of ranges out of a batch. Items are entries.
void BM_TakeEntries(benchmark::State& state) {
  const Rows rows(kStored, 16, 100);
  const auto limit = static_cast<std::uint32_t>(state.range(0));
  const std::int64_t way = state.range(1);
  const Stored store(rows);
  const std::uint64_t ranges = kStored / limit;
  Batch batch;
  demand(batch.Range(kDefaultFamily, BytesColumn::Fixed(rows.keys.data(), ranges, 16),
                     BytesColumn::Fixed("\xff", ranges, 1, 0), limit));
  demand(store->Submit({}, &batch));
  std::string keys(kStored * 16, '.');
  std::string values(kStored * 100, '.');
  std::vector<std::int64_t> lists(ranges + 1);
  std::vector<std::int64_t> offsets(kStored + 1);
  std::vector<std::uint8_t> found(ranges);
  std::size_t entries = 0;
  for (auto _ : state) {
    if (way == kEach) {
      entries = copy_each_entry(batch, rows, &keys, &values);
      continue;
    }
    demand(batch.RangeOffsets(0, ranges, lists.data(), found.data()));
    entries = static_cast<std::size_t>(lists[ranges]);
    auto values_in = BytesRoom::Fixed(values.data(), 100);
    if (way == kAsArrow) {
      demand(batch.EntryOffsets(0, ranges, lists.data(), nullptr, offsets.data()));
      values_in = BytesRoom::Variable(values.data(), offsets.data());
    }
    demand(
        batch.CopyEntries(0, ranges, lists.data(), BytesRoom::Fixed(keys.data(), 16), values_in));
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(entries));
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
BENCHMARK(BM_GetAndLook)
    ->ArgNames({"n", "value", "all", "in_place"})
    ->ArgsProduct({{kSmall, kLarge}, {100, 1000}, {0, 1}, {0, 1}})
    ->UseRealTime();
BENCHMARK(BM_TakeEntries)
    ->ArgNames({"limit", "way"})
    ->ArgsProduct({{10, 100}, {kEach, kIntoArray, kAsArrow}})
    ->UseRealTime();

}  // namespace

}  // namespace breccia
