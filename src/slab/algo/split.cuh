#pragma once

#include <cstdint>

#include "exec/atomics.h"
#include "exec/group.h"
#include "slab/algo/chain.cuh"

/// What is done to chains while nobody else is at the table.

namespace breccia::slab::algo {

/// Adds up how many slabs what Split moves needs behind its heads.
/// Launch  over count items: the buckets from first_bucket on.
struct CountMoved {
  TableRef table;
  std::uint64_t first_bucket;
  std::uint64_t count;
  std::uint64_t distance;
  std::uint64_t* sum;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, count, [&](std::uint64_t item) {
      const Slab* slab = head_of(group, table, first_bucket + item + 1);
      // What does not fill a slab does not fill two.
      if (!Tail(slab->key[kSlabKeys]).has_next()) return;
      std::uint64_t moved = 0;
      for (;;) {
        for (int i = 0; i < kSlabKeys; ++i) {
          const std::uint64_t key = slab->key[i];
          if (key != kFree && (hash_of(table.secret, key) & distance) != 0) ++moved;
        }
        const Tail tail(slab->key[kSlabKeys]);
        if (!tail.has_next()) break;
        slab = table.chained.at(tail.next());
      }
      if (moved > kSlabKeys) exec::add_relaxed_device(group, sum, (moved - 1) / kSlabKeys);
    });
  }
};

/// Slabs that have nothing in them any more, by number; in no order.
/// Shape   number[as many as the table has], *count
struct FreedRef {
  std::uint32_t* number = nullptr;
  std::uint64_t* count = nullptr;
};

/// Moves keys of buckets on to others, `distance` behind them, whose heads are empty: those whose
/// hash says so in the bit that is `distance`. What is left lies in as few slabs as it takes, and
/// so does what was moved. With no distance nothing moves, and chains become as short as they can
/// be.
/// Shape   there are as many free slabs as CountMoved says.
/// Launch  over count items: the buckets from `first_bucket` on, a lane each.
struct Split {
  TableRef table;
  std::uint64_t first_bucket;
  std::uint64_t count;
  std::uint64_t distance;
  FreedRef freed;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, count,
                    [&](std::uint64_t item) { split(group, first_bucket + item + 1); });
  }

 private:
  /// Where the next key of a chain goes.
  struct End {
    Slab* slab;
    int count = 0;  // of its keys
  };

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void split(const Group& group, std::uint64_t head_number) const {
    Slab* const head = head_of(group, table, head_number);
    End kept{head};
    End moved{distance == 0 ? nullptr : head_of(group, table, head_number + distance)};
    for (Slab* from = head;;) {
      // Places are filled behind those that were read: a key never goes to one that is still to
      // come.
      for (int i = 0; i < kSlabKeys; ++i) {
        const std::uint64_t key = from->key[i];
        if (key == kFree) continue;
        const std::uint64_t value = from->value[i];
        from->key[i] = kFree;
        const bool moves = (hash_of(table.secret, key) & distance) != 0;
        moves ? add_to_new(group, &moved, key, value) : add_to_old(&kept, key, value);
      }
      const Tail tail(*tail_of(from));
      if (!tail.has_next()) break;
      from = table.chained.at(tail.next());
    }
    cut_behind(group, kept.slab);
  }

  /// The chain has its slabs already.
  BRECCIA_HD void add_to_old(End* end, std::uint64_t key, std::uint64_t value) const {
    if (end->count == kSlabKeys) {
      *end = {table.chained.at(Tail(*tail_of(end->slab)).next())};
    }
    put(end, key, value);
  }
  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void add_to_new(const Group& group, End* end, std::uint64_t key,
                             std::uint64_t value) const {
    if (end->count == kSlabKeys) {
      const std::uint32_t next = table.free[exec::add_relaxed_device(group, table.taken, 1U)];
      *tail_of(end->slab) = Tail(*tail_of(end->slab)).with_next(next).word();
      *end = {table.chained.at(next)};
    }
    put(end, key, value);
  }
  BRECCIA_HD static void put(End* end, std::uint64_t key, std::uint64_t value) {
    end->slab->key[end->count] = key;
    end->slab->value[end->count] = value;
    ++end->count;
  }

  /// Gives back what the chain has behind `last`, which is empty.
  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void cut_behind(const Group& group, Slab* last) const {
    Tail tail(*tail_of(last));
    *tail_of(last) = tail.without_next().word();
    while (tail.has_next()) {
      const std::uint32_t number = tail.next();
      Slab* const slab = table.chained.at(number);
      tail = Tail(*tail_of(slab));
      *tail_of(slab) = 0;
      freed.number[exec::add_relaxed_device(group, freed.count, 1U)] = number;
    }
  }
};

/// Copies the keys and values of buckets, in no order.
/// Shape   key[as many as there are], value[the same], *count
/// Launch  over count items: the heads from `first_head` on, a lane each.
struct Extract {
  TableRef table;
  std::uint64_t first_head;
  std::uint64_t count;
  std::uint64_t* key;
  std::uint64_t* value;
  std::uint64_t* found;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, count, [&](std::uint64_t item) {
      const std::uint64_t number = first_head + item;
      for (const Slab* slab = head_of(group, table, number);;) {
        for (int i = 0; i < kSlabKeys; ++i) {
          if (slab->key[i] == kFree) continue;
          const std::uint64_t at = exec::add_relaxed_device(group, found, 1U);
          key[at] = key_of(number, slab->key[i]);
          value[at] = slab->value[i];
        }
        const Tail tail(slab->key[kSlabKeys]);
        if (!tail.has_next()) break;
        slab = table.chained.at(tail.next());
      }
    });
  }
};

}  // namespace breccia::slab::algo
