#include "crash/disagg_processes.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/clock.h"
#include "crash/kill_process.h"

namespace breccia::crash {

namespace {

using breccia::testing::NetSpaces;
using disagg::ClusterConfig;
using disagg::ClusterMap;
using fabric::TimeUs;

/// One for each index, and one that waits.
constexpr std::size_t kIndexServers = 3;

/// Whether each index has its server, and others wait for its place.
bool has_indexes(const ClusterMap& map, const std::set<std::string>& members) {
  const auto are_enough = [&](const std::string& kind) {
    return std::count_if(members.begin(), members.end(), [&kind](const std::string& member) {
             return member.starts_with(kind);
           }) >= static_cast<std::ptrdiff_t>(kIndexServers * map.shards.size());
  };
  const auto has = [&members](const ClusterMap::Index& index) {
    return index.is_whole && members.contains(index.member);
  };
  return !map.shards.empty() &&
         std::all_of(map.shards.begin(), map.shards.end(),
                     [&](const auto& one) { return has(one.hash) && has(one.ordered); }) &&
         are_enough("hash-") && are_enough("ordered-");
}

/// Whether memory servers are there, and their mirrors have the same, if there are to be such.
bool has_memory(const ClusterMap& map, std::uint32_t copies, const std::set<std::string>& members) {
  const auto is_there = [&](const ClusterMap::Memory& one) {
    if (one.is_moved) return true;
    const bool has_mirror = one.mirror.is_whole && members.contains(one.mirror.member);
    return !one.is_lost && members.contains(one.member) && (copies == 1 || has_mirror);
  };
  const auto& all = map.memory;
  if (all.empty()) return false;
  return copies == 1 ? std::all_of(all.begin(), all.end(), is_there) : is_there(all.front());
}

}  // namespace

pid_t process_of(const std::string& member) {
  const std::size_t dash = member.find('-');
  return dash == std::string::npos ? 0 : std::atoi(member.c_str() + dash + 1);
}

DisaggProcesses::DisaggProcesses(std::uint32_t shards, TimeUs session_us) {
  config_.shards = shards;
  config_.session_ms = session_us / 1000;
  config_.copies = 2;
}

std::unique_ptr<DisaggProcesses> DisaggProcesses::make(Meet meet, std::uint32_t shards,
                                                       TimeUs session_us, std::string* why_not) {
  std::unique_ptr<DisaggProcesses> all(new DisaggProcesses(shards, session_us));
  ClusterConfig& config = all->config_;
  if (meet == Meet::kTcp) {
    all->spaces_ = NetSpaces::make(why_not);
    if (all->spaces_ == nullptr) return nullptr;
    config.transport = "libfabric";
    config.provider = "tcp;ofi_rxm";
    config.allow_software = true;
    config.node = NetSpaces::own_address();
    config.coordinator = "fi:tcp:" + all->spaces_->next_address() + ":4711";
    config.prepare_process();
  } else {
    config.ports = all->folder_.path();
    config.coordinator = "local:" + all->folder_.path() + "/coordinator";
  }
  if (meet == Meet::kZooKeeper) {
    all->zookeeper_ = std::make_unique<breccia::testing::ZooKeeperServer>();
    config.coordinator = "zookeeper:" + all->zookeeper_->hosts() + ";/breccia";
  } else {
    const bool keeps = meet == Meet::kFiles;
    all->coordinator_ = all->start("Coordinator", keeps ? all->folder_ / "coordinator.json" : "");
  }
  if (meet == Meet::kFiles) config.copies = 1;
  for (int i = 0; i < 2; ++i) {
    const bool keeps = meet == Meet::kFiles;
    all->start("Memory", keeps ? all->folder_ / ("values" + std::to_string(i)) : "");
  }
  for (std::size_t i = 0; i < kIndexServers; ++i) all->start("Index");
  return all;
}

DisaggProcesses::~DisaggProcesses() {
  for (const auto& [process, child] : all_) {
    ::kill(process, SIGCONT);
    ::kill(process, SIGKILL);
    ::waitpid(process, nullptr, 0);
  }
}

pid_t DisaggProcesses::start(const std::string& what) { return start(what, ""); }

pid_t DisaggProcesses::start(const std::string& what, const std::string& own_file) {
  ClusterConfig config = config_;
  NetSpaces::Space space = 0;
  std::optional<NetSpaces::Within> there;
  if (spaces_ != nullptr) {
    const auto added = spaces_->add();
    BRECCIA_ASSERT(added.has_value());
    space = *added;
    config.node = spaces_->address(space);
    there.emplace(*spaces_, space);
  }
  const std::string file = folder_ / ("cluster" + std::to_string(files_++) + ".json");
  const Status written = config.write(file);
  EXPECT_TRUE(written.ok()) << written.ToString();
  const pid_t process = spawn_self(
      "DISABLED_DisaggServer." + what,
      {std::string(kDisaggConfig) + "=" + file, std::string(kDisaggFile) + "=" + own_file});
  all_.emplace(process, Child{.what = what, .file = own_file, .space = space});
  return process;
}

void DisaggProcesses::cut_power(bool of_all) {
  std::vector<Child> cut;
  std::vector<pid_t> processes;
  for (const auto& [process, child] : all_) {
    if (!of_all && child.what != "Memory") continue;
    processes.push_back(process);
    cut.push_back(child);
  }
  for (const pid_t process : processes) ::kill(process, SIGKILL);
  for (const pid_t process : processes) {
    ::waitpid(process, nullptr, 0);
    all_.erase(process);
  }
  for (const Child& child : cut) {
    const pid_t process = start(child.what, child.file);
    if (child.what == "Coordinator") coordinator_ = process;
  }
}

void DisaggProcesses::kill(pid_t process) {
  ASSERT_EQ(all_.erase(process), 1U);
  ::kill(process, SIGKILL);
  ::waitpid(process, nullptr, 0);
}

void DisaggProcesses::hold_coordinator(bool stands) const {
  const int signal = stands ? SIGSTOP : SIGCONT;
  coordinator_ == 0 ? zookeeper_->send(signal) : void(::kill(coordinator_, signal));
}

void DisaggProcesses::set_link(pid_t process, bool is_up) const {
  ASSERT_TRUE(spaces_ != nullptr && all_.contains(process));
  EXPECT_TRUE(spaces_->set_link(all_.at(process).space, is_up));
}

void DisaggProcesses::set_speed(pid_t process, std::uint64_t bits) const {
  ASSERT_TRUE(spaces_ != nullptr && all_.contains(process));
  EXPECT_TRUE(spaces_->set_speed(all_.at(process).space, bits));
}

ClusterMap DisaggProcesses::wait_until_whole(const std::string& name, std::string* seen) const {
  auto met = disagg::MetCoordinator::meet(config_, name);
  if (!met.ok()) return {};
  for (const TimeUs late = base::now_us() + kDisaggLongUs; base::now_us() < late;
       std::this_thread::sleep_for(std::chrono::milliseconds(5))) {
    const auto* const view = met.value().coordinator->look();
    if (view == nullptr) continue;
    *seen = view->document;
    for (const std::string& member : view->members) *seen += "\n" + member;
    const auto map = ClusterMap::decode(view->document);
    const bool is_whole = map.ok() && has_indexes(map.value(), view->members) &&
                          has_memory(map.value(), config_.copies, view->members);
    if (is_whole) return map.value();
  }
  return {};
}

}  // namespace breccia::crash
