#include "disagg/bucket.h"

#include <cstring>

#include "base/checksum.h"

namespace breccia::disagg {

std::uint16_t Bucket::sum() const {
  Bucket without = *this;
  without.checksum = 0;
  // A bucket of zeros is one that nobody has written yet, and not whole.
  return static_cast<std::uint16_t>(~base::crc32c(0, &without, sizeof without) & 0xffff);
}

std::optional<Bucket> whole_bucket(std::span<const std::byte, kLineBytes> bytes) {
  Bucket bucket;
  std::memcpy(&bucket, bytes.data(), sizeof bucket);
  if (bucket.checksum != bucket.sum()) return std::nullopt;
  return bucket;
}

}  // namespace breccia::disagg
