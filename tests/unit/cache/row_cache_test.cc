#include "cache/row_cache.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <barrier>
#include <chrono>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "record/key_columns.h"
#include "record/key_hash.h"
#include "support/seeds.h"

namespace breccia::cache {

namespace {

constexpr FamilyId kFamily = 3;

std::shared_ptr<RowCache> make_cache(std::uint64_t sets) {
  return RowCache::make(sets * RowCache::kSetBytes).take();
}

/// The value of `key` at `version`, if it is there.
std::optional<std::string> find(RowCache* cache, const std::string& key, std::uint64_t version,
                                FamilyId family = kFamily) {
  RowCache::ValueBuffer buffer;
  const auto bytes = cache->find(RowCache::hash(family, key), family, key, version, &buffer);
  if (!bytes.has_value()) return {};
  return std::string(buffer.data(), *bytes);
}

void insert(RowCache* cache, const std::string& key, const std::string& value,
            std::uint64_t version, FamilyId family = kFamily) {
  cache->insert(RowCache::hash(family, key), family, key, value, version);
}

/// A key of its own for each number, of various lengths.
std::string key_of(std::uint64_t number) {
  return std::string(number % 19, 'k') + std::to_string(number);
}

/// A value whose every byte tells which it is.
std::string value_of(std::uint64_t number) {
  return std::string(number % 150, static_cast<char>(base::mix64(number)));
}

/// A tree as readers see it: its numbered states, and the changes between them.
class ModelTree {
 public:
  ModelTree(RowCache* cache, std::uint64_t keys) : cache_(cache), states_{{}}, keys_(keys) {
    versions_.push_back(cache->version());
  }

  /// Some state, the newest most of the time.
  std::size_t pick(base::Random* random) const {
    return random->one_in(3) ? random->below(states_.size()) : states_.size() - 1;
  }

  /// A lookup as a reader makes it: an answer of the cache must be the state's.
  void read(std::size_t at, std::uint64_t key) {
    const auto cached = find(cache_, key_of(key), versions_[at]);
    const auto own = states_[at].find(key);
    if (cached.has_value()) {
      ++hits_;
      ASSERT_TRUE(own != states_[at].end()) << "key " << key;
      ASSERT_EQ(*cached, value_of(own->second)) << "key " << key;
    } else if (own != states_[at].end()) {
      insert(cache_, key_of(key), value_of(own->second), versions_[at]);
    }
  }

  /// A flush of some keys, or of a range deletion, which may fail before it is published.
  void change(base::Random* random) {
    auto next = states_.back();
    std::vector<std::uint64_t> hashes;
    const bool everything = random->one_in(5);
    RowCache::Change change(cache_);
    change.begin();
    for (std::uint64_t i = 0; i < 1 + random->below(keys_ / 4); ++i) {
      const std::uint64_t key = random->below(keys_);
      if (random->one_in(4)) {
        next.erase(key);
      } else {
        next[key] = ++written_;
      }
      hashes.push_back(RowCache::hash(kFamily, key_of(key)));
    }
    if (everything) {
      cache_->clear();
    } else {
      cache_->erase(hashes);
    }
    // Readers go on meanwhile, at states that are there.
    for (int i = 0; i < 20; ++i) read(pick(random), random->below(keys_));
    if (random->one_in(6)) return;
    states_.push_back(std::move(next));
    versions_.push_back(change.publish());
  }
  [[nodiscard]] std::uint64_t hits() const { return hits_; }

 private:
  RowCache* cache_;
  std::vector<std::map<std::uint64_t, std::uint64_t>> states_;
  std::vector<std::uint64_t> versions_;
  const std::uint64_t keys_;
  std::uint64_t written_ = 0;
  std::uint64_t hits_ = 0;
};

}  // namespace

// Goal: whatever a reader finds is what the tree gives at its version, old or new.
// Method: random reads at random states of a model tree, with changes, failed ones among them,
//         between and around them; caches of one set to some.
// Mutation: letting insert() pass with an old version, or erase() or clear() do nothing, fails.
TEST(RowCache, AnswersAsTheTree) {
  for (const std::uint64_t seed : testing::seeds_to_run(200)) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + testing::replay_command(seed));
    base::Random random(seed);
    const auto cache = make_cache(1 + random.below(8));
    ModelTree tree(cache.get(), 20 + random.below(300));
    for (int step = 0; step < 2'000 && !HasFatalFailure(); ++step) {
      if (random.one_in(20)) {
        tree.change(&random);
      } else {
        tree.read(tree.pick(&random), random.below(random.one_in(2) ? 20 : 200));
      }
    }
    ASSERT_FALSE(HasFatalFailure());
    EXPECT_GT(tree.hits(), 0u);
    EXPECT_EQ(cache->figures().hits, tree.hits());
    EXPECT_LE(cache->figures().bytes, cache->set_count() * RowCache::kSetBytes);
  }
}

// Goal: the same with readers that insert, and a flusher, at once; no half of a value is seen.
// Method: three readers pin states of a tree, read, hold some states for long; one flusher changes
//         keys. Few sets, so that all meet.
// Mutation: copying the value without looking at the sequence again, or checking the version before
//         the set is locked, fails.
TEST(RowCache, ConcurrentReadersAndFlushes) {
  constexpr std::uint64_t kKeys = 150;
  constexpr int kReads = 60'000;
  constexpr int kChanges = 200;  // the flusher may be stopped for longer than the reads take
  struct State {
    std::uint64_t version;
    std::vector<std::uint64_t> value;
  };
  const auto cache = make_cache(4);
  std::mutex mutex;
  auto current =
      std::make_shared<const State>(State{cache->version(), std::vector<std::uint64_t>(kKeys, 1)});
  const auto pin = [&] {
    const std::lock_guard lock(mutex);
    return current;
  };
  std::atomic<bool> wrong{false};
  std::atomic<int> reading{3};
  std::atomic<int> changes{0};
  const auto read = [&](std::uint64_t seed) {
    base::Random random(seed);
    auto now = pin();
    auto held = now;
    for (int i = 0; i < kReads || changes < kChanges; ++i) {
      if (random.one_in(8)) now = pin();
      if (random.one_in(500)) held = now;
      const State& at = random.one_in(8) ? *held : *now;
      const std::uint64_t key = random.below(random.one_in(2) ? 10 : kKeys);
      const std::string value = value_of(at.value[key]);
      const auto cached = find(cache.get(), key_of(key), at.version);
      if (cached.has_value() && *cached != value) wrong = true;
      if (!cached.has_value()) insert(cache.get(), key_of(key), value, at.version);
    }
    --reading;
  };
  std::vector<std::thread> readers;
  for (std::uint64_t i = 0; i < 3; ++i) readers.emplace_back(read, i);
  base::Random random(7);
  std::uint64_t written = 1;
  const auto change_some = [&] {
    auto next = *pin();
    RowCache::Change change(cache.get());
    change.begin();
    std::vector<std::uint64_t> hashes;
    for (int i = 0; i < 10; ++i) {
      const std::uint64_t key = random.below(kKeys);
      next.value[key] = ++written;
      hashes.push_back(RowCache::hash(kFamily, key_of(key)));
    }
    if (random.one_in(20)) {
      cache->clear();
    } else {
      cache->erase(hashes);
    }
    next.version = change.publish();
    const std::lock_guard lock(mutex);
    current = std::make_shared<const State>(std::move(next));
  };
  while (reading > 0) {
    change_some();
    ++changes;
    std::this_thread::sleep_for(std::chrono::microseconds(20));  // only now something is inserted
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_FALSE(wrong);
  EXPECT_GT(cache->figures().hits, 1'000u);
  EXPECT_GT(cache->figures().erased, 0u);
}

// Goal: what is used often stays, and goes when it is not used any more.
// Method: in one set, eight keys that are read between inserts of others; then eight others.
// Mutation: evicting the oldest entry, or never halving the counters, fails.
TEST(RowCache, KeepsWhatIsUsedOften) {
  const auto cache = make_cache(1);
  const std::uint64_t version = cache->version();
  const auto use = [&](const std::string& prefix) {
    int kept = 0;
    for (int i = 0; i < 8; ++i) {
      const std::string key = prefix + std::to_string(i);
      if (find(cache.get(), key, version).has_value()) {
        ++kept;
      } else {
        insert(cache.get(), key, "value", version);
      }
    }
    return kept;
  };
  std::uint64_t cold = 0;
  const auto scan = [&](int keys) {
    for (int i = 0; i < keys; ++i) {
      insert(cache.get(), "cold" + std::to_string(++cold), "value", version);
    }
  };
  for (int i = 0; i < 200; ++i) use("hot");
  for (int i = 0; i < 100; ++i) {
    scan(10);
    ASSERT_EQ(use("hot"), 8);
  }
  for (int i = 0; i < 400; ++i) {
    scan(10);
    use("new");
  }
  EXPECT_EQ(use("new"), 8);
  int stale = 0;
  for (int i = 0; i < 8; ++i) {
    stale += find(cache.get(), "hot" + std::to_string(i), version).has_value() ? 1 : 0;
  }
  EXPECT_EQ(stale, 0);
}

// Goal: keys and values of any length come back whole; what is too large is left out.
// Method: lengths around words and around the limit; then all are erased, and no byte is left.
// Mutation: comparing whole words of keys of other lengths, or losing a byte at the end, fails.
TEST(RowCache, Sizes) {
  const auto cache = make_cache(64);
  const std::uint64_t version = cache->version();
  constexpr std::uint64_t kRoom = RowCache::kEntryBytesMax - 16;
  std::vector<std::uint64_t> hashes;
  for (const std::uint64_t key_bytes : {0, 1, 7, 8, 9, 31, 32, 33, 63, 64, 65}) {
    for (const std::uint64_t value_bytes : {0, 1, 7, 8, 9, 100, 1000}) {
      std::string key(key_bytes, '\0');
      std::string value(value_bytes, static_cast<char>('a' + key_bytes % 20));
      insert(cache.get(), key, value, version);
      EXPECT_EQ(find(cache.get(), key, version), value) << key_bytes << " " << value_bytes;
      EXPECT_EQ(find(cache.get(), key, version, kFamily + 1), std::nullopt);
      EXPECT_EQ(find(cache.get(), key + '\0', version), std::nullopt);
      hashes.assign(1, RowCache::hash(kFamily, key));
      RowCache::Change change(cache.get());
      change.begin();
      cache->erase(hashes);
      EXPECT_EQ(find(cache.get(), key, version), std::nullopt);
    }
  }
  EXPECT_EQ(cache->figures().bytes, 0u);
  const std::string key(8, 'k');
  insert(cache.get(), key, std::string(kRoom - 8 + 1, 'v'), version);
  EXPECT_EQ(find(cache.get(), key, version), std::nullopt);
  insert(cache.get(), key, std::string(1 << 20, 'v'), version);
  EXPECT_EQ(find(cache.get(), key, version), std::nullopt);
  insert(cache.get(), key, std::string(kRoom - 8, 'v'), version);
  EXPECT_EQ(find(cache.get(), key, version), std::string(kRoom - 8, 'v'));
}

// Goal: a cache that was turned off answers nothing and takes nothing, also at later versions.
// Method: an entry, turn_off(), lookups and inserts, then a change.
// Mutation: a turn_off() that only erases takes the later inserts.
TEST(RowCache, TurnedOff) {
  const auto cache = make_cache(4);
  insert(cache.get(), "key", "value", cache->version());
  ASSERT_EQ(find(cache.get(), "key", cache->version()), "value");
  cache->turn_off();
  for (int i = 0; i < 3; ++i) {
    insert(cache.get(), "key", "value", cache->version());
    EXPECT_EQ(find(cache.get(), "key", cache->version()), std::nullopt);
    RowCache::Change change(cache.get());
    change.begin();
    cache->clear();
    const std::uint64_t published = change.publish();
    EXPECT_EQ(published, cache->version());
  }
}

// Goal: memory that nothing was inserted in is not taken by those who look or purge, or insert
//       during a change, and each entry takes no more than a page.
// Method: lookups, a purge and late inserts of keys all over a cache of 256 MiB that has a hundred
//         entries.
// Mutation: a purge that locks each set takes all of it, a page a set; so does an insert that sees
//   the change when it has the set, and huge pages where the system likes them.
TEST(RowCache, TakesMemoryForWhatItHas) {
  constexpr std::uint64_t kBytes = 256 << 20;
  const auto resident_bytes = [] {
    std::uint64_t all = 0;
    std::uint64_t resident = 0;
    std::ifstream("/proc/self/statm") >> all >> resident;
    return resident * 4096;
  };
  const auto cache = make_cache(kBytes / RowCache::kSetBytes);
  std::vector<std::uint64_t> hashes(8 * cache->set_count());
  base::Random random(1);
  for (auto& hash : hashes) hash = random.next();
  const std::uint64_t before = resident_bytes();
  const std::uint64_t version = cache->version();
  for (std::uint64_t i = 0; i < 100; ++i) {
    insert(cache.get(), key_of(i), "value", version);
    ASSERT_TRUE(find(cache.get(), key_of(i), version).has_value());
    hashes.push_back(RowCache::hash(kFamily, key_of(i)));
  }
  RowCache::Change change(cache.get());
  change.begin();
  cache->erase(hashes);
  EXPECT_FALSE(find(cache.get(), key_of(7), change.publish()).has_value());
  RowCache::ValueBuffer buffer;
  for (const std::uint64_t hash : hashes) {
    cache->insert(hash, kFamily, "key", "value", cache->version());
    EXPECT_FALSE(cache->find(hash, kFamily, "key", cache->version(), &buffer).has_value());
  }
  EXPECT_LT(resident_bytes(), before + kBytes / 4);
}

// Goal: the first insert into a set takes one fault of a page.
// Method: faults of the thread around inserts all over a cache of 256 MiB; not with a sanitizer,
//         whose own memory has faults, too.
// Mutation: who reads a set before storing into it has two, and the second interrupts all cores.
TEST(RowCache, OneFaultForASet) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer has faults of its own";
#endif
  constexpr std::uint64_t kInserts = 2000;
  const auto cache = make_cache((256 << 20) / RowCache::kSetBytes);
  const auto faults = [] {
    rusage usage{};
    EXPECT_EQ(::getrusage(RUSAGE_THREAD, &usage), 0);
    return static_cast<std::uint64_t>(usage.ru_minflt);
  };
  const std::uint64_t before = faults();
  for (std::uint64_t i = 0; i < kInserts; ++i) {
    insert(cache.get(), key_of(i), "value", cache->version());
  }
  EXPECT_LT(faults() - before, kInserts + kInserts / 4);
}

// Goal: what is inserted into a set for the first time beside a purge of it is purged or left out.
// Method: 10,000 sets, one after the other; one thread inserts an old value at about the time at
//         which another purges and publishes.
// Mutation: a set that is noted behind the look at the changes under way keeps an old value, in one
//   run of a few.
TEST(RowCache, FirstInsertBesideAPurge) {
  constexpr std::uint64_t kRounds = 10'000;
  const auto cache = make_cache(2 * kRounds);
  const std::uint64_t first = cache->version();
  std::atomic<std::uint64_t> begun{0};  // rounds
  std::atomic<std::uint64_t> inserted{0};
  const auto wait_for = [](const std::atomic<std::uint64_t>& rounds, std::uint64_t count) {
    for (int spins = 1; rounds.load() < count; ++spins) {
      if (spins % 1000 == 0) std::this_thread::yield();
    }
  };
  const auto linger = [](base::Random* random) {
    std::atomic<std::uint64_t> spins{random->below(64)};
    while (spins.load() > 0) --spins;
  };
  std::jthread inserter([&] {
    base::Random random(1);
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      const std::string key = key_of(round);
      wait_for(begun, round + 1);
      linger(&random);
      insert(cache.get(), key, "old", first + round);
      inserted = round + 1;
    }
  });
  base::Random random(2);
  for (std::uint64_t round = 0; round < kRounds && !HasFailure(); ++round) {
    const std::string key = key_of(round);
    const std::uint64_t hash = RowCache::hash(kFamily, key);
    const std::uint64_t before = first + round;
    begun = round + 1;
    linger(&random);
    {
      RowCache::Change change(cache.get());
      change.begin();
      cache->erase({&hash, 1});
      EXPECT_EQ(change.publish(), before + 1);
    }
    wait_for(inserted, round + 1);
    EXPECT_FALSE(find(cache.get(), key, before + 1).has_value()) << round;
  }
  begun = kRounds;  // whatever failed
}

// Goal: the host's hash of a key is that of its columns, which the device works with.
// Method: random keys of random lengths, uniform and mixed.
// Mutation: leaving out the length, or a tail word, fails.
TEST(RowCache, HashOfColumns) {
  for (const std::uint64_t seed : testing::seeds_to_run(50)) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + testing::replay_command(seed));
    base::Random random(seed);
    const bool uniform = random.one_in(2);
    const std::uint64_t length = random.below(40);
    record::KeyColumns columns(exec::plain_host_memory());
    std::vector<std::string> keys;
    for (int i = 0; i < 50; ++i) {
      std::string key(uniform ? length : random.below(40), '\0');
      for (char& byte : key) byte = static_cast<char>(random.below(3));
      keys.push_back(key);
      ASSERT_TRUE(columns.append(key.data(), key.size()));
    }
    std::map<std::uint64_t, std::string> seen;
    for (std::uint64_t i = 0; i < keys.size(); ++i) {
      const auto family = static_cast<FamilyId>(random.below(3));
      const std::uint64_t hash = RowCache::hash(family, keys[i]);
      EXPECT_EQ(hash, record::hash_key(columns.ref(), i, family));
      const std::string named = std::to_string(family) + "/" + keys[i];
      EXPECT_EQ(seen.try_emplace(hash, named).first->second, named);
    }
  }
}

// Goal: a cache may be turned off any number of times, beside changes of the tree.
// Method: more often than the changes under way can be counted.
// Mutation: counting each time overflows into the version.
TEST(RowCache, TurnedOffAgainAndAgain) {
  const auto cache = make_cache(4);
  const std::uint64_t version = cache->version();
  for (int i = 0; i < (1 << 16) + 7; ++i) cache->turn_off();
  EXPECT_EQ(cache->version(), version);
  for (int i = 0; i < 3; ++i) {
    RowCache::Change change(cache.get());
    change.begin();
    (void)change.publish();
  }
  insert(cache.get(), "key", "value", cache->version());
  EXPECT_FALSE(find(cache.get(), "key", cache->version()).has_value());
}

// Goal: a cache with room admits everything; one that is full a share, until everything is erased.
// Method: inserts of new keys until long after the first evictions; then a purge of everything.
// Mutation: counting entries that are dead, or not forgetting the count, fails.
TEST(RowCache, AdmitsAShareWhenFull) {
  constexpr std::uint64_t kSets = 4;
  constexpr std::uint64_t kDraws = 10'000;
  const auto cache = make_cache(kSets);
  const auto fill = [&] {
    for (std::uint64_t i = 0; i < 40 * kSets * RowCache::kWays; ++i) {
      insert(cache.get(), key_of(i), value_of(i), cache->version());
    }
  };
  const auto admitted = [&] {
    std::uint64_t count = 0;
    for (std::uint64_t i = 0; i < kDraws; ++i) count += cache->admits() ? 1 : 0;
    return count;
  };
  EXPECT_EQ(admitted(), kDraws);
  fill();
  EXPECT_GT(admitted(), kDraws / RowCache::kAdmitOneIn / 2);
  EXPECT_LT(admitted(), kDraws / RowCache::kAdmitOneIn * 2);
  {
    RowCache::Change change(cache.get());
    change.begin();
    cache->clear();
    EXPECT_GT(change.publish(), 0u);
  }
  EXPECT_EQ(admitted(), kDraws);
  // Dead entries go first, and what they make room for displaces nobody.
  for (std::uint64_t i = 0; i < kSets * 8; ++i)
    insert(cache.get(), key_of(i), "v", cache->version());
  EXPECT_EQ(admitted(), kDraws);
}

// Goal: one lookup asks a cache that answers it, and one in kAskOneIn asks one that does not, until
//   it does.
// Method: a thread whose lookups find nothing, then all of them something, then nothing again.
// Mutation: a share that counts what found something only, or never forgets, fails.
TEST(RowCache, IsAskedWhereItAnswers) {
  const auto cache = make_cache(1);
  const auto asked_of = [&](int lookups, bool finds) {
    int asked = 0;
    for (int i = 0; i < lookups; ++i) {
      if (!cache->is_worth_asking()) continue;
      cache->note_asked(finds);
      ++asked;
    }
    return asked;
  };
  EXPECT_EQ(asked_of(64, false), 64);  // before it is judged
  EXPECT_EQ(asked_of(400, false), 100);
  std::thread([&] { EXPECT_EQ(asked_of(64, false), 64); }).join();  // another's luck
  EXPECT_GT(asked_of(4000, true), 3500);
  EXPECT_EQ(asked_of(1000, true), 1000);
  asked_of(20000, false);
  EXPECT_EQ(asked_of(400, false), 100);
}

}  // namespace breccia::cache
