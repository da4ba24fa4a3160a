#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "batch/key_parts.h"
#include "tree/tree_state.h"

namespace breccia::ordered {

/// Lookups of a batch that neither memory nor the entry cache answers, and the tree that is asked.
struct TreeReads {
  const tree::TreeState& tree;
  tree::FamilyRef family;
  record::KeyColumnsRef keys;
};

/// Takes the answer for the requests `same`, which are for one key; `value` lasts until it returns.
/// `worker` is one of those that read_tree() was given; calls with different ones may come at once.
using TreeAnswer =
    std::function<void(std::uint64_t worker, std::span<const batch::KeyParts::Key> same,
                       const Status& status, const Slice& value)>;

/// Asks the tree for the keys at `places`, lists of places in the columns: in ascending order, so
/// that neighbours are read together, and each key once, by up to `workers` threads.
/// Errors  to `answer`, key by key: those of tree::TreeState; MemoryLimit, also for keys whose
///         answer threw. std::bad_alloc: the same for whatever was not answered.
/// Threads the calling one and oneTBB's.
void read_tree(const TreeReads& reads, std::span<const std::vector<std::uint32_t>> places,
               std::uint64_t workers, const TreeAnswer& answer);

}  // namespace breccia::ordered
