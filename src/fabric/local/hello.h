#pragma once

#include <cstdint>
#include <string>

#include "base/descriptor.h"
#include "base/result.h"
#include "fabric/port.h"

/// Sockets of one computer: who connects says hello, and is told whether it may.

namespace breccia::fabric::local {

using base::Descriptor;

/// What comes first on each connection.
struct Hello {
  enum class Wants : std::uint32_t { kMessages = 1, kRegion };
  static constexpr std::uint64_t kMagic = 0x6f6c6c6568616662;  // "bfahello"
  static constexpr std::size_t kPathMax = 104;

  std::uint64_t magic = kMagic;
  Wants wants = Wants::kMessages;
  std::uint32_t version = kWireVersion;
  std::uint64_t key = 0;  // of a region
  char path[kPathMax] = {};
};
static_assert(sizeof(Hello) == 128);

/// What comes back. With kRegion's a descriptor.
enum class Answer : std::uint8_t { kYes = 1, kNoSuchRegion, kOtherVersion };

/// Listens at a path, which must not be there.
/// Errors  IOError: it is, or its folder is not.
[[nodiscard]] Result<Descriptor> listen_at(const std::string& path);
/// Connects, says hello, and waits for the answer.
/// Errors  TimedOut, IOError, InvalidArgument: what the other one said.
[[nodiscard]] Result<Descriptor> say_hello(const std::string& path, const Hello& hello,
                                           TimeUs until);
/// The same for a region's memory.
[[nodiscard]] Result<Descriptor> ask_for_region(const std::string& path, std::uint64_t key,
                                                TimeUs until);
/// Answers, with a descriptor if there is one. False: it did not come through.
[[nodiscard]] bool answer(const Descriptor& socket, Answer answer, int file);
/// The other side is of the same user.
[[nodiscard]] bool is_of_same_user(const Descriptor& socket);
/// Waits for `events` (of poll()). False: the time is over.
[[nodiscard]] bool wait_for(int fd, short events, TimeUs until);

}  // namespace breccia::fabric::local
