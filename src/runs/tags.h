#pragma once

#include <cstdint>
#include <memory>

#include "exec/group.h"

/// Tags of a set-associative table: 32 bits of each key's hash, by set and way. They tell where a
/// key may be; whoever has the table looks there.

namespace breccia::runs {

inline constexpr int kTagWays = 32;

/// The set of a key, by its hash (record/key_hash.h).
/// Shape   set_count < 2^32.
BRECCIA_HD constexpr std::uint64_t set_of(std::uint64_t hash, std::uint64_t set_count) {
  return (hash >> 32) * set_count >> 32;
}

/// The tag of a key; never 0, which is that of a free way.
BRECCIA_HD constexpr std::uint32_t tag_of(std::uint64_t hash) {
  const auto tag = static_cast<std::uint32_t>(hash);
  return tag != 0 ? tag : 1;
}

/// Tags in some memory, not owned: tags[set_count * kTagWays].
struct TagsRef {
  const std::uint32_t* tags = nullptr;
  std::uint64_t set_count = 0;
};

/// A copy of a table's tags in a backend's memory. Immutable; freed with its last reference, which
/// must go before the backend.
/// Threads any.
class Tags {
 public:
  virtual ~Tags() = default;
  [[nodiscard]] virtual std::uint64_t set_count() const = 0;
};
using TagsPtr = std::shared_ptr<const Tags>;

}  // namespace breccia::runs
