#include "hash/engine/small_file.h"

#include <cstdint>

namespace breccia::hash {

Result<bool> read_small_file(pmem::Disk* disk, const std::string& path, std::span<std::byte> into) {
  auto opened = disk->open(path);
  if (!opened.ok() && opened.status().IsNotFound()) return false;
  BRECCIA_TRY(opened.status());
  const auto file = opened.take();
  BRECCIA_TAKE(const std::uint64_t size, file->size());
  if (size != into.size()) return Status::Corruption(path + " has another size than it should");
  BRECCIA_TRY(file->read(0, into));
  return true;
}

Status replace_small_file(pmem::Disk* disk, const std::string& path,
                          std::span<const std::byte> bytes) {
  const std::string fresh = path + ".new";
  {
    BRECCIA_TAKE(const auto file, disk->create(fresh, bytes.size()));
    BRECCIA_TRY(file->write(0, bytes));
    BRECCIA_TRY(file->sync());
  }
  BRECCIA_TRY(disk->rename(fresh, path));
  return disk->sync_folder_of(path);
}

}  // namespace breccia::hash
