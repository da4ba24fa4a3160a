#include "bench/engines/request_columns.h"

#include <cstring>

#include "base/result.h"
#include "bench/engines/engine.h"

namespace breccia::bench {

// A string of no bytes has an address, too.
ByteArray::ByteArray() : offsets_{0} { bytes_.reserve(kKeySizeMax); }

void ByteArray::add(const Slice& string) {
  one_size_ = one_size_ && (count() == 0 || std::int64_t(string.size()) == offsets_[1]);
  bytes_.insert(bytes_.end(), string.data(), string.data() + string.size());
  offsets_.push_back(static_cast<std::int64_t>(bytes_.size()));
}

void ByteArray::clear() {
  bytes_.clear();
  offsets_.resize(1);
  one_size_ = true;
}

BytesColumn ByteArray::column() const {
  BRECCIA_ASSERT(count() > 0);
  if (!one_size_) return BytesColumn::Variable(bytes_.data(), offsets_.data(), count());
  return BytesColumn::Fixed(bytes_.data(), count(), static_cast<std::size_t>(offsets_[1]));
}

void RequestColumns::Writes::add(const Request& request) {
  keys.add(request.key);
  values.add(request.value);
}

Status RequestColumns::Writes::put_into(Batch* batch) const {
  if (keys.count() == 0) return Status();
  return batch->Put(kDefaultFamily, keys.column(), values.column());
}

void RequestColumns::add(const Request& request) {
  switch (request.kind) {
    case Kind::kUpdate:
    case Kind::kInsert:
      return puts_.add(request);
    case Kind::kDelete:
      return deletes_.add(request.key);
    case Kind::kMerge:
      return merges_.add(request);
    case Kind::kScan:
      scan_entries_.push_back(request.scan_entries);
      return scans_.add(request.key);
    case Kind::kReadModifyWrite:
      later_puts_.add(request);
      return lookups_.add(request.key);
    case Kind::kGet:
      return lookups_.add(request.key);
  }
}

bool RequestColumns::takes(const RequestArrays* arrays) {
  return arrays != nullptr && arrays->is_uniform && arrays->kind != Kind::kScan &&
         arrays->kind != Kind::kReadModifyWrite;
}

void RequestColumns::take(const RequestArrays& arrays, std::uint64_t first, std::uint32_t count) {
  BRECCIA_ASSERT(takes(&arrays));
  const auto column = [&](const char* bytes, std::size_t size) {
    return BytesColumn::Fixed(bytes + first * size, bytes == nullptr ? 0 : count, size);
  };
  taken_ = Taken{arrays.kind, column(arrays.keys, arrays.key_stride),
                 column(arrays.values, arrays.value_size)};
}

Status RequestColumns::add_taken(Batch* batch) {
  switch (taken_->kind) {
    case Kind::kGet:
      return look_up(taken_->keys, batch);
    case Kind::kDelete:
      return batch->Delete(kDefaultFamily, taken_->keys);
    case Kind::kMerge:
      return batch->Merge(kDefaultFamily, taken_->keys, taken_->values);
    default:
      return batch->Put(kDefaultFamily, taken_->keys, taken_->values);
  }
}

Status RequestColumns::look_up(const BytesColumn& keys, Batch* batch) {
  if (keys.count() > found_room_) {
    // One byte more: values of no bytes have an address, too.
    const std::uint64_t bytes = keys.count() * (1 + value_size_) + 1;
    BRECCIA_TAKE(found_, pmem::PageMemory::allocate_huge(bytes));
    std::memset(found_->data(), 0, bytes);  // a client's pages are there
    found_room_ = keys.count();
  }
  auto* const found = reinterpret_cast<std::uint8_t*>(found_->data());
  return batch->Get(kDefaultFamily, keys,
                    {.values = found + found_room_,
                     .width = value_size_,
                     .stride = static_cast<std::ptrdiff_t>(value_size_),
                     .found = found});
}

Status RequestColumns::add_to(Batch* first, Batch* second) {
  if (taken_.has_value()) return add_taken(first);
  BRECCIA_TRY(puts_.put_into(first));
  if (deletes_.count() > 0) BRECCIA_TRY(first->Delete(kDefaultFamily, deletes_.column()));
  if (merges_.keys.count() > 0) {
    BRECCIA_TRY(first->Merge(kDefaultFamily, merges_.keys.column(), merges_.values.column()));
  }
  if (lookups_.count() > 0) BRECCIA_TRY(look_up(lookups_.column(), first));
  if (scans_.count() > 0) {
    const Slice end = scan_end();
    BRECCIA_TRY(first->Range(kDefaultFamily, scans_.column(),
                             BytesColumn::Fixed(end.data(), scans_.count(), end.size(), 0),
                             scan_entries_));
  }
  return later_puts_.put_into(second);
}

void RequestColumns::clear() {
  for (Writes* const writes : {&puts_, &later_puts_, &merges_}) {
    writes->keys.clear();
    writes->values.clear();
  }
  for (ByteArray* const keys : {&deletes_, &lookups_, &scans_}) keys->clear();
  scan_entries_.clear();
  taken_.reset();
}

}  // namespace breccia::bench
