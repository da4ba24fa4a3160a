#include <benchmark/benchmark.h>
#include <breccia/rocks.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"

/// Lookups behind range deletions that lie in memory, here and in the RocksDB that the library is
/// linked with, in one run. Items are lookups. Arguments: engine (0: RocksDB, 1: Breccia), shape
/// (0: no ranges, 1: disjoint, 2: overlapping, 3: nested), hit (1: the key was put behind the
/// ranges, 0: a range covers it), way (0: Get, n: MultiGet of n).

namespace breccia {

namespace {

/// Below what makes a flush start here; RocksDB starts none.
constexpr std::uint64_t kRanges = 60'000;
/// Nested ranges: RocksDB needs memory for the square of their number.
constexpr std::uint64_t kNestedRanges = 4'000;
constexpr std::uint64_t kLookups = 1 << 16;

enum Engine { kRocksDb, kBreccia };
enum Shape { kNone, kDisjoint, kOverlapping, kNested };

std::string key_of(std::uint64_t number) {
  char key[32];
  const int bytes =
      std::snprintf(key, sizeof key, "user%012llu", static_cast<unsigned long long>(number));
  return {key, static_cast<std::size_t>(bytes)};
}

std::uint64_t count_of(Shape shape) { return shape == kNested ? kNestedRanges : kRanges; }

void must(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::abort();
}

/// Range i covers keys 4 i and 4 i + 1, or more; key 4 i + 2 was put behind all ranges.
void delete_range(rocksdb::DB* db, Shape shape, std::uint64_t i) {
  const std::uint64_t n = count_of(shape);
  std::uint64_t begin = 4 * i;
  std::uint64_t end = begin + 2;
  if (shape == kOverlapping) end = begin + 40;
  if (shape == kNested) end = 8 * n - begin;
  must(db->DeleteRange({}, db->DefaultColumnFamily(), key_of(begin), key_of(end)));
}

rocksdb::DB* opened(Engine engine, Shape shape) {
  static std::map<std::pair<int, int>, std::unique_ptr<rocksdb::DB>> all;
  std::unique_ptr<rocksdb::DB>& db = all[{engine, shape}];
  if (db != nullptr) return db.get();
  const char* const memory = "/dev/shm";
  const std::string place = std::filesystem::exists(memory) ? memory : "/tmp";
  const std::string folder =
      place + "/breccia-micro-ranges-" + std::to_string(engine) + std::to_string(shape);
  std::filesystem::remove_all(folder);
  rocksdb::Options options;
  options.create_if_missing = true;
  options.write_buffer_size = 1ULL << 30;
  options.info_log_level = rocksdb::InfoLogLevel::FATAL_LEVEL;
  rocksdb::DB* raw = nullptr;
  must(engine == kBreccia ? Rocks::Open(options, folder, &raw)
                          : rocksdb::DB::Open(options, folder, &raw));
  db.reset(raw);
  const std::uint64_t n = count_of(shape);
  for (std::uint64_t i = 0; i < n; ++i) must(db->Put({}, key_of(4 * i), "old"));
  for (std::uint64_t i = 0; i < n && shape != kNone; ++i) delete_range(db.get(), shape, i);
  for (std::uint64_t i = 0; i < n; ++i) must(db->Put({}, key_of(4 * i + 2), "new"));
  return db.get();
}

void BM_RangeDeletions(benchmark::State& state) {
  const auto shape = static_cast<Shape>(state.range(1));
  rocksdb::DB* const db = opened(static_cast<Engine>(state.range(0)), shape);
  const bool hit = state.range(2) != 0;
  const auto way = static_cast<std::size_t>(state.range(3));
  base::Random random(1);
  std::vector<std::string> keys(kLookups);
  for (std::string& key : keys) {
    key = key_of(4 * random.below(count_of(shape)) + (hit ? 2 : 0));
  }
  const bool expected = hit || shape == kNone;
  rocksdb::PinnableSlice value;
  (void)db->Get({}, db->DefaultColumnFamily(), keys[0], &value);
  std::size_t next = 0;
  std::int64_t lookups = 0;
  if (way > 0) {
    std::vector<Slice> some(way);
    std::vector<rocksdb::PinnableSlice> values(way);
    std::vector<Status> statuses(way);
    for (auto _ : state) {
      for (Slice& key : some) key = keys[next++ % kLookups];
      db->MultiGet({}, db->DefaultColumnFamily(), way, some.data(), values.data(), statuses.data());
      for (const Status& status : statuses) {
        if (status.ok() != expected) std::abort();
      }
      lookups += static_cast<std::int64_t>(way);
    }
  } else {
    for (auto _ : state) {
      const Status status = db->Get({}, db->DefaultColumnFamily(), keys[next++ % kLookups], &value);
      if (status.ok() != expected) std::abort();
      value.Reset();
      ++lookups;
    }
  }
  state.SetItemsProcessed(lookups);
}

void arguments(benchmark::internal::Benchmark* one) {
  one->ArgNames({"engine", "shape", "hit", "way"});
  for (const Shape shape : {kNone, kDisjoint, kOverlapping, kNested}) {
    for (const std::int64_t way : {0, 1, 32, 1024}) {
      for (const std::int64_t hit : {0, 1}) {
        for (const Engine engine : {kRocksDb, kBreccia}) one->Args({engine, shape, hit, way});
      }
    }
  }
}
BENCHMARK(BM_RangeDeletions)->Apply(arguments)->UseRealTime();

}  // namespace

}  // namespace breccia
