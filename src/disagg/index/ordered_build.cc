#include "disagg/index/ordered_build.h"

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/parallel.h"

namespace breccia::disagg {

namespace {

/// No more, so that places of all of them are near while keys are divided.
constexpr std::size_t kRangesMax = 2048;
/// Of each part of the keys so many are drawn: where a part has some thousand keys, ranges of few
/// are up to some two and a half times as long as others, and of a hundred million by half.
constexpr std::size_t kDrawn = 16;
/// Parts of the keys, each of which is divided by one thread.
constexpr std::size_t kSharesMax = 64;
/// Keys that are on their way into the cache while one goes into its page.
constexpr std::size_t kAhead = 12;

/// A key as it is compared: by its head, which are eight bytes behind those that all keys begin
/// with, and by all of it where these are equal.
struct Record {
  std::uint64_t head;
  LooseKeys::Ref key;
  friend bool operator<(const Record& one, const Record& other) {
    if (one.head != other.head) return one.head < other.head;
    return one.key.key() < other.key.key();
  }
};

Record record_of(const LooseKeys::Ref& ref, std::size_t common) {
  const std::string_view behind = ref.key().substr(common);
  const std::size_t bytes = std::min(behind.size(), sizeof(std::uint64_t));
  return {.head = base::load_big_endian(behind.data(), bytes), .key = ref};
}

/// Numbers of parts of about the same width that heads from `first` to `last` lie in.
class HeadParts {
 public:
  HeadParts() = default;
  /// Shape   first <= last, at least one part; twice as many as are wanted at the most.
  HeadParts(std::uint64_t first, std::uint64_t last, std::size_t wanted) : first_(first) {
    BRECCIA_ASSERT(first <= last && wanted > 0);
    const auto bits = static_cast<int>(std::bit_width(last - first));
    shift_ = std::max(0, bits - static_cast<int>(std::bit_width(wanted)));
    count_ = ((last - first) >> shift_) + 1;
  }
  [[nodiscard]] std::size_t count() const { return count_; }
  /// Of a head within them.
  [[nodiscard]] std::size_t of(std::uint64_t head) const { return (head - first_) >> shift_; }

 private:
  std::uint64_t first_ = 0;
  int shift_ = 0;
  std::size_t count_ = 1;
};

/// Puts them in their order: into parts by heads first, so that, where these are spread evenly,
/// most have none but their neighbours to be compared with. Where they are not it is std::sort's
/// time.
void sort(std::span<Record> records) {
  if (records.size() < 2) return;
  const auto by_head = [](const Record& one, const Record& other) { return one.head < other.head; };
  const auto [first, last] = std::minmax_element(records.begin(), records.end(), by_head);
  const HeadParts parts(first->head, last->head, records.size());
  std::vector<std::uint32_t> ends(parts.count() + 1);
  for (const Record& one : records) ++ends[parts.of(one.head) + 1];
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  const std::vector<Record> unsorted(records.begin(), records.end());
  for (const Record& one : unsorted) records[ends[parts.of(one.head)]++] = one;
  std::size_t begin = 0;
  for (std::size_t part = 0; part < parts.count(); ++part) {
    const std::size_t end = ends[part];
    if (end - begin > 1) std::sort(&records[begin], &records[begin] + (end - begin));
    begin = end;
  }
}

/// work(i) for each i, and no thread but this one if not shared.
template <class Work>
void for_each(std::size_t count, bool is_shared, const Work& work) {
  if (is_shared) return base::shared_for(std::size_t{0}, count, work);
  for (std::size_t i = 0; i < count; ++i) work(i);
}

template <class Work>
void each_key(const LooseKeys& keys, const Work& work) {
  LooseKeys::Ref ref = keys.first();
  for (std::size_t n = 0; n < keys.size(); ++n, ref = ref.next()) work(ref);
}

/// All keys, in ranges behind one another, each of which is sorted.
class Sorted {
 public:
  Sorted(const std::vector<LooseKeys>& keys, bool is_shared, std::size_t keys_of_range)
      : keys_(keys), is_shared_(is_shared) {
    BRECCIA_ASSERT(keys_of_range > 0);
    for (const LooseKeys& part : keys) count_ += part.size();
    find_common();
    draw_splitters(keys_of_range);
    divide();
  }
  [[nodiscard]] std::size_t ranges() const { return splitters_.size() + 1; }
  /// Once for each range.
  std::vector<BuiltPage> pages_of(std::size_t range);

 private:
  /// Parts of the keys.
  [[nodiscard]] std::span<const LooseKeys> share(std::size_t i) const {
    const std::size_t begin = i * keys_.size() / kSharesMax;
    return std::span(keys_).subspan(begin, (i + 1) * keys_.size() / kSharesMax - begin);
  }
  [[nodiscard]] std::size_t find_range(const Record& record) const;
  void find_common();
  void draw_splitters(std::size_t keys_of_range);
  void divide();

  const std::vector<LooseKeys>& keys_;
  const bool is_shared_;
  std::size_t count_ = 0;
  std::size_t common_ = 0;            // bytes that all keys begin with
  std::vector<Record> splitters_;     // the first keys of ranges but the first one
  std::vector<std::uint64_t> heads_;  // of these
  HeadParts parts_;                   // of the heads
  std::vector<std::uint32_t> first_;  // of each part, and one more: so many heads are before it
  std::unique_ptr<Record[]> records_;
  std::vector<std::size_t> ends_;  // of ranges
};

void Sorted::find_common() {
  const auto some = std::find_if(keys_.begin(), keys_.end(),
                                 [](const LooseKeys& part) { return part.size() > 0; });
  if (some == keys_.end()) return;
  const std::string_view one = some->first().key();
  std::array<std::size_t, kSharesMax> of_share;
  for_each(kSharesMax, is_shared_, [&](std::size_t i) {
    std::size_t common = one.size();
    for (const LooseKeys& part : share(i)) {
      LooseKeys::Ref ref = part.first();
      for (std::size_t n = 0; n < part.size() && common > 0; ++n, ref = ref.next()) {
        common = common_bytes(one.substr(0, common), ref.key());
      }
    }
    of_share[i] = common;
  });
  common_ = *std::min_element(of_share.begin(), of_share.end());
}

void Sorted::draw_splitters(std::size_t keys_of_range) {
  std::vector<Record> drawn;
  for (const LooseKeys& part : keys_) {
    LooseKeys::Ref ref = part.first();
    for (std::size_t n = 0; n < std::min(part.size(), kDrawn); ++n, ref = ref.next()) {
      drawn.push_back(record_of(ref, common_));
    }
  }
  sort(drawn);
  const std::size_t wanted = std::min({count_ / keys_of_range + 1, kRangesMax, drawn.size() + 1});
  for (std::size_t i = 1; i < wanted; ++i) splitters_.push_back(drawn[i * drawn.size() / wanted]);
  for (const Record& one : splitters_) heads_.push_back(one.head);
  if (heads_.empty()) return;
  parts_ = HeadParts(heads_.front(), heads_.back(), heads_.size());
  first_.resize(parts_.count() + 1);
  for (const std::uint64_t head : heads_) ++first_[parts_.of(head) + 1];
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
}

/// By heads, among few of them without a branch that nobody foresees, and by whole keys among
/// splitters that have the same head.
std::size_t Sorted::find_range(const Record& record) const {
  if (heads_.empty() || record.head < heads_.front()) return 0;
  if (record.head > heads_.back()) return heads_.size();
  const std::size_t part = parts_.of(record.head);
  std::size_t range = first_[part];
  for (std::size_t left = first_[part + 1] - range; left > 0;) {
    const std::size_t half = (left + 1) / 2;
    range += half * static_cast<std::size_t>(heads_[range + half - 1] < record.head);
    left -= half;
  }
  if (heads_[range] != record.head) return range;
  const auto from = splitters_.begin() + static_cast<std::ptrdiff_t>(range);
  return static_cast<std::size_t>(std::upper_bound(from, splitters_.end(), record) -
                                  splitters_.begin());
}

/// Each share counts its keys of each range, so that each knows where they go.
void Sorted::divide() {
  std::vector<std::vector<std::uint16_t>> range_of(kSharesMax);
  std::vector<std::vector<std::size_t>> at(kSharesMax, std::vector<std::size_t>(ranges()));
  for_each(kSharesMax, is_shared_, [&](std::size_t i) {
    std::size_t in_share = 0;
    for (const LooseKeys& part : share(i)) in_share += part.size();
    range_of[i].reserve(in_share);
    for (const LooseKeys& part : share(i)) {
      each_key(part, [&](const LooseKeys::Ref& ref) {
        const auto range = static_cast<std::uint16_t>(find_range(record_of(ref, common_)));
        range_of[i].push_back(range);
        ++at[i][range];
      });
    }
  });
  std::size_t end = 0;
  for (std::size_t range = 0; range < ranges(); ++range) {
    for (std::size_t i = 0; i < kSharesMax; ++i) end += std::exchange(at[i][range], end);
    ends_.push_back(end);
  }
  BRECCIA_ASSERT(end == count_);
  records_ = std::make_unique_for_overwrite<Record[]>(count_);
  for_each(kSharesMax, is_shared_, [&](std::size_t i) {
    std::size_t n = 0;
    for (const LooseKeys& part : share(i)) {
      each_key(part, [&](const LooseKeys::Ref& ref) {
        records_[at[i][range_of[i][n++]]++] = record_of(ref, common_);
      });
    }
  });
}

std::vector<BuiltPage> Sorted::pages_of(std::size_t range) {
  const std::size_t first = range == 0 ? 0 : ends_[range - 1];
  Record* const begin = &records_[first];
  Record* const all = begin + (ends_[range] - first);
  sort({begin, all});
  Record* const end = std::unique(begin, all, [](const Record& one, const Record& other) {
    return one.head == other.head && one.key.key() == other.key.key();
  });
  const std::span<const Record> sorted(begin, end);
  std::vector<BuiltPage> pages;
  std::vector<OrderedPage::Entry> entries;
  std::string_view before;
  std::size_t at = 0;
  for (const std::size_t page_end : ends_of_pages(sorted.size())) {
    entries.clear();
    for (; at < page_end; ++at) {
      if (at + kAhead < sorted.size()) sorted[at + kAhead].key.prefetch();
      entries.push_back({.key = sorted[at].key.key(), .word = sorted[at].key.slot()});
    }
    const std::string_view key = entries.front().key;
    pages.push_back({.separator = std::string(pages.empty() ? key : separator_of(before, key)),
                     .page = std::make_unique<OrderedPage>()});
    pages.back().page->pack(entries);
    before = entries.back().key;
  }
  return pages;
}

}  // namespace

std::string_view separator_of(std::string_view before, std::string_view behind) {
  BRECCIA_ASSERT(before < behind);
  return behind.substr(0, common_bytes(before, behind) + 1);
}

std::vector<std::size_t> ends_of_pages(std::size_t count) {
  const std::size_t pages = (count + OrderedPage::kKeysAtFirst - 1) / OrderedPage::kKeysAtFirst;
  std::vector<std::size_t> ends;
  for (std::size_t i = 1; i <= pages; ++i) ends.push_back(i * count / pages);
  return ends;
}

std::vector<BuiltPage> sorted_pages(const std::vector<LooseKeys>& keys, bool is_shared) {
  return sorted_pages(keys, is_shared, kKeysOfRange);
}

std::vector<BuiltPage> sorted_pages(const std::vector<LooseKeys>& keys, bool is_shared,
                                    std::size_t keys_of_range) {
  Sorted sorted(keys, is_shared, keys_of_range);
  std::vector<std::vector<BuiltPage>> of_range(sorted.ranges());
  for_each(of_range.size(), is_shared,
           [&](std::size_t range) { of_range[range] = sorted.pages_of(range); });
  std::vector<BuiltPage> all;
  for (std::vector<BuiltPage>& pages : of_range) {
    std::move(pages.begin(), pages.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace breccia::disagg
