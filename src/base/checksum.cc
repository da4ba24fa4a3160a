#include "base/checksum.h"

#define XXH_INLINE_ALL
#include <isa-l/crc.h>
#include <xxhash.h>

namespace breccia::base {

std::uint32_t crc32c(std::uint32_t seed, const void* data, std::size_t size) {
  // ISA-L takes a non-const pointer that it only reads, and works on the inverted register.
  auto* bytes = const_cast<unsigned char*>(static_cast<const unsigned char*>(data));
  return ~crc32_iscsi(bytes, static_cast<int>(size), ~seed);
}

struct Checksum64::State {
  XXH3_state_t xxh;
};

Checksum64::Checksum64() : state_(std::make_unique<State>()) { XXH3_64bits_reset(&state_->xxh); }
Checksum64::~Checksum64() = default;

void Checksum64::update(const void* data, std::size_t size) {
  XXH3_64bits_update(&state_->xxh, data, size);
}

std::uint64_t Checksum64::digest() const { return XXH3_64bits_digest(&state_->xxh); }

std::uint64_t Checksum64::of(const void* data, std::size_t size) { return XXH3_64bits(data, size); }

}  // namespace breccia::base
