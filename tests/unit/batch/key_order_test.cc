#include "batch/key_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/random.h"
#include "batch/requests.h"
#include "record/key_hash.h"
#include "support/seeds.h"
#include "unit/batch/scarce_memory.h"

namespace breccia::batch {

namespace {

/// A batch of point requests in one family, in arrival order, with others between them.
class Arrivals {
 public:
  explicit Arrivals(FamilyId family)
      : family_(family), requests_(exec::shared_plain_host_memory()) {}

  void write(record::Op op, const std::string& key) {
    ASSERT_TRUE(requests_.add_write(op, family_, key, "value").ok());
    keys_.push_back({key, /*is_read=*/false, writes_++});
  }
  void read(const std::string& key) {
    ASSERT_TRUE(requests_.add_read(family_, key).ok());
    keys_.push_back({key, /*is_read=*/true, reads_++});
  }
  void add(base::Random* random, const std::string& key) {
    constexpr record::Op kOps[] = {record::Op::kPut, record::Op::kDelete, record::Op::kMerge,
                                   record::Op::kSingleDelete};
    if (random->one_in(2)) {
      read(key);
    } else {
      write(kOps[random->below(4)], key);
    }
  }
  /// Adds what is for no single key, or for another family.
  void add_other(base::Random* random, const std::string& key) {
    const FamilyId other = family_ + 1;
    const std::uint64_t kind = random->below(4);
    const Status status =
        kind == 0   ? requests_.add_write(record::Op::kDeleteRange, family_, key, key + "z")
        : kind == 1 ? requests_.add_range(family_, key, key + "z", 3)
        : kind == 2 ? requests_.add_write(record::Op::kPut, other, key, "value")
                    : requests_.add_read(other, key);
    ASSERT_TRUE(status.ok());
  }

  [[nodiscard]] const Writes* writes() const { return find(requests_.writes()); }
  [[nodiscard]] const Reads* reads() const { return find(requests_.reads()); }

  /// Compares with what a list of the keys says.
  void expect(const KeyOrder& order) const {
    ASSERT_EQ(order.count(), keys_.size());
    std::map<std::string, std::vector<std::uint32_t>> groups;
    for (const Request& request : keys_) {
      const std::uint64_t number = request.is_read ? writes_ + request.place : request.place;
      groups[request.key].push_back(static_cast<std::uint32_t>(number));
    }
    std::vector<std::uint32_t> shared;
    for (const auto& [key, group] : groups) {
      if (group.size() > 1) shared.push_back(group.front());
      for (std::size_t i = 0; i < group.size(); ++i) {
        ASSERT_EQ(order.before(group[i]), i == 0 ? KeyOrder::kNone : group[i - 1]);
        ASSERT_EQ(order.next(group[i]), i + 1 == group.size() ? KeyOrder::kNone : group[i + 1]);
      }
    }
    std::vector<std::uint32_t> found(order.shared().data(),
                                     order.shared().data() + order.shared().size());
    std::sort(shared.begin(), shared.end());
    std::sort(found.begin(), found.end());
    ASSERT_EQ(found, shared);
  }

 private:
  struct Request {
    std::string key;
    bool is_read;
    std::uint64_t place;
  };

  template <class Part>
  [[nodiscard]] const Part* find(const std::vector<std::unique_ptr<Part>>& parts) const {
    for (const auto& part : parts) {
      if (part->family() == family_) return part.get();
    }
    return nullptr;
  }

  const FamilyId family_;
  Requests requests_;
  std::vector<Request> keys_;
  std::uint64_t writes_ = 0;
  std::uint64_t reads_ = 0;
};

/// One of `count` keys: of one length, or of lengths that padding alone tells apart.
std::string key_of(std::uint64_t id, bool uniform) {
  const std::uint64_t word = uniform ? base::mix64(id) : id / 3;
  std::string key(reinterpret_cast<const char*>(&word), sizeof word);
  return uniform ? key + key : key + std::string(id % 3, '\0');
}

constexpr std::uint64_t kSizes[] = {0, 1, 31, 32, 33, 63, 64, 65, 4095, 4096, 4097, 10000};

}  // namespace

// Goal: each request knows the one before it and behind it on its key, in order of arrival, and
//   each key with several requests is named once.
// Method: random writes and reads on few or many keys, in sizes around a group's and around a
//   chunk's, with range deletions, ranges and another family between; a list for each key.
// Mutation: taking reads behind all writes, or starting all chunks at one place, fails.
TEST(KeyOrder, IsThatOfArrival) {
  KeyOrder order(exec::plain_host_memory());  // used again
  for (const std::uint64_t seed : testing::seeds_to_run(60)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    for (const std::uint64_t size : kSizes) {
      SCOPED_TRACE("size " + std::to_string(size));
      const bool uniform = random.one_in(2);
      const std::uint64_t keys = 1 + random.below(random.one_in(2) ? 10 : 2 * size + 1);
      Arrivals arrivals(static_cast<FamilyId>(random.below(2)));
      for (std::uint64_t i = 0; i < size; ++i) {
        if (random.one_in(8)) arrivals.add_other(&random, key_of(random.below(keys), uniform));
        arrivals.add(&random, key_of(random.below(keys), uniform));
      }
      ASSERT_TRUE(order.build(arrivals.writes(), arrivals.reads()));
      arrivals.expect(order);
      if (HasFailure()) return;
    }
  }
}

// Goal: keys of one hash are told apart.
// Method: keys whose hashes are the same in all that the order looks at, found among many, each
//   several times, in turns.
// Mutation: leaving out the comparison of keys fails.
TEST(KeyOrder, TellsKeysOfOneHashApart) {
  std::unordered_map<std::uint32_t, std::uint64_t> by_hash;
  std::vector<std::uint64_t> twins;
  for (std::uint64_t id = 0; twins.size() < 4 && id < 2'000'000; ++id) {
    record::KeyColumns columns(exec::plain_host_memory());
    const std::string key = key_of(id, /*uniform=*/true);
    ASSERT_TRUE(columns.append(key.data(), key.size()));
    const auto hash = static_cast<std::uint32_t>(record::hash_key(columns.ref(), 0, /*seed=*/0));
    const auto [found, is_new] = by_hash.emplace(hash, id);
    if (!is_new) twins.insert(twins.end(), {found->second, id});
  }
  ASSERT_EQ(twins.size(), 4u);
  Arrivals arrivals(kDefaultFamily);
  for (int round = 0; round < 3; ++round) {
    for (const std::uint64_t id : twins) {
      arrivals.write(record::Op::kPut, key_of(id, /*uniform=*/true));
      arrivals.read(key_of(id, /*uniform=*/true));
    }
  }
  KeyOrder order(exec::plain_host_memory());
  ASSERT_TRUE(order.build(arrivals.writes(), arrivals.reads()));
  arrivals.expect(order);
}

/// One of 1,024 keys that have one hash, whatever its seed: the highest bit of a word reaches bits
/// 63 and 31 of the state alone, and those of the next word take it back.
std::string key_of_one_hash(std::uint64_t id) {
  constexpr int kBits = 10;
  std::string key(8 * (kBits + 1), 'k');
  for (int bit = 0; bit < kBits; ++bit) {
    if ((id >> bit & 1) == 0) continue;
    key[8 * bit] ^= '\x80';
    key[8 * (bit + 1)] ^= '\x80';
    key[8 * (bit + 1) + 4] ^= '\x80';
  }
  return key;
}

// Goal: keys that are made to have one hash cost no more than sorting, and are told apart.
// Method: a thousand of them, in random order, among others; alone, and in a batch of several
//   chunks.
// Mutation: a sort that is not stable, or words that the hash table's pass has written over, fail.
TEST(KeyOrder, KeysMadeToHaveOneHash) {
  for (const std::uint64_t seed : testing::seeds_to_run(5)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    for (const std::uint64_t size : {3000, 20000}) {
      Arrivals arrivals(kDefaultFamily);
      record::KeyColumns columns(exec::plain_host_memory());
      for (std::uint64_t i = 0; i < 2; ++i) {
        const std::string key = key_of_one_hash(random.below(1024));
        ASSERT_TRUE(columns.append(key.data(), key.size()));
      }
      ASSERT_EQ(record::hash_key(columns.ref(), 0, /*seed=*/7),
                record::hash_key(columns.ref(), 1, /*seed=*/7));
      for (std::uint64_t i = 0; i < size; ++i) {
        const std::string key = i < 3000 ? key_of_one_hash(random.below(1024))
                                         : key_of(random.below(size), /*uniform=*/true);
        arrivals.add(&random, key);
      }
      KeyOrder order(exec::plain_host_memory());
      ASSERT_TRUE(order.build(arrivals.writes(), arrivals.reads()));
      arrivals.expect(order);
    }
  }
}

// Goal: without memory nothing is known, and the order can be built again.
// Method: allocation 1, 2, 3, ... of a build fails; then it is built as ever. Of one kind of
//   requests, of both, of several chunks.
// Mutation: keeping the columns that were made before the want fails.
TEST(KeyOrder, WantOfMemoryLeavesNothing) {
  for (const std::uint64_t size : {1, 100, 5000}) {
    base::Random random(size);
    Arrivals arrivals(kDefaultFamily);
    for (std::uint64_t i = 0; i < size; ++i) {
      arrivals.add(&random, key_of(random.below(size), /*uniform=*/true));
    }
    std::uint64_t failed = 0;
    for (bool done = false; !done; ++failed) {
      ScarceMemory memory;
      memory.fail_at(failed + 1);
      KeyOrder order(memory);
      done = order.build(arrivals.writes(), arrivals.reads());
      if (!done) {
        EXPECT_EQ(order.count(), 0u);
        EXPECT_EQ(order.shared().size(), 0u);
        ASSERT_TRUE(order.build(arrivals.writes(), arrivals.reads())) << "the only want is over";
      }
      arrivals.expect(order);
    }
    EXPECT_GT(failed, size == 1 ? 5u : 6u);
  }
}

}  // namespace breccia::batch
