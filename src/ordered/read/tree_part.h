#pragma once

#include <rocksdb/iterator.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/assert.h"
#include "ordered/state.h"
#include "record/columns.h"
#include "residency/scan.h"

namespace breccia::ordered {

/// The tree's entries of ranges: from files whose keys are resident, if somebody has seen where
/// they begin there; else from RocksDB.
/// Threads one owner.
class TreePart {
 public:
  /// `begins` and `ends`: keys with which ranges begin, and before which they end; `starts`: where
  /// they begin in the family's files, or null.
  /// Owner   pin, family, keys and starts live longer.
  TreePart(const Pin& pin, const FamilyView& family, const record::KeyColumnsRef& begins,
           const record::KeyColumnsRef& ends, const residency::FileSet::Starts* starts);
  TreePart(const TreePart&) = delete;
  TreePart& operator=(const TreePart&) = delete;

  /// Goes to the first entry of range `i`, which files have if they can, and of which so many are
  /// wanted, as of those behind it.
  void begin(std::uint64_t i, std::uint64_t entries);
  /// The same, of RocksDB, where files do not know it.
  void begin_below();
  [[nodiscard]] bool valid() const {
    return reads_files_
               ? scan_->valid()
               : iterator_ != nullptr && iterator_->Valid() && iterator_->key().compare(bound_) < 0;
  }
  /// Shape   valid(). Until next(), begin() or seek().
  [[nodiscard]] Slice key() const { return reads_files_ ? scan_->key() : iterator_->key(); }
  [[nodiscard]] Slice value() const { return reads_files_ ? scan_->value() : iterator_->value(); }
  void next() {
    if (reads_files_) return scan_->next();
    iterator_->Next();
  }
  /// As Scan::take_pairs; none of what RocksDB reads.
  std::uint32_t take_pairs(std::uint32_t limit, std::uint64_t* pairs) {
    return reads_files_ ? scan_->take_pairs(limit, pairs) : 0;
  }
  /// Goes on to the first entry that is not below `key`.
  /// Shape   RocksDB is read.
  void seek(const Slice& key) {
    BRECCIA_ASSERT(!reads_files_);
    iterator_->Seek(key);
  }

  /// False: files do not say all that the range has.
  [[nodiscard]] bool knows() const { return !reads_files_ || scan_->knows(); }
  [[nodiscard]] Status status() const {
    return reads_files_ || iterator_ == nullptr ? Status::OK() : iterator_->status();
  }

 private:
  const Pin& pin_;
  const FamilyView& family_;
  const record::KeyColumnsRef begins_;
  const record::KeyColumnsRef ends_;
  const residency::FileSet::Starts* const starts_;
  std::string begin_;
  std::string end_;
  Slice bound_;  // end_, as the iterator has it, which looks at it when it is sought
  bool reads_files_ = false;
  std::optional<residency::Scan> scan_;
  std::unique_ptr<rocksdb::Iterator> iterator_;  // null: not begun, or the tree is empty
};

}  // namespace breccia::ordered
