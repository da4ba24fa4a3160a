#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "crash/kill_process.h"
#include "disagg/client/client.h"
#include "disagg/cluster_config.h"
#include "disagg/cluster_map.h"
#include "disagg/cluster_servers.h"
#include "support/folder.h"
#include "support/seeds.h"
#include "support/zookeeper_server.h"
#include "unit/disagg/register_check.h"

/// A cluster of real processes over shared memory, some of which are killed, or stand still.

namespace breccia::crash {

namespace {

using disagg::Client;
using disagg::ClusterConfig;
using disagg::ClusterMap;
using disagg::testing::KeyOp;
using fabric::TimeUs;
using std::chrono::microseconds;

/// A session: short ones are measured where all seeds run; where tests run beside others, a server
/// may not come to a processor for longer.
TimeUs session_us() {
  constexpr std::uint64_t kAll = 100;
  return breccia::testing::share_of(kAll) >= kAll ? 200'000 : 2'000'000;
}
/// An operation has so long, and a cluster to be whole again.
constexpr TimeUs kLong = 20'000'000;
constexpr std::uint64_t kClients = 3, kKeys = 6;

/// What a child is told.
constexpr const char* kConfig = "BRECCIA_CLUSTER";

void sleep_us(TimeUs us) { std::this_thread::sleep_for(microseconds(us)); }

/// The processes of a cluster's servers.
class Processes {
 public:
  /// By a server of its own, or ZooKeeper.
  explicit Processes(bool by_zookeeper) {
    config_.ports = folder_.path();
    config_.session_ms = session_us() / 1000;
    config_.copies = 2;
    config_.coordinator = "local:" + folder_.path() + "/coordinator";
    if (by_zookeeper) {
      zookeeper_ = std::make_unique<breccia::testing::ZooKeeperServer>();
      config_.coordinator = "zookeeper:" + zookeeper_->hosts() + ";/breccia";
    }
    EXPECT_TRUE(config_.write(folder_ / "cluster.json").ok());
    if (!by_zookeeper) start("Coordinator");
    for (int i = 0; i < 2; ++i) start("Memory");
    // One of each, and one that waits.
    for (int i = 0; i < 3; ++i) start("Index");
  }
  ~Processes() {
    for (const pid_t process : all_) {
      ::kill(process, SIGCONT);
      ::kill(process, SIGKILL);
      ::waitpid(process, nullptr, 0);
    }
  }

  void start(const std::string& what) {
    all_.insert(spawn_self("DISABLED_DisaggServer." + what,
                           {std::string(kConfig) + "=" + (folder_ / "cluster.json")}));
  }
  void kill(pid_t process) {
    ASSERT_EQ(all_.erase(process), 1U);
    ::kill(process, SIGKILL);
    ::waitpid(process, nullptr, 0);
  }
  [[nodiscard]] const ClusterConfig& config() const { return config_; }

 private:
  const breccia::testing::Folder folder_{breccia::testing::Place::kMemory};
  ClusterConfig config_;
  std::unique_ptr<breccia::testing::ZooKeeperServer> zookeeper_;
  std::set<pid_t> all_;
};

/// Whether a memory server and its mirror are there, and have the same.
bool has_two(const ClusterMap::Memory& one, const std::set<std::string>& members) {
  return !one.is_lost && one.mirror.is_whole && members.contains(one.member) &&
         members.contains(one.mirror.member);
}

/// Waits until both indexes are whole and their servers there, and two memory servers.
/// Shape   a map without members, if that takes too long.
ClusterMap wait_until_whole(const ClusterConfig& config, const std::string& name) {
  auto met = disagg::MetCoordinator::meet(config, name);
  if (!met.ok()) return {};
  for (const TimeUs late = base::now_us() + kLong; base::now_us() < late; sleep_us(5000)) {
    const auto* const view = met.value().coordinator->look();
    if (view == nullptr) continue;
    const auto map = ClusterMap::decode(view->document);
    const bool is_whole = map.ok() && map.value().hash.is_whole && map.value().ordered.is_whole &&
                          !map.value().memory.empty() &&
                          has_two(map.value().memory.front(), view->members);
    if (is_whole && view->members.contains(map.value().hash.member) &&
        view->members.contains(map.value().ordered.member)) {
      return map.value();
    }
  }
  return {};
}

/// Of a member's name: WHAT-PROCESS-NUMBER.
pid_t process_of(const std::string& member) {
  const std::size_t dash = member.find('-');
  return dash == std::string::npos ? 0 : std::atoi(member.c_str() + dash + 1);
}

/// One client's operations on a run's keys, until it is over.
class Worker {
 public:
  Worker(const ClusterConfig& config, std::uint64_t run, std::uint64_t number, std::uint64_t seed)
      : name_("client" + std::to_string(run) + "." + std::to_string(number)),
        prefix_("r" + std::to_string(run) + "k"),
        random_(seed) {
    auto port = config.open_port(name_);
    auto met = disagg::MetCoordinator::meet(config, name_ + ".c");
    EXPECT_TRUE(port.ok() && met.ok());
    if (!port.ok() || !met.ok()) return;
    port_ = port.take();
    met_ = met.take();
    auto client = Client::open(port_.get(), met_.coordinator.get(), {}, base::now_us() + kLong);
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

 private:
  void step(std::uint64_t turn) {
    const std::string key = prefix_ + std::to_string(random_.below(kKeys));
    KeyOp op{.what = KeyOp::What::kRead, .value = {}, .called = base::now_us(), .returned = 0};
    const TimeUs until = op.called + kLong;
    Status status;
    if (random_.one_in(2)) {
      std::string found;
      status = client_->get(key, &found, until);
      EXPECT_TRUE(status.ok() || status.IsNotFound()) << status.ToString();
      if (status.ok()) op.value = found;
      if (status.IsNotFound()) status = Status::OK();
    } else {
      op.what = KeyOp::What::kWrite;
      const bool deletes = random_.one_in(4);
      if (!deletes) op.value = name_ + "." + std::to_string(turn);
      status = deletes ? client_->erase(key, until) : client_->put(key, *op.value, until);
      EXPECT_TRUE(status.ok() || status.IsIOError()) << status.ToString();
      if (status.ok()) {
        writes_.emplace_back(op.called, base::now_us());
        last_write_ = op.called;
      }
    }
    op.returned = status.ok() ? base::now_us() : KeyOp::kNever;
    history_[key].push_back(op);
  }

  const std::string name_, prefix_;
  base::Random random_;
  std::unique_ptr<fabric::Port> port_;
  disagg::MetCoordinator met_;
  std::unique_ptr<Client> client_;
  std::map<std::string, std::vector<KeyOp>> history_;
  std::vector<std::pair<TimeUs, TimeUs>> writes_;
  std::atomic<TimeUs> last_write_{0};
};

/// Strikes one index or memory server, and returns when.
TimeUs strike(Processes* processes, const ClusterMap& map, base::Random* random, bool* is_kill) {
  // Where one process came to have both indexes, as no other one was there in time, they would be
  // lost together.
  const bool is_one = process_of(map.hash.member) == process_of(map.ordered.member);
  const bool is_index = random->one_in(2) && !is_one;
  const ClusterMap::Memory& memory = map.memory.front();
  const std::string& victim = random->one_in(2)
                                  ? (is_index ? map.hash.member : memory.member)
                                  : (is_index ? map.ordered.member : memory.mirror.member);
  const pid_t process = process_of(victim);
  *is_kill = random->one_in(2);
  const TimeUs time = base::now_us();
  if (*is_kill) {
    processes->kill(process);
    processes->start(is_index ? "Index" : "Memory");
  } else {
    ::kill(process, SIGSTOP);
    sleep_us(random->below(3 * session_us()));
    ::kill(process, SIGCONT);
  }
  return time;
}

/// A run: clients, and in the midst of it a blow. What it took to acknowledge writes again goes to
/// *routed.
void run_once(Processes* processes, std::uint64_t run, std::uint64_t seed,
              std::vector<TimeUs>* routed) {
  base::Random random(seed);
  const ClusterMap map = wait_until_whole(processes->config(), "look" + std::to_string(run));
  ASSERT_FALSE(map.hash.member.empty()) << "the cluster is not whole";
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
  bool is_kill = false;
  const TimeUs time = strike(processes, map, &random, &is_kill);
  const auto goes_on = [&] {
    return std::all_of(workers.begin(), workers.end(),
                       [time](const auto& worker) { return worker->writes_behind(time); });
  };
  for (const TimeUs late = time + kLong; !goes_on() && base::now_us() < late;) sleep_us(2000);
  EXPECT_TRUE(goes_on());
  sleep_us(50'000);
  is_over = true;
  for (std::thread& thread : threads) thread.join();

  std::map<std::string, std::vector<KeyOp>> all;
  for (const auto& worker : workers) {
    for (const auto& [key, ops] : worker->history()) {
      all[key].insert(all[key].end(), ops.begin(), ops.end());
    }
    const TimeUs again = worker->first_write_behind(time);
    if (is_kill && again > 0) routed->push_back(again - time);
  }
  for (const auto& [key, ops] : all) EXPECT_TRUE(disagg::testing::is_linearizable(ops)) << key;
}

void run_all(bool by_zookeeper, std::uint64_t runs) {
  const auto seeds = breccia::testing::seeds_to_run(runs);
  Processes processes(by_zookeeper);
  std::vector<TimeUs> routed;
  std::uint64_t run = 0;
  for (const std::uint64_t seed : seeds) {
    SCOPED_TRACE(breccia::testing::replay_command(seed));
    run_once(&processes, ++run, seed, &routed);
    if (::testing::Test::HasFailure()) return;
  }
  if (routed.empty()) return;
  std::sort(routed.begin(), routed.end());
  std::printf("clients were routed again behind a kill: %zu times, p50 %.0f ms, p99 %.0f ms\n",
              routed.size(), static_cast<double>(routed[routed.size() / 2]) / 1000,
              static_cast<double>(routed[routed.size() * 99 / 100]) / 1000);
}

/// What a child begins with: it ends with the test.
ClusterConfig begin_child() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  auto config = ClusterConfig::read(std::getenv(kConfig));
  EXPECT_TRUE(config.ok()) << config.status().ToString();
  return config.take();
}

const std::atomic<bool> g_never{false};

}  // namespace

// Children.
TEST(DISABLED_DisaggServer, Coordinator) {
  (void)disagg::run_coordinator(begin_child(), "", g_never);
}
TEST(DISABLED_DisaggServer, Memory) { disagg::run_memory_server(begin_child(), 64 << 20, g_never); }
TEST(DISABLED_DisaggServer, Index) { disagg::run_index_server(begin_child(), 10'000, g_never); }

// Goal: each key's history is linearizable where servers of indexes or of memory are killed, or
//   stand still.
// Method: processes over shared memory, their own coordinator; a blow a run.
TEST(DisaggProcess, OwnCoordinator) { run_all(/*by_zookeeper=*/false, 75); }

// Goal: the same, where ZooKeeper says who is there.
TEST(DisaggProcess, ZooKeeper) { run_all(/*by_zookeeper=*/true, 75); }

}  // namespace breccia::crash
