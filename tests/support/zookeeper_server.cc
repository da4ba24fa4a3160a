#include "support/zookeeper_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <random>
#include <thread>

#include "base/assert.h"

namespace breccia::testing {

namespace {

using std::chrono::steady_clock;

sockaddr_in address_of(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

/// One that the system gives nobody by itself: who connects to such a port while nobody listens at
/// it may be given it, and be connected to himself.
std::uint16_t free_port() {
  constexpr std::uint16_t kPorts = 16'384;
  std::random_device random;
  while (true) {
    const auto port = static_cast<std::uint16_t>(kPorts - 1 - random() % (kPorts / 2));
    const sockaddr_in address = address_of(port);
    const int door = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool is_free =
        ::bind(door, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    ::close(door);
    if (is_free) return port;
  }
}

}  // namespace

ZooKeeperServer::ZooKeeperServer() {
  BRECCIA_ASSERT(::access("/usr/share/java/zookeeper.jar", R_OK) == 0);
  start();
}

ZooKeeperServer::~ZooKeeperServer() { kill(); }

std::string ZooKeeperServer::hosts() const { return "127.0.0.1:" + std::to_string(port_); }

void ZooKeeperServer::start() {
  BRECCIA_ASSERT(process_ == 0);
  if (port_ == 0) port_ = free_port();
  const std::string settings = folder_ / "zoo.cfg";
  std::ofstream(settings)
      << "tickTime=50\nminSessionTimeout=100\nmaxSessionTimeout=60000\nmaxClientCnxns=0\n"
      << "clientPortAddress=127.0.0.1\nclientPort=" << port_ << "\ndataDir=" << folder_.path()
      << "\n";
  const std::string log = folder_ / "log";
  // UsePerfData: its file lies on a disk, which a pause of all threads waits for.
  const char* const command[] = {"java",
                                 "-Xmx64m",
                                 "-XX:+UseSerialGC",
                                 "-XX:TieredStopAtLevel=1",
                                 "-XX:-UsePerfData",
                                 "-Dzookeeper.admin.enableServer=false",
                                 "-Dzookeeper.jmx.log4j.disable=true",
                                 "-Dzookeeper.preAllocSize=1024",
                                 "-cp",
                                 "/usr/share/java/zookeeper.jar",
                                 "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                                 settings.c_str(),
                                 nullptr};
  process_ = ::fork();
  BRECCIA_ASSERT(process_ >= 0);
  if (process_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    // Where others use the processors it goes first, if it may: behind a pause as long as a session
    // it lets all of them go.
    constexpr int kFirst = -10;
    (void)::setpriority(PRIO_PROCESS, 0, kFirst);
    const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(out, STDERR_FILENO);
    ::execvp("java", const_cast<char* const*>(command));
    ::_exit(127);
  }
  const auto until = steady_clock::now() + std::chrono::seconds(60);
  while (!answers()) {
    BRECCIA_ASSERT(steady_clock::now() < until);
    BRECCIA_ASSERT(::waitpid(process_, nullptr, WNOHANG) == 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

bool ZooKeeperServer::answers() const {
  const int line = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = address_of(port_);
  // Who asks too early may get no answer at all.
  const timeval patience{.tv_sec = 0, .tv_usec = 200'000};
  BRECCIA_ASSERT(::setsockopt(line, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0);
  std::string answer;
  if (::connect(line, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
      ::send(line, "srvr", 4, MSG_NOSIGNAL) == 4) {
    char piece[512];
    ssize_t got = 0;
    while ((got = ::recv(line, piece, sizeof(piece), 0)) > 0) {
      answer.append(piece, static_cast<std::size_t>(got));
    }
  }
  ::close(line);
  return answer.find("Mode: standalone") != std::string::npos;
}

void ZooKeeperServer::send(int signal) const {
  BRECCIA_ASSERT(process_ > 0);
  BRECCIA_ASSERT(::kill(process_, signal) == 0);
}

void ZooKeeperServer::kill() {
  if (process_ == 0) return;
  send(SIGKILL);
  BRECCIA_ASSERT(::waitpid(process_, nullptr, 0) == process_);
  process_ = 0;
}

}  // namespace breccia::testing
