#include <breccia/batch.h>

#include "base/memory.h"
#include "batch/range_columns.h"
#include "batch/requests.h"
#include "batch/value_columns.h"

namespace breccia {

Batch::Batch() : requests_(std::make_unique<batch::Requests>(exec::shared_plain_host_memory())) {}
Batch::Batch(std::unique_ptr<batch::Requests> requests) : requests_(std::move(requests)) {}
Batch::~Batch() = default;
Batch::Batch(Batch&&) noexcept = default;
Batch& Batch::operator=(Batch&&) noexcept = default;

Status Batch::Put(FamilyId family, const Slice& key, const Slice& value) {
  return base::or_memory_limit(
      [&] { return requests_->add_write(record::Op::kPut, family, key, value); });
}
Status Batch::Delete(FamilyId family, const Slice& key) {
  return base::or_memory_limit(
      [&] { return requests_->add_write(record::Op::kDelete, family, key, Slice()); });
}
Status Batch::SingleDelete(FamilyId family, const Slice& key) {
  return base::or_memory_limit(
      [&] { return requests_->add_write(record::Op::kSingleDelete, family, key, Slice()); });
}
Status Batch::Merge(FamilyId family, const Slice& key, const Slice& operand) {
  return base::or_memory_limit(
      [&] { return requests_->add_write(record::Op::kMerge, family, key, operand); });
}
Status Batch::DeleteRange(FamilyId family, const Slice& begin, const Slice& end) {
  return base::or_memory_limit(
      [&] { return requests_->add_write(record::Op::kDeleteRange, family, begin, end); });
}
Status Batch::Get(FamilyId family, const Slice& key) {
  return base::or_memory_limit([&] { return requests_->add_read(family, key); });
}
Status Batch::Range(FamilyId family, const Slice& begin, const Slice& end, std::uint32_t limit) {
  return base::or_memory_limit([&] { return requests_->add_range(family, begin, end, limit); });
}

Status Batch::Put(FamilyId family, const BytesColumn& keys, const BytesColumn& values) {
  return base::or_memory_limit(
      [&] { return requests_->add_writes(record::Op::kPut, family, keys, values); });
}
Status Batch::Delete(FamilyId family, const BytesColumn& keys) {
  const auto none = BytesColumn::Fixed(nullptr, keys.count(), 0);
  return base::or_memory_limit(
      [&] { return requests_->add_writes(record::Op::kDelete, family, keys, none); });
}
Status Batch::Merge(FamilyId family, const BytesColumn& keys, const BytesColumn& operands) {
  return base::or_memory_limit(
      [&] { return requests_->add_writes(record::Op::kMerge, family, keys, operands); });
}
Status Batch::Get(FamilyId family, const BytesColumn& keys) {
  return base::or_memory_limit([&] { return requests_->add_reads(family, keys, ValueArray()); });
}
Status Batch::Get(FamilyId family, const BytesColumn& keys, const ValueArray& values) {
  return base::or_memory_limit([&] {
    if (values.found == nullptr) return Status::InvalidArgument("an array of values without found");
    return requests_->add_reads(family, keys, values);
  });
}
Status Batch::Range(FamilyId family, const BytesColumn& begins, const BytesColumn& ends,
                    std::uint32_t limit) {
  return base::or_memory_limit([&] {
    return requests_->add_ranges(family, begins, ends, std::span<const std::uint32_t>(&limit, 1));
  });
}
Status Batch::Range(FamilyId family, const BytesColumn& begins, const BytesColumn& ends,
                    std::span<const std::uint32_t> limits) {
  return base::or_memory_limit([&] {
    // One limit is not meant for all.
    if (limits.size() != begins.count()) {
      return batch::differ_in_count(begins.count(), limits.size());
    }
    return requests_->add_ranges(family, begins, ends, limits);
  });
}

void Batch::SetValuesInPlace(bool in_place) { requests_->set_values_in_place(in_place); }
void Batch::SetColumnsInPlace(bool in_place) { requests_->set_columns_in_place(in_place); }

std::size_t Batch::writes() const { return requests_->write_count(); }
std::size_t Batch::reads() const { return requests_->read_count(); }
std::size_t Batch::ranges() const { return requests_->range_count(); }
std::uint64_t Batch::bytes() const { return requests_->record_bytes(); }

Status::Code Batch::code(std::size_t i) const { return requests_->result(i).code; }
Slice Batch::value(std::size_t i) const {
  const batch::ReadResult result = requests_->result(i);
  return result.data == nullptr ? Slice() : Slice(result.data, result.bytes);  // to be compared
}

Status Batch::ValueOffsets(std::size_t first, std::size_t count, std::int32_t* offsets,
                           std::uint8_t* found) const {
  return base::or_memory_limit(
      [&] { return batch::value_offsets(*requests_, first, count, offsets, found); });
}
Status Batch::ValueOffsets(std::size_t first, std::size_t count, std::int64_t* offsets,
                           std::uint8_t* found) const {
  return base::or_memory_limit(
      [&] { return batch::value_offsets(*requests_, first, count, offsets, found); });
}
void Batch::CopyValues(std::size_t first, std::size_t count, const std::int32_t* offsets,
                       void* bytes) const {
  batch::copy_values(*requests_, first, count, offsets, static_cast<char*>(bytes));
}
void Batch::CopyValues(std::size_t first, std::size_t count, const std::int64_t* offsets,
                       void* bytes) const {
  batch::copy_values(*requests_, first, count, offsets, static_cast<char*>(bytes));
}

Status::Code Batch::range_code(std::size_t i) const { return requests_->range_result(i).code; }
std::size_t Batch::range_size(std::size_t i) const { return requests_->range_result(i).count; }
std::pair<Slice, Slice> Batch::range_entry(std::size_t i, std::size_t j) const {
  return batch::range_entry(requests_->range_result(i), j);
}

const std::uint64_t* Batch::range_pairs(std::size_t i) const {
  return range_size(i) == 0 ? nullptr : requests_->range_result(i).pairs;
}

Status Batch::RangeOffsets(std::size_t first, std::size_t count, std::int32_t* lists,
                           std::uint8_t* found) const {
  return base::or_memory_limit(
      [&] { return batch::range_offsets(*requests_, first, count, lists, found); });
}
Status Batch::RangeOffsets(std::size_t first, std::size_t count, std::int64_t* lists,
                           std::uint8_t* found) const {
  return base::or_memory_limit(
      [&] { return batch::range_offsets(*requests_, first, count, lists, found); });
}
Status Batch::EntryOffsets(std::size_t first, std::size_t count, const std::int32_t* lists,
                           std::int32_t* keys, std::int32_t* values) const {
  return base::or_memory_limit(
      [&] { return batch::entry_offsets(*requests_, first, count, lists, keys, values); });
}
Status Batch::EntryOffsets(std::size_t first, std::size_t count, const std::int64_t* lists,
                           std::int64_t* keys, std::int64_t* values) const {
  return base::or_memory_limit(
      [&] { return batch::entry_offsets(*requests_, first, count, lists, keys, values); });
}
Status Batch::CopyEntries(std::size_t first, std::size_t count, const std::int32_t* lists,
                          const BytesRoom& keys, const BytesRoom& values) const {
  return base::or_memory_limit(
      [&] { return batch::copy_entries(*requests_, first, count, lists, keys, values); });
}
Status Batch::CopyEntries(std::size_t first, std::size_t count, const std::int64_t* lists,
                          const BytesRoom& keys, const BytesRoom& values) const {
  return base::or_memory_limit(
      [&] { return batch::copy_entries(*requests_, first, count, lists, keys, values); });
}

void Batch::Clear() { requests_->clear(); }

}  // namespace breccia
