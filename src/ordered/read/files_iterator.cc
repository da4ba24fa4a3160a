#include "ordered/read/files_iterator.h"

#include <rocksdb/wide_columns.h>

#include <optional>
#include <string>
#include <utility>

#include "base/assert.h"
#include "base/limits.h"
#include "record/one_key.h"
#include "residency/scan.h"

namespace breccia::ordered {

namespace {

class FilesIterator final : public rocksdb::Iterator {
 public:
  FilesIterator(const residency::FileSet& files, const rocksdb::ReadOptions& options,
                MakeIterator below)
      : files_(files), scan_(files), make_below_(std::move(below)) {
    if (options.iterate_upper_bound != nullptr) end_ = *options.iterate_upper_bound;
  }

  [[nodiscard]] bool Valid() const override {
    return reads_files_ ? scan_.valid() : below_ != nullptr && below_->Valid();
  }
  [[nodiscard]] Slice key() const override { return reads_files_ ? scan_.key() : below_->key(); }
  [[nodiscard]] Slice value() const override {
    return reads_files_ ? scan_.value() : below_->value();
  }
  [[nodiscard]] const rocksdb::WideColumns& columns() const override {
    if (!reads_files_) return below_->columns();
    columns_ = {{rocksdb::kDefaultWideColumnName, value()}};
    return columns_;
  }
  [[nodiscard]] Status status() const override {
    return reads_files_ || below_ == nullptr ? Status::OK() : below_->status();
  }

  void SeekToFirst() override { Seek(Slice()); }
  void Seek(const Slice& target) override {
    reads_files_ = seek_in_files(target);
    if (!reads_files_) below().Seek(target);
  }
  void Next() override {
    BRECCIA_ASSERT(Valid());
    if (!reads_files_) return below_->Next();
    passed_.assign(scan_.key().data(), scan_.key().size());
    scan_.next();
    if (scan_.knows()) return;
    leave_files();
    if (below_->Valid() && below_->key() == passed_) below_->Next();
  }

  void SeekToLast() override {
    reads_files_ = false;
    below().SeekToLast();
  }
  void SeekForPrev(const Slice& target) override {
    reads_files_ = false;
    below().SeekForPrev(target);
  }
  void Prev() override {
    BRECCIA_ASSERT(Valid());
    if (reads_files_) {
      passed_.assign(scan_.key().data(), scan_.key().size());
      leave_files();
    }
    if (below_->Valid()) below_->Prev();
  }

 private:
  [[nodiscard]] bool seek_in_files(const Slice& target) {
    if (target.size() > limits::kKeyBytesMax) return false;
    const record::OneKey sought(target);
    const auto starts = files_.seek(sought.ref());
    if (!starts.ok()) return false;
    scan_.begin(*starts.value(), 0, target, end_);
    return scan_.knows();
  }
  /// RocksDB's stands at the key that was passed, then, which it has, too.
  void leave_files() {
    reads_files_ = false;
    below().Seek(passed_);
  }
  rocksdb::Iterator& below() {
    if (below_ == nullptr) below_ = make_below_();
    if (below_ == nullptr) below_.reset(rocksdb::NewEmptyIterator());
    return *below_;
  }

  const residency::FileSet& files_;
  residency::Scan scan_;
  const MakeIterator make_below_;
  std::optional<Slice> end_;
  bool reads_files_ = false;  // else below_ says, if there is one
  std::unique_ptr<rocksdb::Iterator> below_;
  std::string passed_;
  mutable rocksdb::WideColumns columns_;  // of the last call
};

}  // namespace

bool reads_files(const rocksdb::ReadOptions& options) {
  const bool has_time = options.deadline.count() == 0 && options.io_timeout.count() == 0;
  return options.read_tier == rocksdb::kReadAllTier && !options.table_filter && has_time &&
         options.timestamp == nullptr && options.iter_start_ts == nullptr &&
         options.readahead_size == 0 && !options.async_io &&
         options.max_skippable_internal_keys == 0 && !options.pin_data;
}

std::unique_ptr<rocksdb::Iterator> make_files_iterator(const residency::FileSet& files,
                                                       const rocksdb::ReadOptions& options,
                                                       MakeIterator below) {
  BRECCIA_ASSERT(files.host_reads() && reads_files(options));
  return std::make_unique<FilesIterator>(files, options, std::move(below));
}

}  // namespace breccia::ordered
