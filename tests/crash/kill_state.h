#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

/// What a killed writer leaves behind for its successor: the expected content of the store, in a
/// file that both map.

namespace breccia::crash {

inline constexpr std::uint32_t kWriters = 2;
inline constexpr std::uint32_t kKeysPerWriter = 2500;
inline constexpr std::uint32_t kBatchMax = 5000;

/// Where the child is; the parent times its kill by it.
enum class Phase : std::uint32_t { kOpening, kLoading, kFailed };

/// One writer's keys. A batch writes keys (first + i * stride) % kKeysPerWriter, i < count, all
/// with its number; content_of says what that number means under each key.
struct WriterState {
  /// kSubmitted: on its way; kAcked: acknowledged, but `acked` does not say so yet.
  enum class Pending : std::uint32_t { kNone, kSubmitted, kAcked };
  std::atomic<Pending> pending;
  std::uint32_t first;
  std::uint32_t stride;
  std::uint32_t count;
  std::uint64_t number;
  std::uint64_t acked[kKeysPerWriter];  // the last acknowledged batch that wrote the key; 0: none

  [[nodiscard]] std::uint32_t key_of(std::uint32_t i) const {
    return static_cast<std::uint32_t>((first + std::uint64_t{i} * stride) % kKeysPerWriter);
  }
  /// The pending batch is part of what must be there from now on.
  void settle() {
    for (std::uint32_t i = 0; i < count; ++i) acked[key_of(i)] = number;
    pending.store(Pending::kNone, std::memory_order_release);
  }
};

struct KillState {
  std::atomic<Phase> phase;
  std::atomic<std::uint64_t> verified;  // rounds that found everything as it must be
  std::atomic<std::uint64_t> acked;     // batches
  std::atomic<std::uint64_t> whole;     // pending batches found whole after a kill
  std::atomic<std::uint64_t> missing;   // or not at all
  std::atomic<std::uint64_t> flushes;
  std::atomic<std::uint64_t> hits;  // lookups that copies answered
  std::uint64_t number;             // of the last batch
  char error[512];
  WriterState writers[kWriters];
};

/// Maps the state at `path`, creating it empty.
KillState* map_state(const std::string& path);
void unmap_state(KillState* state);

/// How a child runs, as one line of numbers.
struct ChildRun {
  std::uint64_t seed;
  bool simulator;
  bool hash = false;  // the hash engine
  bool hot = false;   // behind a tier of hot keys
};

/// Opens the store, checks it against the state, then writes until it is killed. Returns on error,
/// which state->error tells.
void run_child(const std::string& folder, const ChildRun& run);

}  // namespace breccia::crash
