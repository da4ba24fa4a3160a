#include <gtest/gtest.h>
#include <rocksdb/compaction_filter.h>

#include <algorithm>
#include <chrono>
#include <latch>
#include <thread>

#include "txn_db.h"

/// Locks, expiration, deadlocks and two phases of a TransactionDB.

namespace breccia::testing {

namespace {

const rocksdb::WriteOptions kWrite;
const rocksdb::ReadOptions kRead;

TxnGiven locking() {
  TxnGiven given;
  given.style = Style::kPessimistic;
  given.given.families = {"other"};
  return given;
}

TxnGiven waiting(std::int64_t timeout_ms) {
  TxnGiven given = locking();
  given.locking.transaction_lock_timeout = timeout_ms;
  given.locking.default_lock_timeout = timeout_ms;
  return given;
}

Status read_for_update(rocksdb::Transaction* transaction, const std::string& key,
                       bool exclusive = true) {
  std::string value;
  return transaction->GetForUpdate(kRead, key, &value, exclusive);
}

bool has_lock(const Status& status) { return status.ok() || status.IsNotFound(); }

}  // namespace

// Goal: who may lock what, beside whom, is RocksDB's: shared, exclusive, up- and downgraded.
// Method: every pair of modes, an upgrade alone and among others, locks given back by save points.
// Mutation: granting a shared lock beside an exclusive one differs.
TEST(Pessimistic, LockModes) {
  expect_same_transactions(locking(), [](TxnDb& db) {
    const auto a = db.begin();
    const auto b = db.begin();
    db.note("a shared", read_for_update(a.get(), "k", false));
    db.note("b shared", read_for_update(b.get(), "k", false));
    db.note("a upgrades", read_for_update(a.get(), "k"));
    b->UndoGetForUpdate("k");
    db.note("a upgrades", read_for_update(a.get(), "k"));
    db.note("b shared", read_for_update(b.get(), "k", false));
    db.note("b writes", b->Put("k", "b"));
    db.note("b other family", b->Put(db.handle("other"), "k", "b"));
    a->SetSavePoint();
    db.note("a locks", a->Put("m", "a"));
    db.note("b locks", b->Put("m", "b"));
    db.note("outside", db->Put(kWrite, "m", "outside"));
    rocksdb::WriteBatch batch;
    EXPECT_TRUE(batch.Put("n", "batch").ok());
    EXPECT_TRUE(batch.Delete("m").ok());
    db.note("outside batch", db->Write(kWrite, &batch));
    db.note("outside unlocked",
            db.locking()->Write(kWrite, {.skip_concurrency_control = true}, &batch));
    db.note("a back", a->RollbackToSavePoint());
    db.note("b locks", b->Put("m", "b"));
    db.note("b commits", b->Commit());
    db.note("a commits", a->Commit());
    db.note("a again", a->Commit());
    db.note("a rolls back", a->Rollback());
    for (const char* key : {"k", "m", "n"}) db.get(key);
  });
}

// Goal: assume_tracked, skip_concurrency_control and the size limit of a batch are RocksDB's.
// Method: each with and without what it assumes.
// Mutation: tracking a key that is only assumed to be tracked counts it twice.
TEST(Pessimistic, Options) {
  expect_same_transactions(locking(), [](TxnDb& db) {
    const auto a = db.begin();
    db.note("not tracked", a->Put(db.handle("default"), "k", "1", /*assume_tracked=*/true));
    db.note("tracked", read_for_update(a.get(), "k"));
    db.note("assumed", a->Put(db.handle("default"), "k", "1", /*assume_tracked=*/true));
    db.note(std::to_string(a->GetNumKeys()) + " keys");
    rocksdb::TransactionOptions options;
    options.skip_concurrency_control = true;
    const auto free = db.begin(options);
    db.note("free", free->Put("k", "2"));
    db.note("free commits", free->Commit());
    db.note("commit", a->Commit());
    db.get("k");
    options = {};
    options.max_write_batch_size = 40;
    const auto small = db.begin(options);
    db.note("fits", small->Put("x", "1"));
    db.note("does not", small->Put("y", std::string(100, 'y')));
    db.get("y", small.get());
    db.note("commit", small->Commit());
    db.get("x");
  });
}

// Goal: a transaction that has expired loses its locks to whoever wants them, and cannot commit.
// Method: an expired one beside one that takes its key, and one whose locks nobody wanted.
// Mutation: not asking the owner lets both commit.
TEST(Pessimistic, Expiration) {
  expect_same_transactions(locking(), [](TxnDb& db) {
    rocksdb::TransactionOptions options;
    options.expiration = 1;
    const auto old = db.begin(options);
    const auto unwanted = db.begin(options);
    db.note("put", old->Put("a", "old"));
    db.note("put", unwanted->Put("b", "unwanted"));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const auto taker = db.begin();
    db.note("take", taker->Put("a", "taker"));
    db.note("old commits", old->Commit());
    db.note("unwanted commits", unwanted->Commit());
    db.note("old rolls back", old->Rollback());
    db.note("state " + std::to_string(old->GetState()));
    db.note("taker commits", taker->Commit());
    db.note("unwanted rolls back", unwanted->Rollback());
    db.note("b", db->Put(kWrite, "b", "outside"));
    db.get("a");
    db.get("b");
    options.expiration = 100'000;
    const auto lasting = db.begin(options);
    db.note("put", lasting->Put("c", "lasting"));
    db.note("commit", lasting->Commit());
    db.note("commit again", lasting->Commit());
    db.get("c");
  });
}

// Goal: what is prepared keeps its locks, whatever time they were taken for.
// Method: a transaction that would expire is prepared; when its time is over another wants its key.
// Mutation: forgetting at Prepare that locks may be taken only from who agrees lets the other in.
//   (Not beside RocksDB, which asserts there that what it looks at has expired.)
TEST(Pessimistic, PreparedOnesDoNotExpire) {
  TxnDb db(Kind::kBreccia, locking());
  ASSERT_TRUE(db.open().ok());
  rocksdb::TransactionOptions options;
  options.expiration = 1500;
  const auto prepared = db.begin(options);
  ASSERT_TRUE(prepared->SetName("it").ok());
  ASSERT_TRUE(prepared->Put("k", "prepared").ok());
  ASSERT_TRUE(prepared->Prepare().ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(1600));
  const auto taker = db.begin();
  EXPECT_TRUE(taker->Put("k", "taker").IsTimedOut());
  EXPECT_TRUE(prepared->Commit().ok());
  EXPECT_TRUE(taker->Put("k", "taker").ok());
  EXPECT_TRUE(taker->Commit().ok());
}

// Goal: who follows the log sees what users wrote, and can write it to a database of his own.
// Method: a transaction in two phases; what GetUpdatesSince has goes into an empty database.
// Mutation: handing out the records of prepared transactions makes those batches invalid there.
TEST(Pessimistic, PreparedRecordsAreNoUpdates) {
  TxnDb db(Kind::kBreccia, locking());
  ASSERT_TRUE(db.open().ok());
  const auto transaction = db.begin();
  ASSERT_TRUE(transaction->SetName("it").ok());
  ASSERT_TRUE(transaction->Put("k", "v").ok());
  ASSERT_TRUE(transaction->Prepare().ok());
  ASSERT_TRUE(transaction->Commit().ok());
  std::unique_ptr<rocksdb::TransactionLogIterator> updates;
  ASSERT_TRUE(db->GetUpdatesSince(0, &updates, {}).ok());
  int writes = 0;
  for (; updates->Valid(); updates->Next()) {
    const rocksdb::BatchResult batch = updates->GetBatch();
    writes += batch.writeBatchPtr->Count();
    EXPECT_TRUE(db->Write(kWrite, batch.writeBatchPtr.get()).ok());
    if (writes > 1) break;  // those written here follow
  }
  EXPECT_GE(writes, 1);
}

// Goal: a limit on locks is RocksDB's, and what is given back may be taken again.
// Method: a limit of two.
// Mutation: counting a lock that was held already refuses the upgrade.
TEST(Pessimistic, LockLimit) {
  TxnGiven given = locking();
  given.locking.max_num_locks = 2;
  expect_same_transactions(given, [](TxnDb& db) {
    const auto a = db.begin();
    db.note("1", read_for_update(a.get(), "a", false));
    db.note("2", a->Put("b", "1"));
    db.note("3", a->Put("c", "1"));
    db.note("other family", a->Put(db.handle("other"), "c", "1"));
    db.note("upgrade", a->Put("a", "1"));
    db.note("commit", a->Commit());
    const auto b = db.begin();
    db.note("again", b->Put("c", "1"));
    db.note("again", b->Put("d", "1"));
    db.note("again", b->Put("e", "1"));
  });
}

// Goal: a name is unique, a prepared transaction keeps its locks until it is committed or rolled
//       back, and both survive, or end with, the database.
// Method: RocksDB's two-phase cases, a reopen between the phases, a commit-time batch.
// Mutation: a commit that leaves the prepared record commits again after the next reopen.
TEST(Pessimistic, TwoPhases) {
  expect_same_transactions(locking(), [](TxnDb& db) {
    auto a = db.begin();
    db.note("unnamed", a->Prepare());
    db.note("name", a->SetName("a"));
    db.note("renamed", a->SetName("b"));
    auto same = db.begin();
    db.note("taken", same->SetName("a"));
    db.note("empty", same->SetName(""));
    db.note("long", same->SetName(std::string(513, 'n')));
    db.note(db.locking()->GetTransactionByName("a") == a.get() ? "found" : "lost");
    db.note("put", a->Put("k", "prepared"));
    db.note("put", a->Put(db.handle("other"), "k", "prepared"));
    db.note("prepare", a->Prepare());
    db.note("prepare again", a->Prepare());
    db.note("back", a->RollbackToSavePoint());
    db.get("k");
    db.note("locked", same->Put("k", "same"));
    db.note("commit", a->Commit());
    db.get("k");
    db.note("commit again", a->Commit());
    db.note(db.locking()->GetTransactionByName("a") == nullptr ? "gone" : "still there");
    db.note("name", same->SetName("a"));
    db.note("put", same->Put("k", "rolled back"));
    db.note("prepare", same->Prepare());
    db.note("rollback", same->Rollback());
    db.get("k");
    db.note("commit", same->Commit());
    same.reset();
    rocksdb::TransactionOptions options;
    options.skip_prepare = false;
    auto strict = db.begin(options);
    db.note("put", strict->Put("s", "1"));
    db.note("not prepared", strict->Commit());
    strict.reset();
    a.reset();
    a = db.begin();
    db.note("name", a->SetName("commit-time"));
    db.note("put", a->Put("p", "1"));
    db.note("prepare", a->Prepare());
    db.note("at commit", a->GetCommitTimeWriteBatch()->Put("q", "2"));
    db.note("commit", a->Commit());
    db.get("p");
    db.get("q");
  });
}

// Goal: what was prepared when the database closed is there again, with its writes and locks, and
//       is committed once, flushed or not.
// Method: three prepared transactions over reopens with flushes: one committed, one rolled back.
// Mutation: not writing the end of a prepared transaction with its writes finds it again.
TEST(Pessimistic, PreparedOverReopens) {
  for (const bool flushes : {false, true}) {
    const auto db = open_breccia(locking());
    for (const char* name : {"one", "two", "three"}) {
      const auto transaction = db->begin();
      ASSERT_TRUE(transaction->SetName(name).ok());
      ASSERT_TRUE(transaction->Put(std::string("key of ") + name, name).ok());
      ASSERT_TRUE(transaction->Put(db->handle("other"), name, "1").ok());
      ASSERT_TRUE(transaction->Prepare().ok());
    }
    std::vector<rocksdb::Transaction*> prepared;
    db->locking()->GetAllPreparedTransactions(&prepared);
    EXPECT_EQ(prepared.size(), 0U) << "deleted with their objects, as RocksDB's";
    if (flushes) {
      ASSERT_TRUE((*db)->Flush({}).ok());
    }
    db->reopen();
    db->locking()->GetAllPreparedTransactions(&prepared);
    ASSERT_EQ(prepared.size(), 3U);
    std::string value;
    EXPECT_TRUE((*db)->Get(kRead, "key of one", &value).IsNotFound());
    EXPECT_TRUE((*db)->Put(kWrite, "key of one", "outside").IsTimedOut());
    rocksdb::Transaction* const one = db->locking()->GetTransactionByName("one");
    ASSERT_NE(one, nullptr);
    EXPECT_TRUE(one->Commit().ok());
    EXPECT_TRUE(db->locking()->GetTransactionByName("two")->Rollback().ok());
    if (flushes) {
      ASSERT_TRUE((*db)->Flush({}).ok());
    }
    delete one;
    db->reopen();
    db->locking()->GetAllPreparedTransactions(&prepared);
    ASSERT_EQ(prepared.size(), 1U);
    EXPECT_EQ(prepared[0]->GetName(), "three");
    EXPECT_TRUE((*db)->Get(kRead, "key of one", &value).ok());
    EXPECT_TRUE((*db)->Get(kRead, db->handle("other"), "one", &value).ok());
    EXPECT_TRUE((*db)->Get(kRead, "key of two", &value).IsNotFound());
    EXPECT_TRUE((*db)->Put(kWrite, "key of two", "outside").ok());
    std::vector<std::string> families;
    const std::string path = db->path();
    db->close();
    EXPECT_TRUE(Rocks::ListColumnFamilies({}, path, &families).ok());
    EXPECT_EQ(families, (std::vector<std::string>{"default", "other"}));
    db->reopen();
  }
}

// Goal: a database opens whatever was prepared in it: without locks, on the same key, or for a
//       family that is gone, and whatever the options of the default family do to entries.
// Method: two such transactions on one key, one that also writes to a dropped family; a compaction
//         filter that removes everything.
// Mutation: refusing the second transaction's lock, or the missing family, keeps it closed.
TEST(Pessimistic, PreparedInAnyWay) {
  class RemoveAll final : public rocksdb::CompactionFilter {
   public:
    bool Filter(int, const Slice&, const Slice&, std::string*, bool*) const override {
      return true;
    }
    [[nodiscard]] const char* Name() const override { return "remove all"; }
  };
  const RemoveAll filter;
  TxnGiven given = locking();
  given.given.families = {};
  given.given.family.compaction_filter = &filter;
  const auto db = open_breccia(given);
  rocksdb::ColumnFamilyHandle* gone = nullptr;
  ASSERT_TRUE((*db)->CreateColumnFamily({}, "gone", &gone).ok());
  rocksdb::TransactionOptions options;
  options.skip_concurrency_control = true;
  for (const char* name : {"one", "two"}) {
    const auto transaction = db->begin(options);
    ASSERT_TRUE(transaction->SetName(name).ok());
    ASSERT_TRUE(transaction->Put("k", name).ok());
    ASSERT_TRUE(transaction->Put(gone, "k", name).ok());
    ASSERT_TRUE(transaction->Prepare().ok());
  }
  ASSERT_TRUE((*db)->DropColumnFamily(gone).ok());
  ASSERT_TRUE((*db)->DestroyColumnFamilyHandle(gone).ok());
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE((*db)->Flush({}).ok());
    db->reopen();
    ASSERT_TRUE((*db)->CompactRange({}, nullptr, nullptr).ok());
  }
  std::vector<rocksdb::Transaction*> prepared;
  db->locking()->GetAllPreparedTransactions(&prepared);
  ASSERT_EQ(prepared.size(), 2U);
  for (rocksdb::Transaction* one : prepared) EXPECT_TRUE(one->Commit().ok());
  std::string value;
  EXPECT_TRUE((*db)->Get(kRead, "k", &value).ok());
  for (rocksdb::Transaction* one : prepared) delete one;
}

// Goal: a lock is waited for as long as it was said, and handed over when it is given back.
// Method: one thread waits while another commits after a moment; then one waits in vain.
// Mutation: giving a lock back without telling anybody lets the waiter time out.
TEST(Pessimistic, ConcurrentWaiting) {
  const auto db = open_breccia(waiting(/*timeout_ms=*/20'000));
  auto holder = db->begin();
  ASSERT_TRUE(holder->Put("k", "holder").ok());
  const auto waiting_one = db->begin();
  std::thread waiter([&] {
    EXPECT_TRUE(waiting_one->Put("k", "waiter").ok());
    EXPECT_TRUE(waiting_one->Commit().ok());
  });
  const auto begun = std::chrono::steady_clock::now();
  std::uint32_t family = 1;
  std::string key;
  std::vector<rocksdb::TransactionID> holders;
  while (holders.empty()) holders = waiting_one->GetWaitingTxns(&family, &key);
  EXPECT_EQ(holders, std::vector<rocksdb::TransactionID>{holder->GetID()});
  EXPECT_EQ(family, 0U);
  EXPECT_EQ(key, "k");
  EXPECT_TRUE(holder->Commit().ok());
  waiter.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(10));
  std::string value;
  ASSERT_TRUE((*db)->Get(kRead, "k", &value).ok());
  EXPECT_EQ(value, "waiter");

  holder = db->begin();
  ASSERT_TRUE(holder->Put("k", "holder").ok());
  const auto hurried = db->begin();
  hurried->SetLockTimeout(30);
  const auto asked = std::chrono::steady_clock::now();
  const Status status = hurried->Put("k", "hurried");
  EXPECT_TRUE(status.IsTimedOut());
  EXPECT_EQ(status.subcode(), Status::SubCode::kLockTimeout);
  EXPECT_GE(std::chrono::steady_clock::now() - asked, std::chrono::milliseconds(30));
}

// Goal: of transactions that wait for each other in a circle one hears of it at once, the others go
//       on, and the circle is remembered as RocksDB remembers it.
// Method: three threads, each with one key, wanting the next one's; then a chain without a circle.
// Mutation: looking only at whom the waiter waits for, not further, waits for the timeout.
TEST(Pessimistic, ConcurrentDeadlock) {
  const auto db = open_breccia(waiting(/*timeout_ms=*/60'000));
  constexpr int kRing = 3;
  rocksdb::TransactionOptions options;
  options.deadlock_detect = true;
  std::vector<TxnDb::TransactionPtr> ring;
  for (int i = 0; i < kRing; ++i) {
    ring.push_back(db->begin(options));
    ASSERT_TRUE(ring[i]->Put("key" + std::to_string(i), "own").ok());
  }
  const auto begun = std::chrono::steady_clock::now();
  std::atomic<int> deadlocks{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kRing; ++i) {
    threads.emplace_back([&, i] {
      const Status status = ring[i]->Put("key" + std::to_string((i + 1) % kRing), "next");
      if (status.IsBusy() && status.subcode() == Status::SubCode::kDeadlock) {
        ++deadlocks;
        EXPECT_TRUE(ring[i]->Rollback().ok());
      } else {
        EXPECT_TRUE(status.ok()) << status.ToString();
        EXPECT_TRUE(ring[i]->Commit().ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(deadlocks, 1);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(30));
  const std::vector<rocksdb::DeadlockPath> paths = db->locking()->GetDeadlockInfoBuffer();
  ASSERT_EQ(paths.size(), 1U);
  ASSERT_EQ(paths[0].path.size(), static_cast<std::size_t>(kRing));
  EXPECT_FALSE(paths[0].limit_exceeded);
  for (int i = 0; i < kRing; ++i) {
    // Each waits for a key of the one that follows it.
    const rocksdb::DeadlockInfo& info = paths[0].path[i];
    const rocksdb::DeadlockInfo& next = paths[0].path[(i + 1) % kRing];
    const auto holder = std::find_if(
        ring.begin(), ring.end(), [&](const auto& one) { return one->GetID() == next.m_txn_id; });
    ASSERT_NE(holder, ring.end());
    EXPECT_EQ(info.m_waiting_key, "key" + std::to_string(holder - ring.begin()));
    EXPECT_TRUE(info.m_exclusive);
  }
  db->locking()->SetDeadlockInfoBufferSize(0);
  EXPECT_TRUE(db->locking()->GetDeadlockInfoBuffer().empty());
}

// Goal: a transaction's numbers are positions in the log: where it was prepared, where it ended.
// Method: both are asked for before and behind Prepare and Commit, beside the database's position.
// Mutation: a number that stays 0, or that a commit does not move on, fails.
TEST(Pessimistic, Numbers) {
  const auto db = open_breccia(locking());
  const auto transaction = db->begin();
  EXPECT_EQ(transaction->GetLogNumber(), 0u);
  EXPECT_EQ(transaction->GetId(), 0u);
  ASSERT_TRUE(transaction->SetName("a").ok());
  ASSERT_TRUE(transaction->Put("k", "v").ok());
  ASSERT_TRUE(transaction->Prepare().ok());
  EXPECT_EQ(transaction->GetLogNumber(), (*db)->GetLatestSequenceNumber());
  ASSERT_TRUE(transaction->Commit().ok());
  EXPECT_EQ(transaction->GetId(), (*db)->GetLatestSequenceNumber());
  EXPECT_GT(transaction->GetId(), transaction->GetLogNumber());
  transaction->SetLogNumber(7);
  EXPECT_EQ(transaction->GetLogNumber(), 7u);
}

// Goal: a transaction that was rolled back is validated from its snapshot on, as before.
// Method: its snapshot stays while what was written since is flushed; then it reads for updates.
// Mutation: a rollback that gives up the history says TryAgain of every key.
TEST(Pessimistic, SnapshotAfterRollback) {
  expect_same_transactions(locking(), [](TxnDb& db) {
    const auto transaction = db.begin(/*set_snapshot=*/true);
    for (int round = 0; round < 2; ++round) {
      db.note("write", transaction->Put("a", "1"));
      db.note("roll back", transaction->Rollback());
      EXPECT_TRUE(db->Put(kWrite, "b", "2").ok());
      EXPECT_TRUE(db->Flush({}).ok());
      db.note("untouched", read_for_update(transaction.get(), "c"));
      db.note("written", read_for_update(transaction.get(), "b"));
    }
    transaction->ClearSnapshot();
    db.note("without", read_for_update(transaction.get(), "b"));
  });
}

// Goal: what RocksDB's TransactionDB has left in its log is taken over, but for what is prepared.
// Method: transactions with two phases by RocksDB, ended and not; then breccia on the same folder.
// Mutation: leaving RocksDB's log to the tree, which is no TransactionDB, refuses all of it.
TEST(Pessimistic, AfterRocksDb) {
  for (const bool is_ended : {true, false}) {
    const TxnGiven given = locking();
    const Folder folder(Place::kMemory);
    const std::string path = folder / "db";
    const facade::Descriptors families = descriptors_of(given.given);
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    rocksdb::TransactionDB* opened = nullptr;
    ASSERT_TRUE(rocksdb::TransactionDB::Open(given.given.db, given.locking, path, families,
                                             &handles, &opened)
                    .ok());
    std::unique_ptr<rocksdb::TransactionDB> db(opened);
    std::unique_ptr<rocksdb::Transaction> transaction(db->BeginTransaction(kWrite));
    ASSERT_TRUE(transaction->SetName("one").ok());
    ASSERT_TRUE(transaction->Put(handles.back(), "a", "1").ok());
    ASSERT_TRUE(transaction->Prepare().ok());
    if (is_ended) {
      ASSERT_TRUE(transaction->Commit().ok());
    }
    transaction.reset();
    for (auto* const handle : handles) ASSERT_TRUE(db->DestroyColumnFamilyHandle(handle).ok());
    db.reset();
    const Status status = TransactionDB::Open(options_of(given.given, path), given.locking, path,
                                              families, &handles, &opened);
    EXPECT_EQ(code_of(status), is_ended ? "Ok" : "NotSupported") << status.ToString();
    db.reset(opened);
    if (!is_ended) continue;
    std::string value;
    EXPECT_TRUE(db->Get(kRead, handles.back(), "a", &value).ok());
    EXPECT_EQ(value, "1");
    for (auto* const handle : handles) ASSERT_TRUE(db->DestroyColumnFamilyHandle(handle).ok());
  }
}

// Goal: what is not supported says so when the database is opened, or called.
// Method: the other write policies, timestamped snapshots, Prepare of a serializable transaction
//         that has read without locks.
// Mutation: opening WRITE_PREPARED as if it were WRITE_COMMITTED changes what readers see.
TEST(Pessimistic, NotSupported) {
  TxnGiven given = locking();
  given.locking.write_policy = rocksdb::WRITE_PREPARED;
  TxnDb refused(Kind::kBreccia, given);
  EXPECT_TRUE(refused.open().IsNotSupported());
  given = locking();
  given.serializable = true;
  const auto db = open_breccia(given);
  EXPECT_TRUE(db->locking()->CreateTimestampedSnapshot(1).first.IsNotSupported());
  EXPECT_EQ(db->locking()->GetTimestampedSnapshot(1), nullptr);
  const auto transaction = db->begin();
  EXPECT_TRUE(transaction->SetCommitTimestamp(1).IsNotSupported());
  EXPECT_TRUE(
      transaction
          ->GetRangeLock(db->handle("default"), rocksdb::Endpoint("a"), rocksdb::Endpoint("b"))
          .IsNotSupported());
  std::string value;
  EXPECT_TRUE(transaction->SetName("name").ok());
  EXPECT_TRUE(has_lock(transaction->Get(kRead, "k", &value)));
  EXPECT_TRUE(transaction->Prepare().IsNotSupported());
  EXPECT_TRUE(transaction->Rollback().ok());
  EXPECT_TRUE(has_lock(read_for_update(transaction.get(), "k")));
  EXPECT_TRUE(transaction->Put("k", "1").ok());
  EXPECT_TRUE(transaction->Prepare().ok());
  EXPECT_TRUE(transaction->Commit().ok());
}

}  // namespace breccia::testing
