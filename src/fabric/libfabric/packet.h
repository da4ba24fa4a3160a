#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "fabric/port.h"

namespace breccia::fabric::libfabric {

/// What ports say to each other: packets of kPacketBytes at most, in order.
///
/// On the wire, little endian:
///
///     0   magic      2   "Bp"
///     2   version    1
///     3   kind       1
///     4   sequence   4   of this link in this direction, from 0
///     8   link       8   as the receiver calls it; of a hello 0
///     16  granted    4   parts that the sender takes in all, from the first on
///     20  length     4   bytes of the body, which follows
///
/// In all versions magic, version, kind and link lie there, a hello has that kind and begins with a
/// Greeting, and a goodbye has that kind: so ports of two versions tell each other that they are.
enum class Kind : std::uint8_t {
  kHello = 1,     // Greeting and an address: a link is wanted
  kWelcome,       // Greeting: it is there
  kPart,          // bytes of a message; the next one begins a part of its own
  kGrant,         // nothing: `granted` says it all
  kPing,          // nothing: an answer is wanted
  kPong,          // nothing
  kAsk,           // a key: what region is that?
  kRegion,        // Facts
  kEnded,         // a key: that region is no more
  kGather,        // GatherHead, then Pieces: bytes of regions are wanted
  kGathered,      // GatheredHead, then those bytes
  kGoodbye = 12,  // nothing: the link is no more; in all versions it has this number
  kScatter,       // GatherHead, then Pieces, then their bytes: they are to be written
  kScattered,     // GatheredHead: they are there, all of them or none
};

/// As much as the providers send at once, without asking for leave before.
constexpr std::size_t kPacketBytes = 16 << 10;
constexpr std::size_t kEnvelopeBytes = 24;
constexpr std::size_t kBodyBytesMax = kPacketBytes - kEnvelopeBytes;
constexpr std::size_t kAddressBytesMax = 64;

struct Envelope {
  Kind kind;
  std::uint32_t sequence;
  std::uint64_t link;
  std::uint32_t granted;
};

struct Packet {
  bool is_of_other_version;  // only what all versions have is known of it
  Envelope envelope;
  std::span<const std::byte> body;
};

/// Of hello and welcome.
struct Greeting {
  std::uint64_t link;  // what the other side is to call it
  std::uint64_t address_bytes;
  std::byte address[kAddressBytesMax];  // where who says hello is found
};

enum class Rights : std::uint32_t { kNone, kRead, kReadWrite };

/// What is to be known of a region.
struct Facts {
  std::uint64_t key;
  std::uint64_t bytes;
  Rights rights;  // kNone: there is no such region
  std::uint32_t zero = 0;
};

/// Of gather and scatter.
struct GatherHead {
  std::uint32_t question;
  std::uint32_t pieces;
};

struct Piece {
  std::uint64_t key;
  std::uint64_t offset;
  std::uint64_t bytes;
};

struct GatheredHead {
  std::uint32_t question;
  std::uint32_t is_refused;  // a region is not there, not so long, or not to be written
};

/// Bytes of pieces that one answer holds.
constexpr std::size_t kGatheredBytesMax = kBodyBytesMax - sizeof(GatheredHead);
constexpr std::size_t kPiecesMax = (kBodyBytesMax - sizeof(GatherHead)) / sizeof(Piece);
/// Pieces and their bytes that one scatter holds.
constexpr std::size_t kScatterBytesMax = kBodyBytesMax - sizeof(GatherHead);

/// Writes what stands before a body of so many bytes.
void write_envelope(const Envelope& envelope, std::size_t body_bytes, std::span<std::byte> into);
/// None: it is no packet.
[[nodiscard]] std::optional<Packet> read_packet(std::span<const std::byte> bytes);

}  // namespace breccia::fabric::libfabric
