#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

/// Where a compaction is best done.

namespace breccia::compaction {

enum class Place : std::uint8_t {
  kDevice,
  kHost,   // this engine, on cores
  kLocal,  // RocksDB itself, on the thread that asks
};
inline constexpr std::size_t kPlaces = 3;
const char* name_of(Place place);

struct JobSize {
  std::uint64_t bytes = 0;
  std::uint64_t entries = 0;
  std::uint64_t files = 0;

  bool operator==(const JobSize&) const = default;
};

/// What of this engine is busy.
struct Load {
  bool has_device = false;
  std::uint64_t running = 0;  // jobs, with those that wait for their turn
  double waiting_micros = 0;  // until the turn of a job that comes now
};

struct DecisionOptions {
  std::uint64_t bytes_min = 0;         // smaller jobs are RocksDB's
  std::uint64_t jobs_max = 8;          // running and waiting; what comes then is RocksDB's
  std::uint64_t device_files_min = 0;  // a fixed threshold in files; 0: none
  std::uint64_t device_bytes_min = 0;  // another in bytes; 0: none
  bool may_use_host = true;
  bool weighs_rocksdb = true;  // false: what can be done here is, also where RocksDB may be faster
};

struct Decision {
  Place place = Place::kLocal;
  const char* why = nullptr;  // of kLocal
};

/// What may be said as Decision::why.
namespace decision_reasons {
inline constexpr const char* kSmall = "a small job";
inline constexpr const char* kFull = "the queue is full";
inline constexpr const char* kBelowThreshold = "below the device's threshold";
inline constexpr const char* kSlower = "RocksDB is faster";
inline constexpr const char* kNoDevice = "no device";
}  // namespace decision_reasons

/// What jobs cost in each place, learned from those that were done there.
///
///   micros = fixed + pace * (entries * 0.35 + bytes * 0.00175)
///
/// The sum in braces is what RocksDB takes on one core of a server: most of the work is per entry,
/// and copies are per byte. `pace` is how much slower a place is than that, an average in which
/// what is newer weighs more. A place that was not used for a long time counts as faster than it
/// was, a bit more with each job, until it is tried again.
///
/// Threads one at a time.
class Costs {
 public:
  /// Guesses, until there is something to learn from.
  Costs();

  [[nodiscard]] double micros(Place place, const JobSize& size) const;
  /// A job took that long in the place, without what it waited.
  void learn(Place place, const JobSize& size, std::uint64_t micros);
  [[nodiscard]] double pace(Place place) const { return at(place).pace; }
  [[nodiscard]] std::uint64_t learned(Place place) const { return at(place).jobs; }

 private:
  struct Share {
    double fixed_micros = 0;
    double pace = 1;
    std::uint64_t jobs = 0;
    std::uint64_t idle = 0;  // jobs that others did since
  };
  [[nodiscard]] const Share& at(Place place) const {
    return shares_[static_cast<std::size_t>(place)];
  }

  std::array<Share, kPlaces> shares_;
};

/// Source  [glsm] sections 5.2 and 5.4: from K tables on a job goes to the device, others to the
///         processor. Deviation: where K is not given, what was measured decides.
[[nodiscard]] Decision decide(const JobSize& size, const Load& load, const Costs& costs,
                              const DecisionOptions& options);

}  // namespace breccia::compaction
