#include "fabric/message.h"

#include <cstring>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/checksum.h"

namespace breccia::fabric {

namespace {

constexpr std::uint16_t kMagic = 0x6642;

struct Wire {
  std::uint16_t magic;
  std::uint8_t version;
  std::uint8_t kind;
  std::uint32_t epoch;
  std::uint64_t request;
  std::uint32_t length;
  std::uint32_t reserved[2];
  std::uint32_t checksum;
};
static_assert(sizeof(Wire) == kHeaderBytes && offsetof(Wire, checksum) == 28);

std::uint32_t checksum_of(const Wire& wire, std::span<const std::byte> payload) {
  const std::uint32_t of_header = base::crc32c(0, &wire, offsetof(Wire, checksum));
  return base::crc32c(of_header, payload.data(), payload.size());
}

Damage check(const Wire& wire) {
  if (wire.magic != kMagic) return Damage::kMagic;
  if (wire.version != kWireVersion) return Damage::kVersion;
  return wire.length > kPayloadMax ? Damage::kLength : Damage::kNone;
}

Wire wire_of(std::span<const std::byte> begin) {
  BRECCIA_ASSERT(begin.size() >= kHeaderBytes);
  Wire wire;
  std::memcpy(&wire, begin.data(), sizeof wire);
  return wire;
}

}  // namespace

WireHeader encode(const Header& header, std::span<const std::byte> payload) {
  BRECCIA_ASSERT(payload.size() <= kPayloadMax);
  Wire wire{.magic = kMagic,
            .version = kWireVersion,
            .kind = header.kind,
            .epoch = header.epoch,
            .request = header.request,
            .length = static_cast<std::uint32_t>(payload.size()),
            .reserved = {},
            .checksum = 0};
  wire.checksum = checksum_of(wire, payload);
  WireHeader bytes;
  std::memcpy(bytes.data(), &wire, sizeof wire);
  return bytes;
}

std::optional<std::size_t> message_bytes(std::span<const std::byte> begin) {
  const Wire wire = wire_of(begin);
  if (check(wire) != Damage::kNone) return std::nullopt;
  return kHeaderBytes + wire.length;
}

Damage decode(std::span<const std::byte> message, Header* header,
              std::span<const std::byte>* payload) {
  if (message.size() < kHeaderBytes) return Damage::kLength;
  const Wire wire = wire_of(message);
  if (const Damage damage = check(wire); damage != Damage::kNone) return damage;
  if (wire.length != message.size() - kHeaderBytes) return Damage::kLength;
  const std::span<const std::byte> rest = message.subspan(kHeaderBytes);
  if (wire.checksum != checksum_of(wire, rest)) return Damage::kChecksum;
  *header = {.kind = wire.kind, .epoch = wire.epoch, .request = wire.request};
  *payload = rest;
  return Damage::kNone;
}

}  // namespace breccia::fabric
