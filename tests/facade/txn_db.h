#pragma once

#include <breccia/optimistic_transaction_db.h>
#include <breccia/transaction_db.h>
#include <rocksdb/utilities/transaction.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "both.h"

namespace breccia::testing {

enum class Style { kOptimistic, kPessimistic };

struct TxnGiven {
  Style style = Style::kOptimistic;
  Given given = usual();
  bool serializable = false;  // breccia's own mode
  rocksdb::TransactionDBOptions locking = without_waiting();

  /// Who cannot have a lock hears so at once.
  [[nodiscard]] static rocksdb::TransactionDBOptions without_waiting();
};

/// A transaction database of either library on its own folder, and what a script noted.
class TxnDb {
 public:
  TxnDb(Kind kind, const TxnGiven& given);
  ~TxnDb() { close(); }
  TxnDb(const TxnDb&) = delete;
  TxnDb& operator=(const TxnDb&) = delete;

  Status open();
  void close();
  void reopen();
  [[nodiscard]] bool is_breccia() const { return kind_ == Kind::kBreccia; }
  [[nodiscard]] rocksdb::StackableDB* get() const { return db_.get(); }
  rocksdb::StackableDB* operator->() const { return db_.get(); }
  [[nodiscard]] rocksdb::ColumnFamilyHandle* handle(const std::string& name) const {
    return handles_.at(name);
  }
  /// Where the database is, for a program that opens it another way.
  [[nodiscard]] std::string path() const { return folder_ / "db"; }

  using TransactionPtr = std::unique_ptr<rocksdb::Transaction>;
  [[nodiscard]] TransactionPtr begin(bool set_snapshot = false) const;
  [[nodiscard]] TransactionPtr begin(const rocksdb::TransactionOptions& options) const;
  /// Uses the object for another transaction.
  void begin_again(rocksdb::Transaction* old) const;
  [[nodiscard]] rocksdb::TransactionDB* locking() const {
    return static_cast<rocksdb::TransactionDB*>(db_.get());
  }

  void note(const std::string& line) { lines_.push_back(line); }
  /// Code and subcode.
  void note(const std::string& what, const Status& status);
  /// Notes what the transaction, or without one the database, has at `key`.
  void get(const std::string& key, rocksdb::Transaction* transaction = nullptr);
  /// Notes what the transaction's iterator meets, forward.
  void scan(rocksdb::Transaction* transaction);
  [[nodiscard]] const std::vector<std::string>& lines() const { return lines_; }

 private:
  const Kind kind_;
  const TxnGiven given_;
  const Folder folder_{Place::kMemory};
  std::unique_ptr<rocksdb::StackableDB> db_;
  std::map<std::string, rocksdb::ColumnFamilyHandle*> handles_;
  std::vector<std::string> lines_;
};

using TxnScript = std::function<void(TxnDb& db)>;

/// expect_same_notes() of what the script notes.
void expect_same_transactions(const TxnGiven& given, const TxnScript& script);

/// An open breccia database; fails the test if it cannot be opened.
[[nodiscard]] std::unique_ptr<TxnDb> open_breccia(const TxnGiven& given);

}  // namespace breccia::testing
