#include "exec/host/host_memory.h"

#include <sys/mman.h>

#include <cstdlib>

#include "base/bytes.h"

namespace breccia::exec {

namespace host {

namespace {

constexpr std::size_t kHugePage = 2 << 20;
/// Of a block so much may be lost for its last page to be a huge one, too.
constexpr std::size_t kLostShare = 8;

std::size_t bytes_on_huge_pages(std::size_t bytes) {
  const std::size_t rounded = base::round_up(bytes, kHugePage);
  return rounded - bytes <= bytes / kLostShare ? rounded : bytes / kHugePage * kHugePage;
}

}  // namespace

void* take_memory(std::size_t bytes, std::size_t alignment_min) {
  const std::size_t alignment = bytes >= kHugePage ? kHugePage : alignment_min;
  void* const memory = std::aligned_alloc(alignment, base::round_up(bytes, alignment));
  if (memory != nullptr && bytes >= kHugePage) {
    // Advice only: without huge pages the block works as well, just with more TLB misses.
    (void)madvise(memory, bytes_on_huge_pages(bytes), MADV_HUGEPAGE);
  }
  return memory;
}

void* HostPool::raw_allocate(std::size_t bytes) { return take_memory(bytes, 256); }
void HostPool::raw_release(void* memory, std::size_t) { std::free(memory); }

}  // namespace host

namespace {

class PlainHostMemory : public HostMemory {
 public:
  void* allocate(std::size_t bytes) override { return pool_.allocate(bytes); }
  void release(void* memory, std::size_t bytes) override { pool_.release(memory, bytes); }

 private:
  host::HostPool pool_{~std::uint64_t{0} / 2};
};

}  // namespace

HostMemory& plain_host_memory() {
  // Never destroyed: batches with static lifetime may outlive every other static.
  static auto* const memory = new PlainHostMemory;
  return *memory;
}

std::shared_ptr<HostMemory> shared_plain_host_memory() {
  return {std::shared_ptr<void>(), &plain_host_memory()};  // owns nothing: it is never destroyed
}

}  // namespace breccia::exec
