#include "compaction/eligible.h"

#include <gtest/gtest.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>

#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "compaction/context.h"

namespace breccia::compaction {
namespace {

using Change = std::function<void(Facts&)>;

Facts good() {
  Facts facts;
  facts.inputs.resize(2);
  return facts;
}

std::vector<Change> changes() {
  return {
      [](Facts& f) { f.is_known_release = false; },
      [](Facts& f) { f.has_context = false; },
      [](Facts& f) { f.is_well_formed = false; },
      [](Facts& f) { f.is_what_event_said = false; },
      [](Facts& f) { f.has_plain_style = false; },
      [](Facts& f) { f.has_plain_comparator = false; },
      [](Facts& f) { f.has_filter = true; },
      [](Facts& f) { f.has_partitioner = true; },
      [](Facts& f) { f.has_prefix_extractor = true; },
      [](Facts& f) { f.has_blobs = true; },
      [](Facts& f) { f.has_paranoid_checks = true; },
      [](Facts& f) { f.has_tiers = true; },
      [](Facts& f) { f.has_file_checksums = true; },
      [](Facts& f) { f.has_several_paths = true; },
      [](Facts& f) { f.has_plain_env = false; },
      [](Facts& f) { f.has_rate_limiter = true; },
      [](Facts& f) { f.has_file_limits = true; },
      [](Facts& f) { f.has_handoff = true; },
      [](Facts& f) { f.has_collectors = true; },
      [](Facts& f) { f.has_two_phase_commit = true; },
      [](Facts& f) { f.has_ingest_behind = true; },
      [](Facts& f) { f.table.is_known = false; },
      [](Facts& f) { f.table.is_block_based = false; },
      [](Facts& f) { f.table.has_plain_index = false; },
      [](Facts& f) { f.table.has_plain_filter = false; },
      [](Facts& f) { f.table.has_plain_version = false; },
      [](Facts& f) { f.table.has_plain_checksum = false; },
      [](Facts& f) { f.table.has_plain_blocks = false; },
      [](Facts& f) { f.table.has_short_keys = false; },
      [](Facts& f) { f.has_plain_compression = false; },
      [](Facts& f) { f.has_dictionary = true; },
      [](Facts& f) { f.has_compression_level = true; },
      [](Facts& f) { f.inputs[1].is_live = false; },
      [](Facts& f) { f.inputs[1].has_properties = false; },
      [](Facts& f) { f.inputs[1].merge_operands = 1; },
      [](Facts& f) { f.inputs[1].range_deletions = 1; },
      [](Facts& f) { f.inputs[1].has_blobs = true; },
      [](Facts& f) { f.inputs[1].has_plain_compression = false; },
      [](Facts& f) { f.inputs[1].has_plain_index = false; },
      [](Facts& f) { f.inputs[1].has_collectors = true; },
      [](Facts& f) { f.inputs[1].has_temperature = true; },
      [](Facts& f) { f.inputs[1].has_one_sequence = false; },
  };
}

// Goal: each fact alone is a reason, and each has one of its own.
// Method: one fact changed at a time, of the second input where it is an input's.
// Mutation: a row left out, or one that looks at the first input only.
TEST(CompactionEligible, EachFactIsAReason) {
  EXPECT_EQ(why_not(good()), nullptr);
  std::set<std::string> said;
  for (std::size_t i = 0; i < changes().size(); ++i) {
    Facts facts = good();
    changes()[i](facts);
    const char* const why = why_not(facts);
    ASSERT_NE(why, nullptr) << i;
    EXPECT_TRUE(said.insert(why).second) << why;
  }
  EXPECT_EQ(said, std::set<std::string>(reasons().begin(), reasons().end()));
  EXPECT_NE(why_not({}), nullptr);  // no inputs
}

rocksdb::LiveFileMetaData file(std::uint64_t number, int level, const char* smallest,
                               const char* largest) {
  rocksdb::LiveFileMetaData file;
  file.file_number = number;
  file.level = level;
  file.smallestkey = smallest;
  file.largestkey = largest;
  file.directory = "db";
  file.relative_filename = std::to_string(number) + ".sst";
  file.largest_seqno = 100 + number;
  return file;
}

// Goal: each file of level 0 is a run, newest first; other levels are one each.
// Method: inputs of three levels among other files.
// Mutation: files of level 0 in one run, or runs in the order of numbers.
TEST(CompactionContext, Runs) {
  const LiveFiles files = {file(9, 0, "a", "z"), file(8, 0, "a", "z"), file(7, 0, "b", "c"),
                           file(3, 1, "a", "f"), file(2, 1, "g", "k"), file(5, 1, "x", "z"),
                           file(1, 2, "a", "k")};
  const auto runs = runs_of(files, {8, 7, 3, 2, 1}, {7});
  ASSERT_EQ(runs.size(), 4U);
  EXPECT_EQ(runs[0][0].path, "db/8.sst");
  EXPECT_EQ(runs[0][0].sequence, std::nullopt);
  EXPECT_EQ(runs[1][0].path, "db/7.sst");
  EXPECT_EQ(runs[1][0].sequence, 107U);
  ASSERT_EQ(runs[2].size(), 2U);
  EXPECT_EQ(runs[2][1].path, "db/2.sst");
  EXPECT_EQ(runs[3].size(), 1U);
}

// Goal: what may hold older versions is found, and nothing else.
// Method: files before, beside and below the inputs.
// Mutation: newer files taken for older ones, which keeps deletions for ever; or the reverse, which
//   brings back what was deleted.
TEST(CompactionContext, Rules) {
  const LiveFiles files = {file(9, 0, "a", "z"), file(8, 0, "c", "e"), file(7, 0, "a", "z"),
                           file(6, 1, "a", "d"), file(5, 1, "m", "p"), file(4, 2, "a", "c"),
                           file(3, 2, "d", "k"), file(2, 3, "b", "c"), file(1, 3, "x", "z")};
  // From level 1 to 2: level 0 is newer, 5 is newer or has other keys, 1 too.
  MergeRules rules = rules_of(files, {6, 4, 3}, 2, true);
  EXPECT_FALSE(rules.is_bottommost);
  EXPECT_TRUE(rules.drops_deletions);
  EXPECT_EQ(rules.deeper, (std::vector<KeyRange>{{"b", "c"}}));
  // 3 alone has nothing below it.
  rules = rules_of(files, {3}, 2, true);
  EXPECT_TRUE(rules.is_bottommost);
  EXPECT_TRUE(rules.deeper.empty());
  // 5 to level 2: likewise, though 9 and 7 stand above it.
  EXPECT_TRUE(rules_of(files, {5}, 2, true).is_bottommost);
  // All of level 0 to level 1, with its files: levels 2 and 3 are below.
  rules = rules_of(files, {9, 8, 7, 6, 5}, 1, true);
  EXPECT_EQ(rules.deeper, (std::vector<KeyRange>{{"a", "c"}, {"d", "k"}, {"x", "z"}}));
  // Within level 0: 7 is older than 8, 9 is not.
  rules = rules_of({files[0], files[1], files[2]}, {8}, 0, true);
  EXPECT_FALSE(rules.is_bottommost);
  EXPECT_FALSE(rules.drops_deletions);
  rules = rules_of({files[0], files[1], files[2]}, {8, 7}, 0, true);
  EXPECT_TRUE(rules.is_bottommost);
  // An older file of level 0 counts whatever its keys: zeros would stand before its numbers.
  EXPECT_FALSE(
      rules_of({file(3, 0, "x", "z"), file(2, 0, "m", "p"), file(1, 0, "a", "c")}, {3, 2}, 0, false)
          .is_bottommost);
  EXPECT_FALSE(rules_of(files, {6, 4, 3}, 2, false).drops_deletions);
  // A level between the inputs' is below the newest of them.
  rules = rules_of(files, {9, 8, 7, 2, 1}, 3, false);
  EXPECT_FALSE(rules.is_bottommost);
}

// Goal: sizes of outputs are RocksDB's.
// Method: levels, multipliers, dynamic levels.
// Mutation: an exponent that is one off.
TEST(CompactionContext, FileBytes) {
  Fields options = {{"target_file_size_base", "1000"}, {"target_file_size_multiplier", "3"}};
  EXPECT_EQ(file_bytes_of({}, 0, options), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(file_bytes_of({}, 1, options), 1000U);
  EXPECT_EQ(file_bytes_of({}, 3, options), 9000U);
  EXPECT_EQ(file_bytes_of({}, 60, options), std::numeric_limits<std::uint64_t>::max());
  options["level_compaction_dynamic_level_bytes"] = "true";
  options["compaction_style"] = "kCompactionStyleLevel";
  EXPECT_EQ(file_bytes_of({file(1, 5, "a", "b")}, 6, options), 3000U);
  EXPECT_EQ(file_bytes_of({file(1, 6, "a", "b")}, 5, options), 1000U);
}

// Goal: a Bloom filter's bits are what its policy was made with.
// Method: RocksDB's policies by their names.
// Mutation: fractions that are cut off; other filters taken for it.
TEST(CompactionContext, FilterBits) {
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
  for (const char* const id : {"", "bloomfilter:", "bloomfilter:false", "bloomfilter::false",
                               "bloomfilter:x:false", "bloomfilter:10:true"}) {
    EXPECT_FALSE(bloom_millibits(id, &millibits)) << id;
  }
}

// Goal: tables get the shape that their options ask for.
// Method: options that are not the defaults; a factory that is not known.
// Mutation: a default in the place of an option.
TEST(CompactionContext, Shapes) {
  rocksdb::BlockBasedTableOptions options;
  options.format_version = 4;
  options.checksum = rocksdb::kCRC32c;
  options.block_size = 1000;
  options.block_size_deviation = 20;
  options.block_restart_interval = 7;
  options.index_block_restart_interval = 3;
  options.filter_policy.reset(rocksdb::NewBloomFilterPolicy(12));
  const auto choose = [&] {
    const std::unique_ptr<rocksdb::TableFactory> made(rocksdb::NewBlockBasedTableFactory(options));
    return choice_of(made.get());
  };
  TableChoice choice = choose();
  Facts facts = good();
  facts.table = choice.facts;
  EXPECT_EQ(why_not(facts), nullptr);
  EXPECT_EQ(choice.shape.version, 4U);
  EXPECT_EQ(choice.shape.checksum, sst::ChecksumType::kCrc32c);
  EXPECT_EQ(choice.shape.block_bytes, 1000U);
  EXPECT_EQ(choice.shape.block_deviation, 20U);
  EXPECT_EQ(choice.shape.restarts, 7U);
  EXPECT_EQ(choice.shape.index_restarts, 3U);
  EXPECT_EQ(choice.shape.filter_millibits, 12'000U);
  EXPECT_EQ(choice.filter_policy, "bloomfilter");
  options.whole_key_filtering = false;
  choice = choose();
  EXPECT_EQ(choice.shape.filter_millibits, 0U);
  EXPECT_EQ(choice.filter_policy, "");
  EXPECT_FALSE(choice_of(nullptr).facts.is_known);
}

}  // namespace
}  // namespace breccia::compaction
