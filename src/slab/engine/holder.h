#pragma once

#include <breccia/moment.h>
#include <breccia/slab_options.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "batch/requests.h"
#include "exec/device.h"

namespace breccia::slab {

/// What lookups found, as far as it tells whether that is still so: of each, whether there was
/// anything, and a word, which another value would not have had.
struct Found {
  std::vector<std::uint8_t> is_there;
  std::vector<std::uint64_t> word;  // 0, where nothing was

  bool operator==(const Found&) const = default;
};

/// What lookups found that a transaction depends on.
struct Seen {
  const batch::Requests* reads;
  Found found;
};

/// All that a store has, and how batches act on it: each at one moment, as if its requests came one
/// behind the other. Requests have passed check().
/// Shape   what batches look up and write are keys of the default family.
/// Threads any.
class Holder {
 public:
  using Figures = std::vector<std::pair<const char*, std::string>>;

  Holder() = default;
  virtual ~Holder() = default;
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  /// From here on nothing is written, and check_open() says so.
  void close() { is_closed_ = true; }
  /// Errors  ShutdownInProgress.
  [[nodiscard]] Status check_open() const {
    if (!is_closed_.load(std::memory_order_relaxed)) return Status::OK();
    return Status::ShutdownInProgress("the store is closed", "open it again");
  }

  /// Whether it may have what these requests write and look up.
  /// Errors  InvalidArgument: it may not.
  [[nodiscard]] virtual Status check(const batch::Requests& requests) const = 0;
  /// Writes the results of lookups, if what was seen before is still so at that moment.
  /// Requests::deliver() is to follow. `found`: null, if nobody asks.
  /// Errors  Busy: it is not; MemoryLimit; IOError: what it had is lost.
  [[nodiscard]] virtual Status look(std::span<const Seen> seen, batch::Requests* requests,
                                    Found* found) = 0;
  /// The same of requests that write something. `moment`: told of it; null: nobody.
  /// Errors  likewise; with Busy and MemoryLimit nothing was done.
  [[nodiscard]] virtual Status write(std::span<const Seen> seen, batch::Requests* requests,
                                     Moment* moment) = 0;
  /// Batches that have written something.
  [[nodiscard]] virtual std::uint64_t sequence() const = 0;
  [[nodiscard]] virtual Figures figures() const = 0;

 private:
  std::atomic<bool> is_closed_{false};
};

}  // namespace breccia::slab
