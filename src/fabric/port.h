#pragma once

#include <breccia/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "fabric/message.h"

namespace breccia::fabric {

/// Microseconds of a port's clock, which only goes forward.
using TimeUs = std::uint64_t;

/// Another port, as this one knows it; a number that is not used again.
using PeerId = std::uint32_t;

/// By what others reach a region. It travels in messages as it is.
struct RegionName {
  std::uint64_t key = 0;
  std::uint64_t base = 0;  // what the network adds to offsets
  std::uint64_t bytes = 0;

  friend bool operator==(const RegionName&, const RegionName&) = default;
};
static_assert(sizeof(RegionName) == 24);

enum class Access : std::uint8_t { kRead, kReadWrite };

/// Memory that others reach as long as this lives, and from its end on nobody.
/// Threads who has it writes into it while others read: these check what they have read.
class Region {
 public:
  Region() = default;
  virtual ~Region() = default;
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  /// Zero at first; lines of 64 bytes begin where lines of memory do.
  [[nodiscard]] virtual std::span<std::byte> bytes() = 0;
  [[nodiscard]] virtual RegionName name() const = 0;
};

/// Bytes of a peer's region that are to come.
struct Read {
  RegionName region;
  std::uint64_t offset;
  std::span<std::byte> into;
};

/// Bytes that are to lie in a peer's region.
struct Write {
  RegionName region;
  std::uint64_t offset;
  std::span<const std::byte> from;
};

/// What is read of, or written to, one peer of several, and what came of it.
struct ReadsOf {
  PeerId peer;
  std::span<const Read> reads;
  Status status = {};
};
struct WritesTo {
  PeerId peer;
  std::span<const Write> writes;
  Status status = {};
};

/// What a port has for whoever polls it.
struct Arrival {
  enum class Kind : std::uint8_t {
    kMessage,
    kGone,  // the peer ended, or cannot be reached any more; nothing more comes from it
  };
  Kind kind;
  PeerId peer;
  Header header;                   // of a message
  std::vector<std::byte> payload;  // of a message
};

/// One thread's access to the network: memory of peers without their doing, and messages.
///
/// Nothing waits without an end: each call has a time until which it may. What a call that failed
/// was about may have happened, or may yet. A peer that an error is told of is of no use any more
/// where gone() says so; another one is had by connect().
///
/// Shape   reads and writes see single bytes, in any order: a read beside a change of what it reads
///         may have some bytes of before and some of behind it, also within a word.
/// Order   messages to one peer come in order, or not at all. Behind a write that is OK everybody's
///         reads see it.
/// Errors  TimedOut: the time is over. IOError: the peer, or what lies between. InvalidArgument: no
///         such region, or not so long; the peer may be gone.
/// Threads one at a time; regions outlive no port.
/// Source  what libfabric's providers have in common, and where they differ the weakest.
class Port {
 public:
  Port() = default;
  virtual ~Port() = default;
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  /// The network that it is of, for people: what is printed where a program says what it uses.
  [[nodiscard]] virtual std::string describe() const = 0;
  /// What others give connect().
  [[nodiscard]] virtual std::string address() const = 0;
  [[nodiscard]] virtual TimeUs now_us() const = 0;

  [[nodiscard]] virtual Result<std::unique_ptr<Region>> make_region(std::uint64_t bytes,
                                                                    Access access) = 0;

  [[nodiscard]] virtual Result<PeerId> connect(const std::string& address, TimeUs until) = 0;
  [[nodiscard]] virtual bool is_gone(PeerId peer) const = 0;
  virtual void disconnect(PeerId peer) = 0;

  /// All of them, at once where the network can.
  [[nodiscard]] virtual Status read(PeerId peer, std::span<const Read> reads, TimeUs until) = 0;
  [[nodiscard]] virtual Status write(PeerId peer, std::span<const Write> writes, TimeUs until) = 0;

  /// The same of several peers, all at once where the network can; each says what came of it.
  virtual void read_all(std::span<ReadsOf> all, TimeUs until) {
    for (ReadsOf& one : all) one.status = read(one.peer, one.reads, until);
  }
  virtual void write_all(std::span<WritesTo> all, TimeUs until) {
    for (WritesTo& one : all) one.status = write(one.peer, one.writes, until);
  }

  /// Hands a message over; whether it comes only an answer tells.
  /// Shape   payload of kPayloadMax bytes at most.
  [[nodiscard]] virtual Status send(PeerId peer, const Header& header,
                                    std::span<const std::byte> payload, TimeUs until) = 0;
  /// The next that comes; none: nothing has come until then. Messages that are damaged do not come.
  [[nodiscard]] virtual std::optional<Arrival> poll(TimeUs until) = 0;
};

}  // namespace breccia::fabric
