#include <breccia/options.h>
#include <breccia/store.h>
#include <gtest/gtest.h>

#include <latch>
#include <memory>
#include <string>

#include "support/folder.h"
#include "support/small_options.h"

/// Values of lookups that stay in the log.

namespace breccia::ordered {

namespace {

class ValuesInPlaceTest : public ::testing::Test {
 protected:
  void open() {
    Options options = testing::small_options();
    options.device_requests_min = 1;
    ASSERT_TRUE(Store::Open(options, folder_ / "store", &store_).ok());
  }
  /// Gives "key0" to below "key`keys`" values of `bytes` bytes that begin with `mark`.
  void put(int keys, std::size_t bytes, char mark) {
    Batch batch;
    for (int i = 0; i < keys; ++i) {
      ASSERT_TRUE(batch.Put("key" + std::to_string(i), std::string(bytes, mark)).ok());
    }
    ASSERT_TRUE(store_->Submit({}, &batch).ok());
  }
  /// Looks "key0" up twice; true if the values are the same bytes in memory.
  bool are_one(Batch* batch) {
    batch->Clear();
    EXPECT_TRUE(batch->Get("key0").ok());
    EXPECT_TRUE(batch->Get("key0").ok());
    EXPECT_TRUE(store_->Submit({}, batch).ok());
    EXPECT_EQ(batch->value(0), batch->value(1));
    return batch->value(0).data() == batch->value(1).data();
  }

  const testing::Folder folder_{testing::Place::kMemory};
  std::unique_ptr<Store> store_;
};

}  // namespace

// Goal: values stay where they are where the batch says so and they are long enough, and nowhere
//   else; Clear() keeps what the batch said.
// Method: two lookups of one key, whose values then are the same bytes or copies, with lengths
//   around the shortest.
// Mutation: an option that is not looked at, or forgotten by Clear(), fails.
TEST_F(ValuesInPlaceTest, WhereTheBatchSaysSo) {
  open();
  Batch batch;
  for (const std::size_t bytes : {8, 63, 64, 65, 3000}) {
    put(3, bytes, 'v');
    batch.SetValuesInPlace(false);
    EXPECT_FALSE(are_one(&batch)) << bytes;
    batch.SetValuesInPlace(true);
    EXPECT_EQ(are_one(&batch), bytes >= 64) << bytes;
    EXPECT_EQ(are_one(&batch), bytes >= 64) << bytes;
    EXPECT_EQ(batch.value(0), std::string(bytes, 'v'));
  }
}

// Goal: a batch keeps what it found until it is cleared, while the log goes on, is flushed, and its
//   segments are used again, and when the store is gone.
// Method: values in place; then more than a segment of others is written and flushed, three times,
//   so that the first one's file would be used again.
// Mutation: lookups in place without the log being held: the process ends, or values are others.
TEST_F(ValuesInPlaceTest, OutliveLogAndStore) {
  open();
  put(200, 100, 'a');
  Batch batch;
  batch.SetValuesInPlace(true);
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(batch.Get("key" + std::to_string(i)).ok());
  ASSERT_TRUE(store_->Submit({}, &batch).ok());
  for (int round = 0; round < 3; ++round) {
    put(66, 1 << 20, static_cast<char>('b' + round));
    ASSERT_TRUE(store_->Flush().ok());
  }
  for (std::size_t i = 0; i < 200; ++i) ASSERT_EQ(batch.value(i), std::string(100, 'a'));
  store_.reset();
  for (std::size_t i = 0; i < 200; ++i) ASSERT_EQ(batch.value(i), std::string(100, 'a'));
}

// Goal: of batches that run together, none holds the log that has not asked for it, and values are
//   in place where all have.
// Method: two batches at once, of which none, one or both ask; each looks one key up twice.
// Mutation: the group's first one that speaks for all, or an option that the group has not, fails.
TEST_F(ValuesInPlaceTest, TogetherWhereAllSaySo) {
  open();
  put(3, 100, 'v');
  for (int asking = 0; asking <= 2; ++asking) {
    // A batch may run alone, as the queue finds it: what it has asked for then is what it gets.
    Batch batches[2];
    std::latch done(2);
    for (int i = 0; i < 2; ++i) {
      batches[i].SetValuesInPlace(i < asking);
      ASSERT_TRUE(batches[i].Get("key0").ok());
      ASSERT_TRUE(batches[i].Get("key0").ok());
      store_->SubmitAsync({}, &batches[i], [&](const Status& status) {
        EXPECT_TRUE(status.ok()) << status.ToString();
        done.count_down();
      });
    }
    done.wait();
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(batches[i].value(0), std::string(100, 'v'));
      const bool is_one = batches[i].value(0).data() == batches[i].value(1).data();
      if (i >= asking || asking == 2) {
        EXPECT_EQ(is_one, asking == 2);
      }
    }
  }
}

}  // namespace breccia::ordered
