#include <breccia/options.h>
#include <breccia/store.h>
#include <breccia/transaction.h>
#include <gtest/gtest.h>

#include <latch>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "support/append_operator.h"
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
    options.device_requests_min = random_.one_in(2) ? 1 : 1000;
    options.rocksdb.merge_operator = testing::make_append_operator(/*partial=*/true);
    EXPECT_TRUE(Store::Open(options, folder_ / "store", &store_).ok());
    EXPECT_TRUE(store_->CreateFamily("second", &second_).ok());
  }

  void flush() { ASSERT_TRUE(store_->Flush().ok()); }

  /// One batch: writes and lookups in turn, each lookup twice, with an array and without.
  void run() {
    batch_ = std::make_unique<Batch>();
    batch_->SetValuesInPlace(random_.one_in(2));
    batch_->SetColumnsInPlace(random_.one_in(2));
    columns_.clear();
    looked_up_.clear();
    for (std::uint64_t steps = 1 + random_.below(4); steps > 0; --steps) {
      if (!random_.one_in(3)) write();
      if (!random_.one_in(3)) look_up();
    }
    submit();
    check();
  }

 private:
  struct LookedUp {
    std::size_t first;  // read; those without an array come behind
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
    looked_up_.push_back(std::make_unique<LookedUp>(
        LookedUp{batch_->reads(), keys.size(), std::string(kWidth * keys.size(), '.'),
                 std::vector<std::uint8_t>(keys.size(), 9)}));
    LookedUp& one = *looked_up_.back();
    const ValueArray into{one.values.data(), kWidth, kWidth, one.found.data()};
    ASSERT_TRUE(batch_->Get(of, wanted, into).ok());
    ASSERT_TRUE(batch_->Get(of, wanted).ok());
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
    for (const auto& one : looked_up_) {
      for (std::size_t i = 0; i < one->count; ++i) {
        const std::size_t in_array = one->first + i;
        const std::size_t in_batch = in_array + one->count;
        const Status::Code code = batch_->code(in_batch);
        const std::string value = batch_->value(in_batch).ToString();
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
  std::unique_ptr<Store> store_;
  FamilyId second_ = 0;
  std::unique_ptr<Batch> batch_;
  std::unique_ptr<Transaction> transaction_;
  std::vector<std::unique_ptr<testing::RandomColumn>> columns_;
  std::vector<std::unique_ptr<LookedUp>> looked_up_;
  std::uint64_t seen_ = 0;
};

}  // namespace

// Goal: a lookup whose value goes into an array says what the same lookup says without one, from
//   memtable, runs and tree, of puts, merges and what is deleted, beside writes of its own batch,
//   alone, together with others, and in a transaction.
// Method: random batches by columns on few keys, in which each lookup comes twice in a row.
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

}  // namespace breccia::ordered
