#pragma once

#include <cstdint>

#include "exec/atomics.h"
#include "exec/back_off.h"
#include "hash/algo/run.cuh"
#include "slab/algo/chain.cuh"

/// Requests on a table, any number of batches at once.
///
/// A bucket's version is odd while one group changes what is in its chain; the others wait, or ask
/// again. Lookups take no lock: what a lane has read is what was there at one moment if the version
/// is the same before and behind it, and even (a sequence lock). Three things follow:
/// - A value is that of its key: a place becomes another key's under a version of its own.
/// - No group waits within a loop that another lane of its warp must get out of first: who does not
///   get a lock, and who has it, go through the same loop, and who has it ends there.
/// - What lies in a place is read and written a word at a time, so no half of a word is ever seen;
///   a lookup that saw two versions of several words forgets all of them.

namespace breccia::slab::algo {

/// Keys for hash::algo::WordsToSort.
struct WordsOf {
  Secret secret;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD std::uint64_t of(const Group& /*group*/, const RequestsRef& requests,
                              std::uint64_t i) const {
    return hash_of(secret, requests.key[i]);
  }
};

/// Runs requests.
/// Launch  group g: request g, or list[g], over its count * W items.
/// Bound   a lookup is tried again where the bucket was changed meanwhile, and takes the lock
///         behind kTries of these. Both give up before, if they may.
struct Run {
  static constexpr int kBlockThreads = 128;
  static constexpr int kTries = 1000;

  TableRef table;
  RequestsRef requests;
  const std::uint32_t* list;  // null: all
  hash::algo::Patience patience;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const std::uint64_t g = first / Group::kWidth;
    const std::uint64_t i = list == nullptr ? g : list[g];
    const Operation operation = hash::operation_of(requests, i);
    const Place place = place_of(table, requests.key[i]);
    count_heat(group, place.head, i);
    Slab* const head = head_of(group, table, place.head);
    for (int turn = 0;; ++turn) {
      if (operation == Operation::kFind && turn < kTries) {
        if (get(group, head, place.word, i)) return;
      } else {
        const Tail tail = lock(group, head);
        if (!tail.is_locked()) {
          change(group, place, head, tail, operation, i);
          return;
        }
      }
      if (gives_up(group, operation, i, turn + 1)) return;
      exec::back_off(group, turn);
    }
  }

 private:
  /// One request of some is counted, where that may move the head: any of a batch, also of one.
  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void count_heat(const Group& group, std::uint64_t head, std::uint64_t i) const {
    std::uint64_t* const note = note_of(table, head);
    if (note == nullptr) return;
    constexpr std::uint64_t kFactor = 0x9e37'79b9'7f4a'7c15;
    if (((i + table.reserve.salt) * kFactor >> 32) % HeadNote::kHeatShare != 0) return;
    group.each_lane([&](int lane) {
      if (lane != 0) return;
      const HeadNote seen(exec::load_relaxed_device(group, note));
      if (seen.heat() < HeadNote::kHeatMax) {
        exec::add_relaxed_device(group, note, std::uint64_t{1});
      }
    });
  }

  /// Called by all lanes; one of them answers.
  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void answer(const Group& group, std::uint64_t i, Code code,
                         std::uint64_t found) const {
    group.each_lane([&](int lane) {
      if (lane != 0) return;
      requests.code[i] = code;
      if (requests.found != nullptr) requests.found[i] = found;
    });
  }

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD bool gives_up(const Group& group, Operation operation, std::uint64_t i,
                           int failed) const {
    return group.ballot([&](int lane) {
      if (lane != 0 || !patience.is_over(group, operation, failed)) return false;
      requests.code[i] = Code::kCrowded;
      return true;
    }) != 0;
  }

  /// A lookup without a lock. False: the bucket was changed meanwhile.
  /// Order   each lane reads the version before and behind all that it reads.
  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD bool get(const Group& group, Slab* head, std::uint64_t word, std::uint64_t i) const {
    const auto before =
        group.per_lane([&](int) { return exec::load_acquire_device(group, tail_of(head)); });
    const Tail tail(group.from(0, [&](int lane) { return before[lane]; }));
    if (tail.is_locked()) return false;
    const Sight sight = SlabView<Group>::look_for(group, table, head, tail, word);
    const bool is_there = sight.key.slab != nullptr;
    const std::uint64_t value = group.from(0, [&](int) {
      return is_there ? exec::load_relaxed_device(group, sight.key.slab->value + sight.key.index)
                      : std::uint64_t{0};
    });
    const exec::LaneMask is_other = group.ballot([&](int lane) {
      exec::fence_acquire_device(group);
      const std::uint64_t behind = exec::load_relaxed_device(group, tail_of(head));
      return before[lane] != tail.word() || behind != tail.word();
    });
    if (is_other != 0) return false;
    answer(group, i, is_there ? Code::kPresent : Code::kAbsent, value);
    return true;
  }

  /// Tries to take a bucket's lock. Returns the tail that it had; a locked one: another group has
  /// it.
  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD static Tail lock(const Group& group, Slab* head) {
    return Tail(group.from(0, [&](int) {
      const Tail seen(exec::load_relaxed_device(group, tail_of(head)));
      if (seen.is_locked()) return seen.word();
      const std::uint64_t found = exec::compare_exchange_acq_rel_device(
          group, tail_of(head), seen.word(), seen.locked().word());
      return found == seen.word() ? found : found | Tail::kOdd;
    }));
  }

  /// With the lock: does what the request asks for, and gives the lock back.
  /// Order   one lane makes all changes, behind a fence that is behind the odd version: who sees
  ///         one of them, and looks at the version then, sees that one at least. The even version
  ///         is stored behind them.
  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void change(const Group& group, const Place& place, Slab* head, Tail tail,
                         Operation operation, std::uint64_t i) const {
    // Each lane reads what the exchange has stored: what others changed before is there for it
    // then.
    group.each_lane([&](int) {
      while (!Tail(exec::load_acquire_device(group, tail_of(head))).is_locked()) {
      }
    });
    const Sight sight = SlabView<Group>::look_for(group, table, head, tail, place.word);
    group.each_lane([&](int lane) {
      if (lane != 0) return;
      sight.key.slab != nullptr ? change_present(group, place, head, tail, sight.key, operation, i)
                                : change_absent(group, place, head, tail, sight, operation, i);
    });
  }

  /// What a request does to a key that is there, and has this value.
  enum class Change : std::uint8_t { kNone, kStore, kTakeOut };
  BRECCIA_HD static Change change_of(Operation operation, std::uint64_t found,
                                     std::uint64_t value) {
    switch (operation) {
      case Operation::kFind:
      case Operation::kInsert:
        return Change::kNone;
      case Operation::kUpsert:
      case Operation::kUpdate:
        return Change::kStore;
      case Operation::kRaise:
        return found < value ? Change::kStore : Change::kNone;
      case Operation::kDrop:
        return found == value ? Change::kTakeOut : Change::kNone;
      case Operation::kDelete:
        break;
    }
    return Change::kTakeOut;
  }

  /// Called by one lane.
  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void change_present(const Group& group, const Place& place, Slab* head, Tail tail,
                                 const Slot& slot, Operation operation, std::uint64_t i) const {
    std::uint64_t* const value = slot.slab->value + slot.index;
    const std::uint64_t found = exec::load_relaxed_device(group, value);
    const Change what = change_of(operation, found, value_of(i));
    if (what != Change::kNone) {
      exec::fence_release_device(group);
      if (what == Change::kStore) {
        exec::store_relaxed_device(group, value, value_of(i));
      } else {
        exec::store_relaxed_device(group, slot.slab->key + slot.index, kFree);
      }
      tail = tail.changed();
    }
    end(group, head, tail, i, Code::kPresent, found);
    if (what == Change::kTakeOut) tally(group, place, ~std::uint64_t{0});
  }
  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void change_absent(const Group& group, const Place& place, Slab* head, Tail tail,
                                const Sight& sight, Operation operation, std::uint64_t i) const {
    if (!hash::inserts(operation)) return end(group, head, tail, i, Code::kAbsent, 0);
    Slot slot = sight.free;
    std::uint64_t number = 0;
    if (slot.slab == nullptr) {
      const std::uint64_t at = exec::add_relaxed_device(group, table.taken, 1U);
      if (at >= table.free_count) return end(group, head, tail, i, Code::kNoRoom, 0);
      number = table.free[at];
      slot = {table.chained.at(number), 0};
    }
    exec::fence_release_device(group);
    exec::store_relaxed_device(group, slot.slab->value + slot.index, value_of(i));
    exec::store_relaxed_device(group, slot.slab->key + slot.index, place.word);
    tail = tail.changed();
    if (sight.free.slab == nullptr) {
      const auto next = static_cast<std::uint32_t>(number);
      if (sight.last == head) {
        tail = tail.with_next(next);
      } else {
        exec::store_relaxed_device(group, tail_of(sight.last), Tail(0).with_next(next).word());
      }
    }
    end(group, head, tail, i, Code::kAbsent, 0);
    tally(group, place, 1);
  }
  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void end(const Group& group, Slab* head, Tail tail, std::uint64_t i, Code code,
                      std::uint64_t found) const {
    exec::store_release_device(group, tail_of(head), tail.word());
    requests.code[i] = code;
    if (requests.found != nullptr) requests.found[i] = found;
  }

  /// Behind the lock, so that nobody waits for it.
  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void tally(const Group& group, const Place& place, std::uint64_t by) const {
    exec::add_relaxed_device(group, table.tally + place.head % kTallies * kTallyWords, by);
  }
  [[nodiscard]] BRECCIA_HD std::uint64_t value_of(std::uint64_t i) const {
    return requests.value == nullptr ? 0 : requests.value[i];
  }
};

}  // namespace breccia::slab::algo
