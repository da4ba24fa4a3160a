#include "memtable/host_memtable.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "batch/requests.h"
#include "support/records_in_memory.h"
#include "support/seeds.h"

namespace breccia::memtable {

namespace {

/// Keys that collide in their first word, end in zeros, or are empty.
std::string nasty_key(base::Random* random) {
  std::string key(random->one_in(2) ? 8 : 0, 'p');
  key += std::string(random->below(3), static_cast<char>('a' + random->below(3)));
  return key + std::string(random->below(3), '\0');
}

/// All versions in memtable order.
using Versions = std::vector<std::pair<std::string, std::uint64_t>>;

/// A cursor, and the place in the list of versions where it should stand; the list's size: nowhere.
class CursorTwin {
 public:
  CursorTwin(const HostMemtable& table, const Versions& versions)
      : cursor_(table), versions_(versions), at_(versions.size()) {}

  void seek(const std::string& key, std::uint64_t bound) {
    cursor_.seek(key, bound);
    at_ = 0;
    while (at_ < versions_.size() && comes_before(versions_[at_], key, bound)) ++at_;
  }
  void seek_to_first() {
    cursor_.seek_to_first();
    at_ = 0;
  }
  void seek_to_last() {
    cursor_.seek_to_last();
    at_ = versions_.empty() ? 0 : versions_.size() - 1;
  }
  void next() {
    cursor_.next();
    ++at_;
  }
  void prev() {
    cursor_.prev();
    at_ = at_ == 0 ? versions_.size() : at_ - 1;
  }
  [[nodiscard]] bool valid() const { return at_ < versions_.size(); }

  void expect_equal() const {
    ASSERT_EQ(cursor_.valid(), valid());
    if (!valid()) return;
    ASSERT_EQ(cursor_.key().ToString(), versions_[at_].first);
    ASSERT_EQ(cursor_.payload(), versions_[at_].second);
  }

 private:
  /// True if the version comes before the first one of `key` below `bound`.
  static bool comes_before(const Versions::value_type& version, const std::string& key,
                           std::uint64_t bound) {
    return version.first != key ? version.first < key : version.second >= bound;
  }

  HostMemtable::Cursor cursor_;
  const Versions& versions_;
  std::size_t at_;
};

}  // namespace

// Goal: an entry whose place was looked for long before stands where it belongs.
// Method: places of many records, then all of them inserted in any order, some at their places and
//         some without; keys with several versions; compared with a sorted list.
// Mutation: linking at a place without looking what has come between, or only a level too few,
//           fails.
TEST(HostMemtable, OldPlacesAreGood) {
  for (const std::uint64_t seed : testing::seeds_to_run(100)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    RecordsInMemory records;
    HostMemtable table;
    struct Waiting {
      std::uint64_t position;
      HostMemtable::Place place;
    };
    std::vector<Waiting> waiting;
    Versions versions;
    const std::uint64_t waiting_max = 1 + random.below(200);
    for (int i = 0; i < 1000 || !waiting.empty(); ++i) {
      if (i < 1000) {
        const std::string key =
            random.one_in(2) ? nasty_key(&random) : std::to_string(random.next());
        const std::uint64_t position = records.add(record::Op::kPut, key, "v");
        waiting.push_back({position, table.find_place(records.record(position), position)});
        versions.emplace_back(key, position);
        if (waiting.size() < waiting_max) continue;
      }
      std::swap(waiting[random.below(waiting.size())], waiting.back());
      const auto [position, place] = waiting.back();
      waiting.pop_back();
      if (random.one_in(4)) {
        table.insert(records.record(position), position, records.segment());
      } else {
        table.insert_at(place, records.record(position), position, records.segment());
      }
    }
    std::sort(versions.begin(), versions.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first < b.first : a.second > b.second;
    });
    ASSERT_EQ(table.count(), versions.size());
    CursorTwin walk(table, versions);
    for (walk.seek_to_first(); walk.valid(); walk.next()) walk.expect_equal();
    for (int i = 0; i < 200; ++i) {
      const auto& [key, position] = versions[random.below(versions.size())];
      ASSERT_EQ(table.find(key, position + 8).payload, position);
    }
  }
}

// Goal: find gives the newest version below a bound, and export all versions in run order.
// Method: random inserts, every bound between them, compared with a std::map.
// Mutation: comparing positions ascending, or keys by their first word alone, fails.
TEST(HostMemtable, AgreesWithAMap) {
  for (const std::uint64_t seed : testing::seeds_to_run(100)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    RecordsInMemory records;
    HostMemtable table;
    std::map<std::string, std::map<std::uint64_t, std::uint64_t, std::greater<>>> model;
    const std::uint64_t count = random.below(150);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::string key = nasty_key(&random);
      const record::Op op = random.one_in(3) ? record::Op::kDelete : record::Op::kPut;
      const std::uint64_t position = records.add(op, key, std::to_string(i));
      table.insert(records.record(position), position, records.segment());
      model[key][position] = position | static_cast<std::uint64_t>(op);
    }
    ASSERT_EQ(table.count(), count);
    for (int i = 0; i < 300; ++i) {
      const std::string key = nasty_key(&random);
      const std::uint64_t begin = records.segment()->base;
      const std::uint64_t bound = begin + random.below((records.end() - begin) / 8 + 2) * 8;
      const auto& versions = model[key];
      const auto expected = versions.upper_bound(bound);  // positions descend: the first below
      const HostMemtable::Hit hit = table.find(key, bound);
      ASSERT_EQ(hit.payload, expected == versions.end() ? 0 : expected->second);
      if (hit.record != nullptr) {
        ASSERT_EQ(hit.record, records.record(expected->first));
      }
    }
    record::EntryColumns columns(exec::plain_host_memory());
    ASSERT_TRUE(table.export_to(&columns));
    const record::EntriesRef entries = columns.ref(/*sorted=*/true);
    std::uint64_t i = 0;
    for (const auto& [key, versions] : model) {
      for (const auto& [position, payload] : versions) {
        ASSERT_EQ(entries.relative[i], payload);
        std::string restored(entries.keys.bytes_at(i), '\0');
        record::restore_key(entries.keys, i, restored.data());
        ASSERT_EQ(restored, key);
        ++i;
      }
    }
    ASSERT_EQ(i, count);
  }
}

// Goal: a cursor goes to any key and version, and from there one entry at a time, both ways.
// Method: random walks over random tables, empty ones too, compared with a sorted list.
// Mutation: a prev() that skips the versions of the key it stands on, or a seek to the first
// version
//   at the bound instead of below it, fails.
TEST(HostMemtable, CursorAgreesWithAList) {
  for (const std::uint64_t seed : testing::seeds_to_run(100)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    RecordsInMemory records;
    HostMemtable table;
    Versions versions;
    const std::uint64_t begin = records.end();
    for (std::uint64_t i = random.below(120); i > 0; --i) {
      const std::string key = nasty_key(&random);
      const auto op = static_cast<record::Op>(random.below(4));
      const std::uint64_t position = records.add(op, key, "v");
      table.insert(records.record(position), position, records.segment());
      versions.emplace_back(key, position | static_cast<std::uint64_t>(op));
    }
    std::sort(versions.begin(), versions.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first < b.first : a.second > b.second;
    });
    const bool any_merge = std::any_of(versions.begin(), versions.end(), [](const auto& version) {
      return record::op_of(version.second) == record::Op::kMerge;
    });
    EXPECT_EQ(table.has_merges(), any_merge);
    CursorTwin twin(table, versions);
    twin.expect_equal();
    for (int step = 0; step < 600; ++step) {
      const std::uint64_t dice = random.below(twin.valid() ? 10 : 3);
      if (dice == 0) {
        const std::uint64_t bound = begin + random.below((records.end() - begin) / 8 + 2) * 8;
        twin.seek(nasty_key(&random), random.one_in(4) ? ~std::uint64_t{0} : bound);
      } else if (dice == 1) {
        twin.seek_to_first();
      } else if (dice == 2) {
        twin.seek_to_last();
      } else if (dice < 7) {
        twin.next();
      } else {
        twin.prev();
      }
      twin.expect_equal();
      if (HasFatalFailure()) return;
    }
  }
}

// Goal: a cursor beside the writer meets every entry that was there when it began, in order, both
//   ways.
// Method: one writer of keys in random order, readers that walk forward and backward and count what
//   was there before.
// Mutation: linking a node on its upper levels first lets a backward walk miss entries under tsan.
TEST(HostMemtable, ConcurrentCursorsMissNothing) {
  constexpr std::uint64_t kEntries = 3'000;
  RecordsInMemory records;
  HostMemtable table;
  std::vector<std::uint64_t> positions(kEntries);
  for (std::uint64_t i = 0; i < kEntries; ++i) {
    positions[i] = records.add(record::Op::kPut, std::to_string(base::mix64(i) % 1000), "v");
  }
  std::atomic<std::uint64_t> inserted{0};
  const auto walk = [&](bool forward) {
    while (inserted.load() < kEntries) {
      const std::uint64_t before = inserted.load();
      const std::uint64_t bound = before == 0 ? 0 : positions[before - 1] + 8;
      HostMemtable::Cursor cursor(table);
      std::uint64_t met = 0;
      Slice last;
      for (forward ? cursor.seek_to_first() : cursor.seek_to_last(); cursor.valid();
           forward ? cursor.next() : cursor.prev()) {
        if (last.data() != nullptr && !last.empty()) {
          ASSERT_TRUE(forward ? last.compare(cursor.key()) <= 0 : last.compare(cursor.key()) >= 0);
        }
        last = cursor.key();
        met += cursor.payload() < bound ? 1 : 0;
      }
      ASSERT_EQ(met, before);
    }
  };
  std::thread forward(walk, true);
  std::thread backward(walk, false);
  for (std::uint64_t i = 0; i < kEntries; ++i) {
    table.insert(records.record(positions[i]), positions[i], records.segment());
    inserted.store(i + 1);
    if (i % 8 == 0) std::this_thread::yield();
  }
  forward.join();
  backward.join();
}

// Goal: readers beside the writer find every entry whose insert returned before they began.
// Method: one writer, three readers that follow its progress; under tsan also the memory order.
// Mutation: a relaxed store of a node's links fails under tsan.
TEST(HostMemtable, ConcurrentReadersSeeWhatWasInserted) {
  constexpr std::uint64_t kEntries = 20'000;
  RecordsInMemory records;
  HostMemtable table;
  std::vector<std::uint64_t> positions(kEntries);
  const auto key_of = [](std::uint64_t i) { return std::to_string(base::mix64(i)); };
  for (std::uint64_t i = 0; i < kEntries; ++i) {
    positions[i] = records.add(record::Op::kPut, key_of(i), "v");
  }
  std::atomic<std::uint64_t> inserted{0};
  std::vector<std::thread> readers;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    readers.emplace_back([&, seed] {
      base::Random random(seed);
      while (inserted.load() < kEntries) {
        const std::uint64_t before = inserted.load();
        if (before == 0) continue;
        const std::uint64_t i = random.below(before);
        ASSERT_EQ(table.find(key_of(i), ~std::uint64_t{0}).payload, positions[i]);
        ASSERT_GE(table.count(), before);
      }
    });
  }
  for (std::uint64_t i = 0; i < kEntries; ++i) {
    table.insert(records.record(positions[i]), positions[i], records.segment());
    inserted.store(i + 1);
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(table.count(), kEntries);
}

}  // namespace breccia::memtable
