#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/memory.h"
#include "exec/clear.h"
#include "exec/device.h"
#include "exec/pool.h"
#include "slab/refs.h"

namespace breccia::slab {

/// What became of something that was begun, and cannot be taken back.
inline Status begun(Status status) {
  return status.IsMemoryLimit() ? base::io_error("memory ran out in mid-change")
                                : std::move(status);
}

/// What slabs may take, and what they do.
struct Budget {
  std::uint64_t bytes_max = 0;
  std::uint64_t host_bytes_max = 0;
  std::uint64_t bytes = 0;
  std::uint64_t host_bytes = 0;
};

/// Slabs of a table, which stay where they are when there are more: in memory of the executor's,
/// and where that has no room in the host's.
/// Threads one owner.
/// Source  [kvcg] 5.2. Deviation: no managed memory, which a GPU may hang on when there is more of
///         it than the device has (docs/impl/slab.md).
class Segments {
 public:
  /// Whether behind a segment in the host's memory others may lie in the executor's again.
  enum class Behind : std::uint8_t { kAnywhere, kHost };

  /// The first segment has 2^first_bits.
  Segments(exec::HostMemory& host, int first_bits, Behind behind) : host_(host), behind_(behind) {
    BRECCIA_ASSERT(first_bits >= 0);
    ref_.first_bits = first_bits;
  }
  ~Segments() {
    for (const OfHost& one : of_host_) host_.release(one.memory, one.bytes);
  }
  Segments(const Segments&) = delete;
  Segments& operator=(const Segments&) = delete;

  [[nodiscard]] std::uint64_t count() const {
    if (segments_ == 0) return 0;
    return std::uint64_t{1} << (ref_.first_bits + segments_ - 1);
  }
  /// How many slabs one segment more has.
  [[nodiscard]] std::uint64_t next_count() const {
    return segments_ == 0 ? std::uint64_t{1} << ref_.first_bits : count();
  }
  [[nodiscard]] const SlabsRef& ref() const { return ref_; }
  /// Whether some lie in the host's memory, and from which number on.
  [[nodiscard]] bool has_host() const { return !of_host_.empty(); }
  [[nodiscard]] std::uint64_t host_from() const {
    BRECCIA_ASSERT(has_host());
    return of_host_.front().first;
  }

  /// One segment more, of slabs with nothing in them. While nobody is at the table.
  /// Errors  MemoryLimit: there is no room for it; nothing was changed.
  template <class X>
  Status grow(X& x, Budget* budget) {
    if (segments_ == kSegmentsMax || next_count() > kSlabsMax) {
      return Status::MemoryLimit("too many slabs");
    }
    BRECCIA_TRY(base::or_memory_limit([&] {
      own_.reserve(own_.size() + 1);
      of_host_.reserve(of_host_.size() + 1);
      return Status::OK();
    }));
    BRECCIA_TAKE(Slab* const slabs, take_memory(x, budget));
    // Until it is cleared nobody knows of it.
    const Status cleared = clear(x, slabs);
    if (!cleared.ok()) {
      give_back(slabs, budget);
      return base::copy_of(cleared);
    }
    ref_.segment[segments_++] = slabs;
    return Status::OK();
  }

 private:
  /// So that numbers of slabs have room in a tail.
  static constexpr std::uint64_t kSlabsMax = std::uint64_t{1} << 30;

  struct OfHost {
    Slab* slabs;
    void* memory;
    std::uint64_t bytes;
    std::uint64_t first;  // number of its first slab
  };

  template <class X>
  Status clear(X& x, Slab* slabs) const {
    constexpr std::uint64_t kWords = sizeof(Slab) / sizeof(std::uint64_t);
    BRECCIA_TRY(exec::clear(x, reinterpret_cast<std::uint64_t*>(slabs), next_count() * kWords));
    return x.finish();
  }

  void give_back(const Slab* slabs, Budget* budget) {
    const std::uint64_t bytes = next_count() * sizeof(Slab);
    if (!own_.empty() && own_.back().data() == slabs) {
      own_.pop_back();
      budget->bytes -= bytes;
    } else {
      BRECCIA_ASSERT(!of_host_.empty() && of_host_.back().slabs == slabs);
      host_.release(of_host_.back().memory, bytes);
      of_host_.pop_back();
      budget->host_bytes -= bytes;
    }
  }

  template <class X>
  Result<Slab*> take_memory(X& x, Budget* budget) {
    const std::uint64_t bytes = next_count() * sizeof(Slab);
    const bool may_be_own = behind_ == Behind::kAnywhere || !has_host();
    if (may_be_own && bytes <= budget->bytes_max - std::min(budget->bytes, budget->bytes_max)) {
      auto made = exec::Array<Slab>::make(x.pool(), next_count());
      if (made.ok()) {
        own_.push_back(made.take());
        budget->bytes += bytes;
        return own_.back().data();
      }
    }
    const bool may_be_host =
        bytes <= budget->host_bytes_max - std::min(budget->host_bytes, budget->host_bytes_max);
    void* const memory = may_be_host ? host_.allocate(bytes) : nullptr;
    if (memory == nullptr) return Status::MemoryLimit("no memory for more slabs");
    auto* const slabs = x.reach(static_cast<Slab*>(memory));
    if (slabs == nullptr) {
      host_.release(memory, bytes);
      return Status::MemoryLimit("no memory for more slabs that the device reaches");
    }
    of_host_.push_back({slabs, memory, bytes, count()});
    budget->host_bytes += bytes;
    return slabs;
  }

  exec::HostMemory& host_;
  const Behind behind_;
  SlabsRef ref_;
  int segments_ = 0;
  std::vector<exec::Array<Slab>> own_;
  std::vector<OfHost> of_host_;
};

}  // namespace breccia::slab
