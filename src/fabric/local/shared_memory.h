#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/descriptor.h"
#include "base/result.h"
#include "fabric/port.h"

namespace breccia::fabric::local {

using base::Descriptor;

/// Memory of one process that others of the computer map, by a descriptor that they are handed.
///
/// In the file: a page that says what it is, then the bytes. Its length is sealed, so that nobody
/// faults, and where others may only read the kernel lets no mapping of theirs write.
class SharedMemory {
 public:
  /// Errors  MemoryLimit.
  static Result<std::unique_ptr<SharedMemory>> make(std::uint64_t key, std::uint64_t bytes,
                                                    Access access);
  /// Maps what another process has made.
  /// Errors  InvalidArgument: it is nothing of that kind. MemoryLimit.
  static Result<std::unique_ptr<SharedMemory>> map(Descriptor file, std::uint64_t key);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  [[nodiscard]] int file() const { return file_.get(); }
  [[nodiscard]] std::span<std::byte> bytes() const;
  [[nodiscard]] bool may_write() const { return may_write_; }
  /// Of who made it: whoever has it mapped is to leave it alone from here on.
  void revoke();
  [[nodiscard]] bool is_revoked() const;

 private:
  struct Page;
  SharedMemory(Descriptor file, Page* page, std::uint64_t mapped_bytes, bool may_write)
      : file_(std::move(file)), page_(page), mapped_bytes_(mapped_bytes), may_write_(may_write) {}

  const Descriptor file_;
  Page* const page_;
  const std::uint64_t mapped_bytes_;
  const bool may_write_;  // as it was mapped: what the page says its owner may change
};

}  // namespace breccia::fabric::local
