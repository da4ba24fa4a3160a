#pragma once

#include <algorithm>
#include <cstdint>

#include "base/bytes.h"
#include "base/sometimes.h"
#include "exec/host_vector.h"
#include "record/columns.h"

namespace breccia::record {

/// Cuts a key into its words: the first to *head, the others to tail[tail_words(bytes)].
inline void cut_key(const char* key, std::uint64_t bytes, std::uint64_t* head,
                    std::uint64_t* tail) {
  if (bytes < 8) {
    *head = base::load_big_endian(key, bytes);
    return;
  }
  *head = base::load_big_endian_8(key);
  const std::uint64_t words = tail_words(bytes);
  if (words == 0) return;
  for (std::uint64_t word = 1; word < words; ++word) {
    *tail++ = base::load_big_endian_8(key + 8 * word);
  }
  // The key's last 8 bytes, without those that other words have.
  *tail = base::load_big_endian_8(key + bytes - 8) << 8 * (8 * (words + 1) - bytes);
}

/// Keys that come at once, from which on it is a device that reads them next: together with those
/// of other batches they leave the caches before.
inline constexpr std::uint64_t kStreamedKeysMin = 128 << 10;

/// Where keys come to stand that were added to columns as a whole.
/// Threads any, of different keys.
struct KeySlots {
  std::uint64_t* head;
  std::uint64_t* meta;  // null: the keys are all of one length
  std::uint64_t* tail;
  std::uint64_t tail_begin;  // what lies in the columns before `tail`
  bool is_streamed;          // what is written leaves the caches before it is read
};

/// Room behind keys for more of them, which change nothing of what all are like.
/// Threads one owner.
struct KeyRow {
  std::uint64_t* head = nullptr;
  std::uint64_t* meta = nullptr;  // null: keys of `bytes` bytes
  std::uint64_t* tail = nullptr;
  const std::uint64_t* first_tail = nullptr;  // of the columns
  const std::uint64_t* tail_end = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t left = 0;  // keys that there is room for

  [[nodiscard]] bool takes(std::uint64_t key_bytes) const {
    if (left == 0) return false;
    if (meta == nullptr) return key_bytes == bytes;
    return tail_words(key_bytes) <= static_cast<std::uint64_t>(tail_end - tail);
  }
  /// Shape   takes(key_bytes); key[key_bytes].
  void write(const char* key, std::uint64_t key_bytes) {
    BRECCIA_INVARIANT(takes(key_bytes));
    if (meta != nullptr) {
      *meta++ = static_cast<std::uint64_t>(tail - first_tail) << kMetaLengthBits | key_bytes;
    }
    cut_key(key, key_bytes, head++, tail);
    tail += tail_words(key_bytes);
    --left;
  }
};

/// Keys of a batch as columns, filled while the caller's bytes are in cache.
/// Threads one owner.
class KeyColumns {
 public:
  explicit KeyColumns(exec::HostMemory& memory) : head_(memory), meta_(memory), tail_(memory) {}

  /// True if one more key of `bytes` bytes can be pushed: it changes nothing of what all keys are
  /// like, and there is room.
  [[nodiscard]] bool takes(std::uint64_t bytes) const {
    const bool is_alike =
        bytes == uniform_bytes_ || (uniform_bytes_ == kVariableBytes && meta_.has_room(1));
    return is_alike && head_.has_room(1) && tail_.has_room(tail_words(bytes));
  }
  /// Shape   takes(bytes).
  void push(const char* key, std::uint64_t bytes) {
    BRECCIA_INVARIANT(takes(bytes));
    if (bytes != uniform_bytes_) *meta_.take(1) = tail_.size() << kMetaLengthBits | bytes;
    std::uint64_t* const tail = tail_.take(tail_words(bytes));
    cut_key(key, bytes, head_.take(1), tail);
  }
  /// False if memory is exhausted; the columns are then as before.
  [[nodiscard]] bool append(const char* key, std::uint64_t bytes) {
    if (takes(bytes)) {  // as almost always
      push(key, bytes);
      return true;
    }
    const auto length = static_cast<std::uint32_t>(bytes);
    if (!reserve(1, tail_words(bytes), length)) return false;
    note_length(length);
    push(key, bytes);
    return true;
  }

  /// Makes room for `more` keys with `words` words of tails. `bytes`: the length of each of them;
  /// kVariableBytes if they differ. False if memory is exhausted; the columns are then as before.
  [[nodiscard]] bool reserve(std::uint64_t more, std::uint64_t words, std::uint32_t bytes) {
    return head_.reserve(count() + more) && tail_.reserve(tail_.size() + words) &&
           (stays_uniform(bytes) || meta_.reserve(count() + more));
  }
  /// Adds such keys, which must then be written.
  /// Shape   reserve() made room for them.
  [[nodiscard]] KeySlots extend(std::uint64_t more, std::uint64_t words, std::uint32_t bytes) {
    note_length(bytes);
    const std::uint64_t tail_begin = tail_.size();
    const bool is_streamed =
        BRECCIA_SOMETIMES(10) || (more >= kStreamedKeysMin && head_.memory().is_beside_device());
    const bool is_uniform = uniform_bytes_ != kVariableBytes;
    return {head_.extend(more), is_uniform ? nullptr : meta_.extend(more), tail_.extend(words),
            tail_begin, is_streamed};
  }

  /// Where keys from `i` on lie, with `words` words of tails before them, which extend() made room
  /// for and nobody has written yet. Their lengths are known.
  [[nodiscard]] KeySlots slots_from(std::uint64_t i, std::uint64_t words) {
    BRECCIA_ASSERT(i < count() && words <= tail_.size());
    return {head_.data() + i, nullptr, tail_.data() + words, words, false};
  }

  /// Room for `more` keys at most like those that are there. Nothing else may be done with the
  /// columns until count_written() has it back with what was written there.
  /// Shape   count() > 0.
  [[nodiscard]] KeyRow row(std::uint64_t more) {
    BRECCIA_ASSERT(count() > 0);
    const bool is_uniform = uniform_bytes_ != kVariableBytes;
    const std::uint64_t words = tail_.capacity() - tail_.size();
    more = std::min(more, head_.capacity() - head_.size());
    if (!is_uniform) more = std::min(more, meta_.capacity() - meta_.size());
    if (is_uniform && tail_words(uniform_bytes_) > 0) {
      more = std::min(more, words / tail_words(uniform_bytes_));
    }
    return {.head = head_.data() + head_.size(),
            .meta = is_uniform ? nullptr : meta_.data() + meta_.size(),
            .tail = tail_.data() + tail_.size(),
            .first_tail = tail_.data(),
            .tail_end = tail_.data() + tail_.capacity(),
            .bytes = uniform_bytes_,
            .left = more};
  }
  void count_written(const KeyRow& row) {
    const auto keys = static_cast<std::uint64_t>(row.head - (head_.data() + head_.size()));
    (void)head_.extend(keys);
    if (row.meta != nullptr) (void)meta_.extend(keys);
    (void)tail_.extend(static_cast<std::uint64_t>(row.tail - (tail_.data() + tail_.size())));
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
  [[nodiscard]] exec::HostMemory& memory() const { return head_.memory(); }

  void clear() {
    head_.clear();
    meta_.clear();
    tail_.clear();
    uniform_bytes_ = 0;
  }

 private:
  /// True if keys of `bytes` bytes need no lengths, nor do those that are there.
  [[nodiscard]] bool stays_uniform(std::uint32_t bytes) const {
    return bytes != kVariableBytes && (count() == 0 || uniform_bytes_ == bytes);
  }
  /// More keys come, of that length, or of several.
  void note_length(std::uint32_t bytes) {
    if (stays_uniform(bytes)) {
      uniform_bytes_ = bytes;
    } else if (uniform_bytes_ != kVariableBytes) {
      turn_variable();
    }
  }
  /// Writes down the length that all keys so far have.
  void turn_variable() {
    const std::uint64_t words = tail_words(uniform_bytes_);
    meta_.clear();
    for (std::uint64_t i = 0; i < count(); ++i) {
      meta_.push(i * words << kMetaLengthBits | uniform_bytes_);
    }
    uniform_bytes_ = kVariableBytes;
  }

  exec::HostVector<std::uint64_t> head_, meta_, tail_;
  std::uint32_t uniform_bytes_ = 0;
};

/// Writes the bytes of key `i` of `keys` (bytes_at(i) of them) to `out`.
void restore_key(const KeyColumnsRef& keys, std::uint64_t i, char* out);

}  // namespace breccia::record
