#pragma once

#include <breccia/batch.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/histogram.h"
#include "base/random.h"
#include "bench/hash/zipf.h"
#include "bench/hot/asked.h"
#include "bench/hot/clients.h"

namespace breccia::bench::hot {

/// A client that sends batches: puts by columns, then lookups into arrays.
///
/// What it asks for is drawn before the clock begins, some batches that it sends in turn, so that
/// what a second has is the work of the store, of filling batches, and of looking at every value.
/// Threads one; each client its own.
class BatchClient {
 public:
  BatchClient(Asked* asked, const Data& data, const Load& load, std::uint32_t number,
              const std::atomic<bool>& is_over);

  /// Draws the batches.
  /// Errors  NotSupported: what is asked takes none; MemoryLimit.
  Status prepare();
  /// Sends them until it is over.
  /// Errors  Corruption: an answer that no write can have left; those of the store.
  Status run();
  [[nodiscard]] std::uint64_t requests() const { return requests_; }
  /// Nanoseconds of a batch, from filling it to its answers.
  [[nodiscard]] const base::Histogram& times() const { return times_; }

 private:
  struct Drawn {
    std::vector<std::uint64_t> puts, gets;
    std::vector<char> values;  // of puts
  };
  Status send(const Drawn& drawn);
  [[nodiscard]] Status check(const Drawn& drawn) const;

  Asked* const asked_;
  const Data& data_;
  const Load& load_;
  const std::atomic<bool>& is_over_;
  base::Random random_;
  const tables::ExactZipf zipf_;
  std::vector<Drawn> drawn_;
  std::vector<char> found_values_;
  std::vector<std::uint8_t> found_;
  Batch batch_;
  std::uint64_t requests_ = 0;
  base::Histogram times_;
};

/// Puts all keys, by so many threads, in batches.
/// Errors  as BatchClient::run.
Status put_all_in_batches(Asked* asked, const Data& data, std::uint64_t keys,
                          std::uint32_t threads);

}  // namespace breccia::bench::hot
