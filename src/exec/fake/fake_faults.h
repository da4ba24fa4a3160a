#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>

namespace breccia::exec {

/// How an operation of a device may fail.
enum class Fault {
  kOutOfMemory,    // MemoryLimit; the device works on
  kLaunchFailure,  // IOError; the device works on
  kDeviceLost,     // IOError from now on. Work that is only enqueued says so at the next operation
};

/// Ranges of the host's memory that a fake device has adopted.
/// Threads any.
class FakeRanges {
 public:
  /// False: it has it already.
  [[nodiscard]] bool add(void* memory) {
    const std::lock_guard lock(mutex_);
    return ranges_.insert(memory).second;
  }
  void remove(void* memory) {
    const std::lock_guard lock(mutex_);
    ranges_.erase(memory);
  }
  [[nodiscard]] std::size_t count() const {
    const std::lock_guard lock(mutex_);
    return ranges_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::set<void*> ranges_;
};

/// The faults of a fake device: the test's side. It must outlive the device.
/// Threads any.
class FakeFaults {
 public:
  /// Operations so far: taking an executor, allocations, imports, launches, sorts, copies, waits.
  [[nodiscard]] std::uint64_t operations() const { return operations_.load(); }
  /// Lets the `k`-th operation from now (the next is the first) fail with `fault`.
  void fail_after(std::uint64_t k, Fault fault) {
    fault_ = fault;
    fail_at_ = operations_ + k;
  }
  /// Sorts and merges of two entries and more so far.
  [[nodiscard]] std::uint64_t sorts() const { return sorts_.load(); }
  /// Lets the `k`-th of these from now give a wrong answer and say OK.
  void falsify_sort(std::uint64_t k) { false_sort_ = sorts_ + k; }
  /// Lets adopt() say no, and no memory of the host be reached.
  void refuse_adoption(bool refuse) { refuses_adoption_ = refuse; }

  /// Ranges of the host's memory that the device has adopted, and how often it refused one.
  [[nodiscard]] std::size_t adopted() const { return ranges_->count(); }
  [[nodiscard]] std::uint64_t refusals() const { return refusals_.load(); }

  /// The device's side: what it has adopted, which it may disown behind the end of this.
  [[nodiscard]] const std::shared_ptr<FakeRanges>& ranges() const { return ranges_; }
  void note_refusal() { ++refusals_; }
  /// The device's side: counts an operation; true if it is the one that fails.
  [[nodiscard]] bool next_fails() { return ++operations_ == fail_at_; }
  [[nodiscard]] bool next_sort_is_false() { return ++sorts_ == false_sort_; }
  [[nodiscard]] Fault fault() const { return fault_; }
  [[nodiscard]] bool refuses_adoption() const { return refuses_adoption_; }

 private:
  std::atomic<std::uint64_t> operations_{0};
  std::atomic<std::uint64_t> fail_at_{0};
  std::atomic<std::uint64_t> sorts_{0};
  std::atomic<std::uint64_t> false_sort_{0};
  std::atomic<Fault> fault_{Fault::kOutOfMemory};
  std::atomic<bool> refuses_adoption_{false};
  std::atomic<std::uint64_t> refusals_{0};
  const std::shared_ptr<FakeRanges> ranges_ = std::make_shared<FakeRanges>();
};

}  // namespace breccia::exec
