#include "tree/staged_file.h"

#include <benchmark/benchmark.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/listener.h>
#include <rocksdb/table.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "exec/host/host_memory.h"

/// What a file of a flush takes one thread: keys of 16, random values of 100 bytes, Bloom filters
/// of ten bits, on tmpfs. Written by the encoder, and by RocksDB's SstFileWriter; items are
/// entries.

namespace breccia::tree {

namespace {

constexpr std::uint64_t kEntries = 100'000;
constexpr std::uint64_t kKeyBytes = 16;
constexpr std::uint64_t kValueBytes = 100;
constexpr const char* kFolder = "/dev/shm/breccia-micro-staged-file";

void demand(const Status& status) {
  if (!status.ok()) std::abort();
}

std::string make_keys() {
  base::Random random(1);
  std::vector<std::string> keys(kEntries, std::string(kKeyBytes, '\0'));
  for (std::string& key : keys) {
    const std::uint64_t words[] = {random.next(), random.next()};
    std::memcpy(key.data(), words, kKeyBytes);
  }
  std::sort(keys.begin(), keys.end());
  std::string together;  // a flush has them in a core's cache in time, too
  for (const std::string& key : keys) together += key;
  return together;
}

std::string make_values() {
  base::Random random(2);
  std::string values(kEntries * kValueBytes, '\0');
  for (std::size_t at = 0; at + 8 <= values.size(); at += 8) {
    const std::uint64_t word = random.next();
    std::memcpy(values.data() + at, &word, 8);
  }
  return values;
}

/// Who listens to writes leaves files to RocksDB, and here costs nothing.
struct Heard final : rocksdb::EventListener {
  bool ShouldBeNotifiedOnFileIO() override { return true; }
};

/// A family, for its name.
class Database {
 public:
  explicit Database(rocksdb::Options options) {
    std::filesystem::remove_all(kFolder);
    options.create_if_missing = true;
    rocksdb::DB* db = nullptr;
    demand(rocksdb::DB::Open(options, kFolder, &db));
    db_.reset(db);
  }
  ~Database() {
    db_.reset();
    std::filesystem::remove_all(kFolder);
  }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;
  rocksdb::ColumnFamilyHandle* family() { return db_->DefaultColumnFamily(); }

 private:
  std::unique_ptr<rocksdb::DB> db_;
};

/// Shape   range(0): 1 if the encoder writes it; range(1): RocksDB's number of a compression.
void write_file(benchmark::State& state) {
  static const std::string keys = make_keys();
  static const std::string values = make_values();
  rocksdb::BlockBasedTableOptions table;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  rocksdb::Options options;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options.compression = static_cast<rocksdb::CompressionType>(state.range(1));
  Database database(options);
  if (state.range(0) == 0) options.listeners.push_back(std::make_shared<Heard>());
  exec::host::HostPool work(1ULL << 30);
  std::uint64_t number = 0;
  for (auto _ : state) {
    const std::string path = std::string(kFolder) + "/file" + std::to_string(number++);
    auto file = stage_file(path, options, database.family(), work).take();
    for (std::uint64_t i = 0; i < kEntries; ++i) {
      demand(file->add({record::Op::kPut, Slice(keys.data() + i * kKeyBytes, kKeyBytes),
                        Slice(values.data() + i * kValueBytes, kValueBytes)}));
    }
    demand(file->finish());
    state.PauseTiming();
    std::filesystem::remove(path);
    state.ResumeTiming();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations() * kEntries));
}

BENCHMARK(write_file)
    ->ArgNames({"encoded", "compression"})
    ->ArgsProduct({{1, 0}, {rocksdb::kNoCompression, rocksdb::kSnappyCompression}})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace

}  // namespace breccia::tree
