#pragma once

#include <breccia/status.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/disagg/data.h"
#include "bench/disagg/progress.h"
#include "bench/disagg/worker.h"

namespace breccia::bench::disagg {

using Workers = std::vector<std::unique_ptr<Worker>>;

/// What clients do with all keys of a round, many at once.
/// Owner   all that it is given outlives it.
/// Threads one owner; it has a thread for each client.
class AllKeys {
 public:
  static constexpr std::uint32_t kAtOnce = 256;

  AllKeys(const Data& data, const Workers& workers, bool shows_progress)
      : data_(data), workers_(workers), shows_progress_(shows_progress) {}

  /// Each client puts its share of them, as they are at first.
  Status put() const;
  /// Each client looks up all of them where it remembers places.
  Status remember() const;
  /// Each key has a value of its own; clients have shares of them.
  Status look_up() const;
  /// Each key is in a range once.
  Status range_over() const;

 private:
  using OneBatch = std::function<Status(Worker*, const std::vector<std::string>& keys)>;

  Status in_batches(const char* what, bool is_shared, const OneBatch& one_batch) const;
  Status look_up(Worker* worker, Way* way, const std::vector<std::string>& keys) const;
  Status range_over(Worker* worker, std::uint64_t* seen, Progress* progress) const;
  [[nodiscard]] std::string end_of_part(std::uint64_t part) const;

  const Data& data_;
  const Workers& workers_;
  const bool shows_progress_;
};

}  // namespace breccia::bench::disagg
