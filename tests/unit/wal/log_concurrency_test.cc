#include <atomic>
#include <filesystem>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>

#include "records.h"
#include "wal/log.h"
#include "wal/real_files.h"
#include "wal/sim/sim_files.h"

namespace breccia::wal {
namespace {

using testing::expected;
using testing::put_frame;
using testing::random_records;
using testing::Records;
using testing::Replayed;
using testing::TempDir;

constexpr std::uint64_t kSeed = 21;

/// Writers share a lock for reserve only, as the engine does; the committer waits until all frames
/// below an end are sealed.
struct Shared {
  std::mutex mutex;
  std::vector<Replayed::One> frames;                 // in order of reservation
  std::vector<std::pair<std::uint64_t, bool>> ends;  // end of each, and whether it is sealed
  std::uint64_t committed = 0;
  std::atomic<bool> done{false};

  /// The position up to which everything is sealed.
  std::uint64_t sealed_end() {
    const std::lock_guard lock(mutex);
    std::uint64_t end = 0;
    for (const auto& [frame_end, sealed] : ends) {
      if (!sealed) break;
      end = frame_end;
    }
    return end;
  }
};

void write_frames(Log* log, Shared* shared, std::uint64_t seed, int count) {
  base::Random random(seed);
  for (int index = 0; index < count; ++index) {
    const Records records = random_records(&random, random.below(6));
    Frame frame;
    std::size_t slot = 0;
    {
      const std::lock_guard lock(shared->mutex);
      auto reserved = log->reserve(records.bytes.size(), records.count(), 0);
      ASSERT_TRUE(reserved.ok()) << reserved.status().ToString();
      frame = reserved.take();
      slot = shared->ends.size();
      shared->ends.emplace_back(frame.end(), false);
      shared->frames.push_back(expected(frame, records));
    }
    log->fill(&frame, records.bytes.data());
    log->seal(&frame);
    const std::lock_guard lock(shared->mutex);
    shared->ends[slot].second = true;
  }
}

void commit_frames(Log* log, Shared* shared, std::uint64_t seed) {
  base::Random random(seed);
  while (!shared->done) {
    const std::uint64_t end = shared->sealed_end();
    if (end == 0) continue;
    ASSERT_TRUE(log->commit(end, random.one_in(3)).ok());
    const std::lock_guard lock(shared->mutex);
    shared->committed = end;
  }
}

void release_frames(Log* log, Shared* shared, bool release) {
  while (!shared->done) {
    const SegmentTablePtr table = log->table();
    std::uint64_t committed = 0;
    {
      const std::lock_guard lock(shared->mutex);
      committed = shared->committed;
    }
    for (const SegmentPtr& segment : table->segments()) {
      record::RecordHeader header;
      std::memcpy(&header, segment->file->image(), sizeof header);
      ASSERT_EQ(header.key_bytes_and_op, kSegmentMagic);
    }
    if (release && committed > 0) {
      ASSERT_TRUE(log->release_below(committed).ok());
    }
    std::this_thread::yield();
  }
}

void run(LogOptions options, bool release) {
  options.roll_bytes = 2000;
  options.prepare_ahead = 1;
  Shared shared;
  Replayed replayed;
  auto log = Log::open(options, 0, replayed.sink(), &replayed.recovery).take();
  std::vector<std::thread> writers;
  std::thread committer(commit_frames, log.get(), &shared, kSeed);
  std::thread releaser(release_frames, log.get(), &shared, release);
  for (std::uint64_t index = 0; index < 3; ++index) {
    writers.emplace_back(write_frames, log.get(), &shared, kSeed + index, 150);
  }
  for (std::thread& writer : writers) writer.join();
  shared.done = true;
  committer.join();
  releaser.join();
  ASSERT_TRUE(log->commit(log->end(), true).ok());
  const std::uint64_t begin = release ? log->begin() : 0;
  log.reset();
  replayed = Replayed();
  auto again = Log::open(options, begin, replayed.sink(), &replayed.recovery);
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  std::erase_if(shared.frames,
                [&](const Replayed::One& one) { return one.position + one.bytes.size() <= begin; });
  ASSERT_EQ(replayed.frames, shared.frames);
}

// Goal: writers, a committer, a releaser and the preparing thread never disturb each other.
// Method: three writers, early rolls; the log is read back. Meant for tsan.
// Mutation: reading the chain in commit without the lock is a race that tsan names.
TEST(WalLogConcurrency, KeepsEveryFrame) {
  SCOPED_TRACE("seed=" + std::to_string(kSeed));
  const TempDir dir(std::filesystem::temp_directory_path().string());
  LogOptions options;
  options.dir = dir.path();
  options.files = real_files_with(Engine::kRing, true);
  run(options, /*release=*/false);
}

// Goal: the same with segments going back to the pool and into new use all the time.
// Method: everything committed is released at once.
// Mutation: giving a file to the pool before its last reader is gone is a race that tsan names.
TEST(WalLogConcurrency, KeepsWhatIsNotReleased) {
  SCOPED_TRACE("seed=" + std::to_string(kSeed));
  const TempDir dir(std::filesystem::temp_directory_path().string());
  LogOptions options;
  options.dir = dir.path();
  options.files = real_files_with(Engine::kPwrite, true);
  run(options, /*release=*/true);
}

}  // namespace
}  // namespace breccia::wal
