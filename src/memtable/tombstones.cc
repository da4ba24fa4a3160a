#include "memtable/tombstones.h"

#include <algorithm>

#include "base/assert.h"
#include "base/bytes.h"

namespace breccia::memtable {

namespace {

/// A set is joined with one behind it unless it is more than this many times as large.
constexpr std::size_t kGrowth = 8;

bool not_ascending(const Tombstone& a, const Tombstone& b) { return a.position >= b.position; }

/// What two covers say of the keys that lie in both, where `position` is what counts.
Cover narrowed(const Cover& a, const Cover& b, std::uint64_t position) {
  Cover both{position, a.begin.compare(b.begin) >= 0 ? a.begin : b.begin, {}, false};
  if (a.has_end || b.has_end) {
    const bool is_first = a.has_end && (!b.has_end || a.end.compare(b.end) <= 0);
    both.end = is_first ? a.end : b.end;
    both.has_end = true;
  }
  return both;
}

}  // namespace

TombstoneSet::TombstoneSet(std::vector<Tombstone> ascending) : all_(std::move(ascending)) {
  BRECCIA_ASSERT(!all_.empty());
  BRECCIA_ASSERT(all_.size() < std::uint32_t{1} << 31);
  BRECCIA_INVARIANT(std::adjacent_find(all_.begin(), all_.end(), not_ascending) == all_.end());
}

/// Calls note(node) for the nodes that together make up the stretches [first, second).
template <class Note>
void TombstoneSet::for_each_node(const std::pair<std::size_t, std::size_t>& stretches,
                                 const Note& note) const {
  const std::size_t count = edges_.size() - 1;
  std::size_t first = stretches.first + count;
  std::size_t last = stretches.second + count;
  for (; first < last; first /= 2, last /= 2) {
    if (first % 2 == 1) note(first++);
    if (last % 2 == 1) note(--last);
  }
}

void TombstoneSet::build() const {
  const Slice& first = all_.front().begin;
  shared_bytes_ = first.size();
  for (const Tombstone& one : all_) {
    BRECCIA_ASSERT(one.begin.compare(one.end) < 0);
    shared_bytes_ = std::min(shared_bytes_, first.difference_offset(one.begin));
    shared_bytes_ = std::min(shared_bytes_, first.difference_offset(one.end));
  }
  struct Edge {
    std::uint64_t word;
    Slice key;
  };
  std::vector<Edge> edges;
  edges.reserve(2 * all_.size());
  for (const Tombstone& one : all_) {
    for (const Slice& key : {one.begin, one.end}) edges.push_back({word_of(key), key});
  }
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) {
    return a.word != b.word ? a.word < b.word : a.key.compare(b.key) < 0;
  });
  const auto same = [](const Edge& a, const Edge& b) { return a.word == b.word && a.key == b.key; };
  edges.erase(std::unique(edges.begin(), edges.end(), same), edges.end());
  words_.reserve(edges.size());
  edges_.reserve(edges.size());
  for (const Edge& edge : edges) {
    words_.push_back(edge.word);
    edges_.push_back(edge.key);
  }
  build_tree();
}

void TombstoneSet::build_tree() const {
  BRECCIA_ASSERT(edges_.size() >= 2 && words_.size() == edges_.size());
  const std::size_t count = edges_.size() - 1;
  std::uint64_t probes = 0;
  std::vector<std::pair<std::size_t, std::size_t>> stretches;
  stretches.reserve(all_.size());
  std::vector<std::uint32_t> begins(2 * count + 2, 0);
  for (const Tombstone& one : all_) {
    stretches.emplace_back(edges_up_to(one.begin, &probes) - 1, edges_up_to(one.end, &probes) - 1);
    for_each_node(stretches.back(), [&](std::size_t node) { ++begins[node + 1]; });
  }
  for (std::size_t node = 1; node < begins.size(); ++node) begins[node] += begins[node - 1];
  positions_.resize(begins.back());
  node_begins_ = begins;
  // In the order of positions, so that they ascend at each node.
  for (std::size_t i = 0; i < all_.size(); ++i) {
    for_each_node(stretches[i],
                  [&](std::size_t node) { positions_[begins[node]++] = all_[i].position; });
  }
  // From the root down, what is noted above a node counts at it, too.
  std::vector<std::uint64_t> newest(2 * count, 0);
  for (std::size_t node = 1; node < newest.size(); ++node) {
    const bool has_own = node_begins_[node] != node_begins_[node + 1];
    newest[node] = std::max(newest[node / 2], has_own ? positions_[node_begins_[node + 1] - 1] : 0);
  }
  newest_.assign(newest.begin() + static_cast<std::ptrdiff_t>(count), newest.end());
}

/// The first bytes of `key`, which begins as all edges do, that they do not share.
std::uint64_t TombstoneSet::word_of(const Slice& key) const {
  const char* const from = key.data() + shared_bytes_;
  const std::size_t bytes = key.size() - shared_bytes_;
  return bytes >= 8 ? base::load_big_endian_8(from) : base::load_big_endian(from, bytes);
}

std::size_t TombstoneSet::edges_up_to(const Slice& key, std::uint64_t* probes) const {
  ++*probes;
  const Slice shared(edges_.front().data(), shared_bytes_);
  const int order = Slice(key.data(), std::min(key.size(), shared_bytes_)).compare(shared);
  if (order != 0) return order < 0 ? 0 : edges_.size();
  const std::uint64_t word = word_of(key);
  std::size_t low = 0;
  std::size_t high = edges_.size();
  while (low < high) {
    ++*probes;
    const std::size_t middle = low + (high - low) / 2;
    const bool is_behind =
        words_[middle] != word ? word < words_[middle] : key.compare(edges_[middle]) < 0;
    low = is_behind ? low : middle + 1;
    high = is_behind ? middle : high;
  }
  return low;
}

std::uint64_t TombstoneSet::newest_at(std::size_t stretch, std::uint64_t bound,
                                      std::uint64_t* probes) const {
  ++*probes;
  if (newest_[stretch] < bound) return newest_[stretch];
  std::uint64_t newest = 0;
  for (std::size_t node = stretch + newest_.size(); node > 0; node /= 2) {
    ++*probes;
    const std::uint64_t* const begin = positions_.data() + node_begins_[node];
    const std::uint64_t* const end = positions_.data() + node_begins_[node + 1];
    if (begin == end || end[-1] <= newest) continue;
    const std::uint64_t* const at = end[-1] < bound ? end : std::lower_bound(begin, end, bound);
    if (at != begin) newest = std::max(newest, at[-1]);
  }
  return newest;
}

std::uint64_t TombstoneSet::covering(const Slice& key, std::uint64_t bound,
                                     std::uint64_t* probes) const {
  std::call_once(built_, [this] { build(); });
  const std::size_t behind = edges_up_to(key, probes);
  if (behind == 0 || behind == edges_.size()) return 0;
  return newest_at(behind - 1, bound, probes);
}

Cover TombstoneSet::cover(const Slice& key, std::uint64_t bound) const {
  std::call_once(built_, [this] { build(); });
  std::uint64_t probes = 0;
  const std::size_t behind = edges_up_to(key, &probes);
  if (behind == 0) return {0, {}, edges_.front(), true};
  if (behind == edges_.size()) return {0, edges_.back(), {}, false};
  return {newest_at(behind - 1, bound, &probes), edges_[behind - 1], edges_[behind], true};
}

Tombstones::Tombstones(Sets sets) : sets_(std::move(sets)) {
  for (std::size_t i = 0; i < sets_.size(); ++i) {
    size_ += sets_[i]->size();
    BRECCIA_ASSERT(i == 0 || sets_[i - 1]->newest() < sets_[i]->all().front().position);
  }
}

TombstonesPtr Tombstones::with(const TombstonesPtr& before, std::vector<Tombstone> added) {
  if (added.empty()) return before;
  Sets sets = before == nullptr ? Sets() : before->sets_;
  std::size_t joined = added.size();
  auto first = sets.end();
  while (first != sets.begin() && (*std::prev(first))->size() <= kGrowth * joined) {
    joined += (*--first)->size();
  }
  std::vector<Tombstone> all;
  all.reserve(joined);
  for (auto set = first; set != sets.end(); ++set) {
    all.insert(all.end(), (*set)->all().begin(), (*set)->all().end());
  }
  all.insert(all.end(), added.begin(), added.end());
  sets.erase(first, sets.end());
  sets.push_back(std::make_shared<const TombstoneSet>(std::move(all)));
  return TombstonesPtr(new Tombstones(std::move(sets)));
}

TombstonesPtr Tombstones::from(const TombstonesPtr& all, std::uint64_t position) {
  if (all == nullptr) return nullptr;
  Sets newer;
  for (const auto& set : all->sets_) {
    if (set->newest() < position) continue;
    const auto first = set->first_from(position);
    const bool whole = first == set->all().begin();
    newer.push_back(whole ? set
                          : std::make_shared<const TombstoneSet>(
                                std::vector<Tombstone>(first, set->all().end())));
  }
  if (newer.empty()) return nullptr;
  return TombstonesPtr(new Tombstones(std::move(newer)));
}

std::uint64_t Tombstones::covering(const Slice& key, std::uint64_t bound) const {
  std::uint64_t probes = 0;
  return covering(key, bound, &probes);
}

std::uint64_t Tombstones::covering(const Slice& key, std::uint64_t bound,
                                   std::uint64_t* probes) const {
  for (auto set = sets_.rbegin(); set != sets_.rend(); ++set) {
    const std::uint64_t position = (*set)->covering(key, bound, probes);
    if (position != 0) return position;
  }
  return 0;
}

Cover Tombstones::cover(const Slice& key, std::uint64_t bound) const {
  Cover cover;
  for (auto set = sets_.rbegin(); set != sets_.rend(); ++set) {
    const Cover own = (*set)->cover(key, bound);
    cover = narrowed(cover, own, own.position);
    if (own.position != 0) break;
  }
  return cover;
}

std::vector<std::pair<Slice, Slice>> Tombstones::covered_ranges(std::uint64_t bound) const {
  std::vector<std::pair<Slice, Slice>> ranges;
  for_each(0, [&](const Tombstone& one) {
    if (one.position < bound) ranges.emplace_back(one.begin, one.end);
    return true;
  });
  std::sort(ranges.begin(), ranges.end(),
            [](const auto& a, const auto& b) { return a.first.compare(b.first) < 0; });
  std::size_t last = 0;
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].first.compare(ranges[last].second) > 0) {
      ranges[++last] = ranges[i];
    } else if (ranges[i].second.compare(ranges[last].second) > 0) {
      ranges[last].second = ranges[i].second;
    }
  }
  if (!ranges.empty()) ranges.resize(last + 1);
  return ranges;
}

}  // namespace breccia::memtable
