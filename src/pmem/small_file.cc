#include "pmem/small_file.h"

#include <cstdint>
#include <utility>

#include "base/assert.h"

namespace breccia::pmem {

Result<bool> read_small_file(Disk* disk, const std::string& path, std::span<std::byte> into) {
  BRECCIA_ASSERT(!path.empty() && !into.empty());
  auto opened = disk->open(path);
  if (!opened.ok() && opened.status().IsNotFound()) return false;
  BRECCIA_TRY(opened.status());
  const auto file = opened.take();
  BRECCIA_TAKE(const std::uint64_t size, file->size());
  if (size != into.size()) return Status::Corruption(path + " has another size than it should");
  BRECCIA_TRY(file->read(0, into));
  return true;
}

Result<std::optional<std::string>> read_small_file(Disk* disk, const std::string& path) {
  BRECCIA_ASSERT(!path.empty());
  auto opened = disk->open(path);
  if (!opened.ok() && opened.status().IsNotFound()) return std::optional<std::string>();
  BRECCIA_TRY(opened.status());
  const auto file = opened.take();
  BRECCIA_TAKE(const std::uint64_t size, file->size());
  std::string bytes(size, '\0');
  BRECCIA_TRY(file->read(0, std::as_writable_bytes(std::span(bytes))));
  return std::optional(std::move(bytes));
}

Status replace_small_file(Disk* disk, const std::string& path, std::span<const std::byte> bytes) {
  BRECCIA_ASSERT(!path.empty());
  const std::string fresh = path + ".new";
  {
    BRECCIA_TAKE(const auto file, disk->create(fresh, bytes.size()));
    BRECCIA_TRY(file->write(0, bytes));
    BRECCIA_TRY(file->sync());
  }
  BRECCIA_TRY(disk->rename(fresh, path));
  return disk->sync_folder_of(path);
}

}  // namespace breccia::pmem
