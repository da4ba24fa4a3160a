#include "memtable/tombstones.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/random.h"
#include "support/seeds.h"

namespace breccia::memtable {

namespace {

/// Few keys, so that deletions begin and end at the same ones; among them the empty key, keys that
/// go on with zero bytes, and one above all others.
std::string edge_key(base::Random* random) {
  if (random->one_in(20)) return "";
  if (random->one_in(20)) return std::string(3, '\xff');
  std::string key(1 + random->below(2), ' ');
  for (char& c : key) c = static_cast<char>('a' + random->below(4));
  return key + std::string(random->below(2), '\0');
}

/// As Tombstones::covering, from all of them.
std::uint64_t newest_covering(const std::vector<Tombstone>& all, const std::string& key,
                              std::uint64_t bound) {
  std::uint64_t newest = 0;
  for (const Tombstone& one : all) {
    const bool covers = one.begin <= key && key < one.end;
    if (covers && one.position < bound) newest = std::max(newest, one.position);
  }
  return newest;
}

/// Up to `count_max` deletions at positions that all differ.
std::vector<Tombstone> random_tombstones(base::Random* random, std::uint64_t count_max) {
  std::vector<Tombstone> all;
  std::uint64_t position = 0;
  for (std::uint64_t i = random->below(count_max + 1); i > 0; --i) {
    std::string begin = edge_key(random);
    std::string end = edge_key(random);
    position += 8 * (1 + random->below(3));
    if (begin > end) std::swap(begin, end);
    if (begin != end) all.push_back({std::move(begin), std::move(end), position});
  }
  std::shuffle(all.begin(), all.end(), *random);
  return all;
}

}  // namespace

// Goal: of overlapping range deletions, the newest below the bound that covers a key is found, for
//   every key and every bound.
// Method: random deletions with few edges; keys at, before and behind all edges, and all bounds,
//   compared with a look at each of them.
// Mutation: closing a deletion behind its end key, taking the oldest, or `<=` for the bound, fails.
TEST(Tombstones, CoveringAgreesWithAllOfThem) {
  for (const std::uint64_t seed : testing::seeds_to_run(200)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const std::vector<Tombstone> all = random_tombstones(&random, seed % 10 == 0 ? 60 : 10);
    const Tombstones tombstones(all);
    std::vector<std::string> keys{"", std::string(1, '\0'), "zz", std::string(4, '\xff')};
    std::vector<std::uint64_t> bounds{0, 1, ~std::uint64_t{0}};
    for (const Tombstone& one : all) {
      for (const std::string& edge : {one.begin, one.end}) {
        keys.push_back(edge);
        keys.push_back(edge + '\0');
        keys.push_back(edge + "m");
        if (!edge.empty()) keys.push_back(edge.substr(0, edge.size() - 1));
      }
      for (const std::uint64_t off : {0, 1, 8}) bounds.push_back(one.position + off);
    }
    for (int i = 0; i < 20; ++i) keys.push_back(edge_key(&random));
    for (const std::string& key : keys) {
      for (const std::uint64_t bound : bounds) {
        ASSERT_EQ(tombstones.covering(key, bound), newest_covering(all, key, bound))
            << Slice(key).ToString(/*hex=*/true) << " below " << bound;
      }
    }
    ASSERT_EQ(tombstones.all().size(), all.size());
  }
}

}  // namespace breccia::memtable
