#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace breccia::facade {

/// Lets writes through unless somebody has closed it.
/// Threads any number; who opens it need not be who closed it.
class WriteGate {
 public:
  /// One write on its way.
  class Pass {
   public:
    explicit Pass(WriteGate* gate) : gate_(gate) { gate_->enter(); }
    ~Pass() { gate_->leave(); }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

   private:
    WriteGate* gate_;
  };
  /// Keeps it closed while it lives.
  class Closed {
   public:
    explicit Closed(WriteGate* gate) : gate_(gate) { gate_->close(); }
    ~Closed() { (void)gate_->open(); }
    Closed(const Closed&) = delete;
    Closed& operator=(const Closed&) = delete;

   private:
    WriteGate* gate_;
  };

  /// Returns when all writes that were under way are done; no other begins until open().
  /// Bound   waits while it is closed already.
  void close();
  /// False if it was not closed.
  bool open();

 private:
  void enter();
  void leave();

  // Sequentially consistent: a write that misses `closed_` is seen in `inside_` by who closes.
  std::atomic<std::int64_t> inside_{0};
  std::atomic<bool> closed_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace breccia::facade
