#include <gtest/gtest.h>

#include <array>

#include "base/random.h"
#include "support/seeds.h"
#include "txn_db.h"

/// Random interleavings of transactions, one step at a time, beside RocksDB's.

namespace breccia::testing {

namespace {

const rocksdb::WriteOptions kWrite;

/// Transactions whose steps a seed interleaves, with writes from outside and flushes between them.
class Schedule {
 public:
  Schedule(TxnDb* db, std::uint64_t seed) : db_(*db), random_(seed) {}

  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      at_ = random_.below(kTransactions);
      db_.note("step " + std::to_string(i) + " of transaction " + std::to_string(at_));
      if (transactions_[at_] == nullptr) {
        begin();
      } else if (random_.one_in(12)) {
        end();
      } else if (random_.one_in(8)) {
        step_outside();
      } else {
        step_inside();
      }
    }
    for (auto& transaction : transactions_) transaction.reset();
    for (const char* family : {"default", "other"}) {
      const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator({}, db_.handle(family)));
      for (at->SeekToFirst(); at->Valid(); at->Next()) {
        db_.note(at->key().ToString() + "=" + at->value().ToString());
      }
    }
  }

 private:
  static constexpr std::uint64_t kTransactions = 4;

  std::string key() { return "k" + std::to_string(random_.below(6)); }
  std::string value() { return "v" + std::to_string(random_.below(1000)); }
  rocksdb::ColumnFamilyHandle* family() {
    return db_.handle(random_.one_in(4) ? "other" : "default");
  }
  rocksdb::Transaction& transaction() { return *transactions_[at_]; }

  void begin() { transactions_[at_] = db_.begin(random_.one_in(2)); }

  void end() {
    if (random_.one_in(5)) {
      db_.note("rollback", transaction().Rollback());
    } else {
      db_.note("commit", transaction().Commit());
    }
    transactions_[at_].reset();
  }

  void step_outside() {
    const std::string at = key();
    switch (random_.below(5)) {
      case 0:
        db_.note("outside put " + at, db_->Put(kWrite, family(), at, value()));
        break;
      case 1:
        db_.note("outside delete " + at, db_->Delete(kWrite, family(), at));
        break;
      case 2:
        db_.note("outside merge " + at, db_->Merge(kWrite, family(), at, value()));
        break;
      case 3: {
        rocksdb::WriteBatch batch;
        for (int i = 0; i < 3; ++i) EXPECT_TRUE(batch.Put(family(), key(), value()).ok());
        db_.note("outside batch", db_->Write(kWrite, &batch));
        break;
      }
      default:
        db_.note("flush", db_->Flush({}, {db_.handle("default"), db_.handle("other")}));
    }
  }

  void step_inside() {
    const std::string at = key();
    switch (random_.below(12)) {
      case 0:
      case 1:
        db_.note("put " + at, transaction().Put(family(), at, value()));
        break;
      case 2:
        db_.note("delete " + at, transaction().Delete(family(), at));
        break;
      case 3:
        db_.note("merge " + at, transaction().Merge(family(), at, value()));
        break;
      case 4:
        db_.note("untracked put " + at, transaction().PutUntracked(family(), at, value()));
        break;
      case 5:
        read(at, /*for_update=*/false, random_.one_in(2));
        break;
      case 6:
      case 7:
        read(at, /*for_update=*/true, random_.one_in(2));
        break;
      case 8:
        transaction().UndoGetForUpdate(family(), at);
        break;
      case 9:
        transaction().SetSavePoint();
        break;
      case 10:
        back();
        break;
      default:
        db_.scan(&transaction());
    }
    db_.note(std::to_string(transaction().GetNumKeys()) + " keys");
  }

  void back() {
    switch (random_.below(4)) {
      case 0:
        db_.note("pop", transaction().PopSavePoint());
        break;
      case 1:
        transaction().SetSnapshot();
        break;
      case 2:
        transaction().SetSnapshotOnNextOperation();
        read(key(), /*for_update=*/true, /*at_snapshot=*/false);  // which ends the old one
        break;
      default:
        db_.note("back", transaction().RollbackToSavePoint());
    }
  }

  void read(const std::string& at, bool for_update, bool at_snapshot) {
    rocksdb::ReadOptions options;
    if (at_snapshot) options.snapshot = transaction().GetSnapshot();
    auto* const of = family();
    std::string found;
    const Status status =
        for_update ? transaction().GetForUpdate(options, of, at, &found, random_.one_in(2))
                   : transaction().Get(options, of, at, &found);
    db_.note((for_update ? "read " : "get ") + at + " " + (status.ok() ? found : ""), status);
  }

  TxnDb& db_;
  base::Random random_;
  std::array<TxnDb::TransactionPtr, kTransactions> transactions_;
  std::uint64_t at_ = 0;
};

void run_schedules(Style style) {
  for (const std::uint64_t seed : seeds_to_run(20)) {
    SCOPED_TRACE(replay_command(seed));
    TxnGiven given;
    given.style = style;
    given.given.families = {"other"};
    expect_same_transactions(given, [&](TxnDb& db) { Schedule(&db, seed).run(/*steps=*/300); });
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace

// Goal: any interleaving of optimistic transactions gives RocksDB's statuses, values and scans.
// Method: four transactions on six keys in two families, a seed for each schedule, flushes between.
// Mutation: forgetting what a flush took out of memory misses conflicts.
TEST(TransactionRandom, Optimistic) { run_schedules(Style::kOptimistic); }

// Goal: the same of pessimistic ones, whose locks are not waited for.
// Method: the same.
// Mutation: not giving a lock back whose snapshot did not hold keeps others out.
TEST(TransactionRandom, Pessimistic) { run_schedules(Style::kPessimistic); }

}  // namespace breccia::testing
