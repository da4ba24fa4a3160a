#include "batch/reads.h"

namespace breccia::batch {

bool Reads::append(const Reads& other, const Flags* chosen, BytesBefore* before) {
  BRECCIA_ASSERT(other.family_ == family_ && &other != this);
  if (!after_.reserve(after_.size() + other.count()) ||
      !append_keys(other.keys(), chosen, &keys_)) {
    return false;
  }
  for (std::uint64_t i = 0; i < other.count(); ++i) {
    if (chosen == nullptr || (*chosen)[i] != 0) after_.push(before->of(other.after_[i]));
  }
  BRECCIA_ASSERT(keys_.count() == after_.size());
  return true;
}

void Reads::hand_over(Reads* to, const Flags* chosen) {
  BRECCIA_ASSERT(results_.size() == count() && to->results_.size() == to->count());
  hand_over_results(results_, &handed_over_, chosen, &to->results_);
}

void Reads::clear() {
  keys_.clear();
  after_.clear();
  results_.clear();
}

std::uint64_t* Reads::make_numbers() {
  BRECCIA_ASSERT(results_.size() == count());
  if (!numbers_.reserve(count())) return nullptr;
  numbers_.clear();
  return numbers_.extend(count());
}

bool Reads::prepare(bool with_bounds) {
  const std::uint64_t n = count();
  if (!found_.reserve(n) || !results_.reserve(n)) return false;
  if (with_bounds && !bounds_.reserve(n)) return false;
  found_.clear();
  found_.extend(n);
  results_.clear();
  (void)results_.extend(n);
  BRECCIA_ASSERT(after_.size() == n && found_.size() == n);
  handed_over_ = 0;
  return true;
}

}  // namespace breccia::batch
