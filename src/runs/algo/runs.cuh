#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/limits.h"
#include "base/sometimes.h"
#include "exec/clear.h"
#include "exec/executor.h"
#include "exec/pool.h"
#include "runs/algo/run_steps.cuh"
#include "runs/algo/search.cuh"
#include "runs/backend.h"

/// Building, merging and searching runs, written once over an executor (exec/executor.h). Every
/// function here ends with finish(), so its work space may be freed at once.

namespace breccia::runs::algo {

inline constexpr int kWidth = 32;

using exec::make_array;

/// A column of the host's where kernels read it: a copy, or in place if the executor reaches that.
template <class X>
class Inlet {
 public:
  /// `in_place`: where it lies is good enough, as it is read once, in order.
  static Result<Inlet> make(X& x, const std::uint64_t* host, std::uint64_t n, bool in_place) {
    const std::uint64_t* const reached = in_place && n > 0 ? x.reach(host) : nullptr;
    BRECCIA_TAKE(auto copy, x.import(host, reached == nullptr ? n : 0));
    return Result<Inlet>(Inlet(reached, std::move(copy)));
  }
  [[nodiscard]] const std::uint64_t* data() const {
    return in_place_ != nullptr ? in_place_ : copy_.data();
  }

 private:
  using Import =
      decltype(std::declval<X&>().import(std::declval<const std::uint64_t*>(), 0).take());
  Inlet(const std::uint64_t* in_place, Import copy) : in_place_(in_place), copy_(std::move(copy)) {}

  const std::uint64_t* in_place_;
  Import copy_;
};

/// Key columns where the executor reads them.
template <class X>
class ImportedKeys {
 public:
  /// `in_place`: as of an Inlet.
  static Result<ImportedKeys> make(X& x, const record::KeyColumnsRef& host, bool in_place = false) {
    BRECCIA_TAKE(auto head, Inlet<X>::make(x, host.head, host.count, in_place));
    const std::uint64_t meta_count = host.uniform() ? 0 : host.count;
    BRECCIA_TAKE(auto meta, Inlet<X>::make(x, host.meta, meta_count, in_place));
    // Of a slice of others only what its own keys have.
    const std::uint64_t tail_from = host.count == 0 ? 0 : host.tail_at(0);
    BRECCIA_TAKE(auto tail,
                 Inlet<X>::make(x, host.tail + tail_from, host.tail_count - tail_from, in_place));
    return ImportedKeys(host, tail_from, std::move(head), std::move(meta), std::move(tail));
  }
  [[nodiscard]] record::KeyColumnsRef ref() const {
    record::KeyColumnsRef keys = shape_;
    keys.head = head_.data();
    keys.meta = meta_.data();
    keys.tail = tail_.data() - tail_from_;  // no key's tail begins before
    return keys;
  }

 private:
  ImportedKeys(const record::KeyColumnsRef& shape, std::uint64_t tail_from, Inlet<X> head,
               Inlet<X> meta, Inlet<X> tail)
      : shape_(shape),
        tail_from_(tail_from),
        head_(std::move(head)),
        meta_(std::move(meta)),
        tail_(std::move(tail)) {}

  record::KeyColumnsRef shape_;
  std::uint64_t tail_from_;
  Inlet<X> head_, meta_, tail_;
};

/// How heads of columns are cut: skip and prefix of record::KeyColumnsRef.
struct Heads {
  std::uint32_t skip = 0;
  std::uint64_t prefix = 0;
};

/// Heads behind the `shared` leading bytes of keys that begin with `word`.
inline Heads heads_behind(std::uint64_t word, std::uint64_t shared) {
  if (shared == 0) return {};
  const std::uint64_t unused = shared < 8 ? 64 - 8 * shared : 0;
  return {static_cast<std::uint32_t>(shared), word >> unused << unused};
}

/// The arrays of one run in a backend's pool.
struct RunArrays {
  exec::Array<std::uint64_t> head, meta, tail, payload, fence;
  exec::Array<std::uint64_t> value;  // if has_values
  bool has_values = false;
  std::uint32_t uniform_bytes = 0;
  Heads heads;

  [[nodiscard]] RunRef ref() const {
    RunRef run;
    run.keys = {head.data(),  meta.data(),   tail.data(), head.count(),
                tail.count(), uniform_bytes, heads.skip,  heads.prefix};
    run.payload = payload.data();
    run.fence = fence.data();
    run.value = value.data();
    return run;
  }
  [[nodiscard]] std::uint64_t memory_bytes() const {
    return head.bytes() + meta.bytes() + tail.bytes() + payload.bytes() + fence.bytes() +
           value.bytes();
  }
};

/// True if the host reads here what every run is: entries in strict order, fences and tails where
/// they belong, and no payload of 0.
inline bool is_run(const RunRef& run) {
  const record::KeyColumnsRef& keys = run.keys;
  std::uint64_t tail_at = 0;
  for (std::uint64_t i = 0; i < keys.count; ++i) {
    if (run.payload[i] == 0 || keys.tail_at(i) != tail_at) return false;
    if (i % kFenceStride == 0 && run.fence[i / kFenceStride] != keys.head[i]) return false;
    const int order = i == 0 ? -1 : record::compare_keys(keys, i - 1, i);
    if (order > 0 || (order == 0 && run.payload[i - 1] <= run.payload[i])) return false;
    tail_at += record::tail_words(keys.bytes_at(i));
  }
  return tail_at == keys.tail_count;
}

class PoolRun : public Run {
 public:
  PoolRun(exec::TenantPtr tenant, RunArrays arrays)
      : tenant_(std::move(tenant)), arrays_(std::move(arrays)), ref_(arrays_.ref()) {
    BRECCIA_INVARIANT(host_view() == nullptr || is_run(ref_));
  }
  [[nodiscard]] std::uint64_t count() const override { return ref_.keys.count; }
  [[nodiscard]] std::uint64_t memory_bytes() const override { return arrays_.memory_bytes(); }
  [[nodiscard]] bool has_values() const override { return arrays_.has_values; }
  [[nodiscard]] std::uint32_t uniform_bytes() const override { return ref_.keys.uniform_bytes; }
  [[nodiscard]] const RunRef* host_view() const override {
    return tenant_->device().host_reads() ? &ref_ : nullptr;
  }
  [[nodiscard]] const RunRef& ref() const { return ref_; }

 private:
  // First: the arrays give their memory back to it. A batch with results holds runs, and may
  // outlive the store.
  const exec::TenantPtr tenant_;
  RunArrays arrays_;
  RunRef ref_;
};

/// Entries that become a run: columns in the executor's memory, taken in the order `id`.
struct Entries {
  record::KeyColumnsRef keys;
  const std::uint64_t* payload;
  std::uint64_t payload_base;
  const std::uint64_t* value;  // if has_values
  bool has_values;
  const std::uint32_t* id;  // null: already in run order
  std::uint64_t count;
  Heads heads;  // of the run
};

/// Copies `entries` into the arrays of a new run; launch(gather) begins that.
template <class X, class Launch>
Result<RunArrays> gather_run(X& x, const Entries& entries, std::uint32_t* descriptors,
                             const Launch& launch) {
  RunArrays run;
  const std::uint64_t n = entries.count;
  run.uniform_bytes = entries.keys.uniform_bytes;
  run.has_values = entries.has_values;
  run.heads = entries.heads;
  exec::Array<std::uint64_t> tail_at;
  std::uint64_t tail_count = n * record::tail_words(run.uniform_bytes);
  if (!entries.keys.uniform()) {
    BRECCIA_TAKE(tail_at, make_array<std::uint64_t>(x, n));
    BRECCIA_TAKE(run.meta, make_array<std::uint64_t>(x, n));
    BRECCIA_ASSERT(n == 0 || entries.id != nullptr);
    BRECCIA_TRY(
        x.template launch<kWidth>(n, TailLengths{entries.keys, entries.id, n, tail_at.data()}));
    BRECCIA_TRY(x.exclusive_scan(tail_at.data(), tail_at.data(), n, &tail_count));
  }
  BRECCIA_TAKE(run.head, make_array<std::uint64_t>(x, n));
  BRECCIA_TAKE(run.tail, make_array<std::uint64_t>(x, tail_count));
  BRECCIA_TAKE(run.payload, make_array<std::uint64_t>(x, n));
  BRECCIA_TAKE(run.fence, make_array<std::uint64_t>(x, fence_count(n)));
  BRECCIA_TAKE(run.value, make_array<std::uint64_t>(x, run.has_values ? n : 0));
  const GatherRun gather{entries.keys,
                         run.heads.skip,
                         entries.payload,
                         entries.value,
                         entries.payload_base,
                         entries.id,
                         n,
                         tail_at.data(),
                         run.head.data(),
                         run.meta.data(),
                         run.tail.data(),
                         run.payload.data(),
                         run.value.data(),
                         run.fence.data(),
                         descriptors};
  BRECCIA_TRY(launch(gather));
  BRECCIA_TRY(x.finish());
  return Result<RunArrays>(std::move(run));
}
template <class X>
Result<RunArrays> gather_run(X& x, const Entries& entries, std::uint32_t* descriptors) {
  return gather_run(x, entries, descriptors, [&](const GatherRun& gather) {
    return x.template launch<kWidth>(entries.count, gather);
  });
}

/// Ids at both ends of an order; zeros where it is empty.
struct Ends {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
};

/// Makes sure that id[n] is a permutation in the order of `less` before anybody follows an id: what
/// a device answers is sealed into the log and believed from then on, and a sort that goes wrong
/// may say nothing (docs/impl/runs.md).
/// Returns the first id and the last.
/// Errors  IOError: it is not.
/// Cost    two launches and a wait; none on the host, but for the invariants build.
template <class X, class Less>
Result<Ends> check_order(X& x, const Less& less, const std::uint32_t* id, std::uint64_t n) {
#if !defined(BRECCIA_INVARIANTS)
  if constexpr (X::kIsHost) return n == 0 ? Ends{} : Ends{id[0], id[n - 1]};
#endif
  BRECCIA_TAKE(const exec::Array<OrderFound> order, make_array<OrderFound>(x, 1));
  OrderFound found;
  BRECCIA_TRY(exec::clear(x, order.data(), 1));
  BRECCIA_TRY(x.template launch<kWidth>(n, CheckOrder<Less>{less, id, n, order.data()}));
  BRECCIA_TRY(x.copy_out(&found, order.data(), 1));
  BRECCIA_TRY(x.finish());
  if (found.wrong != 0) return Status::IOError("device", "a sort or a merge went wrong");
  return Ends{found.first, found.last};
}

/// Marks all items of each tie, equal sort words, of which an item stands in the wrong place.
/// Shape   place[places]: those items, ascending; flag[n].
template <class X>
Status mark_mixed_ties(X& x, const std::uint64_t* word, std::uint64_t n, const std::uint32_t* place,
                       std::uint64_t places, std::uint8_t* flag) {
  BRECCIA_TAKE(const exec::Array<std::uint64_t> tie, make_array<std::uint64_t>(x, n));
  BRECCIA_TRY(x.template launch<kWidth>(n, MarkWordEnds{word, n, tie.data()}));
  std::uint64_t ties = 0;
  BRECCIA_TRY(x.exclusive_scan(tie.data(), tie.data(), n, &ties));
  BRECCIA_TAKE(const exec::Array<std::uint8_t> mixed, make_array<std::uint8_t>(x, ties));
  BRECCIA_TRY(exec::clear(x, mixed.data(), ties));
  BRECCIA_TRY(
      x.template launch<kWidth>(places, NoteMixedTies{place, places, tie.data(), mixed.data()}));
  BRECCIA_TRY(x.template launch<kWidth>(n, MarkMixedTies{tie.data(), mixed.data(), n, flag}));
  return x.finish();
}

/// Puts n entries whose sort words are equal into the order of `less`. Equal ones keep theirs.
/// Cost    one comparison sort of the ties that are out of order, and a scan; none of both if there
///         are no such.
template <class X, class Less>
Status break_ties(X& x, const Less& less, const std::uint64_t* word, std::uint64_t n,
                  std::uint32_t* id) {
  BRECCIA_TAKE(const exec::Array<std::uint8_t> flag, make_array<std::uint8_t>(x, n));
  BRECCIA_TAKE(const exec::Array<std::uint32_t> place, make_array<std::uint32_t>(x, n));
  BRECCIA_TAKE(const exec::Array<std::uint32_t> all, make_array<std::uint32_t>(x, n));
  BRECCIA_TRY(x.template launch<kWidth>(n, MarkDisorder<Less>{less, word, id, n, flag.data()}));
  BRECCIA_TRY(x.template launch<kWidth>(n, Iota{0, n, all.data()}));
  std::uint64_t tied_count = 0;
  BRECCIA_TRY(x.select(all.data(), flag.data(), n, place.data(), &tied_count));
  if (tied_count == 0) return Status::OK();
  BRECCIA_TRY(mark_mixed_ties(x, word, n, place.data(), tied_count, flag.data()));
  BRECCIA_TRY(x.select(all.data(), flag.data(), n, place.data(), &tied_count));
  // The tied places taken in order hold the tied entries in word order; a stable sort by `less`
  // permutes them within their ties only.
  std::uint32_t* const tied = all.data();
  BRECCIA_TRY(x.template launch<kWidth>(tied_count,
                                        Gather<std::uint32_t>{id, place.data(), tied_count, tied}));
  BRECCIA_TRY(x.stable_sort(tied, tied_count, less));
  BRECCIA_TRY(x.template launch<kWidth>(
      tied_count, Scatter<std::uint32_t>{tied, place.data(), tied_count, id}));
  return x.finish();
}

/// How many leading bytes all keys share: *bytes, if they do not share kPrefixWordsMax words.
/// Shape   work[keys.count]
/// Cost    a reduction; where all heads are equal two more, and two launches.
template <class X>
Status count_shared_bytes(X& x, const record::KeyColumnsRef& keys, std::uint64_t* work,
                          std::uint64_t* bytes) {
  const std::uint64_t n = keys.count;
  std::uint64_t difference = 0;
  BRECCIA_TRY(x.difference(keys.head, n, &difference));
  *bytes = static_cast<std::uint64_t>(common_bytes(difference));
  if (difference != 0 || keys.tail_count == 0) return Status::OK();
  BRECCIA_TRY(x.template launch<kWidth>(n, NoteFirstDifferences{keys, work}));
  BRECCIA_TRY(x.difference(work, n, &difference));
  if (difference == 0) return Status::OK();  // versions of one key, or nearly so
  const auto w = static_cast<std::uint64_t>(std::countl_zero(difference));
  BRECCIA_TRY(x.template launch<kWidth>(n, PickWords{keys, 8 * w, work}));
  BRECCIA_TRY(x.difference(work, n, &difference));
  *bytes = 8 * w + static_cast<std::uint64_t>(common_bytes(difference));
  return Status::OK();
}

/// Sorts keys of any length: id[] becomes the entries in key order, the newest (highest index) of
/// equal keys first. Returns the first and the last.
/// Shape   id[keys.count], in the executor's memory; keys.skip == 0.
/// Cost    one radix sort of (8-byte word, 4-byte id), plus count_shared_bytes and break_ties.
/// Source  [hrocks] section 6.1 (MSD radix sort). Deviation: a word behind the common prefix, then
///         a comparison sort of what is still tied.
template <class X>
Result<Ends> sort_keys(X& x, const record::KeyColumnsRef& keys, std::uint32_t* id) {
  BRECCIA_ASSERT(keys.skip == 0);
  const std::uint64_t n = keys.count;
  BRECCIA_TAKE(const exec::Array<std::uint64_t> word, make_array<std::uint64_t>(x, n));
  std::uint64_t shared = 0;
  BRECCIA_TRY(count_shared_bytes(x, keys, word.data(), &shared));
  BRECCIA_TRY(x.template launch<kWidth>(n, PrepareSort{keys, shared, word.data(), id}));
  BRECCIA_TRY(x.sort_pairs(word.data(), id, n));
  // Versions of one key are in order already, as the sort was stable.
  BRECCIA_TRY(break_ties(x, KeyLess{keys}, word.data(), n, id));
  return check_order(x, NewestFirst{keys}, id, n);
}

/// Sorts entries of any order: ids[] becomes the entries in that of `less`.
/// Shape   ids[less.keys.count], in the executor's memory; less.keys.skip == 0.
/// Cost    as sort_keys.
/// Source  [glsm] section 4.3 (radix sort of padded 8-byte key words). Deviation: as sort_keys.
template <class X>
Status sort_versions(X& x, const VersionLess& less, std::uint32_t* ids) {
  BRECCIA_ASSERT(less.keys.skip == 0);
  const std::uint64_t n = less.keys.count;
  BRECCIA_TAKE(const exec::Array<std::uint64_t> word, make_array<std::uint64_t>(x, n));
  std::uint64_t shared = 0;
  BRECCIA_TRY(count_shared_bytes(x, less.keys, word.data(), &shared));
  BRECCIA_TRY(x.template launch<kWidth>(n, PickWords{less.keys, shared, word.data()}));
  BRECCIA_TRY(x.template launch<kWidth>(n, Iota{0, n, ids}));
  BRECCIA_TRY(x.sort_pairs(word.data(), ids, n));
  return break_ties(x, less, word.data(), n, ids);
}

/// How many leading bytes keys[i] and keys[j] share, of kPrefixWordsMax words.
inline std::uint64_t shared_bytes(const record::KeyColumnsRef& keys, std::uint64_t i,
                                  std::uint64_t j) {
  for (std::uint64_t w = 0; w < kPrefixWordsMax; ++w) {
    const std::uint64_t difference =
        record::padded_word(keys, i, w) ^ record::padded_word(keys, j, w);
    if (difference != 0) return 8 * w + static_cast<std::uint64_t>(common_bytes(difference));
  }
  return 8 * kPrefixWordsMax;
}

/// Heads of a run of `host`'s keys, of which `ends` are the least and the greatest.
/// Cost    none but for two keys, unless zero bytes end what is shared: then a look at each length.
inline Heads heads_of_run(const record::KeyColumnsRef& host, const Ends& ends) {
  if (host.tail_count == 0) return {};  // heads are the keys
  const std::uint64_t first_word = record::first_word(host, ends.first);
  std::uint64_t shared = shared_bytes(host, ends.first, ends.last);
  if (shared <= 8) return heads_behind(first_word, shared);
  // A key without the last of these words has zeros there.
  const std::uint64_t last = (shared - 1) / 8;
  const bool are_padded =
      heads_behind(record::padded_word(host, ends.first, last), shared - 8 * last).prefix == 0;
  for (std::uint64_t i = 0; are_padded && i < host.count; ++i) {
    shared = std::min(shared, 8 * (1 + record::tail_words(host.bytes_at(i))));
  }
  return heads_behind(first_word, shared);
}

/// The first and the last of entries in the order of NewestFirst.
/// Shape   keys.count > 0
inline Ends ends_of(const record::KeyColumnsRef& keys) {
  // Heads alone first, as hardly any entry has one of these two.
  std::uint64_t least = keys.head[0];
  std::uint64_t greatest = least;
  for (std::uint64_t i = 1; i < keys.count; ++i) {
    least = std::min(least, keys.head[i]);
    greatest = std::max(greatest, keys.head[i]);
  }
  const NewestFirst less{keys};
  const auto none = static_cast<std::uint32_t>(keys.count);
  Ends ends{none, none};
  for (std::uint32_t i = 0; i < none; ++i) {
    const std::uint64_t head = keys.head[i];
    if (head == least && (ends.first == none || less(i, ends.first))) ends.first = i;
    if (head == greatest && (ends.last == none || less(ends.last, i))) ends.last = i;
  }
  return ends;
}

/// Few entries in the executor's memory, where they are read in any order.
struct FewEntries {
  exec::Array<std::uint64_t> head, meta, tail, relative, value;
  exec::Array<std::uint32_t> id;  // zeros

  [[nodiscard]] record::KeyColumnsRef keys(const record::KeyColumnsRef& host) const {
    record::KeyColumnsRef keys = host;
    keys.head = head.data();
    keys.meta = meta.data();
    keys.tail = tail.data();
    return keys;
  }
};

/// Begins to bring entries in. They are read where they lie: to say that each column is to be
/// copied takes a driver longer than the bus takes for all of them.
template <class X>
Result<FewEntries> take_few(X& x, const record::EntriesRef& from, std::uint64_t tail_from) {
  const std::uint64_t n = from.keys.count;
  FewEntries few;
  BRECCIA_TAKE(few.head, make_array<std::uint64_t>(x, n));
  BRECCIA_TAKE(few.meta, make_array<std::uint64_t>(x, from.keys.uniform() ? 0 : n));
  BRECCIA_TAKE(few.tail, make_array<std::uint64_t>(x, from.keys.tail_count));
  BRECCIA_TAKE(few.relative, make_array<std::uint64_t>(x, n));
  BRECCIA_TAKE(few.value, make_array<std::uint64_t>(x, from.value != nullptr ? n : 0));
  BRECCIA_TAKE(few.id, make_array<std::uint32_t>(x, n));
  const TakeColumns take{from,
                         tail_from,
                         few.head.data(),
                         few.meta.data(),
                         few.tail.data(),
                         few.relative.data(),
                         few.value.data(),
                         few.id.data()};
  BRECCIA_TRY(x.template launch<kWidth>(std::max(n, from.keys.tail_count), take));
  return Result<FewEntries>(std::move(few));
}

/// True if counting is sooner done than a sort: the entries are few, their heads mostly tell them
/// apart, and of the others not much need be compared.
template <class X>
bool is_worth_counting(const record::EntriesRef& host) {
  constexpr std::uint64_t kLooks = 8;
  constexpr std::uint64_t kTailWordsMax = 8;  // of an entry on average
  const std::uint64_t n = host.keys.count;
  if (n == 0 || n > X::kCountedMax || host.sorted) return false;
  std::uint64_t alike = 0;
  for (std::uint64_t look = 1; look <= kLooks; ++look) {
    alike += host.keys.head[(n - 1) * look / kLooks] == host.keys.head[0] ? 1 : 0;
  }
  return host.keys.tail_count <= kTailWordsMax * n && (n <= kLooks || 2 * alike < kLooks);
}

/// build_run() of few entries, put in order by counting. Until the one wait at its end nobody knows
/// whether the order is right; ids that follow it are some of the entries' in any case.
/// Shape   `found`: x.words() as the executor writes them.
/// Cost    three launches and a wait, if it reaches the host's columns.
template <class X>
Result<RunArrays> build_few(X& x, const record::EntriesRef& host, std::uint32_t* descriptors,
                            std::uint64_t* found) {
  const std::uint64_t n = host.keys.count;
  BRECCIA_ASSERT(n > 0 && !host.sorted && host.keys.skip == 0);
  BRECCIA_TAKE(const auto keys, ImportedKeys<X>::make(x, host.keys, /*in_place=*/true));
  BRECCIA_TAKE(const auto relative, Inlet<X>::make(x, host.relative, n, /*in_place=*/true));
  BRECCIA_TAKE(const auto value, Inlet<X>::make(x, host.value, host.value != nullptr ? n : 0,
                                                /*in_place=*/true));
  const exec::Finish finish_imports(x);
  static_assert(sizeof(OrderFound) <= exec::kWords * sizeof *found);
  auto* const order = new (x.words()) OrderFound();
  record::EntriesRef from = host;
  from.keys = keys.ref();
  from.relative = relative.data();
  from.value = host.value != nullptr ? value.data() : nullptr;
  BRECCIA_TAKE(const FewEntries few, take_few(x, from, host.keys.tail_at(0)));
  const exec::Finish finish(x);
  const NewestFirst less{few.keys(host.keys)};
  BRECCIA_TRY(x.template launch<kWidth>(n * kWidth, CountBefore<NewestFirst>{less, few.id.data()}));
  const Ends ends = ends_of(host.keys);  // meanwhile
  const Entries entries{less.keys,
                        few.relative.data(),
                        host.base,
                        few.value.data(),
                        host.value != nullptr,
                        few.id.data(),
                        n,
                        heads_of_run(host.keys, ends)};
  const CheckOrder<NewestFirst> check{less, few.id.data(), n, reinterpret_cast<OrderFound*>(found)};
  BRECCIA_TAKE(RunArrays run, gather_run(x, entries, descriptors, [&](const GatherRun& gather) {
                 return x.template launch<kWidth>(n, CheckedGather{check, gather});
               }));
  if (order->wrong != 0 || order->first != ends.first || order->last != ends.last) {
    return Status::IOError("device", "entries are not in order where they were counted");
  }
  return Result<RunArrays>(std::move(run));
}

/// The executor's side of Backend::build_run.
template <class X>
Result<RunArrays> build_run(X& x, const record::EntriesRef& host, std::uint32_t* descriptors) {
  const std::uint64_t n = host.keys.count;
  const bool has_values = host.value != nullptr;
  std::uint32_t* const in_place = descriptors == nullptr ? nullptr : x.reach(descriptors);
  const bool is_staged = descriptors != nullptr && in_place == nullptr;
  if (is_worth_counting<X>(host) && !is_staged && !BRECCIA_SOMETIMES(50)) {
    if (auto* const found = x.reach(x.words())) return build_few(x, host, in_place, found);
  }
  BRECCIA_TAKE(const auto keys, ImportedKeys<X>::make(x, host.keys));
  BRECCIA_TAKE(const auto relative, x.import(host.relative, n));
  BRECCIA_TAKE(const auto value, x.import(host.value, has_values ? n : 0));

  BRECCIA_TAKE(const exec::Array<std::uint32_t> id, make_array<std::uint32_t>(x, n));
  Ends ends;
  if (host.sorted) {
    BRECCIA_TRY(x.template launch<kWidth>(n, Iota{0, n, id.data()}));
    const VersionLess less{keys.ref(), relative.data()};
    BRECCIA_TAKE(ends, check_order(x, less, id.data(), n));
  } else {
    BRECCIA_TAKE(ends, sort_keys(x, keys.ref(), id.data()));
  }
  exec::Array<std::uint32_t> staged;
  if (is_staged) {
    BRECCIA_TAKE(staged, make_array<std::uint32_t>(x, n));
  }
  const Entries entries{keys.ref(), relative.data(), host.base, value.data(),
                        has_values, id.data(),       n,         heads_of_run(host.keys, ends)};
  BRECCIA_TAKE(RunArrays run,
               gather_run(x, entries, in_place != nullptr ? in_place : staged.data()));
  if (staged.data() != nullptr) {
    BRECCIA_TRY(x.copy_out(descriptors, staged.data(), n));
    BRECCIA_TRY(x.finish());
  }
  return Result<RunArrays>(std::move(run));
}

/// The columns of several runs one behind the other.
struct Concatenation {
  exec::Array<std::uint64_t> head, meta, tail, payload, value;
  bool has_values = false;
  std::uint32_t uniform_bytes = 0;
  Heads heads;

  [[nodiscard]] record::KeyColumnsRef keys() const {
    return {head.data(),  meta.data(),   tail.data(), head.count(),
            tail.count(), uniform_bytes, heads.skip,  heads.prefix};
  }
};

/// Heads for the keys of all runs.
/// Cost    none; where more than a word is skipped in each of them, a read of their first keys.
template <class X>
Result<Heads> common_heads(X& x, std::span<const RunRef> runs) {
  std::vector<const record::KeyColumnsRef*> all;
  std::uint64_t shared = ~std::uint64_t{0};
  for (const RunRef& run : runs) {
    if (run.keys.count == 0) continue;
    all.push_back(&run.keys);
    shared = std::min<std::uint64_t>(shared, run.keys.skip);
    const int common = common_bytes(run.keys.prefix ^ all.front()->prefix);
    if (common < 8) shared = std::min(shared, static_cast<std::uint64_t>(common));
  }
  if (all.empty() || shared == 0) return Heads();
  // What is skipped behind the first word lies in each run's first tail.
  const std::uint64_t words = (shared - 1) / 8;
  std::vector<std::uint64_t> prefixes(words * all.size());
  for (std::size_t r = 0; words > 0 && r < all.size(); ++r) {
    BRECCIA_ASSERT(all[r]->tail_count >= words);
    BRECCIA_TRY(x.copy_out(prefixes.data() + r * words, all[r]->tail, words));
  }
  if (words > 0) BRECCIA_TRY(x.finish());
  for (std::size_t at = words; at < prefixes.size(); ++at) {
    const std::uint64_t word = at % words;
    const std::uint64_t difference = prefixes[at] ^ prefixes[word];
    if (difference == 0) continue;
    shared =
        std::min(shared, 8 * (1 + word) + static_cast<std::uint64_t>(common_bytes(difference)));
  }
  return heads_behind(all.front()->prefix, shared);
}

template <class X>
Result<Concatenation> concatenate(X& x, std::span<const RunRef> runs) {
  std::uint64_t n = 0;
  std::uint64_t tail_count = 0;
  bool uniform = true;
  Concatenation all;
  all.has_values = true;
  for (const RunRef& run : runs) {
    n += run.keys.count;
    tail_count += run.keys.tail_count;
    uniform = uniform && run.keys.uniform_bytes == runs.front().keys.uniform_bytes;
    all.has_values = all.has_values && (run.value != nullptr || run.keys.count == 0);
  }
  all.uniform_bytes = uniform ? runs.front().keys.uniform_bytes : record::kVariableBytes;
  const bool widen = all.uniform_bytes == record::kVariableBytes;
  BRECCIA_TAKE(all.heads, common_heads(x, runs));
  BRECCIA_TAKE(all.head, make_array<std::uint64_t>(x, n));
  BRECCIA_TAKE(all.meta, make_array<std::uint64_t>(x, widen ? n : 0));
  BRECCIA_TAKE(all.tail, make_array<std::uint64_t>(x, tail_count));
  BRECCIA_TAKE(all.payload, make_array<std::uint64_t>(x, n));
  BRECCIA_TAKE(all.value, make_array<std::uint64_t>(x, all.has_values ? n : 0));
  std::uint64_t at = 0;
  std::uint64_t tail_at = 0;
  for (const RunRef& run : runs) {
    const record::KeyColumnsRef& keys = run.keys;
    if (keys.skip == all.heads.skip) {
      BRECCIA_TRY(x.copy(all.head.data() + at, keys.head, keys.count));
    } else {
      BRECCIA_TRY(x.template launch<kWidth>(keys.count,
                                            PickWords{keys, all.heads.skip, all.head.data() + at}));
    }
    BRECCIA_TRY(x.copy(all.payload.data() + at, run.payload, keys.count));
    if (all.has_values) BRECCIA_TRY(x.copy(all.value.data() + at, run.value, keys.count));
    BRECCIA_TRY(x.copy(all.tail.data() + tail_at, keys.tail, keys.tail_count));
    if (widen) {
      BRECCIA_TRY(
          x.template launch<kWidth>(keys.count, WidenMeta{keys, tail_at, all.meta.data() + at}));
    }
    at += keys.count;
    tail_at += keys.tail_count;
  }
  return Result<Concatenation>(std::move(all));
}

/// Merges the sorted ranges ends[0..] of ids pairwise until one is left; the result lies in *ids.
template <class X>
Status merge_ranges(X& x, std::vector<std::uint64_t> ends, const VersionLess& less,
                    exec::Array<std::uint32_t>* ids, exec::Array<std::uint32_t>* spare) {
  while (ends.size() > 1) {
    std::vector<std::uint64_t> merged;
    std::uint64_t begin = 0;
    for (std::size_t i = 0; i < ends.size(); i += 2) {
      const std::uint64_t middle = ends[i];
      const std::uint64_t end = i + 1 < ends.size() ? ends[i + 1] : middle;
      BRECCIA_TRY(x.merge(ids->data() + begin, middle - begin, ids->data() + middle, end - middle,
                          spare->data() + begin, less));
      merged.push_back(end);
      begin = end;
    }
    std::swap(*ids, *spare);
    ends = std::move(merged);
  }
  return Status::OK();
}

/// Marks, besides what MarkNewest has marked, what lies below merge operands down to the first
/// version that is none.
/// Shape   `id`: n entries in run order; kept[n]: as MarkNewest leaves it.
/// Cost    one scan. Stretches end with each version that is no operand, with each key, and above
///         what is marked; one is kept whole if it begins with a marked version.
template <class X>
Status mark_stacks(X& x, const std::uint64_t* payload, const std::uint32_t* id, std::uint64_t n,
                   std::uint8_t* kept) {
  BRECCIA_TAKE(const exec::Array<std::uint64_t> ends, make_array<std::uint64_t>(x, n));
  BRECCIA_TAKE(const exec::Array<std::uint64_t> stretch, make_array<std::uint64_t>(x, n));
  BRECCIA_TAKE(const exec::Array<std::uint8_t> begins_kept, make_array<std::uint8_t>(x, n));
  BRECCIA_TRY(x.template launch<kWidth>(n, MarkStretchEnds{payload, id, kept, n, ends.data()}));
  std::uint64_t stretches = 0;
  BRECCIA_TRY(x.exclusive_scan(ends.data(), stretch.data(), n, &stretches));
  BRECCIA_TRY(
      x.template launch<kWidth>(n, NoteStretchBegins{stretch.data(), n, kept, begins_kept.data()}));
  BRECCIA_TRY(
      x.template launch<kWidth>(n, KeepStretches{stretch.data(), n, begins_kept.data(), kept}));
  return x.finish();
}

/// The executor's side of Backend::merge_runs.
/// Cost    log2(runs) passes over 4-byte ids, each reading heads; one copy in and one out.
template <class X>
Result<RunArrays> merge_runs(X& x, std::span<const RunRef> runs, Keep keep) {
  BRECCIA_TAKE(const Concatenation all, concatenate(x, runs));
  const record::KeyColumnsRef keys = all.keys();
  std::uint64_t n = keys.count;
  BRECCIA_ASSERT(n <= ~std::uint32_t{0});
  BRECCIA_TAKE(exec::Array<std::uint32_t> ids, make_array<std::uint32_t>(x, n));
  BRECCIA_TAKE(exec::Array<std::uint32_t> spare, make_array<std::uint32_t>(x, n));
  BRECCIA_TRY(x.template launch<kWidth>(n, Iota{0, n, ids.data()}));
  std::vector<std::uint64_t> ends;
  for (const RunRef& run : runs) {
    ends.push_back((ends.empty() ? 0 : ends.back()) + run.keys.count);
  }
  BRECCIA_TRY(
      merge_ranges(x, std::move(ends), VersionLess{keys, all.payload.data()}, &ids, &spare));
  BRECCIA_TRY(check_order(x, VersionLess{keys, all.payload.data()}, ids.data(), n).status());
  exec::Array<std::uint8_t> kept;
  if (keep != Keep::kAll) {
    BRECCIA_TAKE(kept, make_array<std::uint8_t>(x, n));
    BRECCIA_TRY(x.template launch<kWidth>(
        n, MarkNewest{keys, all.payload.data(), ids.data(), n, keep == Keep::kPuts, kept.data()}));
    if (keep == Keep::kStacks) {
      BRECCIA_TRY(mark_stacks(x, all.payload.data(), ids.data(), n, kept.data()));
    }
    BRECCIA_TRY(x.select(ids.data(), kept.data(), n, spare.data(), &n));
    std::swap(ids, spare);
  }
  const Entries entries{keys,           all.payload.data(), 0, all.value.data(),
                        all.has_values, ids.data(),         n, all.heads};
  return gather_run(x, entries, nullptr);
}

/// Results of a kernel on their way to the host: written where they are wanted if the executor
/// reaches that, else staged.
template <class X, class T = std::uint64_t>
class Outlet {
 public:
  /// `host` may be null: nothing is wanted.
  static Result<Outlet> make(X& x, T* host, std::uint64_t n) {
    Outlet outlet(host, n, host == nullptr ? nullptr : x.reach(host));
    if (host != nullptr && outlet.in_place_ == nullptr) {
      BRECCIA_TAKE(outlet.staged_, make_array<T>(x, n));
    }
    return Result<Outlet>(std::move(outlet));
  }
  [[nodiscard]] T* data() const { return in_place_ != nullptr ? in_place_ : staged_.data(); }
  Status send(X& x) const {
    if (host_ == nullptr || in_place_ != nullptr) return Status::OK();
    return x.copy_out(host_, staged_.data(), n_);
  }

 private:
  Outlet(T* host, std::uint64_t n, T* in_place) : host_(host), n_(n), in_place_(in_place) {}
  T* host_;
  std::uint64_t n_;
  T* in_place_;
  exec::Array<T> staged_;
};

/// Begins a search of what lies in the executor's memory.
/// Shape   table[runs.size()], or null: they travel with the launch (is_inline()).
template <class X>
Status launch_search(X& x, std::span<const RunRef> runs, const RunRef* table,
                     const QueriesRef& queries, const FoundRef& found) {
  const std::uint64_t n = queries.keys.count;
  if (table == nullptr) {
    return x.template launch<kWidth>(n, InlineSearch<Search>(runs, queries, found));
  }
  const int run_count = static_cast<int>(runs.size());
  return x.template launch<kWidth>(n, Search{table, run_count, queries, found});
}

template <class X>
bool is_inline(std::span<const RunRef> runs) {
  return !X::kIsHost && runs.size() <= kInlineRunsMax;
}

/// The executor's side of Backend::search.
/// Cost    on a device one launch and one wait where the host's memory is reached and runs are few:
///         each call of a driver waits for those of other threads.
template <class X>
Status search(X& x, std::span<const RunRef> runs, const QueriesRef& host, const FoundRef& found) {
  const std::uint64_t n = host.keys.count;
  BRECCIA_ASSERT(runs.size() <= limits::kRunsPerSearchMax);
  BRECCIA_ASSERT((found.op == nullptr) != (found.payload == nullptr));
  BRECCIA_ASSERT(found.op == nullptr || found.value != nullptr);
  const bool in_place = reads_queries_once(host.keys);
  BRECCIA_ASSERT(host.rows == nullptr || in_place);
  const std::uint64_t row_words = host.keys.uniform_bytes / sizeof(std::uint64_t);
  BRECCIA_TAKE(const auto rows,
               Inlet<X>::make(x, host.rows, host.rows == nullptr ? 0 : n * row_words, in_place));
  const record::KeyColumnsRef columns = host.rows == nullptr ? host.keys : record::KeyColumnsRef();
  BRECCIA_TAKE(const auto keys, ImportedKeys<X>::make(x, columns, in_place));
  BRECCIA_TAKE(const auto bound,
               Inlet<X>::make(x, host.bound, host.bound == nullptr ? 0 : n, in_place));
  const bool without_table = is_inline<X>(runs);
  BRECCIA_TAKE(const auto table, x.import(runs.data(), without_table ? 0 : runs.size()));
  QueriesRef queries = host;
  if (host.rows == nullptr) {
    queries.keys = keys.ref();
  } else {
    queries.rows = rows.data();
  }
  queries.bound = host.bound == nullptr ? nullptr : bound.data();
  BRECCIA_TAKE(const auto payload, Outlet<X>::make(x, found.payload, n));
  BRECCIA_TAKE(const auto value, Outlet<X>::make(x, found.value, n));
  BRECCIA_TAKE(const auto op, (Outlet<X, std::uint8_t>::make(x, found.op, n)));
  BRECCIA_TRY(launch_search(x, runs, without_table ? nullptr : table.data(), queries,
                            {payload.data(), value.data(), op.data()}));
  BRECCIA_TRY(payload.send(x));
  BRECCIA_TRY(value.send(x));
  BRECCIA_TRY(op.send(x));
  return x.finish();
}

}  // namespace breccia::runs::algo
