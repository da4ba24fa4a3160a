#include "txn_db.h"

#include <gtest/gtest.h>

namespace breccia::testing {

namespace {

/// Opens with `open(families, handles, db)` and keeps what came of it.
template <class Db, class Open>
Status open_as(std::unique_ptr<rocksdb::StackableDB>* kept, const Open& open) {
  Db* db = nullptr;
  const Status status = open(&db);
  kept->reset(db);
  return status;
}

}  // namespace

rocksdb::TransactionDBOptions TxnGiven::without_waiting() {
  rocksdb::TransactionDBOptions options;
  options.transaction_lock_timeout = 0;
  options.default_lock_timeout = 0;
  return options;
}

TxnDb::TxnDb(Kind kind, const TxnGiven& given) : kind_(kind), given_(given) {}

Status TxnDb::open() {
  const facade::Descriptors families = descriptors_of(given_.given);
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  const Options options = options_of(given_.given, path());
  const auto open_optimistic = [&](auto** db) {
    if (!is_breccia()) {
      return rocksdb::OptimisticTransactionDB::Open(given_.given.db, path(), families, &handles,
                                                    db);
    }
    OptimisticTransactionDBOptions optimistic;
    optimistic.serializable = given_.serializable;
    return OptimisticTransactionDB::Open(options, optimistic, path(), families, &handles, db);
  };
  const auto open_pessimistic = [&](auto** db) {
    if (!is_breccia()) {
      return rocksdb::TransactionDB::Open(given_.given.db, given_.locking, path(), families,
                                          &handles, db);
    }
    TransactionDBOptions pessimistic = given_.locking;
    pessimistic.serializable = given_.serializable;
    return TransactionDB::Open(options, pessimistic, path(), families, &handles, db);
  };
  const Status status = given_.style == Style::kOptimistic
                            ? open_as<rocksdb::OptimisticTransactionDB>(&db_, open_optimistic)
                            : open_as<rocksdb::TransactionDB>(&db_, open_pessimistic);
  for (std::size_t i = 0; i < handles.size(); ++i) handles_[families[i].name] = handles[i];
  return status;
}

void TxnDb::close() {
  if (db_ == nullptr) return;
  for (const auto& [name, handle] : handles_) {
    EXPECT_TRUE(db_->DestroyColumnFamilyHandle(handle).ok());
  }
  handles_.clear();
  db_.reset();
}

void TxnDb::reopen() {
  close();
  const Status status = open();
  ASSERT_TRUE(status.ok()) << status.ToString();
}

TxnDb::TransactionPtr TxnDb::begin(const rocksdb::TransactionOptions& options) const {
  return TransactionPtr(locking()->BeginTransaction(rocksdb::WriteOptions(), options));
}

void TxnDb::begin_again(rocksdb::Transaction* old) const {
  rocksdb::Transaction* begun = nullptr;
  if (given_.style == Style::kPessimistic) {
    begun = locking()->BeginTransaction({}, rocksdb::TransactionOptions(), old);
  } else {
    auto* const db = static_cast<rocksdb::OptimisticTransactionDB*>(db_.get());
    begun = db->BeginTransaction({}, rocksdb::OptimisticTransactionOptions(), old);
  }
  EXPECT_EQ(begun, old);
}

TxnDb::TransactionPtr TxnDb::begin(bool set_snapshot) const {
  if (given_.style == Style::kPessimistic) {
    rocksdb::TransactionOptions options;
    options.set_snapshot = set_snapshot;
    return begin(options);
  }
  rocksdb::OptimisticTransactionOptions options;
  options.set_snapshot = set_snapshot;
  auto* const db = static_cast<rocksdb::OptimisticTransactionDB*>(db_.get());
  return TransactionPtr(db->BeginTransaction(rocksdb::WriteOptions(), options));
}

void TxnDb::note(const std::string& what, const Status& status) {
  const int subcode = status.subcode();
  note(what + ": " + code_of(status) + (subcode == 0 ? "" : "/" + std::to_string(subcode)));
}

void TxnDb::get(const std::string& key, rocksdb::Transaction* transaction) {
  std::string value;
  const Status status = transaction == nullptr
                            ? db_->Get(rocksdb::ReadOptions(), key, &value)
                            : transaction->Get(rocksdb::ReadOptions(), key, &value);
  note("get " + key + ": " + code_of(status) + (status.ok() ? " " + value : ""));
}

void TxnDb::scan(rocksdb::Transaction* transaction) {
  const std::unique_ptr<rocksdb::Iterator> at(transaction->GetIterator(rocksdb::ReadOptions()));
  for (at->SeekToFirst(); at->Valid(); at->Next()) {
    note("  " + at->key().ToString() + "=" + at->value().ToString());
  }
  note("end", at->status());
}

void expect_same_transactions(const TxnGiven& given, const TxnScript& script) {
  expect_same_notes([&](Kind kind, std::uint32_t run_requests_min) {
    TxnGiven with = given;
    with.given.run_requests_min = run_requests_min;
    TxnDb db(kind, with);
    return notes_of(&db, script);
  });
}

std::unique_ptr<TxnDb> open_breccia(const TxnGiven& given) {
  auto db = std::make_unique<TxnDb>(Kind::kBreccia, given);
  const Status status = db->open();
  EXPECT_TRUE(status.ok()) << status.ToString();
  return db;
}

}  // namespace breccia::testing
