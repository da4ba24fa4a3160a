#pragma once

#include <breccia/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/bytes.h"
#include "record/columns.h"

namespace breccia::record {

/// One key as columns, without touching the heap for keys up to 256 bytes.
/// Threads any may read.
class OneKey {
 public:
  explicit OneKey(const Slice& key) {
    const std::uint64_t words = tail_words(key.size());
    std::uint64_t* tail = inline_tail_;
    if (words > kInlineWords) {
      heap_tail_ = std::make_unique_for_overwrite<std::uint64_t[]>(words);
      tail = heap_tail_.get();
    }
    head_ = word_at(key, 0);
    for (std::uint64_t word = 0; word < words; ++word) tail[word] = word_at(key, 8 * (word + 1));
    ref_ = {&head_, nullptr, tail, 1, words, static_cast<std::uint32_t>(key.size())};
  }
  OneKey(const OneKey&) = delete;
  OneKey& operator=(const OneKey&) = delete;
  [[nodiscard]] const KeyColumnsRef& ref() const { return ref_; }

 private:
  static constexpr std::uint64_t kInlineWords = 31;

  static std::uint64_t word_at(const Slice& key, std::size_t at) {
    return at + 8 <= key.size() ? base::load_big_endian_8(key.data() + at)
                                : base::load_big_endian(key.data() + at, key.size() - at);
  }

  std::uint64_t head_;
  std::uint64_t inline_tail_[kInlineWords];
  std::unique_ptr<std::uint64_t[]> heap_tail_;
  KeyColumnsRef ref_;
};

}  // namespace breccia::record
