#pragma once

#include <cstdint>
#include <span>
#include <utility>

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

/// Applies the operations of each key in arrival order, one lane per key: to its newest version
/// that was found in runs, else to its base.
/// Shape   `id`: entries in run order (of one key the last that arrived first). newer: as a search
///         leaves it with operations, or null. result[entry] is written for merge operands only.
///         *operands: counts keys whose newest version is a merge operand.
/// Bound   the operations of a key; each is read once.
/// Threads any number of groups; each key is walked by the lane of its first operation.
/// Source  [hrocks] section 6.3.
struct WalkUpdates {
  UpdatesRef updates;
  const std::uint32_t* id;
  FoundRef newer;
  std::uint64_t* result;
  std::uint64_t* operands;

  BRECCIA_SINGLE_SOURCE
  template <class Group>
  BRECCIA_HD void operator()(const Group& group, std::uint64_t first) const {
    const std::uint64_t n = updates.keys.count;
    exec::each_item(group, first, n, [&](std::uint64_t k) {
      if (k + 1 < n && record::compare_keys(updates.keys, id[k], id[k + 1]) == 0) return;
      const std::uint32_t entry = id[k];
      const std::uint8_t found = newer.op == nullptr ? kNoOp : newer.op[entry];
      if (found == kNoOp) return walk(k, updates.base[entry], updates.has_base[entry] != 0);
      if (found == kMergeOperand) (void)exec::add_relaxed_device(group, operands, 1U);
      walk(k, newer.value[entry], found == kPutOperation);
    });
  }

  /// From a key's first operation, at k, to its last.
  BRECCIA_SINGLE_SOURCE
  BRECCIA_HD void walk(std::uint64_t k, std::uint64_t value, bool exists) const {
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

/// Operations where an executor reads them, in the order of their keys.
template <class X>
class SortedUpdate final : public Update {
 public:
  static Result<UpdatePtr> make(X& x, exec::TenantPtr tenant, const UpdatesRef& host) {
    const std::uint64_t n = host.keys.count;
    BRECCIA_TAKE(auto keys, ImportedKeys<X>::make(x, host.keys));
    BRECCIA_TAKE(auto operation, x.import(host.operation, n));
    BRECCIA_TAKE(auto operand, x.import(host.operand, n));
    BRECCIA_TAKE(auto base, x.import(host.base, n));
    BRECCIA_TAKE(auto has_base, x.import(host.has_base, n));
    BRECCIA_TAKE(auto id, make_array<std::uint32_t>(x, n));
    BRECCIA_TRY(sort_keys(x, keys.ref(), id.data()).status());
    BRECCIA_TRY(x.finish());
    return UpdatePtr(new SortedUpdate(std::move(tenant), host, std::move(keys),
                                      std::move(operation), std::move(operand), std::move(base),
                                      std::move(has_base), std::move(id)));
  }

  /// The executor's side of Backend::finish_update.
  Status finish(X& x, std::span<const RunRef> newer, std::uint64_t* result, bool* fits) const {
    const UpdatesRef own = ref();
    const std::uint64_t n = own.keys.count;
    const std::uint64_t sought = newer.empty() ? 0 : n;
    const bool without_table = is_inline<X>(newer);
    BRECCIA_TAKE(const auto table, x.import(newer.data(), without_table ? 0 : newer.size()));
    BRECCIA_TAKE(const auto value, make_array<std::uint64_t>(x, sought));
    BRECCIA_TAKE(const auto op, make_array<std::uint8_t>(x, sought));
    BRECCIA_TAKE(const auto results, make_array<std::uint64_t>(x, n));
    BRECCIA_TAKE(const auto operands, make_array<std::uint64_t>(x, 1));
    FoundRef found;
    if (sought > 0) {
      found = {nullptr, value.data(), op.data()};
      BRECCIA_TRY(
          launch_search(x, newer, without_table ? nullptr : table.data(), {own.keys}, found));
    }
    BRECCIA_TRY(exec::clear(x, operands.data(), 1));
    BRECCIA_TRY(x.copy(results.data(), own.operand, n));  // what puts leave is their operand
    BRECCIA_TRY(x.template launch<kWidth>(
        n, WalkUpdates{own, id_.data(), found, results.data(), operands.data()}));
    BRECCIA_TRY(x.copy_out(result, results.data(), n));
    std::uint64_t odd = 0;
    BRECCIA_TRY(x.copy_out(&odd, operands.data(), 1));
    BRECCIA_TRY(x.finish());
    *fits = odd == 0;
    return Status::OK();
  }

 private:
  template <class T>
  using Import = decltype(std::declval<X&>().import(std::declval<const T*>(), 0).take());

  SortedUpdate(exec::TenantPtr tenant, const UpdatesRef& shape, ImportedKeys<X> keys,
               Import<std::uint64_t> operation, Import<std::uint64_t> operand,
               Import<std::uint64_t> base, Import<std::uint8_t> has_base,
               exec::Array<std::uint32_t> id)
      : tenant_(std::move(tenant)),
        shape_(shape),
        keys_(std::move(keys)),
        operation_(std::move(operation)),
        operand_(std::move(operand)),
        base_(std::move(base)),
        has_base_(std::move(has_base)),
        id_(std::move(id)) {}

  [[nodiscard]] UpdatesRef ref() const {
    UpdatesRef own = shape_;
    own.keys = keys_.ref();
    own.operation = operation_.data();
    own.operand = operand_.data();
    own.base = base_.data();
    own.has_base = has_base_.data();
    return own;
  }

  // First: the arrays give their memory back to it.
  const exec::TenantPtr tenant_;
  const UpdatesRef shape_;
  const ImportedKeys<X> keys_;
  const Import<std::uint64_t> operation_, operand_, base_;
  const Import<std::uint8_t> has_base_;
  const exec::Array<std::uint32_t> id_;
};

}  // namespace breccia::runs::algo
