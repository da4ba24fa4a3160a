#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "pmem/file_region.h"
#include "pmem/lines.h"
#include "recorded_calls.h"
#include "records.h"
#include "support/folder.h"
#include "wal/log.h"
#include "wal/real_files.h"

namespace breccia::wal {
namespace {

using breccia::testing::Folder;
using breccia::testing::Place;
using breccia::testing::RecordedCalls;

using Strings = std::vector<std::string>;

/// Makes libpmem2 take any file for persistent memory while it lives.
class ForcedDax {
 public:
  ForcedDax() { ::setenv("PMEM2_FORCE_GRANULARITY", "CACHE_LINE", /*overwrite=*/1); }
  ~ForcedDax() { ::unsetenv("PMEM2_FORCE_GRANULARITY"); }
  ForcedDax(const ForcedDax&) = delete;
  ForcedDax& operator=(const ForcedDax&) = delete;
};

/// A log whose calls are watched.
class WatchedLog {
 public:
  /// `prepare_ahead`: a thread of the log's own may be between a change and its sync at any time.
  WatchedLog(const std::string& folder, std::shared_ptr<Files> files, std::size_t prepare_ahead) {
    options_.dir = folder + "/deep/down/log";
    options_.files = std::move(files);
    options_.roll_bytes = 4 << 20;
    options_.preallocate_bytes = limits::kLogWindowBytes;
    options_.prepare_ahead = prepare_ahead;
  }
  void open() {
    log_.reset();
    testing::Replayed replayed;
    auto opened = Log::open(options_, from_, replayed.sink(), &replayed.recovery);
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    log_ = opened.take();
  }
  [[nodiscard]] Frame put(std::uint64_t value_bytes) {
    return testing::put_frame(log_.get(), testing::large_record(value_bytes, 'v'), false).take();
  }
  void release() {
    from_ = log_->end();
    ASSERT_TRUE(log_->release_below(from_).ok());
  }
  [[nodiscard]] Log& log() { return *log_; }

 private:
  LogOptions options_;
  std::uint64_t from_ = 0;
  std::unique_ptr<Log> log_;
};

}  // namespace

// Goal: when a synced commit is acknowledged, the system was asked to sync all that it stands on:
// bytes, names and folders; and no file gets its name before its bytes are synced.
// Method: small frames and some of several rounds of a ring, over new and recycled segments and
// reopenings, by both ways of writing.
// Mutation: deleting fdatasync, or the fsync of a folder, from the real files fails.
TEST(WalSyncRules, AcknowledgedMeansSynced) {
  for (const Engine engine : {Engine::kPwrite, Engine::kRing}) {
    const Folder folder(Place::kMemory);
    const RecordedCalls calls(folder.path());
    WatchedLog watched(folder.path(), real_files_with(engine, /*force_buffered=*/true),
                       /*prepare_ahead=*/0);
    for (int life = 0; life < 3; ++life) {
      watched.open();
      for (const std::uint64_t bytes : {100, 3 << 20, 200, 3 << 20, 40 << 20, 300}) {
        (void)watched.put(bytes);
        ASSERT_TRUE(watched.log().commit(watched.log().end(), /*sync=*/bytes != 200).ok());
        if (bytes != 200) {
          EXPECT_EQ(calls.unsynced(), Strings()) << bytes;
        }
        if (bytes == 300) watched.release();
      }
    }
    EXPECT_EQ(calls.faults(), Strings());
  }
}

// Goal: segments that the log's own thread makes get their names after their bytes are synced, too,
// and all is synced when the log is closed.
// Method: rolls with segments prepared ahead.
// Mutation: a prepared segment whose header is not synced before its rename fails.
TEST(WalSyncRules, PreparedSegmentsAreSynced) {
  const Folder folder(Place::kMemory);
  const RecordedCalls calls(folder.path());
  {
    WatchedLog watched(folder.path(), real_files_with(Engine::kPwrite, /*force_buffered=*/true),
                       /*prepare_ahead=*/1);
    watched.open();
    for (int frame = 0; frame < 6; ++frame) {
      (void)watched.put(3 << 20);
      ASSERT_TRUE(watched.log().commit(watched.log().end(), /*sync=*/true).ok());
    }
  }
  EXPECT_EQ(calls.unsynced(), Strings());
  EXPECT_EQ(calls.faults(), Strings());
}

// Goal: what was written and not synced when a process ended is synced by the next one's opening.
// Method: unsynced frames in two segments, then an opening.
// Mutation: settle() without its writes or syncs leaves bytes.
TEST(WalSyncRules, OpeningSyncsWhatWasLeft) {
  const Folder folder(Place::kMemory);
  const RecordedCalls calls(folder.path());
  WatchedLog watched(folder.path(), real_files_with(Engine::kPwrite, /*force_buffered=*/true),
                     /*prepare_ahead=*/0);
  watched.open();
  for (int frame = 0; frame < 3; ++frame) (void)watched.put(3 << 20);
  ASSERT_TRUE(watched.log().commit(watched.log().end(), /*sync=*/false).ok());
  EXPECT_NE(calls.unsynced(), Strings());
  watched.open();
  EXPECT_EQ(calls.unsynced(), Strings());
}

// Goal: a synced commit does not sync what lies in SST files by now, though it stays in the table;
// when somebody wants it kept, it is synced before its segment is.
// Method: unsynced frames in three segments, released but needed; a synced commit; then a hold.
// Mutation: syncs that begin at what is synced leave nothing; releases that keep what was left out
// leave two files unsynced for good.
TEST(WalSyncRules, FlushedIsLeftOut) {
  for (const Engine engine : {Engine::kPwrite, Engine::kRing}) {
    const Folder folder(Place::kMemory);
    const RecordedCalls calls(folder.path());
    WatchedLog watched(folder.path(), real_files_with(engine, /*force_buffered=*/true),
                       /*prepare_ahead=*/0);
    watched.open();
    Log& log = watched.log();
    const std::uint64_t oldest = log.oldest();
    for (int frame = 0; frame < 3; ++frame) {
      (void)watched.put(5 << 20);
      ASSERT_TRUE(log.commit(log.end(), /*sync=*/false).ok());
    }
    ASSERT_TRUE(log.release_below(log.end(), /*needed_from=*/oldest).ok());
    (void)watched.put(100);
    ASSERT_TRUE(log.commit(log.end(), /*sync=*/true).ok());
    EXPECT_EQ(log.synced(), log.end());
    EXPECT_EQ(calls.unsynced().size(), 2U);  // the third got its closing frame since
    log.add_hold(oldest, ~std::uint64_t{0});
    ASSERT_TRUE(log.release_below(log.end()).ok());
    EXPECT_EQ(log.table()->segments().front()->base, limits::kLogWindowBytes);
    ASSERT_TRUE(log.commit(log.end(), /*sync=*/true).ok());
    EXPECT_EQ(calls.unsynced(), Strings());
    ASSERT_TRUE(log.release_below(log.end()).ok());
    EXPECT_EQ(log.table()->segments().size(), 1U);
    EXPECT_EQ(log.oldest(), oldest);
    EXPECT_EQ(calls.faults(), Strings());
  }
}

// Goal: on persistent memory a synced commit has flushed its frame's lines, and the file's length
// was synced before the file got its name.
// Method: frames in a log on a medium that libpmem2 was told to take for persistent memory.
// Mutation: a sync without the flush, or a file created without its fsync, fails.
TEST(WalSyncRules, DaxCommitsAreFlushed) {
  const ForcedDax forced;
  const Folder folder(Place::kDisk);
  if (medium_of(folder.path()) != Medium::kDax) GTEST_SKIP();
  RecordedCalls calls(folder.path());
  WatchedLog watched(folder.path(), real_files(), /*prepare_ahead=*/0);
  watched.open();
  for (const std::uint64_t bytes : {100, 5000, 3 << 20, 2 << 20}) {
    calls.forget_flushes();
    const Frame frame = watched.put(bytes);
    EXPECT_FALSE(calls.flushed(frame.at, frame.layout().end));
    ASSERT_TRUE(watched.log().commit(watched.log().end(), /*sync=*/true).ok());
    EXPECT_TRUE(calls.flushed(frame.at, frame.layout().end));
    EXPECT_EQ(calls.unsynced(), Strings());
  }
  EXPECT_EQ(calls.faults(), Strings());
}

// Goal: a persist of a file region that was acknowledged left nothing unsynced, checkpoints and the
// region's creation included; nor did an opening after one that ended before it synced the name.
// Method: persists over a redo log of few blocks; a region renamed behind the watcher's back.
// Mutation: deleting fdatasync from the disk's files, or the folder's fsync, fails.
TEST(PmemSyncRules, FilePersistMeansSynced) {
  const Folder folder(Place::kMemory);
  const RecordedCalls calls(folder.path());
  const std::string path = folder / "region";
  const pmem::FileRegionOptions options{2 * pmem::kPageBytes};
  for (int life = 0; life < 2; ++life) {
    auto region = pmem::open_file_region_on(pmem::real_disk(), path, 64 << 10, options);
    ASSERT_TRUE(region.ok()) << region.status().ToString();
    EXPECT_EQ(calls.unsynced(), Strings());
    for (int value = 1; value < 12; ++value) {
      std::memset(region.value()->data() + 700 * value, value, 500);
      ASSERT_TRUE(region.value()->persist(0, 64 << 10).ok());
      EXPECT_EQ(calls.unsynced(), Strings()) << value;
    }
  }
  EXPECT_EQ(calls.faults(), Strings());
  ASSERT_EQ(std::rename(path.c_str(), (path + "2").c_str()), 0);
  ASSERT_EQ(std::rename((path + ".redo").c_str(), (path + "2.redo").c_str()), 0);
  EXPECT_EQ(calls.unsynced().size(), 2U);
  ASSERT_TRUE(pmem::open_file_region_on(pmem::real_disk(), path + "2", 0, options).ok());
  EXPECT_EQ(calls.unsynced(), Strings());
}

// Goal: the same of a region on persistent memory.
// Method: created, persisted, renamed, opened.
// Mutation: deleting its fsync, the folder's, or the flush fails.
TEST(PmemSyncRules, DaxPersistMeansFlushed) {
  const ForcedDax forced;
  const Folder folder(Place::kDisk);
  if (!pmem::supports_dax(folder.path())) GTEST_SKIP();
  RecordedCalls calls(folder.path());
  const std::string path = folder / "region";
  {
    auto region = pmem::open_dax_region(path, 64 << 10);
    ASSERT_TRUE(region.ok()) << region.status().ToString();
    EXPECT_EQ(calls.unsynced(), Strings());
    EXPECT_EQ(calls.faults(), Strings());
    std::byte* const at = region.value()->data() + 5000;
    *at = std::byte{1};
    EXPECT_FALSE(calls.flushed(at, 100));
    ASSERT_TRUE(region.value()->persist(5000, 100).ok());
    EXPECT_TRUE(calls.flushed(at, 100));
  }
  ASSERT_EQ(std::rename(path.c_str(), (path + "2").c_str()), 0);
  EXPECT_EQ(calls.unsynced().size(), 1U);
  ASSERT_TRUE(pmem::open_dax_region(path + "2", 0).ok());
  EXPECT_EQ(calls.unsynced(), Strings());
}

}  // namespace breccia::wal
