#include <breccia/options.h>
#include <breccia/store.h>
#include <breccia/transaction.h>
#include <gtest/gtest.h>

#include <latch>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "batch/requests.h"
#include "support/append_operator.h"
#include "support/fake_gpu.h"
#include "support/folder.h"
#include "support/random_column.h"
#include "support/seeds.h"
#include "support/small_options.h"

/// Batches by columns, from submit to results.

namespace breccia::ordered {

namespace {

constexpr std::uint64_t kKeys = 60;
constexpr std::size_t kWidth = 8;

std::string key_of(std::uint64_t id, bool is_fixed) {
  return (is_fixed ? "key" : "k") + std::to_string(100 + id) +
         (is_fixed ? "" : std::string(id % 11, 'x'));
}

/// A store, and batches of random requests of which half the lookups have arrays for their values.
class Session {
 public:
  explicit Session(std::uint64_t seed) : random_(seed), is_fixed_(random_.one_in(2)) {
    Options options = testing::small_options();
    if (random_.one_in(2)) gpu_.use(&options);
    options.device_requests_min = random_.one_in(2) ? 1 : 1000;
    options.rocksdb.merge_operator = testing::make_append_operator(/*partial=*/true);
    EXPECT_TRUE(Store::Open(options, folder_ / "store", &store_).ok());
    EXPECT_TRUE(store_->CreateFamily("second", &second_).ok());
  }

  void flush() { ASSERT_TRUE(store_->Flush().ok()); }

  /// One batch: writes and lookups in turn, each lookup twice, with an array and without. Or
  /// lookups alone, those without an array in a batch of their own.
  void run() {
    batch_ = std::make_unique<Batch>(store_->NewBatch());
    twins_ = random_.one_in(3) ? std::make_unique<Batch>() : nullptr;
    batch_->SetValuesInPlace(random_.one_in(2));
    batch_->SetColumnsInPlace(random_.one_in(2));
    columns_.clear();
    looked_up_.clear();
    for (std::uint64_t steps = 1 + random_.below(4); steps > 0; --steps) {
      if (twins_ == nullptr && !random_.one_in(3)) write();
      if (!random_.one_in(3)) look_up();
    }
    for (std::uint64_t times = 1 + random_.below(2); times > 0; --times) {
      if (times > 1 && batch_->writes() > 0) continue;
      submit();
      if (twins_ != nullptr) {
        ASSERT_TRUE(store_->Submit({}, twins_.get()).ok());
      }
      check();
    }
  }

 private:
  struct LookedUp {
    std::size_t first;       // read
    std::size_t first_twin;  // of those without an array
    std::size_t count;
    std::string values;
    std::vector<std::uint8_t> found;
  };

  [[nodiscard]] FamilyId family() { return random_.one_in(4) ? second_ : kDefaultFamily; }
  const BytesColumn& column(const std::vector<std::string>& strings) {
    columns_.push_back(std::make_unique<testing::RandomColumn>(strings, &random_));
    return columns_.back()->column();
  }
  std::vector<std::string> some_keys(std::uint64_t count) {
    std::vector<std::string> keys;
    for (; count > 0; --count) keys.push_back(key_of(random_.below(kKeys), is_fixed_));
    return keys;
  }

  void write() {
    const std::vector<std::string> keys = some_keys(1 + random_.below(40));
    std::vector<std::string> values;
    const bool same = random_.one_in(2);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      values.emplace_back(
          same || random_.one_in(2) ? kWidth : random_.below(random_.one_in(2) ? 20 : 200),
          static_cast<char>('a' + random_.below(26)));
    }
    switch (random_.below(5)) {
      case 0:
        ASSERT_TRUE(batch_->Delete(family(), column(keys)).ok());
        return;
      case 1:
        ASSERT_TRUE(batch_->Merge(family(), column(keys), column(values)).ok());
        return;
      case 2:
        ASSERT_TRUE(batch_->DeleteRange(family(), keys[0], keys[0] + "~").ok());
        return;
      default:
        ASSERT_TRUE(batch_->Put(family(), column(keys), column(values)).ok());
    }
  }

  void look_up() {
    const std::vector<std::string> keys = some_keys(1 + random_.below(300));
    const BytesColumn& wanted = column(keys);
    const FamilyId of = family();
    const std::size_t first_twin =
        twins_ == nullptr ? batch_->reads() + keys.size() : twins_->reads();
    looked_up_.push_back(std::make_unique<LookedUp>(
        LookedUp{batch_->reads(), first_twin, keys.size(), std::string(kWidth * keys.size(), '.'),
                 std::vector<std::uint8_t>(keys.size(), 9)}));
    LookedUp& one = *looked_up_.back();
    const ValueArray into{one.values.data(), kWidth, kWidth, one.found.data()};
    ASSERT_TRUE(batch_->Get(of, wanted, into).ok());
    ASSERT_TRUE((twins_ == nullptr ? batch_ : twins_)->Get(of, wanted).ok());
  }

  void submit() {
    const std::uint64_t way = random_.below(3);
    if (way == 0 && batch_->writes() == 0) {
      transaction_ = store_->OpenTransaction();
      ASSERT_TRUE(transaction_->Read(batch_.get()).ok());
      ASSERT_TRUE(transaction_->Close({}).ok());
    } else if (way == 1) {
      // With another one, so that they go together.
      Batch other;
      ASSERT_TRUE(other.Get("nothing").ok());
      std::latch done(2);
      const auto count_down = [&](const Status& status) {
        EXPECT_TRUE(status.ok()) << status.ToString();
        done.count_down();
      };
      store_->SubmitAsync({}, &other, count_down);
      store_->SubmitAsync({}, batch_.get(), count_down);
      done.wait();
    } else {
      ASSERT_TRUE(store_->Submit({}, batch_.get()).ok());
    }
  }

  void check() {
    const Batch& twins = twins_ == nullptr ? *batch_ : *twins_;
    for (const auto& one : looked_up_) {
      for (std::size_t i = 0; i < one->count; ++i) {
        const std::size_t in_array = one->first + i;
        const std::size_t twin = one->first_twin + i;
        const Status::Code code = twins.code(twin);
        const std::string value = twins.value(twin).ToString();
        const bool fits = code == Status::Code::kOk && value.size() == kWidth;
        const bool is_other = code == Status::Code::kOk && !fits;
        ASSERT_EQ(batch_->code(in_array), is_other ? Status::Code::kInvalidArgument : code);
        ASSERT_EQ(one->found[i], fits ? 1 : 0);
        ASSERT_EQ(one->values.substr(i * kWidth, kWidth), fits ? value : std::string(kWidth, '.'));
        ASSERT_EQ(batch_->value(in_array), fits ? value : "");
        seen_ += fits ? 1 : 0;
      }
    }
  }

 public:
  [[nodiscard]] std::uint64_t seen() const { return seen_; }

 private:
  const testing::Folder folder_{testing::Place::kMemory};
  base::Random random_;
  const bool is_fixed_;
  const testing::FakeGpu gpu_;  // of half of the stores
  std::unique_ptr<Store> store_;
  FamilyId second_ = 0;
  std::unique_ptr<Batch> batch_;
  std::unique_ptr<Batch> twins_;  // null: in the batch itself
  std::unique_ptr<Transaction> transaction_;
  std::vector<std::unique_ptr<testing::RandomColumn>> columns_;
  std::vector<std::unique_ptr<LookedUp>> looked_up_;
  std::uint64_t seen_ = 0;
};

}  // namespace

// Goal: a lookup whose value goes into an array says what the same lookup says without one, from
//   memtable, runs and tree, of puts, merges and what is deleted, beside writes of its own batch,
//   alone, together with others, and in a transaction.
// Method: random batches by columns on few keys, in which each lookup comes twice in a row, or in
//   two batches; some of them are submitted twice.
// Mutation: the wrong array for a read behind another family's, numbers that are not copied, or a
//   lookup in the tree that goes to the batch fails.
TEST(StoreColumns, ArraysHaveWhatBatchesHave) {
  std::uint64_t seen = 0;
  for (const std::uint64_t seed : testing::seeds_to_run(60)) {
    SCOPED_TRACE(testing::replay_command(seed));
    Session session(seed);
    for (int batches = 0; batches < 12; ++batches) {
      if (batches % 5 == 4) session.flush();
      session.run();
      if (::testing::Test::HasFatalFailure()) return;
    }
    seen += session.seen();
  }
  EXPECT_GT(seen, 100u);
}

// Goal: lookups that a device searches slice by slice have the answers that they should, whether
//   values come with what is found or from the log, and whether they lie in runs, in the tree, or
//   are gone.
// Method: more lookups than three slices take, in a store of which an eighth is in the tree alone,
//   an eighth merged, an eighth deleted, and an eighth was never there; the batch twice.
// Mutation: a slice that answers for the one before it, or lookups in the tree by places in a
//   slice, fails.
TEST(StoreColumns, AreSearchedInSlices) {
  constexpr std::uint64_t kStored = 4000;
  constexpr std::uint64_t kLookups = 3 * (128 << 10) + 77;
  base::Random random(testing::seeds_to_run(1).front());
  for (const auto& [key_bytes, width] :
       std::vector<std::pair<std::size_t, std::size_t>>{{10, 8}, {16, 24}, {8, 8}}) {
    const testing::Folder folder(testing::Place::kMemory);
    const testing::FakeGpu gpu;
    Options options = testing::small_options();
    gpu.use(&options);
    options.rocksdb.merge_operator = testing::make_append_operator(/*partial=*/true);
    options.clean_bytes = 0;
    std::unique_ptr<Store> store;
    ASSERT_TRUE(Store::Open(options, folder / "store", &store).ok());
    const auto key_of = [bytes = key_bytes](std::uint64_t id) {
      return std::string(bytes - 6, 'k') + std::to_string(100'000 + id);
    };
    const auto value_of = [&](std::uint64_t id) {
      return std::to_string(10'000 + id) + std::string(width - 5, 'v');
    };
    const auto put = [&](std::uint64_t id, const std::string& value) {
      ASSERT_TRUE(store->Put({}, key_of(id), value).ok());
    };
    for (std::uint64_t id = 0; id < kStored; id += 8) put(id, value_of(id));
    for (std::uint64_t id = 1; id < kStored; id += 8) put(id, "gone");
    ASSERT_TRUE(store->Flush().ok());
    for (std::uint64_t id = 0; id < kStored; ++id) {
      if (id % 8 > 3) put(id, value_of(id));
      const Status changed = id % 8 == 1   ? store->Delete({}, key_of(id))
                             : id % 8 == 2 ? store->Merge({}, key_of(id), value_of(id))
                                           : Status::OK();
      ASSERT_TRUE(changed.ok());
    }
    std::vector<std::uint64_t> ids;
    std::string keys;
    for (std::uint64_t i = 0; i < kLookups; ++i) {
      ids.push_back(random.below(kStored));
      keys += key_of(ids.back());
    }
    Batch batch = store->NewBatch();
    batch.SetColumnsInPlace(true);
    std::string values(width * kLookups, '.');
    std::vector<std::uint8_t> found(kLookups, 9);
    ASSERT_TRUE(
        batch
            .Get(kDefaultFamily, BytesColumn::Fixed(keys.data(), kLookups, key_bytes),
                 ValueArray{values.data(), width, static_cast<std::ptrdiff_t>(width), found.data()})
            .ok());
    for (int times = 0; times < 2; ++times) {
      ASSERT_TRUE(store->Submit({}, &batch).ok());
      for (std::uint64_t i = 0; i < kLookups; ++i) {
        const bool is_there = ids[i] % 8 != 1 && ids[i] % 8 != 3;
        ASSERT_EQ(found[i], is_there ? 1 : 0) << i << ", key " << ids[i];
        ASSERT_EQ(batch.code(i), is_there ? Status::Code::kOk : Status::Code::kNotFound) << i;
        ASSERT_EQ(values.substr(i * width, width),
                  is_there ? value_of(ids[i]) : std::string(width, '.'));
      }
      found.assign(kLookups, 9);
      values.assign(values.size(), '.');
    }
  }
}

// Goal: keys of lookups in registered memory reach the backend where they lie, and answers are
//   those of keys in columns: of keys that are there, gone, merged, or were never there.
// Method: lookups by columns in place, submitted until they ran on the backend, on the host and on
//   a fake GPU; then as many behind a single one, which have no rows.
// Mutation: columns that are always written leave no rows; a merge or a missing key that is read
//   from columns which nobody wrote fails.
TEST(StoreColumns, KeysInPlaceStayThere) {
  constexpr std::uint64_t kStored = 3000;
  constexpr std::uint64_t kLookups = 20'000;
  base::Random random(testing::seeds_to_run(1).front());
  for (const bool on_device : {false, true}) {
    const testing::Folder folder(testing::Place::kMemory);
    const testing::FakeGpu gpu;
    Options options = testing::small_options();
    if (on_device) gpu.use(&options);
    options.device_requests_min = 1;
    options.rocksdb.merge_operator = testing::make_append_operator(/*partial=*/true);
    std::unique_ptr<Store> store;
    ASSERT_TRUE(Store::Open(options, folder / "store", &store).ok());
    const auto key_of = [](std::uint64_t id) {
      return "the key: " + std::to_string(1'000'000 + id);
    };
    for (std::uint64_t id = 0; id < kStored; ++id) {
      const Status changed = id % 4 == 0   ? store->Put({}, key_of(id), key_of(id))
                             : id % 4 == 1 ? store->Delete({}, key_of(id))
                             : id % 4 == 2 ? store->Merge({}, key_of(id), key_of(id))
                                           : Status::OK();
      ASSERT_TRUE(changed.ok());
    }
    std::vector<std::uint64_t> ids;
    std::string keys;
    for (std::uint64_t i = 0; i < kLookups; ++i) {
      ids.push_back(random.below(kStored));
      keys += key_of(ids.back());
    }
    MemoryRegistration registration;
    ASSERT_TRUE(store->RegisterMemory(keys.data(), keys.size(), &registration).ok());
    bool stayed = false;
    for (int times = 0; times < 40 && !(stayed && times % 2 == 0); ++times) {
      Batch batch = store->NewBatch();
      batch.SetColumnsInPlace(true);
      const std::uint64_t before = times % 2;
      if (before > 0) {
        ASSERT_TRUE(batch.Get(key_of(0)).ok());
      }
      const auto column = BytesColumn::Fixed(keys.data(), kLookups, 16);
      ASSERT_TRUE(batch.Get(kDefaultFamily, column).ok());
      ASSERT_TRUE(store->Submit({}, &batch).ok());
      const bool has_rows = batch.requests().reads().front()->rows() != nullptr;
      ASSERT_TRUE(before == 0 || !has_rows);
      stayed = stayed || has_rows;
      for (std::uint64_t i = 0; i < kLookups; ++i) {
        const bool is_there = ids[i] % 2 == 0;
        ASSERT_EQ(batch.code(before + i), is_there ? Status::Code::kOk : Status::Code::kNotFound);
        ASSERT_EQ(batch.value(before + i), is_there ? key_of(ids[i]) : "");
      }
    }
    EXPECT_TRUE(stayed);
  }
}

}  // namespace breccia::ordered
