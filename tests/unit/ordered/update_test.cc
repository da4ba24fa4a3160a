#include "ordered/write/update.h"

#include <breccia/merge_operators.h>
#include <breccia/options.h>
#include <breccia/store.h>
#include <gtest/gtest.h>
#include <rocksdb/convenience.h>

#include <memory>
#include <string>

#include "support/folder.h"
#include "support/small_options.h"

namespace breccia::ordered {

namespace {

/// An operator of the user's that keeps the operand that it saw first, under a name of another's.
class KeepsFirst final : public rocksdb::AssociativeMergeOperator {
 public:
  explicit KeepsFirst(const char* name) : name_(name) {}
  bool Merge(const Slice&, const Slice* existing, const Slice& operand, std::string* merged,
             rocksdb::Logger*) const override {
    *merged = (existing != nullptr ? *existing : operand).ToString();
    return true;
  }
  const char* Name() const override { return name_; }

 private:
  const char* const name_;
};

constexpr const char* kNames[] = {"UInt64AddOperator", "MaxOperator",      "PutOperator",
                                  "breccia.Int64Add",  "breccia.BytesMax", "breccia.BytesMin"};

}  // namespace

// Goal: operators are told by what they are.
// Method: RocksDB's, made by every name it knows them by, and breccia's; one of the user's under
//          each of their names.
// Mutation: comparing names takes the user's for RocksDB's.
TEST(NumberOp, KnowsOperatorsByTheirClass) {
  const auto built_in = [](const char* id) {
    std::shared_ptr<rocksdb::MergeOperator> made;
    EXPECT_TRUE(rocksdb::MergeOperator::CreateFromString({}, id, &made).ok()) << id;
    return made;
  };
  for (const char* id : {"uint64add", "UInt64AddOperator"}) {
    EXPECT_EQ(number_op(built_in(id).get()), runs::NumberOp::kAdd);
  }
  for (const char* id : {"max", "MaxOperator"}) {
    EXPECT_EQ(number_op(built_in(id).get()), runs::NumberOp::kMax);
  }
  for (const char* id : {"put", "put_v1", "PutOperator"}) {
    EXPECT_EQ(number_op(built_in(id).get()), runs::NumberOp::kPut);
  }
  EXPECT_EQ(number_op(NewInt64AddOperator().get()), runs::NumberOp::kAdd);
  EXPECT_EQ(number_op(NewBytesMaxOperator().get()), runs::NumberOp::kMax);
  EXPECT_EQ(number_op(NewBytesMinOperator().get()), runs::NumberOp::kMin);
  EXPECT_EQ(number_op(built_in("stringappend").get()), std::nullopt);
  EXPECT_EQ(number_op(nullptr), std::nullopt);
  for (const char* name : kNames) {
    EXPECT_EQ(number_op(std::make_shared<KeepsFirst>(name).get()), std::nullopt) << name;
  }
}

// Goal: what a user's operator says counts, whatever its name.
// Method: a put and operands of 8 bytes in batches that would be worked out at once; read back.
// Mutation: as above.
TEST(NumberOp, UsersOperatorsAreAsked) {
  for (const char* name : kNames) {
    SCOPED_TRACE(name);
    const testing::Folder folder(testing::Place::kMemory);
    Options options = testing::small_options();
    options.create_if_missing = true;
    options.device_requests_min = 1;
    options.rocksdb.merge_operator = std::make_shared<KeepsFirst>(name);
    std::unique_ptr<Store> store;
    ASSERT_TRUE(Store::Open(options, folder / "store", &store).ok());
    for (const std::string value : {"12345678", "00000000", "zzzzzzzz"}) {
      Batch batch;
      ASSERT_TRUE(batch.Merge("key", value).ok());
      ASSERT_TRUE(store->Submit(WriteOptions(), &batch).ok());
    }
    std::string found;
    ASSERT_TRUE(store->Get("key", &found).ok());
    EXPECT_EQ(found, "12345678");
  }
}

}  // namespace breccia::ordered
