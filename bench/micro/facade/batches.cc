#include <benchmark/benchmark.h>
#include <breccia/options.h>
#include <breccia/rocks.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "batch/requests.h"
#include "facade/db/write_batches.h"

/// What RocksDB's batched calls cost, and which part of it is making a batch of them. Keys of 16,
/// values of 100 bytes. Items are keys.

namespace breccia {

namespace {

constexpr std::uint64_t kKeyBytes = 16;
constexpr std::uint64_t kValueBytes = 100;

void demand(const Status& status) {
  if (!status.ok()) std::abort();
}

struct Keys {
  explicit Keys(std::uint64_t count) : bytes(count * kKeyBytes, '\0') {
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t words[] = {base::mix64(i), i};
      std::memcpy(bytes.data() + i * kKeyBytes, words, kKeyBytes);
    }
  }
  [[nodiscard]] Slice at(std::uint64_t i) const {
    return {bytes.data() + i * kKeyBytes, kKeyBytes};
  }
  std::string bytes;
};

void fill(const Keys& keys, std::uint64_t begin, std::uint64_t end, rocksdb::WriteBatch* batch) {
  const std::string value(kValueBytes, 'v');
  batch->Clear();
  for (std::uint64_t i = begin; i < end; ++i) demand(batch->Put(keys.at(i), value));
}

/// A database in memory, removed in the end.
class Database {
 public:
  Database() {
    std::filesystem::remove_all(kFolder);
    Options options;
    options.create_if_missing = true;
    options.backend = BackendChoice::kHost;
    options.rocksdb.create_if_missing = true;
    options.rocksdb.info_log_level = rocksdb::InfoLogLevel::FATAL_LEVEL;
    rocksdb::DB* db = nullptr;
    demand(Rocks::Open(options, kFolder, &db));
    db_.reset(db);
  }
  ~Database() {
    db_.reset();
    std::filesystem::remove_all(kFolder);
  }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  rocksdb::DB* operator->() const { return db_.get(); }

 private:
  static constexpr char kFolder[] = "/dev/shm/breccia-micro-facade";
  std::unique_ptr<rocksdb::DB> db_;
};

/// Lookups of n of the keys that a run of 64 Ki has.
void BM_MultiGet(benchmark::State& state) {
  constexpr std::uint64_t kStored = 64 << 10;
  const auto n = static_cast<std::size_t>(state.range(0));
  const Keys keys(kStored);
  const Database db;
  rocksdb::WriteBatch batch;
  fill(keys, 0, kStored, &batch);
  demand(db->Write(rocksdb::WriteOptions(), &batch));
  std::vector<Slice> wanted(n);
  std::vector<rocksdb::PinnableSlice> values(n);
  std::vector<Status> statuses(n);
  std::uint64_t at = 0;
  for (auto _ : state) {
    for (Slice& key : wanted) key = keys.at(base::mix64(at++) % kStored);
    db->MultiGet(rocksdb::ReadOptions(), db->DefaultColumnFamily(), n, wanted.data(), values.data(),
                 statuses.data());
    if (values[n - 1].size() != kValueBytes) std::abort();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

/// Writing n records, a hundred MiB of them over and over.
void BM_Write(benchmark::State& state) {
  constexpr std::uint64_t kRecords = 1 << 20;
  const auto n = static_cast<std::uint64_t>(state.range(0));
  const Keys keys(kRecords);
  const Database db;
  std::vector<rocksdb::WriteBatch> batches(kRecords / n);
  for (std::uint64_t i = 0; i < batches.size(); ++i) fill(keys, i * n, (i + 1) * n, &batches[i]);
  std::uint64_t at = 0;
  for (auto _ : state) {
    demand(db->Write(rocksdb::WriteOptions(), &batches[at++ % batches.size()]));
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

/// A WriteBatch of n records as requests.
void BM_FillFromWriteBatch(benchmark::State& state) {
  const auto n = static_cast<std::uint64_t>(state.range(0));
  const Keys keys(n);
  rocksdb::WriteBatch batch;
  fill(keys, 0, n, &batch);
  batch::Requests requests(exec::shared_plain_host_memory());
  for (auto _ : state) {
    requests.clear();
    demand(facade::add_writes(batch, {}, &requests));
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

BENCHMARK(BM_MultiGet)->ArgName("n")->Arg(32)->Arg(256)->Arg(4096)->UseRealTime();
BENCHMARK(BM_Write)->ArgName("n")->Arg(100)->Arg(1000)->Arg(64 << 10)->UseRealTime();
BENCHMARK(BM_FillFromWriteBatch)->ArgName("n")->Arg(100)->Arg(1000)->Arg(64 << 10)->UseRealTime();

}  // namespace

}  // namespace breccia
