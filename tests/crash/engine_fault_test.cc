#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "scripted.h"
#include "support/faulty_files.h"
#include "support/folder.h"
#include "support/seeds.h"
#include "support/sparse_files.h"

namespace breccia::crash {

namespace {

struct FaultCounts {
  std::uint64_t points = 0;        // calls that were made to fail
  std::uint64_t refused_open = 0;  // the store did not open
  std::uint64_t refused_step = 0;  // a step failed, the store was read-only from then on
  std::uint64_t bridged = 0;       // nobody noticed
};

/// Runs a script with the k-th call failing, for k = 1, 2, ... until the script makes no k-th call;
/// or for every `stride`-th k.
class FaultLoop {
 public:
  FaultLoop(std::vector<Step> steps, Options options, testing::CallFaults* faults)
      : steps_(std::move(steps)), options_(std::move(options)), faults_(faults) {}

  FaultCounts run(const Status& fault, std::uint64_t stride = 1) {
    for (std::uint64_t k = 1 + testing::seeds_to_run(1).front() % stride;; k += stride) {
      SCOPED_TRACE(fmt::format("call {} fails with {}", k, fault.ToString()));
      faults_->fail_call(k, fault);
      if (!run_once(fault)) return counts_;
      ++counts_.points;
      if (::testing::Test::HasFailure()) return counts_;
    }
  }

 private:
  /// False if the fault never struck.
  bool run_once(const Status& fault) {
    const testing::Folder folder(testing::Place::kMemory);
    Script script(steps_);
    std::unique_ptr<Store> store;
    Status failure = Store::Open(options_, folder / "store", &store);
    const bool opened = failure.ok();
    if (opened) {
      EXPECT_EQ(script.run(store.get(), /*stops=*/true, &failure), "");
    }
    const bool struck = faults_->struck();
    const bool as_planted = failure.ok() || (struck && failure.code() == fault.code());
    EXPECT_TRUE(as_planted) << failure.ToString();
    store.reset();
    ++(!opened ? counts_.refused_open : !failure.ok() ? counts_.refused_step : counts_.bridged);
    faults_->fail_call(0, Status::OK());
    const Status reopened = Store::Open(options_, folder / "store", &store);
    EXPECT_TRUE(reopened.ok()) << reopened.ToString();
    if (reopened.ok()) {
      EXPECT_EQ(script.check_recovered(store.get()), "");
      EXPECT_TRUE(store->Put(WriteOptions(), "works again", "yes").ok());
    }
    return struck;
  }

  const std::vector<Step> steps_;
  const Options options_;
  testing::CallFaults* faults_;
  FaultCounts counts_;
};

void print(const char* what, const FaultCounts& counts) {
  std::printf("%s: %lu calls failed: %lu refused to open, %lu refused a write, %lu went on\n", what,
              counts.points, counts.refused_open, counts.refused_step, counts.bridged);
}

/// Where a run takes a tenth of a second and more: all calls, a third, or a ninth of them, by the
/// share that is wanted.
std::uint64_t stride_of_slow_runs() {
  const std::uint64_t percent = testing::share_of(100);
  return percent >= 50 ? 1 : percent >= 10 ? 3 : 9;
}

std::vector<Status> faults_to_try() {
  return {Status::IOError("planted"), Status::NoSpace("planted", "full")};
}

}  // namespace

// Goal: whatever call under the log fails, the write is refused with the cause, the store is
//          read-only and still reads, and opening it again finds everything acknowledged.
// Method: a script of writes and flushes, once for every call that it makes, with that call
//          failing.
// Mutation: trying a failed sync again, or publishing before the commit, fails here.
TEST(EngineFault, EveryCallUnderTheLog) {
  testing::CallFaults faults;
  const auto env = testing::make_faulty_log_env(&faults);
  Options options = quiet_options();
  options.rocksdb.env = env.get();
  for (const Status& fault : faults_to_try()) {
    const FaultCounts counts = FaultLoop(mixed_script(), options, &faults).run(fault);
    print("mixed script", counts);
    EXPECT_GT(counts.refused_open, 0u);
    EXPECT_GT(counts.refused_step, 10u);
  }
}

// Goal: the same where the log goes on in new segment files.
// Method: as above, with values of 40 MiB in segments of 64 MiB.
// Mutation: closing a segment before the next one is named and synced fails here.
TEST(EngineFault, EveryCallUnderARollingLog) {
  testing::CallFaults faults;
  const auto env = testing::make_faulty_log_env(&faults);
  Options options = quiet_options();
  options.rocksdb.env = env.get();
  const FaultCounts counts =
      FaultLoop(rolling_script(), options, &faults)
          .run(Status::NoSpace("planted", "full"), (stride_of_slow_runs() + 2) / 3);
  print("rolling script", counts);
  EXPECT_GT(counts.refused_step, 0u);
}

// Goal: whatever call under the tree fails, the flush is refused with the cause, the store is
//   read-only and still reads, and opening it again finds everything acknowledged.
// Method: as above, with a file system under RocksDB whose k-th changing call fails.
// Mutation: releasing log positions before the files are in the tree fails here.
TEST(EngineFault, EveryCallUnderTheTree) {
  testing::CallFaults faults;
  const auto env = testing::make_faulty_env(&faults);
  Options options = quiet_options();
  options.rocksdb.env = env.get();
  for (const Status& fault : faults_to_try()) {
    const FaultCounts counts =
        FaultLoop(mixed_script(), options, &faults).run(fault, stride_of_slow_runs());
    print("tree", counts);
    EXPECT_GT(counts.refused_open, 0u);
    EXPECT_GT(counts.refused_step, counts.points / 4);
  }
}

}  // namespace breccia::crash
