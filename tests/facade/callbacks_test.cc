#include <gtest/gtest.h>
#include <rocksdb/listener.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/utilities/checkpoint.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <mutex>
#include <set>

#include "base/result.h"
#include "both.h"
#include "support/seeds.h"

/// Listeners that call the database back.
///
/// 1. A cell is a trigger, an event that it leads to, and a call that the callback makes.
/// 2. Each has a database of its own: the trigger is prepared, the call is armed, the trigger runs
///    on a thread of its own, and both must come to their end before a deadline.
/// 3. RocksDB hangs in some cells: `waits_for_itself` names them. All others run on both libraries,
///    and the calls return the same.

namespace breccia::testing {

namespace {

const rocksdb::WriteOptions kWrite;
constexpr auto kDeadline = std::chrono::seconds(60);

/// Makes one call in the first event of one kind.
class CallsBack final : public rocksdb::EventListener {
 public:
  using Call = std::function<Status()>;

  void arm(const std::string& event, Call call) {
    const std::lock_guard lock(mutex_);
    armed_ = event;
    call_ = std::move(call);
  }
  /// What the call returned; none: it has not been told of, or hangs.
  std::optional<Status> wait() {
    std::unique_lock lock(mutex_);
    (void)wake_.wait_for(lock, kDeadline, [&] { return status_.has_value(); });
    return status_;
  }
  void expect_database(rocksdb::DB* db) { db_ = db; }

  void OnFlushBegin(rocksdb::DB* db, const rocksdb::FlushJobInfo&) override {
    told("OnFlushBegin", db);
  }
  void OnFlushCompleted(rocksdb::DB* db, const rocksdb::FlushJobInfo&) override {
    told("OnFlushCompleted", db);
  }
  void OnMemTableSealed(const rocksdb::MemTableInfo&) override { told("OnMemTableSealed"); }
  void OnCompactionBegin(rocksdb::DB* db, const rocksdb::CompactionJobInfo&) override {
    told("OnCompactionBegin", db);
  }
  void OnCompactionCompleted(rocksdb::DB* db, const rocksdb::CompactionJobInfo&) override {
    told("OnCompactionCompleted", db);
  }
  void OnSubcompactionBegin(const rocksdb::SubcompactionJobInfo&) override {
    told("OnSubcompactionBegin");
  }
  void OnSubcompactionCompleted(const rocksdb::SubcompactionJobInfo&) override {
    told("OnSubcompactionCompleted");
  }
  void OnTableFileCreationStarted(const rocksdb::TableFileCreationBriefInfo&) override {
    told("OnTableFileCreationStarted");
  }
  void OnTableFileCreated(const rocksdb::TableFileCreationInfo&) override {
    told("OnTableFileCreated");
  }
  void OnTableFileDeleted(const rocksdb::TableFileDeletionInfo&) override {
    told("OnTableFileDeleted");
  }
  void OnColumnFamilyHandleDeletionStarted(rocksdb::ColumnFamilyHandle*) override {
    told("OnColumnFamilyHandleDeletionStarted");
  }
  void OnExternalFileIngested(rocksdb::DB* db, const rocksdb::ExternalFileIngestionInfo&) override {
    told("OnExternalFileIngested", db);
  }
  // Of the MANIFEST they come while RocksDB keeps everybody else from writing it.
  void OnFileReadFinish(const rocksdb::FileOperationInfo& info) override {
    if (info.path.ends_with(".sst")) told("OnFileReadFinish");
  }
  void OnFileWriteFinish(const rocksdb::FileOperationInfo& info) override {
    if (info.path.ends_with(".sst")) told("OnFileWriteFinish");
  }
  void OnFileCloseFinish(const rocksdb::FileOperationInfo& info) override {
    if (info.path.ends_with(".sst")) told("OnFileCloseFinish");
  }
  bool ShouldBeNotifiedOnFileIO() override { return true; }

 private:
  void told(const std::string& event, rocksdb::DB* db) {
    if (db_ != nullptr) {
      EXPECT_EQ(db, db_.load()) << event;
    }
    told(event);
  }
  void told(const std::string& event) {
    Call call;
    {
      const std::lock_guard lock(mutex_);
      if (armed_ != event) return;
      armed_.clear();
      call = std::move(call_);
    }
    const Status status = call();
    const std::lock_guard lock(mutex_);
    status_ = status;
    wake_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::string armed_;
  Call call_;
  std::optional<Status> status_;
  std::atomic<rocksdb::DB*> db_{nullptr};
};

// ---- calls -------------------------------------------------------------------------------------

using Action = std::function<Status(Db& db)>;

Status put_two(Db& db) {
  for (const char* key : {"a", "b"}) BRECCIA_TRY(db->Put(kWrite, key, "1"));
  return Status::OK();
}

Status flush_new(Db& db) {
  BRECCIA_TRY(db->Put(kWrite, "a", "2"));
  return db->Flush({});
}

Status compact(Db& db, bool change_level) {
  rocksdb::CompactRangeOptions options;
  options.exclusive_manual_compaction = false;
  options.change_level = change_level;
  options.target_level = change_level ? 3 : -1;
  return db->CompactRange(options, nullptr, nullptr);
}

Status compact_files(Db& db) {
  rocksdb::ColumnFamilyMetaData family;
  db->GetColumnFamilyMetaData(db->DefaultColumnFamily(), &family);
  std::vector<std::string> names;
  for (const auto& level : family.levels) {
    for (const auto& file : level.files) names.push_back(file.name);
  }
  return db->CompactFiles({}, names, 6);
}

Status checkpoint(Db& db) {
  BRECCIA_TRY(db->Put(kWrite, "a", "2"));
  rocksdb::Checkpoint* made = nullptr;
  BRECCIA_TRY(rocksdb::Checkpoint::Create(db.get(), &made));
  const std::unique_ptr<rocksdb::Checkpoint> taken(made);
  return taken->CreateCheckpoint(db.beside("copy"));
}

Status ingest(Db& db) {
  static std::atomic<int> files{0};
  const std::string path = db.beside(std::to_string(files++) + ".sst");
  rocksdb::SstFileWriter writer({}, rocksdb::Options());
  BRECCIA_TRY(writer.Open(path));
  BRECCIA_TRY(writer.Put("b", "2"));
  BRECCIA_TRY(writer.Finish());
  BRECCIA_TRY(db->Put(kWrite, "b", "1"));
  return db->IngestExternalFile({path}, {});
}

Status make_family(Db& db) {
  rocksdb::ColumnFamilyHandle* handle = nullptr;
  BRECCIA_TRY(db->CreateColumnFamily(db.given().family, "made", &handle));
  BRECCIA_TRY(db->Put(kWrite, handle, "a", "1"));
  BRECCIA_TRY(db->DropColumnFamily(handle));
  return db->DestroyColumnFamilyHandle(handle);
}

/// Whatever needs the database's mutex, or the log, for a moment.
Status look(Db& db) {
  rocksdb::WriteOptions sync;
  sync.sync = true;
  BRECCIA_TRY(db->Put(sync, "c", "1"));
  db->ReleaseSnapshot(db->GetSnapshot());
  std::string value;
  BRECCIA_TRY(db->Get({}, "c", &value));
  (void)db->GetProperty("rocksdb.stats", &value);
  BRECCIA_TRY(db->SetOptions({{"level0_file_num_compaction_trigger", "3"}}));
  BRECCIA_TRY(db->DisableFileDeletions());
  return db->EnableFileDeletions(/*force=*/false);
}

const std::pair<const char*, Action> kCalls[] = {
    {"look", look},
    {"flush", flush_new},
    {"compact", [](Db& db) { return compact(db, /*change_level=*/false); }},
    {"checkpoint", checkpoint},
    {"ingest", ingest},
    {"make family", make_family},
};

// ---- triggers ----------------------------------------------------------------------------------

struct Trigger {
  const char* name;
  std::vector<const char*> events;
  Action prepare;
  Action run;
};

Status nothing(Db&) { return Status::OK(); }

Status two_files(Db& db) {
  for (int i = 0; i < 2; ++i) {
    BRECCIA_TRY(put_two(db));
    BRECCIA_TRY(db->Flush({}));
  }
  return Status::OK();
}

/// Drops a family that has a file.
Status drop(Db& db) {
  BRECCIA_TRY(db->Put(kWrite, db.handle("one"), "a", "1"));
  BRECCIA_TRY(db->Flush({}, db.handle("one")));
  BRECCIA_TRY(db->DropColumnFamily(db.handle("one")));
  db.destroy("one");
  return Status::OK();
}

const std::vector<const char*> kOfFiles = {"OnTableFileCreationStarted", "OnTableFileCreated",
                                           "OnTableFileDeleted",         "OnFileReadFinish",
                                           "OnFileWriteFinish",          "OnFileCloseFinish"};
const std::vector<const char*> kOfParts = {"OnSubcompactionBegin", "OnSubcompactionCompleted"};
const std::vector<const char*> kOfJobs = {"OnCompactionBegin", "OnCompactionCompleted"};

template <class... Lists>
std::vector<const char*> joined(const Lists&... lists) {
  std::vector<const char*> all;
  (all.insert(all.end(), lists.begin(), lists.end()), ...);
  return all;
}

std::vector<Trigger> triggers() {
  return {
      {"flush",
       {"OnMemTableSealed", "OnFlushBegin", "OnFlushCompleted", "OnFileReadFinish",
        "OnFileWriteFinish", "OnFileCloseFinish"},
       put_two,
       [](Db& db) { return db->Flush({}); }},
      {"automatic compaction", joined(kOfJobs, kOfParts, kOfFiles), two_files,
       [](Db& db) { return db->EnableAutoCompaction({db->DefaultColumnFamily()}); }},
      {"move of a level", joined(kOfJobs, kOfParts, kOfFiles), two_files,
       [](Db& db) { return compact(db, /*change_level=*/true); }},
      {"CompactFiles", joined(kOfParts, kOfFiles), two_files, compact_files},
      {"ingest", {"OnExternalFileIngested"}, nothing, ingest},
      {"drop", {"OnColumnFamilyHandleDeletionStarted", "OnTableFileDeleted"}, nothing, drop},
  };
}

/// True if RocksDB hangs: the call waits for the thread that makes it.
bool waits_for_itself(Kind kind, const std::string& trigger, const std::string& event,
                      const std::string& call) {
  const bool flushes =
      call == "flush" || call == "compact" || call == "checkpoint" || call == "ingest";
  if (trigger == "flush") {
    if (event == "OnFileWriteFinish" || event == "OnFileCloseFinish") return flushes;
    if (kind == Kind::kBreccia || event == "OnFlushCompleted") return false;
    return flushes || event == "OnMemTableSealed";
  }
  if (event == "OnTableFileDeleted") return kind == Kind::kRocksDb && call == "checkpoint";
  const bool has_files = event != "OnCompactionCompleted" && trigger != "ingest";
  return call == "compact" && has_files && trigger != "drop";
}

/// True if the call may come to "Incomplete", with both libraries: once the compaction of a move is
/// over, RocksDB pauses manual compactions for as long as it moves the files, and those that it
/// deleted are told of beside that.
bool may_be_paused(const std::string& trigger, const std::string& event, const std::string& call) {
  return trigger == "move of a level" && event == "OnTableFileDeleted" && call == "compact";
}

Given given_with(const std::shared_ptr<CallsBack>& listener) {
  Given given = usual();
  given.families = {"one"};
  given.db.listeners.push_back(listener);
  given.db.max_background_jobs = 8;  // as many calls as may be wait for no thread
  given.family.level0_file_num_compaction_trigger = 2;
  given.family.disable_auto_compactions = true;
  return given;
}

/// Threads that hang cannot be ended.
[[noreturn]] void give_up(const std::string& cell) {
  std::fprintf(stderr, "hangs: %s\n", cell.c_str());
  std::abort();
}

/// What the call returns.
std::string run_cell(Kind kind, const Trigger& trigger, const std::string& event,
                     const std::pair<const char*, Action>& call) {
  const std::string cell = std::string(kind == Kind::kBreccia ? "breccia" : "RocksDB") + ", " +
                           trigger.name + ", " + event + ", " + call.first;
  SCOPED_TRACE(cell);
  const auto listener = std::make_shared<CallsBack>();
  Db db(kind, given_with(listener));
  EXPECT_TRUE(db.open().ok());
  if (kind == Kind::kBreccia) listener->expect_database(db.get());
  EXPECT_TRUE(trigger.prepare(db).ok());
  listener->arm(event, [&] { return call.second(db); });
  auto ran = std::async(std::launch::async, [&] { return trigger.run(db); });
  const std::optional<Status> status = listener->wait();
  if (!status.has_value() || ran.wait_for(kDeadline) != std::future_status::ready) give_up(cell);
  const Status trigger_status = ran.get();
  // A file that a callback has brought in may lie in a level that is to be empty.
  EXPECT_TRUE(trigger_status.ok() || trigger_status.IsNotSupported()) << trigger_status.ToString();
  auto closed = std::async(std::launch::async, [&] { db.close(); });
  if (closed.wait_for(kDeadline) != std::future_status::ready) give_up(cell + ", at the close");
  return code_of(*status);
}

}  // namespace

// Goal: a callback may call what it may call with RocksDB, and gets the same.
// Method: each event of each trigger with each call, on both, with a deadline; where a share of the
// seeds is wanted, that share of them.
// Mutation: the users' listeners before or behind the whole gate, flushes told on the flusher's
// thread, a gate for writes that is closed while a callback runs: each hangs in a cell.
TEST(Callbacks, CallBack) {
  const std::uint64_t stride = 100 / testing::share_of(100);
  std::uint64_t number = testing::seeds_to_run(1).front() % stride;
  std::uint64_t cells = 0;
  for (const Trigger& trigger : triggers()) {
    for (const char* const event : trigger.events) {
      for (const auto& call : kCalls) {
        if (waits_for_itself(Kind::kBreccia, trigger.name, event, call.first)) continue;
        if (number++ % stride != 0) continue;
        ++cells;
        const std::string ours = run_cell(Kind::kBreccia, trigger, event, call);
        if (may_be_paused(trigger.name, event, call.first)) {
          EXPECT_TRUE(ours == "Ok" || ours == "Incomplete") << ours;
          continue;
        }
        EXPECT_EQ(ours, "Ok") << trigger.name << ", " << event << ", " << call.first;
        if (waits_for_itself(Kind::kRocksDb, trigger.name, event, call.first)) continue;
        EXPECT_EQ(run_cell(Kind::kRocksDb, trigger, event, call), ours);
      }
    }
  }
  EXPECT_GT(cells, 150 / stride);
}

// Goal: a compaction's callback may ingest, or flush with allow_write_stall, while the tree has so
//   many files that writes wait for that very compaction.
// Method: more files on level 0 than stop writes, then compactions.
// Mutation: a flush that waits for the tree hangs.
TEST(Callbacks, FlushWhereWritesAreStopped) {
  const Action calls[] = {ingest, [](Db& db) {
                            rocksdb::FlushOptions at_once;
                            at_once.allow_write_stall = true;
                            return db->Flush(at_once);
                          }};
  for (const Action& call : calls) {
    const auto listener = std::make_shared<CallsBack>();
    Given given = given_with(listener);
    given.family.level0_slowdown_writes_trigger = 2;
    given.family.level0_stop_writes_trigger = 2;
    Db db(Kind::kBreccia, given);
    ASSERT_TRUE(db.open().ok());
    // Files that overlap go to one level above the other, and only then to level 0.
    for (int level = 6; level > -3; --level) ASSERT_TRUE(flush_new(db).ok());
    std::string files;
    ASSERT_TRUE(db->GetProperty("rocksdb.num-files-at-level0", &files));
    ASSERT_GE(std::stoi(files), 2);
    ASSERT_TRUE(put_two(db).ok());
    listener->arm("OnCompactionBegin", [&] { return call(db); });
    ASSERT_TRUE(db->EnableAutoCompaction({db->DefaultColumnFamily()}).ok());
    const std::optional<Status> status = listener->wait();
    if (!status.has_value()) give_up("writes are stopped");
    EXPECT_TRUE(status->ok()) << status->ToString();
  }
}

}  // namespace breccia::testing
