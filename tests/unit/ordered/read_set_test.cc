#include "ordered/read/read_set.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>

#include "base/random.h"
#include "batch/requests.h"
#include "ordered/engine.h"
#include "support/folder.h"
#include "support/seeds.h"
#include "support/small_options.h"

namespace breccia::ordered {

namespace {

class ReadSetTest : public ::testing::Test {
 protected:
  void open(std::uint64_t memtable_bytes, std::uint32_t run_requests_min) {
    Options options = testing::small_options();
    options.memtable_bytes = memtable_bytes;
    options.device_requests_min = run_requests_min;
    engine_.reset();
    ASSERT_TRUE(Engine::open(options, folder_ / "store", &engine_).ok());
  }
  [[nodiscard]] std::uint64_t now() const { return engine_->pin().visible; }
  void put(const std::string& key) { ASSERT_TRUE(engine_->Put(WriteOptions(), key, "value").ok()); }
  Status write(record::Op op, const std::string& key, const std::string& value) {
    return engine_->writer().write_one(WriteOptions(), op, kDefaultFamily, key, value);
  }

  /// Whether `key` was written since.
  Status check(const std::string& key, std::uint64_t since) {
    record::KeyColumns columns(exec::plain_host_memory());
    EXPECT_TRUE(columns.append(key.data(), key.size()));
    ReadSet reads;
    reads.keys.push_back({kDefaultFamily, columns.ref(), nullptr, since});
    return engine_->lookups().validate(engine_->pin(), reads);
  }
  Status check_range(const std::string& begin, const std::string& end, std::uint64_t since) {
    ReadSet reads;
    reads.ranges.push_back({kDefaultFamily, begin, end, end.empty(), since});
    return engine_->lookups().validate(engine_->pin(), reads);
  }

  const testing::Folder folder_{testing::Place::kMemory};
  std::unique_ptr<Engine> engine_;
};

}  // namespace

// Goal: a key or range is said to be written exactly if a version, or a range deletion over it, is
//       at or above its position, wherever flushes and merges have brought the versions.
// Method: random writes, range deletions and flushes; keys and ranges checked against a map of the
//         last write of each key, one by one and as one large set on the backend.
// Mutation: leaving out runs, range deletions or what was flushed misses some.
TEST_F(ReadSetTest, FindsWhatWasWritten) {
  constexpr int kKeys = 40;
  const auto name = [](std::uint64_t i) { return "key" + std::to_string(100 + i); };
  for (const std::uint64_t seed : testing::seeds_to_run(6)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    engine_.reset();
    std::filesystem::remove_all(folder_ / "store");
    open(256 << 20, random.one_in(2) ? 1 : 0);
    const History::Hold hold = engine_->hold(now());
    const std::uint64_t begin = now();
    std::map<std::uint64_t, std::uint64_t> last;  // key -> position that its last write is below
    for (int step = 0; step < 300; ++step) {
      const std::uint64_t first = random.below(kKeys);
      if (random.one_in(40)) {
        ASSERT_TRUE(engine_->Flush().ok());
      } else if (random.one_in(15)) {
        const std::uint64_t end = first + 1 + random.below(5);
        ASSERT_TRUE(write(record::Op::kDeleteRange, name(first), name(end)).ok());
        for (std::uint64_t i = first; i < end; ++i) last[i] = now();
      } else {
        ASSERT_TRUE(
            write(random.one_in(3) ? record::Op::kDelete : record::Op::kPut, name(first), "").ok());
        last[first] = now();
      }
      const std::uint64_t key = random.below(kKeys);
      const std::uint64_t since = begin + random.below(now() - begin + 1);
      // Positions are those between writes, so that no write begins before and ends behind one.
      const std::uint64_t at = random.one_in(2) ? now() : last[random.below(kKeys)];
      const std::uint64_t position = std::max(begin, at);
      EXPECT_EQ(check(name(key), position).ok(), last[key] <= position) << step;
      const std::uint64_t end = key + random.below(6);
      bool changed = false;
      for (std::uint64_t i = key; i < end; ++i) changed = changed || last[i] > position;
      EXPECT_EQ(check_range(name(key), name(end), position).ok(), !changed) << step;
      EXPECT_TRUE(check(name(key), std::max(since, last[key])).ok());
    }
    record::KeyColumns columns(exec::plain_host_memory());
    std::vector<std::uint64_t> since;
    for (int repeat = 0; repeat < 20; ++repeat) {
      for (std::uint64_t i = 0; i < kKeys; ++i) {
        ASSERT_TRUE(columns.append(name(i).data(), name(i).size()));
        since.push_back(std::max(begin, last[i]));
      }
    }
    ReadSet reads;
    reads.keys.push_back({kDefaultFamily, columns.ref(), since.data(), 0});
    EXPECT_TRUE(engine_->lookups().validate(engine_->pin(), reads).ok());
    since[since.size() / 2] = begin;
    EXPECT_EQ(engine_->lookups().validate(engine_->pin(), reads).ok(),
              last[since.size() / 2 % kKeys] <= begin);
  }
}

// Goal: what a flush took out of memory is kept while somebody holds it, within the limit, and
//       else the answer is TryAgain, never a wrong one.
// Method: flushes with a hold, after it ended, and of more than the memtables may hold.
// Mutation: an empty history that says "not written" where it cannot know.
TEST_F(ReadSetTest, HistoryIsBounded) {
  open(64 << 20, 0);
  std::uint64_t since = now();
  {
    const History::Hold hold = engine_->hold(since);
    put("flushed");
    ASSERT_TRUE(engine_->Flush().ok());
    put("second");
    ASSERT_TRUE(engine_->Flush().ok());
    EXPECT_TRUE(check("flushed", since).IsBusy());
    EXPECT_TRUE(check("second", since).IsBusy());
    EXPECT_TRUE(check("other", since).ok());
    EXPECT_TRUE(check_range("f", "g", since).IsBusy());
    EXPECT_TRUE(check_range("a", "b", since).ok());
    EXPECT_TRUE(check("flushed", now()).ok());
  }
  EXPECT_TRUE(check("other", since).IsTryAgain());
  put("later");
  EXPECT_TRUE(check("later", since).IsBusy());  // memory alone knows
  since = now();
  const History::Hold hold = engine_->hold(since);
  const std::string large(1 << 20, 'v');
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(engine_->Put(WriteOptions(), "large" + std::to_string(i), large).ok());
  }
  ASSERT_TRUE(engine_->Flush().ok());
  EXPECT_TRUE(check("other", since).IsTryAgain());
  EXPECT_TRUE(check("other", now()).ok());
}

// Goal: a commit happens if nothing of its read set changed, else nothing of it does; families that
//       are not there are an error.
// Method: commits with a stale and a fresh key, with writes and without.
// Mutation: entering the log before validating leaves the writes of a conflict.
TEST_F(ReadSetTest, CommitIsAllOrNothing) {
  open(256 << 20, 0);
  put("a");
  const std::uint64_t before = now();
  put("a");
  record::KeyColumns columns(exec::plain_host_memory());
  ASSERT_TRUE(columns.append("a", 1));
  ReadSet reads;
  reads.keys.push_back({kDefaultFamily, columns.ref(), nullptr, before});
  batch::Requests requests(exec::shared_plain_host_memory());
  ASSERT_TRUE(requests.add_write(record::Op::kPut, kDefaultFamily, "b", "1").ok());
  const std::uint64_t end = now();
  EXPECT_TRUE(engine_->writer().submit(WriteOptions(), reads, &requests).IsBusy());
  EXPECT_EQ(now(), end);
  std::string value;
  EXPECT_TRUE(engine_->Get("b", &value).IsNotFound());
  reads.keys[0].since_all = now();
  EXPECT_TRUE(engine_->writer().submit(WriteOptions(), reads, &requests).ok());
  EXPECT_TRUE(engine_->Get("b", &value).ok());
  reads.keys[0].family = 77;
  EXPECT_TRUE(engine_->lookups().validate(engine_->pin(), reads).IsInvalidArgument());
}

}  // namespace breccia::ordered
