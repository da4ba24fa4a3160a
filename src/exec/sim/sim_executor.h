#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/result.h"
#include "exec/executor.h"
#include "exec/pool.h"
#include "exec/sim/scheduler.h"
#include "exec/sim/sim_group.h"
#include "exec/sim/sim_memory.h"

namespace breccia::exec::sim {

/// A copy of host memory in the simulator's memory; garbage once it is given back.
template <class T>
class Imported {
 public:
  explicit Imported(Array<T> copy) : copy_(std::move(copy)) {}
  Imported(Imported&& other) noexcept = default;
  Imported& operator=(Imported&&) = delete;
  ~Imported() {
    if (copy_.data() != nullptr) fill_with_garbage(copy_.data(), copy_.bytes());
  }
  [[nodiscard]] const T* data() const { return copy_.data(); }

 private:
  Array<T> copy_;
};

/// Runs algorithms with their groups interleaved by a seed; see exec/executor.h for the
/// contract. Every operation has finished when it returns.
class SimExecutor {
 public:
  static constexpr bool kIsHost = false;
  static constexpr bool kIsAsync = false;
  static constexpr std::uint64_t kCountedMax = 512;

  SimExecutor(SimPool& pool, Scheduler& scheduler) : pool_(pool), scheduler_(scheduler) {}

  [[nodiscard]] Pool& pool() { return pool_; }

  template <int W, class F>
  Status launch(std::uint64_t count, const F& functor) {
    scheduler_.run((count + W - 1) / W, [&](std::uint64_t index) {
      const SimGroup<W> group(scheduler_);
      functor(group, index * W);
    });
    return Status::OK();
  }

  Status sort_pairs(std::uint64_t* keys, std::uint32_t* ids, std::uint64_t n);

  template <class Less>
  Status stable_sort(std::uint32_t* ids, std::uint64_t n, const Less& less) {
    check_own(ids, n);
    std::stable_sort(ids, ids + n, less);
    return Status::OK();
  }
  template <class Less>
  Status merge(const std::uint32_t* a, std::uint64_t a_count, const std::uint32_t* b,
               std::uint64_t b_count, std::uint32_t* out, const Less& less) {
    check_own(a, a_count);
    check_own(b, b_count);
    check_own(out, a_count + b_count);
    std::merge(a, a + a_count, b, b + b_count, out, less);
    return Status::OK();
  }
  Status exclusive_scan(const std::uint64_t* in, std::uint64_t* out, std::uint64_t n,
                        std::uint64_t* total);
  Status select(const std::uint32_t* in, const std::uint8_t* flags, std::uint64_t n,
                std::uint32_t* out, std::uint64_t* count);
  Status difference(const std::uint64_t* words, std::uint64_t n, std::uint64_t* bits);

  template <class T>
  Result<Imported<T>> import(const T* host, std::uint64_t n) {
    check_host(host, n);
    BRECCIA_TAKE(auto copy, Array<T>::make(pool_, n));
    std::copy_n(host, n, copy.data());
    return Imported<T>(std::move(copy));
  }
  template <class T>
  Status copy(T* to, const T* from, std::uint64_t n) {
    check_own(to, n);
    check_own(from, n);
    std::copy_n(from, n, to);
    return Status::OK();
  }
  template <class T>
  Status copy_out(T* host, const T* from, std::uint64_t n) {
    check_host(host, n);
    check_own(from, n);
    std::copy_n(from, n, host);
    return Status::OK();
  }
  [[nodiscard]] std::uint64_t* words() { return words_; }
  /// Null half of the time, so that callers' roads without it are walked too.
  template <class T>
  T* reach(T* host) {
    BRECCIA_ASSERT(!pool_.owns(host));
    return scheduler_.random().one_in(2) ? host : nullptr;
  }
  Status select_here(const std::uint32_t* in, const std::uint8_t* flags, std::uint64_t n,
                     std::uint32_t* out, std::uint64_t* count) {
    check_own(count, 1);
    return select(in, flags, n, out, count);
  }
  Status make_room_to_select(std::uint64_t /*n*/) { return Status::OK(); }
  Status follow(void* /*stream*/) { return Status::OK(); }
  Status enter(void* /*stream*/) { return Status::OK(); }
  Status leave() { return Status::OK(); }
  Status finish() { return Status::OK(); }
  [[nodiscard]] bool has_work() const { return false; }

 private:
  void check_own(const void* memory, std::uint64_t n) const {
    BRECCIA_ASSERT(n == 0 || pool_.owns(memory));
  }
  void check_host(const void* memory, std::uint64_t n) const {
    BRECCIA_ASSERT(n == 0 || (memory != nullptr && !pool_.owns(memory)));
  }

  SimPool& pool_;
  Scheduler& scheduler_;
  std::uint64_t words_[kWords] = {};
};

}  // namespace breccia::exec::sim
