#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>

#include "base/fault.h"
#include "base/result.h"
#include "exec/failover.h"
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
///
/// Threads that pin at once share no memory that they write: each has a place by its slot, with a
/// reference to the view that has a count of its own. A view that was replaced is in none of them.
///
/// Threads pin() and view() by anybody; the rest by one at a time (the publisher's lock).
class ViewState {
 public:
  [[nodiscard]] Pin pin() const;
  [[nodiscard]] ViewPtr view() const {
    const std::lock_guard lock(mutex_);
    return view_;
  }

  /// Makes entries below `visible` of the current view visible.
  void show(std::uint64_t visible) { visible_.store(visible, std::memory_order_release); }
  [[nodiscard]] std::uint64_t visible() const { return visible_.load(std::memory_order_acquire); }

  /// Replaces the view and shows up to `visible` in one step.
  void publish(ViewPtr view, std::uint64_t visible);

 private:
  static constexpr std::uint64_t kNoVersion = 0;

  /// Threads few of which have the same one.
  struct alignas(64) Place {
    std::mutex mutex;
    ViewPtr view;  // of `version`
    std::uint64_t version = kNoVersion;
    std::atomic<bool> has_view{false};
  };
  static constexpr std::size_t kPlaces = 32;

  /// The current view at a place whose lock the caller has, and its version; `gone`: what was
  /// there.
  ViewPtr take(Place* place, std::uint64_t* version, ViewPtr* gone) const;
  void empty_places();

  mutable std::mutex mutex_;
  ViewPtr view_;
  std::atomic<std::uint64_t> version_{kNoVersion + 1};  // of the view; written under the lock
  mutable std::array<Place, kPlaces> places_;
  std::atomic<std::uint64_t> visible_{0};
};

/// The verbs on runs: on the store's device, and on the host.
using Backends = exec::Failover<runs::Backend>;
using base::Fault;

/// Memory of batches. They may outlive the store: it keeps the device.
[[nodiscard]] std::shared_ptr<exec::HostMemory> batch_memory(const Backends& backends);

/// The order of a run of `backend`: its columns, or else its payloads, read from the device.
/// Errors  as Backend::read_payloads.
[[nodiscard]] Result<Order> read_order(runs::Backend& backend, const runs::RunPtr& run);

/// The order of a run of `backend` whose payloads the host has. Errors  MemoryLimit.
[[nodiscard]] Result<Order> copy_order(const runs::Backend& backend, const std::uint64_t* payloads,
                                       std::uint64_t count);

/// The payloads of the run's orders, one order behind the other: if it is one, in run order.
[[nodiscard]] std::vector<std::uint64_t> payloads_of(const MemRun& run,
                                                     const wal::SegmentTable& table);

/// Builds the run again on the host from its records in the log; versions that a merge left out
/// come back.
[[nodiscard]] Result<MemRunPtr> rebuild_on_host(const MemRun& run, const wal::SegmentTable& table,
                                                runs::Backend& host);

/// `runs` with every run on the host. Runs that are there already are shared.
[[nodiscard]] Result<std::vector<MemRunPtr>> runs_on_host(const std::vector<MemRunPtr>& runs,
                                                          const wal::SegmentTable& table,
                                                          runs::Backend& host);

/// `view` with every run on the host. Runs that are there already are shared.
[[nodiscard]] Result<ViewPtr> view_on_host(const View& view, runs::Backend& host);

}  // namespace breccia::ordered
