#include "memtable/tombstones.h"

#include <algorithm>

#include "base/bytes.h"

namespace breccia::memtable {

namespace {

/// A set is joined with one behind it unless it is more than this many times as large.
constexpr std::size_t kGrowth = 8;

std::uint64_t word_of(const Slice& key) {
  return key.size() >= 8 ? base::load_big_endian_8(key.data())
                         : base::load_big_endian(key.data(), key.size());
}

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
  const auto less = [](const Edge& a, const Edge& b) {
    return a.word != b.word ? a.word < b.word : a.key.compare(b.key) < 0;
  };
  std::vector<Edge> edges;
  edges.reserve(2 * all_.size());
  for (const Tombstone& one : all_) {
    BRECCIA_ASSERT(one.begin.compare(one.end) < 0);
    edges.push_back({word_of(one.begin), one.begin});
    edges.push_back({word_of(one.end), one.end});
  }
  std::sort(edges.begin(), edges.end(), less);
  const auto same = [](const Edge& a, const Edge& b) { return a.key == b.key; };
  edges.erase(std::unique(edges.begin(), edges.end(), same), edges.end());
  edges_ = std::move(edges);

  const auto place_of = [&](const Slice& key) {
    const auto at = std::lower_bound(edges_.begin(), edges_.end(), Edge{word_of(key), key}, less);
    return static_cast<std::size_t>(at - edges_.begin());
  };
  std::vector<std::pair<std::size_t, std::size_t>> stretches;
  stretches.reserve(all_.size());
  std::vector<std::uint32_t> begins(2 * edges_.size(), 0);
  for (const Tombstone& one : all_) {
    stretches.emplace_back(place_of(one.begin), place_of(one.end));
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
}

std::uint64_t TombstoneSet::newest_at(std::size_t stretch, std::uint64_t bound) const {
  std::uint64_t newest = 0;
  for (std::size_t node = stretch + edges_.size() - 1; node > 0; node /= 2) {
    const std::uint64_t* const begin = positions_.data() + node_begins_[node];
    const std::uint64_t* const end = positions_.data() + node_begins_[node + 1];
    if (begin == end || end[-1] <= newest) continue;
    const std::uint64_t* const at = end[-1] < bound ? end : std::lower_bound(begin, end, bound);
    if (at != begin) newest = std::max(newest, at[-1]);
  }
  return newest;
}

Cover TombstoneSet::covering(const Slice& key, std::uint64_t bound) const {
  std::call_once(built_, [this] { build(); });
  const std::uint64_t word = word_of(key);
  const auto behind = std::upper_bound(
      edges_.begin(), edges_.end(), key, [&](const Slice& sought, const Edge& edge) {
        return word != edge.word ? word < edge.word : sought.compare(edge.key) < 0;
      });
  if (behind == edges_.begin()) return {0, {}, edges_.front().key, true};
  if (behind == edges_.end()) return {0, edges_.back().key, {}, false};
  const auto stretch = static_cast<std::size_t>(behind - edges_.begin()) - 1;
  return {newest_at(stretch, bound), edges_[stretch].key, behind->key, true};
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
  for (auto set = sets_.rbegin(); set != sets_.rend(); ++set) {
    const std::uint64_t position = (*set)->covering(key, bound).position;
    if (position != 0) return position;
  }
  return 0;
}

Cover Tombstones::cover(const Slice& key, std::uint64_t bound) const {
  Cover cover;
  for (auto set = sets_.rbegin(); set != sets_.rend(); ++set) {
    const Cover own = (*set)->covering(key, bound);
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
