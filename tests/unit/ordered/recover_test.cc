#include "ordered/recover.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <string>
#include <tuple>
#include <vector>

#include "record/key_columns.h"
#include "support/backends.h"
#include "support/records_in_memory.h"
#include "support/seeds.h"

namespace breccia::ordered {

namespace {

using memtable::Tombstone;

constexpr FamilyId kFamilies[] = {kDefaultFamily, 1, 6, 300};

enum class Where { kHost, kSimulator, kFake };

std::string name_of(Where where) {
  constexpr const char* kNames[] = {"host", "simulator", "fake"};
  return kNames[static_cast<int>(where)];
}

/// A point operation of one family.
struct Entry {
  std::string key;
  std::uint64_t payload;
};
/// What a family should hold.
struct Expected {
  std::vector<Entry> entries;
  std::vector<Tombstone> tombstones;
};

/// Frames as a log replays them, and what should come of them.
class Frames {
 public:
  Frames(std::uint64_t seed, std::uint64_t count) : random_(seed) {
    const bool large = random_.one_in(8);
    applied_ = records_.end();
    for (std::uint64_t i = 0; i < count; ++i) {
      add_frame(1 + random_.below(large ? 400 : 20));
      // A commit record and a header lie between frames.
      (void)records_.add(record::Op::kPut, "not of a frame",
                         "64 bytes of what recovery never reads");
    }
  }

  [[nodiscard]] const std::vector<wal::RecoveredFrame>& frames() const { return frames_; }
  [[nodiscard]] const std::map<FamilyId, Expected>& expected() const { return expected_; }
  [[nodiscard]] std::uint64_t applied() const { return applied_; }
  [[nodiscard]] wal::SegmentTablePtr table() const { return records_.table(); }

 private:
  void add_frame(std::uint64_t records) {
    const std::uint64_t begin = records_.end();
    const bool only_default = random_.one_in(3);
    range_deletes_ = !only_default && random_.one_in(3);
    count_ = 0;
    descriptors_.emplace_back();
    if (only_default || random_.one_in(2)) add_part(kDefaultFamily, begin, records);
    for (const FamilyId family : kFamilies) {
      if (only_default || family == kDefaultFamily || random_.one_in(2)) continue;
      descriptors_.back().push_back(static_cast<std::uint32_t>((records_.end() - begin) / 8));
      const std::string name(reinterpret_cast<const char*>(&family), sizeof family);
      (void)records_.add(record::Op::kFamily, "", name);
      ++count_;
      add_part(family, begin, 1 + random_.below(records));
    }
    const bool described = !range_deletes_ && random_.one_in(2);
    frames_.push_back({begin, records_.record(begin), records_.end() - begin, count_,
                       described ? descriptors_.back().data() : nullptr, only_default});
  }

  /// Records of one family, and their descriptors in run order.
  void add_part(FamilyId family, std::uint64_t frame, std::uint64_t records) {
    std::vector<Entry> entries;
    count_ += static_cast<std::uint32_t>(records);
    for (; records > 0; --records) {
      std::string key = random_key();
      if (range_deletes_ && random_.one_in(3)) {
        std::string end = random_key();
        if (end < key) std::swap(key, end);
        const std::uint64_t position = records_.add(record::Op::kDeleteRange, key, end);
        // One that is empty counts for nothing.
        const std::byte* const record = records_.record(position);
        if (key < end) {
          expected_[family].tombstones.push_back({{record::record_key(record), key.size()},
                                                  {record::record_value(record), end.size()},
                                                  position});
        }
        continue;
      }
      const auto op = static_cast<record::Op>(random_.below(merges_ ? 4 : 2));
      const std::uint64_t position = records_.add(op, key, record::is_deletion(op) ? "" : "value");
      entries.push_back({key, position | static_cast<std::uint64_t>(op)});
    }
    auto& all = expected_[family].entries;
    all.insert(all.end(), entries.begin(), entries.end());
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return std::tie(a.key, b.payload) < std::tie(b.key, a.payload);
    });
    for (const Entry& entry : entries) {
      const std::uint64_t offset = record::position_of(entry.payload) - frame;
      descriptors_.back().push_back(static_cast<std::uint32_t>(offset / 8));
    }
  }

  std::string random_key() {
    std::string key(random_.one_in(2) ? 9 : 0, 'p');
    return key + std::to_string(random_.below(50)) + std::string(random_.below(2), '\0');
  }

  base::Random random_;
  const bool merges_ = random_.one_in(2);
  bool range_deletes_ = false;
  memtable::RecordsInMemory records_;
  std::deque<std::vector<std::uint32_t>> descriptors_;
  std::uint32_t count_ = 0;
  std::vector<wal::RecoveredFrame> frames_;
  std::map<FamilyId, Expected> expected_;
  std::uint64_t applied_ = 0;
};

/// The run holds exactly the entries in its range of positions, in run order.
void expect_run(const MemRun& run, const Expected& expected, const wal::SegmentTable& table,
                runs::Backend& backend, std::size_t* entries_seen) {
  std::vector<Entry> own;
  bool has_merges = false;
  for (const Entry& entry : expected.entries) {
    if (entry.payload < run.begin || entry.payload >= run.end) continue;
    own.push_back(entry);
    has_merges = has_merges || record::op_of(entry.payload) == record::Op::kMerge;
  }
  std::sort(own.begin(), own.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.key, b.payload) < std::tie(b.key, a.payload);
  });
  ASSERT_EQ(run.run->count(), own.size());
  ASSERT_FALSE(own.empty());
  EXPECT_EQ(run.has_merges, has_merges);
  std::vector<std::uint64_t> payloads(own.size());
  ASSERT_TRUE(backend.read_payloads(*run.run, payloads.data()).ok());
  for (std::size_t i = 0; i < own.size(); ++i) {
    ASSERT_EQ(payloads[i], own[i].payload) << i;
    ASSERT_EQ(run.orders.front().payload_at(i, table), own[i].payload) << i;
    // Whoever reads in the host's order finds every version at its place.
    const std::uint64_t behind = record::position_of(own[i].payload) + 8;
    ASSERT_EQ(lower_bound(run.orders.front(), table, own[i].key, behind), i);
  }
  *entries_seen += own.size();
}

void expect_family(const RecoveredFamily& found, const Expected& expected, const Frames& frames,
                   runs::Backend& backend) {
  ASSERT_EQ(found.tombstones.size(), expected.tombstones.size());
  for (std::size_t i = 0; i < found.tombstones.size(); ++i) {
    const Tombstone& one = found.tombstones[i];
    const Tombstone& wanted = expected.tombstones[i];
    EXPECT_EQ(std::tie(one.begin, one.end, one.position),
              std::tie(wanted.begin, wanted.end, wanted.position));
  }
  std::size_t entries = 0;
  EXPECT_LE(found.runs.size(), 20u);
  for (std::size_t i = 0; i < found.runs.size(); ++i) {
    const bool oldest = i + 1 == found.runs.size();
    EXPECT_EQ(found.runs[i]->begin, oldest ? frames.applied() : found.runs[i + 1]->end);
    expect_run(*found.runs[i], expected, *frames.table(), backend, &entries);
  }
  EXPECT_EQ(entries, expected.entries.size()) << "entries that no run holds";
}

class Recover : public ::testing::TestWithParam<Where> {
 protected:
  std::shared_ptr<runs::Backend> make_backend(std::uint64_t seed) {
    if (GetParam() == Where::kHost) return runs::make_host_backend();
    if (GetParam() == Where::kSimulator) return testing::make_simulator_backend(seed);
    return testing::make_fake_backend(&faults_);
  }
  exec::FakeFaults faults_;
};

}  // namespace

// Goal: a log's frames become, family by family, few runs of all its entries and a list of its
// range
//   deletions.
// Method: random frames, of one family and of several, with and without descriptors, range
//   deletions and merge operands; compared with a list of entries, as the backend has the runs and
//   as the host has their order.
// Mutation: descriptors that begin with the family's name, or a part that keeps the one before it
//   in its own descriptors, gives another family's entries.
TEST_P(Recover, FramesBecomeRunsOfTheirFamilies) {
  for (const std::uint64_t seed : testing::seeds_to_run(60)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const auto backend = make_backend(seed);
    const Frames frames(seed, random.below(seed % 4 == 0 ? 60 : 12));
    auto recovered = recover_families(frames.frames(), frames.applied(), *backend);
    ASSERT_TRUE(recovered.ok()) << recovered.status().ToString();
    for (const FamilyId family : kFamilies) {
      SCOPED_TRACE("family " + std::to_string(family));
      const auto expected = frames.expected().find(family);
      const Expected none;
      expect_family(recovered.value()[family],
                    expected == frames.expected().end() ? none : expected->second, frames,
                    *backend);
      if (HasFatalFailure()) return;
    }
    EXPECT_EQ(recovered.value().size(), std::size(kFamilies));
  }
}

INSTANTIATE_TEST_SUITE_P(Where, Recover,
                         ::testing::Values(Where::kHost, Where::kSimulator, Where::kFake),
                         [](const auto& info) { return name_of(info.param); });

// Goal: a device that fails while the log is recovered is an error, and keeps nothing.
// Method: the same frames with each of the device's operations failing in turn. Runs are built by
//   several threads, and who of them finds memory to use again is chance, so there may be fewer
//   operations than the first time.
// Mutation: taking the payloads of a run without looking whether they came.
TEST(RecoverFault, EveryOperation) {
  const Frames frames(3, 10);
  std::uint64_t operations = 0;
  for (std::uint64_t k = 0; k <= operations; ++k) {
    exec::FakeFaults faults;
    const auto device = testing::make_fake_backend(&faults);
    if (k > 0) faults.fail_after(k, exec::Fault::kDeviceLost);
    const auto recovered = recover_families(frames.frames(), frames.applied(), *device);
    if (k == 0) operations = faults.operations();
    const bool has_failed = k > 0 && faults.operations() >= k;
    EXPECT_TRUE(has_failed || k == 0 || k > operations / 2) << "operation " << k;
    EXPECT_EQ(recovered.ok(), !has_failed) << "operation " << k;
    if (has_failed) {
      EXPECT_EQ(device->tenant().used(), 0u) << "operation " << k;
    }
  }
  EXPECT_GT(operations, 10u);
}

}  // namespace breccia::ordered
