#pragma once

#include <cstdint>

#include "exec/group.h"
#include "record/columns.h"

/// What the verbs on runs take and give.

namespace breccia::runs {

/// The bits of a payload that say its operation, as record::Op, and what they say of a put.
inline constexpr std::uint64_t kOperationMask = 7;
inline constexpr std::uint64_t kPutOperation = 0;

/// A sorted run: keys ascending, and among versions of one key `payload` descending.
/// A payload is a log position with its operation in the low bits; 0 never occurs.
/// `fence[j]` is `head[j * kFenceStride]`. `value` as in EntriesRef.
struct RunRef {
  record::KeyColumnsRef keys;
  const std::uint64_t* payload = nullptr;
  const std::uint64_t* fence = nullptr;
  const std::uint64_t* value = nullptr;
};

/// Entries between two fences: a search ends in 64 neighbouring heads, 512 bytes.
inline constexpr std::uint64_t kFenceStride = 64;

constexpr BRECCIA_HD std::uint64_t fence_count(std::uint64_t count) {
  return (count + kFenceStride - 1) / kFenceStride;
}

/// Lookups: the newest version of keys[i] whose payload is below bound[i], or below `bound_all`
/// where `bound` is null.
/// Shape   rows, or null: the keys' bytes as they come, one key behind the other, all of 8 bytes or
///         all of 16, and aligned to as many. Of `keys` only count and length are looked at then.
struct QueriesRef {
  record::KeyColumnsRef keys;
  const std::uint64_t* bound = nullptr;
  std::uint64_t bound_all = ~std::uint64_t{0};
  const std::uint64_t* rows = nullptr;

  BRECCIA_HD std::uint64_t bound_at(std::uint64_t i) const { return bound ? bound[i] : bound_all; }
};

/// Where a search puts what it finds.
/// Shape   of queries.keys.count each. payload, and value as well, or null: not wanted; that of a
///         key which was not found is anything. Or op and value, and no payload: op[i] is the found
///         payload's operation, or kNoOp; value[i] the value of a put, and of any other operation
///         the payload. With values, all runs have them.
struct FoundRef {
  std::uint64_t* payload = nullptr;
  std::uint64_t* value = nullptr;
  std::uint8_t* op = nullptr;
};

/// What `op` says of a key that no run holds below its bound.
inline constexpr std::uint8_t kNoOp = 0xff;

/// Range requests: of each, the first keys from begin[i] to below end[i] with a version below
/// bound[i], or below `bound_all` where `bound` is null, as many as fit its room.
/// Shape   begin.count == end.count; out_at[begin.count + 1], ascending from 0: range i's room.
struct RangesRef {
  record::KeyColumnsRef begin;
  record::KeyColumnsRef end;
  const std::uint64_t* out_at = nullptr;
  const std::uint64_t* bound = nullptr;
  std::uint64_t bound_all = ~std::uint64_t{0};

  BRECCIA_HD std::uint64_t bound_at(std::uint64_t i) const { return bound ? bound[i] : bound_all; }
};

/// Where a walk of ranges puts what it finds; n ranges with `room` entries in all.
/// Shape   emitted[n]: range i has emitted[i] entries from its place out_at[i] on; where that is
///         all its room, there may be more. Either payload[room]: the newest version of each key,
///         deletions too; or pair[2 * room]: key and value, each 8 bytes as they lie in memory, of
///         the keys that are there. For pairs all runs have values and keys of 8 bytes, and hold no
///         merge operands.
struct WalkedRef {
  std::uint64_t* payload = nullptr;
  std::uint64_t* pair = nullptr;
  std::uint32_t* emitted = nullptr;
};

/// How a merge operand of 8 bytes changes a value of 8 bytes.
enum class NumberOp {
  kAdd,  // little-endian, wrapping
  kMax,  // in byte order
  kMin,
  kPut,  // the operand takes the value's place
};

/// Operations of a batch on values of 8 bytes, in arrival order.
/// Shape   operation[i]: its kind in the low bits, as in a payload; operand[i]: the value of a put,
///         or a merge operand; base[i], if has_base[i]: what a key's first one, i, comes upon where
///         nothing newer is known.
struct UpdatesRef {
  record::KeyColumnsRef keys;
  const std::uint64_t* operation = nullptr;
  const std::uint64_t* operand = nullptr;
  const std::uint64_t* base = nullptr;
  const std::uint8_t* has_base = nullptr;
  NumberOp op = NumberOp::kAdd;
};

/// What a search reports for a key that no run holds below its bound.
inline constexpr std::uint64_t kNotFound = 0;

}  // namespace breccia::runs
