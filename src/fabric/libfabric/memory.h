#pragma once

#include <rdma/fi_domain.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "fabric/libfabric/provider.h"

namespace breccia::fabric::libfabric {

/// Pages of memory that the provider knows.
class Memory {
 public:
  /// What the provider may do with it: FI_SEND, FI_REMOTE_READ and so on.
  /// Errors  MemoryLimit. IOError: the provider does not take it.
  /// Owner   the provider outlives it.
  static Result<std::unique_ptr<Memory>> make(const Provider& provider, std::uint64_t bytes,
                                              std::uint64_t access);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  [[nodiscard]] std::span<std::byte> bytes() const { return {begin_, bytes_}; }
  [[nodiscard]] void* description() const { return fi_mr_desc(registered_.get()); }
  [[nodiscard]] std::uint64_t key() const { return fi_mr_key(registered_.get()); }
  /// What others add to offsets.
  [[nodiscard]] std::uint64_t base() const { return base_; }

  /// Nobody reaches it from here on, and its pages are given back. Its addresses are kept, without
  /// rights, until this ends: an access that software has begun finds nothing there, and nothing
  /// of others either.
  void revoke();

 private:
  Memory(std::byte* begin, std::uint64_t bytes, std::uint64_t base)
      : begin_(begin), bytes_(bytes), base_(base) {}

  std::byte* const begin_;
  const std::uint64_t bytes_;
  const std::uint64_t base_;
  Handle<fid_mr> registered_;
};

}  // namespace breccia::fabric::libfabric
