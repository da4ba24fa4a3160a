#include "ordered/check.h"

#include <gtest/gtest.h>

#include "ordered/state.h"
#include "record/entry_columns.h"
#include "support/records_in_memory.h"

namespace breccia::ordered {

namespace {

/// A view of one family with two runs of three entries each, a memtable of two and a range
/// deletion, and what it is checked against.
class CheckTest : public ::testing::Test {
 protected:
  CheckTest() {
    family_.active = std::make_shared<memtable::HostMemtable>();
    const MemRunPtr older = make_run({"a", "b", "b"});
    const MemRunPtr newer = make_run({"c", "a", "d"});
    family_.set_runs({newer, older});
    family_.runs_end = newer->end;
    for (const char* const key : {"b", "a"}) {
      const std::uint64_t position = records_.add(record::Op::kPut, key, "v");
      family_.active->insert(records_.record(position), position, records_.segment());
    }
    family_.tombstones = memtable::Tombstones::with(nullptr, {{"a", "c", records_.end()}});
    const std::uint64_t end = records_.end() + 64;
    bounds_ = {records_.segment()->base, end, end};
  }

  MemRunPtr make_run(const std::vector<std::string>& keys) {
    record::EntryColumns columns(exec::plain_host_memory());
    auto run = std::make_shared<MemRun>();
    run->begin = records_.end();
    for (const std::string& key : keys) {
      const std::uint64_t position = records_.add(record::Op::kPut, key, "v");
      const auto op = static_cast<std::uint64_t>(record::Op::kPut);
      EXPECT_TRUE(columns.append(records_.record(position), position | op));
    }
    run->end = records_.end();
    run->run = backend_->build_run(columns.ref(/*sorted=*/false), nullptr).take();
    run->set_order({run->run});
    return run;
  }
  /// The family's newest run with a change, in its place.
  template <class Change>
  void change_newest(const Change& change) {
    auto run = std::make_shared<MemRun>(*family_.runs.front());
    change(run.get());
    family_.runs.front() = std::move(run);
  }
  /// The payloads of a run's order, two of them in each other's place.
  static Order swapped(const MemRun& run, const wal::SegmentTable& table, runs::Backend& backend) {
    std::vector<std::uint64_t> payloads = payloads_of(run, table);
    std::swap(payloads[0], payloads[1]);
    return copy_order(backend, payloads.data(), payloads.size()).take();
  }
  [[nodiscard]] Status check() const {
    View view;
    view.table = records_.table();
    view.set_family(std::make_shared<FamilyView>(family_));
    return check_view(view, bounds_);
  }

  memtable::RecordsInMemory records_;
  std::shared_ptr<runs::Backend> backend_ = runs::make_host_backend();
  FamilyView family_;
  PositionBounds bounds_{};
};

}  // namespace

// Goal: a view that is as it should be passes.
// Method: runs with several versions of keys, a memtable, a range deletion.
// Mutation: a check that takes a bound for exclusive, or keys for distinct, fails.
TEST_F(CheckTest, SoundViewPasses) {
  const Status status = check();
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_TRUE(holds(status));
  EXPECT_FALSE(holds(Status::Corruption("planted")));
}

// Goal: runs that do not follow on each other, or on what the family says of them, are noticed.
// Method: one thing of a sound family is made wrong at a time.
// Mutation: leaving out a line of check_counts or check_positions fails.
TEST_F(CheckTest, RunsThatDoNotFit) {
  const FamilyView sound = family_;
  std::swap(family_.runs[0], family_.runs[1]);
  std::swap(family_.backend_runs[0], family_.backend_runs[1]);
  family_.runs_end = family_.runs.front()->end;
  EXPECT_TRUE(check().IsCorruption());
  family_ = sound;
  change_newest([](MemRun* run) { run->begin -= 8; });
  EXPECT_TRUE(check().IsCorruption());
  family_ = sound;
  family_.runs_end += 8;
  EXPECT_TRUE(check().IsCorruption());
  family_ = sound;
  ++family_.orders;
  EXPECT_TRUE(check().IsCorruption());
  family_ = sound;
  family_.backend_runs.pop_back();
  EXPECT_TRUE(check().IsCorruption());
  family_ = sound;
  family_.backend_runs[0] = family_.backend_runs[1];
  EXPECT_TRUE(check().IsCorruption());
}

// Goal: an order that does not list its run's entries in their order is noticed.
// Method: a count, an entry's place, and an order's positions are made wrong.
// Mutation: comparing keys without positions, or counts of the first order alone, fails.
TEST_F(CheckTest, OrdersThatDoNotFit) {
  const FamilyView sound = family_;
  change_newest([](MemRun* run) { --run->orders.front().count; });
  EXPECT_TRUE(check().IsCorruption());
  family_ = sound;
  change_newest([](MemRun* run) { run->orders.front().end += 8; });
  EXPECT_TRUE(check().IsCorruption());
  family_ = sound;
  change_newest([](MemRun* run) { run->orders.front().begin = run->end - 8; });
  EXPECT_TRUE(check().IsCorruption());
  family_ = sound;
  const auto table = records_.table();
  change_newest([&](MemRun* run) { run->set_order(swapped(*run, *table, *backend_)); });
  EXPECT_TRUE(check().IsCorruption());
  // Two versions of a key, the older one first.
  family_ = sound;
  const MemRunPtr one_key = make_run({"k", "k"});
  family_.set_runs({one_key});
  family_.runs_end = one_key->end;
  family_.active = std::make_shared<memtable::HostMemtable>();
  ASSERT_TRUE(check().ok());
  change_newest([&](MemRun* run) { run->set_order(swapped(*run, *table, *backend_)); });
  EXPECT_TRUE(check().IsCorruption());
}

// Goal: what nobody may see yet, and what the log has no more, is noticed.
// Method: the bounds move over the memtable, the range deletion and the runs.
// Mutation: a bound that is not looked at fails.
TEST_F(CheckTest, PositionsOutOfBounds) {
  const PositionBounds sound = bounds_;
  bounds_.visible = records_.end();  // the range deletion's own position
  EXPECT_TRUE(check().IsCorruption());
  family_.tombstones = nullptr;
  EXPECT_TRUE(check().ok());
  bounds_.visible = family_.runs_end;
  EXPECT_TRUE(check().IsCorruption());  // the memtable
  family_.active = std::make_shared<memtable::HostMemtable>();
  EXPECT_TRUE(check().ok());
  bounds_.visible -= 8;
  EXPECT_TRUE(check().IsCorruption());  // the newest run
  bounds_ = sound;
  bounds_.log_end = bounds_.visible - 8;
  EXPECT_TRUE(check().IsCorruption());
  bounds_ = sound;
  bounds_.log_begin = family_.runs.back()->begin + 8;
  EXPECT_TRUE(check().IsCorruption());  // an entry of the oldest run
  bounds_.log_begin = family_.runs.back()->end;
  EXPECT_TRUE(check().IsCorruption());  // all of it
}

// Goal: a memtable with entries as old as the runs is noticed.
// Method: a memtable takes a record of a run.
// Mutation: comparing with the log's begin in place of the runs' end fails.
TEST_F(CheckTest, MemtableBelowRuns) {
  const std::uint64_t position = family_.runs.front()->begin;
  family_.active->insert(records_.record(position), position, records_.segment());
  EXPECT_TRUE(check().IsCorruption());
}

// Goal: a family that the tree lost is noticed, unless it was dropped.
// Method: a view over a tree without families.
// Mutation: counting dropped families, or none, fails.
TEST_F(CheckTest, FamiliesOfTheTree) {
  View view;
  view.set_family(std::make_shared<FamilyView>(family_));
  EXPECT_TRUE(check_tree(view, {}).IsCorruption());
  family_.dropped = true;
  view.set_family(std::make_shared<FamilyView>(family_));
  EXPECT_TRUE(check_tree(view, {}).ok());
}

// Goal: an index that leaves out where an entry lies is noticed.
// Method: a run of 100 entries with its own index, then with that of a run of other keys.
// Mutation: a check that does not ask the index fails.
TEST_F(CheckTest, IndexOfOtherKeys) {
  const auto keys = [](const std::string& prefix) {
    std::vector<std::string> all;
    for (int i = 100; i < 200; ++i) all.push_back(prefix + std::to_string(i));
    return all;
  };
  const MemRunPtr run = make_run(keys("a"));
  family_.set_runs({run});
  family_.active = std::make_shared<memtable::HostMemtable>();
  family_.runs_end = run->end;
  const MemRunPtr other = make_run(keys("b"));
  family_.tombstones = nullptr;
  bounds_.log_end = bounds_.visible = records_.end();
  const auto index_of = [&](const MemRun& one) {
    return OrderIndex::make(one.orders.front(), *records_.table(), /*stopping=*/false);
  };
  run->orders.front().index->give(index_of(*run));
  EXPECT_TRUE(check().ok()) << check().ToString();
  change_newest([&](MemRun* changed) {
    changed->orders.front().index = std::make_shared<IndexPlace>();
    changed->orders.front().index->give(index_of(*other));
  });
  EXPECT_TRUE(check().IsCorruption());
}

}  // namespace breccia::ordered
