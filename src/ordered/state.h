#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>

#include "base/result.h"
#include "ordered/statistics.h"
#include "ordered/view.h"
#include "runs/backend.h"
#include "tree/tree.h"

namespace breccia::ordered {

/// What readers hold: a view, and the position below which they may see entries.
struct Pin {
  ViewPtr view;
  std::uint64_t visible = 0;
};

/// The current view and how far it is visible.
/// Threads pin() and view() by anybody; the rest by one at a time (the engine's publish lock).
class ViewState {
 public:
  [[nodiscard]] Pin pin() const {
    const std::lock_guard lock(mutex_);
    return {view_, visible_.load(std::memory_order_acquire)};  // pairs with show()
  }
  [[nodiscard]] ViewPtr view() const {
    const std::lock_guard lock(mutex_);
    return view_;
  }

  /// Makes entries below `visible` of the current view visible.
  void show(std::uint64_t visible) { visible_.store(visible, std::memory_order_release); }
  [[nodiscard]] std::uint64_t visible() const { return visible_.load(std::memory_order_acquire); }

  /// Replaces the view and shows up to `visible` in one step.
  void publish(ViewPtr view, std::uint64_t visible) {
    const std::lock_guard lock(mutex_);
    BRECCIA_ASSERT(visible >= visible_.load(std::memory_order_relaxed));
    view_.swap(view);  // the old view dies after the lock is gone
    show(visible);
  }

 private:
  mutable std::mutex mutex_;
  ViewPtr view_;
  std::atomic<std::uint64_t> visible_{0};
};

/// The backend in use, and the host backend beside it: it takes over from a lost device for good,
/// and piece by piece from one that is full.
/// Threads any.
class BackendSlot {
 public:
  explicit BackendSlot(std::shared_ptr<runs::Backend> first)
      : current_(std::move(first)), first_(current_), host_(runs::make_host_backend()) {}

  [[nodiscard]] std::shared_ptr<runs::Backend> current() const {
    const std::lock_guard lock(mutex_);
    return current_;
  }
  [[nodiscard]] runs::Backend& host() const { return *host_; }
  [[nodiscard]] bool is_host(const runs::Backend& backend) const {
    return &backend == host_.get() || backend.kind() == runs::BackendKind::kHost;
  }
  /// True if `backend` can search and merge `run` where it lies.
  [[nodiscard]] bool holds(const runs::Backend& backend, const runs::Run& run) const {
    return backend.kind() == runs::BackendKind::kCuda ? run.host_view() == nullptr
                                                      : run.host_view() != nullptr;
  }
  /// Takes note that `failed` returned `why` and the host does that piece of work. A device that
  /// has no memory left stays in use; after any other error the host takes its place for good. True
  /// if this call put it there.
  bool retire(const runs::Backend& failed, const Status& why);
  /// Where to count failures. Before any thread uses the slot.
  void count_in(Statistics* statistics) { statistics_ = statistics; }
  /// Why the first backend was retired; ok if it was not.
  [[nodiscard]] Status retired() const {
    const std::lock_guard lock(mutex_);
    return why_;
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<runs::Backend> current_;
  std::shared_ptr<runs::Backend> first_;  // its runs may be held by views for a while
  std::shared_ptr<runs::Backend> host_;
  Status why_;
  Statistics* statistics_ = nullptr;
};

/// The first fault of the store's media. From then on the store is read-only.
/// Threads any.
class Fault {
 public:
  enum class Place { kLog, kFlush };

  /// `hear` is told of the first fault. Before any thread uses the fault.
  void tell(std::function<void(Place place, const Status& cause)> hear) { hear_ = std::move(hear); }

  void set(Place place, const Status& cause) {
    const std::lock_guard lock(mutex_);
    if (cause_.ok()) {
      cause_ = cause;
      if (hear_) hear_(place, cause);
    }
    set_.store(true, std::memory_order_release);
  }
  [[nodiscard]] Status get() const {
    if (!set_.load(std::memory_order_acquire)) return Status::OK();
    const std::lock_guard lock(mutex_);
    return cause_;
  }

 private:
  std::atomic<bool> set_{false};
  mutable std::mutex mutex_;
  Status cause_;
  std::function<void(Place place, const Status& cause)> hear_;
};

/// The run's payloads in run order, from what the host has of it.
[[nodiscard]] std::vector<std::uint64_t> payloads_of(const MemRun& run,
                                                     const wal::SegmentTable& table);

/// Builds the same run again on the host from its records in the log.
[[nodiscard]] Result<MemRunPtr> rebuild_on_host(const MemRun& run, const wal::SegmentTable& table,
                                                runs::Backend& host);

/// `runs` with every run on the host. Runs that are there already are shared.
[[nodiscard]] Result<std::vector<MemRunPtr>> runs_on_host(const std::vector<MemRunPtr>& runs,
                                                          const wal::SegmentTable& table,
                                                          runs::Backend& host);

/// `view` with every run on the host. Runs that are there already are shared.
[[nodiscard]] Result<ViewPtr> view_on_host(const View& view, runs::Backend& host);

}  // namespace breccia::ordered
