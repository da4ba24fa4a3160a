#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"

namespace breccia::pmem {

/// Anonymous zeroed memory in whole pages; a page costs nothing until it is stored into.
/// Threads the object one owner; the bytes anybody.
class PageMemory {
 public:
  /// Errors  MemoryLimit: the system has no room.
  static Result<PageMemory> allocate(std::uint64_t bytes);
  /// The same in huge pages where the system has them: for what is read and stored into all over.
  static Result<PageMemory> allocate_huge(std::uint64_t bytes);
  /// The same in small pages whatever the system prefers: for what is stored into here and there.
  static Result<PageMemory> allocate_small(std::uint64_t bytes);

  PageMemory(PageMemory&& other) noexcept;
  PageMemory& operator=(PageMemory&& other) noexcept;
  ~PageMemory();

  [[nodiscard]] std::byte* data() { return data_; }
  [[nodiscard]] const std::byte* data() const { return data_; }

 private:
  PageMemory(std::byte* data, std::uint64_t mapped_bytes);
  static Result<PageMemory> allocate_advised(std::uint64_t bytes, int advice);

  std::byte* data_ = nullptr;
  std::uint64_t mapped_bytes_ = 0;
};

}  // namespace breccia::pmem
