#include "ordered/state.h"

#include <gtest/gtest.h>

#include <barrier>
#include <memory>
#include <thread>
#include <vector>

namespace breccia::ordered {

// Goal: who pins gets a view and a position that belong together: all below it is in the view.
// Method: views that know up to where they reach are published beside readers, some with growth.
// Mutation: pinning the view and then the position, without the lock, fails.
TEST(ViewState, ConcurrentPinsAreConsistent) {
  constexpr std::uint64_t kViews = 20'000;
  ViewState state;
  const auto view_reaching = [](std::uint64_t end) {
    auto run = std::make_shared<MemRun>();
    run->end = end;
    auto family = std::make_shared<FamilyView>();
    family->runs = {std::move(run)};
    auto view = std::make_shared<View>();
    view->set_family(std::move(family));
    return view;
  };
  state.publish(view_reaching(8), 8);
  std::atomic<bool> done{false};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      std::uint64_t last = 0;
      while (!done) {
        const Pin pin = state.pin();
        ASSERT_LE(pin.visible, pin.view->families.front()->runs.front()->end);
        ASSERT_GE(pin.visible, last);
        last = pin.visible;
      }
    });
  }
  for (std::uint64_t i = 1; i < kViews; ++i) {
    state.publish(view_reaching(16 * i + 8), 16 * i);
    state.show(16 * i + 8);
  }
  done = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(state.visible(), 16 * (kViews - 1) + 8);
}

// Goal: a view that was replaced lives as long as somebody has it pinned, and no longer.
// Method: threads pin, and stay, while another view is published; what they pinned is let go.
// Mutation: places that keep what was pinned there, until the next pin, keep the first view.
TEST(ViewState, ConcurrentPinsKeepNothing) {
  ViewState state;
  auto first = std::make_shared<View>();
  const std::weak_ptr<const View> seen = first;
  state.publish(std::move(first), 8);
  std::barrier pinned(4);
  std::barrier replaced(4);
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      const Pin pin = state.pin();
      pinned.arrive_and_wait();
      replaced.arrive_and_wait();
      EXPECT_EQ(pin.view, seen.lock());
    });
  }
  pinned.arrive_and_wait();
  state.publish(std::make_shared<View>(), 16);
  EXPECT_FALSE(seen.expired());
  replaced.arrive_and_wait();
  for (std::thread& reader : readers) reader.join();
  EXPECT_TRUE(seen.expired());
  EXPECT_EQ(state.pin().visible, 16U);
}

// Goal: the first fault stays.
// Method: two faults.
// Mutation: the last one that counts.
TEST(Fault, FirstStays) {
  Fault fault;
  EXPECT_TRUE(fault.get().ok());
  fault.set(Fault::Place::kLog, Status::NoSpace("first"));
  fault.set(Fault::Place::kLog, Status::IOError("second"));
  EXPECT_TRUE(fault.get().IsNoSpace());
}

}  // namespace breccia::ordered
