#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "bench/hash/flags.h"
#include "hash/backend.h"

namespace breccia::bench::tables {

/// Room that a table is made with.
struct Room {
  std::uint64_t slots = 0;
  std::uint64_t slots_max = 0;  // that it may grow to; 0: it may not
  std::uint64_t keys = 0;       // that it holds at most
  std::uint64_t batch = 0;      // requests of a call at most
  // ---- of slabs ----
  std::uint64_t bytes_max = 0;         // of the backend's memory, then of the host's; 0: no bound
  std::uint64_t requests_of_head = 0;  // as slab::TableOptions
};

/// A hash table that is measured. Its requests lie in the backend's memory.
/// Threads one owner.
class Target {
 public:
  Target() = default;
  virtual ~Target() = default;
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  /// What it is, as rows name it, and where it works.
  [[nodiscard]] virtual std::string engine() const = 0;
  [[nodiscard]] virtual std::string place() const = 0;
  /// Where its keys and values lie: in slots, or in rows beside them.
  [[nodiscard]] virtual std::string keys_in() const = 0;
  [[nodiscard]] virtual std::string values_in() const = 0;
  [[nodiscard]] virtual std::uint64_t slots() const = 0;
  /// How often it grew, and whether keys still move.
  [[nodiscard]] virtual std::uint64_t growths() const = 0;
  [[nodiscard]] virtual bool is_growing() const = 0;
  /// What of all calls' time it copied requests and results.
  [[nodiscard]] virtual double copy_seconds() const { return 0; }
  /// What else its rows say of it.
  [[nodiscard]] virtual std::vector<std::pair<std::string, std::uint64_t>> figures() const {
    return {};
  }
  /// Another one, empty.
  [[nodiscard]] virtual Result<std::unique_ptr<Target>> make_other(const Room& room) const = 0;

  /// Runs requests, as Backend::run_values_here, or run_here where keys and values have 8 bytes
  /// each; these have `value` and `found` as well, so they are in the one form for both.
  /// Order   done on return.
  [[nodiscard]] virtual Status run(const hash::ValueRequestsRef& requests) = 0;
};

/// Whose table is measured.
enum class Whose { kBreccia, kSlabs, kShaped, kCpu };

/// Breccia's table.
Result<std::unique_ptr<Target>> make_table(hash::Backend& backend, const Shape& shape,
                                           std::uint64_t seed, const Room& room);
/// Breccia's table of chained slabs: keys and values of 8 bytes, as full on average as the shape
/// says.
Result<std::unique_ptr<Target>> make_slabs(hash::Backend& backend, const Shape& shape,
                                           std::uint64_t seed, const Room& room);
/// One of [gphash]'s shapes: keys and values of 8 bytes, lookups and insertions alone.
Result<std::unique_ptr<Target>> make_shaped(hash::Backend& backend, const Shape& shape,
                                            std::uint64_t seed, const Room& room);
/// Whether this build has the host's, which is a library's.
bool has_cpu_table();
/// The host's, which serves a device.
/// Errors  NotSupported: this build has none.
Result<std::unique_ptr<Target>> make_cpu_table(hash::Backend& backend, const Shape& shape,
                                               const Room& room);

}  // namespace breccia::bench::tables
