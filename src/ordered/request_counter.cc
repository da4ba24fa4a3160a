#include "ordered/request_counter.h"

#include <mutex>

#include "base/log.h"
#include "base/memory.h"

namespace breccia::ordered {

void RequestCounter::count(const batch::Requests& requests) const {
  if (requests.write_count() + requests.read_count() + requests.range_count() == 0) return;
  std::uint64_t puts = 0;
  std::uint64_t deletes = 0;
  std::uint64_t merges = 0;
  std::uint64_t range_deletes = 0;
  for (const auto& writes : requests.writes()) {
    deletes += writes->deletes();
    merges += writes->merges();
    puts += writes->point_count() - writes->deletes() - writes->merges();
    range_deletes += writes->range_deletes().size();
  }
  const auto add = [this](Ticker ticker, std::uint64_t more) {
    if (more > 0) statistics_->add(ticker, more);
  };
  add(Ticker::kBatches, 1);
  add(Ticker::kPuts, puts);
  add(Ticker::kDeletes, deletes);
  add(Ticker::kMerges, merges);
  add(Ticker::kRangeDeletes, range_deletes);
  add(Ticker::kGets, requests.read_count());
  add(Ticker::kRanges, requests.range_count());
  if (!no_device_.empty()) base::as_memory_allows([&] { miss_device(requests); });
}

/// Says, once in a process, that there is no device for a batch that would run on one.
void RequestCounter::miss_device(const batch::Requests& requests) const {
  const bool is_missed = requests.write_count() >= device_min_.writes ||
                         requests.read_count() >= device_min_.reads ||
                         requests.range_count() >= device_min_.reads;
  static std::once_flag is_said;
  if (!is_missed) return;
  std::call_once(is_said, [&] {
    log(LogLevel::kInfo, "no GPU in use (" + no_device_ + "): the host backend runs");
  });
}

}  // namespace breccia::ordered
