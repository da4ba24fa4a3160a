#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace breccia::fabric {

/// What stands before the payload of each message.
///
/// On the wire, 32 bytes, little endian:
///
///     0   magic      2   "Bf"
///     2   version    1
///     3   kind       1
///     4   epoch      4
///     8   request    8
///     16  length     4   bytes of the payload
///     20  reserved   8   zero
///     28  checksum   4   CRC32C of the bytes before it, then of the payload
struct Header {
  std::uint8_t kind = 0;      // what it says; of whoever uses this
  std::uint32_t epoch = 0;    // who is behind is not listened to
  std::uint64_t request = 0;  // an answer has that of its question
  friend bool operator==(const Header&, const Header&) = default;
};

constexpr std::size_t kHeaderBytes = 32;
constexpr std::uint8_t kWireVersion = 1;
constexpr std::size_t kPayloadMax = 1 << 20;

using WireHeader = std::array<std::byte, kHeaderBytes>;

[[nodiscard]] WireHeader encode(const Header& header, std::span<const std::byte> payload);

/// Why a message is not listened to.
enum class Damage : std::uint8_t { kNone, kMagic, kVersion, kLength, kChecksum };

/// How long a message is that begins so, header and payload; none: it is not one, and nothing that
/// comes behind it is known to be.
[[nodiscard]] std::optional<std::size_t> message_bytes(std::span<const std::byte> begin);

/// Reads a message; *payload are bytes of it.
/// Errors  what is wrong with it: nothing was read.
[[nodiscard]] Damage decode(std::span<const std::byte> message, Header* header,
                            std::span<const std::byte>* payload);

}  // namespace breccia::fabric
