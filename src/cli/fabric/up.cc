#include "cli/fabric/up.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/descriptor.h"
#include "cli/fabric/status.h"
#include "console/console.h"
#include "disagg/cluster_config.h"

namespace breccia::cli::fabric {

namespace {

namespace fs = std::filesystem;
using disagg::ClusterConfig;

constexpr auto kTurn = std::chrono::milliseconds(50);
/// Who ended by itself begins again behind that time.
constexpr auto kPause = std::chrono::milliseconds(500);
constexpr auto kUpWithin = std::chrono::seconds(30);
/// Where there are values, which indexes are made of, and copied to mirrors.
constexpr auto kBackWithin = std::chrono::minutes(30);
constexpr auto kSayAgain = std::chrono::seconds(5);

std::atomic<bool> g_is_over{false};

/// Processes of this program, by what they were told to do.
/// Threads one, and there is no other one in the process.
class Servers {
 public:
  ~Servers() { end(); }

  /// Errors  IOError: there is no process.
  Status start(const std::vector<std::string>& words) {
    const pid_t parent = ::getpid();
    const pid_t child = ::fork();
    if (child < 0) return Status::IOError("cannot start a process", std::strerror(errno));
    if (child == 0) run(parent, words);
    words_.emplace(child, words);
    return Status::OK();
  }
  /// Starts those again that have ended.
  Status tend() {
    int ended = 0;
    for (pid_t child = 0; (child = ::waitpid(-1, &ended, WNOHANG)) > 0;) {
      const auto found = words_.find(child);
      if (found == words_.end()) continue;
      const std::vector<std::string> words = std::move(found->second);
      words_.erase(found);
      console::say(fmt::format("`breccia {}` (process {}) ended; it begins again",
                               fmt::join(words, " "), child));
      std::this_thread::sleep_for(kPause);
      BRECCIA_TRY(start(words));
    }
    return Status::OK();
  }
  void say() const {
    for (const auto& [child, words] : words_) {
      console::say(fmt::format("  {:>8}  {}", child, words.at(1)));
    }
  }

 private:
  [[noreturn]] static void run(pid_t parent, const std::vector<std::string>& words) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(0);
    std::vector<char*> arguments = {const_cast<char*>("breccia")};
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    ::execv("/proc/self/exe", arguments.data());
    ::_exit(127);
  }
  void end() {
    for (const auto& [child, words] : words_) ::kill(child, SIGTERM);
    for (const auto& [child, words] : words_) ::waitpid(child, nullptr, 0);
    words_.clear();
  }

  std::map<pid_t, std::vector<std::string>> words_;
};

std::string values_file(const UpOptions& options, std::uint32_t server) {
  return (fs::absolute(options.folder) / fmt::format("values-{}", server)).string();
}

Status start_all(const UpOptions& options, const std::string& config, const std::string& kept,
                 Servers* servers) {
  BRECCIA_TRY(servers->start({"fabric", "coordinator", "--config", config, "--file", kept}));
  const std::string bytes = std::to_string(options.memory_bytes >> 20);
  for (std::uint32_t i = 0; i < options.memory_servers; ++i) {
    std::vector<std::string> words = {"fabric", "memory",       "--config",
                                      config,   "--memory_mib", bytes};
    if (options.keeps) words.insert(words.end(), {"--file", values_file(options, i)});
    BRECCIA_TRY(servers->start(words));
  }
  const std::string keys = std::to_string(options.keys);
  for (std::uint32_t i = 0; i < options.index_servers; ++i) {
    BRECCIA_TRY(servers->start({"fabric", "index", "--config", config, "--keys", keys}));
  }
  return Status::OK();
}

/// Whether values can be written. What comes back is in use before it has a mirror again.
bool has_memory(const Seen& seen, const ClusterConfig& config) {
  return std::any_of(seen.map.memory.begin(), seen.map.memory.end(), [&](const auto& one) {
    const bool is_there = !one.is_lost && seen.view.members.contains(one.member);
    const bool is_in_use = one.is_in_use && one.has_medium();
    return is_there && (config.copies == 1 || one.mirror.is_whole || is_in_use);
  });
}

/// Whole ones, of servers that answer: what comes back is in the map as it was.
bool has_indexes(const Seen& seen) {
  const auto is_whole = [](const auto& index, const auto& state) {
    return index.is_whole && state.has_value();
  };
  for (std::size_t i = 0; i < seen.shards.size(); ++i) {
    const disagg::ClusterMap::Shard& shard = seen.map.shards[i];
    if (!is_whole(shard.hash, seen.shards[i].hash)) return false;
    if (!is_whole(shard.ordered, seen.shards[i].ordered)) return false;
  }
  return !seen.shards.empty();
}

/// Until all indexes are whole.
Status wait_until_up(const ClusterConfig& config, bool comes_back, Servers* servers) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const auto late = begin + (comes_back ? Clock::duration(kBackWithin) : kUpWithin);
  auto say_again = begin + kSayAgain;
  while (!g_is_over && Clock::now() < late) {
    BRECCIA_TRY(servers->tend());
    const auto seen = look_at(config);
    const bool is_up = seen.ok() && has_indexes(seen.value()) && has_memory(seen.value(), config);
    if (is_up) return Status::OK();
    if (Clock::now() >= say_again) {
      console::say(!seen.ok()                         ? "waiting for the coordinator"
                   : has_memory(seen.value(), config) ? "indexes are being made of values"
                                                      : "memory servers read values");
      say_again = Clock::now() + kSayAgain;
    }
    std::this_thread::sleep_for(kTurn);
  }
  if (g_is_over) return Status::OK();
  return Status::TimedOut(
      fmt::format("the cluster is not there after {} seconds",
                  std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - begin).count()));
}

/// Where the coordinator is to be. Over a network at a port that is free now.
Result<std::string> coordinator_address(const ClusterConfig& config) {
  if (config.transport == "local") return "local:" + config.ports + "/coordinator";
  BRECCIA_TAKE(const auto port, config.open_port("coordinator"));
  return port->address();
}

}  // namespace

Status run_up(const UpOptions& options) {
  if (options.memory_servers < options.copies) {
    return Status::InvalidArgument("more copies than memory servers",
                                   "--copies 1, or more --memory_servers");
  }
  std::error_code error;
  const fs::path folder = fs::absolute(options.folder, error);
  const fs::path ports = folder / ("run-" + std::to_string(::getpid()));
  ClusterConfig config = options.network;
  config.copies = options.copies;
  config.shards = options.shards;
  if (config.transport == "local") config.ports = ports.string();
  BRECCIA_TAKE(config.coordinator, coordinator_address(config));
  fs::create_directories(ports, error);
  if (error) return Status::IOError("cannot make " + ports.string(), error.message());
  fs::permissions(ports, fs::perms::owner_all, error);
  const base::Descriptor lock(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (options.keeps && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    fs::remove_all(ports, error);
    return Status::Busy("another cluster keeps its values in " + folder.string());
  }
  const std::string file = (folder / "cluster.json").string();
  BRECCIA_TRY(config.write(file));
  ::signal(SIGTERM, [](int) { g_is_over = true; });
  ::signal(SIGINT, [](int) { g_is_over = true; });
  Status status;
  {
    Servers servers;
    const fs::path kept = (options.keeps ? folder : ports) / "coordinator.json";
    const bool comes_back = fs::exists(kept, error);
    if (comes_back) console::say("the cluster comes back with values of " + folder.string());
    status = start_all(options, file, kept.string(), &servers);
    if (status.ok()) status = wait_until_up(config, comes_back, &servers);
    if (status.ok() && !g_is_over) {
      console::say("the cluster is up; its processes:");
      servers.say();
      console::say(fmt::format("look at it: breccia fabric status --config {}", file));
    }
    while (status.ok() && !g_is_over) {
      std::this_thread::sleep_for(kTurn);
      status = servers.tend();
    }
  }
  fs::remove_all(ports, error);
  fs::remove(file, error);
  return status;
}

}  // namespace breccia::cli::fabric
