#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "exec/host_vector.h"
#include "record/columns.h"

namespace breccia::record {

/// Keys of a batch as columns, filled while the caller's bytes are in cache.
/// Threads one owner.
class KeyColumns {
 public:
  explicit KeyColumns(exec::HostMemory& memory) : head_(memory), meta_(memory), tail_(memory) {}

  /// False if memory is exhausted; the columns are then as before.
  [[nodiscard]] bool append(const char* key, std::uint64_t bytes) {
    const std::uint64_t words = tail_words(bytes);
    const bool uniform = head_.size() == 0 || uniform_bytes_ == bytes;
    if (!head_.reserve(head_.size() + 1) || !tail_.reserve(tail_.size() + words)) return false;
    if (uniform) {
      uniform_bytes_ = static_cast<std::uint32_t>(bytes);
    } else if (!append_meta(bytes)) {
      return false;
    }
    head_.push(bytes >= 8 ? base::load_big_endian_8(key) : base::load_big_endian(key, bytes));
    std::uint64_t* const tail = tail_.extend(words);
    for (std::uint64_t word = 0; word < words; ++word) {
      const std::uint64_t at = 8 * (word + 1);
      tail[word] = at + 8 <= bytes ? base::load_big_endian_8(key + at)
                                   : base::load_big_endian(key + at, bytes - at);
    }
    return true;
  }

  /// Appends `keys`, which are host memory. False if memory is exhausted; some of them may then be
  /// there.
  [[nodiscard]] bool append(const KeyColumnsRef& keys);

  /// Takes the last key back.
  void drop_last() {
    BRECCIA_ASSERT(count() > 0);
    const std::uint64_t bytes = ref().bytes_at(count() - 1);
    head_.pop();
    if (uniform_bytes_ == kVariableBytes) meta_.pop();
    for (std::uint64_t word = 0; word < tail_words(bytes); ++word) tail_.pop();
  }

  [[nodiscard]] KeyColumnsRef ref() const {
    return {head_.data(), meta_.data(), tail_.data(), head_.size(), tail_.size(), uniform_bytes_};
  }
  [[nodiscard]] std::uint64_t count() const { return head_.size(); }

  void clear() {
    head_.clear();
    meta_.clear();
    tail_.clear();
    uniform_bytes_ = 0;
  }

 private:
  /// Keeps the length of one more key; on the first that differs, of all before it too.
  [[nodiscard]] bool append_meta(std::uint64_t bytes) {
    const std::uint64_t count = head_.size();
    if (!meta_.reserve(count + 1)) return false;
    if (uniform_bytes_ != kVariableBytes) {
      const std::uint64_t words = tail_words(uniform_bytes_);
      meta_.clear();
      for (std::uint64_t i = 0; i < count; ++i) {
        meta_.push(i * words << kMetaLengthBits | uniform_bytes_);
      }
      uniform_bytes_ = kVariableBytes;
    }
    meta_.push(tail_.size() << kMetaLengthBits | bytes);
    return true;
  }

  exec::HostVector<std::uint64_t> head_, meta_, tail_;
  std::uint32_t uniform_bytes_ = 0;
};

/// Writes the bytes of key `i` of `keys` (bytes_at(i) of them) to `out`.
void restore_key(const KeyColumnsRef& keys, std::uint64_t i, char* out);

}  // namespace breccia::record
