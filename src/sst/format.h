#pragma once

#include <breccia/status.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/assert.h"
#include "exec/group.h"

/// RocksDB's block-based table, format_version 2 to 5; docs/impl/sst.md says more of it.
///
///   file    = data block* filter? index dictionary? range deletions? properties metaindex footer
///   block   = contents, compressed or not; type byte; checksum of both (LE32)
///   data    = entry* restart offset* (LE32) [hash index] count (LE32, bit 31: hash index)
///   entry   = shared, unshared, value length (varint32), key behind what is shared, value
///   footer  = checksum type, two handles, zeros, format_version (LE32), magic (LE64)
///
/// A key in a data block ends in a tag (LE64): sequence number << 8 | type.

namespace breccia::sst {

inline constexpr std::uint64_t kTableMagic = 0x88e241b785f4cff7;
inline constexpr std::size_t kFooterBytes = 53;
inline constexpr std::size_t kTrailerBytes = 5;
inline constexpr std::size_t kTagBytes = 8;
inline constexpr std::uint32_t kVersionMin = 2;
inline constexpr std::uint32_t kVersionMax = 5;

/// The type byte behind a block.
enum class Compression : std::uint8_t {
  kNone = 0,
  kSnappy = 1,
  kZlib = 2,
  kBZip2 = 3,
  kLz4 = 4,
  kLz4Hc = 5,
  kXpress = 6,
  kZstd = 7,
};

/// The first byte of the footer.
enum class ChecksumType : std::uint8_t {
  kNone = 0,
  kCrc32c = 1,
  kXxh32 = 2,
  kXxh64 = 3,
  kXxh3 = 4
};

/// The type in an entry's tag.
enum class EntryType : std::uint8_t {
  kDeletion = 0x0,
  kValue = 0x1,
  kMerge = 0x2,
  kSingleDeletion = 0x7,
  kRangeDeletion = 0xF,
  kBlobIndex = 0x11,
  kWideColumns = 0x16,
};

/// Whether an entry hides what is older of its key, and has no value.
BRECCIA_HD constexpr bool is_deletion(EntryType type) {
  return type == EntryType::kDeletion || type == EntryType::kSingleDeletion;
}

/// Where a block lies, without its trailer.
struct Handle {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;

  [[nodiscard]] std::uint64_t end() const { return offset + bytes + kTrailerBytes; }
};

template <class Word>
Word load_little_endian(const char* from) {
  Word word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

/// What stands in a stretch of bytes, from its front. What does not fit is false, and moves
/// nothing.
class Input {
 public:
  explicit Input(Slice bytes) : bytes_(bytes) {}

  [[nodiscard]] const Slice& rest() const { return bytes_; }

  template <class Word>
  [[nodiscard]] bool varint(Word* value) {
    constexpr int kBits = std::numeric_limits<Word>::digits;
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < bytes_.size() && 7 * i < kBits; ++i) {
      const auto byte = static_cast<unsigned char>(bytes_[i]);
      const int shift = 7 * static_cast<int>(i);
      // The last byte may not hold more than what is left of a word.
      if (kBits - shift < 7 && (byte & 0x7F) >> (kBits - shift) != 0) return false;
      sum |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) {
        bytes_.remove_prefix(i + 1);
        *value = static_cast<Word>(sum);
        return true;
      }
    }
    return false;
  }
  template <class Word>
  [[nodiscard]] bool fixed(Word* value) {
    if (bytes_.size() < sizeof *value) return false;
    *value = load_little_endian<Word>(bytes_.data());
    bytes_.remove_prefix(sizeof *value);
    return true;
  }
  [[nodiscard]] bool bytes(std::uint64_t count, Slice* value) {
    if (bytes_.size() < count) return false;
    *value = Slice(bytes_.data(), count);
    bytes_.remove_prefix(count);
    return true;
  }
  [[nodiscard]] bool handle(Handle* value) {
    Input ahead = *this;
    if (!ahead.varint(&value->offset) || !ahead.varint(&value->bytes)) return false;
    *this = ahead;
    return true;
  }

 private:
  Slice bytes_;
};

/// A key as a data block has it.
struct InternalKey {
  Slice user_key;
  std::uint64_t sequence = 0;
  EntryType type = EntryType::kValue;

  /// Of at least kTagBytes bytes.
  static InternalKey of(const Slice& key) {
    BRECCIA_ASSERT(key.size() >= kTagBytes);
    const auto tag = load_little_endian<std::uint64_t>(key.data() + key.size() - kTagBytes);
    return {Slice(key.data(), key.size() - kTagBytes), tag >> 8,
            static_cast<EntryType>(tag & 0xFF)};
  }
};

/// "put", "delete" and so on; null if there is no such type in a table.
const char* name_of(EntryType type);
/// "none", "snappy" and so on; null if there is no such type.
const char* name_of(Compression type);

}  // namespace breccia::sst
