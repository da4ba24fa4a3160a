#include "both.h"

#include <breccia/rocks.h>
#include <gtest/gtest.h>

#include "support/append_operator.h"
#include "support/sparse_files.h"

namespace breccia::testing {

facade::Descriptors descriptors_of(const Given& given) {
  facade::Descriptors families{{rocksdb::kDefaultColumnFamilyName, given.family}};
  for (const std::string& name : given.families) families.emplace_back(name, given.family);
  return families;
}

Given usual() {
  Given given;
  given.db.create_if_missing = true;
  given.db.env = sparse_env();
  given.db.create_missing_column_families = true;
  given.db.info_log_level = rocksdb::InfoLogLevel::FATAL_LEVEL;
  given.family.compression = rocksdb::kNoCompression;
  given.family.merge_operator = std::make_shared<AppendOperator>();
  return given;
}

Options options_of(const Given& given, const std::string& path) {
  Options options = facade::engine_options(given.db, path, descriptors_of(given));
  options.backend = BackendChoice::kHost;
  options.flush_threads = 1;
  options.device_requests_min = given.run_requests_min;
  options.memtable_bytes = given.memtable_bytes != 0 ? given.memtable_bytes : 256 << 20;
  options.clean_bytes = given.clean_bytes;
  if (given.wait_us_max != 0) options.wait_us_max = given.wait_us_max;
  return options;
}

Db::Db(Kind kind, const Given& given) : kind_(kind), given_(given) {}

Status Db::open() {
  const facade::Descriptors families = descriptors_of(given_);
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* db = nullptr;
  const Status status =
      is_breccia() ? Rocks::Open(options_of(given_, path()), path(), families, &handles, &db)
                   : rocksdb::DB::Open(given_.db, path(), families, &handles, &db);
  db_.reset(db);
  for (std::size_t i = 0; i < handles.size(); ++i) handles_[families[i].name] = handles[i];
  return status;
}

void Db::close() {
  if (db_ == nullptr) return;
  for (const auto& [name, handle] : handles_) {
    EXPECT_TRUE(db_->DestroyColumnFamilyHandle(handle).ok());
  }
  handles_.clear();
  const Status status = db_->Close();
  EXPECT_TRUE(status.ok()) << status.ToString();
  db_.reset();
}

void Db::reopen() {
  close();
  const Status status = open();
  ASSERT_TRUE(status.ok()) << status.ToString();
}

Status Db::create(const std::string& family) {
  rocksdb::ColumnFamilyHandle* handle = nullptr;
  const Status status = db_->CreateColumnFamily(given_.family, family, &handle);
  if (!status.ok()) return status;
  handles_[family] = handle;
  given_.families.push_back(family);
  return status;
}

void Db::destroy(const std::string& family) {
  EXPECT_TRUE(db_->DestroyColumnFamilyHandle(handle(family)).ok());
  handles_.erase(family);
  std::erase(given_.families, family);
}

void Db::note(const std::string& what, const Status& status) {
  note(what + ": " + code_of(status));
}

void Db::note(const std::string& what, const Status& status, const std::string& value) {
  note(what + ": " + code_of(status) + (status.ok() ? " " + value : ""));
}

void Db::get(const std::string& key, const rocksdb::ReadOptions& options) {
  get("default", key, options);
}

void Db::get(const std::string& family, const std::string& key,
             const rocksdb::ReadOptions& options) {
  std::string value;
  const Status status = db_->Get(options, handle(family), key, &value);
  note("get " + family + "/" + key, status, value);
}

void Db::scan(const std::string& family, const rocksdb::ReadOptions& options) {
  const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator(options, handle(family)));
  for (at->SeekToFirst(); at->Valid(); at->Next()) {
    note(family + "/" + at->key().ToString() + "=" + at->value().ToString());
  }
  note("end", at->status());
  if (options.tailing) return;
  for (at->SeekToLast(); at->Valid(); at->Prev()) {
    note(family + "\\" + at->key().ToString() + "=" + at->value().ToString());
  }
  note("begin", at->status());
}

std::string code_of(const Status& status) {
  static constexpr const char* kNames[] = {
      "Ok",      "NotFound",   "Corruption", "NotSupported",       "InvalidArgument", "IOError",
      "Merging", "Incomplete", "Shutdown",   "TimedOut",           "Aborted",         "Busy",
      "Expired", "TryAgain",   "TooLarge",   "ColumnFamilyDropped"};
  return kNames[status.code()];
}

std::string difference(const std::vector<std::string>& got,
                       const std::vector<std::string>& expected) {
  constexpr std::size_t kBefore = 6;
  const std::size_t n = std::min(got.size(), expected.size());
  std::size_t at = 0;
  while (at < n && got[at] == expected[at]) ++at;
  if (at == n && got.size() == expected.size()) return "";
  std::string text;
  for (std::size_t i = at > kBefore ? at - kBefore : 0; i < at; ++i) text += "  " + got[i] + "\n";
  text += "breccia: " + (at < got.size() ? got[at] : "<end>");
  return text + "\nRocksDB: " + (at < expected.size() ? expected[at] : "<end>");
}

void expect_same_notes(const Notes& notes) {
  const std::vector<std::string> expected = notes(Kind::kRocksDb, 0);
  EXPECT_FALSE(expected.empty());
  for (const std::uint32_t run_requests_min : {0, 1}) {
    SCOPED_TRACE("a run from " + std::to_string(run_requests_min) + " writes on");
    EXPECT_EQ(difference(notes(Kind::kBreccia, run_requests_min), expected), "");
  }
}

void expect_same(const Script& script, const Given& given) {
  expect_same_notes([&](Kind kind, std::uint32_t run_requests_min) {
    Given with = given;
    with.run_requests_min = run_requests_min;
    Db db(kind, with);
    return notes_of(&db, script);
  });
}

std::vector<std::string> contents_by_rocksdb(const std::string& path, const Given& given) {
  std::vector<std::string> names;
  EXPECT_TRUE(rocksdb::DB::ListColumnFamilies(given.db, path, &names).ok());
  facade::Descriptors families;
  for (const std::string& name : names) families.emplace_back(name, given.family);
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* opened = nullptr;
  const Status status = rocksdb::DB::OpenForReadOnly(given.db, path, families, &handles, &opened);
  EXPECT_TRUE(status.ok()) << status.ToString();
  if (!status.ok()) return {};
  const std::unique_ptr<rocksdb::DB> db(opened);
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::unique_ptr<rocksdb::Iterator> at(db->NewIterator({}, handles[i]));
    for (at->SeekToFirst(); at->Valid() && names[i].find("breccia.") != 0; at->Next()) {
      lines.push_back(names[i] + "/" + at->key().ToString() + "=" + at->value().ToString());
    }
    EXPECT_TRUE(at->status().ok());
  }
  for (auto* handle : handles) EXPECT_TRUE(db->DestroyColumnFamilyHandle(handle).ok());
  return lines;
}

}  // namespace breccia::testing
