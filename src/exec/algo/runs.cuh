#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "exec/algo/run_steps.cuh"
#include "exec/algo/search.cuh"
#include "exec/backend.h"
#include "exec/pool.h"

/// Building, merging and searching runs, written once over an executor X:
///
///   Pool& pool()
///   Status launch<W>(count, functor)             functor(group, first) for first = 0, W, 2W, ...
///   Status sort_pairs(u64* keys, u32* ids, n)    stable, ascending
///   Status stable_sort(u32* ids, n, less)
///   Status merge(a, na, b, nb, out, less)        stable: equal entries of `a` first
///   Status exclusive_scan(const u64* in, u64* out, n, u64* total)    total on the host
///   Status select(const u32* in, const u8* flags, n, u32* out, u64* count)  count on the host
///   Status difference(const u64* words, n, u64* bits)   bits in which any two words differ
///   Result<Import<T>> import(const T* host, n)   .data(): where the executor can read it
///   Status copy(T* to, const T* from, n)         within backend memory
///   Status copy_out(T* host, const T* from, n)
///   T* reach(T* host)                            host memory as the executor can write it, or null
///   Status finish()                              waits for all of it
/// Every function here ends with finish(), so its work space may be freed at once; an operation of
/// X that fails waits for what runs before it returns.

namespace breccia::exec::algo {

inline constexpr int kWidth = 32;

/// An array of work space. When memory is short, what runs already is waited for first: the caller
/// is about to give back arrays that it may still use.
template <class T, class X>
Result<Array<T>> make_array(X& x, std::uint64_t count) {
  auto array = Array<T>::make(x.pool(), count);
  if (!array.ok()) (void)x.finish();
  return array;
}

/// The arrays of one run in a backend's pool.
struct RunArrays {
  Array<std::uint64_t> head, meta, tail, payload, fence;
  std::uint32_t uniform_bytes = 0;

  [[nodiscard]] RunRef ref() const {
    RunRef run;
    run.keys = {head.data(), meta.data(), tail.data(), head.count(), tail.count(), uniform_bytes};
    run.payload = payload.data();
    run.fence = fence.data();
    return run;
  }
  [[nodiscard]] std::uint64_t memory_bytes() const {
    return head.bytes() + meta.bytes() + tail.bytes() + payload.bytes() + fence.bytes();
  }
};

class PoolRun : public Run {
 public:
  PoolRun(RunArrays arrays, bool on_host)
      : arrays_(std::move(arrays)), ref_(arrays_.ref()), on_host_(on_host) {}
  [[nodiscard]] std::uint64_t count() const override { return ref_.keys.count; }
  [[nodiscard]] std::uint64_t memory_bytes() const override { return arrays_.memory_bytes(); }
  [[nodiscard]] const RunRef* host_view() const override { return on_host_ ? &ref_ : nullptr; }
  [[nodiscard]] const RunRef& ref() const { return ref_; }

 private:
  RunArrays arrays_;
  RunRef ref_;
  bool on_host_;
};

/// Entries that become a run: keys and payloads in the executor's memory, taken in the order `id`.
struct Entries {
  KeyColumnsRef keys;
  const std::uint64_t* payload;
  std::uint64_t payload_base;
  const std::uint32_t* id;  // null: already in run order
  std::uint64_t count;
};

/// Copies `entries` into the arrays of a new run.
template <class X>
Result<RunArrays> gather_run(X& x, const Entries& entries, std::uint32_t* descriptors) {
  RunArrays run;
  const std::uint64_t n = entries.count;
  run.uniform_bytes = entries.keys.uniform_bytes;
  Array<std::uint64_t> tail_at;
  std::uint64_t tail_count = n * tail_words(run.uniform_bytes);
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
  BRECCIA_TRY(x.template launch<kWidth>(
      n, GatherRun{entries.keys, entries.payload, entries.payload_base, entries.id, n,
                   tail_at.data(), run.head.data(), run.meta.data(), run.tail.data(),
                   run.payload.data(), run.fence.data(), descriptors}));
  BRECCIA_TRY(x.finish());
  return Result<RunArrays>(std::move(run));
}

/// Puts entries whose sort words are equal into the order of their whole keys.
/// Cost    one comparison sort of the tied entries only; none if no words are equal.
template <class X>
Status break_ties(X& x, const KeyColumnsRef& keys, const std::uint64_t* word, std::uint32_t* id) {
  const std::uint64_t n = keys.count;
  BRECCIA_TAKE(const Array<std::uint8_t> flag, make_array<std::uint8_t>(x, n));
  BRECCIA_TAKE(const Array<std::uint32_t> place, make_array<std::uint32_t>(x, n));
  BRECCIA_TAKE(const Array<std::uint32_t> all, make_array<std::uint32_t>(x, n));
  BRECCIA_TRY(x.template launch<kWidth>(n, MarkTies{word, n, flag.data()}));
  BRECCIA_TRY(x.template launch<kWidth>(n, Iota{0, n, all.data()}));
  std::uint64_t ties = 0;
  BRECCIA_TRY(x.select(all.data(), flag.data(), n, place.data(), &ties));
  if (ties == 0) return Status::OK();
  // The tied places taken in order hold the tied entries in word order; a stable sort by whole key
  // permutes them within their groups only.
  std::uint32_t* const tied = all.data();
  BRECCIA_TRY(x.template launch<kWidth>(ties, Gather<std::uint32_t>{id, place.data(), ties, tied}));
  BRECCIA_TRY(x.stable_sort(tied, ties, KeyLess{keys}));
  BRECCIA_TRY(
      x.template launch<kWidth>(ties, Scatter<std::uint32_t>{tied, place.data(), ties, id}));
  return x.finish();
}

/// Sorts keys of any length: id[] becomes the entries in key order, the newest (highest index) of
/// equal keys first.
/// Shape   id[keys.count], in the executor's memory.
/// Cost    one radix sort of (8-byte word, 4-byte id), plus break_ties.
/// Source  [hrocks] section 6.1 (MSD radix sort). Deviation: a word behind the common prefix, then
///         a comparison sort of what is still tied.
template <class X>
Status sort_keys(X& x, const KeyColumnsRef& keys, std::uint32_t* id) {
  const std::uint64_t n = keys.count;
  std::uint64_t difference = 0;
  BRECCIA_TRY(x.difference(keys.head, n, &difference));
  BRECCIA_TAKE(const Array<std::uint64_t> word, make_array<std::uint64_t>(x, n));
  BRECCIA_TRY(
      x.template launch<kWidth>(n, PrepareSort{keys, common_bytes(difference), word.data(), id}));
  BRECCIA_TRY(x.sort_pairs(word.data(), id, n));
  return break_ties(x, keys, word.data(), id);
}

/// The executor's side of Backend::build_run.
template <class X>
Result<RunArrays> build_run(X& x, const KeyColumnsRef& host_keys, const std::uint64_t* relative,
                            std::uint64_t base, bool sorted, std::uint32_t* descriptors) {
  const std::uint64_t n = host_keys.count;
  BRECCIA_TAKE(const auto head, x.import(host_keys.head, n));
  BRECCIA_TAKE(const auto meta, x.import(host_keys.meta, host_keys.uniform() ? 0 : n));
  BRECCIA_TAKE(const auto tail, x.import(host_keys.tail, host_keys.tail_count));
  BRECCIA_TAKE(const auto offset, x.import(relative, n));
  KeyColumnsRef keys = host_keys;
  keys.head = head.data();
  keys.meta = meta.data();
  keys.tail = tail.data();

  BRECCIA_TAKE(const Array<std::uint32_t> id, make_array<std::uint32_t>(x, n));
  if (sorted) {
    BRECCIA_TRY(x.template launch<kWidth>(n, Iota{0, n, id.data()}));
  } else {
    BRECCIA_TRY(sort_keys(x, keys, id.data()));
  }
  std::uint32_t* const in_place = descriptors == nullptr ? nullptr : x.reach(descriptors);
  Array<std::uint32_t> staged;
  if (descriptors != nullptr && in_place == nullptr) {
    BRECCIA_TAKE(staged, make_array<std::uint32_t>(x, n));
  }
  BRECCIA_TAKE(RunArrays run, gather_run(x, Entries{keys, offset.data(), base, id.data(), n},
                                         in_place != nullptr ? in_place : staged.data()));
  if (staged.data() != nullptr) {
    BRECCIA_TRY(x.copy_out(descriptors, staged.data(), n));
    BRECCIA_TRY(x.finish());
  }
  return Result<RunArrays>(std::move(run));
}

/// The columns of several runs one behind the other.
struct Concatenation {
  Array<std::uint64_t> head, meta, tail, payload;
  std::uint32_t uniform_bytes = 0;

  [[nodiscard]] KeyColumnsRef keys() const {
    return {head.data(), meta.data(), tail.data(), head.count(), tail.count(), uniform_bytes};
  }
};

template <class X>
Result<Concatenation> concatenate(X& x, std::span<const RunRef> runs) {
  std::uint64_t n = 0;
  std::uint64_t tail_count = 0;
  bool uniform = true;
  for (const RunRef& run : runs) {
    n += run.keys.count;
    tail_count += run.keys.tail_count;
    uniform = uniform && run.keys.uniform_bytes == runs.front().keys.uniform_bytes;
  }
  Concatenation all;
  all.uniform_bytes = uniform ? runs.front().keys.uniform_bytes : kVariableBytes;
  const bool widen = all.uniform_bytes == kVariableBytes;
  BRECCIA_TAKE(all.head, make_array<std::uint64_t>(x, n));
  BRECCIA_TAKE(all.meta, make_array<std::uint64_t>(x, widen ? n : 0));
  BRECCIA_TAKE(all.tail, make_array<std::uint64_t>(x, tail_count));
  BRECCIA_TAKE(all.payload, make_array<std::uint64_t>(x, n));
  std::uint64_t at = 0;
  std::uint64_t tail_at = 0;
  for (const RunRef& run : runs) {
    const KeyColumnsRef& keys = run.keys;
    BRECCIA_TRY(x.copy(all.head.data() + at, keys.head, keys.count));
    BRECCIA_TRY(x.copy(all.payload.data() + at, run.payload, keys.count));
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
                    Array<std::uint32_t>* ids, Array<std::uint32_t>* spare) {
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

/// The executor's side of Backend::merge_runs.
/// Cost    log2(runs) passes over 4-byte ids, each reading heads; one copy in and one out.
template <class X>
Result<RunArrays> merge_runs(X& x, std::span<const RunRef> runs, bool newest_only) {
  BRECCIA_TAKE(const Concatenation all, concatenate(x, runs));
  const KeyColumnsRef keys = all.keys();
  std::uint64_t n = keys.count;
  BRECCIA_ASSERT(n <= ~std::uint32_t{0});
  BRECCIA_TAKE(Array<std::uint32_t> ids, make_array<std::uint32_t>(x, n));
  BRECCIA_TAKE(Array<std::uint32_t> spare, make_array<std::uint32_t>(x, n));
  BRECCIA_TRY(x.template launch<kWidth>(n, Iota{0, n, ids.data()}));
  std::vector<std::uint64_t> ends;
  for (const RunRef& run : runs) {
    ends.push_back((ends.empty() ? 0 : ends.back()) + run.keys.count);
  }
  BRECCIA_TRY(
      merge_ranges(x, std::move(ends), VersionLess{keys, all.payload.data()}, &ids, &spare));
  Array<std::uint8_t> newest;
  if (newest_only) {
    BRECCIA_TAKE(newest, make_array<std::uint8_t>(x, n));
    BRECCIA_TRY(x.template launch<kWidth>(n, MarkNewest{keys, ids.data(), n, newest.data()}));
    BRECCIA_TRY(x.select(ids.data(), newest.data(), n, spare.data(), &n));
    std::swap(ids, spare);
  }
  return gather_run(x, Entries{keys, all.payload.data(), 0, ids.data(), n}, nullptr);
}

/// The executor's side of Backend::search.
template <class X>
Status search(X& x, std::span<const RunRef> runs, const QueriesRef& host, std::uint64_t* found) {
  const std::uint64_t n = host.keys.count;
  BRECCIA_ASSERT(runs.size() <= limits::kRunsPerSearchMax);
  BRECCIA_TAKE(const auto head, x.import(host.keys.head, n));
  BRECCIA_TAKE(const auto meta, x.import(host.keys.meta, host.keys.uniform() ? 0 : n));
  BRECCIA_TAKE(const auto tail, x.import(host.keys.tail, host.keys.tail_count));
  BRECCIA_TAKE(const auto bound, x.import(host.bound, host.bound == nullptr ? 0 : n));
  BRECCIA_TAKE(const auto refs, x.import(runs.data(), runs.size()));
  QueriesRef queries = host;
  queries.keys.head = head.data();
  queries.keys.meta = meta.data();
  queries.keys.tail = tail.data();
  queries.bound = host.bound == nullptr ? nullptr : bound.data();

  std::uint64_t* const in_place = x.reach(found);
  Array<std::uint64_t> staged;
  if (in_place == nullptr) {
    BRECCIA_TAKE(staged, make_array<std::uint64_t>(x, n));
  }
  std::uint64_t* const out = in_place != nullptr ? in_place : staged.data();
  BRECCIA_TRY(x.template launch<kWidth>(
      n, Search{refs.data(), static_cast<int>(runs.size()), queries, out}));
  if (in_place == nullptr) BRECCIA_TRY(x.copy_out(found, staged.data(), n));
  return x.finish();
}

}  // namespace breccia::exec::algo
