#pragma once

#include <breccia/hash_options.h>

#include <cstdint>

#include "base/limits.h"
#include "exec/atomics.h"
#include "exec/group.h"

/// What the verbs of a hash table take and give: plain data that may lie on a device.

namespace breccia::hash {

/// A slot of a table: a word that stands for a key, and its value.
using Pair = exec::WordPair;

/// 128 bytes: eight pairs, a cache line of a device.
inline constexpr int kBucketPairs = 8;
/// Places that a key may have.
inline constexpr int kChoices = 2;

/// Words that stand for no key.
inline constexpr std::uint64_t kEmpty = 0;    // never used since the last sweep
inline constexpr std::uint64_t kDeleted = 1;  // until the next sweep
inline constexpr std::uint64_t kClaimed = 2;  // within a section: its pair is in a group's hands
/// Below this and at the top lie words that are not stored in the place of a key: 3 is kept for
/// formats to come, and exec::kBusyWord is taken.
inline constexpr std::uint64_t kFirstWord = 4;

/// The secret of a table, by which keys become words: a permutation of the 64-bit numbers, and
/// another one for the second choice.
struct Secret {
  std::uint64_t add = 0;
  std::uint64_t factor = 1;         // odd
  std::uint64_t second_factor = 1;  // odd
};

/// A table.
/// Shape   pairs[(bucket_count + 1) * kBucketPairs]: the last bucket is for the few keys whose
///         words are taken. A bit a bucket: was_full[bucket_count / 32 + 1], keys of it may be in
///         their second one; has_deleted[the same], it has slots to be swept; is_full[the same], it
///         has no empty slot: set a moment after its last one is filled.
struct TableRef {
  Pair* pairs = nullptr;
  std::uint32_t* was_full = nullptr;
  std::uint32_t* has_deleted = nullptr;
  std::uint32_t* is_full = nullptr;
  std::uint64_t bucket_count = 0;
  Secret secret;
};

/// A table, and while it grows the one that it grows out of: keys that lie in a bucket of `old`
/// from `moved` on are there, all others in `table`.
struct GrowingRef {
  TableRef table;
  TableRef old;             // without pairs, unless it grows
  std::uint64_t moved = 0;  // up to old.bucket_count + 1
};

/// What a request does.
enum class Operation : std::uint8_t {
  kFind,
  kInsert,  // if the key is absent
  kUpsert,
  kUpdate,  // if the key is there
  kDelete,
  kRaise,  // upsert, unless the key has a larger value: of versions the newest stays
  kDrop,   // delete, if the key has this value
};

/// What a request met.
enum class Code : std::uint8_t {
  kAbsent,   // the key was not there: inserted, or not found
  kPresent,  // it was there
  kNoRoom,   // it was not, and there is no place for it: nothing was done
  kCrowded,  // within a call: too many others were at it, and nothing was done yet
};

/// Requests as columns.
/// Shape   key[count]; value[count], what is written, or null: zeros; found[count], the value that
///         the key had before, 0 if it was absent, or null; code[count].
///         operation[count], or null: all do `all`.
struct RequestsRef {
  const Operation* operation = nullptr;
  Operation all = Operation::kFind;
  const std::uint64_t* key = nullptr;
  const std::uint64_t* value = nullptr;
  std::uint64_t* found = nullptr;
  Code* code = nullptr;
  std::uint64_t count = 0;
};

/// What request i does.
BRECCIA_HD inline Operation operation_of(const RequestsRef& requests, std::uint64_t i) {
  return requests.operation == nullptr ? requests.all : requests.operation[i];
}

/// Whether a key that is absent comes in.
BRECCIA_HD constexpr bool inserts(Operation operation) {
  return operation == Operation::kInsert || operation == Operation::kUpsert ||
         operation == Operation::kRaise;
}

inline bool only_finds(const RequestsRef& requests) {
  return requests.operation == nullptr && requests.all == Operation::kFind;
}

inline bool may_delete(const RequestsRef& requests) {
  return requests.operation != nullptr || requests.all == Operation::kDelete ||
         requests.all == Operation::kDrop;
}

/// Requests on a table with rows: its keys or its values have another size than 8 bytes.
/// Shape   value[count * value_bytes], found[the same]: one value behind the other. What is found
///         of an absent key is left as it is. key[count * key_bytes], at any address, if keys have
///         another size than 8 bytes; else null. The rest as RequestsRef, of which value and found
///         are null, and key where there is one here.
struct ValueRequestsRef {
  RequestsRef requests;
  const char* value = nullptr;
  char* found = nullptr;
  const char* key = nullptr;
};

/// Bits of a payload that say what its record does; all clear: it has a value (record/record.h).
inline constexpr std::uint64_t kPayloadOperation = 7;

/// Places that a row may have in a cache: those of its set.
inline constexpr int kCacheWays = 7;

/// A cache of rows that lie elsewhere, by their ids and payloads (algo/cached.cuh).
/// Shape   sets[set_count * 4], a set's payloads and credits; misses[set_count * 4], how often rows
///         of the set were missing; rows: kCacheWays a set, row_bytes each. Without sets it holds
///         nothing.
struct CacheRef {
  Pair* sets = nullptr;
  std::uint64_t set_count = 0;
  std::uint64_t* misses = nullptr;
  char* rows = nullptr;
  RowCachePolicy policy = RowCachePolicy::kFrequency;
  /// The secret by which ids have their sets, as Secret's.
  std::uint64_t add = 0;
  std::uint64_t factor = 0x9e37'79b9'7f4a'7c15;
};

/// The records of a log where kernels read them, in memory of the host.
/// Shape   window[count], kWindowBytes of the log each, from position first * kWindowBytes on;
///         null: it is not to be had. Without windows there is nothing.
struct LogRef {
  static constexpr std::uint64_t kWindowBytes = limits::kLogWindowBytes;

  const char* const* window = nullptr;
  std::uint64_t first = 0;
  std::uint64_t count = 0;

  /// `bytes` from `position` on, a window's at most; null: they are not to be had, or not in one
  /// piece.
  [[nodiscard]] BRECCIA_HD const char* at(std::uint64_t position, std::uint64_t bytes) const {
    const std::uint64_t number = position / kWindowBytes - first;  // large, where it lies before
    const std::uint64_t offset = position % kWindowBytes;
    if (number >= count || bytes > kWindowBytes) return nullptr;
    const char* const begin = window[number];
    if (begin == nullptr) return nullptr;
    const bool ends_here = offset + bytes <= kWindowBytes;
    // Those of a segment lie one behind the other.
    if (!ends_here && (number + 1 == count || window[number + 1] != begin + kWindowBytes)) {
      return nullptr;
    }
    return begin + offset;
  }
};

/// Requests whose rows a cache has not, in no order.
/// Shape   request[n], payload[n], *count: how many there are.
struct MissingRef {
  std::uint32_t* request = nullptr;
  std::uint64_t* payload = nullptr;
  std::uint64_t* count = nullptr;
};

}  // namespace breccia::hash
