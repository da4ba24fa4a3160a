#include "hash/engine/mark.h"

#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

#include "base/checksum.h"

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
  auto opened = disk_->open(path_);
  if (!opened.ok() && opened.status().IsNotFound()) return Mark();
  BRECCIA_TRY(opened.status());
  const auto file = opened.take();
  Bytes bytes;
  BRECCIA_TAKE(const std::uint64_t size, file->size());
  const std::string what = path_ + " is not the mark of a store of the hash engine";
  if (size != sizeof bytes) return Status::Corruption(what);
  BRECCIA_TRY(file->read(0, std::as_writable_bytes(std::span(&bytes, 1))));
  if (bytes.magic != kMagic || bytes.crc != crc_of(bytes)) return Status::Corruption(what);
  if (bytes.version != kVersion) {
    return Status::NotSupported(path_ + " is of version " + std::to_string(bytes.version),
                                "open the store with a newer breccia");
  }
  return Mark{bytes.store_id, bytes.from};
}

Status MarkFile::write(const Mark& mark) const {
  Bytes bytes{kMagic, kVersion, 0, mark.store_id, mark.from, 0, 0};
  bytes.crc = crc_of(bytes);
  const std::string fresh = path_ + ".new";
  {
    BRECCIA_TAKE(const auto file, disk_->create(fresh, sizeof bytes));
    BRECCIA_TRY(file->write(0, std::as_bytes(std::span(&bytes, 1))));
    BRECCIA_TRY(file->sync());
  }
  BRECCIA_TRY(disk_->rename(fresh, path_));
  return disk_->sync_folder_of(path_);
}

}  // namespace breccia::hash
