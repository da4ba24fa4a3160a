#include "facade/txn/read_tracker.h"

#include <algorithm>
#include <optional>

#include "base/limits.h"

namespace breccia::facade {

bool OwnedReadSet::add(const txn::TrackedKeys& keys) {
  for (const auto& [family, tracked] : keys.families()) {
    Columns& columns = columns_.emplace_back();
    for (const auto& [key, how] : tracked) {
      if (key.size() > limits::kKeyBytesMax) continue;
      if (!columns.keys.append(key.data(), key.size())) {
        return false;
      }
      columns.since.push_back(how.since);
    }
    if (columns.since.empty()) continue;
    set_.keys.push_back({family, columns.keys.ref(), columns.since.data(), 0});
  }
  return true;
}

void ReadTracker::Range::include(const Slice& key) {
  reach_down(key);
  reach_up(key.ToString() + '\0');  // the next key behind it
}

void ReadTracker::Range::reach_down(const Slice& bound) {
  if (bound.compare(begin) < 0) begin.assign(bound.data(), bound.size());
}

void ReadTracker::Range::reach_up(const Slice& bound) {
  if (bound.compare(end) > 0) end.assign(bound.data(), bound.size());
}

std::shared_ptr<ReadTracker::Range> ReadTracker::begin_range(FamilyId family, std::uint64_t since,
                                                             const Slice& bound) {
  auto range = std::make_shared<Range>(Range{family, since, bound.ToString(), bound.ToString()});
  ranges_.push_back(range);
  return range;
}

bool ReadTracker::add_to(OwnedReadSet* set) const {
  if (!set->add(keys_)) return false;
  for (const auto& range : ranges_) {
    set->add({range->family, range->begin, range->end, range->is_open, range->since});
  }
  return true;
}

void ReadTracker::clear() {
  keys_.clear();
  ranges_.clear();
}

namespace {

/// Notes, at each move, the stretch from where it began to where it ended. Where the base found
/// nothing any more it has looked at everything up to its bound.
class TrackingIterator final : public rocksdb::Iterator {
 public:
  TrackingIterator(std::unique_ptr<rocksdb::Iterator> base, const Slice* lower, const Slice* upper,
                   FamilyId family, std::uint64_t since, ReadTracker* tracker)
      : base_(std::move(base)),
        lower_(lower == nullptr ? "" : lower->ToString()),
        family_(family),
        since_(since),
        tracker_(tracker) {
    if (upper != nullptr) upper_ = upper->ToString();
  }

  [[nodiscard]] bool Valid() const override { return base_->Valid(); }
  [[nodiscard]] Slice key() const override { return base_->key(); }
  [[nodiscard]] Slice value() const override { return base_->value(); }
  [[nodiscard]] Status status() const override { return base_->status(); }
  Status GetProperty(std::string name, std::string* value) override {
    return base_->GetProperty(std::move(name), value);
  }

  void SeekToFirst() override {
    base_->SeekToFirst();
    begin(lower_);
    note(/*forward=*/true);
  }
  void SeekToLast() override {
    base_->SeekToLast();
    // Without a bound the range has no end, and begins at what was found.
    begin(upper_.has_value() ? Slice(*upper_) : base_->Valid() ? base_->key() : Slice(lower_));
    range_->is_open = !upper_.has_value();
    note(/*forward=*/false);
  }
  void Seek(const Slice& target) override {
    base_->Seek(target);
    begin(std::max(target.ToString(), lower_));
    note(/*forward=*/true);
  }
  void SeekForPrev(const Slice& target) override {
    base_->SeekForPrev(target);
    begin(target);
    range_->include(target);
    note(/*forward=*/false);
  }
  void Next() override {
    base_->Next();
    note(/*forward=*/true);
  }
  void Prev() override {
    base_->Prev();
    note(/*forward=*/false);
  }

 private:
  void begin(const Slice& from) { range_ = tracker_->begin_range(family_, since_, from); }

  void note(bool forward) {
    if (range_ == nullptr) return;
    if (base_->Valid()) {
      range_->include(base_->key());
    } else if (!forward) {
      range_->reach_down(lower_);
    } else if (upper_.has_value()) {
      range_->reach_up(*upper_);
    } else {
      range_->is_open = true;
    }
  }

  const std::unique_ptr<rocksdb::Iterator> base_;
  const std::string lower_;
  std::optional<std::string> upper_;
  const FamilyId family_;
  const std::uint64_t since_;
  ReadTracker* const tracker_;
  std::shared_ptr<ReadTracker::Range> range_;  // that of the last seek
};

}  // namespace

rocksdb::Iterator* make_tracking_iterator(std::unique_ptr<rocksdb::Iterator> base,
                                          const Slice* lower, const Slice* upper, FamilyId family,
                                          std::uint64_t since, ReadTracker* tracker) {
  return new TrackingIterator(std::move(base), lower, upper, family, since, tracker);
}

}  // namespace breccia::facade
