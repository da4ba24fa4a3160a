#pragma once

#include <cstdint>

#include "runs/algo/run_steps.cuh"
#include "sst/algo/decode.cuh"
#include "sst/algo/entries.cuh"

/// Which entries of a merge live: every rule looks at versions of one key only, which are
/// neighbours, so all entries are judged at once.
/// Source  RocksDB 7.8's compaction iterator, for deletions and values; snapshots divide sequence
///         numbers into stripes, of which a key keeps its newest version each.

namespace breccia::compaction::algo {

/// MergeRules in an executor's memory.
/// Shape   snapshots[snapshot_count], ascending; keys 2 i and 2 i + 1 of `deeper` are the ends of a
///         range, ascending.
struct RulesRef {
  const std::uint64_t* snapshots = nullptr;
  std::uint64_t snapshot_count = 0;
  record::KeyColumnsRef deeper;
  bool is_bottommost = false;
  bool drops_deletions = false;

  /// The number of the stripe of a sequence number: how many snapshots do not see it.
  BRECCIA_HD std::uint64_t stripe(std::uint64_t sequence) const {
    std::uint64_t low = 0;
    for (std::uint64_t high = snapshot_count; low < high;) {
      const std::uint64_t middle = (low + high) / 2;
      (snapshots[middle] < sequence ? low : high) =
          snapshots[middle] < sequence ? middle + 1 : middle;
    }
    return low;
  }
  BRECCIA_HD bool is_seen_by_all(std::uint64_t sequence) const {
    return snapshot_count == 0 || sequence <= snapshots[0];
  }
  /// Whether a file below may hold the key.
  BRECCIA_HD bool may_be_deeper(const record::KeyColumnsRef& keys, std::uint64_t i) const {
    std::uint64_t low = 0;  // ends that are less than the key
    for (std::uint64_t high = deeper.count; low < high;) {
      const std::uint64_t middle = (low + high) / 2;
      const bool is_less = record::compare_keys(deeper, middle, keys, i) < 0;
      (is_less ? low : high) = is_less ? middle + 1 : middle;
    }
    if (low == deeper.count) return false;
    return low % 2 == 1 || record::compare_keys(deeper, low, keys, i) == 0;
  }
};

/// Makes sure that id[count] is a permutation in order, before anybody follows an id: neither what
/// the inputs hold nor what a device says is believed. As many ids as there are, each below their
/// number and behind the one before, are all of them.
struct CheckMerged {
  sst::algo::EntriesRef entries;
  const std::uint32_t* id;
  std::uint64_t count;
  std::uint32_t* faults;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, count, [&](std::uint64_t k) {
      bool is_right = id[k] < count;
      if (is_right && k > 0) {
        is_right = id[k - 1] < count &&
                   runs::algo::VersionLess{entries.keys, entries.tag}(id[k - 1], id[k]);
      }
      if (!is_right) sst::algo::note_fault(group, faults, sst::algo::kFaultOrder);
    });
  }
};

/// keep[k]: whether merged entry k lives; tag[k]: with which tag.
/// Shape   id[count]: entries in merged order.
struct JudgeEntries {
  sst::algo::EntriesRef entries;
  RulesRef rules;
  const std::uint32_t* id;
  std::uint64_t count;
  std::uint8_t* keep;
  std::uint64_t* tag;
  std::uint32_t* faults;

  BRECCIA_HD std::uint64_t tag_of(std::uint64_t k) const { return entries.tag[id[k]]; }
  BRECCIA_HD bool is_same_key(std::uint64_t j, std::uint64_t k) const {
    return record::compare_keys(entries.keys, id[j], id[k]) == 0;
  }

  BRECCIA_HD bool keeps_deletion(std::uint64_t k, std::uint64_t sequence,
                                 std::uint64_t stripe) const {
    const bool is_seen = rules.is_seen_by_all(sequence);
    if (rules.is_bottommost) {
      if (is_seen) return false;
      // It hides nothing unless a version that an older snapshot sees is behind it.
      for (std::uint64_t j = k + 1; j < count && is_same_key(j, k); ++j) {
        if (rules.stripe(tag_of(j) >> 8) != stripe) return true;
      }
      return false;
    }
    return !(rules.drops_deletions && is_seen && !rules.may_be_deeper(entries.keys, id[k]));
  }

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, count, [&](std::uint64_t k) {
      const std::uint64_t own = tag_of(k);
      const std::uint64_t sequence = own >> 8;
      const std::uint64_t stripe = rules.stripe(sequence);
      const bool is_value = (own & 0xFF) == static_cast<std::uint64_t>(sst::EntryType::kValue);
      bool lives = true;
      if (k > 0) {
        const int order = record::compare_keys(entries.keys, id[k - 1], id[k]);
        if (order > 0 || (order == 0 && tag_of(k - 1) <= own)) {
          sst::algo::note_fault(group, faults, sst::algo::kFaultOrder);
        }
        lives = order != 0 || rules.stripe(tag_of(k - 1) >> 8) != stripe;
      }
      if (lives && !is_value) lives = keeps_deletion(k, sequence, stripe);
      keep[k] = lives ? 1 : 0;
      const bool ends = is_value && rules.is_bottommost && rules.is_seen_by_all(sequence);
      tag[k] = ends ? static_cast<std::uint64_t>(sst::EntryType::kValue) : own;
    });
  }
};

/// bounds[e]: how many merged entries have keys below key e of `ends`.
struct FindBounds {
  record::KeyColumnsRef keys;
  const std::uint32_t* id;
  std::uint64_t count;
  record::KeyColumnsRef ends;
  std::uint64_t* bounds;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, ends.count, [&](std::uint64_t e) {
      std::uint64_t low = 0;
      for (std::uint64_t high = count; low < high;) {
        const std::uint64_t middle = (low + high) / 2;
        const bool is_less = record::compare_keys(keys, id[middle], ends, e) < 0;
        (is_less ? low : high) = is_less ? middle + 1 : middle;
      }
      bounds[e] = low;
    });
  }
};

/// tag_out[k], id_out[k]: those of the k-th entry that lives, the place[k]-th of all.
struct PickTags {
  std::uint64_t count;
  const std::uint32_t* place;
  const std::uint64_t* from;
  const std::uint32_t* id_from;
  std::uint64_t* tag_out;
  std::uint32_t* id_out;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, count, [&](std::uint64_t k) {
      tag_out[k] = from[place[k]];
      id_out[k] = id_from[place[k]];
    });
  }
};

}  // namespace breccia::compaction::algo
