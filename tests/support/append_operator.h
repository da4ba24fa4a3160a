#pragma once

#include <rocksdb/merge_operator.h>

#include <memory>
#include <string>

namespace breccia::testing {

/// Merges by appending operands, with commas between.
class AppendOperator final : public rocksdb::AssociativeMergeOperator {
 public:
  bool Merge(const rocksdb::Slice& /*key*/, const rocksdb::Slice* existing,
             const rocksdb::Slice& operand, std::string* merged,
             rocksdb::Logger* /*logger*/) const override {
    merged->clear();
    if (existing != nullptr) {
      merged->assign(existing->data(), existing->size());
      merged->push_back(',');
    }
    merged->append(operand.data(), operand.size());
    return true;
  }
  [[nodiscard]] const char* Name() const override { return "AppendOperator"; }
};

/// The same for merges of whole keys only: operands do not combine without their base.
class FullAppendOperator final : public rocksdb::MergeOperator {
 public:
  bool FullMergeV2(const MergeOperationInput& in, MergeOperationOutput* out) const override {
    if (in.existing_value == nullptr && in.operand_list.size() == 1) {
      out->existing_operand = in.operand_list.front();
      return true;
    }
    out->new_value.clear();
    bool first = in.existing_value == nullptr;
    if (!first) out->new_value.assign(in.existing_value->data(), in.existing_value->size());
    for (const rocksdb::Slice& operand : in.operand_list) {
      if (!first) out->new_value.push_back(',');
      out->new_value.append(operand.data(), operand.size());
      first = false;
    }
    return true;
  }
  [[nodiscard]] const char* Name() const override { return "FullAppendOperator"; }
};

inline std::shared_ptr<rocksdb::MergeOperator> make_append_operator(bool partial) {
  if (partial) return std::make_shared<AppendOperator>();
  return std::make_shared<FullAppendOperator>();
}

}  // namespace breccia::testing
