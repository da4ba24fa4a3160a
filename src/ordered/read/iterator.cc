#include "ordered/read/iterator.h"

#include <rocksdb/db.h>
#include <rocksdb/slice_transform.h>

#include <algorithm>
#include <vector>

#include "ordered/read/files_iterator.h"
#include "ordered/read/versions.h"

/// Three layers:
///   EntryCursor  one source's entries, all versions: a memtable or an order
///   KeyCursor    one source's keys, each with its newest version that the pin sees
///   Merged       keys over all sources and the tree, resolved to values

namespace breccia::ordered {

namespace {

/// Entries of one source in run order.
class EntryCursor {
 public:
  virtual ~EntryCursor() = default;
  [[nodiscard]] virtual bool valid() const = 0;
  [[nodiscard]] virtual Slice key() const = 0;
  [[nodiscard]] virtual std::uint64_t payload() const = 0;
  /// To the first version of `key` below `bound`, or what comes behind it.
  virtual void seek(const Slice& key, std::uint64_t bound) = 0;
  virtual void seek_to_first() = 0;
  virtual void seek_to_last() = 0;
  virtual void next() = 0;
  virtual void prev() = 0;
};

class MemtableCursor final : public EntryCursor {
 public:
  explicit MemtableCursor(const memtable::HostMemtable& memtable) : at_(memtable) {}
  [[nodiscard]] bool valid() const override { return at_.valid(); }
  [[nodiscard]] Slice key() const override { return at_.key(); }
  [[nodiscard]] std::uint64_t payload() const override { return at_.payload(); }
  void seek(const Slice& key, std::uint64_t bound) override { at_.seek(key, bound); }
  void seek_to_first() override { at_.seek_to_first(); }
  void seek_to_last() override { at_.seek_to_last(); }
  void next() override { at_.next(); }
  void prev() override { at_.prev(); }

 private:
  memtable::HostMemtable::Cursor at_;
};

class OrderCursor final : public EntryCursor {
 public:
  OrderCursor(const Order& order, const wal::SegmentTable& table)
      : order_(order), table_(table), count_(order.count), at_(count_) {}
  [[nodiscard]] bool valid() const override { return at_ < count_; }
  [[nodiscard]] Slice key() const override { return key_; }
  [[nodiscard]] std::uint64_t payload() const override { return payload_; }
  void seek(const Slice& key, std::uint64_t bound) override {
    go(lower_bound(order_, table_, key, bound));
  }
  void seek_to_first() override { go(0); }
  void seek_to_last() override { go(count_ == 0 ? 0 : count_ - 1); }
  void next() override { go(at_ + 1); }
  void prev() override { go(at_ == 0 ? count_ : at_ - 1); }

 private:
  void go(std::uint64_t at) {
    at_ = at;
    if (!valid()) return;
    payload_ = order_.payload_at(at, table_);
    const std::byte* const record = table_.at(record::position_of(payload_));
    key_ = Slice(record::record_key(record), record::record_header(record).key_bytes());
  }

  const Order& order_;
  const wal::SegmentTable& table_;
  const std::uint64_t count_;
  std::uint64_t at_;
  std::uint64_t payload_ = 0;
  Slice key_;
};

/// The keys of one source that have a version below `bound`; payload() is the newest of those.
class KeyCursor {
 public:
  KeyCursor(std::unique_ptr<EntryCursor> entries, std::uint64_t bound)
      : entries_(std::move(entries)), bound_(bound) {}

  [[nodiscard]] bool valid() const { return entries_->valid(); }
  [[nodiscard]] Slice key() const { return entries_->key(); }
  [[nodiscard]] std::uint64_t payload() const { return entries_->payload(); }

  /// To the first key that is not before `key`.
  void seek(const Slice& key) {
    entries_->seek(key, bound_);
    settle_forward();
  }
  /// To the last key before `key`.
  void seek_before(const Slice& key) {
    entries_->seek(key, ~std::uint64_t{0});
    if (entries_->valid()) {
      entries_->prev();
    } else {
      entries_->seek_to_last();
    }
    settle_backward();
  }
  void seek_to_first() {
    entries_->seek_to_first();
    settle_forward();
  }
  void seek_to_last() {
    entries_->seek_to_last();
    settle_backward();
  }
  void next() {
    const Slice passed = entries_->key();  // lies in the log, so it stays
    do {
      entries_->next();
    } while (entries_->valid() && entries_->key() == passed);
    settle_forward();
  }
  void prev() {
    const Slice passed = entries_->key();
    do {
      entries_->prev();
    } while (entries_->valid() && entries_->key() == passed);
    settle_backward();
  }

 private:
  /// Versions are met newest first, so the first one below the bound is the newest.
  void settle_forward() {
    while (entries_->valid() && entries_->payload() >= bound_) entries_->next();
  }
  /// From a key's oldest version to its newest one below the bound, or to an earlier key.
  void settle_backward() {
    while (entries_->valid() && entries_->payload() >= bound_) entries_->prev();
    if (!entries_->valid()) return;
    const Slice key = entries_->key();
    while (true) {
      entries_->prev();
      if (!entries_->valid()) {
        entries_->seek_to_first();
      } else if (entries_->key() == key && entries_->payload() < bound_) {
        continue;
      } else {
        entries_->next();
      }
      break;
    }
    settle_forward();  // over what was inserted in front of the key meanwhile
  }

  std::unique_ptr<EntryCursor> entries_;
  std::uint64_t bound_;
};

class Merged final : public rocksdb::Iterator {
 public:
  Merged(const rocksdb::ReadOptions& options, const Pin& pin, const FamilyView& family,
         std::function<Pin()> repin)
      : options_(options), family_id_(family.id), repin_(std::move(repin)) {
    if (options.iterate_lower_bound != nullptr) {
      lower_bound_ = options.iterate_lower_bound->ToString();
      lower_slice_ = lower_bound_;
      options_.iterate_lower_bound = &lower_slice_;
    }
    if (options.iterate_upper_bound != nullptr) {
      upper_bound_ = options.iterate_upper_bound->ToString();
      upper_slice_ = upper_bound_;
      options_.iterate_upper_bound = &upper_slice_;
    }
    take(pin);
  }

  [[nodiscard]] bool Valid() const override { return valid_ && status_.ok(); }
  [[nodiscard]] Slice key() const override { return key_; }
  [[nodiscard]] Slice value() const override { return value_; }
  [[nodiscard]] const rocksdb::WideColumns& columns() const override {
    if (valid_ && payload_ == runs::kNotFound) return tree_->columns();  // RocksDB's entity, maybe
    columns_.clear();
    if (valid_) columns_.emplace_back(rocksdb::kDefaultWideColumnName, value_);
    return columns_;
  }
  [[nodiscard]] Status status() const override { return status_; }

  void SeekToFirst() override {
    begin_seek();
    if (options_.iterate_lower_bound != nullptr) {
      note_prefix(lower_slice_);
      seek_forward(lower_slice_);
      return;
    }
    for (KeyCursor& source : sources_) source.seek_to_first();
    if (tree_ != nullptr) tree_->SeekToFirst();
    find_forward();
    if (valid_) note_prefix(key_);
  }

  void SeekToLast() override {
    begin_seek();
    if (options_.iterate_upper_bound != nullptr) {
      note_prefix(upper_slice_);
      seek_backward(upper_slice_);
      return;
    }
    for (KeyCursor& source : sources_) source.seek_to_last();
    if (tree_ != nullptr) tree_->SeekToLast();
    find_backward();
    if (valid_) note_prefix(key_);
  }

  void Seek(const Slice& target) override {
    begin_seek();
    note_prefix(target);
    seek_forward(target);
  }

  void SeekForPrev(const Slice& target) override {
    begin_seek();
    note_prefix(target);
    // The last key that is not behind `target` comes before target + '\0'.
    std::string behind = target.ToString();
    behind.push_back('\0');
    seek_backward(behind);
  }

  void Next() override {
    if (!valid_) return refuse("Next");
    const std::string passed = std::move(key_);
    if (forward_) {
      for (KeyCursor& source : sources_) {
        if (source.valid() && source.key() == passed) source.next();
      }
      if (tree_ != nullptr && tree_->Valid() && tree_->key() == passed) tree_->Next();
    } else {
      // All sources stand at or before the key: each goes on to the first behind it.
      std::string behind = passed;
      behind.push_back('\0');
      for (KeyCursor& source : sources_) source.seek(behind);
      if (tree_ != nullptr) tree_->Seek(behind);
    }
    find_forward();
  }

  void Prev() override {
    if (!valid_) return refuse("Prev");
    if (options_.tailing) {
      status_ = Status::NotSupported("a tailing iterator goes forward only");
      return;
    }
    const std::string passed = std::move(key_);
    if (forward_) {
      for (KeyCursor& source : sources_) source.seek_before(passed);
      seek_tree_before(passed);
    } else {
      for (KeyCursor& source : sources_) {
        if (source.valid() && source.key() == passed) source.prev();
      }
      if (tree_ != nullptr && tree_->Valid() && tree_->key() == passed) tree_->Prev();
    }
    find_backward();
  }

  Status Refresh() override {
    if (!repin_) return Status::NotSupported("Refresh() of an iterator on a snapshot");
    valid_ = false;
    status_ = Status::OK();
    take(repin_());
    return status_;
  }

 private:
  /// RocksDB leaves open what this does. The next seek goes on.
  void refuse(const char* function) {
    if (status_.ok()) status_ = Status::InvalidArgument(function, "the iterator is at no entry");
  }

  void take(const Pin& pin) {
    tree_.reset();  // before what it reads
    sources_.clear();
    pin_ = pin;
    family_ = pin_.view->family(family_id_);
    if (family_ == nullptr) {
      status_ = Status::InvalidArgument("the column family was dropped");
      return;
    }
    covers_ = memtable::CoverCursor(family_->tombstones.get(), pin.visible);
    if (family_->active->count() > 0) {
      sources_.emplace_back(std::make_unique<MemtableCursor>(*family_->active), pin.visible);
    }
    family_->any_run([&](const MemRunPtr& run) {
      for (const Order& order : run->orders) {
        if (order.begin >= pin.visible) continue;
        sources_.emplace_back(std::make_unique<OrderCursor>(order, *pin_.view->table), pin.visible);
      }
      return false;
    });
    rocksdb::ReadOptions options = options_;
    options.tailing = false;
    options.prefix_same_as_start = false;  // looked after here, over all sources
    options.total_order_seek = true;
    options.ignore_range_deletions = false;  // single deletions are such in the tree
    const MakeIterator below = [this, options] {
      return pin_.view->below.iterate(options, family_->in_tree());
    };
    const residency::FileSet* const files = family_->files.get();
    const bool in_files = files != nullptr && family_->asks_tree() && files->host_reads();
    tree_ =
        in_files && reads_files(options) ? make_files_iterator(*files, options, below) : below();
  }

  void begin_seek() {
    if (options_.tailing && repin_) take(repin_());
    if (family_ != nullptr) status_ = Status::OK();
    valid_ = false;
    has_prefix_ = false;
  }

  /// For prefix_same_as_start: keys of other prefixes end the walk.
  void note_prefix(const Slice& target) {
    if (!options_.prefix_same_as_start || family_ == nullptr) return;
    extractor_ = pin_.view->below.db->GetOptions(family_->tree.get()).prefix_extractor;
    if (extractor_ == nullptr || !extractor_->InDomain(target)) return;
    prefix_ = extractor_->Transform(target).ToString();
    has_prefix_ = true;
  }

  void seek_forward(const Slice& target) {
    const bool too_low =
        options_.iterate_lower_bound != nullptr && target.compare(lower_slice_) < 0;
    const Slice from = too_low ? lower_slice_ : target;
    for (KeyCursor& source : sources_) source.seek(from);
    if (tree_ != nullptr) tree_->Seek(from);
    find_forward();
  }

  void seek_backward(const Slice& target) {
    const bool too_high =
        options_.iterate_upper_bound != nullptr && target.compare(upper_slice_) > 0;
    const Slice from = too_high ? upper_slice_ : target;
    for (KeyCursor& source : sources_) source.seek_before(from);
    seek_tree_before(from);
    find_backward();
  }

  void seek_tree_before(const Slice& key) {
    if (tree_ == nullptr) return;
    tree_->SeekForPrev(key);
    if (tree_->Valid() && tree_->key() == key) tree_->Prev();
  }

  /// From the sources' keys on, the first that has a value.
  void find_forward() {
    forward_ = true;
    while (choose([](const Slice& a, const Slice& b) { return a.compare(b) < 0; })) {
      if (resolve()) return;
      const std::string passed = std::move(key_);
      for (KeyCursor& source : sources_) {
        if (source.valid() && source.key() == passed) source.next();
      }
      if (tree_ == nullptr || !tree_->Valid() || tree_->key() != passed) continue;
      tree_->Next();
      if (const memtable::Cover& cover = covers_.at(passed); hides_tree(cover)) {
        tree_->Seek(cover.end);
      }
    }
  }

  void find_backward() {
    forward_ = false;
    while (choose([](const Slice& a, const Slice& b) { return a.compare(b) > 0; })) {
      if (resolve()) return;
      const std::string passed = std::move(key_);
      for (KeyCursor& source : sources_) {
        if (source.valid() && source.key() == passed) source.prev();
      }
      if (tree_ == nullptr || !tree_->Valid() || tree_->key() != passed) continue;
      tree_->Prev();
      if (const memtable::Cover& cover = covers_.at(passed); hides_tree(cover)) {
        seek_tree_before(cover.begin);
      }
    }
  }

  /// True if the tree's iterator stands in a stretch that a range deletion covers: nothing that the
  /// tree has there counts.
  [[nodiscard]] bool hides_tree(const memtable::Cover& cover) const {
    return cover.position != 0 && tree_->Valid() && cover.has(tree_->key());
  }

  /// Puts the key that comes first, by `before`, into key_, and what its newest source has into
  /// payload_. False at the end, or after an error.
  template <class Before>
  bool choose(const Before& before) {
    valid_ = false;
    Slice best;
    bool any = false;
    payload_ = runs::kNotFound;
    for (const KeyCursor& source : sources_) {  // newest first, so the first of equals stays
      if (!source.valid() || (any && !before(source.key(), best))) continue;
      best = source.key();
      payload_ = source.payload();
      any = true;
    }
    if (tree_ != nullptr && !tree_->Valid() && !tree_->status().ok()) status_ = tree_->status();
    if (tree_ != nullptr && tree_->Valid() && (!any || before(tree_->key(), best))) {
      best = tree_->key();
      payload_ = runs::kNotFound;
      any = true;
    }
    if (!any || !status_.ok() || !in_bounds(best)) return false;
    key_.assign(best.data(), best.size());
    return true;
  }

  [[nodiscard]] bool in_bounds(const Slice& key) const {
    if (options_.iterate_lower_bound != nullptr && key.compare(lower_slice_) < 0) return false;
    if (options_.iterate_upper_bound != nullptr && key.compare(upper_slice_) >= 0) return false;
    return !has_prefix_ ||
           (extractor_->InDomain(key) && extractor_->Transform(key) == Slice(prefix_));
  }

  /// The value of key_, if it has one: then the iterator is valid, or its status says what failed.
  bool resolve() {
    const std::uint64_t covered = covers_.at(key_).position;
    if (payload_ == runs::kNotFound && covered == 0) {
      value_.Reset();
      value_.PinSelf(tree_->value());
      valid_ = true;
      return true;
    }
    if (payload_ == runs::kNotFound) return false;  // a range deletion hides the tree's entry
    value_.Reset();
    const Status status =
        read_version(*pin_.view, *family_, key_, payload_, covered, &value_, /*from_tree=*/nullptr);
    if (status.IsNotFound()) return false;
    status_ = status;
    valid_ = status.ok();
    return true;
  }

  rocksdb::ReadOptions options_;
  const FamilyId family_id_;
  std::function<Pin()> repin_;
  std::string lower_bound_, upper_bound_;
  Slice lower_slice_, upper_slice_;
  bool has_prefix_ = false;
  std::string prefix_;
  std::shared_ptr<const rocksdb::SliceTransform> extractor_;

  Pin pin_;
  const FamilyView* family_ = nullptr;
  memtable::CoverCursor covers_;
  std::vector<KeyCursor> sources_;  // newest first
  std::unique_ptr<rocksdb::Iterator> tree_;

  bool forward_ = true;
  bool valid_ = false;
  std::string key_;
  std::uint64_t payload_ = 0;
  rocksdb::PinnableSlice value_;
  mutable rocksdb::WideColumns columns_;  // of the last call
  Status status_;
};

}  // namespace

std::unique_ptr<rocksdb::Iterator> make_iterator(const rocksdb::ReadOptions& options,
                                                 const Pin& pin, const FamilyView& family,
                                                 std::function<Pin()> repin) {
  return std::make_unique<Merged>(options, pin, family, std::move(repin));
}

}  // namespace breccia::ordered
