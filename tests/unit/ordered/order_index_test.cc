#include "ordered/order_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "ordered/state.h"
#include "support/records_in_memory.h"
#include "support/seeds.h"

namespace breccia::ordered {

namespace {

/// Keys of one kind, from few to as many as one likes.
std::string random_key(base::Random* random, std::uint64_t kind, std::uint64_t distinct) {
  const std::uint64_t id = base::mix64(random->below(distinct));
  const std::string bytes(reinterpret_cast<const char*>(&id), sizeof id);
  switch (kind) {
    case 0:  // random words, all of one length
      return bytes + bytes;
    case 1:  // a long prefix, text behind it
      return std::string(40, 'p') + std::to_string(id % 1'000'000);
    case 2:  // lengths from none on, zeros at the end
      return bytes.substr(0, id % 4) + std::string(id / 16 % 12, '\0');
    case 3:  // the word with the greatest value, and longer keys of it
      return std::string(8 + id % 3, '\xff') + bytes.substr(0, id / 8 % 3);
    case 4:  // one half close together, the other far away
      return id % 2 == 0 ? std::string("a") + bytes.substr(0, 1) : bytes;
    default:  // a prefix, and what ends within it or differs in it
      return std::string("prefix of all").substr(0, 8 + id % 6) + bytes.substr(0, id / 8 % 2);
  }
}

/// Records in any order, an order of them, and where each key stands in it.
class Ordered {
 public:
  Ordered(base::Random* random, std::uint64_t kind, std::uint64_t count, bool as_descriptors) {
    const std::uint64_t distinct = 1 + random->below(2 * count);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::string key = random_key(random, kind, distinct);
      entries_.push_back({key, records_.add(record::Op::kPut, key, "v")});
    }
    std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
      return a.key != b.key ? a.key < b.key : a.position > b.position;
    });
    std::vector<std::uint64_t> payloads;
    for (const Entry& entry : entries_) {
      payloads.push_back(entry.position);
      descriptors_.push_back(
          static_cast<std::uint32_t>((entry.position - records_.segment()->base) / 8));
    }
    if (as_descriptors) {
      order_.descriptors = descriptors_.data();
      order_.records = records_.segment()->base;
    } else {
      order_ = copy_order(*runs::make_host_backend(), payloads.data(), count).take();
    }
    order_.count = count;
    order_.begin = records_.segment()->base;
    order_.end = records_.end();
  }

  /// The first entry that does not sort before versions of `key` below `bound`.
  [[nodiscard]] std::uint64_t expected(const std::string& key, std::uint64_t bound) const {
    const auto at = std::partition_point(entries_.begin(), entries_.end(), [&](const Entry& entry) {
      return entry.key != key ? entry.key < key : entry.position >= bound;
    });
    return static_cast<std::uint64_t>(at - entries_.begin());
  }
  [[nodiscard]] std::unique_ptr<const OrderIndex> index() const {
    return OrderIndex::make(order_, *table(), /*stopping=*/false);
  }
  [[nodiscard]] wal::SegmentTablePtr table() const { return records_.table(); }
  [[nodiscard]] Order& order() { return order_; }
  [[nodiscard]] std::uint64_t end() const { return records_.end(); }

 private:
  struct Entry {
    std::string key;
    std::uint64_t position;
  };

  memtable::RecordsInMemory records_;
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> descriptors_;
  Order order_;
};

constexpr std::uint64_t kKinds = 6;
constexpr std::uint64_t kSizes[] = {1, 2, 31, 32, 33, 63, 64, 65, 95, 96, 97, 1023, 1024, 1025};

}  // namespace

// Goal: an index leaves out no entry that a search may end at, of whatever keys, and a search with
//       it ends where one without it does.
// Method: orders of all sizes around blocks, of few keys with many versions and of many; keys that
//         are there and others, bounds between versions; compared with a sorted list.
// Mutation: a block too few at either end, a word compared as if equal words were one key, a rank
//           that is cut off, or a key that ends within the prefix taken for one behind it, fails.
TEST(OrderIndex, NarrowsToWhatTheListSays) {
  for (const std::uint64_t seed : testing::seeds_to_run(300)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const std::uint64_t kind = seed % kKinds;
    const std::uint64_t count = kSizes[random.below(std::size(kSizes))];
    Ordered ordered(&random, kind, count, /*as_descriptors=*/random.one_in(2));
    const auto index = ordered.index();
    ASSERT_NE(index, nullptr);
    const wal::SegmentTablePtr table = ordered.table();
    Order with_index = ordered.order();
    with_index.index = std::make_shared<IndexPlace>();
    with_index.index->give(ordered.index());
    for (int i = 0; i < 300; ++i) {
      const std::string key =
          random_key(&random, random.one_in(4) ? random.below(kKinds) : kind, 2 * count);
      const std::uint64_t begin = ordered.order().begin;
      const std::uint64_t bound = begin + random.below((ordered.end() - begin) / 8 + 2) * 8;
      const OrderRange among = index->narrow(key);
      ASSERT_LE(among.begin, ordered.expected(key, ~std::uint64_t{0}));
      ASSERT_GE(among.end, ordered.expected(key, 0));
      ASSERT_LE(among.end, count);
      ASSERT_EQ(lower_bound(with_index, *table, key, bound), ordered.expected(key, bound));
      ASSERT_EQ(lower_bound(ordered.order(), *table, key, bound), ordered.expected(key, bound));
    }
  }
}

// Goal: with an index few keys are read.
// Method: keys whose words are random, also behind a prefix that all share; how many entries are
//         left, by the mean.
// Mutation: ranks that are all equal, or words taken from the keys' beginnings, fail.
TEST(OrderIndex, LeavesFewEntries) {
  base::Random random(1);
  for (const std::uint64_t kind : {0, 1}) {
    Ordered ordered(&random, kind, 4000, /*as_descriptors=*/true);
    const auto index = ordered.index();
    ASSERT_NE(index, nullptr);
    EXPECT_EQ(index->memory_bytes(), (4000 / 32 + 1) * 8 + 4000 * 2);
    std::uint64_t left = 0;
    for (int i = 0; i < 4000; ++i) {
      const OrderRange among = index->narrow(random_key(&random, kind, 8000));
      left += among.end - among.begin;
    }
    EXPECT_LE(left, 4000 * 3) << kind;
  }
}

// Goal: an index is due when searches have paid for it, one in 64 entries, and again if it could
//       not be built; nobody builds one for few entries.
// Method: searches of an order without one, counted.
// Mutation: an index that is due at once, or still when it is there (a second one would crash), or
//           that nobody asks for again, fails.
TEST(OrderIndex, IsDueWhenItIsPaidFor) {
  base::Random random(1);
  Ordered ordered(&random, /*kind=*/0, 640, /*as_descriptors=*/false);
  Order& order = ordered.order();
  order.index = std::make_shared<IndexPlace>();
  const wal::SegmentTablePtr table = ordered.table();
  const auto searches_until_due = [&] {
    int searches = 0;
    for (; !order.index_is_due(); ++searches) {
      EXPECT_EQ(lower_bound(order, *table, "key", 0), ordered.expected("key", 0));
    }
    return searches;
  };
  EXPECT_EQ(searches_until_due(), 10);
  order.index->give_up();
  EXPECT_EQ(searches_until_due(), 10);
  EXPECT_EQ(OrderIndex::make(order, *table, /*stopping=*/true), nullptr);
  order.index->give(ordered.index());
  EXPECT_FALSE(order.index_is_due());
  for (int i = 0; i < 20; ++i) order.index->note_search(order.count);  // that began before
  EXPECT_FALSE(order.index_is_due());
  EXPECT_EQ(lower_bound(order, *table, "key", 0), ordered.expected("key", 0));

  Ordered small(&random, /*kind=*/0, OrderIndex::kEntriesMin - 1, /*as_descriptors=*/false);
  small.order().index = std::make_shared<IndexPlace>();
  for (int i = 0; i < 100; ++i) (void)lower_bound(small.order(), *small.table(), "key", 0);
  EXPECT_FALSE(small.order().index_is_due());
}

}  // namespace breccia::ordered
