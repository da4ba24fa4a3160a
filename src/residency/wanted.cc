#include "residency/wanted.h"

#include <algorithm>

#include "base/memory.h"
#include "record/columns.h"

namespace breccia::residency {

/// Heads, places, and tails of keys of their mean length.
Result<Wanted> wanted_by(const sst::Table& table) {
  const std::uint64_t entries = table.number("rocksdb.num.entries").value_or(0);
  const std::uint64_t key_bytes = table.number("rocksdb.raw.key.size").value_or(0);
  if (entries == 0) return Wanted();
  const std::uint64_t mean = std::max<std::uint64_t>(key_bytes / entries, sst::kTagBytes);
  const std::uint64_t words = 2 + record::tail_words(mean - sst::kTagBytes);
  return Wanted{entries, entries * words * sizeof(std::uint64_t)};
}

Result<Wanted> wanted_by(const std::string& path) {
  return base::or_memory_limit([&]() -> Result<Wanted> {
    BRECCIA_TAKE(const auto table, sst::Table::open(path));
    return wanted_by(*table);
  });
}

}  // namespace breccia::residency
