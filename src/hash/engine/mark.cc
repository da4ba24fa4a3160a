#include "hash/engine/mark.h"

#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

#include "base/checksum.h"
#include "pmem/small_file.h"

namespace breccia::hash {

namespace {

/// The file's bytes.
struct Bytes {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t padding;  // zero
  std::uint64_t store_id;
  std::uint64_t from;
  std::uint32_t zero;
  std::uint32_t crc;  // CRC32C of the bytes before it
};
static_assert(sizeof(Bytes) == 40 && std::is_trivial_v<Bytes>);
constexpr std::uint64_t kMagic = 0x4853'4148'4343'5242;  // "BRCCHASH"
constexpr std::uint32_t kVersion = 1;

std::uint32_t crc_of(const Bytes& bytes) { return base::crc32c(0, &bytes, offsetof(Bytes, crc)); }

}  // namespace

MarkFile::MarkFile(std::shared_ptr<pmem::Disk> disk, std::string folder)
    : disk_(std::move(disk)), path_(std::move(folder) + "/" + kMarkName) {}

Result<Mark> MarkFile::read() const {
  Bytes bytes;
  BRECCIA_TAKE(
      const bool is_there,
      pmem::read_small_file(disk_.get(), path_, std::as_writable_bytes(std::span(&bytes, 1))));
  if (!is_there) return Mark();
  if (bytes.magic != kMagic || bytes.crc != crc_of(bytes)) {
    return Status::Corruption(path_ + " is not the mark of a store of the hash engine");
  }
  if (bytes.version != kVersion) {
    return Status::NotSupported(path_ + " is of version " + std::to_string(bytes.version),
                                "open the store with a newer breccia");
  }
  return Mark{bytes.store_id, bytes.from};
}

Status MarkFile::write(const Mark& mark) const {
  Bytes bytes{kMagic, kVersion, 0, mark.store_id, mark.from, 0, 0};
  bytes.crc = crc_of(bytes);
  return pmem::replace_small_file(disk_.get(), path_, std::as_bytes(std::span(&bytes, 1)));
}

}  // namespace breccia::hash
