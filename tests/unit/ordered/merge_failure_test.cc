#include <breccia/batch.h>
#include <breccia/options.h>
#include <breccia/store.h>
#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <rocksdb/merge_operator.h>

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ordered/background/flush.h"
#include "ordered/engine.h"
#include "support/folder.h"
#include "support/small_options.h"

namespace breccia::ordered {

namespace {

using testing::small_options;

/// Appends operands, and fails where one is "bad", also among operands alone.
class PickyOperator final : public rocksdb::MergeOperator {
 public:
  /// `partial`: combines operands without their base; `lenient`: never fails.
  explicit PickyOperator(bool partial, bool lenient = false)
      : partial_(partial), lenient_(lenient) {}

  bool FullMergeV2(const MergeOperationInput& in, MergeOperationOutput* out) const override {
    out->new_value.clear();
    if (in.existing_value != nullptr) out->new_value = in.existing_value->ToString();
    for (const rocksdb::Slice& operand : in.operand_list) {
      if (!append(operand, &out->new_value)) return false;
    }
    return true;
  }
  bool PartialMergeMulti(const rocksdb::Slice& /*key*/, const std::deque<rocksdb::Slice>& operands,
                         std::string* value, rocksdb::Logger* /*logger*/) const override {
    value->clear();
    for (const rocksdb::Slice& operand : operands) {
      if (!append(operand, value)) return false;
    }
    return partial_;
  }
  [[nodiscard]] const char* Name() const override { return "PickyOperator"; }

 private:
  bool append(const rocksdb::Slice& operand, std::string* value) const {
    value->append(operand.data(), operand.size());
    return lenient_ || operand != "bad";
  }

  const bool partial_;
  const bool lenient_;
};

/// A store, a RocksDB that is given the same writes and never flushes, and what each key has if no
/// merge fails. The parameter: whether operands combine without their base.
class MergeFailureTest : public ::testing::TestWithParam<bool> {
 protected:
  MergeFailureTest() {
    options_ = small_options();
    options_.rocksdb.merge_operator = std::make_shared<PickyOperator>(GetParam());
    // A compaction of operands that fail stops RocksDB, below a store as by itself.
    options_.rocksdb.disable_auto_compactions = true;
    reference_ = open_by_rocksdb(folder_ / "reference", /*lenient=*/false);
    reopen();
  }

  void reopen() {
    store_.reset();
    const Status status = Store::Open(options_, path(), &store_);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  [[nodiscard]] std::string path() const { return folder_ / "store"; }

  void put(const std::string& key, const std::string& value) {
    expected_[key] = value;
    EXPECT_TRUE(store_->Put(WriteOptions(), key, value).ok());
    EXPECT_TRUE(reference_->Put({}, key, value).ok());
  }
  void merge(const std::string& key, const std::vector<std::string>& operands) {
    for (const std::string& operand : operands) {
      expected_[key] += operand;
      EXPECT_TRUE(store_->Merge(WriteOptions(), key, operand).ok());
      EXPECT_TRUE(reference_->Merge({}, key, operand).ok());
    }
  }
  void remove(const std::string& key) {
    expected_.erase(key);
    EXPECT_TRUE(store_->Delete(WriteOptions(), key).ok());
    EXPECT_TRUE(reference_->Delete({}, key).ok());
  }
  void single_delete(const std::string& key) {
    expected_.erase(key);
    Batch batch;
    EXPECT_TRUE(batch.SingleDelete(kDefaultFamily, key).ok());
    EXPECT_TRUE(store_->Submit(WriteOptions(), &batch).ok());
    // RocksDB does not know single deletions below operands; a deletion is what is meant.
    EXPECT_TRUE(reference_->Delete({}, key).ok());
  }
  void delete_range(const std::string& begin, const std::string& end) {
    expected_.erase(expected_.lower_bound(begin), expected_.lower_bound(end));
    Batch batch;
    EXPECT_TRUE(batch.DeleteRange(kDefaultFamily, begin, end).ok());
    EXPECT_TRUE(store_->Submit(WriteOptions(), &batch).ok());
    EXPECT_TRUE(reference_->DeleteRange({}, reference_->DefaultColumnFamily(), begin, end).ok());
  }
  void flush() {
    const Status status = store_->Flush();
    ASSERT_TRUE(status.ok()) << status.ToString();
  }

  /// Expects of the store what RocksDB says of each key.
  void expect_as_reference(const std::string& when) {
    for (const std::string& key : keys_) {
      SCOPED_TRACE(when + ", key " + key);
      std::string value;
      std::string expected;
      const Status wanted = reference_->Get({}, key, &expected);
      EXPECT_EQ(store_->Get(key, &value).code(), wanted.code());
      if (wanted.ok()) {
        EXPECT_EQ(value, expected);
      }
    }
  }
  /// Closes the store with all its content in the tree, and expects of RocksDB, opening that alone,
  /// the same; and with an operator that never fails, all that was written.
  void expect_by_rocksdb() {
    options_.flush_at_close = true;
    reopen();
    EXPECT_TRUE(store_->Close().ok());
    store_.reset();
    const auto strict = open_by_rocksdb(path(), /*lenient=*/false);
    const auto lenient = open_by_rocksdb(path(), /*lenient=*/true);
    for (const std::string& key : keys_) {
      SCOPED_TRACE("by RocksDB, key " + key);
      std::string value;
      EXPECT_EQ(strict->Get({}, key, &value).code(), reference_->Get({}, key, &value).code());
      const auto expected = expected_.find(key);
      EXPECT_EQ(lenient->Get({}, key, &value).ok(), expected != expected_.end());
      if (expected != expected_.end()) {
        EXPECT_EQ(value, expected->second);
      }
    }
  }

  Options options_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<rocksdb::DB> reference_;
  std::map<std::string, std::string> expected_;
  std::vector<std::string> keys_;  // that are compared

 private:
  /// The default family; one that is there already is only read.
  [[nodiscard]] static std::unique_ptr<rocksdb::DB> open_by_rocksdb(const std::string& path,
                                                                    bool lenient) {
    rocksdb::Options options;
    options.create_if_missing = true;
    options.info_log_level = rocksdb::InfoLogLevel::FATAL_LEVEL;
    options.merge_operator = std::make_shared<PickyOperator>(GetParam(), lenient);
    rocksdb::DB* db = nullptr;
    std::vector<std::string> families;
    const bool is_new = !rocksdb::DB::ListColumnFamilies(options, path, &families).ok();
    const Status status = is_new ? rocksdb::DB::Open(options, path, &db)
                                 : rocksdb::DB::OpenForReadOnly(options, path, &db);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return std::unique_ptr<rocksdb::DB>(db);
  }

  const testing::Folder folder_{testing::Place::kMemory};
};

INSTANTIATE_TEST_SUITE_P(Operators, MergeFailureTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Partial" : "FullOnly"; });

}  // namespace

// Goal: a key whose operands do not combine is flushed as it is, beside all others: reads of it
//       fail as before, and nothing of it is lost.
// Method: good keys and keys with a bad operand above everything that can lie below: puts and
//         deletions of each kind, in memory and in the tree, nothing, and bad operands in the tree;
//         compared with RocksDB before and after each flush, reopened, and opened by RocksDB.
// Mutation: returning the merge's error from a flush fails; so do leaving out the base, writing the
//           operands newest first, and ingesting the first file last.
TEST_P(MergeFailureTest, FlushGoesOn) {
  keys_ = {"alone", "below", "deleted", "good", "good-below", "put", "range", "single", "two"};
  for (const char* key : {"below", "good-below", "range", "single"}) put(key, "old-");
  flush();
  put("good", "p");
  merge("good", {"1", "2"});
  merge("good-below", {"1", "2"});
  merge("alone", {"bad"});
  merge("below", {"1", "bad", "2"});
  put("deleted", "gone");
  remove("deleted");
  merge("deleted", {"bad", "1"});
  put("put", "p");
  merge("put", {"1", "bad", "2", "3"});
  delete_range("range", "range\x01");
  merge("range", {"1", "bad"});
  single_delete("single");
  merge("single", {"1", "bad"});
  merge("two", {"bad", "bad"});
  expect_as_reference("in memory");
  flush();
  expect_as_reference("flushed");
  for (const std::string& key : keys_) merge(key, {"4", "5"});
  expect_as_reference("above a flush");
  flush();
  expect_as_reference("flushed twice");
  reopen();
  expect_as_reference("reopened");
  put("after", "1");
  expect_by_rocksdb();
}

// Goal: what is written over such a key heals it, and the tree can be compacted then.
// Method: keys with a bad operand over a put in the tree, flushed; then a put, a deletion and a
//         range deletion over them, and operands above each; flushed and compacted.
// Mutation: writing the stacks' files above what is newer fails.
TEST_P(MergeFailureTest, NewerVersionsHeal) {
  keys_ = {"deleted", "put", "range"};
  for (const std::string& key : keys_) put(key, "p");
  flush();
  for (const std::string& key : keys_) merge(key, {"1", "bad"});
  flush();
  put("put", "new");
  remove("deleted");
  delete_range("range", "range\x01");
  expect_as_reference("in memory");
  for (const std::string& key : keys_) merge(key, {"1", "2"});
  expect_as_reference("with operands");
  flush();
  expect_as_reference("flushed");
  rocksdb::DB* const tree = static_cast<Engine&>(*store_).below().db();
  const Status compacted = tree->CompactRange({}, nullptr, nullptr);
  EXPECT_TRUE(compacted.ok()) << compacted.ToString();
  expect_as_reference("compacted");
  expect_by_rocksdb();
}

// Goal: the same for keys in several parts of a flush, of different heights.
// Method: entries enough for two parts, with a bad key every so often, the first and the last among
//         them, with one to five versions.
// Mutation: files of one part alone lose the other's; keys of parts out of order fail the writer.
TEST_P(MergeFailureTest, SeveralParts) {
  constexpr int kEntries = 150 << 10;
  constexpr int kBadEvery = (kEntries - 1) / 7;
  options_.flush_threads = 2;
  reopen();
  Batch batch;
  for (int i = 0; i < kEntries; ++i) {
    ASSERT_TRUE(batch.Put(std::to_string(1'000'000 + i), "p").ok());
  }
  ASSERT_TRUE(store_->Submit(WriteOptions(), &batch).ok());
  for (int i = 0; i <= 7; ++i) {
    keys_.push_back(std::to_string(1'000'000 + i * kBadEvery));
    put(keys_.back(), "p");
    merge(keys_.back(), {"bad"});
    for (int j = 0; j < i % 5; ++j) merge(keys_.back(), {std::to_string(j)});
  }
  flush();
  expect_as_reference("flushed");
  std::string value;
  EXPECT_TRUE(store_->Get("1000001", &value).ok());
  expect_by_rocksdb();
}

// Goal: of very many operands those that combine do, and where they do not, the flush says so.
// Method: as many versions as a flush keeps; then more of them, some of them bad.
// Mutation: a bound that is off by one fails; so does combining across a bad operand.
TEST_P(MergeFailureTest, ManyOperands) {
  keys_ = {"key"};
  put("key", "p");
  merge("key", {"bad"});
  for (std::size_t i = 2; i < kMergeStackMax; ++i) merge("key", {std::to_string(i) + "."});
  flush();
  expect_as_reference("at the bound");
  put("key", "p");
  for (std::size_t i = 0; i < 2 * kMergeStackMax; ++i) {
    merge("key", {i % 100 == 7 ? "bad" : std::to_string(i) + "."});
  }
  const Status status = store_->Flush();
  if (GetParam()) {
    EXPECT_TRUE(status.ok()) << status.ToString();
    expect_by_rocksdb();
  } else {
    EXPECT_TRUE(status.IsCorruption());
    EXPECT_NE(status.ToString().find("so many operands"), std::string::npos) << status.ToString();
    expect_as_reference("not flushed");
  }
}

// Goal: operands alone in the log of a store that is opened without its operator do not stop
//       flushes; those above a put do, since RocksDB could not read them, and nothing is lost.
// Method: such keys, opened without the operator, read and flushed twice; then opened with it.
// Mutation: returning the merge's error from a flush fails; so does dropping the operands. Bringing
//           operands above a put into the tree ends the process when they are read.
TEST_P(MergeFailureTest, WithoutTheOperator) {
  const auto merge_operator = options_.rocksdb.merge_operator;
  for (const char* key : {"alone", "put"}) {
    SCOPED_TRACE(key);
    keys_ = {key};
    if (keys_[0] == "put") put(key, "p");
    merge(key, {"1", "2", "3"});
    options_.rocksdb.merge_operator = nullptr;
    reopen();
    std::string value;
    for (int round = 0; round < 2; ++round) {
      EXPECT_EQ(store_->Flush().IsInvalidArgument(), keys_[0] == "put");
      EXPECT_TRUE(store_->Get(key, &value).IsInvalidArgument());
    }
    options_.rocksdb.merge_operator = merge_operator;
    reopen();
    expect_as_reference("with the operator");
    flush();
    expect_as_reference("flushed");
  }
  expect_by_rocksdb();
}

// Goal: operands without their operator do not make the flush read the tree where RocksDB would end
//       the process.
// Method: an operand above a put in the tree, two more in the log; read and flushed without the
//         operator, then with it.
// Mutation: reading the tree before looking for the operator ends the process.
TEST_P(MergeFailureTest, WithoutTheOperatorAboveTheTree) {
  keys_ = {"key"};
  put("key", "p");
  flush();
  merge("key", {"1"});
  flush();
  merge("key", {"2", "3"});
  const auto merge_operator = options_.rocksdb.merge_operator;
  options_.rocksdb.merge_operator = nullptr;
  reopen();
  std::string value;
  EXPECT_TRUE(store_->Get("key", &value).IsInvalidArgument());
  EXPECT_TRUE(store_->Flush().IsInvalidArgument());
  options_.rocksdb.merge_operator = merge_operator;
  reopen();
  flush();
  expect_as_reference("with the operator");
}

}  // namespace breccia::ordered
