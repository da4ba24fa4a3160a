#include "fabric/libfabric/packet.h"

#include <cstring>

#include "base/assert.h"

namespace breccia::fabric::libfabric {

namespace {

constexpr std::uint16_t kMagic = 0x7042;
constexpr std::uint8_t kPacketVersion = 2;

struct Wire {
  std::uint16_t magic;
  std::uint8_t version;
  Kind kind;
  std::uint32_t sequence;
  std::uint64_t link;
  std::uint32_t granted;
  std::uint32_t length;
};
static_assert(sizeof(Wire) == kEnvelopeBytes);
static_assert(sizeof(Greeting) == 80 && sizeof(Facts) == 24 && sizeof(Piece) == 24);

}  // namespace

void write_envelope(const Envelope& envelope, std::size_t body_bytes, std::span<std::byte> into) {
  BRECCIA_ASSERT(body_bytes <= kBodyBytesMax && into.size() >= kEnvelopeBytes + body_bytes);
  const Wire wire{.magic = kMagic,
                  .version = kPacketVersion,
                  .kind = envelope.kind,
                  .sequence = envelope.sequence,
                  .link = envelope.link,
                  .granted = envelope.granted,
                  .length = static_cast<std::uint32_t>(body_bytes)};
  std::memcpy(into.data(), &wire, sizeof wire);
}

std::optional<Packet> read_packet(std::span<const std::byte> bytes) {
  Wire wire;
  if (bytes.size() < sizeof wire) return std::nullopt;
  std::memcpy(&wire, bytes.data(), sizeof wire);
  if (wire.magic != kMagic) return std::nullopt;
  const bool is_other = wire.version != kPacketVersion;
  if (!is_other && wire.length != bytes.size() - sizeof wire) return std::nullopt;
  if (!is_other && (wire.kind < Kind::kHello || wire.kind > Kind::kScattered)) return std::nullopt;
  return Packet{.is_of_other_version = is_other,
                .envelope = {.kind = wire.kind,
                             .sequence = wire.sequence,
                             .link = wire.link,
                             .granted = wire.granted},
                .body = bytes.subspan(sizeof wire)};
}

}  // namespace breccia::fabric::libfabric
