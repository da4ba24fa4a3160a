#include "ordered/read/versions.h"

#include <rocksdb/db.h>
#include <rocksdb/merge_operator.h>

#include <algorithm>

#include "runs/algo/run_steps.cuh"

namespace breccia::ordered {

static_assert(runs::algo::kMergeOperand == static_cast<std::uint64_t>(record::Op::kMerge));
static_assert(runs::algo::kSingleDeletion == static_cast<std::uint64_t>(record::Op::kSingleDelete));
static_assert(runs::kPutOperation == static_cast<std::uint64_t>(record::Op::kPut));
static_assert(runs::kOperationMask == record::kOpMask);

namespace {

/// As RocksDB says it.
Status no_merge_operator() {
  return Status::InvalidArgument("merge_operator is not properly initialized.");
}

Status read_tree(const View& view, const FamilyView& family, const Slice& key,
                 rocksdb::PinnableSlice* value, bool* from_tree) {
  if (from_tree != nullptr) *from_tree = true;
  return view.below.get(family.below_memory(), key, value);
}

/// What lies below the newest operand of a key.
struct Stack {
  std::vector<Slice> operands;  // newest first
  bool reaches_tree = true;     // memory holds neither a base nor a deletion
  bool has_base = false;
  Slice base;
};

Stack collect(const View& view, const FamilyView& family, const Slice& key, std::uint64_t found,
              std::uint64_t covered) {
  Stack stack;
  while (found != runs::kNotFound && record::position_of(found) > covered) {
    const record::Op op = record::op_of(found);
    const Slice value = value_at(*view.table, found);
    if (op != record::Op::kMerge) {
      stack.reaches_tree = false;
      stack.has_base = op == record::Op::kPut;
      stack.base = value;
      return stack;
    }
    stack.operands.push_back(value);
    const std::byte* record = nullptr;
    found = find_one(family, *view.table, key, record::position_of(found), &record);
  }
  stack.reaches_tree = covered == 0;
  return stack;
}

}  // namespace

Status full_merge(const FamilyView& family, const Slice& key, const Slice* base,
                  const std::vector<Slice>& operands, std::string* value) {
  if (family.merge_operator == nullptr) return no_merge_operator();
  Slice existing_operand(nullptr, 0);
  const rocksdb::MergeOperator::MergeOperationInput input(key, base, operands, nullptr);
  rocksdb::MergeOperator::MergeOperationOutput output(*value, existing_operand);
  if (!family.merge_operator->FullMergeV2(input, &output)) {
    return Status::Corruption("Error: Could not perform merge.");
  }
  if (existing_operand.data() != nullptr) {
    value->assign(existing_operand.data(), existing_operand.size());
  }
  return Status::OK();
}

Status read_version(const View& view, const FamilyView& family, const Slice& key,
                    std::uint64_t found, std::uint64_t covered, rocksdb::PinnableSlice* value,
                    bool* from_tree) {
  if (found == runs::kNotFound || record::position_of(found) < covered) {
    return covered != 0 ? Status::NotFound() : read_tree(view, family, key, value, from_tree);
  }
  if (record::is_deletion(record::op_of(found))) return Status::NotFound();
  if (record::op_of(found) == record::Op::kPut) {
    value->PinSelf(value_at(*view.table, found));
    return Status::OK();
  }
  // Before the tree is read: RocksDB ends the process where it would need the operator itself.
  if (family.merge_operator == nullptr) return no_merge_operator();
  Stack stack = collect(view, family, key, found, covered);
  std::reverse(stack.operands.begin(), stack.operands.end());
  rocksdb::PinnableSlice below;
  if (stack.reaches_tree) {
    const Status status = read_tree(view, family, key, &below, from_tree);
    if (!status.ok() && !status.IsNotFound()) return status;
    stack.has_base = status.ok();
    stack.base = below;
  }
  BRECCIA_TRY(full_merge(family, key, stack.has_base ? &stack.base : nullptr, stack.operands,
                         value->GetSelf()));
  value->PinSelf();
  return Status::OK();
}

Status read_key(const View& view, const FamilyView& family, const Slice& key, std::uint64_t bound,
                rocksdb::PinnableSlice* value) {
  const std::byte* record = nullptr;
  const std::uint64_t found = find_one(family, *view.table, key, bound, &record);
  return read_version(view, family, key, found, family.covering(key, bound), value,
                      /*from_tree=*/nullptr);
}

}  // namespace breccia::ordered
