#include <breccia/compaction.h>
#include <execinfo.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <xxhash.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <thread>

#include "base/random.h"
#include "device/lost_device.h"
#include "support/folder.h"

namespace breccia {
namespace {

using testing::Folder;
using testing::Place;

/// Ends the process that a death test runs in, with what is wrong.
void demand(bool is_right, const std::string& what) {
  if (is_right) return;
  std::cerr << what << std::endl;
  std::_Exit(1);
}
void demand(const Status& status) { demand(status.ok(), status.ToString()); }

/// Says where each thread of this process is and ends it, if it is there so many seconds later.
class Watchdog {
 public:
  explicit Watchdog(int seconds) {
    ::signal(SIGUSR1, [](int) {
      std::array<void*, 64> frames{};
      const int count = ::backtrace(frames.data(), frames.size());
      ::backtrace_symbols_fd(frames.data(), count, STDERR_FILENO);
      (void)!::write(STDERR_FILENO, "--\n", 3);
    });
    std::array<void*, 1> frame{};
    (void)::backtrace(frame.data(), 1);  // it is loaded now, not in a handler
    std::thread([seconds] {
      std::this_thread::sleep_for(std::chrono::seconds(seconds));
      for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
        const int id = std::stoi(task.path().filename().string());
        (void)::syscall(SYS_tgkill, ::getpid(), id, SIGUSR1);
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
      std::_Exit(2);
    }).detach();
  }
};

/// Overlapping files of about 20 MiB each.
void fill(rocksdb::DB* db, int files) {
  base::Random random(1);
  std::string value(100, '\0');
  rocksdb::WriteOptions unlogged;
  unlogged.disableWAL = true;
  for (int file = 0; file < files; ++file) {
    for (int i = 0; i < 160'000; ++i) {
      value.replace(0, 20, fmt::format("{:020}", random.next()));
      demand(db->Put(unlogged, fmt::format("{:016}", random.below(300'000)), value));
    }
    demand(db->Flush({}));
  }
}

std::uint64_t hash_of(rocksdb::DB* db) {
  std::uint64_t hash = 0;
  const std::unique_ptr<rocksdb::Iterator> at(db->NewIterator({}));
  for (at->SeekToFirst(); at->Valid(); at->Next()) {
    hash = XXH3_64bits_withSeed(at->key().data(), at->key().size(), hash);
    hash = XXH3_64bits_withSeed(at->value().data(), at->value().size(), hash);
  }
  demand(at->status());
  return hash;
}

/// Compacts with a GPU that is lost so many milliseconds behind the begin, and once more without.
void lose_in_a_job(int milliseconds) {
  const Watchdog watchdog(/*seconds=*/25);
  const Folder folder(Place::kMemory);
  rocksdb::Options options;
  options.create_if_missing = true;
  options.allow_fallocate = false;
  options.compression = rocksdb::kNoCompression;
  options.disable_auto_compactions = true;
  options.write_buffer_size = 256 << 20;
  options.compaction_service = NewCompactionService(
      &options, {.backend = BackendChoice::kCuda, .bytes_min = 0, .device_bytes_min = 1});
  rocksdb::DB* opened = nullptr;
  demand(rocksdb::DB::Open(options, folder / "db", &opened));
  const std::unique_ptr<rocksdb::DB> db(opened);
  rocksdb::CompactRangeOptions all;
  all.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
  fill(db.get(), 2);
  demand(db->CompactRange(all, nullptr, nullptr));
  std::string report = CompactionServiceReport(*options.compaction_service);
  demand(report.find("jobs by device: 1\n") != std::string::npos, "no job was its: " + report);
  fill(db.get(), 4);
  const std::uint64_t before = hash_of(db.get());
  std::thread loss([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    testing::lose_device();
  });
  const Status compacted = db->CompactRange(all, nullptr, nullptr);
  loss.join();
  demand(compacted);
  demand(hash_of(db.get()) == before, "entries were lost");
  fill(db.get(), 1);
  const std::uint64_t later = hash_of(db.get());
  demand(db->CompactRange(all, nullptr, nullptr));
  demand(hash_of(db.get()) == later, "entries were lost behind the loss");
  demand(db->VerifyChecksum());
  report = CompactionServiceReport(*options.compaction_service);
  demand(report.find("left to RocksDB") != std::string::npos, "nothing was left: " + report);
  std::cerr << report << std::endl;
  std::_Exit(0);
}

// Goal: a GPU that is lost while it compacts costs nothing: RocksDB does the job, and all later.
// Method: a kernel of the same process that traps, milliseconds behind a job's begin; each time in
//         a process of its own, as nothing brings the GPU back. What databases hold is compared.
// Mutation: an error of the device that fails the compaction; files of half a job that are kept.
TEST(CompactionLossDeathTest, TheJobIsDoneAllTheSame) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const int milliseconds : {0, 5, 15, 40}) {
    SCOPED_TRACE(milliseconds);
    EXPECT_EXIT(lose_in_a_job(milliseconds), ::testing::ExitedWithCode(0), "left to RocksDB");
  }
}

}  // namespace
}  // namespace breccia
