#pragma once

#include <breccia/family.h>
#include <rocksdb/slice.h>

#include <cstring>

#include "record/record.h"

namespace breccia::record {

/// An operation of a frame, where it lies.
struct Operation {
  Op op;  // anything but kFamily
  FamilyId family;
  std::uint64_t offset;  // of its record, from the frame's first
  std::uint64_t bytes;   // of its record
  rocksdb::Slice key;
  rocksdb::Slice value;
};

/// Calls visit(operation) for the operations of a frame in their order.
/// Shape   `records` are those of a whole frame that frame_fault() found nothing wrong with.
template <class Visit>
void for_each_operation(const std::byte* records, std::uint32_t record_count, const Visit& visit) {
  FamilyId family = kDefaultFamily;
  std::uint64_t offset = 0;
  for (std::uint32_t i = 0; i < record_count; ++i) {
    const std::byte* const record = records + offset;
    const RecordHeader header = record_header(record);
    const rocksdb::Slice value(record_value(record), header.value_bytes);
    if (header.op() == Op::kFamily) {
      std::memcpy(&family, value.data(), sizeof family);
    } else {
      visit(Operation{header.op(), family, offset, header.record_bytes(),
                      rocksdb::Slice(record_key(record), header.key_bytes()), value});
    }
    offset += header.record_bytes();
  }
}

}  // namespace breccia::record
