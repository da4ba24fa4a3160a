#include "wal/read/changes.h"

#include <breccia/merge_operators.h>
#include <breccia/options.h>
#include <breccia/store.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "base/random.h"
#include "ordered/engine.h"
#include "support/folder.h"
#include "support/seeds.h"
#include "support/sparse_files.h"

namespace breccia::ordered {
namespace {

using Kind = Change::Kind;

/// A write as text: kind, family, key, value.
std::string shown(Kind kind, FamilyId family, const std::string& key, const std::string& value) {
  return std::to_string(static_cast<int>(kind)) + "/" + std::to_string(family) + "/" + key + "=" +
         value;
}

std::vector<std::string> shown(const ChangeStream& stream) {
  std::vector<std::string> lines;
  for (const Change& one : stream.changes()) {
    lines.push_back(shown(one.kind, one.family, one.key.ToString(), one.value.ToString()));
  }
  return lines;
}

class ChangesTest : public ::testing::Test {
 protected:
  void open() {
    engine_.reset();
    options_.create_if_missing = true;
    options_.backend = BackendChoice::kHost;
    options_.rocksdb.env = testing::sparse_env();
    options_.memtable_bytes = 4ULL << 30;
    options_.clean_bytes = 0;  // which would hold the log as well
    options_.rocksdb.info_log_level = rocksdb::InfoLogLevel::FATAL_LEVEL;
    options_.rocksdb.merge_operator = NewBytesMaxOperator();
    const Status status = Engine::open(options_, path(), &engine_);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  [[nodiscard]] std::string path() const { return folder_ / "db"; }

  std::unique_ptr<ChangeStream> follow(std::uint64_t from, const ChangesOptions& options) {
    std::unique_ptr<ChangeStream> stream;
    const Status status = engine_->Changes(from, options, &stream);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return stream;
  }
  Status open_status(std::uint64_t from) {
    std::unique_ptr<ChangeStream> stream;
    return engine_->Changes(from, {}, &stream);
  }

  /// About a segment's worth of log.
  void fill_segment() {
    const std::string value(1 << 20, 'v');
    for (int i = 0; i < 66; ++i) ASSERT_TRUE(engine_->Put({}, std::to_string(i), value).ok());
  }

  const testing::Folder folder_{testing::Place::kMemory};
  Options options_;
  std::unique_ptr<Engine> engine_;
};

/// A batch of up to 40 writes of all kinds to the families, and what a stream should say of it.
std::vector<std::string> random_batch(base::Random* random, const std::vector<FamilyId>& families,
                                      Batch* batch) {
  std::vector<std::vector<std::string>> by_family(families.size());
  for (std::uint64_t n = 1 + random->below(40); n > 0; --n) {
    const std::uint64_t which = random->below(families.size());
    const FamilyId family = families[which];
    const std::string key = "key" + std::to_string(random->below(100));
    const std::string value = random->one_in(4) ? "" : "value" + std::to_string(random->next());
    const auto kind = static_cast<Kind>(random->below(5));
    const std::string end = key + "z";
    Status status;
    switch (kind) {
      case Kind::kPut:
        status = batch->Put(family, key, value);
        break;
      case Kind::kDelete:
        status = batch->Delete(family, key);
        break;
      case Kind::kMerge:
        status = batch->Merge(family, key, value);
        break;
      case Kind::kSingleDelete:
        status = batch->SingleDelete(family, key);
        break;
      case Kind::kDeleteRange:
        status = batch->DeleteRange(family, key, end);
        break;
    }
    EXPECT_TRUE(status.ok());
    const bool has_value = kind == Kind::kPut || kind == Kind::kMerge;
    by_family[which].push_back(shown(kind, family, key,
                                     kind == Kind::kDeleteRange ? end
                                     : has_value                ? value
                                                                : ""));
  }
  std::vector<std::string> lines;
  for (const auto& own : by_family) lines.insert(lines.end(), own.begin(), own.end());
  return lines;
}

// Within a family the order is that of arrival; families come one after the other. Writes of
// different families do not hide each other, so nothing more is promised.
std::vector<std::string> by_family(std::vector<std::string> lines) {
  std::stable_sort(lines.begin(), lines.end(), [](const std::string& a, const std::string& b) {
    return a.substr(2, a.find('/', 2) - 2) < b.substr(2, b.find('/', 2) - 2);
  });
  return lines;
}

}  // namespace

// Goal: a stream gives every batch once, whole, in commit order, across flushes and reopenings.
// Method: random batches of all operations to two families, with memtables and runs; a consumer
// that reads in between, and goes on from its position after each reopening; against a list.
// Mutation: dropping released segments, or losing the family at a frame's begin, fails.
TEST_F(ChangesTest, EveryBatchOnce) {
  for (const std::uint64_t seed : testing::seeds_to_run(6)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    options_.log_keep_bytes = 1ULL << 30;
    options_.device_requests_min = random.one_in(2) ? 1 : 1000;
    open();
    std::vector<FamilyId> families = {kDefaultFamily, 0};
    ASSERT_TRUE(engine_->CreateFamily("seed" + std::to_string(seed), &families[1]).ok());
    std::uint64_t position = engine_->Position();
    std::deque<std::vector<std::string>> expected;
    auto stream = follow(position, {});
    for (int step = 0; step < 120; ++step) {
      switch (random.below(8)) {
        case 0:
          ASSERT_TRUE(engine_->Flush().ok());
          break;
        case 1:
          if (!random.one_in(4)) break;
          position = stream->position();
          stream.reset();
          open();
          stream = follow(position, {});
          break;
        case 2:
          while (stream->Next(0).ok()) {
            ASSERT_FALSE(expected.empty());
            ASSERT_EQ(by_family(shown(*stream)), by_family(expected.front()));
            ASSERT_LT(stream->begin(), stream->position());
            expected.pop_front();
          }
          ASSERT_TRUE(expected.empty());
          break;
        default: {
          Batch batch;
          expected.push_back(random_batch(&random, families, &batch));
          WriteOptions how;
          how.durability = static_cast<Durability>(random.below(3));
          ASSERT_TRUE(engine_->Submit(how, &batch).ok());
        }
      }
    }
    while (stream->Next(0).ok()) {
      ASSERT_EQ(by_family(shown(*stream)), by_family(expected.front()));
      expected.pop_front();
    }
    ASSERT_TRUE(expected.empty());
  }
}

// Goal: a stream keeps the log from its position on, within its bound, and no longer than it lives.
// Method: segments filled and flushed behind a stream, one with a small bound, and after it.
// Mutation: releasing what a hold wants, or never letting go, fails.
TEST_F(ChangesTest, HoldsTheLog) {
  open();
  const std::uint64_t begin = engine_->Position();
  auto stream = follow(begin, {});
  ChangesOptions small;
  small.hold_bytes_max = 16 << 20;
  auto bounded = follow(begin, small);
  for (int i = 0; i < 2; ++i) {
    fill_segment();
    ASSERT_TRUE(engine_->Flush().ok());
  }
  int batches = 0;
  for (; stream->Next(0).ok(); ++batches) ASSERT_EQ(stream->changes().size(), 1U);
  EXPECT_EQ(batches, 2 * 66);
  EXPECT_TRUE(open_status(begin).ok());
  stream.reset();
  fill_segment();
  ASSERT_TRUE(engine_->Flush().ok());
  EXPECT_TRUE(open_status(begin).IsNotFound());
  Status status;
  while (status.ok()) status = bounded->Next(0);
  EXPECT_TRUE(status.IsNotFound()) << status.ToString();
  EXPECT_FALSE(bounded->Valid());
  // What a fresh stream finds begins later.
  bounded.reset();
  auto oldest = follow(0, {});
  ASSERT_TRUE(oldest->Next(0).ok());
  EXPECT_GT(oldest->begin(), begin);
}

// Goal: the log is kept for streams as far back as the option says, over reopenings, and no
//          further.
// Method: three segments, flushed; with and without the option.
// Mutation: recycling at opening what is to be kept fails.
TEST_F(ChangesTest, KeepsBytes) {
  options_.log_keep_bytes = 100 << 20;
  open();
  const std::uint64_t begin = engine_->Position();
  for (int i = 0; i < 3; ++i) {
    fill_segment();
    ASSERT_TRUE(engine_->Flush().ok());
  }
  EXPECT_TRUE(open_status(begin).IsNotFound());
  for (int life = 0; life < 3; ++life) {
    auto stream = follow(0, {});
    std::uint64_t bytes = 0;
    while (stream->Next(0).ok()) bytes += stream->position() - stream->begin();
    EXPECT_TRUE(life > 0 || bytes > 60U << 20) << bytes;
    stream.reset();
    open();
  }
  options_.log_keep_bytes = 0;
  open();
  ASSERT_TRUE(engine_->Flush().ok());
  auto stream = follow(0, {});
  EXPECT_TRUE(stream->Next(0).IsTimedOut());
}

// Goal: positions that are no batch's are refused; the end is an end.
// Method: between two batches, and behind all.
// Mutation: taking any position reads records as a frame.
TEST_F(ChangesTest, WrongPositions) {
  open();
  const std::uint64_t begin = engine_->Position();
  ASSERT_TRUE(engine_->Put({}, "a", "1").ok());
  ASSERT_TRUE(engine_->Put({}, "b", "2").ok());
  EXPECT_TRUE(open_status(begin + 8).IsInvalidArgument());
  EXPECT_TRUE(open_status(engine_->Position() + 8).IsInvalidArgument());
  EXPECT_TRUE(open_status(7).IsNotFound());
  auto stream = follow(engine_->Position(), {});
  EXPECT_TRUE(stream->Next(1000).IsTimedOut());
  EXPECT_EQ(stream->position(), engine_->Position());
}

// Goal: with only_synced a stream is never ahead of what a power cut keeps.
// Method: writes with and without a sync.
// Mutation: looking at what is visible fails.
TEST_F(ChangesTest, OnlySynced) {
  open();
  ChangesOptions synced;
  synced.only_synced = true;
  auto stream = follow(engine_->Position(), synced);
  ASSERT_TRUE(engine_->Put({}, "a", "1").ok());
  EXPECT_TRUE(stream->Next(0).IsTimedOut());
  ASSERT_TRUE(engine_->Put({.durability = Durability::kSync}, "b", "2").ok());
  ASSERT_TRUE(stream->Next(0).ok());
  EXPECT_EQ(shown(*stream), std::vector<std::string>{shown(Kind::kPut, 0, "a", "1")});
  ASSERT_TRUE(stream->Next(0).ok());
  ASSERT_TRUE(engine_->Put({}, "c", "3").ok());
  EXPECT_TRUE(stream->Next(0).IsTimedOut());
  ASSERT_TRUE(engine_->SyncLog().ok());
  EXPECT_TRUE(stream->Next(0).ok());
}

// Goal: after a crash a stream has what recovery has; a torn batch never appears, and a position
// behind the cut is refused.
// Method: a copy of the running store with its last frame broken.
// Mutation: reading frames without their checksums, or behind the chain's end, fails.
TEST_F(ChangesTest, TornTailNeverAppears) {
  open();
  const std::uint64_t begin = engine_->Position();
  ASSERT_TRUE(engine_->Put({}, "a", "1").ok());
  const std::uint64_t second = engine_->Position();
  ASSERT_TRUE(engine_->Put({}, "b", "2").ok());
  const std::uint64_t end = engine_->Position();
  const std::string copy = folder_ / "copy";
  testing::copy_sparse(path(), copy);
  engine_.reset();
  {
    const std::string log = copy + "/log/00000000000067108864.log";
    std::fstream file(log, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(second - 67108864 + 50));
    file.put('x');
  }
  ASSERT_TRUE(Engine::open(options_, copy, &engine_).ok());
  auto stream = follow(begin, {});
  ASSERT_TRUE(stream->Next(0).ok());
  EXPECT_EQ(stream->position(), second);
  EXPECT_TRUE(stream->Next(0).IsTimedOut());
  ASSERT_TRUE(engine_->Put({}, "c", "3").ok());
  ASSERT_TRUE(stream->Next(0).ok());
  EXPECT_EQ(shown(*stream), std::vector<std::string>{shown(Kind::kPut, 0, "c", "3")});
  EXPECT_TRUE(open_status(end).IsInvalidArgument());
  EXPECT_TRUE(open_status(second).ok());
}

// Goal: beside concurrent writers and flushes a stream misses nothing and wakes up.
// Method: four writers number their batches of two writes; a stream waits for each; a flusher.
// Mutation: publishing before the frame is whole, or losing a wake-up, fails or times out.
TEST_F(ChangesTest, ConcurrentWriters) {
  open();
  constexpr int kWriters = 4;
  const int batches = static_cast<int>(testing::share_of(500)) + 50;
  auto stream = follow(engine_->Position(), {});
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int writer = 0; writer < kWriters; ++writer) {
    threads.emplace_back([&, writer] {
      for (int i = 0; i < batches; ++i) {
        Batch batch;
        const std::string key = std::to_string(writer);
        EXPECT_TRUE(batch.Put(key, std::to_string(i)).ok());
        EXPECT_TRUE(batch.Put(key + "again", std::to_string(i)).ok());
        EXPECT_TRUE(engine_->Submit({}, &batch).ok());
      }
    });
  }
  std::thread flusher([&] {
    while (!done) EXPECT_TRUE(engine_->Flush().ok());
  });
  std::map<std::string, int> next;
  std::uint64_t position = 0;
  for (int i = 0; i < kWriters * batches; ++i) {
    const Status status = stream->Next(60'000'000);
    ASSERT_TRUE(status.ok()) << status.ToString();
    ASSERT_GT(stream->begin(), position);
    position = stream->begin();
    const auto lines = shown(*stream);
    const std::string key = stream->changes()[0].key.ToString();
    const std::string number = std::to_string(next[key]++);
    ASSERT_EQ(lines, (std::vector<std::string>{shown(Kind::kPut, 0, key, number),
                                               shown(Kind::kPut, 0, key + "again", number)}));
  }
  for (std::thread& thread : threads) thread.join();
  done = true;
  flusher.join();
  EXPECT_TRUE(stream->Next(0).IsTimedOut());
}

}  // namespace breccia::ordered
