#include "memtable/tombstones.h"

#include <algorithm>
#include <functional>
#include <set>

#include "base/assert.h"

namespace breccia::memtable {

namespace {

/// A key at which a deletion begins or ends.
struct Edge {
  const std::string* key;
  std::uint64_t position;
  bool begins;
};

}  // namespace

// A sweep over the edges in key order, with the set of deletions that are open.
Tombstones::Tombstones(std::vector<Tombstone> all) : all_(std::move(all)) {
  std::vector<Edge> edges;
  for (const Tombstone& tombstone : all_) {
    BRECCIA_ASSERT(tombstone.begin < tombstone.end);
    edges.push_back({&tombstone.begin, tombstone.position, true});
    edges.push_back({&tombstone.end, tombstone.position, false});
  }
  std::sort(edges.begin(), edges.end(),
            [](const Edge& a, const Edge& b) { return *a.key < *b.key; });
  std::multiset<std::uint64_t, std::greater<>> open;
  for (std::size_t i = 0; i < edges.size(); ++i) {
    if (edges[i].begins) {
      open.insert(edges[i].position);
    } else if (const auto one = open.find(edges[i].position); one != open.end()) {
      open.erase(one);
    }
    const bool last_here = i + 1 == edges.size() || *edges[i + 1].key != *edges[i].key;
    if (last_here) fragments_.push_back({*edges[i].key, {open.begin(), open.end()}});
  }
  BRECCIA_ASSERT(open.empty());
}

std::uint64_t Tombstones::covering(const Slice& key, std::uint64_t bound) const {
  const auto after = std::upper_bound(fragments_.begin(), fragments_.end(), key,
                                      [](const Slice& sought, const Fragment& fragment) {
                                        return sought.compare(fragment.begin) < 0;
                                      });
  if (after == fragments_.begin()) return 0;
  for (const std::uint64_t position : std::prev(after)->positions) {
    if (position < bound) return position;
  }
  return 0;
}

}  // namespace breccia::memtable
