#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "record/key_columns.h"
#include "record/record.h"

namespace breccia::record {

/// Compares keys of columns with those of records.
/// Threads one owner.
class KeyCheck {
 public:
  explicit KeyCheck(const KeyColumnsRef& keys) : keys_(keys) {}

  /// The record, if it is one of key `i`, else null.
  [[nodiscard]] const std::byte* of(std::uint64_t i, const std::byte* record) {
    return record != nullptr && is_of(i, record) ? record : nullptr;
  }
  [[nodiscard]] bool is_of(std::uint64_t i, const std::byte* record) {
    const std::uint64_t bytes = keys_.bytes_at(i);
    if (record_header(record).key_bytes() != bytes) return false;
    const char* const key = record_key(record);
    if (bytes == sizeof(std::uint64_t)) {
      return base::load_big_endian_8(key) == first_word(keys_, i);
    }
    key_.resize(bytes);
    restore_key(keys_, i, key_.data());
    return std::equal(key_.begin(), key_.end(), key);
  }

 private:
  const KeyColumnsRef keys_;
  std::string key_;
};

}  // namespace breccia::record
