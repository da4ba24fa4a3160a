#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/assert.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/result.h"
#include "exec/device.h"

namespace breccia::exec {

/// The one road for calls that may fail on a device: run there; if the device has no memory, run
/// that call on the host; after any other error leave the device for good. `Verbs` is what a module
/// has for each device, with `device()` and `tenant()`.
///
/// Threads any.
template <class Verbs>
class Failover {
 public:
  struct Listener {
    /// A call failed on the device; `left`: for the first time with an error other than
    /// MemoryLimit.
    std::function<void(const Status& why, bool left)> failed;
  };

  Failover(std::shared_ptr<Verbs> first, std::shared_ptr<Verbs> host)
      : current_(std::move(first)), first_(current_), host_(std::move(host)) {
    BRECCIA_ASSERT(host_->device().is_host());
    if (current_->device().is_host()) current_ = host_;
  }

  /// Who hears of failures. Before any thread uses this.
  void listen(Listener listener) { listener_ = std::move(listener); }

  [[nodiscard]] std::shared_ptr<Verbs> current() const {
    const std::lock_guard lock(mutex_);
    return current_;
  }
  [[nodiscard]] Verbs& host() const { return *host_; }
  [[nodiscard]] std::shared_ptr<Verbs> host_ptr() const { return host_; }
  /// What was in use first: the device's, even after it was left.
  [[nodiscard]] Verbs& first() const { return *first_; }
  [[nodiscard]] bool is_host(const Verbs& verbs) const { return verbs.device().is_host(); }

  /// Calls work(verbs) on the device in use, and on the host if that fails.
  /// Returns what `work` does: a Status, or a Result.
  template <class Work>
  auto run(const Work& work) -> decltype(work(std::declval<Verbs&>())) {
    const std::shared_ptr<Verbs> verbs = current();
    auto done = base::or_memory_limit([&] { return work(*verbs); });
    if (is_host(*verbs) || is_ok(done)) return done;
    note(*verbs, status_of(done));
    return base::or_memory_limit([&] { return work(*host_); });
  }

  /// Calls work(verbs) on `verbs`, which current() gave, for callers that get around a failure by
  /// themselves.
  template <class Work>
  auto attempt(Verbs& verbs, const Work& work) -> decltype(work(verbs)) {
    auto done = base::or_memory_limit([&] { return work(verbs); });
    if (!is_ok(done)) note(verbs, status_of(done));
    return done;
  }

  /// The device is of no use any more, says `why`.
  void leave(const Status& why) {
    BRECCIA_ASSERT(!why.ok());
    bool left = false;
    {
      const std::lock_guard lock(mutex_);
      left = current_ != host_;
      if (left) {
        current_ = host_;
        why_ = base::copy_of(why);
      }
    }
    if (left) {
      base::as_memory_allows([&] {
        log(LogLevel::kError, "device retired, the host goes on alone: " + why.ToString());
      });
    }
    if (listener_.failed) listener_.failed(why, left);
  }
  /// Why the device was left; ok if it was not.
  [[nodiscard]] Status left() const {
    const std::lock_guard lock(mutex_);
    return why_;
  }

 private:
  static bool is_ok(const Status& status) { return status.ok(); }
  static Status status_of(const Status& status) { return status; }
  template <class T>
  static bool is_ok(const Result<T>& result) {
    return result.ok();
  }
  template <class T>
  static Status status_of(const Result<T>& result) {
    return result.status();
  }

  void note(const Verbs& failed, const Status& why) {
    if (is_host(failed)) return;
    if (!why.IsMemoryLimit()) return leave(why);
    if (listener_.failed) listener_.failed(why, /*left=*/false);
  }

  mutable std::mutex mutex_;
  std::shared_ptr<Verbs> current_;
  const std::shared_ptr<Verbs> first_;  // what lies in its memory may be held for a while
  const std::shared_ptr<Verbs> host_;
  Status why_;
  Listener listener_;
};

}  // namespace breccia::exec
