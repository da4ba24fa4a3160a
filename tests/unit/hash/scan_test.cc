#include <breccia/hash_store.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "hash/engine/engine.h"
#include "support/seeds.h"
#include "unit/hash/row_store.h"

/// Scans of a store's rows while it goes on.

namespace breccia::hash {

namespace {

class HashScans : public RowStore {
 protected:
  /// What the next calls of a scan bring, up to `calls`; *is_over: the end was among them.
  void read(base::Random& random, RowScan* scan, int calls, Model* found, bool* is_over) {
    for (int call = 0; call < calls && !*is_over; ++call) {
      const std::size_t most = 1 + random.below(random.one_in(4) ? 3000 : 40);
      std::vector<std::uint64_t> ids(most);
      std::vector<Row> rows(most);
      std::size_t count = most + 1;
      const Status status = scan->Next(most, ids.data(), rows.data(), &count);
      ASSERT_TRUE(status.ok()) << status.ToString();
      ASSERT_LE(count, most);
      *is_over = count < most;
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_TRUE(found->emplace(ids[i], rows[i]).second) << "twice: " << ids[i];
      }
    }
  }
  void clean(base::Random& random) {
    bool was_done = true;
    for (std::uint64_t i = 0; i < 1 + random.below(5) && was_done; ++i) {
      ASSERT_TRUE(engine_->cleaner().clean_one(&was_done).ok());
    }
  }
  /// Other keys, and values of other sizes, which no scan has. An id that has one has no row.
  void put_other(base::Random& random, Model* model) {
    if (random.one_in(2)) {
      const std::string key(random.below(20), 'k');
      if (key.size() == sizeof(std::uint64_t)) return;
      ASSERT_TRUE(engine_->Put(WriteOptions(), key, "of other keys").ok());
    } else {
      const std::uint64_t id = some_id(random);
      ASSERT_TRUE(engine_->Put(WriteOptions(), key_of_id(id), "of another size").ok());
      model->erase(id);
    }
  }
  void step(base::Random& random, Model* model) {
    switch (random.below(8)) {
      case 0:
      case 1:
      case 2:
        return put(random, model);
      case 3:
      case 4:
        return erase(random, model);
      case 5:
        return clean(random);
      case 6:
        if (random.one_in(4)) put_other(random, model);
        return;
      default:
        if (random.one_in(8)) break_device(random);
    }
  }
};

Model part_of(const Model& model, const RowRange& range) {
  Model part;
  for (const auto& [id, row] : model) {
    if (range.first_id <= id && id <= range.last_id) part.emplace(id, row);
  }
  return part;
}

}  // namespace

// Goal: a scan has what was there when it began, each id once, whatever happens meanwhile.
// Method: random writes, deletions and cleaning before and between the calls of two scans, over
// keys some of which share numbers, on all executors and a device that fails; then each scan is
// compared with a map of its moment.
// Mutation: what was written since is not put aside, or its oldest record counts, or deletions are
// not put aside with it; what the map does not know any more is taken for deleted; a view that ends
// where the log does.
TEST_F(HashScans, AreOfTheirMoment) {
  std::uint64_t rows = 0;
  for (const std::uint64_t seed : testing::seeds_to_run(300)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    may_fail_ = false;
    number_mask_ = random.one_in(3) ? 3 : ~std::uint64_t{0};
    open_new(random);
    if (HasFatalFailure()) return;
    Model model;
    const auto go_on = [&](std::uint64_t steps) {
      for (; steps > 0 && !HasFatalFailure(); --steps) step(random, &model);
    };
    go_on(random.below(30));
    struct Case {
      Model expected, found;
      std::unique_ptr<RowScan> scan;
      bool is_over = false;
    } cases[2];
    for (Case& one : cases) {
      go_on(random.below(10));
      if (HasFatalFailure()) return;
      RowRange range{.row_bytes = kRowBytes};
      if (random.one_in(2)) range.first_id = some_id(random);
      if (random.one_in(2)) range.last_id = some_id(random);
      one.expected = part_of(model, range);
      ASSERT_TRUE(engine_->ScanRows(range, &one.scan).ok());
    }
    while (!cases[0].is_over || !cases[1].is_over) {
      go_on(random.below(8));
      for (Case& one : cases) {
        read(random, one.scan.get(), static_cast<int>(random.below(3)), &one.found, &one.is_over);
      }
      if (HasFatalFailure()) return;
    }
    for (const Case& one : cases) {
      ASSERT_EQ(one.found, one.expected);
      rows += one.found.size();
    }
    for (Case& one : cases) one.scan.reset();
    find(random, model);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(rows, 0U);
}

// Goal: a scan and the changes behind it are the store.
// Method: writes beside a scan; then the stream of changes from its moment on is put over what it
// had.
// Mutation: a position that is not that of the view.
TEST_F(HashScans, GoOnAsChanges) {
  base::Random random(1);
  open_new(random);
  options_.log_keep_bytes = 1 << 30;
  open();
  Model model;
  for (int i = 0; i < 5; ++i) put(random, &model);
  std::unique_ptr<RowScan> scan;
  ASSERT_TRUE(engine_->ScanRows({.row_bytes = kRowBytes}, &scan).ok());
  for (int i = 0; i < 5; ++i) {
    put(random, &model);
    erase(random, &model);
  }
  Model found;
  bool is_over = false;
  read(random, scan.get(), 1000, &found, &is_over);
  ASSERT_TRUE(is_over);
  EXPECT_NE(found, model);
  std::unique_ptr<ChangeStream> stream;
  ASSERT_TRUE(engine_->Changes(scan->Position(), ChangesOptions(), &stream).ok());
  while (stream->Next(0).ok()) {
    for (const Change& change : stream->changes()) {
      std::uint64_t id = 0;
      std::memcpy(&id, change.key.data(), sizeof id);
      if (change.kind == Change::Kind::kDelete) {
        found.erase(id);
      } else {
        std::memcpy(found[id].data(), change.value.data(), kRowBytes);
      }
    }
  }
  EXPECT_EQ(found, model);
  stream.reset();
  scan.reset();
}

// Goal: rows of one scan are of one moment, though threads write while it goes on.
// Method: each batch gives all ids one version, or deletes all; a scan has one version of all, or
// nothing. A cleaner runs beside it.
// Mutation: a view whose segments and end are taken one after the other.
TEST_F(HashScans, OfManyThreadsAreOfOneMoment) {
  base::Random random(2);
  open_new(random);
  options_.backend = testing::backend_under_test();
  ground_.roll_bytes = 8192;
  ground_.scanned_at_once = 100;
  open();
  constexpr std::uint64_t kIds = 300;
  std::atomic<bool> stops = false;
  const auto write = [&](std::uint64_t writer) {
    base::Random own(writer);
    for (std::uint64_t version = 1; !stops; ++version) {
      Call call(*engine_);
      for (std::uint64_t id = 0; id < kIds; ++id) {
        Row row;
        const std::uint64_t words[] = {id, version, writer};
        std::memcpy(row.data(), words, sizeof words);
        call.add(id, row);
      }
      const Status status = own.one_in(8) ? call.erase(engine_.get(), WriteOptions())
                                          : call.put(engine_.get(), WriteOptions());
      EXPECT_TRUE(status.ok()) << status.ToString();
    }
  };
  const auto clean = [&] {
    while (!stops) {
      bool was_done = false;
      EXPECT_TRUE(engine_->cleaner().clean_one(&was_done).ok());
      if (!was_done) std::this_thread::yield();
    }
  };
  std::vector<std::thread> threads;
  for (std::uint64_t writer = 0; writer < 2; ++writer) threads.emplace_back(write, writer);
  threads.emplace_back(clean);
  std::uint64_t full = 0;
  while (full < 600) {
    std::unique_ptr<RowScan> scan;
    ASSERT_TRUE(engine_->ScanRows({.row_bytes = kRowBytes}, &scan).ok());
    Model found;
    bool is_over = false;
    read(random, scan.get(), 100'000, &found, &is_over);
    std::set<std::pair<std::uint64_t, std::uint64_t>> versions;
    for (const auto& [id, row] : found) {
      std::uint64_t words[3];
      std::memcpy(words, row.data(), sizeof words);
      EXPECT_EQ(words[0], id);
      versions.emplace(words[1], words[2]);
    }
    EXPECT_TRUE(found.empty() || (found.size() == kIds && versions.size() == 1))
        << found.size() << " ids of " << versions.size() << " versions";
    full += found.empty() ? 0 : 1;
    if (HasFailure()) break;
    if (found.empty()) std::this_thread::yield();
  }
  stops = true;
  for (std::thread& thread : threads) thread.join();
  engine_.reset();
}

TEST_F(HashScans, RefuseWhatIsNoRow) {
  base::Random random(3);
  open_new(random);
  std::unique_ptr<RowScan> scan;
  EXPECT_TRUE(engine_->ScanRows({.row_bytes = 0}, &scan).IsInvalidArgument());
  EXPECT_TRUE(engine_->ScanRows({.row_bytes = 12}, &scan).IsInvalidArgument());
  ASSERT_TRUE(engine_->ScanRows({.row_bytes = 8}, &scan).ok());
  alignas(8) char rows[24];
  std::uint64_t ids[2];
  std::size_t count = 7;
  EXPECT_TRUE(scan->Next(2, nullptr, rows, &count).IsInvalidArgument());
  EXPECT_TRUE(scan->Next(2, ids, rows + 4, &count).IsInvalidArgument());
  EXPECT_TRUE(scan->Next(0, ids, rows, &count).ok());
  EXPECT_TRUE(scan->Next(2, ids, rows, &count).ok());
  EXPECT_EQ(count, 0U);
  EXPECT_TRUE(scan->Next(2, ids, rows, &count).ok());  // the end stays the end
  EXPECT_EQ(count, 0U);
  EXPECT_TRUE(engine_->Close().ok());
  EXPECT_TRUE(scan->Next(2, ids, rows, &count).IsShutdownInProgress());
  std::unique_ptr<RowScan> late;
  EXPECT_TRUE(engine_->ScanRows({.row_bytes = 8}, &late).IsShutdownInProgress());
  scan.reset();
}

}  // namespace breccia::hash
