#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/bytes.h"

/// A request as bytes, as it stands in the log (docs/format/wal.md):
///
///   record = RecordHeader key gap value padding to 8

namespace breccia::record {

enum class Op : std::uint8_t {
  kPut = 0,
  kDelete = 1,
  kMerge = 2,         // the value is an operand
  kSingleDelete = 3,  // reads as kDelete
  kDeleteRange = 4,   // keys from the key to below the value
  kFamily = 5,        // no key; the value, 4 bytes, is the column family of what follows
};
inline constexpr int kOpCount = 6;

/// True for operations on one key, which stand in memtables and runs.
constexpr bool is_point(Op op) { return op <= Op::kSingleDelete; }
constexpr bool is_deletion(Op op) { return op == Op::kDelete || op == Op::kSingleDelete; }

/// Records are 8-byte aligned, so the low bits of a position are free: an entry's payload in a run
/// is position | operation.
inline constexpr std::uint64_t kOpMask = 7;
constexpr std::uint64_t position_of(std::uint64_t payload) { return payload & ~kOpMask; }
constexpr Op op_of(std::uint64_t payload) { return static_cast<Op>(payload & kOpMask); }

/// Words of 8 bytes, all zero, that a put may have between key and value: so that the value lies
/// where it is wanted.
inline constexpr std::uint32_t kGapWordsMax = 31;

struct RecordHeader {
  std::uint32_t key_bytes_and_op;  // key length | operation << 24 | words of the gap << 27
  std::uint32_t value_bytes;

  static RecordHeader make(Op op, std::uint64_t key_bytes, std::uint64_t value_bytes) {
    return make(op, key_bytes, value_bytes, /*gap_words=*/0);
  }
  /// Shape   gap_words <= kGapWordsMax; none, unless it is a put.
  static RecordHeader make(Op op, std::uint64_t key_bytes, std::uint64_t value_bytes,
                           std::uint32_t gap_words) {
    return {static_cast<std::uint32_t>(key_bytes |
                                       std::uint64_t{static_cast<std::uint8_t>(op)} << kOpShift |
                                       std::uint64_t{gap_words} << kGapShift),
            static_cast<std::uint32_t>(value_bytes)};
  }
  [[nodiscard]] std::uint64_t key_bytes() const { return key_bytes_and_op & 0xffffff; }
  [[nodiscard]] Op op() const { return static_cast<Op>(key_bytes_and_op >> kOpShift & kOpMask); }
  [[nodiscard]] std::uint32_t gap_words() const { return key_bytes_and_op >> kGapShift; }
  /// From the record's first byte on.
  [[nodiscard]] std::uint64_t value_offset() const {
    return sizeof(RecordHeader) + key_bytes() + std::uint64_t{gap_words()} * 8;
  }
  [[nodiscard]] std::uint64_t record_bytes() const {
    return base::round_up(value_offset() + value_bytes, 8);
  }

  friend bool operator==(const RecordHeader&, const RecordHeader&) = default;

 private:
  static constexpr int kOpShift = 24;
  static constexpr int kGapShift = 27;
};
static_assert(sizeof(RecordHeader) == 8 && std::is_trivial_v<RecordHeader>);

/// Writes a record of `header.record_bytes()` bytes, its gap and its padding with it.
/// Shape   `key` and `value` have the lengths that the header names.
[[gnu::always_inline]] inline void write_record(std::byte* record, const RecordHeader& header,
                                                const char* key, std::uint64_t key_bytes,
                                                const char* value, std::uint64_t value_bytes) {
  // The last word first: its padding must be zero, and the value then covers the rest.
  std::memset(record + header.record_bytes() - 8, 0, 8);
  std::memcpy(record, &header, sizeof header);
  base::copy_inline(record + sizeof header, key, key_bytes);
  if (header.gap_words() != 0) [[unlikely]] {
    std::memset(record + sizeof header + key_bytes, 0, std::size_t{header.gap_words()} * 8);
  }
  base::copy_inline(record + header.value_offset(), value, value_bytes);
}

inline const char* record_key(const std::byte* record) {
  return reinterpret_cast<const char*>(record) + sizeof(RecordHeader);
}
inline RecordHeader record_header(const std::byte* record) {
  RecordHeader header;
  std::memcpy(&header, record, sizeof header);
  return header;
}
inline const char* record_value(const std::byte* record) {
  return reinterpret_cast<const char*>(record) + record_header(record).value_offset();
}
inline bool has_header(const std::byte* record, const RecordHeader& header) {
  return std::memcmp(record, &header, sizeof header) == 0;
}
/// Whether two records have the same value, wherever in them it lies.
inline bool have_same_value(const std::byte* a, const std::byte* b) {
  const std::uint64_t bytes = record_header(a).value_bytes;
  return bytes == record_header(b).value_bytes &&
         std::memcmp(record_value(a), record_value(b), bytes) == 0;
}

}  // namespace breccia::record
