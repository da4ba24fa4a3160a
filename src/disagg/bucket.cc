#include "disagg/bucket.h"

#include <cstring>

#include "base/checksum.h"

namespace breccia::disagg {

std::uint16_t Bucket::sum(std::uint16_t of_version) const {
  const std::uint64_t first = head(of_version, 0);
  const std::uint32_t of_head = base::crc32c(0, &first, sizeof first);
  // A bucket of zeros is one that nobody has written yet, and not whole.
  return static_cast<std::uint16_t>(~base::crc32c(of_head, slot.data(), sizeof slot) & 0xffff);
}

std::optional<Bucket> whole_bucket(std::span<const std::byte, kLineBytes> bytes) {
  Bucket bucket;
  std::memcpy(&bucket, bytes.data(), sizeof bucket);
  if (bucket.checksum != bucket.sum()) return std::nullopt;
  return bucket;
}

}  // namespace breccia::disagg
