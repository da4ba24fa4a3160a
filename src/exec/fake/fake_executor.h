#pragma once

#include <cstdint>
#include <utility>

#include "base/result.h"
#include "exec/device.h"
#include "exec/fake/fake_faults.h"
#include "exec/sim/sim_executor.h"

namespace breccia::exec::fake {

/// An executor whose operations may fail; see exec/executor.h for the contract.
class FakeExecutor {
 public:
  static constexpr bool kIsHost = false;
  static constexpr bool kIsAsync = false;
  static constexpr std::uint64_t kCountedMax = 4;

  FakeExecutor(Device& device, sim::SimPool& pool, sim::Scheduler& scheduler, FakeFaults& faults)
      : device_(device), pool_(pool), executor_(pool, scheduler), faults_(faults) {}

  /// An allocation follows, or fails for want of memory.
  [[nodiscard]] Pool& pool() { return begin(When::kAtOnce).ok() ? pool_ : no_memory_; }

  template <int W, class F>
  Status launch(std::uint64_t count, const F& functor) {
    return enqueue([&] { return executor_.template launch<W>(count, functor); });
  }
  Status sort_pairs(std::uint64_t* keys, std::uint32_t* ids, std::uint64_t n) {
    return sorted(ids, n, [&] { return executor_.sort_pairs(keys, ids, n); });
  }
  template <class Less>
  Status stable_sort(std::uint32_t* ids, std::uint64_t n, const Less& less) {
    return sorted(ids, n, [&] { return executor_.stable_sort(ids, n, less); });
  }
  template <class Less>
  Status merge(const std::uint32_t* a, std::uint64_t a_count, const std::uint32_t* b,
               std::uint64_t b_count, std::uint32_t* out, const Less& less) {
    return sorted(out, a_count + b_count,
                  [&] { return executor_.merge(a, a_count, b, b_count, out, less); });
  }
  Status exclusive_scan(const std::uint64_t* in, std::uint64_t* out, std::uint64_t n,
                        std::uint64_t* total) {
    BRECCIA_TRY(begin(When::kAtOnce));
    return executor_.exclusive_scan(in, out, n, total);
  }
  Status select(const std::uint32_t* in, const std::uint8_t* flags, std::uint64_t n,
                std::uint32_t* out, std::uint64_t* count) {
    BRECCIA_TRY(begin(When::kAtOnce));
    return executor_.select(in, flags, n, out, count);
  }
  Status difference(const std::uint64_t* words, std::uint64_t n, std::uint64_t* bits) {
    BRECCIA_TRY(begin(When::kAtOnce));
    return executor_.difference(words, n, bits);
  }
  template <class T>
  Result<sim::Imported<T>> import(const T* host, std::uint64_t n) {
    BRECCIA_TRY(begin(When::kAtOnce));
    return executor_.import(host, n);
  }
  template <class T>
  Status copy(T* to, const T* from, std::uint64_t n) {
    return enqueue([&] { return executor_.copy(to, from, n); });
  }
  template <class T>
  Status copy_out(T* host, const T* from, std::uint64_t n) {
    return enqueue([&] { return executor_.copy_out(host, from, n); });
  }
  [[nodiscard]] std::uint64_t* words() { return executor_.words(); }
  template <class T>
  T* reach(T* host) {
    return executor_.reach(host);
  }
  Status select_here(const std::uint32_t* in, const std::uint8_t* flags, std::uint64_t n,
                     std::uint32_t* out, std::uint64_t* count) {
    return enqueue([&] { return executor_.select_here(in, flags, n, out, count); });
  }
  Status make_room_to_select(std::uint64_t /*n*/) { return begin(When::kAtOnce); }
  Status follow(void* /*stream*/) { return begin(When::kAtOnce); }
  Status enter(void* /*stream*/) { return begin(When::kAtOnce); }
  Status leave() { return begin(When::kAtOnce); }
  Status finish() { return begin(When::kAtOnce); }
  [[nodiscard]] bool has_work() const { return true; }

  /// Counts an operation that answers at once, such as taking this executor.
  Status begin_call() { return begin(When::kAtOnce); }

 private:
  enum class When { kAtOnce, kLater };

  /// Counts an operation. Errors: its own, or that of a device lost before. Where the device is
  /// lost in an operation that is only enqueued, that one says OK and does nothing.
  Status begin(When reports);

  template <class Work>
  Status enqueue(const Work& work) {
    BRECCIA_TRY(begin(When::kLater));
    return is_lost_silently_ ? Status::OK() : work();
  }

  /// Work that leaves `ids` in order; a false one loses an id and has another one twice.
  template <class Work>
  Status sorted(std::uint32_t* ids, std::uint64_t n, const Work& work) {
    return enqueue([&] {
      BRECCIA_TRY(work());
      if (n >= 2 && faults_.next_sort_is_false()) ids[n - 1] = ids[0];
      return Status::OK();
    });
  }

  Device& device_;
  sim::SimPool& pool_;
  sim::SimPool no_memory_{0};
  sim::SimExecutor executor_;
  FakeFaults& faults_;
  bool is_lost_silently_ = false;  // no operation has said so yet
};

}  // namespace breccia::exec::fake
