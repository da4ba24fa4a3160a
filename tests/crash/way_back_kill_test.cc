#include <breccia/rocks.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

#include "facade/db/options.h"
#include "kill_process.h"
#include "support/folder.h"
#include "support/seeds.h"
#include "support/sparse_files.h"

/// A database that goes there and back, store and RocksDB's own, by processes that are killed.

namespace breccia::crash {

namespace {

constexpr std::uint32_t kKeys = 160;
constexpr std::uint32_t kStepsMax = 48;

/// Of four keys three are deleted by single deletions, and so put once at a time.
bool is_single(std::uint32_t key) { return key % 4 != 3; }
std::string key_text(std::uint32_t key) { return fmt::format("key{:03}", key); }

/// What each key holds: a number, or 0 for nothing.
using Values = std::array<std::uint64_t, kKeys>;

struct Step {
  enum class Kind : std::uint32_t { kPut, kDelete, kSingleDelete, kDeleteRange };
  Kind kind;
  std::uint32_t key;
  std::uint32_t end;  // of a range
};

/// A batch: its puts write number, number + 1, ...
struct Steps {
  std::uint64_t number;
  std::uint32_t count;
  Step step[kStepsMax];

  void apply(Values* values) const {
    for (std::uint32_t i = 0; i < count; ++i) {
      const Step& one = step[i];
      (*values)[one.key] = one.kind == Step::Kind::kPut ? number + i : 0;
      if (one.kind != Step::Kind::kDeleteRange) continue;
      for (std::uint32_t key = one.key; key < one.end; ++key) (*values)[key] = 0;
    }
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
  std::atomic<bool> is_made;
  std::atomic<bool> is_detaching;          // a Detach that was killed must be done again
  std::atomic<std::uint64_t> verified[2];  // by RocksDB, by breccia
  std::atomic<std::uint64_t> batches[2];
  std::atomic<std::uint64_t> compactions[2];
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

class Child {
 public:
  Child(const std::string& folder, std::uint64_t seed)
      : path_(folder + "/db"), random_(seed), shared_(map_shared(folder + "/shared")) {}

  void run() {
    Status status = go_on_with(!shared_->is_made || random_.one_in(2));
    shared_->phase = status.ok() ? Phase::kLoading : Phase::kFailed;
    while (status.ok()) status = act();
    std::strncpy(
        shared_->error,
        (in_store_ ? "breccia: " + status.ToString() : "RocksDB: " + status.ToString()).c_str(),
        sizeof shared_->error - 1);
    shared_->phase = Phase::kFailed;
  }

 private:
  /// Closes the database and opens it as a store, or as RocksDB's own.
  Status go_on_with(bool store) {
    if (db_ != nullptr) BRECCIA_TRY(db_->Close());
    db_.reset();
    in_store_ = store;
    rocksdb::Options given;
    given.create_if_missing = true;
    given.info_log_level = rocksdb::InfoLogLevel::FATAL_LEVEL;
    given.compression = rocksdb::kNoCompression;
    given.max_file_opening_threads = 1;
    given.level0_file_num_compaction_trigger = 3;
    given.write_buffer_size = 1 << 20;
    given.allow_fallocate = false;
    const facade::Descriptors families{{rocksdb::kDefaultColumnFamilyName, given}};
    Options options = facade::engine_options(given, path_, families);
    options.backend = BackendChoice::kHost;
    options.flush_threads = 1;
    options.rocksdb.env = testing::sparse_env();
    options.memtable_bytes = 1 << 20;
    options.device_requests_min = random_.one_in(2) ? 1 : 0;
    options.flush_at_close = random_.one_in(2);
    rocksdb::DB* db = nullptr;
    if (!store || shared_->is_detaching) {
      shared_->is_detaching = true;
      BRECCIA_TRY(Rocks::Detach(options, path_, families));
      shared_->is_detaching = false;
    }
    BRECCIA_TRY(store ? Rocks::Open(options, path_, &db) : rocksdb::DB::Open(given, path_, &db));
    db_.reset(db);
    shared_->is_made = true;
    return verify();
  }

  Status verify() {
    if (shared_->pending == Pending::kAcked) shared_->settle();
    Values found{};
    for (std::uint32_t key = 0; key < kKeys; ++key) {
      std::string value;
      const Status status = db_->Get({}, key_text(key), &value);
      if (!status.ok() && !status.IsNotFound()) return status;
      if (status.ok()) found[key] = std::stoull(value);
    }
    Values with_pending = shared_->values;
    if (shared_->pending == Pending::kSubmitted) shared_->steps.apply(&with_pending);
    if (found != shared_->values && found != with_pending) return difference(found, with_pending);
    if (found == with_pending && shared_->pending == Pending::kSubmitted) shared_->settle();
    shared_->pending = Pending::kNone;
    ++shared_->verified[in_store_];
    return Status::OK();
  }

  Status difference(const Values& found, const Values& with_pending) const {
    std::string text;
    for (std::uint32_t key = 0; key < kKeys; ++key) {
      if (found[key] == shared_->values[key] && found[key] == with_pending[key]) continue;
      text += fmt::format(" {}: {}, acknowledged {}, pending {};", key_text(key), found[key],
                          shared_->values[key], with_pending[key]);
    }
    return Status::Corruption(text);
  }

  Status act() {
    const std::uint64_t what = random_.below(64);
    if (what == 0) return go_on_with(!in_store_);
    if (what < 8) return db_->Flush({});
    if (what < 10) return compact();
    return write();
  }

  Status compact() {
    ++shared_->compactions[in_store_];
    if (random_.one_in(2)) {
      BRECCIA_TRY(db_->CompactRange({}, nullptr, nullptr));
    } else {
      const std::string begin = key_text(static_cast<std::uint32_t>(random_.below(kKeys)));
      const rocksdb::Slice from(begin);
      BRECCIA_TRY(db_->CompactRange({}, &from, nullptr));
    }
    return verify();
  }

  Status write() {
    Steps& steps = shared_->steps;
    steps.number += kStepsMax;
    const std::uint64_t shape = random_.below(4);
    steps.count = static_cast<std::uint32_t>(1 + random_.below(shape == 0 ? kStepsMax : 4));
    Values values = shared_->values;
    rocksdb::WriteBatch batch;
    for (std::uint32_t i = 0; i < steps.count; ++i) {
      const Step step = draw(values);
      steps.step[i] = step;
      BRECCIA_TRY(add(step, steps.number + i, &batch));
      Steps{steps.number + i, 1, {step}}.apply(&values);
    }
    shared_->pending = Pending::kSubmitted;
    BRECCIA_TRY(db_->Write({}, &batch));
    shared_->settle();
    ++shared_->batches[in_store_];
    return Status::OK();
  }

  /// A step that RocksDB's contract allows.
  Step draw(const Values& values) {
    using Kind = Step::Kind;
    const auto key = static_cast<std::uint32_t>(random_.below(kKeys));
    if (random_.one_in(100)) {
      const auto end = std::min(kKeys, key + 1 + static_cast<std::uint32_t>(random_.below(8)));
      return {Kind::kDeleteRange, key, end};
    }
    if (!is_single(key)) return {random_.one_in(3) ? Kind::kDelete : Kind::kPut, key, 0};
    const bool puts = values[key] == 0 && !random_.one_in(8);
    return {puts ? Kind::kPut : Kind::kSingleDelete, key, 0};
  }

  static Status add(const Step& step, std::uint64_t value, rocksdb::WriteBatch* batch) {
    const std::string key = key_text(step.key);
    switch (step.kind) {
      case Step::Kind::kPut:
        return batch->Put(key, std::to_string(value));
      case Step::Kind::kDelete:
        return batch->Delete(key);
      case Step::Kind::kSingleDelete:
        return batch->SingleDelete(key);
      default:
        return batch->DeleteRange(key, key_text(step.end));
    }
  }

  const std::string path_;
  base::Random random_;
  Shared* const shared_;
  std::unique_ptr<rocksdb::DB> db_;
  bool in_store_ = false;
};

}  // namespace

// Not a test: the process that WayBackKill.EachGoesOnWithTheOthersFiles starts and kills.
TEST(WayBackKill, DISABLED_Child) {
  const char* const folder = std::getenv("BRECCIA_KILL_FOLDER");
  const char* const seed = std::getenv("BRECCIA_KILL_SEED");
  if (folder == nullptr || seed == nullptr) GTEST_SKIP();
  Child(folder, std::strtoull(seed, nullptr, 10)).run();
}

// Goal: a database that is a store at times and RocksDB's own at others holds what was written,
//   whoever flushed and compacted it, and whenever a process was killed.
// Method: processes that put, delete by single deletions, deletions and ranges, flush, compact, and
//   go from one to the other by Detach, are killed; their successors, either kind, compare.
// Mutation: a flush that keeps only the newest version of a key brings deleted values back; one
//   that writes a deletion for a single deletion ends RocksDB's compactions.
TEST(WayBackKill, EachGoesOnWithTheOthersFiles) {
  constexpr int kRounds = 40;
  std::uint64_t verified[2] = {};
  std::uint64_t batches[2] = {};
  std::uint64_t compactions[2] = {};
  std::uint64_t rounds = 0;
  for (const std::uint64_t seed : testing::seeds_to_run(8)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const testing::Folder folder(testing::Place::kMemory);
    Shared* const shared = map_shared(folder / "shared");
    const auto spawn = [&] {
      return spawn_self("WayBackKill.DISABLED_Child",
                        {"BRECCIA_KILL_FOLDER=" + folder.path(),
                         "BRECCIA_KILL_SEED=" + std::to_string(random.next())});
    };
    for (int round = 0; round < kRounds; ++round) {
      shared->phase = Phase::kOpening;
      const std::string ended = spawn_and_kill(
          spawn, [&] { return shared->phase == Phase::kOpening; }, &random);
      ASSERT_NE(shared->phase, Phase::kFailed) << "round " << round << ": " << shared->error;
      ASSERT_EQ(ended, "") << "round " << round;
      ++rounds;
    }
    for (int kind = 0; kind < 2; ++kind) {
      verified[kind] += shared->verified[kind];
      batches[kind] += shared->batches[kind];
      compactions[kind] += shared->compactions[kind];
    }
    ::munmap(shared, sizeof *shared);
  }
  std::printf(
      "%lu kills; RocksDB, breccia: %lu, %lu times verified, %lu, %lu batches, %lu, %lu "
      "compactions\n",
      rounds, verified[0], verified[1], batches[0], batches[1], compactions[0], compactions[1]);
  EXPECT_GE(verified[0] + verified[1], rounds / 2);
  // In few rounds one kind may have had little time.
  for (int kind = 0; rounds >= 200 && kind < 2; ++kind) {
    EXPECT_GE(verified[kind], rounds / 4);
    EXPECT_GE(batches[kind], rounds);
  }
}

}  // namespace breccia::crash
