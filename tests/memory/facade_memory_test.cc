#include <breccia/merge_operators.h>
#include <breccia/optimistic_transaction_db.h>
#include <breccia/rocks.h>
#include <breccia/transaction_db.h>
#include <gtest/gtest.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/utilities/transaction.h>

#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "facade/db/options.h"
#include "memory/fail_each.h"
#include "support/folder.h"
#include "support/small_options.h"

/// RocksDB's interface in a process without memory: first a database and what must be in it, then a
/// transaction and what it has done, then the tests.

namespace breccia {

namespace {

using testing::ExposedCall;
using testing::fail_each;
using testing::SparedThread;
using testing::tried;

enum class Kind { kRocks, kOptimistic, kSerializable, kLocking };

using Place = std::pair<std::string, std::string>;  // a family and a key
using Value = std::optional<std::string>;           // none: there is no such key
using Contents = std::map<Place, Value>;
using TransactionPtr = std::unique_ptr<rocksdb::Transaction>;
using IteratorPtr = std::unique_ptr<rocksdb::Iterator>;

/// More than fail in a row.
constexpr int kTriesMax = 30;

std::string number(std::uint64_t value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

Value value_in(const Contents& contents, const Place& place) {
  const auto at = contents.find(place);
  return at == contents.end() ? std::nullopt : at->second;
}

/// Of a call that returns an object and has no other way to say that there was no memory for it.
template <class Make>
auto made_by(const Make& make) -> decltype(make()) {
  try {
    const ExposedCall exposed;
    return make();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

/// A read says what is there, or that there was no memory.
void expect_read(const Status& status, const Slice& value, const Value& expected) {
  if (status.IsMemoryLimit()) return;
  EXPECT_TRUE(status.ok() || status.IsNotFound()) << status.ToString();
  EXPECT_EQ(status.ok() ? Value(value.ToString()) : std::nullopt, expected);
}

/// An iterator meets what `contents` have of the family. One that found no memory goes on.
void expect_walk(rocksdb::Iterator* iterator, const std::string& family, const Contents& contents) {
  Contents met;
  bool whole = false;
  for (int tries = kTriesMax; tries > 0 && !whole; --tries) {
    met.clear();
    try {
      const ExposedCall exposed;
      for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
        const SparedThread spared;
        met[{family, iterator->key().ToString()}] = iterator->value().ToString();
      }
      whole = iterator->status().ok();
    } catch (const std::bad_alloc&) {
    }
  }
  EXPECT_TRUE(whole) << iterator->status().ToString();
  Contents expected;
  for (const auto& [place, value] : contents) {
    if (place.first == family && value.has_value()) expected[place] = value;
  }
  EXPECT_EQ(met, expected);
}

// ---- a database --------------------------------------------------------------------------------

/// A database with the families `default` and `other`, and what must be in it.
class Session {
 public:
  explicit Session(Kind kind)
      : kind_(kind), folder_(testing::Place::kMemory), options_(testing::small_options()) {
    options_.device_requests_min = 8;
    options_.entry_cache_bytes = 1 << 16;
    options_.rocksdb.merge_operator = NewInt64AddOperator();
    options_.rocksdb.create_missing_column_families = true;
  }
  ~Session() {
    testing::disarm_allocations();
    close();
  }

  bool open() {
    const facade::Descriptors families = descriptors();
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    const Status status = tried([&] { return open_as(families, &handles); });
    EXPECT_TRUE(status.ok() || status.IsMemoryLimit()) << status.ToString();
    EXPECT_EQ(status.ok(), db_ != nullptr);
    EXPECT_EQ(handles.size(), status.ok() ? families.size() : 0);
    for (std::size_t i = 0; i < handles.size(); ++i) handles_[families[i].name] = handles[i];
    return status.ok();
  }

  void close() {
    for (const auto& [name, handle] : handles_) {
      EXPECT_TRUE(tried([&] { return db_->DestroyColumnFamilyHandle(handle); }).ok());
    }
    handles_.clear();
    const ExposedCall exposed;
    db_.reset();
  }

  [[nodiscard]] rocksdb::DB* db() const { return db_.get(); }
  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] rocksdb::ColumnFamilyHandle* handle(const std::string& family) const {
    return handles_.at(family);
  }
  [[nodiscard]] const Contents& contents() const { return contents_; }
  /// It has met an error other than MemoryLimit, and is read-only.
  [[nodiscard]] bool is_stopped() const { return stopped_; }

  /// Without failures: what is acknowledged is there and all else is not, also when it is opened
  /// again.
  void check() {
    testing::disarm_allocations();
    if (db_ != nullptr) {
      check_contents(/*after_opening=*/false);
      put("default", "after", "all");
      close();
    }
    stopped_ = false;
    std::vector<std::string> families;
    ASSERT_TRUE(Rocks::ListColumnFamilies(options_.rocksdb, path_, &families).ok());
    const std::set<std::string> there(families.begin(), families.end());
    if (there.contains(unknown_family_)) families_.insert(unknown_family_);
    EXPECT_EQ(there, families_);
    ASSERT_TRUE(open());
    check_contents(/*after_opening=*/true);
    check_prepared();
    put("other", "last", "of all");
    EXPECT_TRUE(db_->Flush({}).ok());
    EXPECT_FALSE(stopped_);
    check_contents(/*after_opening=*/true);
  }

  // ---- writes ----

  void put(const std::string& family, const std::string& key, const std::string& value) {
    note(tried([&] { return db_->Put({}, handle(family), key, value); }), {{{family, key}, value}});
  }
  /// To a number that is there. False if nothing was written.
  bool add(const std::string& family, const std::string& key, std::uint64_t more) {
    const std::string sum = added(family, key, more);
    const std::string operand = number(more);
    const Status status = tried([&] { return db_->Merge({}, handle(family), key, operand); });
    note(status, {{{family, key}, sum}});
    return status.ok();
  }
  void remove(const std::string& family, const std::string& key) {
    note(tried([&] { return db_->Delete({}, handle(family), key); }), {{{family, key}, {}}});
  }
  void remove_range(const std::string& family, const std::string& begin, const std::string& end) {
    const auto remove = [&] { return db_->DeleteRange({}, handle(family), begin, end); };
    note(tried(remove), without(family, begin, end));
  }
  /// A batch with writes of all kinds: `puts` keys begin0, begin1, ...; 1 more to other/number;
  /// default/removed goes.
  void batch(const std::string& begin, int puts) {
    rocksdb::WriteBatch batch;
    Contents effects;
    for (int i = 0; i < puts; ++i) {
      const std::string key = begin + std::to_string(i);
      const std::string family = i % 2 == 0 ? "default" : "other";
      EXPECT_TRUE(batch.Put(handle(family), key, number(i)).ok());
      effects[{family, key}] = number(i);
    }
    EXPECT_TRUE(batch.Merge(handle("other"), "number", number(1)).ok());
    effects[{"other", "number"}] = added("other", "number", 1);
    EXPECT_TRUE(batch.Delete(handle("default"), "removed").ok());
    effects[{"default", "removed"}] = {};
    if (kind_ == Kind::kRocks) {
      EXPECT_TRUE(batch.DeleteRange(handle("other"), begin, begin + "0").ok());
    }
    note(tried([&] { return db_->Write({}, &batch); }), effects);
  }

  /// What became of a write, by its status. MemoryLimit promises that nothing was written; after
  /// any other error the store is read-only, and only opening it tells.
  void note(const Status& status, const Contents& effects) {
    for (const auto& [place, value] : effects) places_.insert(place);
    if (status.ok()) {
      EXPECT_FALSE(stopped_);
      for (const auto& [place, value] : effects) contents_[place] = value;
    } else if (!status.IsMemoryLimit()) {
      EXPECT_TRUE(status.IsIOError()) << status.ToString();
      if (!stopped_) unknown_ = effects;
      stopped_ = true;
    }
  }
  /// The same of a transaction that is prepared, or is no more.
  void note_prepared(const Status& status, const std::string& name, bool is_prepared) {
    if (status.ok() && is_prepared) prepared_.insert(name);
    if (status.ok() && !is_prepared) prepared_.erase(name);
    if (!status.ok() && !status.IsMemoryLimit()) unknown_prepared_.insert(name);
  }

  // ---- reads ----

  void get(const std::string& family, const std::string& key,
           const rocksdb::ReadOptions& options = {}) {
    rocksdb::PinnableSlice value;
    const Status status = tried([&] { return db_->Get(options, handle(family), key, &value); });
    expect_read(status, value, value_in(contents_, {family, key}));
    bool found = false;
    const ExposedCall exposed;
    const bool may_exist = db_->KeyMayExist(options, handle(family), key, nullptr, &found);
    EXPECT_TRUE(may_exist || !value_in(contents_, {family, key}).has_value());
  }

  void multi_get(const std::string& family, const std::vector<std::string>& keys) {
    const std::vector<Slice> slices(keys.begin(), keys.end());
    std::vector<rocksdb::PinnableSlice> values(keys.size());
    std::vector<Status> statuses(keys.size());
    {
      const ExposedCall exposed;
      db_->MultiGet({}, handle(family), keys.size(), slices.data(), values.data(), statuses.data());
    }
    for (std::size_t i = 0; i < keys.size(); ++i) {
      expect_read(statuses[i], values[i], value_in(contents_, {family, keys[i]}));
    }
  }

  /// With one iterator, and with several that are made together.
  void walk() {
    const IteratorPtr one(made_by([&] { return db_->NewIterator({}, handle("other")); }));
    if (one != nullptr) expect_walk(one.get(), "other", contents_);
    const std::vector<rocksdb::ColumnFamilyHandle*> families{handle("default"), handle("other")};
    std::vector<rocksdb::Iterator*> iterators;
    const Status status = tried([&] { return db_->NewIterators({}, families, &iterators); });
    EXPECT_TRUE(status.ok() || status.IsMemoryLimit());
    EXPECT_EQ(iterators.size(), status.ok() ? families.size() : 0);
    for (std::size_t i = 0; i < iterators.size(); ++i) {
      const IteratorPtr each(iterators[i]);
      expect_walk(each.get(), families[i]->GetName(), contents_);
    }
  }

  /// What it sees stays so, whatever is written.
  void read_at_snapshot(const std::string& family, const std::string& key) {
    const rocksdb::Snapshot* const snapshot = made_by([&] { return db_->GetSnapshot(); });
    const Value before = value_in(contents_, {family, key});
    put(family, key, "changed");
    if (snapshot == nullptr) return;
    rocksdb::ReadOptions options;
    options.snapshot = snapshot;
    rocksdb::PinnableSlice value;
    expect_read(tried([&] { return db_->Get(options, handle(family), key, &value); }), value,
                before);
    const ExposedCall exposed;
    db_->ReleaseSnapshot(snapshot);
  }

  /// The log says what was written, up to where there was memory to read it.
  void changes() {
    std::unique_ptr<rocksdb::TransactionLogIterator> log;
    const Status status = tried([&] { return db_->GetUpdatesSince(0, &log); });
    EXPECT_TRUE(status.ok() || status.IsMemoryLimit()) << status.ToString();
    EXPECT_EQ(status.ok(), log != nullptr);
    if (log == nullptr) return;
    std::uint64_t last = 0;
    try {
      const ExposedCall exposed;
      for (; log->Valid(); log->Next()) {
        const rocksdb::BatchResult batch = log->GetBatch();
        EXPECT_GT(batch.sequence, last);
        last = batch.sequence + batch.writeBatchPtr->Count() - 1;
      }
    } catch (const std::bad_alloc&) {
      return;
    }
    EXPECT_TRUE(log->status().ok() || log->status().IsMemoryLimit());
    EXPECT_TRUE(!log->status().ok() || last == db_->GetLatestSequenceNumber());
    const ExposedCall exposed;
    log.reset();
  }

  void figures() {
    std::string text;
    std::uint64_t value = 0;
    std::map<std::string, std::string> map;
    const rocksdb::Range range("a", "z");
    const Slice estimate("rocksdb.estimate-num-keys");
    const Status status = tried([&] {
      (void)db_->GetProperty(handle("other"), "breccia.stats", &text);
      (void)db_->GetProperty(handle("other"), estimate, &text);
      (void)db_->GetIntProperty(handle("other"), "breccia.flushes", &value);
      (void)db_->GetIntProperty(handle("other"), estimate, &value);
      (void)db_->GetMapProperty(handle("other"), "breccia.stats", &map);
      (void)db_->GetAggregatedIntProperty(estimate, &value);
      rocksdb::SizeApproximationOptions options;
      options.include_memtables = true;
      return db_->GetApproximateSizes(options, handle("other"), &range, 1, &value);
    });
    EXPECT_TRUE(status.ok() || status.IsMemoryLimit()) << status.ToString();
  }

  // ---- families and files ----

  void create_family(const std::string& name) {
    rocksdb::ColumnFamilyHandle* made = nullptr;
    const rocksdb::ColumnFamilyOptions options = options_.rocksdb;
    const Status status = tried([&] { return db_->CreateColumnFamily(options, name, &made); });
    EXPECT_EQ(status.ok(), made != nullptr);
    if (!status.ok() && !status.IsMemoryLimit()) unknown_family_ = name;
    if (!status.ok()) return note(status, {});
    handles_[name] = made;
    families_.insert(name);
  }
  void drop_family(const std::string& name) {
    if (!handles_.contains(name)) return;
    const Status status = tried([&] { return db_->DropColumnFamily(handle(name)); });
    // It is readable still, if it is gone.
    for (const auto& [place, value] : contents_) {
      if (place.first == name) get(name, place.second);
    }
    if (!status.ok()) return note(status, {});
    EXPECT_TRUE(tried([&] { return db_->DestroyColumnFamilyHandle(handle(name)); }).ok());
    handles_.erase(name);
    families_.erase(name);
    const auto was_there = [&](const auto& entry) { return entry.first.first == name; };
    std::erase_if(contents_, was_there);
    std::erase_if(unknown_, was_there);
    std::erase_if(places_, [&](const Place& place) { return place.first == name; });
  }
  [[nodiscard]] bool has_family(const std::string& name) const { return handles_.contains(name); }

  void flush(bool wait) {
    rocksdb::FlushOptions options;
    options.wait = wait;
    note(tried([&] { return db_->Flush(options, handle("other")); }), {});
  }
  void compact() {
    note(tried([&] { return db_->CompactRange({}, handle("default"), nullptr, nullptr); }), {});
  }
  void ingest(const std::string& key, const std::string& value) {
    const std::string file = folder_ / "one.sst";
    rocksdb::SstFileWriter writer({}, rocksdb::Options());
    ASSERT_TRUE(writer.Open(file).ok());
    ASSERT_TRUE(writer.Put(key, value).ok());
    ASSERT_TRUE(writer.Finish().ok());
    const std::vector<std::string> files{file};
    note(tried([&] { return db_->IngestExternalFile(handle("other"), files, {}); }),
         {{{"other", key}, value}});
  }

 private:
  [[nodiscard]] facade::Descriptors descriptors() const {
    facade::Descriptors all;
    for (const std::string& name : families_) all.emplace_back(name, options_.rocksdb);
    return all;
  }

  Status open_as(const facade::Descriptors& families,
                 std::vector<rocksdb::ColumnFamilyHandle*>* handles) {
    if (kind_ == Kind::kRocks) {
      rocksdb::DB* opened = nullptr;
      Status status = Rocks::Open(options_, path_, families, handles, &opened);
      db_.reset(opened);
      return status;
    }
    if (kind_ == Kind::kLocking) {
      rocksdb::TransactionDB* opened = nullptr;
      TransactionDBOptions options;
      options.transaction_lock_timeout = options.default_lock_timeout = 1;
      Status status = TransactionDB::Open(options_, options, path_, families, handles, &opened);
      db_.reset(opened);
      return status;
    }
    rocksdb::OptimisticTransactionDB* opened = nullptr;
    OptimisticTransactionDBOptions options;
    options.serializable = kind_ == Kind::kSerializable;
    Status status =
        OptimisticTransactionDB::Open(options_, options, path_, families, handles, &opened);
    db_.reset(opened);
    return status;
  }

  [[nodiscard]] std::string added(const std::string& family, const std::string& key,
                                  std::uint64_t more) const {
    const Value before = value_in(contents_, {family, key});
    std::uint64_t sum = 0;
    if (before.has_value()) std::memcpy(&sum, before->data(), sizeof sum);
    return number(sum + more);
  }
  [[nodiscard]] Contents without(const std::string& family, const std::string& begin,
                                 const std::string& end) const {
    Contents effects;
    for (const auto& [place, value] : contents_) {
      const bool covered = place.first == family && begin <= place.second && place.second < end;
      if (covered) effects[place] = {};
    }
    return effects;
  }

  Value found(const Place& place) {
    rocksdb::PinnableSlice value;
    const Status status = db_->Get({}, handle(place.first), place.second, &value);
    EXPECT_TRUE(status.ok() || status.IsNotFound()) << status.ToString();
    return status.ok() ? Value(value.ToString()) : std::nullopt;
  }

  void check_contents(bool after_opening) {
    if (after_opening) settle_unknown();
    for (const Place& place : places_) {
      EXPECT_EQ(found(place), value_in(contents_, place)) << place.first << " " << place.second;
    }
  }
  /// The write that stopped the store is there whole, or not at all.
  void settle_unknown() {
    std::size_t there = 0;
    for (const auto& [place, value] : unknown_) there += found(place) == value ? 1 : 0;
    if (there == unknown_.size()) note(Status::OK(), unknown_);
    unknown_.clear();
  }
  void check_prepared() {
    if (kind_ != Kind::kLocking) return;
    std::vector<rocksdb::Transaction*> all;
    static_cast<rocksdb::TransactionDB*>(db_.get())->GetAllPreparedTransactions(&all);
    for (rocksdb::Transaction* const transaction : all) {
      const TransactionPtr one(transaction);
      const std::string name = one->GetName();
      EXPECT_TRUE(prepared_.erase(name) == 1 || unknown_prepared_.contains(name)) << name;
      EXPECT_TRUE(one->Rollback().ok());
    }
    for (const std::string& name : prepared_) EXPECT_TRUE(unknown_prepared_.contains(name)) << name;
    prepared_.clear();
  }

  const Kind kind_;
  const testing::Folder folder_;
  const std::string path_ = folder_ / "db";
  Options options_;
  std::unique_ptr<rocksdb::DB> db_;
  std::map<std::string, rocksdb::ColumnFamilyHandle*> handles_;
  std::set<std::string> families_{"default", "other"};
  Contents contents_;
  std::set<Place> places_;      // all that anybody has tried to write
  Contents unknown_;            // the write that stopped the store
  std::string unknown_family_;  // the family whose making did
  std::set<std::string> prepared_;
  std::set<std::string> unknown_prepared_;
  bool stopped_ = false;
};

// ---- a transaction -----------------------------------------------------------------------------

/// A transaction, if there was memory for one, and what it has done.
class Attempt {
 public:
  explicit Attempt(Session* session, bool set_snapshot = false) : session_(session) {
    transaction_ = TransactionPtr(made_by([&] { return begun(set_snapshot, /*wait_ms=*/-1); }));
  }
  ~Attempt() {
    drop();
    expect_locks_free();
  }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  [[nodiscard]] bool is_open() const { return transaction_ != nullptr; }

  /// False if it was not written.
  bool put(const std::string& family, const std::string& key, const std::string& value) {
    if (!is_open()) return false;
    touched_.insert({family, key});
    const auto write = [&] { return transaction_->Put(session_->handle(family), key, value); };
    if (!done(tried(write))) return false;
    state_.writes[{family, key}] = value;
    state_.locked.insert({family, key});
    return true;
  }
  /// The same from parts.
  void put_parts(const std::string& key, const std::string& value) {
    if (!is_open()) return;
    touched_.insert({"default", key});
    const Slice half[] = {key, Slice()};
    const Slice whole = value;
    const rocksdb::SliceParts keys(half, 2);
    const rocksdb::SliceParts values(&whole, 1);
    if (!done(tried([&] { return transaction_->Put(keys, values); }))) return;
    state_.writes[{"default", key}] = value;
    state_.locked.insert({"default", key});
  }
  void get_for_update(const std::string& family, const std::string& key) {
    if (!is_open()) return;
    touched_.insert({family, key});
    rocksdb::PinnableSlice value;
    const auto read = [&] {
      return transaction_->GetForUpdate({}, session_->handle(family), key, &value);
    };
    const Status status = tried(read);
    expect_read(status, value, value_in(seen(), {family, key}));
    if (!status.IsMemoryLimit()) state_.locked.insert({family, key});
  }
  /// False if it was not read.
  bool get(const std::string& family, const std::string& key) {
    if (!is_open()) return false;
    rocksdb::PinnableSlice value;
    const auto read = [&] { return transaction_->Get({}, session_->handle(family), key, &value); };
    const Status status = tried(read);
    expect_read(status, value, value_in(seen(), {family, key}));
    return !status.IsMemoryLimit();
  }
  void multi_get(const std::string& family, const std::vector<std::string>& keys) {
    if (!is_open()) return;
    const std::vector<Slice> slices(keys.begin(), keys.end());
    std::vector<rocksdb::PinnableSlice> values(keys.size());
    std::vector<Status> statuses(keys.size());
    {
      const ExposedCall exposed;
      transaction_->MultiGet({}, session_->handle(family), keys.size(), slices.data(),
                             values.data(), statuses.data());
    }
    for (std::size_t i = 0; i < keys.size(); ++i) {
      expect_read(statuses[i], values[i], value_in(seen(), {family, keys[i]}));
    }
  }
  /// False if there was no memory for the iterator.
  bool walk(const std::string& family) {
    if (!is_open()) return false;
    const IteratorPtr at(
        made_by([&] { return transaction_->GetIterator({}, session_->handle(family)); }));
    if (at == nullptr) return false;
    expect_walk(at.get(), family, seen());
    return true;
  }

  void set_save_point() {
    if (!is_open()) return;
    try {
      const ExposedCall exposed;
      transaction_->SetSavePoint();
    } catch (const std::bad_alloc&) {
      return;
    }
    points_.push_back(state_);
  }
  void roll_back_to_save_point() {
    if (points_.empty()) return;
    expect_locked();
    if (!done(tried([&] { return transaction_->RollbackToSavePoint(); }))) return;
    state_ = points_.back();
    points_.pop_back();
  }
  void pop_save_point() {
    if (points_.empty()) return;
    if (!done(tried([&] { return transaction_->PopSavePoint(); }))) return;
    points_.pop_back();
  }

  void prepare(const std::string& name) {
    if (!is_open() || !done(tried([&] { return transaction_->SetName(name); }))) return;
    const Status status = tried([&] { return transaction_->Prepare(); });
    if (!status.ok()) session_->note(status, {});
    session_->note_prepared(status, name, /*is_prepared=*/true);
    prepared_ = status.ok();
  }

  /// Another transaction must not have its keys; then commits, and then it must.
  void commit() {
    if (!is_open()) return;
    expect_locked();
    Status status = tried([&] { return transaction_->Commit(); });
    for (int tries = kTriesMax; prepared_ && status.IsMemoryLimit() && tries > 0; --tries) {
      status = tried([&] { return transaction_->Commit(); });
    }
    session_->note(status, state_.writes);
    if (prepared_) session_->note_prepared(status, transaction_->GetName(), false);
    const bool over = status.ok() || !prepared_;
    if (over) expect_locks_free();
    drop();
  }
  /// Somebody else has written what it depends on.
  void commit_in_vain() {
    if (!is_open()) return;
    const Status status = tried([&] { return transaction_->Commit(); });
    EXPECT_TRUE(status.IsBusy() || status.IsMemoryLimit() || session_->is_stopped())
        << status.ToString();
    drop();
  }
  void roll_back() {
    if (!is_open()) return;
    expect_locked();
    Status status = tried([&] { return transaction_->Rollback(); });
    for (int tries = kTriesMax; status.IsMemoryLimit() && tries > 0; --tries) {
      EXPECT_TRUE(prepared_);  // else there is nothing to write
      status = tried([&] { return transaction_->Rollback(); });
    }
    EXPECT_TRUE(status.ok() || session_->is_stopped() || prepared_) << status.ToString();
    if (prepared_) {
      if (!status.ok()) session_->note(status, {});
      session_->note_prepared(status, transaction_->GetName(), false);
    }
    if (status.ok()) expect_locks_free();
    drop();
  }

  /// Waits for another's lock in vain, and waits for nobody then.
  void wait_for(const std::string& family, const std::string& key) {
    if (!is_open()) return;
    const auto write = [&] { return transaction_->Put(session_->handle(family), key, "no"); };
    const Status status = tried(write);
    EXPECT_TRUE(status.IsTimedOut() || status.IsMemoryLimit()) << status.ToString();
    std::uint32_t id = 0;
    std::string name;
    EXPECT_TRUE(transaction_->GetWaitingTxns(&id, &name).empty());
    EXPECT_EQ(name, "");
  }

 private:
  struct State {
    Contents writes;
    std::set<Place> locked;
  };

  [[nodiscard]] rocksdb::Transaction* begun(bool set_snapshot, std::int64_t wait_ms) const {
    if (session_->kind() == Kind::kLocking) {
      rocksdb::TransactionOptions options;
      options.set_snapshot = set_snapshot;
      options.deadlock_detect = true;
      options.lock_timeout = wait_ms;
      if (wait_ms < 0) options.expiration = 3'600'000;
      return static_cast<rocksdb::TransactionDB*>(session_->db())->BeginTransaction({}, options);
    }
    rocksdb::OptimisticTransactionOptions options;
    options.set_snapshot = set_snapshot;
    return static_cast<rocksdb::OptimisticTransactionDB*>(session_->db())
        ->BeginTransaction({}, options);
  }

  static bool done(const Status& status) {
    EXPECT_TRUE(status.ok() || status.IsMemoryLimit()) << status.ToString();
    return status.ok();
  }

  /// What it reads: its own writes above those of the database.
  [[nodiscard]] Contents seen() const {
    Contents all = session_->contents();
    for (const auto& [place, value] : state_.writes) all[place] = value;
    return all;
  }

  /// Of another transaction that does not wait.
  [[nodiscard]] bool can_lock(const Place& place) const {
    const TransactionPtr other(begun(/*set_snapshot=*/false, /*wait_ms=*/0));
    return other
        ->GetForUpdate({}, session_->handle(place.first), place.second,
                       static_cast<std::string*>(nullptr))
        .ok();
  }
  void expect_locked() const {
    if (session_->kind() != Kind::kLocking) return;
    for (const Place& place : state_.locked) EXPECT_FALSE(can_lock(place)) << place.second;
  }
  void expect_locks_free() const {
    if (session_->kind() != Kind::kLocking) return;
    for (const Place& place : touched_) EXPECT_TRUE(can_lock(place)) << place.second;
  }
  void drop() {
    const ExposedCall exposed;
    transaction_.reset();
  }

  Session* const session_;
  TransactionPtr transaction_;
  State state_;
  std::vector<State> points_;
  std::set<Place> touched_;
  bool prepared_ = false;
};

/// What is there before allocations fail, in files and in memory.
void fill(Session* session) {
  ASSERT_TRUE(session->open());
  session->put("default", "in a file", "value");
  session->put("other", "number", number(100));
  session->put("other", "in a file", "value");
  session->flush(/*wait=*/true);
  session->put("default", "removed", "value");
  session->put("default", "first", "value");
  session->batch("base", 12);
}

}  // namespace

// Goal: a database that cannot be opened for want of memory says so and leaves no handle, and opens
//   when there is some; nor does closing one need any.
// Method: each allocation of opening one of each kind, with two families and a log, and of closing
//   it, fails.
// Mutation: handles that are given out before the database is there are nobody's; a count of
//   iterators that is made anew by the destructor ends the process.
TEST(FacadeMemory, Opens) {
  for (const Kind kind : {Kind::kRocks, Kind::kOptimistic}) {
    fail_each<Session>(
        [](Session* session, const auto& arm) {
          fill(session);
          session->close();
          arm();
          if (session->open()) session->close();
        },
        kind);
  }
}

// Goal: transactions that were prepared are found with their locks, or the database is not opened.
// Method: each allocation fails of opening a database with two of them.
// Mutation: one that finds no memory for its locks is taken for one that was prepared without.
TEST(FacadeMemory, OpensWithPreparedTransactions) {
  fail_each<Session>(
      [](Session* session, const auto& arm) {
        fill(session);
        for (const char* const name : {"one", "two"}) {
          Attempt attempt(session);
          EXPECT_TRUE(attempt.put("default", name, "prepared"));
          EXPECT_TRUE(attempt.put("other", name, "prepared"));
          attempt.prepare(name);
        }
        session->close();
        arm();
        if (!session->open()) return;
        std::vector<rocksdb::Transaction*> all;
        const testing::SparedThread spared;
        static_cast<rocksdb::TransactionDB*>(session->db())->GetAllPreparedTransactions(&all);
        EXPECT_EQ(all.size(), 2U);
        Attempt other(session);
        if (other.is_open()) other.wait_for("default", "one");
      },
      Kind::kLocking);
}

// Goal: what a write says is true, whatever found no memory.
// Method: each allocation fails of writes of all kinds, single and in batches, into the memtable
//   and as runs.
// Mutation: an exception of the count behind a write makes an error of what was written.
TEST(FacadeMemory, Writes) {
  fail_each<Session>(
      [](Session* session, const auto& arm) {
        fill(session);
        arm();
        session->put("default", "second", "a value that is longer than a string's own room");
        session->add("other", "number", 7);
        session->remove("default", "first");
        session->batch("small", 3);
        session->batch("large", 20);
        session->remove_range("other", "base", "large5");
        session->put("other", "third", "value");
      },
      Kind::kRocks);
}

// Goal: a read is right or says that there was no memory; what has no status to say it with throws,
//   and is as good as before then.
// Method: each allocation fails of lookups, iterators, snapshots, the log's changes and figures.
// Mutation: an iterator whose share in the engine is not given back keeps the database open; a
//   lookup that found no memory makes a key one that cannot exist.
TEST(FacadeMemory, Reads) {
  fail_each<Session>(
      [](Session* session, const auto& arm) {
        fill(session);
        arm();
        session->get("default", "first");
        session->get("other", "in a file");
        rocksdb::ReadOptions cached;
        cached.fill_cache = false;
        session->get("default", "base0", cached);
        session->multi_get("other", {"base1", "in a file", "number", "none"});
        session->walk();
        session->read_at_snapshot("default", "first");
        session->changes();
        session->figures();
        session->get("other", "number");
      },
      Kind::kRocks);
}

// Goal: a family is there with its handle or not at all; flushes, compactions and files that are
//   brought in happen whole.
// Method: each allocation fails of a family's making, filling and dropping, of flushes that are
//   waited for and that are not, of an ingest and a compaction.
// Mutation: a family whose handle finds no memory cannot be made again; a flush in the background
//   that cannot be handed over is the last one.
TEST(FacadeMemory, FamiliesAndFiles) {
  fail_each<Session>(
      [](Session* session, const auto& arm) {
        fill(session);
        arm();
        session->create_family("made");
        if (session->has_family("made")) session->put("made", "key", "value");
        session->flush(/*wait=*/true);
        session->ingest("brought", "value");
        session->compact();
        session->put("other", "second", "value");
        session->flush(/*wait=*/false);
        session->drop_family("made");
        session->create_family("last");
      },
      Kind::kRocks);
}

// Goal: a locking transaction has the locks of what it did, none is left when it has ended, and it
//   is committed whole or not at all.
// Method: each allocation fails of writes and reads with locks, of save points, of waiting for
//   another's lock, of a commit and a rollback; another transaction tries each lock.
// Mutation: a key that is tracked but not noted in the save point loses its lock; the history that
//   is held anew makes an error of a commit; a wait that found no memory is never over.
TEST(FacadeMemory, LockingTransactions) {
  fail_each<Session>(
      [](Session* session, const auto& arm) {
        fill(session);
        arm();
        Attempt one(session, /*set_snapshot=*/true);
        one.put("default", "first", "a value that is longer than a string's own room");
        one.get_for_update("other", "number");
        one.set_save_point();
        one.put("other", "a key that is longer than a string's own room", "value");
        one.put("other", "a key that is longer than a string's own room", "again");
        one.set_save_point();
        one.put_parts("a key of parts, also longer than that room", "value");
        one.pop_save_point();
        Attempt two(session);
        if (one.put("default", "second", "value")) two.wait_for("default", "second");
        one.roll_back_to_save_point();
        one.walk("other");
        one.multi_get("default", {"first", "second", "in a file"});
        one.commit();
        two.put("default", "third", "value");
        two.roll_back();
        session->put("default", "first", "last");
        session->batch("behind", 3);
      },
      Kind::kLocking);
}

// Goal: what is prepared is there, with its locks, until it is committed or rolled back, which
//   happens once; what could not be prepared can be rolled back.
// Method: each allocation fails of two transactions that are prepared, of which one is committed
//   and one rolled back, and of one that stays.
// Mutation: a transaction whose preparing failed is neither open nor prepared; one whose name finds
//   no memory stays in the list when it is gone.
TEST(FacadeMemory, PreparedTransactions) {
  fail_each<Session>(
      [](Session* session, const auto& arm) {
        fill(session);
        arm();
        Attempt one(session);
        one.put("default", "one", "value");
        one.prepare("a name that is longer than a string's own room");
        one.commit();
        Attempt two(session);
        two.put("default", "one", "changed");
        two.prepare("another name that is longer than that");
        two.roll_back();
        Attempt three(session);
        three.put("default", "three", "value");
        three.prepare("three");
      },
      Kind::kLocking);
}

// Goal: an optimistic transaction is committed whole or not at all, and never over what somebody
//   else has written.
// Method: each allocation fails of two that are committed, of which one depends on what is written
//   meanwhile: keys, and in the serializable mode what it has read and walked over.
// Mutation: a read that is not noted, for want of memory, commits.
TEST(FacadeMemory, OptimisticTransactions) {
  for (const Kind kind : {Kind::kOptimistic, Kind::kSerializable}) {
    fail_each<Session>(
        [](Session* session, const auto& arm) {
          fill(session);
          arm();
          Attempt one(session, /*set_snapshot=*/true);
          one.put("default", "first", "changed");
          one.set_save_point();
          one.put("other", "second", "value");
          one.set_save_point();
          one.put("other", "third", "value");
          one.pop_save_point();
          one.roll_back_to_save_point();
          one.get("default", "first");
          one.commit();
          Attempt two(session);
          const bool depends = session->kind() == Kind::kSerializable
                                   ? two.walk("other")
                                   : two.put("other", "number", number(1));
          two.put("default", "in vain", "value");
          const bool added = session->add("other", "number", 1);
          if (depends && added) two.commit_in_vain();
        },
        kind);
  }
}

}  // namespace breccia
