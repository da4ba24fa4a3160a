#pragma once

#include "exec/memory.h"
#include "exec/pool.h"

namespace breccia::exec::host {

/// Memory of the system, not initialized, for std::free; large blocks on huge pages where the
/// system offers them. Null: there is none.
[[nodiscard]] void* take_memory(std::size_t bytes, std::size_t alignment_min);

/// Anonymous host memory, large blocks on huge pages where the system offers them.
class HostPool : public Pool {
 public:
  explicit HostPool(std::uint64_t bytes_max) : Pool(bytes_max, &host_allowance(), 1) {}
  ~HostPool() override { drop_kept(); }

 protected:
  void* raw_allocate(std::size_t bytes) override;
  void raw_release(void* memory, std::size_t bytes) override;
};

}  // namespace breccia::exec::host
