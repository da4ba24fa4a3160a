#include "compaction/eligible.h"

#include <gtest/gtest.h>

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
      [](Facts& f) { f.table.is_written_blindly = false; },
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

}  // namespace
}  // namespace breccia::compaction
