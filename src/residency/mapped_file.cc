#include "residency/mapped_file.h"

#include <sys/mman.h>

#include "base/assert.h"

namespace breccia::residency {

Result<std::unique_ptr<const MappedFile>> MappedFile::map(const sst::FileRange& whole) {
  BRECCIA_ASSERT(whole.offset == 0 && whole.bytes > 0);
  void* const data = mmap(nullptr, whole.bytes, PROT_READ, MAP_SHARED, whole.file, 0);
  if (data == MAP_FAILED) return Status::MemoryLimit("a file cannot be mapped", *whole.path);
  // What lies beside a value is not wanted. Advice: what fails changes nothing.
  (void)madvise(data, whole.bytes, MADV_RANDOM);
  return std::unique_ptr<const MappedFile>(
      new MappedFile(static_cast<const char*>(data), whole.bytes));
}

MappedFile::~MappedFile() { (void)munmap(const_cast<char*>(data_), bytes_); }

}  // namespace breccia::residency
