#include "fabric/local/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <new>
#include <string>

#include "base/assert.h"
#include "base/huge_pages.h"

namespace breccia::fabric::local {

namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kMagic = 0x6d656d6261666272;  // "rbfabmem"

Status no_memory(const char* what) {
  return Status::MemoryLimit(std::string("shared memory: ") + what,
                             "give the process or /dev/shm more");
}

}  // namespace

struct SharedMemory::Page {
  std::uint64_t magic;
  std::uint64_t key;
  std::uint64_t bytes;
  std::uint32_t may_write;
  std::atomic<std::uint32_t> is_revoked;
};

Result<std::unique_ptr<SharedMemory>> SharedMemory::make(std::uint64_t key, std::uint64_t bytes,
                                                         Access access) {
  BRECCIA_ASSERT(bytes > 0);
  static_assert(sizeof(Page) <= kPageBytes && std::atomic<std::uint32_t>::is_always_lock_free);
  const std::uint64_t all = kPageBytes + bytes;
  Descriptor file(memfd_create("breccia", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.is_open()) return no_memory("no file");
  base::make_huge_pages(file.get(), all);
  // All of it now: whoever touches it first is not to find out that there is none.
  if (fallocate(file.get(), 0, 0, static_cast<off_t>(all)) != 0) return no_memory("no file");
  const auto mapped = base::map_file(file.get(), "shared memory", all, PROT_READ | PROT_WRITE);
  if (!mapped.ok()) return no_memory("no mapping");
  auto* const page = new (mapped.value()) Page{.magic = kMagic,
                                               .key = key,
                                               .bytes = bytes,
                                               .may_write = access == Access::kReadWrite ? 1U : 0U,
                                               .is_revoked = 0};
  std::unique_ptr<SharedMemory> memory(
      new SharedMemory(std::move(file), page, all, /*may_write=*/true));
  // Behind the mapping of its own, which may go on writing.
  const int of_writes = access == Access::kRead ? F_SEAL_FUTURE_WRITE : 0;
  const int seals = F_SEAL_SHRINK | F_SEAL_GROW | of_writes | F_SEAL_SEAL;
  if (fcntl(memory->file(), F_ADD_SEALS, seals) != 0) return no_memory("it cannot be sealed");
  return memory;
}

Result<std::unique_ptr<SharedMemory>> SharedMemory::map(Descriptor file, std::uint64_t key) {
  const auto wrong = [] { return Status::InvalidArgument("what came is no memory of a region"); };
  const int seals = fcntl(file.get(), F_GET_SEALS);
  struct stat facts {};
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(file.get(), &facts) != 0) return wrong();
  const auto all = static_cast<std::uint64_t>(facts.st_size);
  if (all <= kPageBytes) return wrong();
  const int rights = (seals & F_SEAL_FUTURE_WRITE) != 0 ? PROT_READ : PROT_READ | PROT_WRITE;
  const auto mapped = base::map_file(file.get(), "shared memory", all, rights);
  if (!mapped.ok()) return no_memory("no mapping");
  auto* const head = reinterpret_cast<Page*>(mapped.value());
  const bool may_write = rights != PROT_READ && head->may_write != 0;
  std::unique_ptr<SharedMemory> memory(new SharedMemory(std::move(file), head, all, may_write));
  const Page& page = *memory->page_;
  if (page.magic != kMagic || page.key != key || page.bytes != all - kPageBytes) return wrong();
  return memory;
}

SharedMemory::~SharedMemory() { BRECCIA_ASSERT(munmap(page_, mapped_bytes_) == 0); }

std::span<std::byte> SharedMemory::bytes() const {
  return {reinterpret_cast<std::byte*>(page_) + kPageBytes, mapped_bytes_ - kPageBytes};
}
void SharedMemory::revoke() { page_->is_revoked.store(1, std::memory_order_seq_cst); }
bool SharedMemory::is_revoked() const {
  return page_->is_revoked.load(std::memory_order_seq_cst) != 0;
}

}  // namespace breccia::fabric::local
