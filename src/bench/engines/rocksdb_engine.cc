#include <breccia/merge_operators.h>
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/optimistic_transaction_db.h>
#include <rocksdb/utilities/transaction.h>

#include <thread>
#include <vector>

#include "bench/engine.h"

/// RocksDB as the benchmark's other engine: what makes a batch there goes to it in its own calls
/// for the same work. Then the choice of an engine by its name.

namespace breccia::bench {

namespace {

// RocksDB looks keys up in blocks of 32; a call with many more only sorts longer and pins more.
constexpr std::size_t kMultiGetKeysMax = 256;
// The memory for writes is cut into so many memtables: the hRocks paper's tuning.
constexpr int kMemtables = 6;
// Times that a transaction which meets a conflict is run again.
constexpr int kAttemptsMax = 10;

struct Group {
  rocksdb::WriteBatch first;
  rocksdb::WriteBatch second;  // writes of read-modify-writes
  std::vector<char> key_bytes;
  std::vector<std::uint32_t> key_sizes;
  std::vector<Slice> reads;
  std::vector<std::string> scans;
  std::vector<SampledRead> sampled_scans;
  KindCounts counts{};
  std::vector<SampledRead> sampled;

  void clear() {
    first.Clear();
    second.Clear();
    key_bytes.clear();
    key_sizes.clear();
    reads.clear();
    scans.clear();
    sampled_scans.clear();
    counts = {};
    sampled.clear();
  }
};

class RocksdbSession final : public Session {
 public:
  /// `transactions` is `db`, or null: then there is no transact().
  RocksdbSession(rocksdb::DB* db, rocksdb::OptimisticTransactionDB* transactions,
                 const rocksdb::WriteOptions& options, const Sampling& sampling,
                 std::size_t key_size_max)
      : db_(db),
        transactions_(transactions),
        options_(options),
        sampling_(sampling),
        chunk_(key_size_max),
        values_(kMultiGetKeysMax),
        codes_(kMultiGetKeysMax) {}

  Status put(const Slice& key, const Slice& value) override {
    return db_->Put(options_, key, value);
  }

  Status erase(const Slice& key) override { return db_->Delete(options_, key); }

  Status merge(const Slice& key, const Slice& operand) override {
    return db_->Merge(options_, key, operand);
  }

  Status scan(const Slice& begin, std::uint32_t entries, ScanDigest* digest) override {
    const std::unique_ptr<rocksdb::Iterator> iterator(db_->NewIterator(rocksdb::ReadOptions()));
    return scan_with(iterator.get(), begin, entries, digest);
  }

  Status get(const Slice& key, Slice* value) override {
    value_.Reset();
    Status status = db_->Get(rocksdb::ReadOptions(), db_->DefaultColumnFamily(), key, &value_);
    *value = value_;
    return status;
  }

  Status build(const Stream& stream, std::uint64_t first, std::uint32_t count,
               std::size_t place) override {
    if (groups_.size() <= place) groups_.resize(place + 1);
    Group& group = groups_[place];
    group.clear();
    Status failure;
    for_each_request(stream, first, count, &chunk_,
                     [&](std::uint64_t number, Kind kind, const Slice& key, const Slice& value) {
                       Status status = add(&group, number, kind, key, value);
                       if (!status.ok()) failure = std::move(status);
                     });
    // The keys have their final place only now.
    const char* at = group.key_bytes.data();
    for (const std::uint32_t size : group.key_sizes) {
      group.reads.emplace_back(at, size);
      at += size;
    }
    return failure;
  }

  Status run(std::size_t place, ResultHash* hash) override {
    Group& group = groups_[place];
    Status status;
    if (group.first.Count() > 0) status = db_->Write(options_, &group.first);
    if (!status.ok()) return status;
    read(group, hash);
    BRECCIA_TRY(read_scans(group, hash));
    if (group.second.Count() > 0) status = db_->Write(options_, &group.second);
    return status;
  }

  Status transact(const Stream& stream, std::uint64_t first, std::uint32_t count, Lookups lookups,
                  ResultHash* hash) override {
    Status status;
    for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
      status = try_transaction(stream, first, count, lookups, hash);
      if (!status.IsBusy() && !status.IsTryAgain()) break;
    }
    return status;
  }

  [[nodiscard]] const KindCounts& counts(std::size_t place) const override {
    return groups_[place].counts;
  }

 private:
  static Status scan_with(rocksdb::Iterator* iterator, const Slice& begin, std::uint32_t entries,
                          ScanDigest* digest) {
    iterator->Seek(begin);
    for (std::uint32_t i = 0; i < entries && iterator->Valid(); ++i, iterator->Next()) {
      digest->add(iterator->key(), iterator->value());
    }
    return iterator->status();
  }

  /// One iterator for all scans of the group: they are of one point in time.
  Status read_scans(const Group& group, ResultHash* hash) {
    if (group.scans.empty()) return Status::OK();
    const std::unique_ptr<rocksdb::Iterator> iterator(db_->NewIterator(rocksdb::ReadOptions()));
    auto sample = group.sampled_scans.begin();
    for (std::size_t i = 0; i < group.scans.size(); ++i) {
      const bool sampled = sample != group.sampled_scans.end() && sample->read == i;
      ScanDigest digest(sampled);
      BRECCIA_TRY(scan_with(iterator.get(), group.scans[i], chunk_.scan_entries, &digest));
      if (!sampled) {
        unsampled_ = unsampled_ + static_cast<std::uint8_t>(digest.bytes()[0]);
        continue;
      }
      hash->add(sample->id, Status::kOk, digest.bytes());
      ++sample;
    }
    return Status::OK();
  }

  Status add(Group* group, std::uint64_t number, Kind kind, const Slice& key, const Slice& value) {
    ++group->counts[static_cast<std::size_t>(kind)];
    switch (kind) {
      case Kind::kUpdate:
      case Kind::kInsert:
        return group->first.Put(key, value);
      case Kind::kDelete:
        return group->first.Delete(key);
      case Kind::kMerge:
        return group->first.Merge(key, value);
      case Kind::kScan:
        if (sampling_.takes(number)) {
          group->sampled_scans.push_back(
              {static_cast<std::uint32_t>(group->scans.size()), number + sampling_.id_offset});
        }
        group->scans.push_back(key.ToString());
        return Status();
      case Kind::kGet:
      case Kind::kReadModifyWrite:
        break;
    }
    if (sampling_.takes(number)) {
      group->sampled.push_back(
          {static_cast<std::uint32_t>(group->key_sizes.size()), number + sampling_.id_offset});
    }
    group->key_bytes.insert(group->key_bytes.end(), key.data(), key.data() + key.size());
    group->key_sizes.push_back(static_cast<std::uint32_t>(key.size()));
    return kind == Kind::kReadModifyWrite ? group->second.Put(key, value) : Status();
  }

  Status try_transaction(const Stream& stream, std::uint64_t first, std::uint32_t count,
                         Lookups lookups, ResultHash* hash) {
    BRECCIA_ASSERT(transactions_ != nullptr);
    transaction_.reset(
        transactions_->BeginTransaction(options_, {}, /*old_txn=*/transaction_.release()));
    ResultHash reads;
    Status failure;
    const auto add = [&](bool gets, bool writes) {
      for_each_request(stream, first, count, &chunk_,
                       [&](std::uint64_t number, Kind kind, const Slice& key, const Slice& value) {
                         if (!(kind == Kind::kGet ? gets : writes)) return;
                         Status status = request(number, kind, key, value, &reads);
                         if (!status.ok()) failure = std::move(status);
                       });
    };
    // Lookups see the transaction's own writes: they come first where they are not to.
    const bool in_order = lookups == Lookups::kInOrder;
    add(/*gets=*/true, /*writes=*/in_order);
    if (!in_order) add(/*gets=*/false, /*writes=*/true);
    BRECCIA_TRY(failure);
    if (hash == nullptr) return transaction_->Rollback();
    BRECCIA_TRY(transaction_->Commit());
    hash->merge(reads);
    return Status();
  }

  /// Lookups are validated at the commit, as only then they are serializable like Breccia's.
  Status request(std::uint64_t number, Kind kind, const Slice& key, const Slice& value,
                 ResultHash* reads) {
    if (kind == Kind::kUpdate) return transaction_->Put(key, value);
    BRECCIA_ASSERT(kind == Kind::kGet);
    value_.Reset();
    Status status = transaction_->GetForUpdate(rocksdb::ReadOptions(), db_->DefaultColumnFamily(),
                                               key, &value_);
    if (sampling_.takes(number)) reads->add(number + sampling_.id_offset, status.code(), value_);
    return status.IsNotFound() ? Status() : status;
  }

  void read(const Group& group, ResultHash* hash) {
    auto sample = group.sampled.begin();
    for (std::size_t from = 0; from < group.reads.size(); from += kMultiGetKeysMax) {
      const std::size_t count = std::min(kMultiGetKeysMax, group.reads.size() - from);
      for (std::size_t i = 0; i < count; ++i) values_[i].Reset();
      db_->MultiGet(rocksdb::ReadOptions(), db_->DefaultColumnFamily(), count, &group.reads[from],
                    values_.data(), codes_.data());
      for (; sample != group.sampled.end() && sample->read < from + count; ++sample) {
        hash->add(sample->id, codes_[sample->read - from].code(), values_[sample->read - from]);
      }
    }
  }

  rocksdb::DB* const db_;
  rocksdb::OptimisticTransactionDB* const transactions_;
  std::unique_ptr<rocksdb::Transaction> transaction_;  // its memory is used again
  const rocksdb::WriteOptions options_;
  const Sampling sampling_;
  Chunk chunk_;
  std::vector<Group> groups_;
  rocksdb::PinnableSlice value_;
  std::vector<rocksdb::PinnableSlice> values_;
  std::vector<Status> codes_;
  /// Where digests go that nobody compares, so that no compiler leaves their reading out.
  inline static thread_local volatile std::uint8_t unsampled_ = 0;
};

class RocksdbEngine final : public Engine {
 public:
  RocksdbEngine(std::unique_ptr<rocksdb::DB> db, rocksdb::OptimisticTransactionDB* transactions,
                Durability durability)
      : db_(std::move(db)), transactions_(transactions) {
    options_.disableWAL = durability == Durability::kNone;
    options_.sync = durability == Durability::kSync;
  }

  std::unique_ptr<Session> session(const Sampling& sampling, std::size_t key_size_max) override {
    return std::make_unique<RocksdbSession>(db_.get(), transactions_, options_, sampling,
                                            key_size_max);
  }
  Status flush() override { return db_->Flush(rocksdb::FlushOptions()); }
  std::string backend() override { return "rocksdb"; }

 private:
  const std::unique_ptr<rocksdb::DB> db_;
  rocksdb::OptimisticTransactionDB* const transactions_;  // db_, or null
  rocksdb::WriteOptions options_;
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
  // db_bench's default, and faster with several writers.
  options.enable_pipelined_write = true;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(config.cache_bytes);
  if (config.bloom_bits > 0) {
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(config.bloom_bits));
  }
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options.compression = compression_type(config.compression);
  options.merge_operator = NewInt64AddOperator();
  return options;
}

Result<std::unique_ptr<Engine>> open_rocksdb(const EngineConfig& config, const Place& place) {
  rocksdb::Options options = rocksdb_options(config);
  options.wal_dir = place.wal_dir;
  options.write_buffer_size = config.memtable_bytes / kMemtables;
  options.max_write_buffer_number = kMemtables;
  rocksdb::DB* db = nullptr;
  rocksdb::OptimisticTransactionDB* transactions = nullptr;
  if (config.transactions) {
    BRECCIA_TRY(rocksdb::OptimisticTransactionDB::Open(options, place.db, &transactions));
    db = transactions;
  } else {
    BRECCIA_TRY(rocksdb::DB::Open(options, place.db, &db));
  }
  std::unique_ptr<Engine> engine = std::make_unique<RocksdbEngine>(std::unique_ptr<rocksdb::DB>(db),
                                                                   transactions, config.durability);
  return engine;
}

Result<std::unique_ptr<Engine>> open_engine(const EngineConfig& config, const Place& place) {
  return config.engine == "rocksdb" ? open_rocksdb(config, place) : open_breccia(config, place);
}

}  // namespace breccia::bench
