#include "pmem/page_memory.h"

#include <sys/mman.h>

#include <utility>

#include "base/assert.h"
#include "pmem/lines.h"

namespace breccia::pmem {

Result<PageMemory> PageMemory::allocate(std::uint64_t bytes) {
  BRECCIA_ASSERT(bytes > 0);
  const std::uint64_t mapped_bytes = base::round_up(bytes, kPageBytes);
  void* const data = ::mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return Status::MemoryLimit("no memory for a region's image");
  return PageMemory(static_cast<std::byte*>(data), mapped_bytes);
}

Result<PageMemory> PageMemory::allocate_advised(std::uint64_t bytes, int advice) {
  BRECCIA_TAKE(PageMemory memory, allocate(bytes));
  BRECCIA_ASSERT(memory.mapped_bytes_ >= bytes);
  (void)::madvise(memory.data_, memory.mapped_bytes_, advice);  // which may be refused
  return memory;
}

Result<PageMemory> PageMemory::allocate_huge(std::uint64_t bytes) {
  return allocate_advised(bytes, MADV_HUGEPAGE);
}

Result<PageMemory> PageMemory::allocate_small(std::uint64_t bytes) {
  return allocate_advised(bytes, MADV_NOHUGEPAGE);
}

PageMemory::PageMemory(std::byte* data, std::uint64_t mapped_bytes)
    : data_(data), mapped_bytes_(mapped_bytes) {
  BRECCIA_ASSERT(reinterpret_cast<std::uintptr_t>(data_) % kPageBytes == 0);
  BRECCIA_ASSERT(mapped_bytes_ % kPageBytes == 0);
}

PageMemory::PageMemory(PageMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      mapped_bytes_(std::exchange(other.mapped_bytes_, 0)) {}

PageMemory& PageMemory::operator=(PageMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  return *this;
}

PageMemory::~PageMemory() {
  if (data_ != nullptr) ::munmap(data_, mapped_bytes_);
}

}  // namespace breccia::pmem
