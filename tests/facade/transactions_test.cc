#include <breccia/optimistic_transaction_db.h>
#include <breccia/transaction_db.h>
#include <breccia/write_batch_with_index.h>
#include <gtest/gtest.h>

#include "txn_db.h"

/// What optimistic and pessimistic transactions have in common, step by step beside RocksDB's.

namespace breccia::testing {

namespace {

class Transactions : public ::testing::TestWithParam<Style> {
 protected:
  [[nodiscard]] static TxnGiven given() {
    TxnGiven given;
    given.style = GetParam();
    given.given.families = {"other"};
    return given;
  }
};

std::string name_of(const ::testing::TestParamInfo<Style>& info) {
  return info.param == Style::kOptimistic ? "Optimistic" : "Pessimistic";
}

const rocksdb::WriteOptions kWrite;
const rocksdb::ReadOptions kRead;

}  // namespace

// Goal: a transaction sees its own writes over the database's, and nobody else does before commit.
// Method: all kinds of writes, looked at by Get, MultiGet and iterators from inside and outside.
// Mutation: reading the database past the transaction's batch differs from RocksDB.
TEST_P(Transactions, OwnWrites) {
  expect_same_transactions(given(), [](TxnDb& db) {
    db.note("put", db->Put(kWrite, "a", "1"));
    db.note("put", db->Put(kWrite, "b", "2"));
    db.note("put", db->Put(kWrite, db.handle("other"), "a", "other"));
    const auto transaction = db.begin();
    db.note("put", transaction->Put("b", "mine"));
    db.note("put", transaction->Put("c", "new"));
    db.note("delete", transaction->Delete("a"));
    db.note("merge", transaction->Merge("d", "x"));
    db.note("merge", transaction->Merge("b", "y"));
    db.note("single delete", transaction->SingleDelete("e"));
    db.note("put other", transaction->Put(db.handle("other"), "z", "26"));
    for (const char* key : {"a", "b", "c", "d", "e"}) {
      db.get(key, transaction.get());
      db.get(key);
    }
    db.scan(transaction.get());
    std::vector<std::string> values;
    const auto statuses = transaction->MultiGet(
        kRead, {db.handle("default"), db.handle("other"), db.handle("default")}, {"a", "z", "b"},
        &values);
    for (std::size_t i = 0; i < statuses.size(); ++i) db.note(values[i], statuses[i]);
    const Slice keys[] = {"b", "c", "q"};
    rocksdb::PinnableSlice pinned[3];
    Status of_each[3];
    transaction->MultiGet(kRead, db.handle("default"), 3, keys, pinned, of_each);
    for (int i = 0; i < 3; ++i) db.note(pinned[i].ToString(), of_each[i]);
    db.note(std::to_string(transaction->GetNumKeys()) + " keys " +
            std::to_string(transaction->GetNumPuts()) + " puts " +
            std::to_string(transaction->GetNumDeletes()) + " deletes " +
            std::to_string(transaction->GetNumMerges()) + " merges");
    db.note("commit", transaction->Commit());
    for (const char* key : {"a", "b", "c", "d", "e"}) db.get(key);
    db.note(std::to_string(transaction->GetNumKeys()) + " keys after it");
  });
}

// Goal: a rolled back transaction leaves nothing, and can be used again with BeginTransaction.
// Method: writes, Rollback, the same object begun again and committed.
// Mutation: a Rollback that keeps tracked keys conflicts, or keeps locks, later.
TEST_P(Transactions, RollbackAndAgain) {
  expect_same_transactions(given(), [](TxnDb& db) {
    const auto transaction = db.begin();
    db.note("put", transaction->Put("a", "1"));
    db.note("rollback", transaction->Rollback());
    db.get("a", transaction.get());
    db.note("put outside", db->Put(kWrite, "a", "outside"));
    db.note("put", transaction->Put("b", "2"));
    db.note("commit", transaction->Commit());
    db.get("a");
    db.get("b");
    db.begin_again(transaction.get());
    db.note(transaction->GetSnapshot() == nullptr ? "no snapshot" : "snapshot");
    db.note("put", transaction->Put("a", "second"));
    transaction->SetSavePoint();
    db.begin_again(transaction.get());
    db.note("back", transaction->RollbackToSavePoint());
    db.note("put outside", db->Put(kWrite, "a", "outside again"));
    db.note("put", transaction->Put("c", "third"));
    db.note("commit", transaction->Commit());
    for (const char* key : {"a", "b", "c"}) db.get(key);
  });
}

// Goal: save points take back writes, tracked keys and counts, nested and after a pop.
// Method: RocksDB's documented cases, then a write from outside to a key that is free again.
// Mutation: RollbackToSavePoint that keeps tracked keys makes the last commit fail.
TEST_P(Transactions, SavePoints) {
  expect_same_transactions(given(), [](TxnDb& db) {
    const auto transaction = db.begin();
    db.note("none", transaction->RollbackToSavePoint());
    db.note("none", transaction->PopSavePoint());
    db.note("put", transaction->Put("a", "1"));
    transaction->SetSavePoint();
    db.note("put", transaction->Put("a", "2"));
    db.note("put", transaction->Put("b", "2"));
    transaction->SetSavePoint();
    db.note("put", transaction->Put("c", "3"));
    db.note("delete", transaction->Delete("a"));
    db.note(std::to_string(transaction->GetNumKeys()) + " keys");
    db.note("rollback", transaction->RollbackToSavePoint());
    for (const char* key : {"a", "b", "c"}) db.get(key, transaction.get());
    db.note(std::to_string(transaction->GetNumKeys()) + " keys");
    transaction->SetSavePoint();
    db.note("put", transaction->Put("d", "4"));
    db.note("pop", transaction->PopSavePoint());
    db.note(std::to_string(transaction->GetNumPuts()) + " puts");
    db.note("rollback", transaction->RollbackToSavePoint());
    for (const char* key : {"a", "b", "c", "d"}) db.get(key, transaction.get());
    db.note(std::to_string(transaction->GetNumKeys()) + " keys");
    db.note("put outside", db->Put(kWrite, "b", "outside"));
    db.note("put outside", db->Put(kWrite, "d", "outside"));
    db.note("commit", transaction->Commit());
    for (const char* key : {"a", "b", "c", "d"}) db.get(key);
  });
}

// Goal: a snapshot is what conflicts are measured against; without one it is the operation itself.
// Method: writes from outside before and after SetSnapshot, tracked and untracked operations.
// Mutation: tracking at the commit's position instead of the operation's finds no conflict.
TEST_P(Transactions, Snapshots) {
  expect_same_transactions(given(), [](TxnDb& db) {
    db.note("put", db->Put(kWrite, "a", "1"));
    const auto transaction = db.begin(/*set_snapshot=*/true);
    db.note("put outside", db->Put(kWrite, "a", "2"));
    db.note("put outside", db->Put(kWrite, "b", "2"));
    rocksdb::ReadOptions at_snapshot;
    at_snapshot.snapshot = transaction->GetSnapshot();
    std::string value;
    db.note("get", transaction->Get(at_snapshot, "a", &value));
    db.note(value);
    db.get("a", transaction.get());
    db.note("for update", transaction->GetForUpdate(kRead, "a", &value));
    db.note("untracked", transaction->PutUntracked("b", "mine"));
    db.note("put", transaction->Put("b", "mine"));
    db.note("put", transaction->Put("c", "mine"));
    db.note("commit", transaction->Commit());
    db.get("a");
    db.get("b");
    const auto later = db.begin();
    later->SetSnapshotOnNextOperation();
    db.note(later->GetSnapshot() == nullptr ? "no snapshot" : "snapshot");
    db.note("put outside", db->Put(kWrite, "d", "1"));
    db.note("for update", later->GetForUpdate(kRead, "d", &value));
    db.note(later->GetSnapshot() == nullptr ? "no snapshot" : "snapshot");
    later->ClearSnapshot();
    db.note("put", later->Put("e", "1"));
    db.note("commit", later->Commit());
    const auto without = db.begin(/*set_snapshot=*/true);
    db.note("unvalidated", without->GetForUpdate(kRead, "x", &value, /*exclusive=*/true,
                                                 /*do_validate=*/false));
    rocksdb::ReadOptions own;
    own.snapshot = without->GetSnapshot();
    db.note("invalid", without->GetForUpdate(own, "x", &value, true, /*do_validate=*/false));
    db.note("rollback", without->Rollback());
  });
}

// Goal: what is written from outside between a tracked read and the commit is a conflict.
// Method: each kind of write from outside, to a key read, one written, one undone, one untracked.
// Mutation: not validating reads, or deletions, lets one of the commits through.
TEST_P(Transactions, Conflicts) {
  for (const char* how : {"put", "delete", "merge", "single delete"}) {
    expect_same_transactions(given(), [&](TxnDb& db) {
      db.note("put", db->Put(kWrite, "a", "1"));
      const auto write = [&](const char* key) {
        if (how[0] == 'p') return db->Put(kWrite, key, "outside");
        if (how[0] == 'd') return db->Delete(kWrite, key);
        if (how[0] == 'm') return db->Merge(kWrite, key, "outside");
        return db->SingleDelete(kWrite, key);
      };
      std::string value;
      const auto reader = db.begin();
      db.note("for update", reader->GetForUpdate(kRead, "a", &value));
      db.note("put", reader->Put("b", "reader"));
      db.note(how, write("a"));
      db.note("commit", reader->Commit());
      db.note("rollback", reader->Rollback());
      db.get("b");
      const auto writer = db.begin();
      db.note("put", writer->Put("a", "writer"));
      db.note(how, write("a"));
      db.note("commit", writer->Commit());
      db.note("rollback", writer->Rollback());
      db.get("a");
      const auto undone = db.begin();
      db.note("for update", undone->GetForUpdate(kRead, "a", &value));
      undone->UndoGetForUpdate("a");
      db.note("put", undone->Put("c", "undone"));
      db.note(how, write("a"));
      db.note("commit", undone->Commit());
      db.get("c");
      const auto plain = db.begin();
      db.note("get", plain->Get(kRead, "a", &value));
      db.note("put", plain->Put("d", "plain"));
      db.note(how, write("a"));
      db.note("commit", plain->Commit());
      db.get("d");
    });
  }
}

// Goal: the other ways to write and read, and the figures, are RocksDB's.
// Method: parts of keys, an unindexed batch, a rebuilt batch, undone reads within save points.
// Mutation: joining the parts of a value in the wrong order differs.
TEST_P(Transactions, OtherWays) {
  expect_same_transactions(given(), [](TxnDb& db) {
    const auto transaction = db.begin();
    const Slice key_parts[] = {"ke", "y"};
    const Slice value_parts[] = {"va", "l", "ue"};
    db.note("parts", transaction->Put(rocksdb::SliceParts(key_parts, 2),
                                      rocksdb::SliceParts(value_parts, 3)));
    db.get("key", transaction.get());
    transaction->DisableIndexing();
    db.note("unindexed", transaction->Put("hidden", "1"));
    transaction->EnableIndexing();
    db.get("hidden", transaction.get());
    db.note("other", transaction->PutUntracked(db.handle("other"), "k", "v"));
    db.note("delete parts", transaction->Delete(rocksdb::SliceParts(key_parts, 1)));
    transaction->PutLogData("for the log");
    rocksdb::WriteBatch batch;
    db.note("batch", batch.Put("rebuilt", "1"));
    db.note("batch", batch.Delete("gone"));
    db.note("batch", batch.Merge("rebuilt", "2"));
    db.note("rebuild", transaction->RebuildFromWriteBatch(&batch));
    db.get("rebuilt", transaction.get());
    std::string value;
    db.note("read", transaction->GetForUpdate(kRead, "undone", &value));
    transaction->SetSavePoint();
    transaction->UndoGetForUpdate("undone");
    db.note(std::to_string(transaction->GetNumKeys()) + " keys");
    db.note("read", transaction->GetForUpdate(kRead, "undone", &value));
    transaction->UndoGetForUpdate("undone");
    db.note("pop", transaction->PopSavePoint());
    transaction->UndoGetForUpdate("undone");
    db.note(std::to_string(transaction->GetNumKeys()) + " keys");
    std::vector<std::string> values;
    for (const Status& status : transaction->MultiGetForUpdate(kRead, {"key", "none"}, &values)) {
      db.note("for update", status);
    }
    db.note("commit", transaction->Commit());
    for (const char* key : {"key", "hidden", "rebuilt"}) db.get(key);
    db.note("batch size " + std::to_string(transaction->GetWriteBatch()->GetWriteBatch()->Count()));
  });
}

// Goal: range deletions have no place in a transaction database, as in RocksDB's.
// Method: DeleteRange and a batch with one.
// Mutation: letting either through writes what no lock covers.
TEST_P(Transactions, NoRangeDeletions) {
  expect_same_transactions(given(), [](TxnDb& db) {
    db.note("range", db->DeleteRange(kWrite, db.handle("default"), "a", "b"));
    if (GetParam() == Style::kOptimistic || db.is_breccia()) {
      rocksdb::WriteBatch batch;
      EXPECT_TRUE(batch.DeleteRange("a", "b").ok());
      EXPECT_TRUE(db->Write(kWrite, &batch).IsNotSupported());
    }
  });
}

// Goal: bad use is an error and no crash: another database's handle, long keys, released snapshots.
// Method: each on a transaction that then commits what was right.
// Mutation: passing the handle on unseen ends the process.
TEST_P(Transactions, BadUse) {
  const auto db = open_breccia(given());
  const auto other = open_breccia(given());
  const auto transaction = db->begin();
  std::string value;
  EXPECT_TRUE(transaction->Put(other->handle("other"), "a", "1").IsInvalidArgument());
  EXPECT_TRUE(transaction->Get(kRead, other->handle("other"), "a", &value).IsInvalidArgument());
  EXPECT_TRUE(
      transaction->GetForUpdate(kRead, other->handle("other"), "a", &value).IsInvalidArgument());
  const std::unique_ptr<rocksdb::Iterator> at(
      transaction->GetIterator(kRead, other->handle("other")));
  EXPECT_TRUE(at->status().IsInvalidArgument());
  EXPECT_TRUE(transaction->Put(std::string((64 << 10) + 1, 'k'), "1").IsInvalidArgument());
  rocksdb::ReadOptions released;
  released.snapshot = (*db)->GetSnapshot();
  (*db)->ReleaseSnapshot(released.snapshot);
  EXPECT_TRUE(transaction->Get(released, "a", &value).IsInvalidArgument());
  EXPECT_TRUE(transaction->Put("a", "1").ok());
  EXPECT_TRUE(transaction->Commit().ok());
  EXPECT_TRUE((*db)->Get(kRead, "a", &value).ok());
}

// Goal: a transaction database of one family opens with breccia's own options, too.
// Method: both kinds, in the form without families; a transaction that commits.
// Mutation: a form that forgets its transaction options is not serializable.
TEST_P(Transactions, OwnOptionsWithoutFamilies) {
  const Folder folder(Place::kMemory);
  const Options options = options_of(usual(), folder / "db");
  std::unique_ptr<rocksdb::StackableDB> db;
  if (GetParam() == Style::kOptimistic) {
    OptimisticTransactionDBOptions own;
    own.serializable = true;
    rocksdb::OptimisticTransactionDB* opened = nullptr;
    ASSERT_TRUE(OptimisticTransactionDB::Open(options, own, folder / "db", &opened).ok());
    db.reset(opened);
  } else {
    TransactionDBOptions own;
    own.serializable = true;
    rocksdb::TransactionDB* opened = nullptr;
    ASSERT_TRUE(TransactionDB::Open(options, own, folder / "db", &opened).ok());
    db.reset(opened);
  }
  const std::unique_ptr<rocksdb::Transaction> transaction(
      GetParam() == Style::kOptimistic
          ? static_cast<rocksdb::OptimisticTransactionDB&>(*db).BeginTransaction(kWrite)
          : static_cast<rocksdb::TransactionDB&>(*db).BeginTransaction(kWrite));
  std::string value;
  EXPECT_TRUE(transaction->Get(kRead, "read", &value).IsNotFound());
  EXPECT_TRUE(db->Put(kWrite, "read", "by somebody else").ok());
  EXPECT_TRUE(transaction->Put("mine", "1").ok());
  EXPECT_TRUE(transaction->Commit().IsBusy());
}

// Goal: Busy means a conflict; a commit that finds no room, and may not wait, says Incomplete.
// Method: a serializable transaction that has read something commits while flushes are paused and
//         the log is full, and another one when there is room.
// Mutation: an engine that says Busy where there is no room fails.
TEST_P(Transactions, NoRoomIsNoConflict) {
  TxnGiven small = given();
  small.serializable = true;
  small.given.memtable_bytes = 4 << 20;
  const auto db = open_breccia(small);
  const std::string large(1 << 20, 'v');
  ASSERT_TRUE((*db)->PauseBackgroundWork().ok());
  rocksdb::WriteOptions at_once;
  at_once.no_slowdown = true;
  Status status;
  for (int i = 0; i < 100 && status.ok(); ++i) {
    status = (*db)->Put(at_once, std::to_string(i), large);
  }
  EXPECT_TRUE(status.IsIncomplete()) << status.ToString();
  const auto commit = [&] {
    const auto transaction = db->begin();
    transaction->SetWriteOptions(at_once);
    std::string value;
    EXPECT_TRUE(transaction->Get(kRead, "0", &value).ok());
    EXPECT_TRUE(transaction->Put("mine", large).ok());
    return transaction->Commit();
  };
  status = commit();
  EXPECT_TRUE(status.IsIncomplete()) << status.ToString();
  ASSERT_TRUE((*db)->ContinueBackgroundWork().ok());
  ASSERT_TRUE((*db)->Flush({}).ok());
  status = commit();
  EXPECT_TRUE(status.ok()) << status.ToString();
}

INSTANTIATE_TEST_SUITE_P(Facade, Transactions,
                         ::testing::Values(Style::kOptimistic, Style::kPessimistic), name_of);

}  // namespace breccia::testing
