#include "bench/engines/request_columns.h"

#include <algorithm>

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

Status RequestColumns::add_to(Batch* first, Batch* second) {
  BRECCIA_TRY(puts_.put_into(first));
  if (deletes_.count() > 0) BRECCIA_TRY(first->Delete(kDefaultFamily, deletes_.column()));
  if (merges_.keys.count() > 0) {
    BRECCIA_TRY(first->Merge(kDefaultFamily, merges_.keys.column(), merges_.values.column()));
  }
  if (lookups_.count() > 0) {
    // One byte more: values of no bytes have an address, too.
    found_values_.resize(std::max(found_values_.size(), lookups_.count() * value_size_ + 1));
    found_.resize(std::max(found_.size(), lookups_.count()));
    BRECCIA_TRY(first->Get(kDefaultFamily, lookups_.column(),
                           {.values = found_values_.data(),
                            .width = value_size_,
                            .stride = static_cast<std::ptrdiff_t>(value_size_),
                            .found = found_.data()}));
  }
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
}

}  // namespace breccia::bench
