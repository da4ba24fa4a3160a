#include "fabric/libfabric/memory.h"

#include <sys/mman.h>

#include "base/assert.h"
#include "base/secret.h"
#include "fabric/libfabric/library.h"

namespace breccia::fabric::libfabric {

Result<std::unique_ptr<Memory>> Memory::make(const Provider& provider, std::uint64_t bytes,
                                             std::uint64_t access) {
  BRECCIA_ASSERT(bytes > 0);
  void* const mapped =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return Status::MemoryLimit("no memory for a network");
  const std::uint64_t base = provider.has_addresses() ? reinterpret_cast<std::uint64_t>(mapped) : 0;
  std::unique_ptr<Memory> memory(new Memory(static_cast<std::byte*>(mapped), bytes, base));
  // One that nobody guesses, and that no other port has: whoever finds another process at a peer's
  // address reads nothing there.
  const std::uint64_t key = provider.chooses_keys() ? 0 : base::draw_secret_word();
  fid_mr* registered = nullptr;
  const int failed = fi_mr_reg(provider.domain(), mapped, bytes, access, /*offset=*/0, key,
                               /*flags=*/0, &registered, nullptr);
  if (failed != 0) {
    return Status::IOError("memory is not taken by " + provider.name(), words_of(failed));
  }
  memory->registered_ = Handle(registered);
  return memory;
}

Memory::~Memory() {
  registered_ = Handle<fid_mr>();
  BRECCIA_ASSERT(munmap(begin_, bytes_) == 0);
}

void Memory::revoke() {
  registered_ = Handle<fid_mr>();
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  BRECCIA_ASSERT(mmap(begin_, bytes_, PROT_NONE, kFlags, -1, 0) == begin_);
}

}  // namespace breccia::fabric::libfabric
