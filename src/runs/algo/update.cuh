#pragma once

#include <cstdint>

#include "runs/algo/range.cuh"
#include "runs/algo/runs.cuh"

/// Read-modify-writes of one batch on 8-byte values: what each of them leaves its key with.

namespace breccia::runs::algo {

BRECCIA_HD inline std::uint64_t combine(NumberOp op, std::uint64_t left, std::uint64_t right) {
  if (op == NumberOp::kAdd) return left + right;
  if (op == NumberOp::kPut) return right;
  const bool right_is_larger =
      record::swap_bytes(left) < record::swap_bytes(right);  // in byte order
  return right_is_larger == (op == NumberOp::kMax) ? right : left;
}

/// Applies the operations of each key in arrival order, one lane per key.
/// Shape   `id`: entries in run order (of one key the last that arrived first). result[entry] is
///         written for merge operands only.
/// Bound   the operations of a key; each is read once.
/// Threads any number of groups; each key is walked by the lane of its first operation.
/// Source  [hrocks] section 6.3.
struct WalkUpdates {
  UpdatesRef updates;
  const std::uint32_t* id;
  std::uint64_t* result;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const std::uint64_t n = updates.keys.count;
    exec::each_item(group, first, n, [&](std::uint64_t k) {
      if (k + 1 == n || record::compare_keys(updates.keys, id[k], id[k + 1]) != 0) walk(k);
    });
  }

  /// From a key's first operation, at k, to its last.
  BRECCIA_SINGLE_SOURCE
  BRECCIA_HD void walk(std::uint64_t k) const {
    std::uint64_t value = updates.base[id[k]];
    bool exists = updates.has_base[id[k]] != 0;
    for (std::uint64_t at = k;; --at) {
      const std::uint32_t entry = id[at];
      const std::uint64_t operation = updates.operation[entry] & kOperationMask;
      const std::uint64_t operand = updates.operand[entry];
      if (operation == kMergeOperand) {
        value = exists ? combine(updates.op, value, operand) : operand;
        exists = true;
        result[entry] = value;
      } else {
        value = operand;
        exists = operation == kPutOperation;
      }
      if (at == 0 || record::compare_keys(updates.keys, id[at - 1], entry) != 0) return;
    }
  }
};

/// The executor's side of Backend::update.
template <class X>
Status update(X& x, const UpdatesRef& host, std::uint64_t* result) {
  const std::uint64_t n = host.keys.count;
  BRECCIA_TAKE(const auto keys, ImportedKeys<X>::make(x, host.keys));
  BRECCIA_TAKE(const auto operation, x.import(host.operation, n));
  BRECCIA_TAKE(const auto operand, x.import(host.operand, n));
  BRECCIA_TAKE(const auto base, x.import(host.base, n));
  BRECCIA_TAKE(const auto has_base, x.import(host.has_base, n));
  BRECCIA_TAKE(const exec::Array<std::uint32_t> id, make_array<std::uint32_t>(x, n));
  BRECCIA_TAKE(const exec::Array<std::uint64_t> results, make_array<std::uint64_t>(x, n));
  UpdatesRef own = host;
  own.keys = keys.ref();
  own.operation = operation.data();
  own.operand = operand.data();
  own.base = base.data();
  own.has_base = has_base.data();
  BRECCIA_TRY(sort_keys(x, own.keys, id.data()).status());
  BRECCIA_TRY(x.copy(results.data(), own.operand, n));  // what puts leave is their operand
  BRECCIA_TRY(x.template launch<kWidth>(n, WalkUpdates{own, id.data(), results.data()}));
  BRECCIA_TRY(x.copy_out(result, results.data(), n));
  return x.finish();
}

}  // namespace breccia::runs::algo
