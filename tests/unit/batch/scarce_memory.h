#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/memory.h"

namespace breccia::batch {

/// Host memory that is exhausted for one allocation.
class ScarceMemory final : public exec::HostMemory {
 public:
  [[nodiscard]] void* allocate(std::size_t bytes) override {
    if (++calls_ == fail_at_) return nullptr;
    return exec::plain_host_memory().allocate(bytes);
  }
  void release(void* memory, std::size_t bytes) override {
    exec::plain_host_memory().release(memory, bytes);
  }
  void fail_at(std::uint64_t call) { fail_at_ = call; }
  [[nodiscard]] std::uint64_t calls() const { return calls_; }

 private:
  std::uint64_t calls_ = 0;
  std::uint64_t fail_at_ = 0;
};

}  // namespace breccia::batch
