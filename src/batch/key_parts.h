#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "record/columns.h"

namespace breccia::batch {

/// Some keys of a batch in parts, each a range of keys that lies above that of the part before it:
/// what threads share that look keys up in ascending order. Keys that are the same are in one part.
///
/// Threads one owner; different parts may be sorted by several at once.
class KeyParts {
 public:
  /// Key `index` of the columns.
  struct Key {
    std::uint64_t head;
    std::uint32_t index;
  };

  /// Takes the keys of `keys` that `chosen` names, each once, into `parts` parts of about one size,
  /// some of them empty where many keys are the same.
  /// Shape   parts in [1, kPartsMax].
  /// Errors  std::bad_alloc.
  /// Owner   the columns must live as long as this.
  /// Cost    linear by the logarithm of `parts`; lists of `chosen` are shared among threads.
  KeyParts(const record::KeyColumnsRef& keys, std::span<const std::vector<std::uint32_t>> chosen,
           std::uint64_t parts);

  static constexpr std::uint64_t kPartsMax = 1 << 16;

  [[nodiscard]] std::uint64_t count() const { return ends_.size(); }
  /// The keys of part `i` in ascending order, those that are the same one behind the other.
  [[nodiscard]] std::span<const Key> sort(std::uint64_t i);
  [[nodiscard]] bool are_same(const Key& left, const Key& right) const {
    return left.head == right.head &&
           record::compare_tails(columns_, left.index, columns_, right.index) == 0;
  }

 private:
  [[nodiscard]] bool is_less(const Key& left, const Key& right) const {
    if (left.head != right.head) return left.head < right.head;
    return record::compare_tails(columns_, left.index, columns_, right.index) < 0;
  }
  [[nodiscard]] Key key_at(std::uint32_t index) const { return {columns_.head[index], index}; }
  [[nodiscard]] std::span<Key> keys_of(std::uint64_t i) const {
    const std::uint64_t begin = i == 0 ? 0 : ends_[i - 1];
    return {keys_.get() + begin, ends_[i] - begin};
  }
  [[nodiscard]] std::vector<Key> choose_bounds(std::span<const std::vector<std::uint32_t>> chosen,
                                               std::uint64_t parts) const;
  static int sort_by_digits(std::span<Key> keys, std::span<Key> room);
  void divide(std::span<const std::vector<std::uint32_t>> chosen, const std::vector<Key>& bounds);

  const record::KeyColumnsRef columns_;
  std::unique_ptr<Key[]> keys_;
  std::unique_ptr<Key[]> room_;      // for as many, while parts are sorted
  std::vector<std::uint64_t> ends_;  // of each part in keys_
};

}  // namespace breccia::batch
