#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "base/parallel.h"
#include "slab/backend.h"
#include "slab/engine/holder.h"

namespace breccia::slab {

/// work(begin, end) for parts of [0, n), by many cores if there are many.
template <class Work>
void in_parts(std::uint64_t n, const Work& work) {
  constexpr std::uint64_t kPerTask = 4096;
  if (n < 2 * kPerTask) return work(0, n);
  base::parallel_for(tbb::blocked_range<std::uint64_t>(0, n, kPerTask),
                     [&](const auto& range) { work(range.begin(), range.end()); });
}

/// The same of work that wants no memory and must be done once.
template <class Work>
void each_once(std::uint64_t n, const Work& work) {
  constexpr std::uint64_t kPerPart = 1024;
  base::shared_once((n + kPerPart - 1) / kPerPart, [&](std::uint64_t part) {
    work(part * kPerPart, std::min(n, (part + 1) * kPerPart));
  });
}

/// Between a moment's Begin() and End(); it does not happen unless somebody says so.
/// Threads one owner.
class AtMoment {
 public:
  explicit AtMoment(Moment* moment) : moment_(moment) {
    if (moment_ != nullptr) moment_->Begin();
  }
  ~AtMoment() { end(/*happens=*/false); }
  AtMoment(const AtMoment&) = delete;
  AtMoment& operator=(const AtMoment&) = delete;

  void it_happens() { end(/*happens=*/true); }

 private:
  void end(bool happens) {
    if (moment_ != nullptr) std::exchange(moment_, nullptr)->End(happens);
  }

  Moment* moment_;
};

/// What a table says of itself.
inline Holder::Figures figures_of(const Table::Figures& table) {
  return {{"breccia.slab.buckets", std::to_string(table.buckets)},
          {"breccia.slab.chained", std::to_string(table.chained - table.chained_free)},
          {"breccia.slab.index_bytes", std::to_string(table.bytes)},
          {"breccia.slab.index_host_bytes", std::to_string(table.host_bytes)},
          {"breccia.slab.index_risen", std::to_string(table.risen)}};
}

}  // namespace breccia::slab
