#pragma once

#include <breccia/hash_store.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "exec/device.h"
#include "exec/pool.h"
#include "hash/backend.h"
#include "hash/engine/engine.h"
#include "support/backend.h"
#include "support/fake_gpu.h"
#include "support/folder.h"
#include "support/sparse_files.h"

/// Ids and rows for tests of HashStore's calls.

namespace breccia::hash {

inline constexpr std::uint64_t kRowBytes = 24;
/// Of a cache, for each row: a seventh of its set and of its counters of misses.
inline constexpr std::uint64_t kCachedRowBytes = kRowBytes + (64 + 32) / 7 + 1;
using Row = std::array<char, kRowBytes>;
using Model = std::map<std::uint64_t, Row>;

inline std::string key_of_id(std::uint64_t id) {
  std::string key(sizeof id, '\0');
  std::memcpy(key.data(), &id, sizeof id);
  return key;
}

/// Arrays of a call on rows of kBytes, which lie in the memory of the store's device while it runs.
template <std::uint64_t kBytes>
class CallOf {
 public:
  using Row = std::array<char, kBytes>;
  /// What a list of missing ones has where nothing was written.
  static constexpr std::uint32_t kNone = ~0U;

  explicit CallOf(const HashStore& store) {
    if (store.Device() < 0) {
      backend_ = make_host_backend();
      return;
    }
    auto device = exec::open_device(exec::DeviceKind::kCuda, store.Device());
    auto backend = make_backend(device.take(), {.name = "test"});
    EXPECT_TRUE(backend.ok());
    backend_ = backend.take();
  }

  void add(std::uint64_t id, const Row& row) {
    ids.push_back(id);
    rows.push_back(row);
  }
  Status find(HashStore* store) {
    forget_found();
    return run([&](const IdRows& all) { return store->FindRows(all); });
  }
  Status find_cached(HashStore* store) {
    forget_found();
    return run([&](const IdRows& all) {
      BRECCIA_TRY(store->FindCachedRows(all));
      return wait_for_stream(store);
    });
  }
  Status pin(HashStore* store, std::unique_ptr<RowPins>* pins) {
    return run([&](const IdRows& all) {
      return store->PinRows({.ids = all.ids,
                             .count = all.count,
                             .row_bytes = all.row_bytes,
                             .stream = all.stream,
                             .count_at = all.count_at},
                            pins);
    });
  }
  Status put(HashStore* store, const WriteOptions& options) {
    return run([&](const IdRows& all) { return store->PutRows(options, all); });
  }
  Status erase(HashStore* store, const WriteOptions& options) {
    return run([&](const IdRows& all) {
      return store->DeleteRows(
          options,
          {.ids = all.ids, .count = all.count, .stream = all.stream, .count_at = all.count_at});
    });
  }

  std::vector<std::uint64_t> ids;
  std::vector<Row> rows;
  std::vector<std::uint8_t> found;
  std::uint8_t not_written = 7;  // what `found` has where nothing was written
  bool asks_missing = false;     // find(): which of them are not there, too
  std::vector<std::uint32_t> missing;
  std::uint64_t missing_count = kNone;
  /// So many of them count, which is said on the device.
  std::optional<std::uint64_t> count_there;
  [[nodiscard]] std::uint64_t count() const {
    return std::min<std::uint64_t>(count_there.value_or(ids.size()), ids.size());
  }

 private:
  void forget_found() {
    found.assign(ids.size(), not_written);
    missing.assign(ids.size(), kNone);
    missing_count = kNone;
  }
  /// A call that has its results on return has them behind those of calls before it.
  Status wait_for_stream(HashStore* store) {
    exec::Pool& pool = backend_->tenant().pool();
    BRECCIA_TAKE(const auto id, exec::Array<std::uint64_t>::make(pool, 1));
    BRECCIA_TAKE(const auto row, exec::Array<char>::make(pool, kBytes));
    BRECCIA_TAKE(const auto is_found, exec::Array<std::uint8_t>::make(pool, 1));
    const std::uint64_t nobodys = ~std::uint64_t{0};
    BRECCIA_TRY(backend_->copy_in(reinterpret_cast<char*>(id.data()),
                                  reinterpret_cast<const char*>(&nobodys), sizeof nobodys));
    return store->FindRows({.ids = id.data(),
                            .count = 1,
                            .rows = row.data(),
                            .row_bytes = kBytes,
                            .found = is_found.data()});
  }
  template <class Run>
  Status run(const Run& run) {
    found.resize(ids.size());
    missing.resize(ids.size());
    exec::Pool& pool = backend_->tenant().pool();
    BRECCIA_TAKE(const auto ids_there, exec::Array<std::uint64_t>::make(pool, ids.size()));
    BRECCIA_TAKE(const auto rows_there, exec::Array<char>::make(pool, ids.size() * kBytes));
    BRECCIA_TAKE(const auto found_there, exec::Array<std::uint8_t>::make(pool, ids.size()));
    BRECCIA_TAKE(const auto missing_there, exec::Array<std::uint32_t>::make(pool, ids.size()));
    BRECCIA_TAKE(const auto missing_count_there, exec::Array<std::uint64_t>::make(pool, 1));
    BRECCIA_TAKE(const auto own_count, exec::Array<std::uint64_t>::make(pool, 1));
    std::uint64_t own = count_there.value_or(0);
    BRECCIA_TRY(backend_->copy_in(reinterpret_cast<char*>(own_count.data()),
                                  reinterpret_cast<const char*>(&own), sizeof own));
    const auto bring = [&](auto&& copy) {
      BRECCIA_TRY(copy(reinterpret_cast<char*>(ids_there.data()),
                       reinterpret_cast<char*>(ids.data()), ids_there.bytes()));
      BRECCIA_TRY(
          copy(rows_there.data(), reinterpret_cast<char*>(rows.data()), rows_there.bytes()));
      BRECCIA_TRY(copy(reinterpret_cast<char*>(missing_there.data()),
                       reinterpret_cast<char*>(missing.data()), missing_there.bytes()));
      BRECCIA_TRY(copy(reinterpret_cast<char*>(missing_count_there.data()),
                       reinterpret_cast<char*>(&missing_count), missing_count_there.bytes()));
      return copy(reinterpret_cast<char*>(found_there.data()),
                  reinterpret_cast<char*>(found.data()), found_there.bytes());
    };
    BRECCIA_TRY(bring([&](char* there, char* here, std::uint64_t bytes) {
      return backend_->copy_in(there, here, bytes);
    }));
    BRECCIA_TRY(run({.ids = ids_there.data(),
                     .count = ids.size(),
                     .rows = rows_there.data(),
                     .row_bytes = kBytes,
                     .found = found_there.data(),
                     .missing = asks_missing ? missing_there.data() : nullptr,
                     .missing_count = asks_missing ? missing_count_there.data() : nullptr,
                     .count_at = count_there.has_value() ? own_count.data() : nullptr}));
    return bring([&](char* there, char* here, std::uint64_t bytes) {
      return backend_->copy_out(here, there, bytes);
    });
  }

  std::shared_ptr<Backend> backend_;
};
using Call = CallOf<kRowBytes>;

/// A store of ids and rows under random calls, beside a map of what it should have.
class RowStore : public ::testing::Test {
 protected:
  void choose(base::Random& random) {
    options_.create_if_missing = true;
    options_.backend = random.one_in(3) ? testing::backend_under_test() : BackendChoice::kSimulator;
    options_.simulator_seed = random.next();
    options_.keys_expected = random.below(64);
    options_.row_cache_bytes = random.one_in(4) ? 0 : random.below(3000);
    options_.cached_row_bytes = random.one_in(8) ? 8 : kRowBytes;
    ground_ = {testing::make_sparse_files(), pmem::real_disk(), number_mask_,
               std::uint64_t{512} << random.below(4)};
    ground_.few_ids = random.one_in(2) ? kFewIds : random.below(64);
    ground_.scanned_at_once = random.one_in(4) ? LiveRecords::kRecordsAtOnce : 1 + random.below(64);
    gpu_.faults.fail_after(0, exec::Fault::kDeviceLost);
    options_.device = 0;
    if (random.one_in(4)) gpu_.use(&options_);
  }
  void open() {
    pins_.clear();
    engine_.reset();
    const Status opened = Engine::open(options_, folder_ / "store", ground_, &engine_);
    ASSERT_TRUE(opened.ok()) << opened.ToString();
  }
  void open_new(base::Random& random) {
    choose(random);
    pins_.clear();
    engine_.reset();
    std::filesystem::remove_all(folder_ / "store");
    open();
  }
  /// Soon, if it is the one that fails.
  void break_device(base::Random& random) {
    may_fail_ = true;
    const exec::Fault faults[] = {exec::Fault::kOutOfMemory, exec::Fault::kLaunchFailure,
                                  exec::Fault::kDeviceLost};
    gpu_.faults.fail_after(1 + random.below(60), faults[random.below(3)]);
  }
  static Row some_row(base::Random& random) {
    Row row;
    for (char& byte : row) byte = static_cast<char>(random.next());
    return row;
  }
  /// Mostly of a few.
  static std::uint64_t some_id(base::Random& random) {
    return random.below(random.one_in(2) ? 8 : 200) * 0x0102'0304'0506'0708;
  }
  void put(base::Random& random, Model* model);
  void erase(base::Random& random, Model* model);
  void pin(base::Random& random, const Model& model);
  /// Sometimes fewer of a call's ids count, or all and a number that is larger.
  static void say_count(base::Random& random, Call* call) {
    if (random.one_in(3)) call->count_there = random.below(call->ids.size() + 10);
  }
  static WriteOptions some_durability(base::Random& random) {
    const Durability durabilities[] = {Durability::kNone, Durability::kDefault, Durability::kSync};
    WriteOptions options;
    options.durability = durabilities[random.below(3)];
    return options;
  }
  void find(base::Random& random, const Model& model);
  [[nodiscard]] std::uint64_t figure(const std::string& name) const {
    std::string text;
    EXPECT_TRUE(engine_->GetProperty("breccia.hash." + name, &text));
    return std::stoull(text);
  }

  const testing::Folder folder_{testing::Place::kMemory};
  testing::FakeGpu gpu_;
  HashOptions options_;
  Ground ground_;
  std::unique_ptr<Engine> engine_;
  std::vector<std::unique_ptr<RowPins>> pins_;  // which end before the store does
  std::uint64_t number_mask_ = ~std::uint64_t{0};
  bool may_fail_ = false;  // calls whose arrays are on a device that is lost
};

inline void RowStore::put(base::Random& random, Model* model) {
  Call call(*engine_);
  Model after = *model;
  for (std::uint64_t i = random.below(100); i > 0; --i) call.add(some_id(random), some_row(random));
  say_count(random, &call);
  for (std::size_t i = 0; i < call.count(); ++i) after[call.ids[i]] = call.rows[i];
  const Status status = call.put(engine_.get(), some_durability(random));
  if (!status.ok()) {
    // Nothing of it was done: the device failed before the batch had a place in the log.
    ASSERT_TRUE(may_fail_) << status.ToString();
    return;
  }
  *model = std::move(after);
}

inline void RowStore::erase(base::Random& random, Model* model) {
  Call call(*engine_);
  Model after = *model;
  for (std::uint64_t i = random.below(random.one_in(2) ? 4 : 100); i > 0; --i) {
    call.add(some_id(random), Row{});
  }
  say_count(random, &call);
  for (std::size_t i = 0; i < call.count(); ++i) after.erase(call.ids[i]);
  const Status status = call.erase(engine_.get(), some_durability(random));
  if (!status.ok()) {
    ASSERT_TRUE(may_fail_) << status.ToString();
    return;
  }
  *model = std::move(after);
}

/// Pins some rows, or lets some go that were pinned.
inline void RowStore::pin(base::Random& random, const Model& model) {
  if (!pins_.empty() && random.one_in(2)) {
    std::swap(pins_[random.below(pins_.size())], pins_.back());
    pins_.pop_back();
    return;
  }
  Call call(*engine_);
  std::uint64_t there = 0;
  for (std::uint64_t i = random.below(60); i > 0; --i) call.add(some_id(random), Row{});
  say_count(random, &call);
  for (std::size_t i = 0; i < call.count(); ++i) there += model.count(call.ids[i]);
  std::unique_ptr<RowPins> pins;
  const Status status = call.pin(engine_.get(), &pins);
  if (!status.ok()) {
    ASSERT_TRUE(may_fail_) << status.ToString();
    ASSERT_EQ(pins, nullptr);
    return;
  }
  ASSERT_LE(pins->Rows(), there);
  ASSERT_GE(pins->Rows() * call.ids.size() + pins->Refused(), there);
  pins_.push_back(std::move(pins));
}

inline void RowStore::find(base::Random& random, const Model& model) {
  Call call(*engine_);
  const std::uint64_t count = random.below(150);
  for (std::uint64_t i = 0; i < count; ++i) call.add(some_id(random), Row{});
  say_count(random, &call);
  call.asks_missing = random.one_in(2);
  if (random.one_in(2)) call.not_written = 0;
  const bool is_of_cache = random.one_in(3);
  const Status status = is_of_cache ? call.find_cached(engine_.get()) : call.find(engine_.get());
  if (!status.ok()) {
    ASSERT_TRUE(may_fail_) << status.ToString();
    return;
  }
  std::vector<std::uint32_t> missing;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (i >= call.count()) {
      ASSERT_EQ(call.found[i], call.not_written) << i;
      ASSERT_EQ(call.rows[i], Row{}) << i;
      continue;
    }
    const auto at = model.find(call.ids[i]);
    if (is_of_cache) {
      ASSERT_LE(call.found[i], at == model.end() ? 0 : 1) << i;
    } else {
      ASSERT_EQ(call.found[i], at == model.end() ? 0 : 1) << i;
    }
    if (call.found[i] == 0) missing.push_back(static_cast<std::uint32_t>(i));
    if (call.found[i] != 0) {
      ASSERT_EQ(call.rows[i], at->second) << i;
    }
  }
  if (!call.asks_missing) return;
  ASSERT_EQ(call.missing_count, missing.size());
  // What is behind them is left alone.
  missing.resize(count, Call::kNone);
  ASSERT_EQ(call.missing, missing);
}

}  // namespace breccia::hash
