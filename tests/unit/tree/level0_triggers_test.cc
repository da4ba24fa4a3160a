#include "tree/level0_triggers.h"

#include <gtest/gtest.h>

namespace breccia::tree {

// Goal: triggers on level-0 files go to the engine's scale and back.
// Method: numbers, the largest one, no numbers; options that are no triggers.
// Mutation: dividing where nothing was multiplied fails.
TEST(Level0Triggers, ToTheTreeAndBack) {
  auto scaled =
      scaled_triggers({{"level0_stop_writes_trigger", "10"}, {"target_file_size_base", "10"}}, 4);
  ASSERT_TRUE(scaled.ok());
  EXPECT_EQ(scaled.value()["level0_stop_writes_trigger"], "40");
  EXPECT_EQ(scaled.value()["target_file_size_base"], "10");
  scaled = scaled_triggers({{"level0_stop_writes_trigger", "1073741824"}}, 4);
  ASSERT_TRUE(scaled.ok());
  EXPECT_EQ(scaled.value()["level0_stop_writes_trigger"], "1073741824");
  for (const char* wrong : {"", "x", "1x", "99999999999", "-99999999999"}) {
    EXPECT_FALSE(scaled_triggers({{"level0_stop_writes_trigger", wrong}}, 4).ok()) << wrong;
  }
  rocksdb::ColumnFamilyOptions options;
  EXPECT_EQ(flush_parts_of(scaled_triggers(options, 4)), 4);
  EXPECT_EQ(scaled_triggers(options, 4).level0_stop_writes_trigger,
            4 * options.level0_stop_writes_trigger);
  options.level0_stop_writes_trigger = (1 << 30) - 1;
  EXPECT_EQ(scaled_triggers(options, 4).level0_stop_writes_trigger, 1 << 30);
  options.level0_file_num_compaction_trigger = 16;
  options.level0_slowdown_writes_trigger = 80;
  options.level0_stop_writes_trigger = 1 << 30;
  options = given_triggers(options, 4);
  EXPECT_EQ(options.level0_file_num_compaction_trigger, 4);
  EXPECT_EQ(options.level0_slowdown_writes_trigger, 20);
  EXPECT_EQ(options.level0_stop_writes_trigger, 1 << 30);
}

}  // namespace breccia::tree
