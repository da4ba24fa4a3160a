#pragma once

#include <span>

#include "cache/device_tags.h"
#include "ordered/state.h"
#include "ordered/statistics.h"

namespace breccia::ordered {

/// Places in the entry cache of what a search did not find (runs::Backend::search_with_tags).
struct CacheRefs {
  std::uint32_t* refs;     // room for one of each query
  bool is_filled = false;  // by the search
};

/// Searches a family's runs on the backends that hold them.
/// Threads any number; holds no state of its own.
class RunSearch {
 public:
  /// `tags`: of the entry cache; null: there is none.
  RunSearch(Backends* backends, cache::DeviceTags* tags, Statistics* statistics)
      : backends_(backends), tags_(tags), statistics_(statistics) {}

  /// True if the family's runs lie all on a device, or all on the host.
  [[nodiscard]] static bool are_in_one_place(const FamilyView& family);

  /// True if search() takes `count` keys of `key_bytes` bytes in rows (runs::QueriesRef), and reads
  /// them where they lie.
  [[nodiscard]] bool takes_rows(const FamilyView& family, const std::uint64_t* rows,
                                std::uint64_t count, std::uint32_t key_bytes) const;

  /// For each query what it finds in `runs` of the family; the memtable is not looked at. Runs that
  /// the device had no room for lie on the host: each is searched where it lies. `cached` may be
  /// null.
  /// Shape   found in memory of the backend in use; values only of a family that has them, and
  ///         operations without payloads only of runs in one place, with `cached` null.
  /// Errors  false: it cannot be done (too many runs, no memory, a device lost); look the keys up
  ///         one by one.
  [[nodiscard]] bool search(const FamilyView& family, std::span<const runs::RunPtr> runs,
                            const runs::QueriesRef& queries, const runs::FoundRef& found,
                            CacheRefs* cached) const;

 private:
  Backends* backends_;
  cache::DeviceTags* tags_;
  Statistics* statistics_;
};

}  // namespace breccia::ordered
