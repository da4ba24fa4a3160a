#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "ordered/parts.h"
#include "ordered/write/publisher.h"

namespace breccia::ordered {

/// Builds filters in the background, one at a time, from all keys of a family's tree: where there
/// is none, or the one there is holds more than it was made for, and lookups that the tree answered
/// with "not found" have paid for it (cache/miss_meter.h).
///
/// Threads start() and stop() by one.
class FilterBuilder {
 public:
  FilterBuilder(const StoreParts& parts, Publisher* publisher);
  ~FilterBuilder();

  void start();
  /// Ends what is being built at its next key.
  void stop();

 private:
  using FilterPtr = TreeFilters::FilterPtr;

  void run();
  [[nodiscard]] bool is_due(const FamilyView& family, std::uint64_t keys) const;
  void build(const FamilyView& family, std::uint64_t keys);
  /// True in *built if it is the family's filter now. Errors  those of the tree's iterator.
  Status build_once(const FamilyView& family, std::uint64_t keys, bool* built);
  Status read_keys(const FamilyView& family, const tree::TreeSnapshot& snapshot,
                   const FilterPtr& filter) const;
  Status read_range(const FamilyView& family, const tree::TreeSnapshot& snapshot,
                    const std::string* begin, const std::string* end,
                    const FilterPtr& filter) const;
  [[nodiscard]] std::vector<std::string> division(const FamilyView& family) const;
  [[nodiscard]] bool install(FamilyId id, const FilterPtr& filter);
  [[nodiscard]] std::uint64_t keys_of(const FamilyView& family) const;

  const StoreParts parts_;
  Publisher* publisher_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace breccia::ordered
