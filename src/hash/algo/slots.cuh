#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "exec/atomics.h"
#include "exec/group.h"
#include "hash/algo/keys.cuh"
#include "hash/refs.h"

/// One key in a table: where it is, or where it may go.
///
/// A slot goes from kEmpty to a word and on to kDeleted, and each step is one compare-exchange of
/// the whole pair. It becomes kEmpty again, or another word, in a section of its own only, while
/// nobody else is at the table (displace.cuh). Between two such sections slots fill up
/// and never come back, and four things follow:
/// - A key is not there twice. Two groups that insert one key both take the first empty slot of the
///   same sequence, first bucket, then second. Where one took a slot that the other passed over,
///   the other saw it in use by another key, which it then was for good.
/// - A value goes to the key it was meant for: its slot cannot have become another key's.
///   What a group saw to be another key of the same hash (keys.cuh) stays another one, too.
/// - No key lies behind an empty slot of its bucket: whoever took a slot saw those before it in
///   use. What empties slots, a section, moves the pairs behind them to the front.
/// - Nobody waits: an exchange that fails is one that another group has done.

namespace breccia::hash::algo {

/// What one lane saw of its neighbours in a bucket.
struct LaneSight {
  int has = -1;    // which of them is the key; -1: none
  int empty = -1;  // the first empty one
  std::uint64_t value = 0;
};

/// A bucket as a group sees it: each lane W-th part of it, slots that lie together.
template <class Group>
struct BucketView {
  static constexpr int kShare = kBucketPairs / Group::kWidth;

  /// The first slot of a lane's share.
  BRECCIA_HD static std::uint64_t begin_of(std::uint64_t bucket, int lane) {
    return bucket * kBucketPairs + static_cast<std::uint64_t>(lane * kShare);
  }

  /// Looks at a lane's share. All of it is read before any is looked at.
  BRECCIA_SINGLE_SOURCE
  template <class Key>
  BRECCIA_HD static LaneSight look(const Group& group, const TableRef& table, std::uint64_t bucket,
                                   std::uint64_t word, int lane, const Key& key) {
    const Pair* const pairs = table.pairs + begin_of(bucket, lane);
    Pair pair[kShare];
    for (int i = 0; i < kShare; ++i) pair[i] = exec::load_pair_device(group, pairs + i);
    LaneSight sight;
    for (int i = kShare - 1; i >= 0; --i) {
      if (pair[i].first == kEmpty) sight.empty = i;
      if (key.is_in(pair[i], word, lane * kShare + i)) {
        sight.has = i;
        sight.value = pair[i].second;
      }
    }
    return sight;
  }

  /// Of the lanes that saw a key's word only that one still sees it which has the key, the first
  /// one if there are two; other keys of its hash are passed over.
  /// Shape   look_again() gives what *seen is of, without the slots of those others.
  /// Cost    a row read for each slot with the word; the bucket again for each other key. (Who kept
  ///         the pairs of the first look would spend registers on what hardly ever happens.)
  BRECCIA_SINGLE_SOURCE
  template <class Seen, class LookAgain>
  BRECCIA_HD static void keep_holder(const Group& group, const TableRef& table,
                                     std::uint64_t bucket, RowKey<Group>& key, Seen* seen,
                                     const LookAgain& look_again) {
    for (;;) {
      const Seen now = *seen;
      const exec::LaneMask having = group.ballot([&](int lane) { return now[lane].has >= 0; });
      if (having == 0) break;
      const int holder = exec::first_set(having);
      const std::uint32_t row = group.from(holder, [&](int lane) {
        exec::acquire_pair_device(group, table.pairs + begin_of(bucket, lane) + now[lane].has);
        return static_cast<std::uint32_t>(now[lane].value);
      });
      if (key.lies_in(group, row)) {
        *seen = group.per_lane([&](int lane) { return lane == holder ? now[lane] : LaneSight(); });
        break;
      }
      key.pass_over(group.from(holder, [&](int lane) { return lane * kShare + now[lane].has; }));
      *seen = look_again();
    }
    key.forget_others();
  }
};

/// A bucket's bit in a map of them.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD bool is_marked(const Group& group, const std::uint32_t* bits, std::uint64_t bucket) {
  return (exec::load_relaxed_device(group, bits + bucket / 32) >> bucket % 32 & 1U) != 0;
}

/// Sets it, at the cost of an atomic that nobody waits for. In no order: for maps that are asked in
/// later launches, and where it may be too early. Called by one lane.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD void mark(const Group& group, std::uint32_t* bits, std::uint64_t bucket) {
  (void)exec::or_relaxed_device(group, bits + bucket / 32, 1U << bucket % 32);
}

/// The same where it is set already as a rule.
/// Cost    a load, and where it is clear the atomic.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD void mark_if_clear(const Group& group, std::uint32_t* bits, std::uint64_t bucket) {
  if (!is_marked(group, bits, bucket)) mark(group, bits, bucket);
}

/// The same, and what the caller does next comes behind it for all.
/// Cost    an atomic that is waited for.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD void mark_before(const Group& group, std::uint32_t* bits, std::uint64_t bucket) {
  (void)exec::or_acquire_device(group, bits + bucket / 32, 1U << bucket % 32);
}

/// To be called before a slot that was seen empty is filled. Nothing lies behind an empty slot, so
/// its bucket is full with the last one, whether the caller fills it or another group was faster.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD void note_fill(const Group& group, const TableRef& table, std::uint64_t slot) {
  if (slot % kBucketPairs == kBucketPairs - 1) {
    mark(group, table.is_full, slot / kBucketPairs);
  }
}

/// The first empty slot of a key's sequence: the lane that saw it knows where it is.
template <class Group>
struct Gap {
  BRECCIA_SINGLE_SOURCE
  BRECCIA_HD explicit Gap(const Group& group) : index(no_index(group)) {}
  BRECCIA_SINGLE_SOURCE
  BRECCIA_HD static auto no_index(const Group& group) {
    return group.per_lane([](int) { return 0; });
  }

  int lane = -1;  // none
  bool is_in_second = false;
  bool is_first_marked = false;  // in was_full, as was seen on the way to the second
  decltype(no_index(std::declval<const Group&>())) index;  // within the share of `lane`
};

/// What came of looking for a key.
enum class Look : std::uint8_t {
  kAbsent,
  kDone,   // it was there, and `act` was done
  kAgain,  // it was there, and `act` failed, as another group changed it
};

/// Looks for a key at its place, in those of its two buckets that are `from` or later, and calls
/// act(slot, value) in the lane that sees it. The second bucket is looked at only if the first one
/// was full once.
/// Shape   act returns whether it was done, or nothing: it always is. `gap` is null or empty; set
///         if the key is absent and there is one.
/// Cost    of a bucket: a load of 128 bytes and beside it one of the map of bits, a vote; where the
///         key is not in it, a vote or two more; and what the key's kind costs.
/// Order   the map is asked no later than the bucket's slots are looked at: a key that came to the
///         second bucket before this call has set its bit before.
BRECCIA_SINGLE_SOURCE
template <class Group, class Key, class Act>
BRECCIA_HD Look look_for(const Group& group, const TableRef& table, const Place& place, Key& key,
                         std::uint64_t from, std::type_identity_t<Gap<Group>>* gap,
                         const Act& act) {
  using View = BucketView<Group>;
  for (bool is_second = false;; is_second = true) {
    const std::uint64_t bucket = is_second ? place.second : place.first;
    const auto goes_on = group.per_lane(
        [&](int) { return !is_second && is_marked(group, table.was_full, place.first); });
    if (bucket >= from) {
      const auto look_at = [&] {
        return group.per_lane(
            [&](int lane) { return View::look(group, table, bucket, place.word, lane, key); });
      };
      auto seen = look_at();
      if constexpr (Key::kSharesWords) {
        View::keep_holder(group, table, bucket, key, &seen, look_at);
      }
      const exec::LaneMask have = group.ballot([&](int lane) { return seen[lane].has >= 0; });
      if (have != 0) {
        const auto act_on = [&](int lane) {
          return act(View::begin_of(bucket, lane) + static_cast<std::uint64_t>(seen[lane].has),
                     seen[lane].value);
        };
        if constexpr (std::is_void_v<decltype(act_on(0))>) {
          group.each_lane([&](int lane) {
            if (seen[lane].has >= 0) act_on(lane);
          });
          return Look::kDone;
        } else {
          // Two may have seen it, if it was deleted and inserted between their looks.
          const int first = exec::first_set(have);
          const exec::LaneMask done =
              group.ballot([&](int lane) { return lane == first && act_on(lane); });
          return done != 0 ? Look::kDone : Look::kAgain;
        }
      }
      if (gap != nullptr && gap->lane < 0) {
        const exec::LaneMask empty = group.ballot([&](int lane) { return seen[lane].empty >= 0; });
        if (empty != 0) {
          gap->lane = exec::first_set(empty);
          gap->is_in_second = is_second;
          gap->index = group.per_lane([&](int lane) { return seen[lane].empty; });
        }
      }
    }
    if (is_second) return Look::kAbsent;
    const bool is_first_marked = group.ballot([&](int lane) { return goes_on[lane]; }) != 0;
    // Who would insert goes on also where the first one is full only now.
    const bool wants_gap = gap != nullptr && gap->lane < 0;
    if (!wants_gap && !is_first_marked) return Look::kAbsent;
    if (wants_gap) gap->is_first_marked = is_first_marked;
  }
}

}  // namespace breccia::hash::algo
