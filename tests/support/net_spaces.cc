#include "support/net_spaces.h"

#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/assert.h"

namespace breccia::testing {

namespace {

using base::Descriptor;

/// Of computers: the last byte of an address.
constexpr std::size_t kNumberMax = 254;

/// The network that the thread is in.
Descriptor here() { return Descriptor(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)); }

/// Where the thread is from here on.
void go_to(int space) { BRECCIA_ASSERT(::setns(space, CLONE_NEWNET) == 0); }

/// Runs a program with words, where the thread is. False: it failed.
bool run(const std::string& command) {
  std::vector<std::string> words;
  for (std::size_t at = 0, end = 0; at < command.size(); at = end + 1) {
    end = std::min(command.find(' ', at), command.size());
    words.push_back(command.substr(at, end - at));
  }
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t quiet;
  posix_spawn_file_actions_init(&quiet);
  posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int error =
      ::posix_spawnp(&child, arguments[0], &quiet, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&quiet);
  if (error != 0) return false;
  int ended = 0;
  while (::waitpid(child, &ended, 0) < 0) {
    if (errno != EINTR) return false;
  }
  return WIFEXITED(ended) && WEXITSTATUS(ended) == 0;
}

template <class... Words>
bool run_all(const Words&... commands) {
  return (run(commands) && ...);
}

/// All that is there is near, so TCP need not wait for 200 ms before it sends again what was lost.
bool send_again_soon(const std::string& device, const std::string& address) {
  return run("ip route change 10.77.0.0/24 dev " + device + " proto kernel scope link src " +
             address + " rto_min 20ms");
}

}  // namespace

std::unique_ptr<NetSpaces> NetSpaces::make(std::string* why_not) {
  std::unique_ptr<NetSpaces> spaces(new NetSpaces());
  spaces->home_ = here();
  if (!spaces->home_.is_open() || ::unshare(CLONE_NEWNET) != 0) {
    *why_not = std::string("no network of its own: ") + std::strerror(errno) +
               "; it takes root, or CAP_SYS_ADMIN and CAP_NET_ADMIN";
    spaces->home_ = Descriptor();
    return nullptr;
  }
  spaces->hub_ = here();
  if (!run_all("ip link set lo up", "ip link add switch type bridge",
               "ip addr add " + own_address() + "/24 dev switch", "ip link set switch up",
               "tc -V") ||
      !send_again_soon("switch", own_address())) {
    *why_not = "no switch; it takes ip and tc, of iproute2, and a kernel with bridges";
    return nullptr;
  }
  const auto first = spaces->add();
  if (first.has_value() && spaces->set_speed(*first, 1'000'000) && spaces->set_speed(*first, 0)) {
    return spaces;
  }
  *why_not = "no cables; it takes a kernel with pairs of veth, and tbf";
  return nullptr;
}

NetSpaces::~NetSpaces() {
  if (home_.is_open()) go_to(home_.get());
}

std::string NetSpaces::address_of_number(std::size_t number) {
  BRECCIA_ASSERT(number > 0 && number <= kNumberMax);
  return "10.77.0." + std::to_string(number);
}

std::string NetSpaces::address(Space space) const {
  BRECCIA_ASSERT(space < spaces_.size());
  return address_of_number(space + 2);
}

std::optional<NetSpaces::Space> NetSpaces::add() {
  if (::unshare(CLONE_NEWNET) != 0) return std::nullopt;
  spaces_.push_back(here());
  go_to(hub_.get());
  const Space space = spaces_.size() - 1;
  return lay_cable(space) ? std::optional(space) : std::nullopt;
}

bool NetSpaces::lay_cable(Space space) const {
  // By the descriptor, as it has no name; the program has it only for this.
  const int there = spaces_[space].get();
  BRECCIA_ASSERT(::fcntl(there, F_SETFD, 0) == 0);
  const std::string port = port_of(space);
  const bool is_laid = run_all("ip link add " + port + " type veth peer name cable netns " +
                                   "/proc/self/fd/" + std::to_string(there),
                               "ip link set " + port + " master switch up");
  BRECCIA_ASSERT(::fcntl(there, F_SETFD, FD_CLOEXEC) == 0);
  const Within within(*this, space);
  return is_laid &&
         run_all("ip link set lo up", "ip addr add " + address(space) + "/24 dev cable",
                 "ip link set cable up") &&
         send_again_soon("cable", address(space));
}

NetSpaces::Within::Within(const NetSpaces& spaces, Space space) : back_(spaces.hub_.get()) {
  BRECCIA_ASSERT(space < spaces.spaces_.size());
  go_to(spaces.spaces_[space].get());
}
NetSpaces::Within::~Within() { go_to(back_); }

bool NetSpaces::set_link(Space space, bool is_up) const {
  return run("ip link set " + port_of(space) + (is_up ? " up" : " down"));
}

bool NetSpaces::set_speed(Space space, std::uint64_t bits) const {
  const auto set = [bits](const std::string& at) {
    if (bits == 0) return run("tc qdisc del dev " + at + " root");
    return run("tc qdisc replace dev " + at + " root tbf rate " + std::to_string(bits) +
               "bit burst 16kb latency 50ms");
  };
  const bool is_there = set(port_of(space));
  const Within within(*this, space);
  return is_there && set("cable");
}

}  // namespace breccia::testing
