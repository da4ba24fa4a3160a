#pragma once

#include <breccia/columns.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"

namespace breccia::testing {

/// Strings in one of the forms that a column may have.
class RandomColumn {
 public:
  /// `strings` in a form at random that suits them: Arrow's, of 32 or 64 bits, slices, and, where
  /// they are of one length, rows at some distance, forwards or backwards.
  RandomColumn(const std::vector<std::string>& strings, base::Random* random) {
    bool same_length = true;
    for (const std::string& one : strings) {
      same_length = same_length && one.size() == strings.front().size();
    }
    if (same_length && !strings.empty() && random->one_in(2)) {
      lay_rows(strings, random);
    } else {
      lay_out(strings, random);
    }
  }
  RandomColumn(const RandomColumn&) = delete;
  RandomColumn& operator=(const RandomColumn&) = delete;

  [[nodiscard]] const BytesColumn& column() const { return column_; }
  /// Overwrites the arrays: whoever refers to them no more is not disturbed.
  void spoil() {
    bytes_.assign(bytes_.size(), '?');
    offsets32_.assign(offsets32_.size(), -1);
    offsets64_.assign(offsets64_.size(), -1);
    slices_.assign(slices_.size(), Slice());
  }

 private:
  void lay_rows(const std::vector<std::string>& strings, base::Random* random) {
    const std::size_t width = strings.front().size();
    const std::size_t stride = width + random->below(3) * random->below(9);
    const bool backwards = random->one_in(3);
    const std::size_t count = strings.size();
    bytes_.assign(stride * count + width, '.');
    for (std::size_t i = 0; i < count; ++i) {
      bytes_.replace((backwards ? count - 1 - i : i) * stride, width, strings[i]);
    }
    const auto step = static_cast<std::ptrdiff_t>(stride);
    column_ = BytesColumn::Fixed(bytes_.data() + (backwards ? (count - 1) * stride : 0), count,
                                 width, backwards ? -step : step);
  }

  void lay_out(const std::vector<std::string>& strings, base::Random* random) {
    bytes_.assign(random->below(20), '.');  // a slice does not begin at 0
    offsets64_.push_back(static_cast<std::int64_t>(bytes_.size()));
    for (const std::string& one : strings) {
      bytes_ += one;
      offsets64_.push_back(static_cast<std::int64_t>(bytes_.size()));
    }
    offsets32_.assign(offsets64_.begin(), offsets64_.end());
    if (random->one_in(3)) return lay_slices(strings.size());
    column_ = random->one_in(2)
                  ? BytesColumn::Variable(bytes_.data(), offsets32_.data(), strings.size())
                  : BytesColumn::Variable(bytes_.data(), offsets64_.data(), strings.size());
  }

  /// The strings that bytes_ has, from the last one to the first, and not side by side.
  void lay_slices(std::size_t count) {
    const std::string in_turn = bytes_;
    bytes_.clear();
    slices_.resize(count);
    std::vector<std::size_t> begins(count);
    for (std::size_t i = count; i-- > 0;) {
      const auto begin = static_cast<std::size_t>(offsets64_[i]);
      begins[i] = bytes_.size();
      bytes_.append(in_turn, begin, static_cast<std::size_t>(offsets64_[i + 1]) - begin);
      bytes_ += '.';
    }
    for (std::size_t i = 0; i < count; ++i) {
      const auto bytes = static_cast<std::size_t>(offsets64_[i + 1] - offsets64_[i]);
      slices_[i] = Slice(bytes_.data() + begins[i], bytes);
    }
    column_ = BytesColumn::Slices(slices_.data(), count);
  }

  std::string bytes_;
  std::vector<Slice> slices_;
  std::vector<std::int32_t> offsets32_;
  std::vector<std::int64_t> offsets64_;
  BytesColumn column_;
};

}  // namespace breccia::testing
