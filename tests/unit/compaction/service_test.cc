#include "compaction/service.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rocksdb/db.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "compaction/backend.h"
#include "support/compaction_loads.h"

namespace breccia::compaction::conformance {
namespace {

/// A service that takes every job; `then` is called behind each merge.
std::shared_ptr<Service> make_service(std::function<void()> then) {
  ServiceOptions how;
  how.decision.device_bytes_min = 1;
  const auto backend = backend_of_kind(exec::DeviceKind::kHost);
  return std::make_shared<Service>(
      how, Engine{[backend, then = std::move(then)](const MergeJob& job, compaction::Place,
                                                    Merged* merged) {
                    Status status = merge(job, *backend, merged);
                    then();
                    return status;
                  },
                  [] { return true; }});
}

rocksdb::Options options_with(const std::shared_ptr<Service>& service) {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.allow_fallocate = false;
  options.compression = rocksdb::kNoCompression;
  options.compaction_service = service;
  options.listeners.push_back(std::make_shared<ServiceListener>(service));
  return options;
}

std::unique_ptr<rocksdb::DB> open(const rocksdb::Options& options, const std::string& path) {
  rocksdb::DB* opened = nullptr;
  const Status status = rocksdb::DB::Open(options, path, &opened);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return std::unique_ptr<rocksdb::DB>(opened);
}

void put(rocksdb::DB* db, char first, int count) {
  for (int i = 0; i < count; ++i) {
    ASSERT_TRUE(db->Put({}, fmt::format("{}{:09}", first, i), std::string(100, 'v')).ok());
  }
}

/// Waits until that many files are in level 0.
void wait_for_files(rocksdb::DB* db, std::size_t count) {
  std::vector<rocksdb::LiveFileMetaData> files;
  for (int i = 0; i < 3000; ++i) {
    files.clear();
    db->GetLiveFilesMetaData(&files);
    const auto in_level_0 =
        std::count_if(files.begin(), files.end(), [](const auto& file) { return file.level == 0; });
    if (static_cast<std::size_t>(in_level_0) == count) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  FAIL() << files.size() << " files";
}

// Goal: within level 0 a file that is not the oldest keeps its sequence numbers, whatever keys the
//       older ones have.
// Method: universal style in one level, ascending keys, so that a job's inputs overlap with no
//         other file; a snapshot in the middle of them.
// Mutation: bottommost by overlaps: RocksDB finds its files out of order and takes no more writes.
TEST(CompactionService, NewerFilesOfLevel0) {
  const Folder folder(testing::Place::kMemory);
  const auto service = make_service([] {});
  rocksdb::Options options = options_with(service);
  options.compaction_style = rocksdb::kCompactionStyleUniversal;
  options.num_levels = 1;
  options.level0_file_num_compaction_trigger = 3;
  options.compaction_options_universal.max_size_amplification_percent = 1000000;
  const auto db = open(options, folder / "db");
  put(db.get(), 'a', 40'000);
  ASSERT_TRUE(db->Flush({}).ok());
  put(db.get(), 'b', 1000);
  ASSERT_TRUE(db->Flush({}).ok());
  put(db.get(), 'c', 500);
  const rocksdb::Snapshot* const snapshot = db->GetSnapshot();
  put(db.get(), 'd', 500);
  ASSERT_TRUE(db->Flush({}).ok());
  wait_for_files(db.get(), 2);
  const Status status = db->Put({}, "z", "z");
  EXPECT_TRUE(status.ok()) << status.ToString();
  db->ReleaseSnapshot(snapshot);
  EXPECT_EQ(service->figures().files_written, 1U);
}

// Goal: a key of a file that is not read here may have any length.
// Method: a deletion of a key that the bottom has, in a file whose last key is longer than columns
//         of keys can say; then a compaction above it.
// Mutation: columns that take the length for something else, and the deletion for needless.
TEST(CompactionService, LongKeysBelow) {
  const Folder folder(testing::Place::kMemory);
  const auto service = make_service([] {});
  rocksdb::Options options = options_with(service);
  options.num_levels = 4;
  options.disable_auto_compactions = true;
  const auto db = open(options, folder / "db");
  const std::string prefix(8, 'p');
  ASSERT_TRUE(db->Put({}, prefix + "m", "old").ok());
  ASSERT_TRUE(db->Put({}, prefix + std::string(16, 'a'), "1").ok());
  ASSERT_TRUE(db->Put({}, prefix + std::string(8, 'z') + std::string(140'000, 'a'), "1").ok());
  ASSERT_TRUE(db->Flush({}).ok());
  rocksdb::CompactRangeOptions down;
  down.change_level = true;
  down.target_level = 3;
  ASSERT_TRUE(db->CompactRange(down, nullptr, nullptr).ok());
  ASSERT_TRUE(db->Delete({}, prefix + "m").ok());
  for (const char* const value : {"1", "2"}) {
    for (const char* const key : {"b", "y"}) ASSERT_TRUE(db->Put({}, prefix + key, value).ok());
    ASSERT_TRUE(db->Flush({}).ok());
  }
  ASSERT_TRUE(db->SetOptions({{"level0_file_num_compaction_trigger", "2"},
                              {"disable_auto_compactions", "false"}})
                  .ok());
  wait_for_files(db.get(), 0);
  std::string value;
  EXPECT_TRUE(db->Get({}, prefix + "m", &value).IsNotFound()) << value;
}

// Goal: a service that goes takes nothing of another's, which has the database now.
// Method: a database is opened with one service, then with another; the first one goes while the
//         files of the second are not yet RocksDB's.
// Mutation: removing the process's folder: RocksDB does not find its files, and takes no more
//           writes.
TEST(CompactionService, AnotherOneGoes) {
  const Folder folder(testing::Place::kMemory);
  std::shared_ptr<Service> first = make_service([] {});
  const auto compact = [&](const std::shared_ptr<Service>& service) {
    const auto db = open(options_with(service), folder / "db");
    for (int file = 0; file < 2; ++file) {
      put(db.get(), 'a', 1000);
      ASSERT_TRUE(db->Flush({}).ok());
    }
    ASSERT_TRUE(db->CompactRange({}, nullptr, nullptr).ok());
    EXPECT_TRUE(db->Put({}, "z", "z").ok());
    EXPECT_EQ(service->figures().files_written, 1U);
  };
  compact(first);
  compact(make_service([&] { first.reset(); }));
  EXPECT_EQ(first, nullptr);
}

// Goal: jobs of several databases and parts of jobs run beside each other and beside writers.
// Method: two databases with one service, subcompactions, a writer each, small files; each holds
//         what was written at the end.
// Mutation: state that jobs share without a lock is found by the thread sanitizer.
TEST(CompactionService, ConcurrentJobs) {
  const Folder folder(testing::Place::kMemory);
  const auto service = make_service([] {});
  rocksdb::Options options = options_with(service);
  options.write_buffer_size = 64 << 10;
  options.target_file_size_base = 64 << 10;
  options.max_bytes_for_level_base = 256 << 10;
  options.level0_file_num_compaction_trigger = 2;
  options.max_background_jobs = 4;
  options.max_subcompactions = 3;
  static constexpr int kKeys = 3000;
  std::vector<std::thread> writers;
  for (const char* const name : {"one", "two"}) {
    writers.emplace_back([&options, path = folder / name] {
      const auto db = open(options, path);
      for (int round = 0; round < 2; ++round) put(db.get(), 'a', kKeys);
      ASSERT_TRUE(db->CompactRange({}, nullptr, nullptr).ok());
      const std::unique_ptr<rocksdb::Iterator> at(db->NewIterator({}));
      int found = 0;
      for (at->SeekToFirst(); at->Valid(); at->Next()) ++found;
      EXPECT_EQ(found, kKeys);
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_GT(service->figures().files_written, 2U);
}

}  // namespace
}  // namespace breccia::compaction::conformance
