#pragma once

#include <tbb/blocked_range.h>

#include <algorithm>
#include <cstdint>

#include "base/parallel.h"
#include "base/result.h"
#include "exec/executor.h"
#include "exec/group.h"
#include "exec/pool.h"

namespace breccia::exec::host {

/// Stable radix sort of pairs by key, ascending.
/// Shape   keys[n], ids[n], and work space of the same shape; the result lies in keys and ids.
/// Cost    a counting pass, and a scatter pass for each of the first bytes in which keys differ by
///         which most of as many random keys are told apart (of 4,096, two); of those that they do
///         not tell apart the same once more, by the bytes behind.
void radix_sort(std::uint64_t* keys, std::uint32_t* ids, std::uint64_t* keys_work,
                std::uint32_t* ids_work, std::uint64_t n);

/// Host memory that the executor reads where it lies.
template <class T>
class Borrowed {
 public:
  explicit Borrowed(const T* data) : data_(data) {}
  [[nodiscard]] const T* data() const { return data_; }

 private:
  const T* data_;
};

/// Runs algorithms on CPU threads (oneTBB); see exec/executor.h for the contract.
/// Every operation has finished when it returns.
class HostExecutor {
 public:
  static constexpr bool kIsHost = true;
  static constexpr bool kIsAsync = false;
  static constexpr std::uint64_t kCountedMax = 0;

  explicit HostExecutor(Pool& pool) : pool_(pool) {}

  [[nodiscard]] Pool& pool() { return pool_; }

  template <int W, class F>
  Status launch(std::uint64_t count, const F& functor) {
    const std::uint64_t groups = (count + W - 1) / W;
    const auto run = [&](std::uint64_t begin, std::uint64_t end) {
      for (std::uint64_t group = begin; group < end; ++group) functor(HostGroup<W>{}, group * W);
    };
    if (count <= kSerialMax) {
      run(0, groups);
    } else {
      base::parallel_for(tbb::blocked_range<std::uint64_t>(0, groups, kSerialMax / W),
                         [&](const auto& range) { run(range.begin(), range.end()); });
    }
    return Status::OK();
  }

  Status sort_pairs(std::uint64_t* keys, std::uint32_t* ids, std::uint64_t n);

  template <class Less>
  Status stable_sort(std::uint32_t* ids, std::uint64_t n, const Less& less) {
    std::stable_sort(ids, ids + n, less);
    return Status::OK();
  }

  template <class Less>
  Status merge(const std::uint32_t* a, std::uint64_t a_count, const std::uint32_t* b,
               std::uint64_t b_count, std::uint32_t* out, const Less& less) {
    if (a_count + b_count <= kMergeSerialMax) {
      std::merge(a, a + a_count, b, b + b_count, out, less);
      return Status::OK();
    }
    // Halve the longer side and place the cut in the other, keeping equal entries of `a` first.
    const bool cut_a = a_count >= b_count;
    const std::uint64_t a_cut =
        cut_a ? a_count / 2
              : static_cast<std::uint64_t>(std::upper_bound(a, a + a_count, b[b_count / 2], less) -
                                           a);
    const std::uint64_t b_cut =
        cut_a ? static_cast<std::uint64_t>(std::lower_bound(b, b + b_count, a[a_cut], less) - b)
              : b_count / 2;
    base::parallel_for(0, 2, [&](int half) {
      (void)(half == 0 ? merge(a, a_cut, b, b_cut, out, less)
                       : merge(a + a_cut, a_count - a_cut, b + b_cut, b_count - b_cut,
                               out + a_cut + b_cut, less));
    });
    return Status::OK();
  }

  Status exclusive_scan(const std::uint64_t* in, std::uint64_t* out, std::uint64_t n,
                        std::uint64_t* total);
  Status select(const std::uint32_t* in, const std::uint8_t* flags, std::uint64_t n,
                std::uint32_t* out, std::uint64_t* count);
  Status difference(const std::uint64_t* words, std::uint64_t n, std::uint64_t* bits);

  template <class T>
  Result<Borrowed<T>> import(const T* host, std::uint64_t) {
    return Borrowed<T>(host);
  }
  template <class T>
  Status copy(T* to, const T* from, std::uint64_t n) {
    if (n == 0) return Status::OK();
    BRECCIA_ASSERT(to != nullptr && from != nullptr);
    std::copy_n(from, n, to);
    return Status::OK();
  }
  template <class T>
  Status copy_out(T* host, const T* from, std::uint64_t n) {
    return copy(host, from, n);
  }
  [[nodiscard]] std::uint64_t* words() { return words_; }
  template <class T>
  T* reach(T* host) {
    return host;
  }
  Status select_here(const std::uint32_t* in, const std::uint8_t* flags, std::uint64_t n,
                     std::uint32_t* out, std::uint64_t* count) {
    return select(in, flags, n, out, count);
  }
  Status make_room_to_select(std::uint64_t /*n*/) { return Status::OK(); }
  Status follow(void* /*stream*/) { return Status::OK(); }
  Status enter(void* /*stream*/) { return Status::OK(); }
  Status leave() { return Status::OK(); }
  Status finish() { return Status::OK(); }
  [[nodiscard]] bool has_work() const { return false; }

 private:
  static constexpr std::uint64_t kSerialMax = 8192;
  static constexpr std::uint64_t kMergeSerialMax = 64 << 10;

  Pool& pool_;
  std::uint64_t words_[kWords] = {};
};

}  // namespace breccia::exec::host
