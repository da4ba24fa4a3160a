#include <breccia/merge_operators.h>
#include <rocksdb/cache.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/memtablerep.h>
#include <rocksdb/table.h>

#include <thread>

#include "bench/engines/rocksdb_session.h"

/// RocksDB as the benchmark's other engine, and the choice of an engine by its name.

namespace breccia::bench {

namespace {

// The memory for writes is cut into so many memtables: the hRocks paper's tuning.
constexpr int kMemtables = 6;

class RocksdbEngine final : public Engine {
 public:
  RocksdbEngine(std::unique_ptr<rocksdb::DB> db, rocksdb::OptimisticTransactionDB* transactions,
                const EngineConfig& config)
      : db_(std::move(db)), cache_bytes_(config.cache_bytes), bloom_bits_(config.bloom_bits) {
    use_.db = db_.get();
    use_.transactions = transactions;
    use_.write_options.disableWAL = config.durability == Durability::kNone;
    use_.write_options.sync = config.durability == Durability::kSync;
    use_.tuning = config.rocksdb;
    use_.locks = &locks_;
  }

  std::unique_ptr<Session> session(const Sampling& sampling, std::size_t key_size_max) override {
    return std::make_unique<RocksdbSession>(use_, sampling, key_size_max);
  }
  void retune(const RocksdbTuning& tuning) override { use_.tuning = tuning; }
  std::string settings() override { return use_.tuning.words(); }
  Status flush() override { return db_->Flush(rocksdb::FlushOptions()); }
  bool compacts() override {
    return number(rocksdb::DB::Properties::kNumRunningCompactions) > 0 ||
           number(rocksdb::DB::Properties::kCompactionPending) > 0;
  }
  InEffect in_effect() override {
    const rocksdb::Options options = db_->GetOptions();
    return {.memtable_bytes = options.write_buffer_size *
                              static_cast<std::uint64_t>(options.max_write_buffer_number),
            .log_segment_bytes = 0,
            .cache_bytes = cache_bytes_,
            .bloom_bits = bloom_bits_};
  }
  std::string backend() override { return "rocksdb"; }

 private:
  std::uint64_t number(const std::string& property) {
    std::uint64_t value = 0;
    const bool known = db_->GetIntProperty(property, &value);
    BRECCIA_ASSERT(known);
    return value;
  }

  const std::unique_ptr<rocksdb::DB> db_;
  const std::uint64_t cache_bytes_;
  const int bloom_bits_;
  KeyLocks locks_;
  RocksdbUse use_;
};

rocksdb::CompressionType compression_type(const std::string& name) {
  if (name == "none") return rocksdb::kNoCompression;
  if (name == "lz4") return rocksdb::kLZ4Compression;
  if (name == "zstd") return rocksdb::kZSTD;
  BRECCIA_ASSERT(name == "snappy");
  return rocksdb::kSnappyCompression;
}

}  // namespace

rocksdb::Options rocksdb_options(const EngineConfig& config) {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.IncreaseParallelism(static_cast<int>(std::max(2U, std::thread::hardware_concurrency())));
  options.enable_pipelined_write = config.rocksdb.writers == Writers::kPipelined;
  options.unordered_write = config.rocksdb.writers == Writers::kUnordered;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(config.cache_bytes);
  if (config.rocksdb.hash_index) {
    table.data_block_index_type = rocksdb::BlockBasedTableOptions::kDataBlockBinaryAndHash;
  }
  if (config.bloom_bits > 0) {
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(config.bloom_bits));
  }
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options.compression = compression_type(config.compression);
  options.merge_operator = NewInt64AddOperator();
  options.disable_auto_compactions = config.no_compactions;
  if (config.no_compactions) {  // files that overlap are what is wanted
    options.level0_slowdown_writes_trigger = options.level0_stop_writes_trigger = 1 << 20;
  }
  const Status status = add_options(config.rocksdb_options, &options);
  BRECCIA_ASSERT(status.ok());  // the flags were read before
  return options;
}

Status add_options(const std::string& text, rocksdb::Options* options) {
  const rocksdb::Options before = *options;
  return rocksdb::GetOptionsFromString(rocksdb::ConfigOptions(), before, text, options);
}

Result<std::unique_ptr<Engine>> open_rocksdb(const EngineConfig& config, const Place& place) {
  rocksdb::Options options = rocksdb_options(config);
  options.wal_dir = place.wal_dir;
  if (config.rocksdb.row_cache_bytes > 0) {
    options.row_cache = rocksdb::NewLRUCache(config.rocksdb.row_cache_bytes);
  }
  options.write_buffer_size = config.memtable_bytes / kMemtables;
  options.max_write_buffer_number = kMemtables;
  BRECCIA_TRY(add_options(config.rocksdb_options, &options));
  if (config.rocksdb.loading == Loading::kVector) {
    options.memtable_factory = std::make_shared<rocksdb::VectorRepFactory>();
    options.allow_concurrent_memtable_write = false;
    options.unordered_write = false;
  }
  rocksdb::DB* db = nullptr;
  rocksdb::OptimisticTransactionDB* transactions = nullptr;
  if (config.transactions) {
    BRECCIA_TRY(rocksdb::OptimisticTransactionDB::Open(options, place.db, &transactions));
    db = transactions;
  } else {
    BRECCIA_TRY(rocksdb::DB::Open(options, place.db, &db));
  }
  std::unique_ptr<Engine> engine =
      std::make_unique<RocksdbEngine>(std::unique_ptr<rocksdb::DB>(db), transactions, config);
  return engine;
}

Result<std::unique_ptr<Engine>> open_engine(const EngineConfig& config, const Place& place) {
  if (config.engine == "flatmap") return open_flat_map(config);
  if (config.engine == "hash") return open_hash(config, place);
  if (config.engine.starts_with("slab")) return open_slab(config);
  if (config.engine == "disagg") return open_disagg(config);
  return config.engine == "rocksdb" ? open_rocksdb(config, place) : open_breccia(config, place);
}

}  // namespace breccia::bench
