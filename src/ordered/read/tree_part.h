#pragma once

#include <rocksdb/iterator.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "ordered/state.h"
#include "record/columns.h"
#include "residency/scan.h"

namespace breccia::ordered {

/// The tree's entries of ranges: from files whose keys are resident, if somebody has seen where
/// they begin there; else from RocksDB.
/// Threads one owner.
class TreePart {
 public:
  /// `begins`: keys with which ranges begin; `starts`: where, in the family's files, or null.
  /// Owner   pin, family, begins and starts live longer.
  TreePart(const Pin& pin, const FamilyView& family, const record::KeyColumnsRef& begins,
           const residency::FileSet::Starts* starts);

  /// Goes to the first entry that is not below begin `i`.
  void begin(std::uint64_t i);
  [[nodiscard]] bool valid() const { return starts_ != nullptr ? scan_->valid() : valid_below(); }
  /// Shape   valid(). Until next(), begin() or seek().
  [[nodiscard]] Slice key() const { return starts_ != nullptr ? scan_->key() : iterator_->key(); }
  [[nodiscard]] Slice value() const {
    return starts_ != nullptr ? scan_->value() : iterator_->value();
  }
  void next() {
    if (starts_ != nullptr) return scan_->next();
    iterator_->Next();
  }
  /// Goes on to the first entry that is not below `key`.
  /// Shape   reads_below()
  void seek(const Slice& key) { iterator_->Seek(key); }

  /// True if RocksDB is read.
  [[nodiscard]] bool reads_below() const { return starts_ == nullptr; }
  /// False: files do not say all that the range has, and RocksDB is to be asked for it.
  [[nodiscard]] bool knows() const { return starts_ == nullptr || scan_->knows(); }
  [[nodiscard]] Status status() const {
    return iterator_ == nullptr ? Status::OK() : iterator_->status();
  }

 private:
  [[nodiscard]] bool valid_below() const { return iterator_ != nullptr && iterator_->Valid(); }

  const Pin& pin_;
  const FamilyView& family_;
  const record::KeyColumnsRef begins_;
  const residency::FileSet::Starts* const starts_;
  std::optional<residency::Scan> scan_;
  std::unique_ptr<rocksdb::Iterator> iterator_;  // null: not begun, or the tree is empty
};

}  // namespace breccia::ordered
