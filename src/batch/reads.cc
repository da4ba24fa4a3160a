#include "batch/reads.h"

#include <algorithm>

#include "batch/answers.h"

namespace breccia::batch {

namespace {

/// True if a search may read these keys as they are.
bool are_rows(const BytesColumn& keys) {
  if (!keys.fixed() || (keys.width() != 8 && keys.width() != 16)) return false;
  const bool in_a_row = keys.stride() == static_cast<std::ptrdiff_t>(keys.width());
  return in_a_row && reinterpret_cast<std::uintptr_t>(keys.data()) % keys.width() == 0;
}

}  // namespace

bool Reads::add(const KeyArray& keys, std::uint64_t after, const ValueArray& into, bool in_place) {
  const std::uint64_t n = keys.count();
  const std::uint64_t before = count();
  BRECCIA_ASSERT(n > 0);
  if (!make_room_for_after(n, after) ||
      !keys_.reserve(n, keys.tail_words.total(), keys.uniform_bytes())) {
    return false;
  }
  if (into.found != nullptr) {
    arrays_.push_back({before, before + n, into});
    array_reads_ += n;
  }
  if (in_place && before == 0 && are_rows(keys.keys.strings)) {
    rows_ = keys.keys.strings;
    (void)keys_.extend(n, keys.tail_words.total(), keys.uniform_bytes());
  } else {
    append_keys(keys, &keys_);
  }
  if (after == 0) {
    BRECCIA_ASSERT(after_.size() == 0);
    after_none_ += n;
  } else {
    BRECCIA_ASSERT(after_.size() == 0 || after_[after_.size() - 1] <= after);
    std::fill_n(after_.extend(n), n, after);
  }
  BRECCIA_ASSERT(after_none_ + after_.size() == count() && array_reads_ <= count());
  return true;
}

void Reads::settle() const {
  write_keys(0, rows_.count());
  rows_ = BytesColumn();
}

void Reads::write_keys(std::uint64_t begin, std::uint64_t end) const {
  end = std::min<std::uint64_t>(end, rows_.count());
  if (begin >= end) return;
  const std::uint64_t words = record::tail_words(rows_.width());
  const auto keys = BytesColumn::Fixed(rows_.at(begin).data(), end - begin, rows_.width());
  batch::write_keys(
      {{keys, static_cast<std::uint32_t>(rows_.width())}, ChunkSums(end - begin, words)},
      keys_.slots_from(begin, begin * words));
}

bool Reads::append(const Reads& other, const Flags* chosen, BytesBefore* before) {
  BRECCIA_ASSERT(other.family_ == family_ && &other != this);
  if (!after_.reserve(after_.size() + other.count()) ||
      !append_keys(other.keys(), chosen, &keys_)) {
    return false;
  }
  for (std::uint64_t i = 0; i < other.count(); ++i) {
    if (chosen == nullptr || (*chosen)[i] != 0) add_after(before->of(other.after(i)));
  }
  BRECCIA_ASSERT(after_none_ + after_.size() == count());
  return true;
}

void Reads::hand_over(Reads* to, const Flags* chosen) {
  BRECCIA_ASSERT(results_.size() == count() && to->result_count_ == to->count());
  if (to->arrays_.empty()) return hand_over_results(results_, &handed_over_, chosen, &to->results_);
  Answers answers(to, /*arena=*/nullptr);
  for (std::uint64_t i = 0; i < to->count(); ++i) {
    if (chosen != nullptr && (*chosen)[i] == 0) continue;
    BRECCIA_ASSERT(handed_over_ < results_.size());
    answers.add_result(i, results_[handed_over_++]);
  }
}

void Reads::clear() {
  keys_.clear();
  rows_ = BytesColumn();
  after_none_ = 0;
  after_.clear();
  results_.clear();
  arrays_.clear();
  array_reads_ = 0;
  codes_.clear();
  result_count_ = 0;
}

std::uint64_t* Reads::make_numbers() {
  BRECCIA_ASSERT(result_count_ == count());
  if (!numbers_.reserve(count())) return nullptr;
  numbers_.clear();
  return numbers_.extend(count());
}

bool Reads::prepare(bool with_bounds) {
  const std::uint64_t n = count();
  // Where no result goes to the batch, nobody has to write and read 16 bytes for it.
  const std::uint64_t own = array_reads_ == n ? 0 : n;
  const std::uint64_t codes = arrays_.empty() ? 0 : n;
  if (!results_.reserve(own) || !codes_.reserve(codes)) return false;
  if (with_bounds && !bounds_.reserve(n)) return false;
  results_.clear();
  (void)results_.extend(own);
  codes_.clear();
  (void)codes_.extend(codes);
  result_count_ = n;
  BRECCIA_ASSERT(after_none_ + after_.size() == n);
  handed_over_ = 0;
  return true;
}

Stretch Reads::stretch_at(std::uint64_t i) const {
  BRECCIA_ASSERT(i < count());
  const auto next =
      std::upper_bound(arrays_.begin(), arrays_.end(), i,
                       [](std::uint64_t read, const Stretch& array) { return read < array.begin; });
  Stretch between;
  between.end = next == arrays_.end() ? count() : next->begin;
  if (next != arrays_.begin()) {
    const Stretch& last = *(next - 1);
    if (i < last.end) return last;
    between.begin = last.end;
  }
  return between;
}

ReadResult Reads::result_beside_arrays(std::uint64_t i) const {
  BRECCIA_ASSERT(!arrays_.empty() && i < result_count_);
  const Stretch stretch = stretch_at(i);
  if (stretch.into.found == nullptr) return results_[i];
  const auto code = static_cast<Status::Code>(codes_[i]);
  if (code != Status::Code::kOk) return {nullptr, 0, code};
  return {stretch.place(i), static_cast<std::uint32_t>(stretch.into.width), code};
}

}  // namespace breccia::batch
