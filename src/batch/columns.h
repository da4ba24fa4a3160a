#pragma once

#include <breccia/columns.h>

#include <cstdint>
#include <vector>

#include "base/assert.h"
#include "base/limits.h"
#include "base/result.h"
#include "record/key_columns.h"
#include "record/record.h"

/// Requests that come as arrays. They are handled in chunks: first each is measured, so that the
/// place of every request is known, then each is written, by any number of threads.

namespace breccia::batch {

inline constexpr std::uint64_t kChunkRequests = 4096;

/// What each chunk of requests takes, added up: bytes of records, words of keys.
class ChunkSums {
 public:
  /// Every request takes `each`.
  ChunkSums(std::uint64_t count, std::uint64_t each) : each_(each), total_(count * each) {}
  /// The chunks take `sums`.
  explicit ChunkSums(std::vector<std::uint64_t> sums);

  /// What the chunks before `chunk` take.
  [[nodiscard]] std::uint64_t before(std::uint64_t chunk) const {
    BRECCIA_ASSERT(before_.empty() || chunk < before_.size());
    return before_.empty() ? chunk * kChunkRequests * each_ : before_[chunk];
  }
  [[nodiscard]] std::uint64_t total() const { return total_; }
  /// What every request takes; 0: that differs.
  [[nodiscard]] std::uint64_t each() const { return before_.empty() ? each_ : 0; }
  /// The last chunk before which there is no more than `sum`.
  /// Shape   sum < total().
  [[nodiscard]] std::uint64_t chunk_of(std::uint64_t sum) const;

 private:
  std::uint64_t each_ = 0;
  std::uint64_t total_ = 0;
  std::vector<std::uint64_t> before_;  // empty: all take the same
};

/// Strings, and the length that all of them have, or record::kVariableBytes.
struct StringArray {
  BytesColumn strings;
  std::uint32_t uniform_bytes = 0;
};

/// Keys of requests, within the limits.
/// Owner   the arrays live longer.
struct KeyArray {
  StringArray keys;
  ChunkSums tail_words;

  [[nodiscard]] std::uint64_t count() const { return keys.strings.count(); }
  [[nodiscard]] std::uint32_t uniform_bytes() const { return keys.uniform_bytes; }
};

/// The same with values or operands; of deletions they are of no bytes.
struct RecordArray {
  KeyArray keys;
  StringArray values;
  ChunkSums bytes;  // of records
};

/// Errors  InvalidArgument: a key over its limit, offsets that fall; std::bad_alloc.
/// Cost    one pass over offsets or slices, none over fixed ones.
[[nodiscard]] Result<KeyArray> measure_keys(const BytesColumn& keys);
/// Errors  likewise, and InvalidArgument: a value over its limit, columns of different counts.
[[nodiscard]] Result<RecordArray> measure_records(const BytesColumn& keys,
                                                  const BytesColumn& values);
/// InvalidArgument: columns of `a` and `b` strings where each request needs one of each.
[[nodiscard]] Status differ_in_count(std::uint64_t a, std::uint64_t b);

/// Adds keys to columns that have room for them.
void append_keys(const KeyArray& keys, record::KeyColumns* out);
/// Writes keys where they come to stand.
void write_keys(const KeyArray& keys, const record::KeySlots& to);

/// Where the records of a RecordArray and what a batch notes of them go.
struct RecordSlots {
  record::KeySlots keys;
  std::byte* records;           // null: they are not written
  std::uint64_t records_begin;  // record bytes before `records`
  std::uint64_t* offsets;
  std::uint64_t* numbers;  // null: not noted
};

/// Writes the records, one behind the other, and all that is noted of them.
void write_records(record::Op op, const RecordArray& from, const RecordSlots& to);

/// Writes bytes [begin, end) of the records, one behind the other, to `to`.
/// Threads any number.
/// Cost    of the bytes; where lengths differ, of up to a chunk's lengths besides.
void write_record_bytes(record::Op op, const RecordArray& from, std::uint64_t begin,
                        std::uint64_t end, std::byte* to);

}  // namespace breccia::batch
