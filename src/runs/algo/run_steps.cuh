#pragma once

#include <cstdint>

#include "exec/atomics.h"
#include "exec/group.h"
#include "runs/refs.h"

/// The steps of building and merging runs, one functor each. A functor is launched over `count`
/// items in groups of W lanes; lane l of a group handles item first + l.

namespace breccia::runs::algo {

/// How many leading bytes (0 to 8) words have in common that differ in the bits `difference`.
BRECCIA_HD inline int common_bytes(std::uint64_t difference) {
  int bytes = 0;
  while (bytes < 8 && (difference >> (56 - 8 * bytes) & 0xff) == 0) ++bytes;
  return bytes;
}

/// Words of a key in which a prefix that all keys share is looked for.
inline constexpr std::uint64_t kPrefixWordsMax = 64;

/// bit[k]: of the first word in which key k differs from key 0, word w as bit 63 - w; 0 if that is
/// none of the first kPrefixWordsMax. Heads are equal.
struct NoteFirstDifferences {
  record::KeyColumnsRef keys;
  std::uint64_t* bit;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, keys.count, [&](std::uint64_t k) {
      const std::uint64_t own = record::tail_words(keys.bytes_at(k));
      const std::uint64_t other = record::tail_words(keys.bytes_at(0));
      const std::uint64_t last = own > other ? own : other;
      std::uint64_t w = 1;
      while (w <= last && w < kPrefixWordsMax &&
             record::padded_word(keys, k, w) == record::padded_word(keys, 0, w)) {
        ++w;
      }
      bit[k] = w <= last && w < kPrefixWordsMax ? std::uint64_t{1} << (63 - w) : 0;
    });
  }
};

/// word[k]: the one that begins `skipped` bytes behind key k's start.
struct PickWords {
  record::KeyColumnsRef keys;
  std::uint64_t skipped;
  std::uint64_t* word;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, keys.count,
                    [&](std::uint64_t k) { word[k] = record::word_behind(keys, k, skipped); });
  }
};

/// Fills sort words and ids for a stable sort that puts the newest of equal keys first: item k is
/// entry count - 1 - k. The words begin behind the bytes that all keys of the batch share.
struct PrepareSort {
  record::KeyColumnsRef keys;
  std::uint64_t shared;
  std::uint64_t* word;
  std::uint32_t* id;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, keys.count, [&](std::uint64_t k) {
      const std::uint64_t entry = keys.count - 1 - k;
      word[k] = record::word_behind(keys, entry, shared);
      id[k] = static_cast<std::uint32_t>(entry);
    });
  }
};

/// Marks the items that stand behind one that belongs behind them and has the same sort word.
template <class Less>
struct MarkDisorder {
  Less less;
  const std::uint64_t* word;
  const std::uint32_t* id;
  std::uint64_t count;
  std::uint8_t* flag;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, count, [&](std::uint64_t k) {
      flag[k] = k > 0 && word[k - 1] == word[k] && less(id[k], id[k - 1]);
    });
  }
};

/// end[k] = 1 for the last item of each sort word, else 0.
struct MarkWordEnds {
  const std::uint64_t* word;
  std::uint64_t count;
  std::uint64_t* end;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, count, [&](std::uint64_t k) {
      end[k] = k + 1 == count || word[k] != word[k + 1] ? 1 : 0;
    });
  }
};

/// mixed[t] = 1 for the tie of each place; of several places in one tie the first one writes.
struct NoteMixedTies {
  const std::uint32_t* place;
  std::uint64_t count;
  const std::uint64_t* tie;
  std::uint8_t* mixed;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, count, [&](std::uint64_t i) {
      const std::uint64_t own = tie[place[i]];
      if (i == 0 || tie[place[i - 1]] != own) mixed[own] = 1;
    });
  }
};

/// flag[k] = mixed of item k's tie.
struct MarkMixedTies {
  const std::uint64_t* tie;
  const std::uint8_t* mixed;
  std::uint64_t count;
  std::uint8_t* flag;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, count, [&](std::uint64_t k) { flag[k] = mixed[tie[k]]; });
  }
};

/// destination[i] = source[index[i]]
template <class T>
struct Gather {
  const T* source;
  const std::uint32_t* index;
  std::uint64_t count;
  T* destination;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, count,
                    [&](std::uint64_t i) { destination[i] = source[index[i]]; });
  }
};

/// destination[index[i]] = source[i]
template <class T>
struct Scatter {
  const T* source;
  const std::uint32_t* index;
  std::uint64_t count;
  T* destination;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, count,
                    [&](std::uint64_t i) { destination[index[i]] = source[i]; });
  }
};

/// index[i] = begin + i
struct Iota {
  std::uint32_t begin;
  std::uint64_t count;
  std::uint32_t* index;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, count,
                    [&](std::uint64_t i) { index[i] = begin + static_cast<std::uint32_t>(i); });
  }
};

/// Order of whole keys: bytes ascending. For stable sorts of entry ids.
struct KeyLess {
  record::KeyColumnsRef keys;
  BRECCIA_SINGLE_SOURCE
  BRECCIA_HD bool operator()(std::uint32_t a, std::uint32_t b) const {
    return record::compare_keys(keys, a, b) < 0;
  }
};

/// Run order: key ascending, then payload descending. For merges of entry ids.
struct VersionLess {
  record::KeyColumnsRef keys;
  const std::uint64_t* payload;
  BRECCIA_SINGLE_SOURCE
  BRECCIA_HD bool operator()(std::uint32_t a, std::uint32_t b) const {
    const int order = record::compare_keys(keys, a, b);
    return order != 0 ? order < 0 : payload[a] > payload[b];
  }
};

/// The order of sort_keys: key ascending, then the newest (highest index) first.
struct NewestFirst {
  record::KeyColumnsRef keys;
  BRECCIA_SINGLE_SOURCE
  BRECCIA_HD bool operator()(std::uint32_t a, std::uint32_t b) const {
    const int order = record::compare_keys(keys, a, b);
    return order != 0 ? order < 0 : a > b;
  }
};

/// id[i]: the entry that is i-th in the order of `less`, found by counting those before each: group
/// g finds the place of entry g with all its lanes. Launch over count * W items.
/// Shape   keys.skip == 0; less: a strict order of keys' entries, first by their heads.
/// Cost    count^2 comparisons and no work space: for so few that a sort is all launches and waits.
template <class Less>
struct CountBefore {
  Less less;
  std::uint32_t* id;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const record::KeyColumnsRef& keys = less.keys;
    const auto own = static_cast<std::uint32_t>(first / Group::kWidth);
    const std::uint64_t head = keys.head[own];
    int before = 0;
    for (std::uint64_t from = 0; from < keys.count; from += Group::kWidth) {
      before += exec::count_set(group.ballot([&](int lane) {
        const std::uint64_t other = from + static_cast<std::uint64_t>(lane);
        if (other >= keys.count || other == own) return false;
        const std::uint64_t other_head = keys.head[other];
        return other_head != head ? other_head < head
                                  : less(static_cast<std::uint32_t>(other), own);
      }));
    }
    group.each_lane([&](int lane) {
      if (lane == 0) id[before] = own;
    });
  }
};

/// What CheckOrder finds: whether anything is wrong, and the ids at both ends.
struct OrderFound {
  std::uint32_t wrong = 0;
  std::uint32_t first = 0;
  std::uint32_t last = 0;
};

/// Sets found->wrong unless id[count] holds each of 0 .. count - 1 once, in strict order.
/// Shape   found->wrong is 0 before.
template <class Less>
struct CheckOrder {
  Less less;
  const std::uint32_t* id;
  std::uint64_t count;
  OrderFound* found;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, count, [&](std::uint64_t i) {
      if (i == 0) found->first = id[i];
      if (i + 1 == count) found->last = id[i];
      // In strict order no id comes twice, so that none of as many is missing.
      const bool is_known = id[i] < count && (i == 0 || id[i - 1] < count);
      if (!is_known || (i > 0 && !less(id[i - 1], id[i]))) {
        exec::store_relaxed_device(group, &found->wrong, 1U);
      }
    });
  }
};

/// What a payload's kOperationMask says of two more operations.
inline constexpr std::uint64_t kMergeOperand = 2;
inline constexpr std::uint64_t kSingleDeletion = 3;

/// Marks the entries, given in run order by `id`, that are the newest version of their key, and
/// single deletions right below those; of `only_puts`, those that are puts alone.
struct MarkNewest {
  record::KeyColumnsRef keys;
  const std::uint64_t* payload;
  const std::uint32_t* id;
  std::uint64_t count;
  bool only_puts;
  std::uint8_t* flag;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, count, [&](std::uint64_t k) {
      const std::uint64_t operation = payload[id[k]] & kOperationMask;
      const bool newest = is_newest(k);
      const bool told = !newest && operation == kSingleDeletion && is_newest(k - 1);
      flag[k] = only_puts ? newest && operation == kPutOperation : newest || told;
    });
  }

  BRECCIA_SINGLE_SOURCE
  BRECCIA_HD bool is_newest(std::uint64_t k) const {
    return k == 0 || record::compare_keys(keys, id[k - 1], id[k]) != 0;
  }
};

/// Marks where a stretch of versions ends, for entries given in run order by `id`: with a version
/// that is no merge operand, and above what MarkNewest has marked.
struct MarkStretchEnds {
  const std::uint64_t* payload;
  const std::uint32_t* id;
  const std::uint8_t* marked;
  std::uint64_t count;
  std::uint64_t* end;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, count, [&](std::uint64_t k) {
      const bool operand = (payload[id[k]] & kOperationMask) == kMergeOperand;
      const bool above_marked = k + 1 == count || marked[k + 1] != 0;
      end[k] = !operand || above_marked ? 1 : 0;
    });
  }
};

/// begins_kept[s] = marked of the first entry of stretch `s`.
struct NoteStretchBegins {
  const std::uint64_t* stretch;
  std::uint64_t count;
  const std::uint8_t* marked;
  std::uint8_t* begins_kept;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, count, [&](std::uint64_t k) {
      if (k == 0 || stretch[k - 1] != stretch[k]) begins_kept[stretch[k]] = marked[k];
    });
  }
};

/// kept[k] = begins_kept of the stretch of entry k.
struct KeepStretches {
  const std::uint64_t* stretch;
  std::uint64_t count;
  const std::uint8_t* begins_kept;
  std::uint8_t* kept;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, count,
                    [&](std::uint64_t k) { kept[k] = begins_kept[stretch[k]]; });
  }
};

/// tail_length[k] = words of the tail of the key of entry id[k].
struct TailLengths {
  record::KeyColumnsRef keys;
  const std::uint32_t* id;
  std::uint64_t count;
  std::uint64_t* tail_length;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, count, [&](std::uint64_t k) {
      tail_length[k] = record::tail_words(keys.bytes_at(id[k]));
    });
  }
};

/// Writes a run's columns from entries taken in the order `id`, and the batch's log descriptors.
/// Shape   out_tail_at (exclusive scan of tail lengths) only for variable keys; `id` null means
///         entries are in order already; descriptors null where no log wants them; value and
///         out_value null where there are none. Heads begin `skip` bytes behind the keys' first.
struct GatherRun {
  record::KeyColumnsRef keys;
  std::uint64_t skip;
  const std::uint64_t* payload;
  const std::uint64_t* value;
  std::uint64_t payload_base;
  const std::uint32_t* id;
  std::uint64_t count;
  const std::uint64_t* out_tail_at;
  std::uint64_t* out_head;
  std::uint64_t* out_meta;
  std::uint64_t* out_tail;
  std::uint64_t* out_payload;
  std::uint64_t* out_value;
  std::uint64_t* out_fence;
  std::uint32_t* descriptors;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, count,
                    [&](std::uint64_t k) { write_entry(k, id == nullptr ? k : id[k]); });
  }

  BRECCIA_SINGLE_SOURCE
  BRECCIA_HD void write_entry(std::uint64_t k, std::uint64_t entry) const {
    const std::uint64_t head = record::word_behind(keys, entry, skip);
    out_head[k] = head;
    if (k % kFenceStride == 0) out_fence[k / kFenceStride] = head;
    out_payload[k] = payload_base + payload[entry];
    if (out_value != nullptr) out_value[k] = value[entry];
    if (descriptors != nullptr) {
      descriptors[k] = static_cast<std::uint32_t>(payload[entry] >> 3);
    }
    const std::uint64_t bytes = keys.bytes_at(entry);
    const std::uint64_t words = record::tail_words(bytes);
    std::uint64_t at = k * words;
    if (out_tail_at != nullptr) {
      at = out_tail_at[k];
      out_meta[k] = at << record::kMetaLengthBits | bytes;
    }
    const std::uint64_t* const tail = keys.tail + keys.tail_at(entry);
    for (std::uint64_t word = 0; word < words; ++word) out_tail[at + word] = tail[word];
  }
};

/// Copies columns from where they lie, the host's memory maybe, to `to`, and clears ids. Launch
/// over as many items as the longest column has.
struct TakeColumns {
  record::EntriesRef from;
  std::uint64_t tail_from;  // the first of the keys' words
  std::uint64_t* head;
  std::uint64_t* meta;
  std::uint64_t* tail;
  std::uint64_t* relative;
  std::uint64_t* value;
  std::uint32_t* id;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const record::KeyColumnsRef& keys = from.keys;
    const std::uint64_t most = keys.count < keys.tail_count ? keys.tail_count : keys.count;
    exec::each_item(group, first, most, [&](std::uint64_t i) {
      if (i >= tail_from && i < keys.tail_count) tail[i] = keys.tail[i];
      if (i >= keys.count) return;
      head[i] = keys.head[i];
      if (!keys.uniform()) meta[i] = keys.meta[i];
      relative[i] = from.relative[i];
      if (from.value != nullptr) value[i] = from.value[i];
      id[i] = 0;
    });
  }
};

/// GatherRun of an order that nobody has looked at: ids that are not in order are noted meanwhile.
/// Shape   id[count] are entries that there are.
struct CheckedGather {
  CheckOrder<NewestFirst> check;
  GatherRun gather;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    check(group, first);
    gather(group, first);
  }
};

/// Turns the columns of one run into variable-length form at a place in a larger set of columns.
struct WidenMeta {
  record::KeyColumnsRef keys;
  std::uint64_t tail_base;
  std::uint64_t* out_meta;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    exec::each_item(group, first, keys.count, [&](std::uint64_t i) {
      out_meta[i] = (tail_base + keys.tail_at(i)) << record::kMetaLengthBits | keys.bytes_at(i);
    });
  }
};

}  // namespace breccia::runs::algo
