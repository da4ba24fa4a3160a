#include "ordered/read/slice_room.h"

#include <gtest/gtest.h>

namespace breccia::ordered {
namespace {

// Goal: the room that was given back last is the next one, with what it has; more than the bound is
//   not kept.
// Method: rooms of known sizes, given back one behind the other.
// Mutation: a pool that forgets what a taken room had, or keeps whatever comes, fails.
TEST(SliceRooms, KeepWhatTheyMay) {
  SliceRooms rooms(exec::plain_host_memory());
  auto small = rooms.take();
  auto other = rooms.take();
  ASSERT_TRUE(small->found.reserve(1000) && small->ops.reserve(1000) && other->found.reserve(10));
  EXPECT_GE(small->memory_bytes(), 9000u);
  const SliceRoom* const last = small.get();
  rooms.give_back(std::move(other));
  rooms.give_back(std::move(small));
  auto again = rooms.take();
  EXPECT_EQ(again.get(), last);
  EXPECT_GE(again->found.capacity(), 1000u);

  // Two that do not fit together: the second goes.
  constexpr std::uint64_t kWords = SliceRooms::kKeptBytesMax / sizeof(std::uint64_t) / 2 + 1;
  auto large = rooms.take();
  auto too_large = rooms.take();
  ASSERT_TRUE(large->found.reserve(kWords) && too_large->found.reserve(kWords));
  const SliceRoom* const kept = large.get();
  rooms.give_back(std::move(large));
  rooms.give_back(std::move(too_large));
  EXPECT_EQ(rooms.take().get(), kept);
  EXPECT_EQ(rooms.take()->found.capacity(), 0u);
}

}  // namespace
}  // namespace breccia::ordered
