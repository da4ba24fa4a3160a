#include <breccia/rocks.h>
#include <gtest/gtest.h>
#include <rocksdb/utilities/checkpoint.h>

#include <functional>
#include <optional>

#include "both.h"

/// What a store leaves in its files is a history that RocksDB can go on with.

namespace breccia::testing {

namespace {

constexpr int kPhases = 4;
/// Phases in the store; those behind them are RocksDB's.
constexpr int kInStore = 2;
constexpr std::size_t kSteps[kPhases] = {1, 3, 2, 2};

/// A key is its own history: for each phase its steps, then a dot. `P` puts, `S` is a single
/// deletion, `R` a range deletion of the key alone.
std::vector<std::string> all_histories() {
  std::vector<std::string> histories;
  const std::function<void(std::string, int, std::size_t, bool)> extend =
      [&](const std::string& so_far, int phase, std::size_t steps, bool is_live) {
        if (phase == kPhases) {
          histories.push_back(so_far);
          return;
        }
        extend(so_far + '.', phase + 1, 0, is_live);
        if (steps == kSteps[phase]) return;
        // RocksDB's contract: a key for single deletions is put once since it was last deleted.
        if (!is_live) extend(so_far + 'P', phase, steps + 1, true);
        extend(so_far + 'S', phase, steps + 1, false);
        extend(so_far + 'R', phase, steps + 1, false);
      };
  extend("", 0, 0, false);
  return histories;
}

/// All keys on their way through the phases.
class Histories {
 public:
  Histories() : keys_(all_histories()), at_(keys_.size(), 0), values_(keys_.size()) {}

  /// The next phase of all keys, a batch for each step.
  Status run_phase(rocksdb::DB* db) {
    const std::size_t steps = kSteps[phase_++];
    for (std::size_t step = 0; step < steps; ++step) {
      rocksdb::WriteBatch batch;
      for (std::size_t i = 0; i < keys_.size(); ++i) {
        if (keys_[i][at_[i]] != '.') BRECCIA_TRY(add(i, keys_[i][at_[i]++], &batch));
      }
      BRECCIA_TRY(db->Write({}, &batch));
    }
    for (std::size_t& at : at_) ++at;
    return Status::OK();
  }

  /// Keys that are not as they should be, with their number.
  [[nodiscard]] std::string wrong(rocksdb::DB* db) const {
    std::uint64_t count = 0;
    std::string text;
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      std::string value;
      const Status status = db->Get({}, keys_[i], &value);
      const bool as_it_should =
          values_[i].has_value() ? status.ok() && value == *values_[i] : status.IsNotFound();
      if (as_it_should || count++ >= 10) continue;
      text += " " + keys_[i] + ": " + code_of(status) + " " + value;
    }
    return count == 0 ? "" : std::to_string(count) + " of " + std::to_string(keys_.size()) + text;
  }

 private:
  Status add(std::size_t i, char step, rocksdb::WriteBatch* batch) {
    const std::string& key = keys_[i];
    values_[i].reset();
    if (step == 'S') return batch->SingleDelete(key);
    if (step == 'R') return batch->DeleteRange(key, key + '\0');
    values_[i] = std::to_string(at_[i]);
    return batch->Put(key, *values_[i]);
  }

  const std::vector<std::string> keys_;
  std::vector<std::size_t> at_;
  std::vector<std::optional<std::string>> values_;
  int phase_ = 0;
};

/// Opens what a store left, or a copy of it, with RocksDB alone.
std::unique_ptr<rocksdb::DB> open_by_rocksdb(const Given& given, const std::string& path,
                                             std::vector<rocksdb::ColumnFamilyHandle*>* handles) {
  std::vector<std::string> names;
  EXPECT_TRUE(rocksdb::DB::ListColumnFamilies(given.db, path, &names).ok());
  facade::Descriptors families;
  for (const std::string& name : names) families.emplace_back(name, given.family);
  rocksdb::DB* opened = nullptr;
  const Status status = rocksdb::DB::Open(given.db, path, families, handles, &opened);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return std::unique_ptr<rocksdb::DB>(opened);
}

/// Files of level 0 into the next, without what lies below.
Status compact_level_0(rocksdb::DB* db) {
  std::vector<rocksdb::LiveFileMetaData> files;
  db->GetLiveFilesMetaData(&files);
  std::vector<std::string> names;
  for (const auto& file : files) {
    const bool is_users = file.column_family_name == rocksdb::kDefaultColumnFamilyName;
    if (is_users && file.level == 0) names.push_back(file.name);
  }
  return names.empty() ? Status::OK() : db->CompactFiles({}, names, 1);
}

enum class Road { kDetach, kCheckpoint };

void there_and_back(Road road, std::uint32_t run_requests_min) {
  Given given = usual();
  given.run_requests_min = run_requests_min;
  given.family.disable_auto_compactions = true;
  Db store(Kind::kBreccia, given);
  ASSERT_TRUE(store.open().ok());
  Histories histories;
  for (int phase = 0; phase < kInStore; ++phase) {
    ASSERT_TRUE(histories.run_phase(store.get()).ok());
    ASSERT_EQ(histories.wrong(store.get()), "");
    ASSERT_TRUE(store->Flush({}).ok());
    ASSERT_EQ(histories.wrong(store.get()), "");
  }
  std::string path = store.path();
  if (road == Road::kDetach) {
    store.close();
    ASSERT_TRUE(Rocks::Detach(options_of(given, path), path, descriptors_of(given)).ok());
  } else {
    path = store.beside("copy");
    rocksdb::Checkpoint* made = nullptr;
    ASSERT_TRUE(rocksdb::Checkpoint::Create(store.get(), &made).ok());
    const std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
    ASSERT_TRUE(checkpoint->CreateCheckpoint(path).ok());
  }
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  const auto db = open_by_rocksdb(given, path, &handles);
  ASSERT_NE(db, nullptr);
  for (int phase = kInStore; phase < kPhases; ++phase) {
    ASSERT_TRUE(histories.run_phase(db.get()).ok());
    ASSERT_TRUE(db->Flush({}).ok());
    EXPECT_EQ(histories.wrong(db.get()), "");
  }
  Status status = compact_level_0(db.get());
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(histories.wrong(db.get()), "");
  status = db->CompactRange({}, nullptr, nullptr);
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(histories.wrong(db.get()), "");
  for (auto* handle : handles) EXPECT_TRUE(db->DestroyColumnFamilyHandle(handle).ok());
}

}  // namespace

// Goal: single deletions that RocksDB's contract allows stay right when RocksDB goes on with a
//   store's files, after Detach and in a checkpoint.
// Method: every history of puts, single and range deletions over two flushes of the store and two
//   of RocksDB, a key for each; then RocksDB compacts level 0 alone, and everything.
// Mutation: a flush that keeps only the newest version brings old values back; one that writes a
//   deletion for a single deletion makes RocksDB's compaction fail.
TEST(WayBack, EveryHistoryOfSingleDeletions) {
  for (const Road road : {Road::kDetach, Road::kCheckpoint}) {
    for (const std::uint32_t run_requests_min : {0, 1}) {
      SCOPED_TRACE(std::string(road == Road::kDetach ? "detached" : "checkpoint") +
                   (run_requests_min == 1 ? ", runs" : ""));
      there_and_back(road, run_requests_min);
    }
  }
}

// Goal: what a single deletion deleted stays deleted for readers who ignore range deletions.
// Method: a put and a single deletion with a flush behind each, read in every way.
// Mutation: handing the option to the tree shows the value.
TEST(WayBack, IgnoredRangeDeletions) {
  expect_same([](Db& db) {
    ASSERT_TRUE(db->Put({}, "key", "value").ok());
    ASSERT_TRUE(db->Flush({}).ok());
    ASSERT_TRUE(db->SingleDelete({}, "key").ok());
    ASSERT_TRUE(db->Flush({}).ok());
    rocksdb::ReadOptions options;
    options.ignore_range_deletions = true;
    for (const bool fill_cache : {true, false}) {
      options.fill_cache = fill_cache;
      db.get("key", options);
      db.scan("default", options);
    }
  });
}

}  // namespace breccia::testing
