#include "ordered/background/taken_runs.h"

#include <algorithm>

#include "base/assert.h"

namespace breccia::ordered {

namespace {

/// A merge may begin before a flush that waits for one of so many times its bytes.
constexpr std::uint64_t kLittle = 8;

}  // namespace

// Else runs pile up until writers have to wait for the flush, behind a merge of all there is.
bool TakenRuns::ends_soon(const FamilyView& family, RunRange range) const {
  BRECCIA_ASSERT(range.count > 0 && range.first + range.count <= family.runs.size());
  const std::uint64_t begin = family.runs[range.first + range.count - 1]->begin;
  const std::uint64_t bytes = family.runs[range.first]->end - begin;
  return std::any_of(ranges_.begin(), ranges_.end(), [&](const TakenRange& other) {
    return (other.end - other.begin) / kLittle >= bytes;
  });
}

Taken TakenRuns::take_range(const FamilyView& family, RunRange range) {
  BRECCIA_ASSERT(range.first + range.count <= family.runs.size());
  const auto first = family.runs.begin() + static_cast<std::ptrdiff_t>(range.first);
  Taken taken{family.id, {first, first + static_cast<std::ptrdiff_t>(range.count)}};
  ranges_.push_back({family.id, taken.runs.back()->begin, taken.runs.front()->end});
  return taken;
}

void TakenRuns::give_back(const Taken& taken) {
  {
    const std::lock_guard lock(mutex_);
    const auto given = std::erase_if(ranges_, [&](const TakenRange& range) {
      return range.family == taken.family && range.begin == taken.runs.back()->begin;
    });
    BRECCIA_ASSERT(given == 1);
  }
  given_back_.notify_all();
}

void TakenRuns::begin_flush() {
  std::unique_lock lock(mutex_);
  BRECCIA_ASSERT(!flush_waits_);
  flush_waits_ = true;
  given_back_.wait(lock, [this] { return ranges_.empty(); });
}

void TakenRuns::take_all(const View& view) {
  const std::lock_guard lock(mutex_);
  BRECCIA_ASSERT(flush_waits_ && ranges_.empty());
  ranges_.reserve(view.families.size());  // from here on nothing wants memory
  for (const FamilyViewPtr& family : view.families) {
    if (family->runs.empty()) continue;
    ranges_.push_back({family->id, family->runs.back()->begin, family->runs.front()->end});
  }
  flush_waits_ = false;
}

void TakenRuns::give_up_flush() {
  const std::lock_guard lock(mutex_);
  BRECCIA_ASSERT(flush_waits_);
  flush_waits_ = false;
}

void TakenRuns::give_back_below(std::uint64_t position) {
  const std::lock_guard lock(mutex_);
  std::erase_if(ranges_, [&](const TakenRange& range) { return range.end <= position; });
}

}  // namespace breccia::ordered
