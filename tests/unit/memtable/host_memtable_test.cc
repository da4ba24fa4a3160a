#include "memtable/host_memtable.h"

#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "batch/requests.h"
#include "records_in_memory.h"
#include "support/seeds.h"

namespace breccia::memtable {

namespace {

/// Keys that collide in their first word, end in zeros, or are empty.
std::string nasty_key(base::Random* random) {
  std::string key(random->one_in(2) ? 8 : 0, 'p');
  key += std::string(random->below(3), static_cast<char>('a' + random->below(3)));
  return key + std::string(random->below(3), '\0');
}

}  // namespace

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
      const wal::Op op = random.one_in(3) ? wal::Op::kDelete : wal::Op::kPut;
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
    batch::KeyColumns keys(exec::plain_host_memory());
    exec::HostVector<std::uint64_t> payloads(exec::plain_host_memory());
    ASSERT_TRUE(table.export_to(&keys, &payloads));
    std::uint64_t i = 0;
    for (const auto& [key, versions] : model) {
      for (const auto& [position, payload] : versions) {
        ASSERT_EQ(payloads[i], payload);
        std::string restored(keys.ref().bytes_at(i), '\0');
        batch::restore_key(keys.ref(), i, restored.data());
        ASSERT_EQ(restored, key);
        ++i;
      }
    }
    ASSERT_EQ(i, count);
  }
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
    positions[i] = records.add(wal::Op::kPut, key_of(i), "v");
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
