#include <breccia/hash_store.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "hash/engine/engine.h"
#include "support/backend.h"
#include "support/seeds.h"
#include "unit/hash/row_store.h"

/// Rows that lie in whole lines of the log, beside others.

namespace breccia::hash {

namespace {

using Values = std::map<std::uint64_t, std::string>;

class HashAlignedRows : public RowStore {
 protected:
  void open_other(base::Random& random) {
    choose(random);
    options_.row_alignment = some_alignment(random);
    options_.cached_row_bytes = some_size(random);
    engine_.reset();
    std::filesystem::remove_all(folder_ / "store");
    open();
  }
  static std::size_t some_alignment(base::Random& random) { return random.one_in(3) ? 8 : 64; }
  /// Of values. In some stores there is but one.
  std::uint64_t some_size(base::Random& random) const {
    const std::uint64_t sizes[] = {128, 64, 192, 24};
    return sizes[random.below(sizes_)];
  }
  static std::string some_value(base::Random& random, std::uint64_t bytes) {
    std::string value(bytes, '\0');
    for (char& byte : value) byte = static_cast<char>(random.next());
    return value;
  }
  /// call(CallOf<bytes>): arrays of rows of that size.
  template <class F>
  void with_call(std::uint64_t bytes, const F& call) {
    switch (bytes) {
      case 24:
        return call(CallOf<24>(*engine_));
      case 64:
        return call(CallOf<64>(*engine_));
      case 128:
        return call(CallOf<128>(*engine_));
      default:
        ASSERT_EQ(bytes, 192U);
        return call(CallOf<192>(*engine_));
    }
  }

  /// PutRows of values of one size.
  void put_rows(base::Random& random, const Values& values) {
    if (values.empty()) return;
    with_call(values.begin()->second.size(), [&](auto call) {
      for (const auto& [id, value] : values) {
        call.add(id, {});
        ASSERT_EQ(value.size(), call.rows.back().size());
        std::memcpy(call.rows.back().data(), value.data(), value.size());
      }
      const Status status = call.put(engine_.get(), some_durability(random));
      ASSERT_TRUE(status.ok() || may_fail_) << status.ToString();
      if (!status.ok()) return;
      for (const auto& [id, value] : values) model_[id] = value;
    });
  }
  /// The same by a batch.
  void put_batch(base::Random& random, const Values& values) {
    Batch batch = engine_->NewBatch();
    for (const auto& [id, value] : values) {
      ASSERT_TRUE(batch.Put(key_of_id(id), value).ok());
      model_[id] = value;
    }
    ASSERT_TRUE(engine_->Submit(some_durability(random), &batch).ok());
  }
  Values some_values(base::Random& random) const {
    Values values;
    const std::uint64_t bytes = some_size(random);
    for (std::uint64_t i = 1 + random.below(60); i > 0; --i) {
      values[some_id(random)] = some_value(random, bytes);
    }
    return values;
  }
  void find(base::Random& random) {
    const std::uint64_t bytes = random.one_in(8) ? 24 : some_size(random);
    with_call(bytes, [&](auto call) {
      for (std::uint64_t i = 1 + random.below(150); i > 0; --i) call.add(some_id(random), {});
      const Status status = call.find(engine_.get());
      ASSERT_TRUE(status.ok() || may_fail_) << status.ToString();
      if (!status.ok()) return;
      for (std::size_t i = 0; i < call.ids.size(); ++i) {
        const auto at = model_.find(call.ids[i]);
        const bool is_there = at != model_.end() && at->second.size() == bytes;
        ASSERT_EQ(call.found[i], is_there ? 1 : 0) << call.ids[i];
        if (!is_there) continue;
        ASSERT_EQ(std::string(call.rows[i].data(), bytes), at->second) << call.ids[i];
      }
    });
  }
  /// As another opening would find it, too.
  void expect_all(Engine* engine) {
    for (const auto& [id, expected] : model_) {
      std::string value;
      ASSERT_TRUE(engine->Get(key_of_id(id), &value).ok()) << id;
      ASSERT_EQ(value, expected) << id;
    }
    std::string keys;
    ASSERT_TRUE(engine->GetProperty("breccia.hash.keys", &keys));
    ASSERT_EQ(keys, std::to_string(model_.size()));
  }
  /// Some of the log's segments, or as many as there are, so that every record is moved.
  void clean(base::Random& random) {
    bool was_done = true;
    for (std::uint64_t i = random.below(60); i > 0 && was_done; --i) {
      ASSERT_TRUE(engine_->cleaner().clean_one(&was_done).ok());
    }
  }
  /// A stream of what is written from now on. It keeps the log that it needs. Before it is there,
  /// the store's own cleaner may write on, and give up what was the end.
  std::unique_ptr<ChangeStream> follow() {
    std::unique_ptr<ChangeStream> stream;
    Status status = Status::NotFound();
    for (int i = 0; i < 100 && status.IsNotFound(); ++i) {
      status = engine_->Changes(engine_->Position(), ChangesOptions(), &stream);
    }
    EXPECT_TRUE(status.ok()) << status.ToString();
    return stream;
  }
  /// What a stream tells, up to when it has told all of these ids. What the cleaner moves meanwhile
  /// may have begun before, and holds it up.
  static Values told_by(ChangeStream* stream, const Values& ids) {
    constexpr std::uint64_t kWaitUs = 10'000'000;
    Values told;
    const auto is_told = [&](const auto& one) { return told.contains(one.first); };
    while (stream->Next(std::all_of(ids.begin(), ids.end(), is_told) ? 0 : kWaitUs).ok()) {
      for (const Change& one : stream->changes()) {
        std::uint64_t id = 0;
        EXPECT_EQ(one.key.size(), sizeof id);
        std::memcpy(&id, one.key.data(), sizeof id);
        told[id] = one.value.ToString();
      }
    }
    return told;
  }
  void write(base::Random& random) {
    const Values values = some_values(random);
    const auto stream = follow();
    const bool are_rows = sizes_ == 1 ? !random.one_in(40) : random.one_in(2);
    are_rows ? put_rows(random, values) : put_batch(random, values);
    const auto written = model_.find(values.begin()->first);
    if (HasFatalFailure() || written == model_.end() || written->second != values.begin()->second) {
      return;  // the device is lost
    }
    const Values told = told_by(stream.get(), values);
    for (const auto& [id, value] : values) ASSERT_TRUE(told.contains(id)) << id;
    // The cleaner may have written others again.
    for (const auto& [id, value] : told) ASSERT_TRUE(value == model_.at(id)) << id;
  }
  void erase_some(base::Random& random) {
    CallOf<24> call(*engine_);
    for (std::uint64_t i = 1 + random.below(20); i > 0; --i) call.add(some_id(random), {});
    const Status status = call.erase(engine_.get(), some_durability(random));
    ASSERT_TRUE(status.ok() || may_fail_) << status.ToString();
    if (!status.ok()) return;
    for (const std::uint64_t id : call.ids) model_.erase(id);
  }
  void reopen(base::Random& random) {
    options_.row_alignment = some_alignment(random);
    may_fail_ = false;
    gpu_.faults.fail_after(0, exec::Fault::kDeviceLost);
    open();
  }
  void scan(base::Random& random) {
    const std::uint64_t bytes = some_size(random);
    std::unique_ptr<RowScan> scan;
    ASSERT_TRUE(engine_->ScanRows({.row_bytes = bytes}, &scan).ok());
    Values found;
    std::vector<std::uint64_t> ids(50);
    std::vector<std::uint64_t> rows(ids.size() * bytes / 8);
    for (std::size_t count = ids.size(); count == ids.size();) {
      ASSERT_TRUE(scan->Next(ids.size(), ids.data(), rows.data(), &count).ok());
      for (std::size_t i = 0; i < count; ++i) {
        found[ids[i]] = {reinterpret_cast<const char*>(rows.data()) + i * bytes, bytes};
      }
    }
    Values expected;
    for (const auto& [id, value] : model_) {
      if (value.size() == bytes) expected.emplace(id, value);
    }
    ASSERT_TRUE(found == expected) << found.size() << " of " << expected.size();
  }
  /// Rows go whose values did not change, if others have written them or not.
  void evict(base::Random& random) {
    EvictOptions options;
    options.range.row_bytes = some_size(random);
    options.score_min = 1;
    std::set<std::uint64_t> spared;
    options.score = [&](std::span<const std::uint64_t> ids, const void* /*rows*/,
                        std::span<double> score) {
      Values again, others;
      for (std::size_t i = 0; i < ids.size(); ++i) {
        score[i] = ids[i] % 3 == 0 ? 0 : 1;
        if (random.one_in(4)) again[ids[i]] = model_.at(ids[i]);
        if (!random.one_in(8)) continue;
        others[ids[i]] = some_value(random, options.range.row_bytes);
        spared.insert(ids[i]);
      }
      random.one_in(2) ? put_batch(random, again) : put_rows(random, again);
      put_batch(random, others);
      return Status::OK();
    };
    std::uint64_t evicted = 0;
    ASSERT_TRUE(engine_->EvictRows(options, &evicted).ok());
    std::uint64_t expected = 0;
    for (auto at = model_.begin(); at != model_.end();) {
      const bool is_gone = at->second.size() == options.range.row_bytes && at->first % 3 == 0 &&
                           !spared.contains(at->first);
      expected += is_gone ? 1 : 0;
      at = is_gone ? model_.erase(at) : std::next(at);
    }
    ASSERT_EQ(evicted, expected);
  }
  /// A transaction depends on values, not on how they lie.
  void transact(base::Random& random) {
    const Values values = some_values(random);
    put_batch(random, values);
    auto transaction = engine_->OpenTransaction();
    Batch reads = engine_->NewBatch();
    for (const auto& [id, value] : values) ASSERT_TRUE(reads.Get(key_of_id(id)).ok());
    ASSERT_TRUE(transaction->Read(&reads).ok());
    const bool is_changed = random.one_in(2);
    Values now = values;
    if (is_changed) now.begin()->second = some_value(random, now.begin()->second.size());
    put_rows(random, now);
    if (HasFatalFailure() || model_.at(now.begin()->first) != now.begin()->second) return;
    const std::uint64_t id = values.rbegin()->first;
    const std::string value = some_value(random, 128);
    ASSERT_TRUE(transaction->batch().Put(key_of_id(id), value).ok());
    const Status status = transaction->Close(WriteOptions());
    ASSERT_EQ(status.IsBusy(), is_changed) << status.ToString();
    ASSERT_EQ(status.ok(), !is_changed);
    if (!is_changed) model_[id] = value;
  }
  void copy() {
    const std::string path = folder_ / "copy";
    std::filesystem::remove_all(path);
    ASSERT_TRUE(engine_->Snapshot(path).ok());
    std::unique_ptr<Engine> opened;
    HashOptions options = options_;
    options.backend = BackendChoice::kHost;
    options.create_if_missing = false;
    const Status status = Engine::open(options, path, ground_, &opened);
    ASSERT_TRUE(status.ok()) << status.ToString();
    expect_all(opened.get());
  }
  void step(base::Random& random) {
    switch (random.below(16)) {
      case 0:
        return erase_some(random);
      case 1:
      case 2:
        return clean(random);
      case 3:
        return random.one_in(2) ? reopen(random) : expect_all(engine_.get());
      case 4:
        return scan(random);
      case 5:
        if (sizes_ > 1 || random.one_in(8)) evict(random);
        return;
      case 6:
        if (sizes_ > 1 || random.one_in(8)) transact(random);
        return;
      case 7:
        if (random.one_in(3)) copy();
        return;
      case 8:
        if (random.one_in(6)) break_device(random);
        return;
      case 9:
      case 10:
      case 11:
        return write(random);
      default:
        return find(random);
    }
  }
  /// Whether the values of all changes of a stream begin at a line, behind a gap of zeros. Returns
  /// how many there are.
  static std::uint64_t expect_lines(ChangeStream* stream) {
    std::uint64_t count = 0;
    while (stream->Next(0).ok()) {
      for (const Change& one : stream->changes()) {
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(one.value.data()) % 64, 0U);
        EXPECT_EQ(std::string(one.key.data() + 8, one.value.data()), std::string(48, '\0'));
        ++count;
      }
    }
    return count;
  }
  /// Of new ids.
  Values some_rows(base::Random& random, std::uint64_t count, std::uint64_t bytes) {
    Values values;
    for (; count > 0; --count) values[next_id_++] = some_value(random, bytes);
    return values;
  }

  Values model_;
  std::uint64_t sizes_ = 1;
  std::uint64_t next_id_ = 0;
};

}  // namespace

// Goal: rows are what a map has, however they lie, and whether all lie alike or not.
// Method: random calls of all kinds beside a map, in stores of rows of one size and of several,
//   with an alignment that changes at openings; batches put the same ids and sizes; cleaning that
//   moves every record; few ids and many, with a cache and without, and a device that fails.
// Mutation: a header that is not looked at where puts have several, or whose gap is not counted; a
//   batch, an opening, the cleaner or the device's own records that say nothing of their headers;
//   kernels that take a record of another header for one that is not there; deletions with a gap;
//   values that are compared with what lies before them.
TEST_F(HashAlignedRows, AreWhatAMapHas) {
  for (const std::uint64_t seed : testing::seeds_to_run(300)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    may_fail_ = false;
    sizes_ = random.one_in(2) ? 1 : 2 + random.below(3);
    model_.clear();
    open_other(random);
    for (int turn = 0; turn < 40 && !HasFatalFailure(); ++turn) step(random);
    if (!HasFatalFailure()) expect_all(engine_.get());
    if (HasFatalFailure()) return;
  }
}

// Goal: rows of 128 bytes and of more lines begin at a line, whoever wrote them there: PutRows of
//   few and of many, the cleaner, a snapshot; others take no more room than they need.
// Method: addresses of what change streams show, and how far the log's end moves.
// Mutation: a gap of another size; frames of few rows that are not aligned; other rows with a gap.
TEST_F(HashAlignedRows, LieInWholeLines) {
  base::Random random(1);
  options_.create_if_missing = true;
  options_.backend = BackendChoice::kSimulator;
  ground_ = {testing::make_sparse_files(), pmem::real_disk()};
  ground_.roll_bytes = 64;  // a segment for each batch
  ground_.is_scripted = true;
  open();
  for (const std::uint64_t bytes : {128U, 192U}) {
    for (const std::uint64_t count : {1U, 3U, 2000U}) {
      const auto stream = follow();
      put_rows(random, some_rows(random, count, bytes));
      EXPECT_EQ(expect_lines(stream.get()), count);
    }
  }
  ASSERT_TRUE(engine_->Snapshot(folder_ / "copy").ok());
  std::unique_ptr<Engine> copy;
  ASSERT_TRUE(Engine::open(options_, folder_ / "copy", ground_, &copy).ok());
  std::unique_ptr<ChangeStream> stream;
  ASSERT_TRUE(copy->Changes(0, ChangesOptions(), &stream).ok());
  EXPECT_EQ(expect_lines(stream.get()), model_.size());
  stream = follow();
  bool was_done = true;
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(engine_->cleaner().clean_one(&was_done).ok());
  EXPECT_EQ(expect_lines(stream.get()), 1U + 3 + 2000);
  stream.reset();
  expect_all(engine_.get());

  ground_.roll_bytes = 0;
  open();
  const auto taken = [&](std::uint64_t bytes) {
    const std::uint64_t before = engine_->Position();
    put_rows(random, some_rows(random, 100, bytes));
    return engine_->Position() - before;
  };
  EXPECT_LT(taken(64), 100 * (16 + 64) + 130);
  EXPECT_LT(taken(24), 100 * (16 + 24) + 130);
  EXPECT_GE(taken(128), 100U * (64 + 128));
  options_.row_alignment = 8;
  open();
  EXPECT_LT(taken(128), 100 * (16 + 128) + 130);
}

// Goal: what a cleaning pass measures is what records take, gaps and all.
// Method: a store whose records all live, gone through once: its log may take twice what it took.
// Mutation: records are looked at without their gaps, and copied with them.
TEST_F(HashAlignedRows, CleaningCountsGaps) {
  base::Random random(1);
  options_.create_if_missing = true;
  options_.backend = BackendChoice::kSimulator;
  ground_ = {testing::make_sparse_files(), pmem::real_disk()};
  ground_.roll_bytes = 32 << 10;
  ground_.is_scripted = true;
  open();
  // So few segments that writes clean none.
  for (int i = 0; i < 6; ++i) put_rows(random, some_rows(random, 300, 128));
  const auto number = [&](const std::string& name) {
    std::string text;
    EXPECT_TRUE(engine_->GetProperty(name, &text));
    return std::stoull(text);
  };
  const std::uint64_t bytes = number("breccia.log.bytes");
  const std::uint64_t estimated = number("breccia.hash.log_bytes_max");
  bool was_done = true;
  while (was_done && number("breccia.hash.log_bytes_max") == estimated) {
    ASSERT_TRUE(engine_->cleaner().clean_one(&was_done).ok());
  }
  EXPECT_EQ(number("breccia.hash.log_bytes_max"), 2 * bytes);
  expect_all(engine_.get());
}

// Goal: what cores and kernels copy without a look at headers is right up to the put that differs,
//   and from then on.
// Method: lookups of few ids and of many in a store of rows that lie alike, behind a batch that
//   puts one of them otherwise, and behind another opening; with a cache and without.
// Mutation: the header that puts share is that of another moment than what was found, or lasts.
TEST_F(HashAlignedRows, ShapesThatBecomeSeveral) {
  constexpr std::uint64_t kIds = kFewIds + 2000;
  for (const bool is_cached : {false, true}) {
    for (const std::size_t alignment : {std::size_t{8}, std::size_t{64}}) {
      base::Random random(alignment);
      options_.create_if_missing = true;
      options_.backend = BackendChoice::kSimulator;
      options_.row_alignment = alignment;
      options_.cached_row_bytes = 128;
      options_.row_cache_bytes = is_cached ? 1 << 20 : 0;
      ground_ = {testing::make_sparse_files(), pmem::real_disk()};
      engine_.reset();
      std::filesystem::remove_all(folder_ / "store");
      open();
      model_.clear();
      next_id_ = 0;
      put_rows(random, some_rows(random, kIds, 128));
      const auto look = [&](std::uint64_t count) {
        CallOf<128> call(*engine_);
        for (std::uint64_t id = 0; id < count; ++id) call.add(id * 7 % kIds, {});
        ASSERT_TRUE(call.find(engine_.get()).ok());
        for (std::uint64_t i = 0; i < count; ++i) {
          ASSERT_EQ(call.found[i], 1);
          ASSERT_EQ(std::string(call.rows[i].data(), 128), model_.at(call.ids[i])) << i;
        }
        CallOf<192> other(*engine_);
        for (std::uint64_t id = 0; id < count; ++id) other.add(id, {});
        ASSERT_TRUE(other.find(engine_.get()).ok());
        ASSERT_EQ(other.found, std::vector<std::uint8_t>(count, 0));
      };
      const auto look_twice = [&] {
        look(300);
        look(kIds);
      };
      look_twice();
      put_batch(random, {{7, some_value(random, 128)}, {kIds - 1, some_value(random, 128)}});
      look_twice();
      open();
      look_twice();
      put_rows(random, {{7, some_value(random, 128)}, {8, some_value(random, 128)}});
      look_twice();
      if (HasFatalFailure()) return;
    }
  }
}

// Goal: an alignment that rows cannot have is said so.
TEST_F(HashAlignedRows, RefuseOtherAlignments) {
  options_.create_if_missing = true;
  ground_ = {testing::make_sparse_files(), pmem::real_disk()};
  for (const std::size_t alignment : {0, 1, 16, 63, 128}) {
    options_.row_alignment = alignment;
    EXPECT_TRUE(Engine::open(options_, folder_ / "store", ground_, &engine_).IsInvalidArgument());
  }
}

}  // namespace breccia::hash
