#pragma once

#include <cstdint>
#include <cstring>

#include "record/key_columns.h"
#include "record/record.h"

namespace breccia::record {

/// Entries of the log as columns: what a backend makes a run of.
/// Threads one owner.
class EntryColumns {
 public:
  explicit EntryColumns(exec::HostMemory& memory)
      : keys_(memory), payloads_(memory), values_(memory) {}

  /// Adds the point operation in `record`, whose position and operation are `payload`.
  /// Errors  false: out of memory; the columns are of no use then.
  [[nodiscard]] bool append(const std::byte* record, std::uint64_t payload) {
    const RecordHeader header = record_header(record);
    const std::uint64_t n = count() + 1;
    if (!payloads_.reserve(n) || !keys_.append(record_key(record), header.key_bytes())) {
      return false;
    }
    payloads_.push(payload);
    const Op op = op_of(payload);
    BRECCIA_ASSERT(is_point(op));
    has_merges_ = has_merges_ || op == Op::kMerge;
    if (!has_values_) return true;
    std::uint64_t value = 0;
    if (!is_deletion(op)) {
      has_values_ = header.value_bytes == sizeof value;
      if (!has_values_) return true;
      std::memcpy(&value, record_value(record), sizeof value);
    }
    if (!values_.reserve(n)) return false;
    values_.push(value);
    return true;
  }

  [[nodiscard]] std::uint64_t count() const { return payloads_.size(); }
  [[nodiscard]] bool has_merges() const { return has_merges_; }
  [[nodiscard]] const exec::HostVector<std::uint64_t>& payloads() const { return payloads_; }
  /// The entries for Backend::build_run; `sorted` as there.
  [[nodiscard]] EntriesRef ref(bool sorted) const {
    return {keys_.ref(), payloads_.data(), 0, has_values_ ? values_.data() : nullptr, sorted};
  }

 private:
  KeyColumns keys_;
  exec::HostVector<std::uint64_t> payloads_;
  exec::HostVector<std::uint64_t> values_;
  bool has_values_ = true;  // all so far have 8 bytes
  bool has_merges_ = false;
};

}  // namespace breccia::record
