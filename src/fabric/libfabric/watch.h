#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "fabric/libfabric/engine.h"

namespace breccia::fabric::libfabric {

/// A thread that does an engine's work while the port's owner is elsewhere: where software moves
/// the bytes nobody reads a region of a process that never calls the library.
///
/// It does not run beside the owner. While that comes and goes it looks from time to time, and
/// where the owner stays in one call for long it sleeps until told.
class Watch {
 public:
  /// The owner is there as long as this lives.
  class Presence {
   public:
    explicit Presence(Watch* watch);
    ~Presence();
    Presence(const Presence&) = delete;
    Presence& operator=(const Presence&) = delete;

   private:
    Watch* const watch_;
  };

  /// Errors  IOError.
  static Result<std::unique_ptr<Watch>> start(Engine* engine);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  Watch(Engine* engine, base::Descriptor bell) : engine_(engine), bell_(std::move(bell)) {}

  void run();
  void serve();
  void rest();
  void nap(int wait_us);
  void hush();
  void ring();

  Engine* const engine_;
  const base::Descriptor bell_;  // it is to look now
  std::atomic<bool> stops_ = false;
  std::atomic<bool> owner_is_there_ = false;
  std::atomic<std::uint64_t> calls_ = 0;
  std::atomic<bool> sleeps_ = false;
  std::thread thread_;
};

}  // namespace breccia::fabric::libfabric
