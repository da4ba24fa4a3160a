#pragma once

#include <breccia/options.h>
#include <gtest/gtest.h>
#include <rocksdb/db.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "facade/db/options.h"
#include "support/folder.h"

/// The same script run on RocksDB and on breccia, and what it saw compared line by line.

namespace breccia::testing {

/// Which library a database is opened with.
enum class Kind { kRocksDb, kBreccia };

struct Given {
  rocksdb::DBOptions db;
  /// What every family is opened with; `default` is always there.
  rocksdb::ColumnFamilyOptions family;
  std::vector<std::string> families;
  /// Writes that breccia puts into a run instead of its memtable; 0: its own choice.
  std::uint32_t run_requests_min = 0;
  std::uint64_t memtable_bytes = 0;
  std::optional<std::uint64_t> clean_bytes = {};
  std::uint64_t wait_us_max = 0;  // 0: a RocksDB program's
};

/// Small options without noise, the append operator for merges.
[[nodiscard]] Given usual();

/// Its families, as they are opened.
[[nodiscard]] facade::Descriptors descriptors_of(const Given& given);

/// Breccia's options of a given.
[[nodiscard]] Options options_of(const Given& given, const std::string& path);

/// A database on its own folder, and what a script noted.
class Db {
 public:
  Db(Kind kind, const Given& given);
  ~Db() { close(); }
  Db(const Db&) = delete;
  Db& operator=(const Db&) = delete;

  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] bool is_breccia() const { return kind_ == Kind::kBreccia; }
  rocksdb::DB* operator->() const { return db_.get(); }
  [[nodiscard]] rocksdb::DB* get() const { return db_.get(); }
  /// The handle of a family that was opened, or created by create().
  [[nodiscard]] rocksdb::ColumnFamilyHandle* handle(const std::string& name) const {
    return handles_.at(name);
  }
  [[nodiscard]] std::string path() const { return folder_ / "db"; }
  [[nodiscard]] std::string beside(const std::string& name) const { return folder_ / name; }
  Given& given() { return given_; }

  /// Opens with given().
  Status open();
  /// Destroys the handles and the database.
  void close();
  void reopen();
  Status create(const std::string& family);
  void destroy(const std::string& family);

  // ---- the transcript ----

  void note(const std::string& line) { lines_.push_back(line); }
  void note(const std::string& what, const Status& status);
  void note(const std::string& what, const Status& status, const std::string& value);
  /// Notes what Get says.
  void get(const std::string& key, const rocksdb::ReadOptions& options = {});
  void get(const std::string& family, const std::string& key,
           const rocksdb::ReadOptions& options = {});
  /// Notes every entry of the family, forward and back.
  void scan(const std::string& family = "default", const rocksdb::ReadOptions& options = {});
  [[nodiscard]] const std::vector<std::string>& lines() const { return lines_; }

 private:
  const Kind kind_;
  Given given_;
  const Folder folder_{Place::kMemory};
  std::unique_ptr<rocksdb::DB> db_;
  std::map<std::string, rocksdb::ColumnFamilyHandle*> handles_;
  std::vector<std::string> lines_;
};

/// Opens `db` and returns what the script notes there; fails the test if it cannot be opened.
template <class Database>
std::vector<std::string> notes_of(Database* db, const std::function<void(Database& db)>& script) {
  const Status status = db->open();
  EXPECT_TRUE(status.ok()) << status.ToString();
  if (!status.ok()) return {};
  script(*db);
  return db->lines();
}

/// What is noted with a library, where breccia puts that many writes into a run (0: its own
/// choice).
using Notes = std::function<std::vector<std::string>(Kind kind, std::uint32_t run_requests_min)>;

/// Expects the same notes of RocksDB, of breccia with its memtable, and of breccia with a run for
/// every batch.
void expect_same_notes(const Notes& notes);

using Script = std::function<void(Db& db)>;

/// expect_same_notes() of what the script notes.
void expect_same(const Script& script, const Given& given = usual());

/// The first place where two transcripts differ, with what came before it; empty if there is none.
[[nodiscard]] std::string difference(const std::vector<std::string>& got,
                                     const std::vector<std::string>& expected);

/// A code and its name, without the text: texts may differ.
[[nodiscard]] std::string code_of(const Status& status);

/// What the database holds when RocksDB opens its files, as lines "family/key=value".
[[nodiscard]] std::vector<std::string> contents_by_rocksdb(const std::string& path,
                                                           const Given& given);

}  // namespace breccia::testing
