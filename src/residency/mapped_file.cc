#include "residency/mapped_file.h"

#include <sys/mman.h>

#include "base/assert.h"
#include "base/huge_pages.h"

namespace breccia::residency {

Result<std::unique_ptr<const MappedFile>> MappedFile::map(const sst::FileRange& whole) {
  BRECCIA_ASSERT(whole.offset == 0 && whole.bytes > 0);
  auto data = base::map_file(whole.file, *whole.path, whole.bytes, PROT_READ);
  if (!data.ok()) return Status::MemoryLimit("a file cannot be mapped", *whole.path);
  // What lies beside a value is not wanted. Advice: what fails changes nothing.
  (void)madvise(data.value(), whole.bytes, MADV_RANDOM);
  return std::unique_ptr<const MappedFile>(
      new MappedFile(reinterpret_cast<const char*>(data.value()), whole.bytes));
}

MappedFile::~MappedFile() { (void)munmap(const_cast<char*>(data_), bytes_); }

void MappedFile::fetch_pages() const {
  base::fetch_pages(reinterpret_cast<const std::byte*>(data_), bytes_);
}

}  // namespace breccia::residency
