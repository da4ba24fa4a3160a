#include "sst/checksum.h"

#include <xxhash.h>

#include "base/checksum.h"

namespace breccia::sst {

namespace {

/// A CRC of bytes that hold CRCs says little, so a stored one is turned and moved.
std::uint32_t masked(std::uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U; }

}  // namespace

bool block_checksum(ChecksumType type, const Slice& contents, std::uint32_t* sum) {
  const char* const at = contents.data();
  const std::size_t with_type = contents.size() + 1;
  switch (type) {
    case ChecksumType::kNone:
      *sum = 0;
      return true;
    case ChecksumType::kCrc32c:
      *sum = masked(base::crc32c(0, at, with_type));
      return true;
    case ChecksumType::kXxh32:
      *sum = XXH32(at, with_type, 0);
      return true;
    case ChecksumType::kXxh64:
      *sum = static_cast<std::uint32_t>(XXH64(at, with_type, 0));
      return true;
    case ChecksumType::kXxh3: {
      const auto last = static_cast<unsigned char>(at[contents.size()]);
      *sum = static_cast<std::uint32_t>(base::Checksum64::of(at, contents.size())) ^
             last * 0x6B9083D9U;
      return true;
    }
  }
  return false;
}

}  // namespace breccia::sst
