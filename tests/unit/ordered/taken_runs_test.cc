#include "ordered/background/taken_runs.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace breccia::ordered {

namespace {

/// A view of families 0 and 1 with four runs each, [0, 10), [10, 20), ...; the oldest may be longer
/// at its other end.
void publish_runs(ViewState* state, std::uint64_t before = 0) {
  auto view = std::make_shared<View>();
  for (const FamilyId id : {0, 1}) {
    auto family = std::make_shared<FamilyView>();
    family->id = id;
    for (std::uint64_t end = 40; end > 0; end -= 10) {
      auto run = std::make_shared<MemRun>();
      run->begin = before + end - (end == 10 ? 10 + before : 10);
      run->end = before + end;
      family->runs.push_back(std::move(run));
    }
    view->set_family(std::move(family));
  }
  state->publish(std::move(view), before + 40);
}

/// The first run of the family that nobody has, if any.
RunRange first_free(const FamilyView& family, const std::vector<TakenRange>& ranges) {
  for (std::size_t i = 0; i < family.runs.size(); ++i) {
    if (is_free(family.id, *family.runs[i], ranges)) return {i, 1};
  }
  return {};
}

}  // namespace

// Goal: each run is somebody's at most once, and can be had again when it was given back; families
//       take turns.
// Method: all runs of two families are taken one by one; one goes back.
// Mutation: forgetting the family of a range, or giving back all of a family, fails; so does
//   looking for more in the first family each time, which lets the others wait for ever.
TEST(TakenRuns, OneAtATime) {
  ViewState state;
  publish_runs(&state);
  TakenRuns taken;
  std::vector<Taken> all;
  while (auto one = taken.take(state, first_free)) all.push_back(*one);
  ASSERT_EQ(all.size(), 8U);
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].family, i % 2);
  taken.give_back(all[5]);
  const auto again = taken.take(state, first_free);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->family, 1U);
  EXPECT_EQ(again->runs, all[5].runs);
  EXPECT_FALSE(taken.take(state, first_free).has_value());
}

// Goal: a flush waits for those who have runs, nobody takes any meanwhile, and what is newer than
//       the flush is free afterwards.
// Method: a thread begins a flush while a run is taken.
// Mutation: a flush that does not wait, or keeps what it gave back, fails.
TEST(TakenRuns, ConcurrentFlushHasItsTurn) {
  ViewState state;
  publish_runs(&state);
  TakenRuns taken;
  const auto mine = taken.take(state, first_free);
  ASSERT_TRUE(mine.has_value());
  std::atomic<bool> given_back{false};
  std::thread flush([&] {
    taken.begin_flush();
    EXPECT_TRUE(given_back);
    EXPECT_FALSE(taken.take(state, first_free).has_value());
    taken.take_all(*state.view());
  });
  // It waits from some time on: then there is nothing to take, though runs are free.
  while (const auto other = taken.take(state, first_free)) {
    taken.give_back(*other);
    std::this_thread::yield();
  }
  given_back = true;
  taken.give_back(*mine);
  flush.join();
  EXPECT_FALSE(taken.take(state, first_free).has_value());
  taken.give_back_below(40);
  EXPECT_TRUE(taken.take(state, first_free).has_value());
}

// Goal: while a flush waits for a long merge, short ones go on; nothing else, and nothing when it
//   is over.
// Method: a run of eight times the others' length is taken, then one of half of that, when a flush
//   begins.
// Mutation: without it nothing is free; with any merge the flush waits for ever.
TEST(TakenRuns, ConcurrentShortMergesGoOnBesideALongOne) {
  ViewState state;
  publish_runs(&state, /*before=*/70);
  TakenRuns taken;
  const auto oldest = [](const FamilyView& family, const auto& ranges) {
    return is_free(family.id, *family.runs[3], ranges) ? RunRange{3, 1} : RunRange{};
  };
  const auto two = [](const FamilyView& family, const auto& ranges) {
    return is_free(family.id, *family.runs[0], ranges) ? RunRange{0, 2} : RunRange{};
  };
  const auto long_one = taken.take(state, oldest);
  ASSERT_TRUE(long_one.has_value());
  std::thread flush([&] { taken.begin_flush(); });
  while (const auto other = taken.take(state, two)) {  // until the flush waits
    taken.give_back(*other);
    std::this_thread::yield();
  }
  const auto short_one = taken.take(state, first_free);
  ASSERT_TRUE(short_one.has_value());
  EXPECT_FALSE(taken.take(state, oldest).has_value());
  taken.give_back(*long_one);
  EXPECT_FALSE(taken.take(state, first_free).has_value());
  taken.give_back(*short_one);
  flush.join();
  EXPECT_FALSE(taken.take(state, first_free).has_value());
  taken.take_all(*state.view());
}

}  // namespace breccia::ordered
