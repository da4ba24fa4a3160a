#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "compaction/backend.h"
#include "compaction/service.h"
#include "exec/device.h"
#include "kill_process.h"
#include "support/folder.h"
#include "support/seeds.h"

/// A stock RocksDB database with the compaction service, by processes that are killed.

namespace breccia::crash {

namespace {

constexpr std::uint32_t kKeys = 1500;
constexpr std::uint32_t kStepsMax = 16;

std::string key_text(std::uint32_t key) { return fmt::format("key{:05}", key); }

/// What each key holds: a number, or 0 for nothing.
using Values = std::array<std::uint64_t, kKeys>;

/// As long as its number says, and not easily compressed.
std::string value_text(std::uint64_t number) {
  std::string text = std::to_string(number) + ' ';
  base::Random random(number);
  const std::uint64_t bytes = random.below(500);
  while (text.size() < bytes) text += std::to_string(random.next());
  return text;
}

/// A batch; 0 deletes.
struct Steps {
  std::uint32_t count;
  std::uint32_t key[kStepsMax];
  std::uint64_t value[kStepsMax];

  void apply(Values* values) const {
    for (std::uint32_t i = 0; i < count; ++i) (*values)[key[i]] = value[i];
  }
};

/// What the parent and each child share.
struct Shared {
  enum class Phase : std::uint32_t { kOpening, kLoading, kFailed };
  enum class Pending : std::uint32_t { kNone, kSubmitted, kAcked };
  std::atomic<Phase> phase;
  std::atomic<Pending> pending;
  Steps steps;    // the pending batch
  Values values;  // of all before it
  std::uint64_t last_number;
  std::atomic<std::uint64_t> batches;
  std::atomic<std::uint64_t> verified[2];  // without, with the service
  std::atomic<std::uint64_t> jobs;         // done by the service
  std::atomic<std::uint64_t> cleared;      // leftovers of dead processes seen to go
  char error[500];

  // What is applied twice, as the process may end in between, is as if applied once.
  void settle() {
    pending = Pending::kAcked;
    steps.apply(&values);
    pending = Pending::kNone;
  }
};
using Phase = Shared::Phase;
using Pending = Shared::Pending;

Shared* map_shared(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  BRECCIA_ASSERT(fd >= 0 && ::ftruncate(fd, sizeof(Shared)) == 0);
  void* const at = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  BRECCIA_ASSERT(at != MAP_FAILED);
  ::close(fd);
  return static_cast<Shared*>(at);
}

/// A service on the host that does each job that it may.
std::shared_ptr<compaction::Service> add_service(rocksdb::Options* options) {
  auto backend = compaction::make_backend(exec::open_device(exec::DeviceKind::kHost, 0).take(),
                                          {.name = "compaction"});
  BRECCIA_ASSERT(backend.ok());
  compaction::ServiceOptions how;
  how.decision.device_bytes_min = 1;
  compaction::Engine engine;
  engine.has_device = [] { return true; };
  engine.merge = [backend = backend.take()](const compaction::MergeJob& job, compaction::Place,
                                            compaction::Merged* merged) {
    return compaction::merge(job, *backend, merged);
  };
  auto service = std::make_shared<compaction::Service>(how, std::move(engine));
  options->compaction_service = service;
  options->listeners.push_back(std::make_shared<compaction::ServiceListener>(service));
  return service;
}

/// Small files, so that compactions run all the time.
rocksdb::Options small_files() {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.info_log_level = rocksdb::InfoLogLevel::FATAL_LEVEL;
  options.compression = rocksdb::kNoCompression;
  options.max_file_opening_threads = 1;
  options.write_buffer_size = 64 << 10;
  options.target_file_size_base = 32 << 10;
  options.max_bytes_for_level_base = 64 << 10;
  options.max_bytes_for_level_multiplier = 3;
  options.level0_file_num_compaction_trigger = 2;
  options.max_background_jobs = 4;
  options.max_subcompactions = 2;
  return options;
}

/// Folders of jobs in the service's folder: <session>/<number>.
std::vector<std::string> leftovers(const std::string& database) {
  std::vector<std::string> folders;
  std::error_code error;
  std::filesystem::recursive_directory_iterator at(database + "/breccia-compaction", error);
  for (; !error && at != std::filesystem::recursive_directory_iterator(); at.increment(error)) {
    if (at.depth() == 1) folders.push_back(at->path().string());
  }
  return folders;
}

/// Why the database is not what was acknowledged, or empty. The pending batch may be there or not;
/// then it is settled.
std::string compare(rocksdb::DB* db, Shared* shared) {
  if (shared->pending == Pending::kAcked) shared->settle();
  Values found{};
  std::string last;
  const std::unique_ptr<rocksdb::Iterator> at(db->NewIterator({}));
  for (at->SeekToFirst(); at->Valid(); at->Next()) {
    const std::string key = at->key().ToString();
    const std::uint64_t index = std::strtoull(key.c_str() + 3, nullptr, 10);
    if (index >= kKeys || key != key_text(static_cast<std::uint32_t>(index))) return key;
    const std::uint64_t number = std::strtoull(at->value().ToString().c_str(), nullptr, 10);
    if (at->value() != value_text(number)) return key + " has a broken value";
    if (key <= last) return key + " comes behind " + last;
    found[index] = number;
    last = key;
  }
  if (!at->status().ok()) return at->status().ToString();
  Values with_pending = shared->values;
  if (shared->pending == Pending::kSubmitted) shared->steps.apply(&with_pending);
  if (found == with_pending && shared->pending == Pending::kSubmitted) shared->settle();
  shared->pending = Pending::kNone;
  for (std::uint32_t key = 0; found != shared->values && key < kKeys; ++key) {
    if (found[key] == shared->values[key]) continue;
    return fmt::format("{}: {}, acknowledged {}, pending {}", key_text(key), found[key],
                       shared->values[key], with_pending[key]);
  }
  return "";
}

class Child {
 public:
  Child(const std::string& folder, std::uint64_t seed, bool has_service)
      : path_(folder + "/db"),
        random_(seed),
        has_service_(has_service),
        shared_(map_shared(folder + "/shared")) {}

  void run() {
    std::string error = open();
    shared_->phase = error.empty() ? Phase::kLoading : Phase::kFailed;
    while (error.empty()) error = act();
    std::strncpy(shared_->error, error.c_str(), sizeof shared_->error - 1);
    shared_->phase = Phase::kFailed;
  }

 private:
  std::string open() {
    rocksdb::Options options = small_files();
    old_ = leftovers(path_);
    if (has_service_) service_ = add_service(&options);
    rocksdb::DB* db = nullptr;
    const Status status = rocksdb::DB::Open(options, path_, &db);
    if (!status.ok()) return status.ToString();
    db_.reset(db);
    const std::string difference = compare(db, shared_);
    if (difference.empty()) ++shared_->verified[has_service_];
    return difference;
  }

  std::string act() {
    if (random_.one_in(2000)) {
      const Status status = db_->CompactRange({}, nullptr, nullptr);
      return status.ok() ? "" : status.ToString();
    }
    const std::string error = write();
    if (!error.empty() || !has_service_ || !random_.one_in(8)) return error;
    return look_at_service();
  }

  std::string write() {
    Steps& steps = shared_->steps;
    rocksdb::WriteBatch batch;
    steps.count = static_cast<std::uint32_t>(1 + random_.below(kStepsMax));
    for (std::uint32_t i = 0; i < steps.count; ++i) {
      const auto key = static_cast<std::uint32_t>(random_.below(kKeys));
      const std::uint64_t number = random_.one_in(4) ? 0 : ++shared_->last_number;
      steps.key[i] = key;
      steps.value[i] = number;
      const Status status =
          number == 0 ? batch.Delete(key_text(key)) : batch.Put(key_text(key), value_text(number));
      if (!status.ok()) return status.ToString();
    }
    rocksdb::WriteOptions how;
    how.sync = true;
    shared_->pending = Pending::kSubmitted;
    const Status status = db_->Write(how, &batch);
    if (!status.ok()) return status.ToString();
    shared_->settle();
    ++shared_->batches;
    return "";
  }

  /// Nothing was left to RocksDB but for want of room, and old folders go with the first job.
  std::string look_at_service() {
    const compaction::Figures figures = service_->figures();
    for (const auto& [why, count] : figures.left) {
      if (why != compaction::decision_reasons::kFull) return why + ' ' + figures.last_error;
    }
    const std::uint64_t done = figures.done[static_cast<std::size_t>(compaction::Place::kDevice)];
    shared_->jobs += done - done_;
    done_ = done;
    if (done == 0) return "";
    for (const std::string& folder : old_) {
      if (std::filesystem::exists(folder)) return folder + " is still there";
    }
    shared_->cleared += old_.size();
    old_.clear();
    return "";
  }

  const std::string path_;
  base::Random random_;
  const bool has_service_;
  Shared* const shared_;
  std::vector<std::string> old_;  // folders of dead processes
  std::shared_ptr<compaction::Service> service_;
  std::uint64_t done_ = 0;
  std::unique_ptr<rocksdb::DB> db_;
};

/// Opens what is left in this process, with and without the service, and lets it compact all.
void look_at_end(const std::string& path, Shared* shared) {
  for (const bool has_service : {true, false}) {
    rocksdb::Options options = small_files();
    std::shared_ptr<compaction::Service> service;
    if (has_service) service = add_service(&options);
    rocksdb::DB* opened = nullptr;
    Status status = rocksdb::DB::Open(options, path, &opened);
    ASSERT_TRUE(status.ok()) << status.ToString();
    const std::unique_ptr<rocksdb::DB> db(opened);
    EXPECT_EQ(compare(db.get(), shared), "");
    rocksdb::CompactRangeOptions how;
    how.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
    status = db->CompactRange(how, nullptr, nullptr);
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(compare(db.get(), shared), "");
    status = db->VerifyChecksum();
    EXPECT_TRUE(status.ok()) << status.ToString();
    status = db->Close();
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_FALSE(std::filesystem::exists(path + "/breccia-compaction"));
  }
}

}  // namespace

// Not a test: the process that CompactionKill.WhatWasAcknowledgedIsThere starts and kills.
TEST(CompactionKill, DISABLED_Child) {
  const char* const folder = std::getenv("BRECCIA_KILL_FOLDER");
  const char* const seed = std::getenv("BRECCIA_KILL_SEED");
  const char* const has_service = std::getenv("BRECCIA_KILL_SERVICE");
  if (folder == nullptr || seed == nullptr || has_service == nullptr) GTEST_SKIP();
  Child(folder, std::strtoull(seed, nullptr, 10), std::strcmp(has_service, "1") == 0).run();
}

// Goal: a database whose compactions the service does is what was acknowledged, nothing more or
//   less, whenever the process is killed, and leftovers in its folder go.
// Method: processes with small files write synced batches and are killed; their successors, with
//   and without the service in turns, compare. The last ones compact everything.
// Mutation: files that are told to RocksDB before they are whole; a folder that is never cleared.
TEST(CompactionKill, WhatWasAcknowledgedIsThere) {
  constexpr int kRounds = 25;
  std::uint64_t rounds = 0;
  std::uint64_t with_leftovers = 0;
  std::uint64_t verified[2] = {};
  std::uint64_t batches = 0;
  std::uint64_t jobs = 0;
  std::uint64_t cleared = 0;
  for (const std::uint64_t seed : testing::seeds_to_run(8)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const testing::Folder folder(testing::Place::kMemory);
    Shared* const shared = map_shared(folder / "shared");
    for (int round = 0; round < kRounds; ++round) {
      const auto spawn = [&] {
        return spawn_self("CompactionKill.DISABLED_Child",
                          {"BRECCIA_KILL_FOLDER=" + folder.path(),
                           "BRECCIA_KILL_SEED=" + std::to_string(random.next()),
                           fmt::format("BRECCIA_KILL_SERVICE={}", (round + 1) % 2)});
      };
      shared->phase = Phase::kOpening;
      const std::string ended = spawn_and_kill(
          spawn, [&] { return shared->phase == Phase::kOpening; }, &random);
      ASSERT_NE(shared->phase, Phase::kFailed) << "round " << round << ": " << shared->error;
      ASSERT_EQ(ended, "") << "round " << round;
      ++rounds;
      with_leftovers += leftovers(folder / "db").empty() ? 0 : 1;
    }
    look_at_end(folder / "db", shared);
    for (int kind = 0; kind < 2; ++kind) verified[kind] += shared->verified[kind];
    batches += shared->batches;
    jobs += shared->jobs;
    cleared += shared->cleared;
    ::munmap(shared, sizeof *shared);
    if (HasFailure()) return;
  }
  std::printf(
      "%lu kills, %lu with leftovers, of which %lu folders were seen to go; without, with the "
      "service %lu, %lu times verified; %lu batches, %lu jobs\n",
      rounds, with_leftovers, cleared, verified[0], verified[1], batches, jobs);
  EXPECT_GE(verified[0] + verified[1], rounds / 2);
  if (rounds < 200) return;
  EXPECT_GT(with_leftovers, 0U);
  EXPECT_GT(cleared, 0U);
  EXPECT_GT(jobs, rounds / 4);  // how many a process has time for is the machine's affair
}

}  // namespace breccia::crash
