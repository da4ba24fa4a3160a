#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "crash/disagg_processes.h"
#include "crash/porcupine.h"
#include "disagg/client/client.h"
#include "disagg/cluster_config.h"
#include "disagg/cluster_map.h"
#include "disagg/cluster_servers.h"
#include "linearize/history.h"
#include "support/seeds.h"
#include "unit/disagg/register_check.h"

/// A cluster of real processes, over shared memory or TCP, some of which are killed, or stand
/// still, or cannot be reached.

namespace breccia::crash {

namespace {

using disagg::Client;
using disagg::ClusterConfig;
using disagg::ClusterMap;
using disagg::testing::KeyOp;
using fabric::TimeUs;
using linearize::delete_body;
using linearize::get_body;
using linearize::put_body;
using linearize::range_body;
using std::chrono::microseconds;

/// Whether all seeds run, with nothing beside them: then times are measured. Where tests run beside
/// others, a server may not come to a processor for longer than a short session.
bool measures() {
  constexpr std::uint64_t kAll = 100;
  return breccia::testing::share_of(kAll) >= kAll;
}
TimeUs session_us() { return measures() ? 200'000 : 2'000'000; }
/// A write is acknowledged again within that, half of the time at least, as there may be others at
/// the processors.
constexpr TimeUs kRoutedUs = 600'000;
constexpr std::uint64_t kClients = 3, kKeys = 6;

void sleep_us(TimeUs us) { std::this_thread::sleep_for(microseconds(us)); }

/// One client's operations on a run's keys, until it is over.
class Worker {
 public:
  Worker(const ClusterConfig& config, std::uint64_t run, std::uint64_t number, std::uint64_t seed)
      : name_("client" + std::to_string(run) + "." + std::to_string(number)),
        prefix_("r" + std::to_string(run) + "k"),
        random_(seed),
        recorder_(static_cast<int>(number)),
        has_shards_(config.shards > 1) {
    auto port = config.open_port(name_);
    auto met = disagg::MetCoordinator::meet(config, name_ + ".c");
    EXPECT_TRUE(port.ok() && met.ok());
    if (!port.ok() || !met.ok()) return;
    port_ = port.take();
    met_ = met.take();
    auto client =
        Client::open(port_.get(), met_.coordinator.get(), {}, base::now_us() + kDisaggLongUs);
    EXPECT_TRUE(client.ok()) << client.status().ToString();
    if (client.ok()) client_ = client.take();
  }

  void run(const std::atomic<bool>& is_over) {
    for (std::uint64_t turn = 0; client_ != nullptr && !is_over; ++turn) {
      step(turn);
      sleep_us(500 + random_.below(1500));
    }
  }
  /// When the first write was acknowledged that was begun behind that time; 0: none was.
  [[nodiscard]] TimeUs first_write_behind(TimeUs time) const {
    for (const auto& [called, returned] : writes_) {
      if (called >= time) return returned;
    }
    return 0;
  }
  /// Whether a write was acknowledged that was begun behind that time. Threads any.
  [[nodiscard]] bool writes_behind(TimeUs time) const { return last_write_ >= time; }
  [[nodiscard]] const std::map<std::string, std::vector<KeyOp>>& history() const {
    return history_;
  }
  /// The same for porcupine.
  [[nodiscard]] const std::string& lines() const { return recorder_.lines(); }

 private:
  void step(std::uint64_t turn) {
    const std::string key = prefix_ + std::to_string(random_.below(kKeys));
    switch (random_.below(8)) {
      case 0:
        return scan();
      case 1:
      case 2:
      case 3:
        return read(key);
      case 4:
        return write(key, std::nullopt);
      default:
        return write(key, name_ + "." + std::to_string(turn));
    }
  }

  void read(const std::string& key) {
    KeyOp op{.what = KeyOp::What::kRead, .value = {}, .called = base::now_us(), .returned = 0};
    std::string found;
    const Status status = client_->get(key, &found, op.called + kDisaggLongUs);
    EXPECT_TRUE(status.ok() || status.IsNotFound()) << status.ToString();
    if (!status.ok() && !status.IsNotFound()) return;
    if (status.ok()) op.value = found;
    op.returned = base::now_us();
    history_[key].push_back(op);
    record(op, get_body(key, status, found));
  }

  /// No value: a deletion.
  void write(const std::string& key, const std::optional<std::string>& value) {
    KeyOp op{.what = KeyOp::What::kWrite,
             .value = value,
             .called = base::now_us(),
             .returned = KeyOp::kNever};
    const TimeUs until = op.called + kDisaggLongUs;
    const Status status =
        value.has_value() ? client_->put(key, *value, until) : client_->erase(key, until);
    EXPECT_TRUE(status.ok() || status.IsIOError()) << status.ToString();
    if (status.ok()) {
      op.returned = base::now_us();
      writes_.emplace_back(op.called, op.returned);
      last_write_ = op.called;
    }
    history_[key].push_back(op);
    record(op, value.has_value() ? put_body(key, *value) : delete_body(key));
  }

  /// All of the run's keys; of each by itself that is a lookup. Where there are shards the keys of
  /// one alone are as of one moment, so each goes by itself.
  void scan() {
    KeyOp op{.what = KeyOp::What::kRead, .value = {}, .called = base::now_us(), .returned = 0};
    const std::string end = prefix_ + "~";
    std::vector<std::pair<std::string, std::string>> found;
    const Status status = client_->scan(prefix_, end, kKeys, &found, op.called + kDisaggLongUs);
    EXPECT_TRUE(status.ok()) << status.ToString();
    if (!status.ok()) return;
    op.returned = base::now_us();
    if (!has_shards_) record(op, range_body(prefix_, end, kKeys, found));
    const std::map<std::string, std::string> by_key(found.begin(), found.end());
    for (std::uint64_t i = 0; i < kKeys; ++i) {
      const auto one = by_key.find(prefix_ + std::to_string(i));
      op.value = one == by_key.end() ? std::nullopt : std::optional(one->second);
      const std::string key = prefix_ + std::to_string(i);
      history_[key].push_back(op);
      if (!has_shards_) continue;
      record(op, get_body(key, op.value.has_value() ? Status() : Status::NotFound(),
                          op.value.value_or("")));
    }
  }

  void record(const KeyOp& op, const std::string& body) {
    constexpr std::int64_t kNs = 1000;
    const auto called = static_cast<std::int64_t>(op.called) * kNs;
    if (op.returned == KeyOp::kNever) return recorder_.add_unknown(called, body);
    recorder_.add(called, static_cast<std::int64_t>(op.returned) * kNs, body);
  }

  const std::string name_, prefix_;
  base::Random random_;
  std::unique_ptr<fabric::Port> port_;
  disagg::MetCoordinator met_;
  std::unique_ptr<Client> client_;
  std::map<std::string, std::vector<KeyOp>> history_;
  linearize::Recorder recorder_;
  const bool has_shards_;
  std::vector<std::pair<TimeUs, TimeUs>> writes_;
  std::atomic<TimeUs> last_write_{0};
};

// ---- blows --------------------------------------------------------------------------------------

enum class Blow : std::uint8_t {
  kKill,
  kStop,
  kKillIndexes,
  kHold,
  kCut,
  kLose,
  kSlow,
  kMemoryPower,
  kAllPower
};
/// The last three are of networks.
constexpr std::array kBlows = {Blow::kKill, Blow::kStop, Blow::kKillIndexes, Blow::kHold,
                               Blow::kCut,  Blow::kLose, Blow::kSlow};
constexpr std::array kNames = {"kill",
                               "stop",
                               "kill of both indexes",
                               "coordinator that stands still",
                               "link that is cut",
                               "computer that is lost",
                               "link that is slow",
                               "power cut of memory servers",
                               "power cut of all"};
constexpr std::size_t kLocalBlows = 4;
/// Where values are in files.
constexpr std::array kFileBlows = {Blow::kMemoryPower, Blow::kAllPower, Blow::kKillIndexes,
                                   Blow::kHold};

Blow draw_blow(Meet meet, base::Random* random) {
  if (meet == Meet::kFiles) return kFileBlows.at(random->below(kFileBlows.size()));
  return kBlows.at(random->below(meet == Meet::kTcp ? kBlows.size() : kLocalBlows));
}
bool is_power(Blow blow) { return blow == Blow::kMemoryPower || blow == Blow::kAllPower; }
/// The server does not come back, so another one comes.
bool is_for_ever(Blow blow) {
  return blow == Blow::kKill || blow == Blow::kKillIndexes || blow == Blow::kLose;
}
/// One server at most is gone.
bool is_one(Blow blow) {
  return blow != Blow::kKillIndexes && blow != Blow::kHold && !is_power(blow);
}
constexpr std::uint64_t kSlowBits = 4'000'000;

/// Whom a blow hits: a server of one index, or of memory.
struct Victim {
  pid_t process;
  const char* what;
  pid_t hash, ordered;  // of indexes
};

Victim draw_victim(const ClusterMap& map, base::Random* random) {
  // Where one process came to have both indexes, as no other one was there in time, they would be
  // lost together.
  const ClusterMap::Shard& shard = map.shards[random->below(map.shards.size())];
  const bool is_one = std::any_of(map.shards.begin(), map.shards.end(), [](const auto& one) {
    return process_of(one.hash.member) == process_of(one.ordered.member);
  });
  const bool is_index = random->one_in(2) && !is_one;
  const ClusterMap::Memory& memory = map.memory.front();
  const std::string& member = random->one_in(2)
                                  ? (is_index ? shard.hash.member : memory.member)
                                  : (is_index ? shard.ordered.member : memory.mirror.member);
  return {.process = process_of(member),
          .what = is_index ? "Index" : "Memory",
          .hash = process_of(shard.hash.member),
          .ordered = process_of(shard.ordered.member)};
}

void begin(Blow blow, const Victim& victim, DisaggProcesses* processes) {
  if (blow == Blow::kKill) processes->kill(victim.process);
  if (blow == Blow::kStop) ::kill(victim.process, SIGSTOP);
  if (blow == Blow::kHold) processes->hold_coordinator(true);
  if (is_power(blow)) processes->cut_power(blow == Blow::kAllPower);
  if (blow == Blow::kKillIndexes) {
    processes->kill(victim.hash);
    if (victim.ordered != victim.hash) processes->kill(victim.ordered);
  }
  if (blow == Blow::kCut || blow == Blow::kLose) processes->set_link(victim.process, false);
  if (blow == Blow::kSlow) processes->set_speed(victim.process, kSlowBits);
}

void end(Blow blow, const Victim& victim, DisaggProcesses* processes) {
  if (blow == Blow::kStop) ::kill(victim.process, SIGCONT);
  if (blow == Blow::kHold) processes->hold_coordinator(false);
  if (blow == Blow::kCut) processes->set_link(victim.process, true);
  if (blow == Blow::kSlow) processes->set_speed(victim.process, 0);
}

// ---- runs ---------------------------------------------------------------------------------------

/// What it took until writes were acknowledged again, by blows.
using Routed = std::map<Blow, std::vector<TimeUs>>;

/// Each key by itself at once; all of them together porcupine does, when all runs are over.
void check_histories(const std::vector<std::unique_ptr<Worker>>& workers, std::uint64_t seed,
                     const Porcupine& porcupine) {
  std::map<std::string, std::vector<KeyOp>> all;
  std::string lines;
  for (const auto& worker : workers) {
    lines += worker->lines();
    for (const auto& [key, ops] : worker->history()) {
      all[key].insert(all[key].end(), ops.begin(), ops.end());
    }
  }
  for (const auto& [key, ops] : all) EXPECT_TRUE(disagg::testing::is_linearizable(ops)) << key;
  porcupine.add(std::to_string(seed), lines);
}

/// A run: clients, and in the midst of it a blow.
void run_once(DisaggProcesses* processes, Meet meet, std::uint64_t run, std::uint64_t seed,
              const Porcupine& porcupine, Routed* routed) {
  base::Random random(seed);
  std::string seen;
  const ClusterMap map = processes->wait_until_whole("look" + std::to_string(run), &seen);
  ASSERT_FALSE(map.shards.empty()) << "the cluster is not whole: " << seen;
  std::vector<std::unique_ptr<Worker>> workers;
  for (std::uint64_t i = 0; i < kClients; ++i) {
    workers.push_back(std::make_unique<Worker>(processes->config(), run, i, random.next()));
  }
  std::atomic<bool> is_over{false};
  std::vector<std::thread> threads;
  for (const auto& worker : workers) {
    threads.emplace_back([&worker, &is_over] { worker->run(is_over); });
  }
  sleep_us(50'000 + random.below(100'000));
  const Victim victim = draw_victim(map, &random);
  const Blow blow = draw_blow(meet, &random);
  begin(blow, victim, processes);
  // What was begun before it was there does not count.
  const TimeUs time = base::now_us();
  if (is_for_ever(blow)) {
    const bool are_both = blow == Blow::kKillIndexes;
    processes->start(are_both ? "Index" : victim.what);
    if (are_both && victim.ordered != victim.hash) processes->start("Index");
  } else {
    sleep_us(random.below(3 * session_us()));
    end(blow, victim, processes);
  }
  const auto goes_on = [&] {
    return std::all_of(workers.begin(), workers.end(),
                       [time](const auto& worker) { return worker->writes_behind(time); });
  };
  const TimeUs late = time + kDisaggLongUs;
  while (!goes_on() && base::now_us() < late) sleep_us(2000);
  EXPECT_TRUE(goes_on());
  sleep_us(50'000);
  is_over = true;
  for (std::thread& thread : threads) thread.join();
  if (blow == Blow::kLose) processes->kill(victim.process);

  for (const auto& worker : workers) {
    const TimeUs again = worker->first_write_behind(time);
    if (again > 0) (*routed)[blow].push_back(again - time);
  }
  check_histories(workers, seed, porcupine);
}

void run_all(Meet meet, std::uint64_t runs, std::uint32_t shards = 1) {
  const auto seeds = breccia::testing::seeds_to_run(runs);
  std::string why_not;
  const auto processes = DisaggProcesses::make(meet, shards, session_us(), &why_not);
  if (processes == nullptr) GTEST_SKIP() << why_not;
  const Porcupine porcupine(::testing::UnitTest::GetInstance()->current_test_info()->name());
  Routed routed;
  std::uint64_t run = 0;
  for (const std::uint64_t seed : seeds) {
    SCOPED_TRACE(breccia::testing::replay_command(seed));
    run_once(processes.get(), meet, ++run, seed, porcupine, &routed);
    if (::testing::Test::HasFailure()) return;
  }
  const std::string wrong = porcupine.judge();
  EXPECT_TRUE(wrong.empty()) << wrong;
  for (auto& [blow, times] : routed) {
    std::sort(times.begin(), times.end());
    EXPECT_TRUE(!measures() || !is_one(blow) || times[times.size() / 2] <= kRoutedUs);
    std::printf("clients were routed again behind a %s: %zu times, p50 %.0f ms, p99 %.0f ms\n",
                kNames.at(static_cast<std::size_t>(blow)), times.size(),
                static_cast<double>(times[times.size() / 2]) / 1000,
                static_cast<double>(times[times.size() * 99 / 100]) / 1000);
  }
}

/// What a child begins with: it ends with the test. Where others use the processors it goes first,
/// if it may: two servers that do not come to one for a session may be the end of the cluster.
ClusterConfig begin_child() {
  constexpr int kFirst = -10;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  (void)::setpriority(PRIO_PROCESS, 0, kFirst);
  auto config = ClusterConfig::read(std::getenv(kDisaggConfig));
  EXPECT_TRUE(config.ok()) << config.status().ToString();
  config.value().prepare_process();
  return config.take();
}

/// Empty: it keeps nothing.
std::string own_file() {
  const char* const file = std::getenv(kDisaggFile);
  return file == nullptr ? "" : file;
}

const std::atomic<bool> g_never{false};

}  // namespace

// Children.
TEST(DISABLED_DisaggServer, Coordinator) {
  (void)disagg::run_coordinator(begin_child(), own_file(), g_never);
}
TEST(DISABLED_DisaggServer, Memory) {
  (void)disagg::run_memory_server(begin_child(), 64 << 20, own_file(), g_never);
}
TEST(DISABLED_DisaggServer, Index) { disagg::run_index_server(begin_child(), 10'000, g_never); }

// Goal: a history that no order explains is found, whatever is wrong of it, and only that.
// Method: short ones, as the tests below write them.
// Mutation: a judgement that does not look at how the program ended; files that it does not read.
TEST(DisaggProcess, PorcupineFindsWhatIsWrong) {
  if (!Porcupine::is_there()) GTEST_SKIP() << "the build has no tools/linearize";
  const auto judge = [](const auto& write) {
    linearize::Recorder one(0);
    const Status found, nothing = Status::NotFound();
    one.add(10, 20, put_body("a", "1"));
    one.add(30, 40, put_body("b", "2"));
    one.add_unknown(50, put_body("a", "3"));
    one.add(60, 70, get_body("b", found, "2"));
    write(&one, found, nothing);
    const Porcupine porcupine("PorcupineFindsWhatIsWrong");
    porcupine.add("one", one.lines());
    return porcupine.judge();
  };
  using Recorder = linearize::Recorder;
  const auto right = [](Recorder* one, const Status& found, const Status& /*nothing*/) {
    one->add(80, 90, get_body("a", found, "1"));
    one->add(100, 110, range_body("a", "c", 2, {{"a", "3"}, {"b", "2"}}));
  };
  const auto lost = [](Recorder* one, const Status& /*found*/, const Status& nothing) {
    one->add(80, 90, get_body("b", nothing, ""));
  };
  const auto older = [](Recorder* one, const Status& found, const Status& /*nothing*/) {
    one->add(80, 90, get_body("a", found, "3"));
    one->add(100, 110, get_body("a", found, "1"));
  };
  // Each key by itself is explained.
  const auto ranges = [](Recorder* one, const Status& found, const Status& /*nothing*/) {
    one->add(71, 72, get_body("a", found, "3"));
    one->add(73, 200, put_body("a", "4"));
    one->add(74, 200, put_body("b", "5"));
    one->add(80, 90, range_body("a", "c", 2, {{"a", "4"}, {"b", "2"}}));
    one->add(82, 92, range_body("a", "c", 2, {{"a", "3"}, {"b", "5"}}));
  };
  EXPECT_EQ(judge(right), "");
  EXPECT_NE(judge(lost), "");
  EXPECT_NE(judge(older), "");
  EXPECT_NE(judge(ranges), "");
}

// Goal: the keys' history is linearizable where servers of indexes or of memory are killed, or
//   stand still, those of both indexes at once, too, or the coordinator does.
// Method: processes over shared memory, their own coordinator; a blow a run.
// Mutation: a range that is read in two halves, 3 ms apart, in each run, by porcupine alone.
TEST(DisaggProcess, OwnCoordinator) { run_all(Meet::kShared, 75); }

// Goal: the same, where ZooKeeper says who is there.
TEST(DisaggProcess, ZooKeeper) { run_all(Meet::kZooKeeper, 75); }

// Goal: the same over TCP, where cables are pulled out and in, or slow, and computers lost.
// Method: libfabric in software, each server in a network namespace of its own.
// Mutation: a question that is given to a server for as long as it may take in all fails within 20
//   runs.
TEST(DisaggProcess, Tcp) { run_all(Meet::kTcp, 75); }

// Goal: the same where each value is on one server that keeps it in a file, and memory servers, or
//   all servers, are killed at once and begin anew: nothing that was acknowledged is lost.
// Mutation: as of DisaggPowerCut.
TEST(DisaggProcess, Files) { run_all(Meet::kFiles, 75); }

// Goal: the same with three shards, whose indexes move to processes that come.
// Mutation: as of DisaggShards.IndexesMove.
TEST(DisaggProcess, Shards) { run_all(Meet::kShared, 75, 3); }

}  // namespace breccia::crash
