#include <fmt/format.h>

#include "base/assert.h"
#include "stream.h"
#include "support/backend.h"
#include "support/sparse_files.h"
#include "wal/real_files.h"

namespace breccia::model {

// ---- the reference -----------------------------------------------------------------------------

Reference::Reference() : env_(rocksdb::NewMemEnv(rocksdb::Env::Default())) {
  rocksdb::Options options;
  options.env = env_.get();
  options.create_if_missing = true;
  options.info_log_level = rocksdb::InfoLogLevel::FATAL_LEVEL;
  rocksdb::DB* db = nullptr;
  BRECCIA_ASSERT(rocksdb::DB::Open(options, "/reference", &db).ok());
  db_.reset(db);
}

namespace {

rocksdb::WriteOptions without_log() {
  rocksdb::WriteOptions options;
  options.disableWAL = true;
  return options;
}

}  // namespace

void Reference::put(const std::string& key, const std::string& value) {
  BRECCIA_ASSERT(db_->Put(without_log(), key, value).ok());
}

void Reference::remove(const std::string& key) {
  BRECCIA_ASSERT(db_->Delete(without_log(), key).ok());
}

Status Reference::get(const std::string& key, std::string* value) const {
  return db_->Get(rocksdb::ReadOptions(), key, value);
}

// ---- the store ---------------------------------------------------------------------------------

Status ReopenedStore::close(bool flush_first) {
  if (store_ == nullptr) return Status::OK();
  // What was written with Durability::kNone may end with the store; it must not here.
  const Status status = flush_first ? store_->Flush() : store_->SyncLog();
  store_.reset();
  return status;
}

Status ReopenedStore::reopen(base::Random* random) {
  Status status = close(/*flush_first=*/random->one_in(3));
  if (!status.ok()) return status;
  constexpr std::uint32_t kDeviceMin[] = {1, 8, 128, 1'000'000};
  constexpr std::uint64_t kMemtableBytes[] = {64 << 10, 1 << 20, 16 << 20, 256 << 20};
  Options options;
  options.create_if_missing = true;
  on_simulator_ = random->one_in(2);
  options.backend = on_simulator_ ? BackendChoice::kSimulator : testing::backend_under_test();
  options.simulator_seed = random->next();
  options.device_requests_min = kDeviceMin[random->below(4)];
  options.memtable_bytes = kMemtableBytes[random->below(4)];
  constexpr std::uint64_t kCleanBytes[] = {0, 16 << 10, 1 << 30};
  options.clean_bytes = kCleanBytes[random->below(3)];
  constexpr std::uint64_t kFilterBytes[] = {256 << 20, 0, 24 << 10};
  options.tree_filter_bytes = kFilterBytes[random->below(3)];
  constexpr std::uint64_t kResidencyBytes[] = {1 << 30, 0, 16 << 10};
  options.residency_bytes = kResidencyBytes[random->below(3)];
  options.flush_threads = static_cast<int>(1 + random->below(3));
  if (random->one_in(2)) {
    options.compactions = CompactionServiceOptions{.backend = BackendChoice::kHost, .bytes_min = 0};
  }
  const std::uint64_t files = random->below(10);
  if (files == 0) {
    static wal::FilesEnv ring(rocksdb::Env::Default(),
                              wal::real_files_with(wal::Engine::kRing,
                                                   /*force_buffered=*/true));
    options.rocksdb.env = &ring;
  } else if (files < 8) {
    options.rocksdb.env = testing::sparse_env();
  }
  options.rocksdb.info_log_level = rocksdb::InfoLogLevel::FATAL_LEVEL;
  options.rocksdb.compression = rocksdb::kNoCompression;
  options.rocksdb.max_file_opening_threads = 1;
  described_ = fmt::format("{}, device_requests_min {}, memtable_bytes {}, flush_threads {}{}",
                           on_simulator_ ? "simulator" : "host", options.device_requests_min,
                           options.memtable_bytes, options.flush_threads,
                           files == 0  ? ", ring log"
                           : files < 8 ? ", sparse log"
                                       : ", mapped log");
  ++counts_->opens;
  return Store::Open(options, path_, &store_);
}

}  // namespace breccia::model
