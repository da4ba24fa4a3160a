#include <breccia/options.h>
#include <breccia/store.h>
#include <gtest/gtest.h>
#include <rocksdb/listener.h>
#include <rocksdb/perf_context.h>
#include <rocksdb/perf_level.h>
#include <rocksdb/statistics.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "both.h"

namespace breccia::testing {

namespace {

const rocksdb::WriteOptions kWrite;

std::uint64_t ticker(Db& db, const std::string& name) {
  std::uint64_t value = 0;
  EXPECT_TRUE(db->GetIntProperty(name, &value)) << name;
  return value;
}

/// A script of reads whose answers lie in memory, in files and nowhere.
void read_everywhere(Db& db) {
  for (const char* key : {"a", "b", "c"}) EXPECT_TRUE(db->Put(kWrite, key, "value").ok());
  EXPECT_TRUE(db->Flush({}).ok());
  EXPECT_TRUE(db->Put(kWrite, "b", "newer value").ok());
  EXPECT_TRUE(db->Delete(kWrite, "c").ok());
  EXPECT_TRUE(db->Merge(kWrite, "a", "1").ok());
  for (const char* key : {"a", "b", "c", "d"}) db.get(key);
  std::vector<std::string> values;
  (void)db->MultiGet({}, {"a", "b", "c", "d"}, &values);
  const std::unique_ptr<rocksdb::Iterator> at(db->NewIterator({}));
  for (at->SeekToFirst(); at->Valid(); at->Next()) {
  }
  at->Seek("b");
  at->Prev();
  at->Prev();
}

/// What stands in backticks in the first column of the page's tables of breccia's own figures.
std::set<std::string> names_on_page(const std::string& path) {
  std::set<std::string> names;
  std::ifstream page(path);
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) inside = line == "## Breccia's figures";
    if (!inside || !line.starts_with("| `")) continue;
    const std::string column = line.substr(0, line.find('|', 1));
    for (std::size_t at = column.find('`'); at != column.npos; at = column.find('`', at)) {
      const std::size_t end = column.find('`', at + 1);
      names.insert("breccia." + column.substr(at + 1, end - at - 1));
      at = end + 1;
    }
  }
  return names;
}

}  // namespace

// Goal: RocksDB's counters of requests are RocksDB's, wherever the answers lie.
// Method: one script of reads and writes on both; each counter and how often its distribution was
//          fed.
// Mutation: handing the tree's own counts on counts reads twice that reach files.
TEST(FacadeStatistics, RequestsAsRocksDbCounts) {
  const auto script = [](Db& db) {
    read_everywhere(db);
    const rocksdb::Statistics& statistics = *db->GetDBOptions().statistics;
    for (const auto type :
         {rocksdb::NUMBER_KEYS_READ, rocksdb::BYTES_READ, rocksdb::MEMTABLE_HIT,
          rocksdb::MEMTABLE_MISS, rocksdb::NUMBER_MULTIGET_CALLS,
          rocksdb::NUMBER_MULTIGET_KEYS_READ, rocksdb::NUMBER_MULTIGET_BYTES_READ,
          rocksdb::NUMBER_DB_SEEK, rocksdb::NUMBER_DB_SEEK_FOUND, rocksdb::NUMBER_DB_NEXT,
          rocksdb::NUMBER_DB_NEXT_FOUND, rocksdb::NUMBER_DB_PREV, rocksdb::NUMBER_DB_PREV_FOUND,
          rocksdb::ITER_BYTES_READ, rocksdb::NO_ITERATOR_CREATED, rocksdb::NUMBER_KEYS_WRITTEN}) {
      const auto known =
          std::find_if(rocksdb::TickersNameMap.begin(), rocksdb::TickersNameMap.end(),
                       [&](const auto& one) { return one.first == type; });
      db.note(known->second + " " + std::to_string(statistics.getTickerCount(type)));
    }
    for (const auto type : {rocksdb::DB_GET, rocksdb::DB_MULTIGET, rocksdb::DB_SEEK,
                            rocksdb::DB_WRITE, rocksdb::BYTES_PER_READ}) {
      rocksdb::HistogramData data{};
      statistics.histogramData(type, &data);
      db.note(std::to_string(type) + " " + std::to_string(data.count));
    }
    EXPECT_TRUE(db->GetDBOptions().statistics->Reset().ok());
  };
  Given given = usual();
  given.clean_bytes = 0;  // or lookups find in memory what RocksDB reads from files
  given.db.statistics = rocksdb::CreateDBStatistics();
  expect_same(script, given);
}

// Goal: synced writes, flushes and waits are counted where RocksDB counts them.
// Method: two synced writes and a flush.
// Mutation: counting writes instead of syncs fails.
TEST(FacadeStatistics, SyncsAndFlushes) {
  Given given = usual();
  given.db.statistics = rocksdb::CreateDBStatistics();
  Db db(Kind::kBreccia, given);
  ASSERT_TRUE(db.open().ok());
  rocksdb::WriteOptions sync;
  sync.sync = true;
  for (const char* key : {"a", "b"}) ASSERT_TRUE(db->Put(sync, key, "1").ok());
  ASSERT_TRUE(db->Put(kWrite, "c", "1").ok());
  ASSERT_TRUE(db->SyncWAL().ok());
  const rocksdb::Statistics& statistics = *db->GetDBOptions().statistics;
  EXPECT_EQ(statistics.getTickerCount(rocksdb::WAL_FILE_SYNCED), 3U);
  EXPECT_EQ(ticker(db, "breccia.log.syncs"), 3U);
  EXPECT_EQ(ticker(db, "breccia.flush.count"), 0U);
  ASSERT_TRUE(db->Flush({}).ok());
  EXPECT_EQ(ticker(db, "breccia.flush.count"), 1U);
  EXPECT_EQ(ticker(db, "breccia.flush.files"), 1U);
  EXPECT_GT(statistics.getTickerCount(rocksdb::FLUSH_WRITE_BYTES), 0U);
  EXPECT_EQ(statistics.getTickerCount(rocksdb::FLUSH_WRITE_BYTES),
            ticker(db, "breccia.flush.file-bytes"));
}

// Goal: breccia's own counters say what was asked and where the answers were found.
// Method: every kind of request, singly and as a batch; with memtables and with runs.
// Mutation: a kind that is counted as another fails.
TEST(FacadeStatistics, OwnCounters) {
  for (const std::uint32_t run_requests_min : {0, 1}) {
    Given given = usual();
    given.clean_bytes = 0;
    given.run_requests_min = run_requests_min;
    Db db(Kind::kBreccia, given);
    ASSERT_TRUE(db.open().ok());
    read_everywhere(db);
    rocksdb::WriteBatch batch;
    ASSERT_TRUE(batch.SingleDelete("e").ok());
    ASSERT_TRUE(batch.DeleteRange("x", "y").ok());
    ASSERT_TRUE(batch.Put("f", "1").ok());
    ASSERT_TRUE(db->Write(kWrite, &batch).ok());
    EXPECT_EQ(ticker(db, "breccia.requests.put"), 5U);
    EXPECT_EQ(ticker(db, "breccia.requests.delete"), 2U);
    EXPECT_EQ(ticker(db, "breccia.requests.merge"), 1U);
    EXPECT_EQ(ticker(db, "breccia.requests.delete-range"), 1U);
    EXPECT_EQ(ticker(db, "breccia.requests.get"), 8U);
    EXPECT_EQ(ticker(db, "breccia.gets.from-memory"), 4U);
    EXPECT_EQ(ticker(db, "breccia.gets.from-tree"), 4U);
    EXPECT_EQ(ticker(db, "breccia.iterators"), 1U);
    EXPECT_EQ(ticker(db, "breccia.log.frames"), 7U);
    EXPECT_EQ(
        ticker(db, run_requests_min == 1 ? "breccia.writes.to-runs" : "breccia.writes.to-memtable"),
        9U);
    EXPECT_GT(ticker(db, "breccia.log.bytes.written"), 7U * 64);
    std::string text;
    ASSERT_TRUE(db->GetProperty("breccia.stats", &text));
    EXPECT_NE(text.find("breccia.requests.put COUNT : 5\n"), std::string::npos) << text;
    EXPECT_NE(text.find("breccia.flush.micros P50"), std::string::npos) << text;
    std::map<std::string, std::string> map;
    ASSERT_TRUE(db->GetMapProperty("breccia.stats", &map));
    EXPECT_EQ(map.at("breccia.requests.get"), "8");
  }
}

// Goal: docs/statistics.md names every figure, and each of them is answered by every function: as a
//       text, as a number where it is one, in the map, in the lines.
// Method: the names in the page's tables against those of the map; both answers of each.
// Mutation: a figure left out of the page, or of the code's table, fails.
TEST(FacadeStatistics, ThePageNamesAll) {
  Db db(Kind::kBreccia, usual());
  ASSERT_TRUE(db.open().ok());
  read_everywhere(db);
  std::map<std::string, std::string> map;
  ASSERT_TRUE(db->GetMapProperty("breccia.stats", &map));
  std::string lines;
  ASSERT_TRUE(db->GetProperty("breccia.stats", &lines));
  std::set<std::string> names;
  for (const auto& [name, in_map] : map) {
    names.insert(name);
    std::string text;
    EXPECT_TRUE(db->GetProperty(name, &text)) << name;
    EXPECT_EQ(text, in_map) << name;
    const bool is_number = !text.empty() && text.find_first_not_of("0123456789") == text.npos;
    std::uint64_t number = 0;
    EXPECT_EQ(db->GetIntProperty(name, &number), is_number) << name << " " << text;
    EXPECT_EQ(is_number ? std::to_string(number) : text, text) << name;
    const std::string line = name + (is_number ? " COUNT : " : " ") + text + "\n";
    EXPECT_NE(lines.find(line), std::string::npos) << line;
  }
  const char* const root = std::getenv("BRECCIA_SOURCE_DIR");
  if (root == nullptr) GTEST_SKIP() << "the page is not there";
  EXPECT_EQ(names_on_page(std::string(root) + "/docs/statistics.md"), names);
}

// Goal: the perf context's fields for bytes and memtables are filled when asked, and only then.
// Method: reads in memory and in files at two levels.
// Mutation: adding to what the tree added counts bytes twice.
TEST(FacadeStatistics, PerfContext) {
  Db db(Kind::kBreccia, usual());
  ASSERT_TRUE(db.open().ok());
  ASSERT_TRUE(db->Put(kWrite, "file", "12345").ok());
  ASSERT_TRUE(db->Flush({}).ok());
  rocksdb::PerfContext& perf = *rocksdb::get_perf_context();
  std::string value;
  for (const auto level :
       {rocksdb::PerfLevel::kDisable, rocksdb::PerfLevel::kEnableTimeExceptForMutex}) {
    const bool on = level != rocksdb::PerfLevel::kDisable;
    rocksdb::SetPerfLevel(level);
    perf.Reset();
    ASSERT_TRUE(db->Put(kWrite, "memory", "1234567").ok());
    EXPECT_EQ(perf.write_wal_time > 0, on);
    EXPECT_EQ(perf.write_memtable_time > 0, on);
    ASSERT_TRUE(db->Get({}, "memory", &value).ok());
    EXPECT_EQ(perf.get_read_bytes, on ? 7U : 0U);
    EXPECT_EQ(perf.get_from_memtable_count, on ? 1U : 0U);
    EXPECT_EQ(perf.get_from_memtable_time > 0, on);
    ASSERT_TRUE(db->Get({}, "file", &value).ok());
    EXPECT_EQ(perf.get_read_bytes, on ? 12U : 0U);
    (void)db->MultiGet({}, {"memory", "file", "none"},
                       &*std::make_unique<std::vector<std::string>>());
    EXPECT_EQ(perf.multiget_read_bytes, on ? 12U : 0U);
    const std::unique_ptr<rocksdb::Iterator> at(db->NewIterator({}));
    for (at->SeekToFirst(); at->Valid(); at->Next()) {
    }
    EXPECT_EQ(perf.iter_read_bytes, on ? 4U + 5 + 6 + 7 : 0U);
  }
  rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableCount);
}

namespace {

/// Notes what it hears.
class Ear final : public rocksdb::EventListener {
 public:
  void OnMemTableSealed(const rocksdb::MemTableInfo& info) override {
    note("sealed " + info.cf_name + " " + std::to_string(info.num_entries) + " " +
         std::to_string(info.num_deletes));
  }
  void OnFlushBegin(rocksdb::DB* db, const rocksdb::FlushJobInfo& info) override {
    note("begin " + info.cf_name);
    db_ = db;
  }
  void OnFlushCompleted(rocksdb::DB* db, const rocksdb::FlushJobInfo& info) override {
    db_ = db;
    note("completed " + info.cf_name + " " + std::to_string(info.table_properties.num_entries) +
         (info.file_path.ends_with(".sst") && info.file_number > 0 ? " file" : " nothing") +
         (info.smallest_seqno < info.largest_seqno ? "" : " wrong"));
  }
  void OnExternalFileIngested(rocksdb::DB*,
                              const rocksdb::ExternalFileIngestionInfo& info) override {
    note("ingested " + info.cf_name);
  }
  void OnBackgroundError(rocksdb::BackgroundErrorReason reason, Status* error) override {
    note(reason == rocksdb::BackgroundErrorReason::kFlush ? "flush failed" : "log failed");
    *error = Status::OK();
  }
  void OnStallConditionsChanged(const rocksdb::WriteStallInfo& info) override {
    note(info.cf_name +
         (info.condition.cur == rocksdb::WriteStallCondition::kNormal ? " goes on" : " waits"));
  }
  [[nodiscard]] std::vector<std::string> heard() {
    const std::lock_guard lock(mutex_);
    return heard_;
  }
  /// Waits until something was heard.
  [[nodiscard]] bool hears(const std::string& what) {
    for (int i = 0; i < 6000; ++i) {
      const auto all = heard();
      if (std::find(all.begin(), all.end(), what) != all.end()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
  [[nodiscard]] rocksdb::DB* db() const { return db_.load(); }

 private:
  void note(const std::string& what) {
    const std::lock_guard lock(mutex_);
    heard_.push_back(what);
  }
  std::mutex mutex_;
  std::vector<std::string> heard_;
  std::atomic<rocksdb::DB*> db_{nullptr};
};

}  // namespace

// Goal: a flush of ours is heard as flushes of the families that had something, with their files.
// Method: two families, one of them empty at the second flush; the user's database is shown.
// Mutation: handing OnExternalFileIngested on, or telling of empty families, fails.
TEST(FacadeStatistics, ListenersHearFlushes) {
  const auto ear = std::make_shared<Ear>();
  Given given = usual();
  given.families = {"one"};
  given.db.listeners.push_back(ear);
  Db db(Kind::kBreccia, given);
  ASSERT_TRUE(db.open().ok());
  ASSERT_TRUE(db->Put(kWrite, "a", "1").ok());
  ASSERT_TRUE(db->Delete(kWrite, "b").ok());
  ASSERT_TRUE(db->Put(kWrite, db.handle("one"), "c", "1").ok());
  ASSERT_TRUE(db->Flush({}).ok());
  ASSERT_TRUE(db->Put(kWrite, "d", "1").ok());
  ASSERT_TRUE(db->Flush({}).ok());
  const std::vector<std::string> expected = {
      "sealed default 2 1",       "sealed one 1 0",       "begin default",      "begin one",
      "completed default 2 file", "completed one 1 file", "sealed default 1 0", "begin default",
      "completed default 1 file"};
  EXPECT_EQ(ear->heard(), expected);
  EXPECT_EQ(ear->db(), db.get());
  EXPECT_EQ(db->GetDBOptions().listeners.size(), 1U);
}

// Goal: a fault of a flush is heard as a background error, and no listener talks it away.
// Method: operands above a put, without a merge operator, make the flush fail.
// Mutation: not telling, or believing the listener's status, fails.
TEST(FacadeStatistics, ListenersHearFaults) {
  const auto ear = std::make_shared<Ear>();
  Given given = usual();
  given.db.listeners.push_back(ear);
  Db db(Kind::kBreccia, given);
  ASSERT_TRUE(db.open().ok());
  ASSERT_TRUE(db->Put(kWrite, "a", "1").ok());
  for (const char* operand : {"2", "3"}) ASSERT_TRUE(db->Merge(kWrite, "a", operand).ok());
  db.close();
  db.given().family.merge_operator = nullptr;
  ASSERT_TRUE(db.open().ok());
  EXPECT_FALSE(db->Flush({}).ok());
  EXPECT_TRUE(ear->hears("flush failed"));
  EXPECT_FALSE(db->Put(kWrite, "b", "1").ok());
}

// Goal: writers that wait for room are heard of, and counted.
// Method: flushes are held back until a writer waits, then let go.
// Mutation: not telling when the wait is over fails.
TEST(FacadeStatistics, ListenersHearStallsConcurrently) {
  const auto ear = std::make_shared<Ear>();
  Given given = usual();
  given.db.listeners.push_back(ear);
  given.db.statistics = rocksdb::CreateDBStatistics();
  given.memtable_bytes = 4 << 20;
  Db db(Kind::kBreccia, given);
  ASSERT_TRUE(db.open().ok());
  ASSERT_TRUE(db->PauseBackgroundWork().ok());
  std::thread writer([&] {
    for (int i = 0; i < 20; ++i) {
      EXPECT_TRUE(db->Put(kWrite, std::to_string(i), std::string(1 << 20, 'v')).ok());
    }
  });
  EXPECT_TRUE(ear->hears("default waits"));
  ASSERT_TRUE(db->ContinueBackgroundWork().ok());
  writer.join();
  EXPECT_TRUE(ear->hears("default goes on"));
  EXPECT_GT(ticker(db, "breccia.waits"), 0U);
  EXPECT_GT(db->GetDBOptions().statistics->getTickerCount(rocksdb::STALL_MICROS), 0U);
}

}  // namespace breccia::testing
