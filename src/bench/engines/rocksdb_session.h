#pragma once

#include <rocksdb/db.h>
#include <rocksdb/utilities/optimistic_transaction_db.h>
#include <rocksdb/utilities/transaction.h>
#include <rocksdb/utilities/write_batch_with_index.h>

#include <array>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "bench/engines/engine.h"
#include "bench/engines/rocksdb_group.h"
#include "bench/engines/rocksdb_tuning.h"

/// A thread's use of RocksDB: what is a batch elsewhere goes to it in its own calls for the same
/// work.
namespace breccia::bench {

/// Locks of keys by their hash, for what RocksDB's calls do not make atomic.
/// Threads any.
class KeyLocks {
 public:
  static constexpr std::size_t kLocks = 1024;

  [[nodiscard]] static std::size_t of(const Slice& key) {
    return base::Checksum64::of(key.data(), key.size()) % kLocks;
  }
  [[nodiscard]] std::mutex& at(std::size_t lock) { return locks_.at(lock); }

 private:
  std::array<std::mutex, kLocks> locks_;
};

/// What the sessions of an engine share.
struct RocksdbUse {
  rocksdb::DB* db = nullptr;
  rocksdb::OptimisticTransactionDB* transactions = nullptr;  // db, or null: no transact()
  rocksdb::WriteOptions write_options;
  RocksdbTuning tuning;
  KeyLocks* locks = nullptr;
};

class RocksdbSession final : public Session {
 public:
  /// Owner   what `use` points to lives longer.
  RocksdbSession(const RocksdbUse& use, const Sampling& sampling, std::size_t key_size_max);

  Status put(const Slice& key, const Slice& value) override;
  Status erase(const Slice& key) override;
  Status merge(const Slice& key, const Slice& operand) override;
  Status scan(const Slice& begin, std::uint32_t entries, ScanDigest* digest) override;
  Status get(const Slice& key, Slice* value) override;
  Status build(const Stream& stream, std::uint64_t first, std::uint32_t count,
               std::size_t place) override;
  Status run(std::size_t place, Audit* audit) override;
  /// Its transactions look up and track as they are filled: no part of that is without RocksDB.
  Status transact(const Stream& stream, std::uint64_t first, std::uint32_t count, Lookups lookups,
                  Audit* audit, std::uint64_t* filling_ns) override;
  [[nodiscard]] const KindCounts& counts(std::size_t place) const override;

 private:
  Status add(RocksdbGroup* group, std::uint64_t number, const Request& request);
  Status write(RocksdbWrites* writes);
  Status add_numbers(std::vector<RocksdbGroup::Addition>* additions);
  Status add_some(std::span<RocksdbGroup::Addition> additions);
  void read(RocksdbGroup* group, Audit* audit);
  Status read_scans(const RocksdbGroup& group, Audit* audit);
  Status try_transaction(const Stream& stream, std::uint64_t first, std::uint32_t count,
                         Lookups lookups, Audit* audit);
  Status request(std::uint64_t number, const Request& request, Audit* reads);
  Status transact_at_snapshot(const Stream& stream, std::uint64_t first, std::uint32_t count,
                              Lookups lookups, Audit* audit);
  Status look_up_in_order(std::uint64_t number, const Slice& key, Audit* audit);

  const RocksdbUse use_;
  rocksdb::ReadOptions read_options_;
  const Sampling sampling_;
  Chunk chunk_;
  std::deque<RocksdbGroup> groups_;
  std::unique_ptr<rocksdb::Transaction> transaction_;  // its memory is used again
  RocksdbGroup at_snapshot_;                           // of a transaction without RocksDB's
  rocksdb::WriteBatchWithIndex indexed_;               // likewise, seen by its own lookups
  rocksdb::PinnableSlice value_;
  std::vector<Slice> keys_;
  std::vector<rocksdb::PinnableSlice> values_;
  std::vector<Status> codes_;
  rocksdb::WriteBatch sums_;
};

}  // namespace breccia::bench
