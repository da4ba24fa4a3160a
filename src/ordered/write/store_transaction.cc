#include "ordered/write/store_transaction.h"

#include "base/memory.h"
#include "batch/requests.h"
#include "record/key_columns.h"

namespace breccia::ordered {

namespace {

std::string key_at(const record::KeyColumnsRef& keys, std::uint64_t i) {
  std::string key(keys.bytes_at(i), '\0');
  record::restore_key(keys, i, key.data());
  return key;
}

/// What range `i` has looked at: all of it, or up to its last entry if its limit ended it.
ReadSet::Range looked_at(const batch::Ranges& ranges, std::uint64_t i, std::uint64_t since) {
  ReadSet::Range range{ranges.family(), key_at(ranges.begin(), i), key_at(ranges.end(), i),
                       /*is_open=*/false, since};
  const batch::RangeResult& found = ranges.results()[i];
  if (found.count > 0 && found.count == ranges.limits()[i]) {
    const Slice last = batch::range_entry(found, found.count - 1).first;
    range.end.assign(last.data(), last.size());
    range.end.push_back('\0');
  }
  return range;
}

Status closed() {
  return Status::InvalidArgument("the transaction was closed", "open another one");
}

}  // namespace

Status StoreTransaction::Read(Batch* reads) {
  if (!is_open_) return closed();
  if (reads->writes() > 0) {
    return Status::InvalidArgument("writes among what a transaction reads before it closes",
                                   "add them to its batch()");
  }
  return base::or_memory_limit([&] {
    reads_.reserve(reads_.size() + 1);  // what was read must be known when it closes
    BRECCIA_TRY(lookups_->read(pin_, &reads->requests()));
    reads_.push_back(reads);
    return Status::OK();
  });
}

ReadSet StoreTransaction::read_set() const {
  ReadSet set;
  for (Batch* const batch : reads_) {
    for (const auto& reads : batch->requests().reads()) {
      if (reads->count() > 0) {
        set.keys.push_back({reads->family(), reads->keys(), nullptr, pin_.visible});
      }
    }
    for (const auto& ranges : batch->requests().ranges()) {
      for (std::uint64_t i = 0; i < ranges->count(); ++i) {
        set.ranges.push_back(looked_at(*ranges, i, pin_.visible));
      }
    }
  }
  return set;
}

Status StoreTransaction::Close(const WriteOptions& options) {
  if (!is_open_) return closed();
  is_open_ = false;
  Status status = base::or_memory_limit([&] {
    const ReadSet reads = read_set();
    pin_ = {};  // the history is enough to validate
    return writer_->submit(options, reads, &batch_.requests());
  });
  pin_ = {};
  reads_.clear();
  history_.release();
  return status;
}

}  // namespace breccia::ordered
