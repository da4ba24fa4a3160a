#include "ordered/read/tree_part.h"

#include "record/key_columns.h"

namespace breccia::ordered {

namespace {

void restore(const record::KeyColumnsRef& keys, std::uint64_t i, std::string* key) {
  key->resize(keys.bytes_at(i));
  record::restore_key(keys, i, key->data());
}

}  // namespace

TreePart::TreePart(const Pin& pin, const FamilyView& family, const record::KeyColumnsRef& begins,
                   const record::KeyColumnsRef& ends, const residency::FileSet::Starts* starts)
    : pin_(pin), family_(family), begins_(begins), ends_(ends), starts_(starts) {
  if (starts_ != nullptr) scan_.emplace(*family_.files);
}

void TreePart::begin(std::uint64_t i, std::uint64_t entries) {
  restore(begins_, i, &begin_);
  restore(ends_, i, &end_);
  reads_files_ = starts_ != nullptr;
  if (!reads_files_) return begin_below();
  // Ranges whose first bytes are on their way.
  constexpr std::uint64_t kBlocksAhead = 8;
  constexpr std::uint64_t kEntriesAhead = 3;
  if (i + kBlocksAhead < begins_.count) {
    scan_->fetch_block(*starts_, i + kBlocksAhead, entries);
  }
  if (i + kEntriesAhead < begins_.count) scan_->fetch_entry(*starts_, i + kEntriesAhead);
  scan_->begin(*starts_, i, begin_, Slice(end_));
}

void TreePart::begin_below() {
  reads_files_ = false;
  bound_ = end_;
  if (iterator_ == nullptr) {
    rocksdb::ReadOptions options;
    options.total_order_seek = true;
    options.iterate_upper_bound = &bound_;
    iterator_ = pin_.view->below.iterate(options, family_.in_tree());
    if (iterator_ == nullptr) return;
  }
  iterator_->Seek(begin_);
}

}  // namespace breccia::ordered
