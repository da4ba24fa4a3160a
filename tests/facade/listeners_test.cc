#include <breccia/options.h>
#include <breccia/store.h>
#include <breccia/transaction_db.h>
#include <gtest/gtest.h>
#include <rocksdb/env.h>
#include <rocksdb/listener.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "both.h"
#include "support/sparse_files.h"
#include "txn_db.h"
#include "wal/files_env.h"

/// What listeners hear, of what, and how often they are asked.

namespace breccia::testing {

namespace {

const rocksdb::WriteOptions kWrite;

std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// Notes all families and files that it hears of.
class Hears final : public rocksdb::EventListener {
 public:
  void OnFlushCompleted(rocksdb::DB* db, const rocksdb::FlushJobInfo& info) override {
    see(db);
    note("flush", info.cf_name, info.file_path);
  }
  void OnFlushBegin(rocksdb::DB* db, const rocksdb::FlushJobInfo& info) override {
    see(db);
    note("flush", info.cf_name, "");
  }
  void OnTableFileDeleted(const rocksdb::TableFileDeletionInfo& info) override {
    note("deleted", "", info.file_path);
  }
  void OnCompactionBegin(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) override {
    see(db);
    note("compaction", info.cf_name, "");
  }
  void OnCompactionCompleted(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) override {
    see(db);
    for (const std::string& file : info.output_files) note("compaction", info.cf_name, file);
  }
  void OnSubcompactionBegin(const rocksdb::SubcompactionJobInfo& info) override {
    note("compaction", info.cf_name, "");
  }
  void OnSubcompactionCompleted(const rocksdb::SubcompactionJobInfo& info) override {
    note("compaction", info.cf_name, "");
  }
  void OnTableFileCreated(const rocksdb::TableFileCreationInfo& info) override {
    note("created", info.cf_name, info.file_path);
    const std::lock_guard lock(mutex_);
    created_.insert(name_of(info.file_path));
  }
  void OnTableFileCreationStarted(const rocksdb::TableFileCreationBriefInfo& info) override {
    note("created", info.cf_name, info.file_path);
  }
  void OnMemTableSealed(const rocksdb::MemTableInfo& info) override {
    note("sealed", info.cf_name, "");
  }
  void OnColumnFamilyHandleDeletionStarted(rocksdb::ColumnFamilyHandle* handle) override {
    note("handle", handle->GetName(), "");
  }
  void OnStallConditionsChanged(const rocksdb::WriteStallInfo& info) override {
    note("stall", info.cf_name, "");
  }
  void OnFileReadFinish(const rocksdb::FileOperationInfo& info) override {
    note("read", "", info.path);
  }
  void OnFileWriteFinish(const rocksdb::FileOperationInfo& info) override {
    note("written", "", info.path);
  }
  void OnFileCloseFinish(const rocksdb::FileOperationInfo& info) override {
    note("closed", "", info.path);
  }
  bool ShouldBeNotifiedOnFileIO() override {
    ++asked_;
    return wants_files_;
  }

  void want_files(bool wanted) { wants_files_ = wanted; }
  [[nodiscard]] int asked() const { return asked_; }
  /// Databases that events were told with.
  [[nodiscard]] std::set<rocksdb::DB*> databases() {
    const std::lock_guard lock(mutex_);
    return databases_;
  }
  [[nodiscard]] std::set<std::string> families() {
    const std::lock_guard lock(mutex_);
    return families_;
  }
  /// How often each kind of event was told.
  [[nodiscard]] std::map<std::string, int> events() {
    const std::lock_guard lock(mutex_);
    return events_;
  }
  /// Names of table files.
  [[nodiscard]] std::set<std::string> files() {
    const std::lock_guard lock(mutex_);
    return files_;
  }
  /// Those of them that were made for a family.
  [[nodiscard]] std::set<std::string> created() {
    const std::lock_guard lock(mutex_);
    return created_;
  }
  /// Waits until an event of that kind was told.
  [[nodiscard]] bool hears(const std::string& event) {
    for (int i = 0; i < 3000 && events()[event] == 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return events()[event] > 0;
  }

 private:
  void see(rocksdb::DB* db) {
    const std::lock_guard lock(mutex_);
    databases_.insert(db);
  }
  void note(const std::string& event, const std::string& family, const std::string& path) {
    const std::lock_guard lock(mutex_);
    ++events_[event];
    if (!family.empty()) families_.insert(family);
    if (path.ends_with(".sst")) files_.insert(name_of(path));
  }
  std::mutex mutex_;
  std::set<rocksdb::DB*> databases_;
  std::set<std::string> families_;
  std::map<std::string, int> events_;
  std::set<std::string> files_;
  std::set<std::string> created_;
  std::atomic<int> asked_{0};
  std::atomic<bool> wants_files_{true};
};

/// Compactions do not run before let_go(); from then on an opening goes on, where breccia makes its
/// folder, when one has run.
class LateCompactions final : public wal::FilesEnv {
 public:
  LateCompactions() : FilesEnv(sparse_env(), make_sparse_files()) {}
  /// Waits for jobs that have told RocksDB of their end, and not yet this.
  ~LateCompactions() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return under_way_ == 0; });
  }
  LateCompactions(const LateCompactions&) = delete;
  LateCompactions& operator=(const LateCompactions&) = delete;

  void let_go() { is_free_ = true; }
  [[nodiscard]] bool has_waited() const { return has_waited_; }

  void Schedule(void (*run)(void*), void* with, Priority priority, void* tag,
                void (*drop)(void*)) override {
    if (priority != LOW) return target()->Schedule(run, with, priority, tag, drop);
    if (is_free_) {
      {
        const std::lock_guard lock(mutex_);
        ++under_way_;
      }
      auto* const job = new Job{this, run, with, tag, drop};
      return target()->Schedule(&LateCompactions::run, job, priority, tag, &LateCompactions::drop);
    }
    const std::lock_guard lock(mutex_);
    late_.push_back({this, run, with, tag, drop});
  }
  int UnSchedule(void* tag, Priority priority) override {
    int dropped = target()->UnSchedule(tag, priority);
    const std::lock_guard lock(mutex_);
    dropped += static_cast<int>(std::erase_if(late_, [&](const Job& job) {
      const bool goes = priority == LOW && job.tag == tag;
      if (goes && job.drop != nullptr) job.drop(job.with);
      return goes;
    }));
    return dropped;
  }
  Status CreateDirIfMissing(const std::string& path) override {
    if (is_free_ && path.ends_with("breccia-staging")) {
      std::unique_lock lock(mutex_);
      has_waited_ = changed_.wait_for(lock, std::chrono::minutes(5), [&] { return ran_ > 0; });
    }
    return target()->CreateDirIfMissing(path);
  }

 private:
  struct Job {
    LateCompactions* env;
    void (*run)(void*);
    void* with;
    void* tag;
    void (*drop)(void*);
  };
  static void run(void* with) {
    const std::unique_ptr<Job> job(static_cast<Job*>(with));
    job->run(job->with);
    job->env->end(/*ran=*/1);
  }
  static void drop(void* with) {
    const std::unique_ptr<Job> job(static_cast<Job*>(with));
    if (job->drop != nullptr) job->drop(job->with);
    job->env->end(/*ran=*/0);
  }
  void end(int ran) {
    const std::lock_guard lock(mutex_);
    ran_ += ran;
    --under_way_;
    changed_.notify_all();  // with the lock: behind it this may be gone
  }

  std::atomic<bool> is_free_{false};
  std::atomic<bool> has_waited_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Job> late_;
  int under_way_ = 0;  // jobs that the base has
  int ran_ = 0;
};

/// Adds the names of the user's table files that there are now.
void add_files(rocksdb::DB* db, std::set<std::string>* names) {
  std::vector<rocksdb::LiveFileMetaData> files;
  db->GetLiveFilesMetaData(&files);
  for (const auto& file : files) names->insert(name_of(file.name));
}

}  // namespace

// Goal: nobody hears of breccia's own families: no compaction, file, flush, memtable, stall,
//          handle.
// Method: prepared transactions and many flushes, over two openings, so that both families have
//          files that are compacted, deleted and read; every family told and every table file told
//          against those of the user.
// Mutation: one kind of event that is not looked at fails, if it is told here.
TEST(FacadeListeners, NotOfOwnFamilies) {
  const auto hears = std::make_shared<Hears>();
  TxnGiven given;
  given.style = Style::kPessimistic;
  given.given.db.listeners.push_back(hears);
  given.given.families = {"one"};
  given.given.family.disable_auto_compactions = true;  // no file comes and goes unseen
  TxnDb db(Kind::kBreccia, given);
  std::set<std::string> files;
  for (int opening = 0; opening < 2; ++opening) {
    ASSERT_TRUE(db.open().ok());
    add_files(db.get(), &files);
    for (int round = 0; round < 12; ++round) {
      const auto transaction = db.begin();
      ASSERT_TRUE(transaction->SetName(std::to_string(round)).ok());
      ASSERT_TRUE(transaction->Put("a", std::to_string(round)).ok());
      ASSERT_TRUE(transaction->Prepare().ok());
      ASSERT_TRUE(db->Flush({}).ok());
      add_files(db.get(), &files);
      ASSERT_TRUE(transaction->Commit().ok());
      ASSERT_TRUE(db->Put(kWrite, db.handle("one"), "b", "1").ok());
      ASSERT_TRUE(db->Flush({}).ok());
      add_files(db.get(), &files);
      ASSERT_TRUE(db->CompactRange({}, nullptr, nullptr).ok());
      add_files(db.get(), &files);
    }
    db.close();
  }
  EXPECT_EQ(hears->families(), (std::set<std::string>{"default", "one"}));
  EXPECT_EQ(hears->databases().count(nullptr), 0U);
  files.merge(hears->created());  // of families that are the user's, as was just seen
  std::set<std::string> unknown;
  for (const std::string& file : hears->files()) {
    const bool is_staged = file.starts_with("data-");
    if (!is_staged && !files.contains(file)) unknown.insert(file);
  }
  EXPECT_EQ(unknown, std::set<std::string>());
  for (const char* event : {"flush", "sealed", "compaction", "created", "deleted", "handle", "read",
                            "written", "closed"}) {
    EXPECT_GT(hears->events()[event], 0) << event;
  }
}

// Goal: nobody hears of breccia's own files that go while the database opens.
// Method: a compaction of its own files that is due when one closes, and has run when the next
//          opening sees which files there are.
// Mutation: knowing own files by that look alone tells of those that the compaction has taken away.
TEST(FacadeListeners, NotOfOwnFilesThatGoAtAnOpening) {
  const auto hears = std::make_shared<Hears>();
  Given given = usual();
  LateCompactions env;
  given.db.env = &env;
  given.db.listeners.push_back(hears);
  given.family.disable_auto_compactions = true;
  std::set<std::string> files;
  Db db(Kind::kBreccia, given);
  ASSERT_TRUE(db.open().ok());
  for (int file = 0; file < 16; ++file) {  // beside each, one of breccia's own
    ASSERT_TRUE(db->Put(kWrite, "a", "1").ok());
    ASSERT_TRUE(db->Flush({}).ok());
  }
  add_files(db.get(), &files);
  db.close();
  env.let_go();
  ASSERT_TRUE(db.open().ok());
  EXPECT_TRUE(env.has_waited());
  db.close();
  EXPECT_GT(hears->events()["read"], 0);
  for (const std::string& file : hears->files()) {
    EXPECT_TRUE(files.contains(file) || file.starts_with("data-")) << file;
  }
}

// Goal: a listener is asked once for each file whether it wants to hear of operations on it, as
//       RocksDB asks, and its answer holds for the file.
// Method: reads of one file on both; a listener that changes its mind, beside one that never wants.
// Mutation: asking at each operation notes as many questions as reads, and loses what follows.
TEST(FacadeListeners, AskedOncePerFile) {
  expect_same_notes([](Kind kind, std::uint32_t run_requests_min) {
    const auto hears = std::make_shared<Hears>();
    const auto deaf = std::make_shared<Hears>();
    deaf->want_files(false);
    Given given = usual();
    given.run_requests_min = run_requests_min;
    given.clean_bytes = 0;  // or lookups find in memory what RocksDB reads from files
    given.db.listeners = {hears, deaf};
    Db db(kind, given);
    EXPECT_TRUE(db.open().ok());
    for (int i = 0; i < 100; ++i) {
      EXPECT_TRUE(db->Put(kWrite, std::to_string(100 + i), std::string(4096, 'v')).ok());
    }
    EXPECT_TRUE(db->Flush({}).ok());
    db.reopen();
    hears->want_files(false);
    const int asked = hears->asked();
    const int reads = hears->events()["read"];
    rocksdb::ReadOptions uncached;
    uncached.fill_cache = false;
    for (int i = 0; i < 100; ++i) db.get(std::to_string(100 + i), uncached);
    db.note(std::to_string(hears->asked() - asked) + " questions");
    db.note(hears->events()["read"] - reads >= 100 ? "hears" : "hears no more");
    db.note(std::to_string(deaf->events()["read"]) + " for who does not want to hear");
    return db.lines();
  });
}

// Goal: the handles that listeners hear of are the user's, when the user deletes them, and the
//          database's own at its end.
// Method: the names, on both.
// Mutation: telling of the tree's handles, or of those that functions make for themselves, differs.
TEST(FacadeListeners, Handles) {
  class Notes final : public rocksdb::EventListener {
   public:
    void OnColumnFamilyHandleDeletionStarted(rocksdb::ColumnFamilyHandle* handle) override {
      if (db != nullptr) db->note("goes: " + handle->GetName());
    }
    Db* db = nullptr;
  };
  expect_same_notes([](Kind kind, std::uint32_t) {
    const auto notes = std::make_shared<Notes>();
    Given given = usual();
    given.families = {"one", "two"};
    given.db.listeners.push_back(notes);
    Db db(kind, given);
    notes->db = &db;
    EXPECT_TRUE(db.open().ok());
    EXPECT_TRUE(db->Put(kWrite, db.handle("one"), "a", "1").ok());
    std::uint64_t keys = 0;
    EXPECT_TRUE(db->GetAggregatedIntProperty("rocksdb.estimate-num-keys", &keys));
    EXPECT_TRUE(db->DropColumnFamily(db.handle("one")).ok());
    db.note("dropped");
    db.destroy("one");
    db.note("destroyed");
    db.close();
    notes->db = nullptr;
    return db.lines();
  });
}

// Goal: listeners see the database that the user has, also in what happens while it opens.
// Method: a compaction that is due when a Rocks, and a Store, opens.
// Mutation: telling before there is a Rocks shows the tree below, to which nobody may write.
TEST(FacadeListeners, SeeTheDatabase) {
  const auto hears = std::make_shared<Hears>();
  Given given = usual();
  given.family.disable_auto_compactions = true;
  given.family.num_levels = 2;
  Db db(Kind::kBreccia, given);
  ASSERT_TRUE(db.open().ok());
  for (int file = 0; file < 6; ++file) {
    ASSERT_TRUE(db->Put(kWrite, "a", "1").ok());
    ASSERT_TRUE(db->Flush({}).ok());
  }
  db.close();
  db.given().family.disable_auto_compactions = false;
  db.given().family.level0_file_num_compaction_trigger = 2;
  db.given().db.listeners.push_back(hears);
  ASSERT_TRUE(db.open().ok());
  EXPECT_TRUE(hears->hears("compaction"));
  EXPECT_EQ(hears->databases(), (std::set<rocksdb::DB*>{db.get()}));
}

}  // namespace breccia::testing
