#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "kill_state.h"
#include "support/folder.h"
#include "support/seeds.h"

namespace breccia::crash {

namespace {

using std::chrono::microseconds;

/// Starts this program again, to run DISABLED_Child below.
pid_t spawn_child(const std::string& folder, const ChildRun& run) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  std::vector<std::string> arguments{program, "--gtest_filter=EngineKill.DISABLED_Child",
                                     "--gtest_also_run_disabled_tests", "--gtest_brief=1"};
  std::vector<std::string> environment{
      "BRECCIA_KILL_FOLDER=" + folder, "BRECCIA_KILL_SEED=" + std::to_string(run.seed),
      std::string("BRECCIA_KILL_SIMULATOR=") + (run.simulator ? "1" : "0")};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (std::strncmp(*variable, "GTEST_", 6) != 0) environment.emplace_back(*variable);
  }
  const auto pointers = [](std::vector<std::string>& texts) {
    std::vector<char*> list;
    for (std::string& text : texts) list.push_back(text.data());
    list.push_back(nullptr);
    return list;
  };
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = -1;
  const int error = ::posix_spawn(&child, program.c_str(), &actions, nullptr,
                                  pointers(arguments).data(), pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  BRECCIA_ASSERT(error == 0);
  return child;
}

/// One store and its chain of killed writers.
class Victim {
 public:
  Victim(std::uint64_t seed, testing::Place place, bool simulator)
      : random_(seed), simulator_(simulator), folder_(place) {
    std::filesystem::create_directories(folder_ / "store");
    state_ = map_state(folder_ / "expected");
  }
  ~Victim() { unmap_state(state_); }
  Victim(const Victim&) = delete;
  Victim& operator=(const Victim&) = delete;

  /// Starts a writer and kills it; returns what went wrong.
  std::string round() {
    state_->phase = Phase::kOpening;
    const pid_t child = spawn_child(folder_.path(), {random_.next(), simulator_});
    // Every sixth dies while it starts, opens or recovers.
    if (random_.one_in(6)) {
      std::this_thread::sleep_for(microseconds(random_.below(80'000)));
    } else {
      while (state_->phase == Phase::kOpening && alive(child)) {
        std::this_thread::sleep_for(microseconds(200));
      }
      std::this_thread::sleep_for(microseconds(500 + random_.below(19'500)));
    }
    ::kill(child, SIGKILL);
    if (!reaped_) ::waitpid(child, &how_, 0);
    reaped_ = false;
    if (state_->phase == Phase::kFailed) return state_->error;
    if (!WIFSIGNALED(how_) || WTERMSIG(how_) != SIGKILL) {
      return "the writer ended by itself, wait status " + std::to_string(how_);
    }
    return "";
  }
  [[nodiscard]] const KillState& state() const { return *state_; }

 private:
  bool alive(pid_t child) {
    reaped_ = ::waitpid(child, &how_, WNOHANG) == child;
    return !reaped_;
  }

  base::Random random_;
  const bool simulator_;
  const testing::Folder folder_;
  KillState* state_;
  int how_ = 0;
  bool reaped_ = false;
};

struct Totals {
  std::atomic<std::uint64_t> rounds{0};
  std::atomic<std::uint64_t> verified{0};
  std::atomic<std::uint64_t> acked{0};
  std::atomic<std::uint64_t> whole{0};
  std::atomic<std::uint64_t> missing{0};
  std::atomic<std::uint64_t> flushes{0};
};

/// Kills the writers of one store `rounds` times.
void run_victim(std::uint64_t seed, testing::Place place, std::uint64_t rounds, Totals* totals) {
  Victim victim(seed, place, /*simulator=*/seed % 2 == 0);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const std::string error = victim.round();
    ++totals->rounds;
    if (!error.empty()) {
      ADD_FAILURE() << "seed " << seed << ", round " << round << ": " << error;
      break;
    }
  }
  totals->verified += victim.state().verified;
  totals->acked += victim.state().acked;
  totals->whole += victim.state().whole;
  totals->missing += victim.state().missing;
  totals->flushes += victim.state().flushes;
}

}  // namespace

// Not a test: the writer that EngineKill.LosesNothingAcknowledged starts and kills.
TEST(EngineKill, DISABLED_Child) {
  const char* const folder = std::getenv("BRECCIA_KILL_FOLDER");
  const char* const seed = std::getenv("BRECCIA_KILL_SEED");
  const char* const simulator = std::getenv("BRECCIA_KILL_SIMULATOR");
  if (folder == nullptr || seed == nullptr || simulator == nullptr) GTEST_SKIP();
  run_child(folder, {std::strtoull(seed, nullptr, 10), std::strcmp(simulator, "1") == 0});
}

// Goal: a kill at any moment loses no acknowledged write and halves no batch.
// Method: 1,000 times a process that writes from two threads is killed, at random while it opens,
//   recovers, writes or flushes; its successor checks the store against a mapped record of what was
//   acknowledged. Both kinds of log, host and simulator.
// Mutation: acknowledging before Log::commit, or moving the watermark without its files, is found.
TEST(EngineKill, LosesNothingAcknowledged) {
  constexpr std::uint64_t kRoundsPerStore = 50;
  const auto seeds = testing::seeds_to_run(20);
  Totals totals;
  const auto run_half = [&](testing::Place place, std::size_t half) {
    for (std::size_t i = half; i < seeds.size(); i += 2) {
      run_victim(seeds[i] * 2 + i / 2 % 2, place, kRoundsPerStore, &totals);
    }
  };
  std::thread on_disk(run_half, testing::Place::kDisk, 0);
  run_half(testing::Place::kMemory, 1);
  on_disk.join();
  std::printf(
      "%lu kills, %lu stores verified, %lu batches acknowledged, %lu pending ones found "
      "whole, %lu not at all, %lu flushes\n",
      totals.rounds.load(), totals.verified.load(), totals.acked.load(), totals.whole.load(),
      totals.missing.load(), totals.flushes.load());
  EXPECT_EQ(totals.rounds, seeds.size() * kRoundsPerStore);
  EXPECT_GE(totals.verified, totals.rounds / 2);
}

}  // namespace breccia::crash
