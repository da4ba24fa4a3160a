#include "base/checksum.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace breccia::base {

namespace {

#if defined(__x86_64__)
/// Whether the processor says which registers are in use.
bool tells_use() {
  std::uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr std::uint32_t kExtendedStates = 0xd, kTellsUse = 1 << 2;
  if (__get_cpuid_count(1, 0, &eax, &ebx, &ecx, &edx) == 0 || (ecx & bit_OSXSAVE) == 0) {
    return false;
  }
  if (__get_cpuid_count(kExtendedStates, 1, &eax, &ebx, &ecx, &edx) == 0) return false;
  return (eax & kTellsUse) != 0;
}

/// Halves of registers, wider than 16 bytes, that code has left something in: the processor's own
/// word for it (Intel's manual, volume 1, 13.6).
std::uint32_t wide_in_use() {
  std::uint32_t eax = 0, edx = 0;
  asm volatile("xgetbv" : "=a"(eax), "=d"(edx) : "c"(1) : "memory");
  constexpr std::uint32_t kUpperHalves = 1 << 2 | 1 << 6;
  return eax & kUpperHalves;
}

__attribute__((target("avx"))) void free_wide() { __builtin_ia32_vzeroupper(); }
#endif

}  // namespace

// Goal: code behind a checksum is not slowed down by what it has left in wide registers.
// Mutation: no leave_wide_registers() behind either library.
TEST(Checksum, LeavesNoWideRegistersInUse) {
#if defined(__x86_64__)
  const bool can_tell = tells_use() && __builtin_cpu_supports("avx");
  if (can_tell) free_wide();
  if (!can_tell || wide_in_use() != 0) GTEST_SKIP() << "this processor does not tell it";
  const std::string bytes(1 << 20, 'x');
  std::vector<std::uint32_t> in_use;
  in_use.reserve(128);
  for (std::size_t size = 1; size <= bytes.size(); size *= 2) {
    const std::uint32_t sum = crc32c(0, bytes.data(), size);
    in_use.push_back(wide_in_use());
    const std::uint64_t of = Checksum64::of(bytes.data(), size);
    in_use.push_back(wide_in_use());
    Checksum64 many;
    many.update(bytes.data(), size);
    in_use.push_back(wide_in_use());
    const std::uint64_t digest = many.digest();
    in_use.push_back(wide_in_use());
    EXPECT_TRUE(sum != 0 && of == digest) << size;
  }
  EXPECT_EQ(in_use, std::vector<std::uint32_t>(in_use.size(), 0));
#else
  GTEST_SKIP() << "only x86-64 has such halves";
#endif
}

}  // namespace breccia::base
