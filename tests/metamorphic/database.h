#pragma once

#include <rocksdb/utilities/optimistic_transaction_db.h>
#include <rocksdb/utilities/transaction.h>
#include <rocksdb/utilities/transaction_db.h>
#include <rocksdb/utilities/write_batch_with_index.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "subject.h"

namespace breccia::metamorphic {

/// A subject with RocksDB's API, be it RocksDB's own or the facade's. Who derives from it opens the
/// database as `api` says, and ends with close(). A Store's reference is opened as optimistic.
class DatabaseSubject : public Subject {
 public:
  DatabaseSubject(const model::Universe& universe, Api api) : Subject(universe), api_(api) {}

 protected:
  Status write(const Op& op) override;
  Status get(const Op& op, std::string* value) override;
  Status run_parts(const Op& op, History* history) override;
  void take_snapshot(std::uint32_t slot) override;
  void release_snapshot(std::uint32_t slot) override;
  [[nodiscard]] std::unique_ptr<rocksdb::Iterator> iterate(const rocksdb::ReadOptions& options,
                                                           std::uint32_t family,
                                                           std::uint32_t snapshot) override;
  void begin(const Op& op) override;
  Status run_within(const Op& op, History* history) override;
  void commit(const Op& op, History* history) override;
  void roll_back(std::uint32_t transaction) override;
  Status run_indexed(const Op& op, History* history) override;
  Status create_family(std::uint32_t family) override;
  Status drop_family(const Op& op) override;

  [[nodiscard]] virtual rocksdb::WriteOptions write_options(Durability durability) const = 0;
  [[nodiscard]] virtual rocksdb::ColumnFamilyOptions options_of(std::uint32_t family) const = 0;
  /// To be told of every write, with its parts if it is a batch. Of commits, and of batches with an
  /// index, only the durability is said.
  virtual void wrote(const Op& op, const Status& status) = 0;
  virtual Status multi_get(const Op& op, History* history) = 0;
  /// A batch whose requests happen in order: is_in_order().
  virtual Status submit(const Op& op, History* history);

  /// Takes over an open database; `handles` are those of the families in families_, in order.
  void take(rocksdb::StackableDB* db, std::vector<rocksdb::ColumnFamilyHandle*> handles);
  void close();
  [[nodiscard]] rocksdb::StackableDB* db() const { return db_.get(); }
  [[nodiscard]] Api api() const { return api_; }
  /// Who cannot have a lock hears so at once.
  [[nodiscard]] static rocksdb::TransactionDBOptions without_waiting();
  [[nodiscard]] rocksdb::ColumnFamilyHandle* handle(std::uint32_t family) const {
    return families_[family]->handle;
  }
  /// A request of a batch, on its own.
  Status run_part(const Op& part, std::uint32_t snapshot, History* history);

 private:
  struct Snapshot : Taken {
    const rocksdb::Snapshot* at = nullptr;
  };
  struct Open {
    std::unique_ptr<rocksdb::Transaction> transaction;
    Durability durability = Durability::kDefault;
  };

  [[nodiscard]] rocksdb::ColumnFamilyHandle* handle_at(std::uint32_t family,
                                                       std::uint32_t snapshot) const;
  Status get_at(const Op& op, std::uint32_t snapshot, std::string* value);
  void run_range(const Op& op, std::uint32_t snapshot, History* history);
  Status run_batch(const Op& op, History* history);
  Status write_batch(const Op& op);
  Status add(const Op& part, rocksdb::WriteBatch* batch) const;
  void run_part_within(const Op& part, rocksdb::Transaction* transaction, History* history);
  void run_part_indexed(const Op& part, rocksdb::WriteBatchWithIndex* batch, History* history);

  const Api api_;
  std::unique_ptr<rocksdb::StackableDB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> handles_;
  std::array<Snapshot, kSnapshots> snapshots_;
  std::array<Open, kTransactions> open_;
};

}  // namespace breccia::metamorphic
