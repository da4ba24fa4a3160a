#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "batch/key_parts.h"
#include "record/keyed_hash.h"
#include "tree/tree_state.h"

namespace breccia::ordered {

/// Lookups of a batch that neither memory nor the entry cache answers, and the tree that is asked.
struct TreeReads {
  const tree::TreeState& tree;
  tree::FamilyRef family;
  record::KeyColumnsRef keys;
};

/// Takes those of `places` in the columns out whose keys the family's filter knows to be nowhere in
/// the tree, and calls `absent` with each.
template <class Absent>
void take_absent(const tree::FamilyRef& family, const record::KeyColumnsRef& keys,
                 std::vector<std::uint32_t>* places, const Absent& absent) {
  constexpr std::size_t kStep = 64;  // lines of the filter that are fetched at once
  if (family.filter == nullptr || places->empty()) return;
  const cache::KeyFilter& filter = *family.filter;
  std::array<std::uint64_t, kStep> hashes;
  std::size_t left = 0;
  for (std::size_t from = 0; from < places->size(); from += kStep) {
    const std::size_t count = std::min(kStep, places->size() - from);
    for (std::size_t i = 0; i < count; ++i) {
      hashes[i] = record::keyed_hash(keys, (*places)[from + i], filter.seed());
      filter.prefetch(hashes[i]);
    }
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t place = (*places)[from + i];
      if (filter.may_hold(hashes[i])) {
        (*places)[left++] = place;
      } else {
        absent(place);
      }
    }
  }
  family.misses->note_negatives(places->size() - left);
  places->resize(left);
}

/// True if filters are asked by read_tree() alone, behind files that answer faster.
inline bool files_come_first(const tree::FamilyRef& family) {
  return family.files != nullptr && family.files->come_first();
}

/// Takes the answer for the requests `same`, which are for one key; `value` lasts until it returns.
/// `worker` is one of those that read_tree() was given; calls with different ones may come at once.
using TreeAnswer =
    std::function<void(std::uint64_t worker, std::span<const batch::KeyParts::Key> same,
                       const Status& status, const Slice& value)>;

/// Asks the tree for the keys at `places`, lists of places in the columns: the family's known files
/// for each of them, behind them its filter if they come first, then RocksDB in ascending order, so
/// that neighbours are read together, and for each key once, by up to `workers` threads.
/// `known` takes what files say, with workers as `answer`; then nobody knows which were answered if
/// it throws.
/// Errors  to `answer`, key by key: those of tree::TreeState; MemoryLimit, also for keys whose
///         answer threw. std::bad_alloc: the same for whatever was not answered.
/// Threads the calling one and oneTBB's.
void read_tree(const TreeReads& reads, std::span<const std::vector<std::uint32_t>> places,
               std::uint64_t workers, const TreeAnswer& answer,
               const tree::KnownFiles::Answer& known);

}  // namespace breccia::ordered
