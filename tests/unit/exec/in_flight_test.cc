#include "exec/in_flight.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "base/section_mutex.h"
#include "hash/section.h"

namespace breccia::exec {

namespace {

/// Work that ends when a test says so.
class SomeWork final : public InFlight::Work {
 public:
  bool is_done() override { return done_; }
  void finish() override {
    ++waits_;
    done_.wait(false);
  }
  void end() {
    done_ = true;
    done_.notify_all();
  }
  /// False: there were not so many in ten seconds.
  [[nodiscard]] bool has_waiters(int count) const {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (waits_ < count && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    return waits_ >= count;
  }

 private:
  std::atomic<bool> done_{false};
  std::atomic<int> waits_{0};
};

std::shared_ptr<SomeWork> add_to(InFlight* all) {
  auto work = std::make_shared<SomeWork>();
  all->add({work});
  return work;
}

}  // namespace

// Goal: who waits does so for what was added before, however many wait, and for nothing later.
// Method: two threads wait for two pieces of work, which end in the other order, while a third one
//         comes in.
// Mutation: a list that is empty for who comes second; an end that only the last piece decides.
TEST(InFlight, WhatWasAddedBeforeIsWaitedFor) {
  InFlight all;
  const auto first = add_to(&all);
  const auto second = add_to(&all);
  std::atomic<int> through{0};
  std::vector<std::thread> waiting;
  for (int i = 0; i < 2; ++i) {
    waiting.emplace_back([&] {
      all.finish_all();
      ++through;
    });
  }
  EXPECT_TRUE(first->has_waiters(2));
  const auto later = add_to(&all);
  second->end();
  EXPECT_EQ(through, 0);
  first->end();
  for (std::thread& thread : waiting) thread.join();
  EXPECT_EQ(all.count(), 1U);
  later->end();
  all.finish_all();
  EXPECT_EQ(all.count(), 0U);
}

// Goal: what is done is let go of, and so many pieces are under way at most.
// Method: pieces that end in any order; one more than there is room for.
// Mutation: a list that only its first piece leaves, or that has no bound.
TEST(InFlight, MakesRoom) {
  InFlight all;
  std::vector<std::shared_ptr<SomeWork>> work;
  while (work.size() < 16) {
    all.make_room();
    work.push_back(add_to(&all));
  }
  work[3]->end();
  work[9]->end();
  all.make_room();
  EXPECT_EQ(all.count(), 14U);
  work.push_back(add_to(&all));
  work.push_back(add_to(&all));
  std::atomic<bool> has_room{false};
  std::thread more([&] {
    all.make_room();
    has_room = true;
  });
  EXPECT_TRUE(work[0]->has_waiters(1));
  EXPECT_FALSE(has_room);
  work[0]->end();
  more.join();
  EXPECT_EQ(all.count(), 15U);
  for (const auto& one : work) one->end();
}

// Goal: who may not wait gets no section while work is under way, and one when it is done.
// Method: tries before and behind the end of a piece.
// Mutation: a section that does not ask; one that waits.
TEST(InFlight, SectionsAreTriedOnce) {
  InFlight all;
  base::SectionMutex mutex;
  const auto work = add_to(&all);
  const auto is_free = [&] {
    return std::async(std::launch::async,
                      [&] {
                        const bool has_it = mutex.try_lock();
                        if (has_it) mutex.unlock();
                        return has_it;
                      })
        .get();
  };
  EXPECT_FALSE(hash::Section::try_once(mutex, all).has_value());
  EXPECT_TRUE(is_free());
  work->end();
  const auto section = hash::Section::try_once(mutex, all);
  EXPECT_TRUE(section.has_value());
  EXPECT_FALSE(is_free());
}

// Goal: who waits for room when it is paused does not add more before that is over.
// Method: one more than there is room for, which waits when a pause begins; then the first ends.
// Mutation: a pause that is asked for only before that wait.
TEST(InFlight, PausesWhoWaitsForRoom) {
  InFlight all;
  std::vector<std::shared_ptr<SomeWork>> work;
  while (work.size() < 16) work.push_back(add_to(&all));
  std::atomic<bool> has_room{false};
  std::thread more([&] {
    all.make_room();
    has_room = true;
  });
  EXPECT_TRUE(work[0]->has_waiters(1));
  auto pause = std::make_unique<InFlight::Pause>(all);
  for (const auto& one : work) one->end();
  all.finish_all();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(has_room);
  pause.reset();
  more.join();
}

// Goal: while somebody pauses it, nobody adds more.
// Method: two pauses, one inside the other.
// Mutation: a pause that ends with the first of them, or that nobody is woken from.
TEST(InFlight, Pauses) {
  InFlight all;
  auto outer = std::make_unique<InFlight::Pause>(all);
  { const InFlight::Pause inner(all); }
  std::atomic<bool> has_room{false};
  std::thread more([&] {
    all.make_room();
    has_room = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(has_room);
  outer.reset();
  more.join();
  EXPECT_TRUE(has_room);
}

// Goal: a section begins behind what is in flight, as behind who shares it.
// Method: one that is wanted while work is under way.
// Mutation: a section that only locks.
TEST(InFlight, SectionsWait) {
  InFlight all;
  base::SectionMutex mutex;
  const auto work = add_to(&all);
  std::atomic<bool> is_inside{false};
  std::thread wanting([&] {
    const hash::Section section(mutex, all);
    is_inside = true;
  });
  EXPECT_TRUE(work->has_waiters(1));
  EXPECT_FALSE(is_inside);
  work->end();
  wanting.join();
  EXPECT_TRUE(is_inside);
}

}  // namespace breccia::exec
