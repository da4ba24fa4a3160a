#include "ordered/read/tree_part.h"

#include <string>

#include "record/key_columns.h"

namespace breccia::ordered {

TreePart::TreePart(const Pin& pin, const FamilyView& family, const record::KeyColumnsRef& begins,
                   const residency::FileSet::Starts* starts)
    : pin_(pin), family_(family), begins_(begins), starts_(starts) {
  if (starts_ != nullptr) scan_.emplace(*family_.files);
}

void TreePart::begin(std::uint64_t i) {
  if (starts_ != nullptr) {
    // Ranges whose first bytes are on their way.
    constexpr std::uint64_t kBlocksAhead = 8;
    constexpr std::uint64_t kEntriesAhead = 3;
    if (i + kBlocksAhead < begins_.count) scan_->fetch_block(*starts_, i + kBlocksAhead);
    if (i + kEntriesAhead < begins_.count) scan_->fetch_entry(*starts_, i + kEntriesAhead);
    return scan_->begin(*starts_, i);
  }
  if (iterator_ == nullptr) {
    rocksdb::ReadOptions options;
    options.total_order_seek = true;
    iterator_ = pin_.view->below.iterate(options, family_.in_tree());
    if (iterator_ == nullptr) return;
  }
  std::string key(begins_.bytes_at(i), '\0');
  record::restore_key(begins_, i, key.data());
  iterator_->Seek(key);
}

}  // namespace breccia::ordered
