#include "base/checksum.h"

#include <isa-l/crc.h>

#include <cstring>
#if defined(__SSE4_2__)
#include <nmmintrin.h>
#endif

// XXH3 in the widest registers that the machine has: the log's checksum is a third of what a large
// load costs in narrow ones.
#define XXH_STATIC_LINKING_ONLY
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

namespace breccia::base {

namespace {

#if defined(__x86_64__)
/// XXH3 and ISA-L leave the upper halves of wide registers in use, and all code for narrow ones is
/// then slower, by up to four times where it was measured: code for SSE that copies by the C
/// library waits 0.1 us each time that one of the two begins behind the other (an Intel Xeon, model
/// 207).
__attribute__((target("avx"))) void free_upper_halves() { __builtin_ia32_vzeroupper(); }

void leave_wide_registers() {
  if (__builtin_cpu_supports("avx")) free_upper_halves();
}
#else
void leave_wide_registers() {}
#endif

#if defined(__SSE4_2__)
/// Up to here the instruction takes less than ISA-L's setting out: headers are that short.
constexpr std::size_t kShortBytesMax = 128;

std::uint32_t crc32c_of_short(std::uint32_t seed, const unsigned char* data, std::size_t size) {
  std::uint64_t crc = ~seed;
  for (; size >= sizeof(std::uint64_t); size -= sizeof(std::uint64_t)) {
    std::uint64_t word;
    std::memcpy(&word, data, sizeof word);
    crc = _mm_crc32_u64(crc, word);
    data += sizeof word;
  }
  auto rest = static_cast<std::uint32_t>(crc);
  for (; size > 0; --size) rest = _mm_crc32_u8(rest, *data++);
  return ~rest;
}
#endif

}  // namespace

std::uint32_t crc32c(std::uint32_t seed, const void* data, std::size_t size) {
#if defined(__SSE4_2__)
  if (size <= kShortBytesMax) {
    return crc32c_of_short(seed, static_cast<const unsigned char*>(data), size);
  }
#endif
  // ISA-L takes a non-const pointer that it only reads, and works on the inverted register.
  auto* bytes = const_cast<unsigned char*>(static_cast<const unsigned char*>(data));
  const std::uint32_t sum = ~crc32_iscsi(bytes, static_cast<int>(size), ~seed);
  leave_wide_registers();
  return sum;
}

struct Checksum64::State {
  XXH3_state_t xxh;
};

Checksum64::Checksum64() : state_(std::make_unique<State>()) { XXH3_64bits_reset(&state_->xxh); }
Checksum64::~Checksum64() = default;

void Checksum64::update(const void* data, std::size_t size) {
  XXH3_64bits_update(&state_->xxh, data, size);
  leave_wide_registers();
}

std::uint64_t Checksum64::digest() const { return XXH3_64bits_digest(&state_->xxh); }

std::uint64_t Checksum64::of(const void* data, std::size_t size) {
  const std::uint64_t sum = XXH3_64bits(data, size);
  leave_wide_registers();
  return sum;
}

}  // namespace breccia::base
