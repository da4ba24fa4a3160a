#include "batch/ranges.h"

#include <algorithm>

namespace breccia::batch {

bool Ranges::add(const Slice& begin, const Slice& end, std::uint32_t limit, std::uint64_t after) {
  const std::uint64_t n = count() + 1;
  if (!limits_.reserve(n) || !after_.reserve(n) || !begin_.append(begin.data(), begin.size())) {
    return false;
  }
  if (!end_.append(end.data(), end.size())) {
    begin_.drop_last();
    return false;
  }
  limits_.push(limit);
  probes_ += 1 + limit / kEntriesPerProbe;
  after_.push(after);
  BRECCIA_ASSERT(begin_.count() == count() && end_.count() == count());
  return true;
}

bool Ranges::add(const KeyArray& begins, const KeyArray& ends,
                 std::span<const std::uint32_t> limits, std::uint64_t after) {
  const std::uint64_t n = begins.count();
  BRECCIA_ASSERT(ends.count() == n && (limits.size() == n || limits.size() == 1));
  if (!limits_.reserve(count() + n) || !after_.reserve(count() + n) ||
      !begin_.reserve(n, begins.tail_words.total(), begins.uniform_bytes()) ||
      !end_.reserve(n, ends.tail_words.total(), ends.uniform_bytes())) {
    return false;
  }
  append_keys(begins, &begin_);
  append_keys(ends, &end_);
  for (std::uint64_t i = 0; i < n; ++i) {
    const std::uint32_t limit = limits[limits.size() == 1 ? 0 : i];
    limits_.push(limit);
    probes_ += 1 + limit / kEntriesPerProbe;
  }
  std::fill_n(after_.extend(n), n, after);
  BRECCIA_ASSERT(begin_.count() == count() && end_.count() == count());
  return true;
}

bool Ranges::append(const Ranges& other, const Flags* chosen, BytesBefore* before) {
  BRECCIA_ASSERT(other.family_ == family_ && &other != this);
  const std::uint64_t n = count() + other.count();
  if (!limits_.reserve(n) || !after_.reserve(n) || !append_keys(other.begin(), chosen, &begin_) ||
      !append_keys(other.end(), chosen, &end_)) {
    return false;
  }
  for (std::uint64_t i = 0; i < other.count(); ++i) {
    if (chosen != nullptr && (*chosen)[i] == 0) continue;
    limits_.push(other.limits_[i]);
    probes_ += 1 + other.limits_[i] / kEntriesPerProbe;
    after_.push(before->of(other.after_[i]));
  }
  BRECCIA_ASSERT(begin_.count() == count() && end_.count() == count());
  return true;
}

void Ranges::hand_over(Ranges* to, const Flags* chosen) {
  BRECCIA_ASSERT(results_.size() == count() && to->results_.size() == to->count());
  hand_over_results(results_, &handed_over_, chosen, &to->results_);
}

void Ranges::clear() {
  begin_.clear();
  end_.clear();
  limits_.clear();
  probes_ = 0;
  after_.clear();
  results_.clear();
  pairs_.clear();
}

std::uint64_t* Ranges::make_pairs(std::uint64_t count) {
  BRECCIA_ASSERT(results_.size() == this->count());
  exec::HostVector<std::uint64_t>& pairs = pairs_.emplace_back(memory_);
  return pairs.reserve(2 * count) ? pairs.extend(2 * count) : nullptr;
}

bool Ranges::prepare(bool with_bounds) {
  pairs_.clear();
  if (!results_.reserve(count()) || (with_bounds && !bounds_.reserve(count()))) return false;
  results_.clear();
  (void)results_.extend(count());
  BRECCIA_ASSERT(begin_.count() == count() && end_.count() == count());
  handed_over_ = 0;
  return true;
}

}  // namespace breccia::batch
