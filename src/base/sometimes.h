#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>

#include "base/random.h"

/// BRECCIA_SOMETIMES(percent): true in so many of 100 calls, where BRECCIA_INVARIANTS is defined
/// and the environment says BRECCIA_SOMETIMES=1; else false, and in other builds a constant. With
/// it code takes roads that are legal and rare, so that tests meet them.
/// Threads any. The stream follows BRECCIA_TEST_SEED.
/// Source  FoundationDB's BUGGIFY (Zhou et al. 2021). Deviation: each call draws anew; there a
///         place is on or off for a whole run.

namespace breccia::base {

/// What BRECCIA_SOMETIMES asks.
class Sometimes {
 public:
  static bool says_true(int percent) {
    if (!is_on().load(std::memory_order_relaxed)) return false;
    static const std::uint64_t seed = mix64(number_in_environment("BRECCIA_TEST_SEED"));
    static std::atomic<std::uint64_t> calls{0};
    const std::uint64_t call = calls.fetch_add(1, std::memory_order_relaxed);
    return mix64(seed + call) % 100 < static_cast<std::uint64_t>(percent);
  }

  /// Turns it on or off while it lives.
  class Scope {
   public:
    explicit Scope(bool on) : before_(is_on().exchange(on)) {}
    ~Scope() { is_on().store(before_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const bool before_;
  };

 private:
  static std::uint64_t number_in_environment(const char* name) {
    const char* const text = std::getenv(name);
    return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
  }
  static std::atomic<bool>& is_on() {
    static std::atomic<bool> on{number_in_environment("BRECCIA_SOMETIMES") != 0};
    return on;
  }
};

}  // namespace breccia::base

#if defined(BRECCIA_INVARIANTS)
#define BRECCIA_SOMETIMES(percent) ::breccia::base::Sometimes::says_true(percent)
#else
#define BRECCIA_SOMETIMES(percent) false
#endif
