#include <gtest/gtest.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/write_batch.h>

#include <set>

#include "base/random.h"
#include "both.h"
#include "support/seeds.h"

namespace breccia::testing {

namespace {

const rocksdb::WriteOptions kWrite;
constexpr int kSteps = 300;

/// A client that does what its seed says, whatever the answers are.
class Client {
 public:
  Client(Db& db, std::uint64_t seed) : db_(db), random_(seed) {}
  ~Client() {
    iterators_.clear();
    for (const rocksdb::Snapshot* snapshot : snapshots_) db_->ReleaseSnapshot(snapshot);
  }

  void run() {
    for (int i = 0; i < kSteps; ++i) {
      db_.note("step " + std::to_string(i));
      step();
    }
    for (const char* name : {"default", "one", "two"}) db_.scan(name);
  }

 private:
  std::uint64_t below(std::uint64_t end) { return random_.below(end); }
  std::string key() {
    return std::string(1, static_cast<char>('a' + below(4))) + std::string(below(3), '0') +
           std::to_string(below(6));
  }
  std::string value() { return std::to_string(below(1000)); }
  std::string family() { return below(2) == 0 ? "default" : below(2) == 0 ? "one" : "two"; }
  rocksdb::ColumnFamilyHandle* handle() { return db_.handle(family()); }

  rocksdb::ReadOptions read_options() {
    rocksdb::ReadOptions options;
    if (!snapshots_.empty() && below(3) == 0)
      options.snapshot = snapshots_[below(snapshots_.size())];
    return options;
  }

  void step() {
    const std::uint64_t kind = below(100);
    if (kind < 50) return write();
    if (kind < 75) return read();
    if (kind < 85) return look_around();
    if (kind < 92) return hold();
    move();
  }

  void write() {
    switch (below(8)) {
      case 0:
      case 1:
        return db_.note("put", db_->Put(kWrite, handle(), key(), value()));
      case 2:
        return db_.note("delete", db_->Delete(kWrite, handle(), key()));
      case 3:
      case 4:
        return db_.note("merge", db_->Merge(kWrite, handle(), key(), value()));
      case 5: {
        std::string begin = key();
        std::string end = key();
        if (end < begin) std::swap(begin, end);
        return db_.note("range", db_->DeleteRange(kWrite, handle(), begin, end));
      }
      default:
        return write_batch();
    }
  }

  void write_batch() {
    rocksdb::WriteBatch batch;
    const std::uint64_t size = below(30);
    for (std::uint64_t i = 0; i < size; ++i) {
      rocksdb::ColumnFamilyHandle* const into = handle();
      const std::string one = key();
      const std::string other = key();
      const std::string what = value();
      switch (below(6)) {
        case 0:
          EXPECT_TRUE(batch.Delete(into, one).ok());
          break;
        case 1:
          EXPECT_TRUE(batch.Merge(into, one, what).ok());
          break;
        case 2:
          EXPECT_TRUE(batch.DeleteRange(into, std::min(one, other), std::max(one, other)).ok());
          break;
        default:
          EXPECT_TRUE(batch.Put(into, one, what).ok());
      }
    }
    db_.note("batch", db_->Write(kWrite, &batch));
  }

  void read() {
    const rocksdb::ReadOptions options = read_options();
    if (below(3) > 0) return db_.get(family(), key(), options);
    std::vector<std::string> names;
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    for (std::uint64_t i = below(20); i > 0; --i) {
      names.push_back(key());
      handles.push_back(handle());
    }
    const std::vector<Slice> keys(names.begin(), names.end());
    std::vector<rocksdb::PinnableSlice> values(keys.size());
    std::vector<Status> statuses(keys.size());
    db_->MultiGet(options, keys.size(), handles.data(), keys.data(), values.data(),
                  statuses.data());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      db_.note(names[i], statuses[i], values[i].ToString());
    }
  }

  void walk(rocksdb::Iterator* at) {
    for (int turn = 0; turn < 3; ++turn) {
      const std::string target = key();
      const bool forward = below(2) == 0;
      if (forward) {
        at->Seek(target);
      } else {
        at->SeekForPrev(target);
      }
      for (std::uint64_t i = below(8); i > 0 && at->Valid(); --i) {
        db_.note(at->key().ToString() + "=" + at->value().ToString());
        if (below(4) == 0 ? !forward : forward) {
          at->Next();
        } else {
          at->Prev();
        }
      }
      db_.note(at->Valid() ? at->key().ToString() : "end", at->status());
    }
  }

  void look_around() {
    const std::string lower = key();
    const std::string upper = key();
    const Slice low(lower);
    const Slice high(upper);
    rocksdb::ReadOptions options = read_options();
    switch (below(4)) {
      case 0:
        if (lower < upper) options.iterate_lower_bound = &low;
        if (lower < upper) options.iterate_upper_bound = &high;
        return db_.scan(family(), options);
      case 1:
        return db_.scan(family(), options);
      case 2:
        if (!iterators_.empty()) return walk(iterators_[below(iterators_.size())].get());
        [[fallthrough]];
      default: {
        const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator(options, handle()));
        walk(at.get());
      }
    }
  }

  /// Snapshots and iterators that live on.
  void hold() {
    switch (below(4)) {
      case 0:
        return snapshots_.push_back(db_->GetSnapshot());
      case 1:
        if (snapshots_.empty()) return;
        db_->ReleaseSnapshot(snapshots_.front());
        snapshots_.erase(snapshots_.begin());
        return;
      case 2:
        iterators_.emplace_back(db_->NewIterator({}, handle()));
        return;
      default:
        if (iterators_.empty()) return;
        db_.note("refresh", iterators_.front()->Refresh());
        if (below(2) == 0) iterators_.erase(iterators_.begin());
    }
  }

  void move() {
    switch (below(6)) {
      case 0:
      case 1:
        return db_.note("flush", db_->Flush({}, handle()));
      case 2:
        return db_.note("compact", db_->CompactRange({}, handle(), nullptr, nullptr));
      case 3:
        return ingest();
      case 4: {
        const std::string name = family();
        if (name == "default") return;
        db_.note("drop", db_->DropColumnFamily(db_.handle(name)));
        db_.scan(name);
        iterators_.clear();
        for (const rocksdb::Snapshot* snapshot : snapshots_) db_->ReleaseSnapshot(snapshot);
        snapshots_.clear();
        db_.destroy(name);
        return db_.note("create", db_.create(name));
      }
      default:
        iterators_.clear();
        for (const rocksdb::Snapshot* snapshot : snapshots_) db_->ReleaseSnapshot(snapshot);
        snapshots_.clear();
        db_.reopen();
    }
  }

  void ingest() {
    const std::string path = db_.beside(std::to_string(files_++) + ".sst");
    rocksdb::SstFileWriter writer({}, rocksdb::Options());
    EXPECT_TRUE(writer.Open(path).ok());
    std::set<std::string> keys;
    for (std::uint64_t i = 1 + below(5); i > 0; --i) keys.insert(key());
    for (const std::string& one : keys) EXPECT_TRUE(writer.Put(one, value()).ok());
    EXPECT_TRUE(writer.Finish().ok());
    db_.note("ingest", db_->IngestExternalFile(handle(), {path}, {}));
  }

  Db& db_;
  base::Random random_;
  std::vector<const rocksdb::Snapshot*> snapshots_;
  std::vector<std::unique_ptr<rocksdb::Iterator>> iterators_;
  int files_ = 0;
};

}  // namespace

// Goal: whatever a client does, RocksDB and breccia answer alike.
// Method: 300 random steps of writes, reads, iterators and snapshots that live on, flushes,
//         compactions, ingested files, families dropped and made again, reopening; by seed.
// Mutation: any difference in what is visible.
TEST(FacadeRandom, AnswersAlike) {
  Given given = usual();
  given.families = {"one", "two"};
  for (const std::uint64_t seed : seeds_to_run(12)) {
    SCOPED_TRACE(replay_command(seed));
    expect_same([&](Db& db) { Client(db, seed).run(); }, given);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace breccia::testing
