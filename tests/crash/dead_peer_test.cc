#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "crash/kill_process.h"
#include "disagg/answers.h"
#include "disagg/asking.h"
#include "fabric/libfabric/libfabric_port.h"
#include "fabric/libfabric/library.h"
#include "fabric/local/local_port.h"
#include "support/folder.h"
#include "support/net_spaces.h"
#include "support/seeds.h"

/// How late calls end whose peer is dead, by real clocks: a process that is killed, or stands
/// still, over shared memory and TCP, or a computer whose cable is out.

namespace breccia::crash {

namespace {

using breccia::testing::NetSpaces;
using fabric::PeerId;
using fabric::Port;
using fabric::Read;
using fabric::RegionName;
using fabric::TimeUs;
using fabric::Write;

constexpr std::uint64_t kRegionBytes = 1 << 20;
constexpr TimeUs kLongUs = 20'000'000;
/// By then it is noticed that a process has ended.
constexpr TimeUs kNoticedUs = 2000;
/// A call may end so much later than it was said.
constexpr TimeUs kLateUs = 10'000;

/// Of a child's environment: the socket that it has, or its computer's address; and where it writes
/// how it is reached.
constexpr const char* kPeerSocket = "BRECCIA_PEER_SOCKET";
constexpr const char* kPeerNode = "BRECCIA_PEER_NODE";
constexpr const char* kPeerFile = "BRECCIA_PEER_FILE";

void sleep_us(TimeUs us) { std::this_thread::sleep_for(std::chrono::microseconds(us)); }

std::unique_ptr<Port> open_tcp(const std::string& node) {
  auto port = fabric::libfabric::LibfabricPort::open({.policy = fabric::libfabric::Policy::kTcp,
                                                      .allow_software = true,
                                                      .node = node,
                                                      .service = {}});
  EXPECT_TRUE(port.ok()) << port.status().ToString();
  return port.ok() ? port.take() : nullptr;
}

std::unique_ptr<Port> open_local(const std::string& socket) {
  auto port = fabric::local::LocalPort::open(socket);
  EXPECT_TRUE(port.ok()) << port.status().ToString();
  return port.ok() ? port.take() : nullptr;
}

/// As long as it is there, threads that are started, and this one, go before those of others, as if
/// nobody else used the computer; if they may.
class First {
 public:
  First() { is_first_ = set(SCHED_RR, 1); }
  ~First() { (void)set(SCHED_OTHER, 0); }
  First(const First&) = delete;
  First& operator=(const First&) = delete;

  [[nodiscard]] bool is_first() const { return is_first_; }

 private:
  static bool set(int policy, int priority) {
    const sched_param of{.sched_priority = priority};
    return ::sched_setscheduler(0, policy, &of) == 0;
  }
  bool is_first_;
};

/// What a computer that others use, too, adds to how late a call ends: a thread that wakes each
/// millisecond sees how late it does that itself.
class Pulse {
 public:
  Pulse() : thread_([this] { beat(); }) {}
  ~Pulse() {
    is_over_ = true;
    thread_.join();
  }
  Pulse(const Pulse&) = delete;
  Pulse& operator=(const Pulse&) = delete;

  /// The latest since the last time that it was asked.
  TimeUs late_us() {
    const TimeUs due = last_.load() + kBeatUs, now = base::now_us();
    return std::max(late_.exchange(0), now > due ? now - due : 0);
  }

 private:
  static constexpr TimeUs kBeatUs = 1000;

  void beat() {
    while (!is_over_) {
      sleep_us(kBeatUs);
      const TimeUs now = base::now_us();
      late_ = std::max(late_.load(), now - last_.load() - kBeatUs);
      last_ = now;
    }
  }

  std::atomic<bool> is_over_{false};
  std::atomic<TimeUs> last_{base::now_us()}, late_{0};
  std::thread thread_;
};

// ---- a peer -------------------------------------------------------------------------------------

enum class Death : std::uint8_t { kKilled, kStopped, kCut };

/// A process with a port and a region, on a computer of its own if there are any.
class Peer {
 public:
  Peer(const breccia::testing::Folder& folder, NetSpaces* spaces, std::uint64_t number)
      : spaces_(spaces), file_(folder / ("peer" + std::to_string(number))) {
    std::optional<NetSpaces::Within> there;
    std::string at = std::string(kPeerSocket) + "=" + file_ + ".socket";
    if (spaces != nullptr) {
      space_ = spaces->add().value();
      at = std::string(kPeerNode) + "=" + spaces->address(space_);
      there.emplace(*spaces, space_);
    }
    process_ = spawn_self("DISABLED_DeadPeer.Serve", {at, std::string(kPeerFile) + "=" + file_});
    for (const TimeUs late = base::now_us() + kLongUs; base::now_us() < late; sleep_us(1000)) {
      std::ifstream told(file_);
      if (told >> address >> region.key >> region.base >> region.bytes) return;
    }
    ADD_FAILURE() << "a peer says nothing";
  }
  ~Peer() { end(); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  void die(Death death) {
    if (death == Death::kKilled) end();
    if (death == Death::kStopped) ::kill(process_, SIGSTOP);
    EXPECT_TRUE(death != Death::kCut || spaces_->set_link(space_, false));
  }
  /// Of those that can.
  void come_back(Death death) const {
    if (death == Death::kStopped) ::kill(process_, SIGCONT);
    EXPECT_TRUE(death != Death::kCut || spaces_->set_link(space_, true));
  }

  std::string address;
  RegionName region;

 private:
  void end() {
    if (process_ == 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = 0;
  }

  NetSpaces* const spaces_;
  const std::string file_;
  NetSpaces::Space space_ = 0;
  pid_t process_ = 0;
};

// ---- calls --------------------------------------------------------------------------------------

/// What a port can be asked for about a peer, by time.
class Calls {
 public:
  Calls(Port* port, const Peer& peer) : port_(port), peer_(peer), asking_(port, kAgainUs) {
    peer_id_ = connect(port->now_us() + kLongUs).value();
  }

  /// What the peer does not answer.
  static constexpr std::uint8_t kMute = 77;
  static constexpr std::array kNames = {"read", "many reads",    "large read", "write",  "writes",
                                        "send", "large message", "ask",        "connect"};
  /// Shape   `which` is of kNames.
  Status run(std::size_t which, TimeUs until) {
    switch (which) {
      case 0:
        return read(1, kLine, until);
      case 1:
        return read(kMany, kLine, until);
      case 2:
        return read(1, kRegionBytes / 4, until);
      case 3:
        return write(1, until);
      case 4:
        return write(kMany, until);
      case 5:
      case 6:
        return port_->send(peer_id_, {.kind = kMute},
                           std::span(bytes_).first(which == 5 ? kLine : kRegionBytes), until);
      case 7:
        return asking_.ask(peer_id_, disagg::Ask::kState, {}, until).status();
      default:
        return connect(until).status();
    }
  }

 private:
  static constexpr std::size_t kLine = 64, kMany = 64;
  static constexpr TimeUs kAgainUs = 2000;

  Status read(std::size_t count, std::size_t bytes, TimeUs until) {
    std::vector<Read> reads;
    for (std::size_t i = 0; i < count; ++i) {
      reads.push_back({peer_.region, 2 * i * bytes, std::span(bytes_).subspan(i * bytes, bytes)});
    }
    return port_->read(peer_id_, reads, until);
  }
  Status write(std::size_t count, TimeUs until) {
    std::vector<Write> writes;
    for (std::size_t i = 0; i < count; ++i) {
      writes.push_back({peer_.region, 2 * i * kLine, std::span(bytes_).subspan(i * kLine, kLine)});
    }
    return port_->write(peer_id_, writes, until);
  }
  /// From here on the others go there.
  Result<PeerId> connect(TimeUs until) {
    auto connected = port_->connect(peer_.address, until);
    if (connected.ok()) peer_id_ = connected.value();
    return connected;
  }

  Port* const port_;
  const Peer& peer_;
  disagg::Asking asking_;
  PeerId peer_id_ = 0;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(kRegionBytes);
};

/// How late calls were, and beyond what the computer was late itself.
struct Lateness {
  TimeUs most = 0, most_own = 0;
  std::uint64_t calls = 0, too_late = 0;
};
using Late = std::map<std::string, Lateness>;

/// One call, which has so long.
Status time_call(Calls* calls, std::size_t which, TimeUs wait, Pulse* pulse, Late* late) {
  (void)pulse->late_us();
  const TimeUs until = base::now_us() + wait;
  const Status status = calls->run(which, until);
  const TimeUs now = base::now_us();
  const TimeUs late_us = now > until ? now - until : 0;
  const TimeUs own_us = late_us - std::min(late_us, pulse->late_us());
  Lateness& of = (*late)[Calls::kNames.at(which)];
  ++of.calls;
  of.too_late += own_us > kLateUs ? 1 : 0;
  of.most = std::max(of.most, late_us);
  of.most_own = std::max(of.most_own, own_us);
  return status;
}

/// Calls before, beside and behind a death, and behind its end.
void run_once(Port* port, Peer* peer, Death death, base::Random* random, Late* late) {
  Calls calls(port, *peer);
  Pulse pulse;
  for (std::size_t which = 0; which < Calls::kNames.size(); ++which) {
    const Status status = calls.run(which, base::now_us() + kLongUs);
    EXPECT_TRUE(status.ok()) << Calls::kNames.at(which) << ": " << status.ToString();
  }
  std::atomic<bool> is_dead{false};
  const TimeUs dies_in = random->below(10'000);
  std::thread kills([&] {
    sleep_us(dies_in);
    peer->die(death);
    is_dead = true;
  });
  const auto call = [&](std::size_t which, TimeUs wait) {
    const Status status = time_call(&calls, which, wait, &pulse, late);
    EXPECT_TRUE(status.ok() || status.IsTimedOut() || status.IsIOError()) << status.ToString();
    return status;
  };
  while (!is_dead) (void)call(random->below(Calls::kNames.size()), 5000);
  kills.join();
  sleep_us(kNoticedUs);
  const bool is_shared = peer->address.starts_with("local:");
  for (const TimeUs wait : {0, 1000, 20'000}) {
    for (std::size_t which = 0; which < Calls::kNames.size(); ++which) {
      const Status status = call(which, wait);
      // Memory of who stands still is there, and what is sent may lie on its way.
      const bool is_sent = which == 5 || which == 6;
      const bool may = is_sent || (is_shared && death == Death::kStopped && which < 5);
      EXPECT_TRUE(may || !status.ok() || wait == 0) << Calls::kNames.at(which);
    }
  }
  peer->come_back(death);
  if (death == Death::kKilled) return;
  EXPECT_TRUE(calls.run(Calls::kNames.size() - 1, base::now_us() + kLongUs).ok());
  EXPECT_TRUE(calls.run(0, base::now_us() + kLongUs).ok());
}

void run_all(bool is_tcp, const std::vector<Death>& deaths) {
  const breccia::testing::Folder folder(breccia::testing::Place::kMemory);
  std::string why_not;
  const auto spaces = is_tcp ? NetSpaces::make(&why_not) : nullptr;
  if (is_tcp && spaces == nullptr) GTEST_SKIP() << why_not;
  if (is_tcp) fabric::libfabric::prepare_process();
  const First first;
  Late late;
  std::uint64_t number = 0;
  for (const std::uint64_t seed : breccia::testing::seeds_to_run(8)) {
    SCOPED_TRACE(breccia::testing::replay_command(seed));
    base::Random random(seed);
    const auto port = is_tcp ? open_tcp(NetSpaces::own_address())
                             : open_local(folder / ("own" + std::to_string(number)));
    for (const Death death : deaths) {
      Peer peer(folder, spaces.get(), ++number);
      run_once(port.get(), &peer, death, &random, &late);
      if (::testing::Test::HasFailure()) return;
    }
  }
  for (const auto& [name, of] : late) {
    std::printf("%s: %lu times, at most %lu us late, %lu us of its own\n", name.c_str(), of.calls,
                of.most, of.most_own);
    // Of those who wait for a processor beside others some are.
    EXPECT_LE(of.too_late, first.is_first() ? 0 : 1 + of.calls / 10) << name;
  }
}

}  // namespace

// A child.
TEST(DISABLED_DeadPeer, Serve) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const char* const node = std::getenv(kPeerNode);
  if (node != nullptr) fabric::libfabric::prepare_process();
  const auto port = node != nullptr ? open_tcp(node) : open_local(std::getenv(kPeerSocket));
  auto region = port->make_region(kRegionBytes, fabric::Access::kReadWrite);
  ASSERT_TRUE(region.ok());
  const RegionName name = region.value()->name();
  const std::string file = std::getenv(kPeerFile);
  std::ofstream(file + ".new") << port->address() << " " << name.key << " " << name.base << " "
                               << name.bytes << "\n";
  std::filesystem::rename(file + ".new", file);
  disagg::Answers answers(port.get());
  const auto answer = [](const disagg::Answers::Asker& asker, disagg::Ask, disagg::WireReader) {
    const bool is_mute = asker.header.kind == Calls::kMute;
    return is_mute ? std::nullopt : std::optional(disagg::answer_of(disagg::Code::kOk));
  };
  while (true) disagg::serve(port.get(), &answers, answer, base::now_us() + kLongUs);
}

// Goal: each call to a peer that is dead ends within 10 ms of its time, and says TimedOut or
//   IOError; when the peer is back, so is all else.
// Method: a process over shared memory; calls with 0 to 20 ms, some of them under way when it dies.
// Mutation: an answer that is waited for 50 ms whatever the caller has; a question that is waited
//   for until it would be put again.
TEST(DeadPeer, OverSharedMemory) { run_all(false, {Death::kKilled, Death::kStopped}); }

// Goal: the same by TCP, where cables may be out, too.
// Mutation: a pause that ends by its own time alone; an endpoint that is opened by who connects.
TEST(DeadPeer, ByTcp) { run_all(true, {Death::kKilled, Death::kStopped, Death::kCut}); }

}  // namespace breccia::crash
