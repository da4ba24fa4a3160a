#include "stream.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <thread>

#include "support/seeds.h"

namespace breccia::model {

namespace {

constexpr std::uint64_t kStreamsPerSession = 20;

/// Runs a session per seed on two threads; reports every session that differs.
void run_sessions(const std::vector<std::uint64_t>& seeds, bool threaded_only, Counts* counts) {
  std::atomic<std::size_t> next{0};
  const std::string replay_of_zero = testing::replay_command(0);
  const auto work = [&] {
    for (std::size_t i = next++; i < seeds.size(); i = next++) {
      const std::string error = run_session(seeds[i], kStreamsPerSession, threaded_only, counts);
      if (error.empty()) continue;
      std::string replay = replay_of_zero;
      replay.replace(replay.find("SEED=0"), 6, "SEED=" + std::to_string(seeds[i]));
      ADD_FAILURE() << "seed " << seeds[i] << ", " << error << "\n" << replay;
    }
  };
  std::thread second(work);
  work();
  second.join();
}

void print(const Counts& counts) {
  std::printf(
      "%lu streams on the host backend, %lu on the simulator; %lu of them threaded; "
      "%lu requests, %lu opens, %lu flushes\n",
      counts.host_streams.load(), counts.simulator_streams.load(), counts.threaded_streams.load(),
      counts.requests.load(), counts.opens.load(), counts.flushes.load());
}

}  // namespace

// Goal: any stream of requests gives, request by request, what RocksDB gives, and leaves files in
//   which plain RocksDB finds the same.
// Method: 10,000 random streams under random options, compared with RocksDB in memory; 20 streams
//   share a store, which is opened again at random points.
// Mutation: making a read of a batch see entries up to its bound inclusively, or keeping the oldest
//   version in a merge, fails within ten seeds.
TEST(Stream, AnswersAsRocksDb) {
  Counts counts;
  const auto seeds = testing::seeds_to_run(500);
  run_sessions(seeds, /*threaded_only=*/false, &counts);
  print(counts);
  const std::uint64_t streams = counts.host_streams + counts.simulator_streams;
  EXPECT_EQ(streams, seeds.size() * kStreamsPerSession);
  if (!testing::only_seed()) {
    EXPECT_GE(streams, testing::share_of(10'000));
  }
}

// Goal: the same with several threads at once on disjoint keys, and a key that all of them write
//   ends with somebody's last value.
// Method: streams of two to eight threads each.
// Mutation: publishing a batch before the one in front of it fails the shared keys.
TEST(Stream, ConcurrentClientsAnswerAsRocksDb) {
  Counts counts;
  run_sessions(testing::seeds_to_run(10), /*threaded_only=*/true, &counts);
  print(counts);
}

}  // namespace breccia::model
