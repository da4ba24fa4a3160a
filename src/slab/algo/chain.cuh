#pragma once

#include <cstdint>

#include "exec/atomics.h"
#include "exec/group.h"
#include "exec/permute.h"
#include "slab/refs.h"

/// Where a key may be, and a chain as a group of lanes sees it.

namespace breccia::slab::algo {

/// Where a key may lie, and as what.
struct Place {
  std::uint64_t head = 0;  // number of the slab that its chain begins with
  std::uint64_t word = 0;
};

BRECCIA_HD inline std::uint64_t hash_of(const Secret& secret, std::uint64_t key) {
  return exec::permuted(key, secret.add, secret.factor);
}

BRECCIA_HD inline std::uint64_t bucket_of(const TableRef& table, std::uint64_t hash) {
  const std::uint64_t bucket = hash & table.bucket_mask;
  return bucket < table.bucket_count ? bucket : bucket & table.bucket_mask >> 1;
}

BRECCIA_HD inline Place place_of(const TableRef& table, std::uint64_t key) {
  if (key == kFree) return {.head = 0, .word = ~kFree};
  return {.head = bucket_of(table, hash_of(table.secret, key)) + 1, .word = key};
}

/// The key of a word in the chain of this head.
BRECCIA_HD inline std::uint64_t key_of(std::uint64_t head, std::uint64_t word) {
  return head == 0 ? kFree : word;
}

/// The note of a head, null if there is none.
BRECCIA_HD inline std::uint64_t* note_of(const TableRef& table, std::uint64_t number) {
  const std::uint64_t at = number - table.reserve.first;  // those before it come far behind
  return at < table.reserve.count ? table.reserve.note + at : nullptr;
}

/// Where a head is. It stays there as long as anybody shares the table.
BRECCIA_SINGLE_SOURCE
template <class Group>
BRECCIA_HD Slab* head_of(const Group& group, const TableRef& table, std::uint64_t number) {
  if (const std::uint64_t* const at = note_of(table, number)) {
    const HeadNote note(exec::load_relaxed_device(group, at));
    if (note.is_up()) return table.reserve.slab + note.place();
  }
  return table.heads.at(number);
}

/// The tail of a slab: the next one, and of a head the bucket's version.
class Tail {
 public:
  static constexpr std::uint64_t kOdd = std::uint64_t{1} << 32;

  BRECCIA_HD explicit Tail(std::uint64_t word) : word_(word) {}

  [[nodiscard]] BRECCIA_HD std::uint64_t word() const { return word_; }
  [[nodiscard]] BRECCIA_HD bool is_locked() const { return (word_ & kOdd) != 0; }
  [[nodiscard]] BRECCIA_HD Tail locked() const { return Tail(word_ | kOdd); }
  /// Of the version after this one, which is not odd.
  [[nodiscard]] BRECCIA_HD Tail changed() const { return Tail(word_ + 2 * kOdd); }
  [[nodiscard]] BRECCIA_HD Tail with_next(std::uint32_t number) const {
    return Tail((word_ & ~kNext) | (std::uint64_t{number} + 1));
  }
  [[nodiscard]] BRECCIA_HD Tail without_next() const { return Tail(word_ & ~kNext); }
  [[nodiscard]] BRECCIA_HD bool has_next() const { return (word_ & kNext) != 0; }
  [[nodiscard]] BRECCIA_HD std::uint32_t next() const {
    return static_cast<std::uint32_t>(word_ & kNext) - 1;
  }

 private:
  static constexpr std::uint64_t kNext = kOdd - 1;
  std::uint64_t word_;
};

BRECCIA_HD inline std::uint64_t* tail_of(Slab* slab) { return slab->key + kSlabKeys; }

/// A place in a chain.
struct Slot {
  Slab* slab = nullptr;  // null: none
  int index = 0;
};

/// What a group found of a key.
struct Sight {
  Slot key;              // where it is
  Slot free;             // the first free place that was passed
  Slab* last = nullptr;  // the chain's last slab, if the key is not there
};

/// A slab as a group sees it: each lane every W-th pair of its words, so that what lanes read at
/// once lies together.
/// Shape   4, 8 or 16 lanes.
template <class Group>
class SlabView {
 public:
  /// Looks for a word in a chain whose head has this tail. Other slabs of it, and all places, may
  /// change meanwhile, unless the caller has the lock: what is found is true if the version stays.
  BRECCIA_SINGLE_SOURCE
  BRECCIA_HD static Sight look_for(const Group& group, const TableRef& table, Slab* head, Tail tail,
                                   std::uint64_t word) {
    Sight sight;
    for (Slab* slab = head;;) {
      const auto share = group.per_lane([&](int lane) { return look(group, slab, word, lane); });
      const Slot has = slot_of(group, slab, [&](int lane) { return share[lane].has; });
      if (has.slab != nullptr) {
        sight.key = has;
        return sight;
      }
      if (sight.free.slab == nullptr) {
        sight.free = slot_of(group, slab, [&](int lane) { return share[lane].free; });
      }
      if (slab != head) {
        tail = Tail(group.from(Group::kWidth - 1, [&](int lane) { return share[lane].tail; }));
      }
      if (!tail.has_next()) {
        sight.last = slab;
        return sight;
      }
      slab = table.chained.at(tail.next());
    }
  }

 private:
  static constexpr int kPairs = kSlabWords / 2 / Group::kWidth;  // of a lane

  /// What one lane sees.
  struct Share {
    int has = -1;   // the slab's word that is the key; -1: none of the lane's
    int free = -1;  // the lane's first one that is free
    std::uint64_t tail = 0;
  };

  BRECCIA_SINGLE_SOURCE
  BRECCIA_HD static Share look(const Group& group, const Slab* slab, std::uint64_t word, int lane) {
    // All of it is read before any is looked at.
    exec::WordPair pair[kPairs];
    for (int i = 0; i < kPairs; ++i) {
      pair[i] = exec::load_two_relaxed_device(group, slab->key + word_of(i, lane));
    }
    Share share;
    for (int i = kPairs - 1; i >= 0; --i) {
      const int at = word_of(i, lane);
      if (at + 1 == kSlabKeys) {
        share.tail = pair[i].second;
      } else {
        note(pair[i].second, word, at + 1, &share);
      }
      note(pair[i].first, word, at, &share);
    }
    return share;
  }
  /// Where a lane's i-th pair lies.
  BRECCIA_HD static constexpr int word_of(int i, int lane) {
    return 2 * (i * Group::kWidth + lane);
  }
  BRECCIA_HD static void note(std::uint64_t found, std::uint64_t word, int at, Share* share) {
    if (found == word) share->has = at;
    if (found == kFree) share->free = at;
  }

  /// The place that the first lane has which has one.
  BRECCIA_SINGLE_SOURCE
  template <class Index>
  BRECCIA_HD static Slot slot_of(const Group& group, Slab* slab, const Index& index_of) {
    const exec::LaneMask having = group.ballot([&](int lane) { return index_of(lane) >= 0; });
    if (having == 0) return {};
    return {slab, group.from(exec::first_set(having), index_of)};
  }
};

}  // namespace breccia::slab::algo
