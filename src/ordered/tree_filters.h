#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "cache/key_filter.h"
#include "cache/miss_meter.h"
#include "ordered/view.h"

namespace breccia::ordered {

/// The filters of a store's families: of each that has one, every key that its tree holds. A lookup
/// of what is nowhere ends there.
///
/// A filter is part of a view, beside the snapshot of the tree for which it is right. So that it is
/// right:
///  - keys are added (add) before the files that bring them are ingested, under the tree's change
///    lock, to the filter of the newest view and to one that is being built;
///  - a filter is begun (begin) under that lock, with a snapshot that holds all that was ingested;
///    what comes later is added to it;
///  - who changes the tree in another way that may bring keys in, or back, shuts this before: there
///    is no filter in any new view until it is over.
/// That deletions and compactions take keys out only costs lookups: docs/impl/ordered.md.
///
/// Threads any.
/// Order   its lock is taken last.
class TreeFilters {
 public:
  using FilterPtr = std::shared_ptr<cache::KeyFilter>;

  /// Misses from which on a filter is built for a tree of hardly any keys.
  static constexpr std::uint64_t kMissesMin = 64;
  /// Keys that a filter is made for at least.
  static constexpr std::uint64_t kKeysMin = 4096;

  /// `bytes_max`: that all filters together take; 0: there are none.
  explicit TreeFilters(std::uint64_t bytes_max);

  /// True if the family may have a filter: then flushes tell of its keys. Not where a compaction
  /// may bring back what something hid.
  [[nodiscard]] bool wants(const FamilyView& family) const {
    return bytes_max_ > 0 && family.tree_is_cached;
  }
  [[nodiscard]] const record::HashSeed& seed() const { return seed_; }

  /// For a family that comes into a view, which is published in the same turn. Above an empty tree
  /// it gets its filter.
  void join(FamilyView* family);
  /// The family was dropped: nothing is ingested into it any more.
  void forget(FamilyId id);
  /// Adds keys, by their hashes with seed(), to what there is of the family.
  /// Shape   the caller holds the tree's change lock until they are ingested.
  void add(FamilyId id, std::span<const std::uint64_t> hashes);

  // ---- changes of the tree past the engine ----

  /// Gives up what is being built; until reopen() nothing is begun, nor given to new families.
  void shut();
  [[nodiscard]] bool is_shut() const;
  /// To be called behind the view that has no filters any more, by who has shut.
  void drop_all();
  void reopen();

  // ---- who builds ----

  /// Begins a filter for `keys` keys, with room for as many again if the budget allows, at least
  /// for a quarter more. Null: it does not, or this is shut, or there is no memory.
  /// Shape   the caller holds the tree's change lock, and takes a snapshot before it lets go.
  [[nodiscard]] FilterPtr begin(FamilyId id, std::uint64_t keys);
  [[nodiscard]] bool is_building(FamilyId id, const FilterPtr& filter) const;
  /// Makes what was built the family's filter; false if it was given up meanwhile.
  /// Shape   in the turn that publishes it.
  [[nodiscard]] bool finish(FamilyId id, const FilterPtr& filter);
  void give_up(FamilyId id, const FilterPtr& filter);
  [[nodiscard]] base::Bell& bell() const { return news_->bell; }
  /// Whether a filter should be built without any need, for tests: see BRECCIA_SOMETIMES.
  [[nodiscard]] bool take_whim() { return whim_.exchange(false); }

  // ---- figures ----

  /// Keys in the filters of the newest view; bytes of those and of what is being built.
  [[nodiscard]] std::uint64_t keys() const;
  [[nodiscard]] std::uint64_t bytes() const;
  [[nodiscard]] std::uint64_t negatives() const { return news_->negatives.sum(0); }
  /// Filters that were built out of what the tree held.
  [[nodiscard]] std::uint64_t built() const { return built_.load(std::memory_order_relaxed); }

 private:
  struct Slot {
    FilterPtr current;   // of the newest view
    FilterPtr building;  // begun and not finished
  };
  [[nodiscard]] std::uint64_t bytes_in_use() const;

  const std::uint64_t bytes_max_;
  const record::HashSeed seed_;
  const std::shared_ptr<cache::FilterNews> news_ = std::make_shared<cache::FilterNews>();
  std::atomic<std::uint64_t> built_{0};
  std::atomic<bool> whim_{false};
  mutable std::mutex mutex_;  // guards what follows
  std::map<FamilyId, Slot> slots_;
  int shut_ = 0;
};

}  // namespace breccia::ordered
