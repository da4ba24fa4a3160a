#include "sst/table_choice.h"

#include <gtest/gtest.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>

#include <memory>
#include <string>

namespace breccia::sst {
namespace {

// Goal: a Bloom filter's bits are what its policy was made with.
// Method: RocksDB's policies by their names.
// Mutation: fractions that are cut off; other filters taken for it.
TEST(TableChoice, FilterBits) {
  const auto bits = [](const rocksdb::FilterPolicy* made) {
    const std::unique_ptr<const rocksdb::FilterPolicy> policy(made);
    std::uint32_t millibits = 1;
    return bloom_millibits(policy->GetId(), &millibits) ? static_cast<int>(millibits) : -1;
  };
  EXPECT_EQ(bits(rocksdb::NewBloomFilterPolicy(10)), 10'000);
  EXPECT_EQ(bits(rocksdb::NewBloomFilterPolicy(9.9)), 9'900);
  EXPECT_EQ(bits(rocksdb::NewBloomFilterPolicy(16.345)), 16'345);
  EXPECT_EQ(bits(rocksdb::NewBloomFilterPolicy(0.1)), 0);
  EXPECT_EQ(bits(rocksdb::NewBloomFilterPolicy(0.7)), 1'000);
  EXPECT_EQ(bits(rocksdb::NewBloomFilterPolicy(500)), 100'000);
  EXPECT_EQ(bits(rocksdb::NewRibbonFilterPolicy(10)), -1);
  std::uint32_t millibits = 0;
  for (const char* const id :
       {"", "bloomfilter:", "bloomfilter:false", "bloomfilter::false", "bloomfilter:x:false",
        "bloomfilter:nan:false", "bloomfilter:10:true"}) {
    EXPECT_FALSE(bloom_millibits(id, &millibits)) << id;
  }
}

// Goal: tables get the shape that their options ask for.
// Method: options that are not the defaults; a factory that is not known.
// Mutation: a default in the place of an option.
TEST(TableChoice, Shapes) {
  rocksdb::BlockBasedTableOptions options;
  options.format_version = 4;
  options.checksum = rocksdb::kCRC32c;
  options.block_size = 1000;
  options.block_size_deviation = 20;
  options.block_restart_interval = 7;
  options.index_block_restart_interval = 3;
  options.enable_index_compression = false;
  options.index_shortening = rocksdb::BlockBasedTableOptions::IndexShorteningMode::kNoShortening;
  const auto choose = [&] {
    const std::unique_ptr<rocksdb::TableFactory> made(rocksdb::NewBlockBasedTableFactory(options));
    return choice_of(made.get());
  };
  TableChoice choice = choose();
  EXPECT_TRUE(choice.facts.are_plain());
  EXPECT_EQ(choice.shape.version, 4U);
  EXPECT_EQ(choice.shape.checksum, ChecksumType::kCrc32c);
  EXPECT_EQ(choice.shape.block_bytes, 1000U);
  EXPECT_EQ(choice.shape.block_deviation, 20U);
  EXPECT_EQ(choice.shape.restarts, 7U);
  EXPECT_EQ(choice.shape.index_restarts, 3U);
  EXPECT_FALSE(choice.shape.has_compressed_index);
  EXPECT_EQ(choice.shape.index_shortening, IndexShortening::kNone);
  EXPECT_EQ(choice.shape.filter_millibits, 0U);
  options.filter_policy.reset(rocksdb::NewBloomFilterPolicy(12));
  EXPECT_FALSE(choose().facts.has_plain_filter);
  options.format_version = 5;
  choice = choose();
  EXPECT_TRUE(choice.facts.are_plain());
  EXPECT_EQ(choice.shape.filter_millibits, 12'000U);
  EXPECT_EQ(choice.filter_policy, "bloomfilter");
  options.whole_key_filtering = false;
  choice = choose();
  EXPECT_EQ(choice.shape.filter_millibits, 0U);
  EXPECT_EQ(choice.filter_policy, "");
  EXPECT_FALSE(choice_of(nullptr).facts.is_known);
  const auto is_plain_with = [&](const auto& change) {
    const auto before = options;
    change(&options);
    const bool are_plain = choose().facts.are_plain();
    options = before;
    return are_plain;
  };
  using Table = rocksdb::BlockBasedTableOptions;
  EXPECT_TRUE(is_plain_with([](Table*) {}));
  EXPECT_FALSE(is_plain_with([](Table* t) { t->block_align = true; }));
  EXPECT_FALSE(is_plain_with([](Table* t) { t->verify_compression = true; }));
  EXPECT_FALSE(is_plain_with([](Table* t) { t->detect_filter_construct_corruption = true; }));
  EXPECT_FALSE(
      is_plain_with([](Table* t) { t->data_block_index_type = Table::kDataBlockBinaryAndHash; }));
}

}  // namespace
}  // namespace breccia::sst
