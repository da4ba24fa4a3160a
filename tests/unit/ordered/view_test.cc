#include "ordered/view.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "ordered/state.h"
#include "residency/backend.h"
#include "residency/file_set.h"
#include "support/records_in_memory.h"
#include "support/seeds.h"

namespace breccia::ordered {

namespace {

/// A run of which only the size is known.
class SizedRun final : public runs::Run {
 public:
  explicit SizedRun(std::uint64_t count) : count_(count) {}
  [[nodiscard]] std::uint64_t count() const override { return count_; }
  [[nodiscard]] std::uint64_t memory_bytes() const override { return 0; }
  [[nodiscard]] bool has_values() const override { return false; }
  [[nodiscard]] std::uint32_t uniform_bytes() const override { return record::kVariableBytes; }
  [[nodiscard]] const runs::RunRef* host_view() const override { return nullptr; }

 private:
  const std::uint64_t count_;
};

/// Runs of the given sizes, newest first; run i covers positions [begin, begin + 100) with begin
/// descending by 100 from 100 * (sizes - 1).
std::vector<MemRunPtr> runs_of(const std::vector<std::uint64_t>& sizes) {
  std::vector<MemRunPtr> runs;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    auto run = std::make_shared<MemRun>();
    run->run = std::make_shared<SizedRun>(sizes[i]);
    run->begin = 100 * (sizes.size() - 1 - i);
    run->end = run->begin + 100;
    runs.push_back(std::move(run));
  }
  return runs;
}

/// A run of the given records on the host, or as a device's run, whose order the host keeps.
MemRunPtr build_run(const memtable::RecordsInMemory& records,
                    const std::vector<std::uint64_t>& positions, bool as_device_run,
                    runs::Backend* backend) {
  record::EntryColumns columns(exec::plain_host_memory());
  for (const std::uint64_t position : positions) {
    const std::byte* const record = records.record(position);
    const auto op = static_cast<std::uint64_t>(record::record_header(record).op());
    EXPECT_TRUE(columns.append(record, position | op));
  }
  auto built = backend->build_run(columns.ref(/*sorted=*/false), nullptr);
  EXPECT_TRUE(built.ok());
  auto run = std::make_shared<MemRun>();
  run->run = built.take();
  run->begin = positions.front();
  run->end = positions.back() + 8;
  run->set_order({run->run});
  if (as_device_run) {
    const std::vector<std::uint64_t> payloads = payloads_of(*run, *records.table());
    run->run = std::make_shared<SizedRun>(positions.size());
    run->set_order(copy_order(*backend, payloads.data(), payloads.size()).take());
  }
  return run;
}

/// Gives some of the run's orders an index.
void index_some(const MemRun& run, const wal::SegmentTable& table, base::Random* random) {
  for (const Order& order : run.orders) {
    if (order.index->get() == nullptr && random->one_in(2)) {
      order.index->give(OrderIndex::make(order, table, /*stopping=*/false));
    }
  }
}

/// Two neighbouring runs as a device's merge of them whose own order nobody has read.
MemRunPtr merged(const MemRun& newer, const MemRun& older) {
  auto run = std::make_shared<MemRun>();
  run->run = std::make_shared<SizedRun>(newer.run->count());  // the merge left versions out
  run->begin = older.begin;
  run->end = newer.end;
  run->orders = newer.orders;
  run->orders.insert(run->orders.end(), older.orders.begin(), older.orders.end());
  return run;
}

}  // namespace

// Goal: find_one gives the newest version below its bound, wherever it lies, also when a device is
//       lost.
// Method: random versions spread over a memtable, host runs, device runs and merged ones, some with
//         an index; compared with a map, before and after what lies on devices is rebuilt on the
//         host.
// Mutation: searching runs or orders oldest first, skipping one by its end, or rebuilding a run
//           from its first order alone, fails.
TEST(View, FindOneAgreesWithAMap) {
  const auto backend = runs::make_host_backend();
  for (const std::uint64_t seed : testing::seeds_to_run(60)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    memtable::RecordsInMemory records;
    std::map<std::string, std::map<std::uint64_t, std::uint64_t, std::greater<>>> model;
    FamilyView family;
    family.active = std::make_shared<memtable::HostMemtable>();
    const wal::SegmentTablePtr table = records.table();
    std::vector<MemRunPtr> runs;
    const std::uint64_t run_count = random.below(5);
    for (std::uint64_t part = 0; part <= run_count; ++part) {
      std::vector<std::uint64_t> positions;
      for (std::uint64_t i = 0; i <= random.below(200); ++i) {
        const std::string key = "equal prefix " + std::to_string(random.below(60));
        const record::Op op = random.one_in(4) ? record::Op::kDelete : record::Op::kPut;
        positions.push_back(records.add(op, key, "v"));
        model[key][positions.back()] = positions.back() | static_cast<std::uint64_t>(op);
      }
      if (part < run_count) {
        runs.insert(runs.begin(), build_run(records, positions, random.one_in(2), backend.get()));
        index_some(*runs.front(), *table, &random);
      } else {
        for (const std::uint64_t position : positions) {
          family.active->insert(records.record(position), position, records.segment());
        }
      }
    }
    for (std::size_t i = 0; i + 1 < runs.size(); ++i) {
      if (random.one_in(2)) continue;
      runs[i] = merged(*runs[i], *runs[i + 1]);
      runs.erase(runs.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    }
    family.set_runs(std::move(runs));
    for (int i = 0; i < 500; ++i) {
      if (i == 250) family.set_runs(runs_on_host(family.runs, *table, *backend).take());
      const std::string key = "equal prefix " + std::to_string(random.below(61));
      const std::uint64_t begin = records.segment()->base;
      const std::uint64_t bound = begin + random.below((records.end() - begin) / 8 + 2) * 8;
      const auto& versions = model[key];
      const auto expected = versions.upper_bound(bound);
      const std::byte* record = nullptr;
      const std::uint64_t payload = find_one(family, *table, key, bound, &record);
      ASSERT_EQ(payload, expected == versions.end() ? runs::kNotFound : expected->second);
      if (payload != runs::kNotFound) {
        ASSERT_EQ(record, records.record(expected->first));
      }
    }
  }
}

// Goal: the order that a lost device gave its run is not believed when the host builds it again,
//   and a record that it named twice is noticed.
// Method: a run of several versions a key whose payloads stand in any order; then with one twice.
// Mutation: taking the payloads for sorted, or not looking for doubles, fails.
TEST(View, RebuildDoesNotBelieveTheDevice) {
  const auto backend = runs::make_host_backend();
  memtable::RecordsInMemory records;
  std::vector<std::uint64_t> positions;
  std::map<std::string, std::uint64_t> newest;
  for (int i = 0; i < 60; ++i) {
    const std::string key = "key" + std::to_string(i * 7 % 20);
    positions.push_back(records.add(record::Op::kPut, key, "v"));
    newest[key] = positions.back();
  }
  MemRun lost = *build_run(records, positions, /*as_device_run=*/true, backend.get());
  const wal::SegmentTablePtr table = records.table();
  std::vector<std::uint64_t> payloads = payloads_of(lost, *table);
  std::rotate(payloads.begin(), payloads.begin() + 23, payloads.end());
  lost.set_order(copy_order(*backend, payloads.data(), payloads.size()).take());
  const auto rebuilt = rebuild_on_host(lost, *table, *backend);
  ASSERT_TRUE(rebuilt.ok());
  FamilyView family;
  family.active = std::make_shared<memtable::HostMemtable>();
  family.set_runs({rebuilt.value()});
  for (const auto& [key, position] : newest) {
    const std::byte* record = nullptr;
    EXPECT_EQ(find_one(family, *table, key, records.end(), &record), position) << key;
  }
  payloads[1] = payloads[40];
  lost.set_order(copy_order(*backend, payloads.data(), payloads.size()).take());
  EXPECT_TRUE(rebuild_on_host(lost, *table, *backend).status().IsCorruption());
}

// Goal: what files said before a flush is asked below clean runs that reach down to there, and
//       nowhere else.
// Method: a view through flushes that are kept, clean runs that leave, a flush that is not kept,
//         files that are read, and a tree that somebody else changes.
// Mutation: files that serve though a clean run has left, that flushes see, that are asked beside
//           newer ones, or behind a change that no clean run holds.
TEST(View, OlderFilesServeBelowCleanRuns) {
  const auto set = [] {
    auto backend =
        residency::make_backend(exec::open_device(exec::DeviceKind::kHost, 0).take(), {});
    auto made = residency::FileSet::make(backend.take(), {}, std::make_shared<residency::Usage>());
    EXPECT_TRUE(made.ok());
    return made.take();
  };
  const residency::FileSetPtr first = set();
  FamilyView family;
  family.tree_has_data = true;
  family.clean_from = family.log_from = 100;
  family.set_files(first);
  EXPECT_EQ(family.below_memory().files, first.get());
  // Flushed up to 100 before, and up to 200 and 300 then; both are kept.
  auto runs = runs_of({1, 1, 1, 1});
  family.set_clean({runs[2]}, false);
  family.note_flush(100);
  EXPECT_EQ(family.in_tree().files, nullptr);
  EXPECT_EQ(family.below_memory().files, first.get());
  family.set_clean({runs[1], runs[2]}, false);
  family.note_flush(200);
  EXPECT_EQ(family.below_memory().files, first.get());
  EXPECT_EQ(family.without_clean().below_memory().files, nullptr);

  FamilyView read = family;
  const residency::FileSetPtr second = set();
  read.set_files(second);
  EXPECT_EQ(read.below_memory().files, second.get());
  read.note_flush(300);
  EXPECT_EQ(read.older_files, second);
  read.note_tree_change();
  EXPECT_EQ(read.below_memory().files, nullptr);

  FamilyView shrunk = family;
  shrunk.clean_from = 200;
  EXPECT_EQ(shrunk.below_memory().files, nullptr);
  shrunk.drop_older_files();
  EXPECT_EQ(shrunk.older_files, nullptr);

  family.forget_clean(300);
  EXPECT_EQ(family.older_files, nullptr);
}

// Goal: merges are due where the rules say so, never across runs that somebody works on.
// Method: a table of run sizes, newest first, with what is taken, how many searches there were, and
//         of those how many before the newest runs.
// Mutation: a fan-in of five, or looking past a taken run, or minding another family's, fails; so
//   does a new run that is taken for one that all searches have met.
TEST(View, MergeDue) {
  constexpr FamilyId kFamily = 3;
  struct Case {
    const char* name;
    std::vector<std::uint64_t> sizes;
    std::vector<TakenRange> taken;
    std::uint64_t searches;
    RunRange expected;
    std::uint64_t before_newest = 0;  // of the searches
  };
  const Case cases[] = {
      {"nothing", {}, {}, 0, {0, 0}},
      {"one run", {10}, {}, 1'000'000, {0, 0}},
      {"three of a class", {10, 10, 10}, {}, 0, {0, 0}},
      {"four of a class", {10, 10, 10, 10}, {}, 0, {0, 4}},
      {"five of a class", {10, 10, 10, 10, 10}, {}, 0, {0, 5}},
      {"four small before a large one", {10, 10, 10, 10, 1'000'000}, {}, 0, {0, 4}},
      {"a large one among them", {10, 10, 1'000'000, 10, 10}, {}, 0, {0, 0}},
      {"small ones go with four large", {10, 50'000, 50'000, 50'000, 50'000}, {}, 0, {0, 5}},
      {"enough searches", {10, 10}, {}, 40, {0, 2}},
      {"too few searches", {10, 10}, {}, 39, {0, 0}},
      {"too few since the newest came", {10, 10}, {}, 45, {0, 0}, 6},
      {"enough since the newest came", {10, 10}, {}, 45, {0, 2}, 5},
      {"enough for the small ones", {10, 10, 1000}, {}, 40, {0, 2}},
      {"small ones do not pay for the large one", {10, 10, 1000}, {}, 1020, {0, 2}},
      {"enough for all", {10, 10, 1000}, {}, 2000, {0, 3}},
      {"all taken", {10, 10, 10, 10}, {{kFamily, 0, 400}}, 1'000'000, {0, 0}},
      {"the oldest taken", {10, 10, 10, 10, 10}, {{kFamily, 0, 100}}, 0, {0, 4}},
      {"the newest taken", {10, 10, 10, 10, 10}, {{kFamily, 400, 500}}, 0, {1, 4}},
      {"a middle one taken", {10, 10, 10, 10, 10, 10}, {{kFamily, 200, 300}}, 0, {0, 0}},
      {"the free newest by searches", {10, 10, 10, 10}, {{kFamily, 0, 200}}, 40, {0, 2}},
      {"another family's taken", {10, 10, 10, 10}, {{kFamily + 1, 0, 400}}, 0, {0, 4}},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    FamilyView family;
    family.id = kFamily;
    auto runs = runs_of(one.sizes);
    if (one.before_newest > 0) {
      auto newest = std::make_shared<MemRun>(*runs.front());
      newest->searches = one.before_newest;
      runs.front() = std::move(newest);
    }
    family.set_runs(std::move(runs));
    *family.searches = one.searches;
    const RunRange due = merge_due(family, one.taken);
    EXPECT_EQ(due.count < 2 ? 0 : due.count, one.expected.count);
    if (one.expected.count > 0) {
      EXPECT_EQ(due.first, one.expected.first);
    }
  }
}

}  // namespace breccia::ordered
