#pragma once

#include <cstdint>
#include <utility>

#include "exec/atomics.h"
#include "exec/group.h"
#include "exec/permute.h"
#include "hash/algo/run.cuh"
#include "hash/refs.h"
#include "hash/shapes/shape.h"

/// One request in a table of levels: all slots that its key may have are looked at at once.
/// Source  [gphash] 3.1 "one-shot warp access", 3.2.3. Deviation: keys and values lie in a slot
///         together, so that it is filled by one exchange and is in no state between; no key is
///         inserted twice at once, so there are no duplicates to find.

namespace breccia::hash::algo {

/// A table of levels.
/// Shape   pairs[slot_count()], the top level first; top_buckets: a multiple of 2^(levels - 1).
struct ShapedRef {
  Pair* pairs = nullptr;
  std::uint64_t top_buckets = 0;
  shapes::Shape shape;
  Secret secret;

  /// Buckets of all levels above one.
  [[nodiscard]] BRECCIA_HD std::uint64_t buckets_above(int level) const {
    return 2 * top_buckets - (2 * top_buckets >> level);
  }
  [[nodiscard]] std::uint64_t slot_count() const {
    return buckets_above(shape.levels) * static_cast<std::uint64_t>(shape.slots);
  }
};

/// What a lane of a group sees of a key's candidates: kShare slots of one bucket.
template <class Group, int kShare>
class ShapedView {
 public:
  /// Looks at the candidates of a word; all pairs of a lane are read before any is looked at.
  BRECCIA_SINGLE_SOURCE
  BRECCIA_HD ShapedView(const Group& group, const ShapedRef& table, std::uint64_t word)
      : table_(table), seen_(group.per_lane([&](int lane) {
          Seen seen;
          seen.slot = first_slot(table, word, lane);
          Pair pair[kShare];
          for (int i = 0; i < kShare; ++i) {
            pair[i] = exec::load_pair_device(group, table.pairs + seen.slot + i);
          }
          for (int i = 0; i < kShare; ++i) {
            if (pair[i].first == kEmpty) seen.empty |= 1U << i;
            if (pair[i].first == word) {
              seen.has = true;
              seen.value = pair[i].second;
            }
          }
          return seen;
        })) {}

  /// Answers in a lane that has the key. False: none has.
  BRECCIA_SINGLE_SOURCE
  template <class Answer>
  BRECCIA_HD bool answer(const Group& group, const Answer& answer) const {
    const exec::LaneMask having = group.ballot([&](int lane) { return seen_[lane].has; });
    if (having == 0) return false;
    // One bucket may be two candidates.
    const int holder = exec::first_set(having);
    group.each_lane([&](int lane) {
      if (lane == holder) answer(seen_[lane].value);
    });
    return true;
  }

  enum class Fill { kDone, kFull, kAgain };
  /// Puts a pair into the first empty slot of the bucket with the fewest keys.
  BRECCIA_SINGLE_SOURCE
  BRECCIA_HD Fill fill(const Group& group, const Pair& pair) const {
    exec::LaneMask empty[kShare];  // lanes by slots of their shares
    for (int i = 0; i < kShare; ++i) {
      empty[i] = group.ballot([&](int lane) { return (seen_[lane].empty >> i & 1U) != 0; });
    }
    // Lanes of a bucket lie together, a bucket's behind each other's.
    const int lanes_of_bucket = table_.shape.slots / kShare;
    int most = 0;
    exec::LaneMask best = 0;
    for (int first = 0; first < Group::kWidth; first += lanes_of_bucket) {
      const exec::LaneMask bucket = exec::full_mask(lanes_of_bucket) << first;
      int free = 0;
      for (int i = 0; i < kShare; ++i) free += exec::count_set(empty[i] & bucket);
      if (free <= most) continue;
      most = free;
      best = bucket;
    }
    if (most == 0) return Fill::kFull;
    exec::LaneMask able = 0;
    for (int i = 0; i < kShare; ++i) able |= empty[i] & best;
    const int chosen = exec::first_set(able);
    const bool is_filled = group.ballot([&](int lane) {
      if (lane != chosen) return false;
      const std::uint64_t slot =
          seen_[lane].slot + static_cast<std::uint64_t>(exec::first_set(seen_[lane].empty));
      const Pair nothing{};
      return exec::compare_exchange_pair_device(group, table_.pairs + slot, nothing, pair) ==
             nothing;
    }) != 0;
    return is_filled ? Fill::kDone : Fill::kAgain;
  }

 private:
  struct Seen {
    std::uint64_t slot = 0;   // the first one of its share
    std::uint32_t empty = 0;  // which of them are
    bool has = false;
    std::uint64_t value = 0;
  };

  /// Candidates are numbered by location, level, slot.
  BRECCIA_HD static std::uint64_t first_slot(const ShapedRef& table, std::uint64_t word, int lane) {
    const int candidate = lane * kShare;
    const int bucket_of = candidate / table.shape.slots;
    const int level = bucket_of % table.shape.levels;
    std::uint64_t hash = word;
    for (int location = bucket_of / table.shape.levels; location > 0; --location) {
      hash = exec::permuted(hash, table.secret.add, table.secret.second_factor);
    }
    const std::uint64_t bucket =
        table.buckets_above(level) + (exec::scaled(hash, table.top_buckets) >> level);
    return bucket * static_cast<std::uint64_t>(table.shape.slots) +
           static_cast<std::uint64_t>(candidate % table.shape.slots);
  }

  const ShapedRef& table_;
  decltype(std::declval<const Group&>().per_lane([](int) { return Seen(); })) seen_;
};

/// Lookups, or insertions of keys that no other request has.
/// Launch  group g: request g, over count * W items.
/// Bound   an insertion looks again only where another group filled a slot of its candidates.
template <int kShare, bool kInserts>
struct RunShaped {
  static constexpr int kBlockThreads = 128;

  ShapedRef table;
  RequestsRef requests;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    using View = ShapedView<Group, kShare>;
    const std::uint64_t i = first / Group::kWidth;
    const std::uint64_t word =
        exec::permuted(requests.key[i], table.secret.add, table.secret.factor);
    if (word < kFirstWord || word == exec::kBusyWord) {
      say(group, i, kInserts ? Code::kNoRoom : Code::kAbsent);
      return;
    }
    for (;;) {
      const View view(group, table, word);
      const auto tell = [&](std::uint64_t found) { answer(requests, i, Code::kPresent, found); };
      if (view.answer(group, tell)) return;
      if constexpr (!kInserts) {
        say(group, i, Code::kAbsent);
        return;
      } else {
        const std::uint64_t value = requests.value == nullptr ? 0 : requests.value[i];
        const auto filled = view.fill(group, Pair{word, value});
        if (filled == View::Fill::kAgain) continue;
        say(group, i, filled == View::Fill::kDone ? Code::kAbsent : Code::kNoRoom);
        return;
      }
    }
  }

 private:
  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void say(const Group& group, std::uint64_t i, Code code) const {
    group.each_lane([&](int lane) {
      if (lane == 0) answer(requests, i, code, 0);
    });
  }
};

}  // namespace breccia::hash::algo
