#include "record/key_columns.h"

#include <string>

namespace breccia::record {

void restore_key(const KeyColumnsRef& keys, std::uint64_t i, char* out) {
  const std::uint64_t bytes = keys.bytes_at(i);
  const std::uint64_t* const tail = keys.tail + keys.tail_at(i);
  for (std::uint64_t at = 0; at < bytes; at += 8) {
    const std::uint64_t word = __builtin_bswap64(at == 0 ? first_word(keys, i) : tail[at / 8 - 1]);
    std::memcpy(out + at, &word, std::min<std::uint64_t>(8, bytes - at));
  }
}

bool KeyColumns::append(const KeyColumnsRef& keys) {
  const bool same =
      keys.uniform() && keys.skip == 0 && (count() == 0 || uniform_bytes_ == keys.uniform_bytes);
  if (!head_.reserve(count() + keys.count) || !tail_.reserve(tail_.size() + keys.tail_count)) {
    return false;
  }
  if (!same) {
    std::string key;
    for (std::uint64_t i = 0; i < keys.count; ++i) {
      key.resize(keys.bytes_at(i));
      restore_key(keys, i, key.data());
      if (!append(key.data(), key.size())) return false;
    }
    return true;
  }
  if (keys.count == 0) return true;
  uniform_bytes_ = keys.uniform_bytes;
  std::memcpy(head_.extend(keys.count), keys.head, keys.count * sizeof *keys.head);
  if (keys.tail_count > 0) {
    std::memcpy(tail_.extend(keys.tail_count), keys.tail, keys.tail_count * sizeof *keys.tail);
  }
  return true;
}

}  // namespace breccia::record
