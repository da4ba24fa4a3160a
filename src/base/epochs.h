#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "base/thread_slot.h"

namespace breccia::base {

/// When blocks that others may still look at can be freed: when everybody has left who came before
/// they were taken away.
///
/// Who looks stays, and reads pointers only then. Who takes a block away stores where it was, and
/// retires it behind that.
///
/// Owner   all stays end, and nothing is retired any more, before this does; what is left then is
///         freed.
/// Threads any.
/// Source  epoch-based reclamation (Fraser 2004). Deviation: the epoch rises with each block, so
///         who stays for long keeps what came later, too, and nothing else.
class Epochs {
 public:
  using Free = void (*)(void* block);

  /// Threads one owner, who may have others.
  /// Cost    an exchange.
  class Stay {
   public:
    explicit Stay(Epochs& epochs) : epochs_(epochs), slot_(epochs.enter()) {}
    ~Stay() { epochs_.leave(slot_); }
    Stay(const Stay&) = delete;
    Stay& operator=(const Stay&) = delete;

    /// False of a thread without a slot of its own (base/thread_slot.h): it must not look.
    [[nodiscard]] bool may_look() const { return slot_ < kThreadSlots; }

   private:
    Epochs& epochs_;
    const std::uint32_t slot_;
  };

  Epochs() = default;
  ~Epochs();
  Epochs(const Epochs&) = delete;
  Epochs& operator=(const Epochs&) = delete;

  /// Frees `block` when nobody can look at it any more, which some later call finds out. Without
  /// memory to remember it, waits for that.
  /// Shape   not within a stay of one's own.
  void retire(void* block, Free free) { retire({&block, 1}, free); }
  /// The same for several.
  void retire(std::span<void* const> blocks, Free free);
  /// Blocks that wait.
  [[nodiscard]] std::uint64_t retired() const;

 private:
  static constexpr std::uint64_t kOutside = 0;
  static constexpr std::uint64_t kCollectEvery = 64;

  struct alignas(64) Place {
    std::atomic<std::uint64_t> since{kOutside};
    std::uint32_t depth = 0;  // of its owner's stays
  };
  struct Retired {
    void* block;
    Free free;
    std::uint64_t epoch;  // who came in it or before may look at it
  };

  std::uint32_t enter();
  void leave(std::uint32_t slot);
  void collect(std::vector<Retired>* gone);
  [[nodiscard]] std::uint64_t oldest();

  std::atomic<std::uint64_t> now_{1};
  std::array<Place, kThreadSlots> places_;
  mutable std::mutex mutex_;
  std::vector<Retired> retired_;  // by ascending epoch
};

}  // namespace breccia::base
