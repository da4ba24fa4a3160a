#include "batch/reads.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/sometimes.h"
#include "batch/answers.h"

namespace breccia::batch {

bool Reads::add(const KeyArray& keys, std::uint64_t after, const ValueArray& into, bool in_place) {
  const std::uint64_t n = keys.count();
  const std::uint64_t before = count();
  BRECCIA_ASSERT(n > 0);
  // Others may add to columns, and results that go to the batch need what a search found to stay.
  in_place = in_place && before == 0 && into.found != nullptr && keys.keys.strings.fixed() &&
             (keys_.memory().is_beside_device() || BRECCIA_SOMETIMES(20));
  if (!lay_out_keys() || !make_room_for_after(n, after) ||
      (!in_place && !keys_.reserve(n, keys.tail_words.total(), keys.uniform_bytes()))) {
    return false;
  }
  if (into.found != nullptr) {
    arrays_.push_back({before, before + n, into});
    array_reads_ += n;
  }
  if (in_place) {
    in_array_ = keys;
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

bool Reads::append(const Reads& other, const Flags* chosen, BytesBefore* before) {
  BRECCIA_ASSERT(other.family_ == family_ && &other != this && !keys_in_array());
  if (!after_.reserve(after_.size() + other.count())) return false;
  if (!other.keys_in_array()) {
    if (!append_keys(other.keys(), chosen, &keys_)) return false;
  } else if (chosen == nullptr) {
    if (!other.copy_keys(0, other.count(), &keys_)) return false;
  } else {
    record::KeyColumns all(keys_.memory());
    if (!other.copy_keys(0, other.count(), &all) || !append_keys(all.ref(), chosen, &keys_)) {
      return false;
    }
  }
  for (std::uint64_t i = 0; i < other.count(); ++i) {
    if (chosen == nullptr || (*chosen)[i] != 0) add_after(before->of(other.after(i)));
  }
  BRECCIA_ASSERT(after_none_ + after_.size() == count());
  return true;
}

bool Reads::copy_keys(std::uint64_t begin, std::uint64_t more, record::KeyColumns* out) const {
  BRECCIA_ASSERT(keys_in_array() && more > 0 && begin + more <= count());
  const BytesColumn& all = in_array_->keys.strings;
  const std::uint32_t bytes = in_array_->uniform_bytes();
  const auto distance = all.count() > 1 ? all.at(1).data() - all.at(0).data() : 0;
  const KeyArray some{{BytesColumn::Fixed(all.at(begin).data(), more, bytes, distance), bytes},
                      ChunkSums(more, record::tail_words(bytes))};
  // Slices differ by a key, and get the same room.
  const std::uint64_t room = base::round_up(more, kChunkRequests);
  if (!out->reserve(room, room * record::tail_words(bytes), bytes)) return false;
  append_keys(some, out);
  BRECCIA_ASSERT(out->count() >= more);
  return true;
}

bool Reads::copy_all_keys() {
  BRECCIA_ASSERT(keys_.count() == 0);
  if (!copy_keys(0, count(), &keys_)) return false;
  in_array_.reset();
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
  in_array_.reset();
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
