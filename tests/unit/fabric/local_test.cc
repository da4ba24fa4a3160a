#include "fabric/local/local_port.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/huge_pages.h"
#include "fabric/local/hello.h"
#include "fabric/local/shared_memory.h"
#include "support/folder.h"
#include "support/huge_bytes.h"

/// What others of the computer may do to a port; tests/conformance/fabric_test.cc has the rest.

namespace breccia::fabric::local {

namespace {

class Ports {
 public:
  Ports() : here_(open("here")), there_(open("there")) {}
  LocalPort& here() { return *here_; }
  LocalPort& there() { return *there_; }
  [[nodiscard]] std::string path() const { return folder_ / "there"; }
  [[nodiscard]] TimeUs soon() const { return here_->now_us() + 5000; }

 private:
  std::unique_ptr<LocalPort> open(const std::string& name) {
    auto port = LocalPort::open(folder_ / name);
    EXPECT_TRUE(port.ok()) << port.status().ToString();
    return port.take();
  }
  const testing::Folder folder_{testing::Place::kDisk};
  std::unique_ptr<LocalPort> here_, there_;
};

}  // namespace

// Goal: the name of a port that was killed is had again, by one of those who want it; one that
//   somebody listens at is not, nor is a file.
// Mutation: a name that is taken from who listens there; a socket that is left is in the way.
TEST(FabricLocal, NamesOfTheKilledAreFree) {
  const testing::Folder folder{testing::Place::kDisk};
  const std::string path = folder / "port";
  {
    // As a process that is killed leaves it.
    auto left = listen_at(path);
    ASSERT_TRUE(left.ok());
  }
  ASSERT_EQ(::access(path.c_str(), F_OK), 0);
  auto first = LocalPort::open(path);
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  EXPECT_TRUE(LocalPort::open(path).status().IsIOError());
  auto other = LocalPort::open(folder / "other");
  ASSERT_TRUE(other.ok());
  const TimeUs soon = other.value()->now_us() + 1'000'000;
  EXPECT_TRUE(other.value()->connect(first.value()->address(), soon).ok());
  const std::string file = folder / "file";
  const int made = ::open(file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  ASSERT_GE(made, 0);
  ::close(made);
  EXPECT_TRUE(LocalPort::open(file).status().IsIOError());
  EXPECT_EQ(::access(file.c_str(), F_OK), 0);
}

// Goal: who sends and does not read is waited for as long as it was said, and what was handed over
//   comes whole, in order, also where a part of it did not fit.
// Method: both send into full sockets, one thread; then both read.
// Mutation: a wait that what comes prolongs; half a message before another.
TEST(FabricLocal, FullSockets) {
  Ports ports;
  auto peer = ports.here().connect(ports.there().address(), ports.soon());
  ASSERT_TRUE(peer.ok());
  const auto fill = [&](LocalPort* port, PeerId to, std::size_t bytes) {
    std::uint64_t sent = 0;
    while (true) {
      const std::vector<std::byte> payload(bytes, static_cast<std::byte>(sent));
      const TimeUs begin = port->now_us();
      const Status status = port->send(to, {.request = sent}, payload, ports.soon());
      EXPECT_LE(port->now_us() - begin, 200'000U);
      if (status.IsTimedOut()) return sent;
      EXPECT_TRUE(status.ok()) << status.ToString();
      ++sent;
    }
  };
  // The other side goes on with what it had handed over when there is room again.
  const auto drain = [&](std::uint64_t count, std::size_t bytes) {
    for (std::uint64_t i = 0; i < count; ++i) {
      std::optional<Arrival> arrival;
      for (int turn = 0; turn < 100 && !arrival.has_value(); ++turn) {
        arrival = ports.here().poll(0);
        EXPECT_FALSE(ports.there().poll(0).has_value());
      }
      ASSERT_TRUE(arrival.has_value()) << i << " of " << count;
      ASSERT_EQ(arrival->header.request, i);
      ASSERT_EQ(arrival->payload, std::vector<std::byte>(bytes, static_cast<std::byte>(i)));
    }
  };
  // Messages of no bytes, too, count.
  const std::uint64_t small = fill(&ports.here(), peer.value(), 0);
  EXPECT_GT(small, 100U);
  const auto first = ports.there().poll(ports.soon());
  ASSERT_TRUE(first.has_value());
  const PeerId back = first->peer;
  for (std::uint64_t i = 1; i < small; ++i) {
    ASSERT_EQ(ports.there().poll(ports.soon())->header.request, i);
  }
  const std::uint64_t large = fill(&ports.there(), back, 300'000);
  EXPECT_GE(large, 1U);
  drain(large, 300'000);
}

// Goal: a port goes on whatever comes to its socket: nothing, garbage, another version, a hello for
//   a region that is none; and who has sent garbage for a message is gone.
TEST(FabricLocal, StrangeGuests) {
  Ports ports;
  const auto dial = [&] {
    Descriptor socket(::socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, ports.path().c_str());
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return socket;
  };
  const Descriptor silent = dial(), garbage = dial(), shorter = dial();
  const std::vector<char> bytes(sizeof(Hello), 'x');
  ASSERT_EQ(::send(garbage.get(), bytes.data(), bytes.size(), 0), ssize_t(bytes.size()));
  ASSERT_EQ(::send(shorter.get(), bytes.data(), 5, 0), 5);
  char answer = 0;
  EXPECT_EQ(::recv(garbage.get(), &answer, 1, 0), 0);  // closed
  Hello other;
  other.version = kWireVersion + 1;
  EXPECT_TRUE(say_hello(ports.path(), other, ports.soon()).status().IsInvalidArgument());
  EXPECT_TRUE(ask_for_region(ports.path(), 77, ports.soon()).status().IsInvalidArgument());
  WireHeader of_other_version = encode({}, {}), no_message{};
  of_other_version[2] = static_cast<std::byte>(kWireVersion + 1);
  for (const WireHeader& said : {of_other_version, no_message}) {
    auto talks = say_hello(ports.path(), Hello(), ports.soon());
    ASSERT_TRUE(talks.ok());
    ASSERT_EQ(::send(talks.value().get(), said.data(), said.size(), 0), ssize_t(said.size()));
    const auto gone = ports.there().poll(ports.soon());
    ASSERT_TRUE(gone.has_value());
    EXPECT_EQ(gone->kind, Arrival::Kind::kGone);
    EXPECT_TRUE(ports.there().is_gone(gone->peer));
  }
  EXPECT_TRUE(ports.here().connect(ports.there().address(), ports.soon()).ok());
}

// Goal: memory that is only read the kernel lets nobody else write, or shorten; what is no region's
//   memory is refused, whoever hands it out.
TEST(FabricLocal, SharedMemoryIsChecked) {
  auto made = SharedMemory::make(5, 1000, Access::kRead);
  ASSERT_TRUE(made.ok());
  const auto again = [&] { return Descriptor(::dup(made.value()->file())); };
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, made.value()->file(), 0),
            MAP_FAILED);
  EXPECT_NE(::ftruncate(made.value()->file(), 100), 0);
  auto mapped = SharedMemory::map(again(), 5);
  ASSERT_TRUE(mapped.ok()) << mapped.status().ToString();
  EXPECT_EQ(mapped.value()->bytes().size(), 1000U);
  EXPECT_FALSE(mapped.value()->may_write());
  made.value()->bytes()[999] = std::byte{7};
  EXPECT_EQ(mapped.value()->bytes()[999], std::byte{7});
  made.value()->revoke();
  EXPECT_TRUE(mapped.value()->is_revoked());

  EXPECT_TRUE(SharedMemory::map(again(), 6).status().IsInvalidArgument());
  EXPECT_TRUE(SharedMemory::map(Descriptor(::dup(0)), 5).status().IsInvalidArgument());
  Descriptor unsealed(::memfd_create("x", MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(unsealed.get(), 1 << 20), 0);
  EXPECT_TRUE(SharedMemory::map(std::move(unsealed), 0).status().IsInvalidArgument());
  Descriptor empty(::memfd_create("x", MFD_ALLOW_SEALING));
  ASSERT_EQ(::fcntl(empty.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_TRUE(SharedMemory::map(std::move(empty), 0).status().IsInvalidArgument());
}

// Goal: large regions lie on huge pages, as far as there are such, for who makes them and for who
//   maps them.
// Method: the kernel's account of both maps, of which each page was read.
// Mutation: a map at any address; a region whose huge pages are not made.
TEST(FabricLocal, LargeRegionsHaveHugePages) {
  if (!base::gives_huge_pages("/dev/shm")) GTEST_SKIP() << "none here";
  std::uint64_t huge = 0;
  constexpr std::uint64_t kBytes = 8 << 20;
  for (const Access access : {Access::kRead, Access::kReadWrite}) {
    const auto made = SharedMemory::make(5, kBytes, access);
    ASSERT_TRUE(made.ok());
    const auto mapped = SharedMemory::map(Descriptor(::dup(made.value()->file())), 5);
    ASSERT_TRUE(mapped.ok());
    for (const auto* const memory : {made.value().get(), mapped.value().get()}) {
      const auto bytes = memory->bytes();
      EXPECT_EQ(bytes.size(), kBytes);
      EXPECT_TRUE(
          std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; }));
    }
    huge += testing::huge_bytes_of_map("/memfd:breccia (deleted)");
  }
  // A computer whose memory is in pieces may have few.
  EXPECT_GE(huge, kBytes);
}

}  // namespace breccia::fabric::local
