#include "tree/audience.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tree/teller.h"

namespace breccia::tree {

namespace {

rocksdb::DB* const kSomeDb = reinterpret_cast<rocksdb::DB*>(1);

Audience::Users one_user() { return {std::make_shared<rocksdb::EventListener>()}; }

}  // namespace

// Goal: events are told one by one in their order, what was posted before the start first; a
//   callback that waits for all that was posted does not wait for itself; the end tells the rest.
// Method: a hundred events, some of which post another and wait.
// Mutation: telling on the caller's thread, or waiting in a callback, fails or hangs.
TEST(Teller, TellsInOrderConcurrently) {
  std::vector<int> told;
  Teller teller;
  teller.post([&] { told.push_back(0); });
  teller.start();
  for (int i = 1; i < 100; ++i) {
    teller.post([&, i] {
      told.push_back(i);
      if (i % 10 == 0) {
        teller.post([&, i] { told.push_back(1000 + i); });
        teller.wait(teller.posted());
      }
    });
  }
  teller.wait(100);
  teller.stop();
  teller.post([&] { told.push_back(-1); });
  EXPECT_EQ(told.size(), 109U);
  int next = 0;
  for (const int one : told) {
    if (one >= 1000) continue;
    EXPECT_EQ(one, next++);
  }
}

// Goal: one that never started tells nothing, and whoever ends it does not wait.
TEST(Teller, NeverStarted) {
  bool told = false;
  {
    Teller teller;
    teller.post([&] { told = true; });
  }
  EXPECT_FALSE(told);
}

// Goal: nothing is told before there is a database to show, nor after the end, which waits for what
//   is being told.
// Method: events before, between and behind; a callback that is still running when the end comes.
// Mutation: closing without waiting ends before the callback does.
TEST(Audience, OpenAndCloseConcurrently) {
  Audience audience(one_user());
  std::vector<std::string> heard;
  audience.post([&] { heard.push_back(audience.shown() == kSomeDb ? "before" : "too early"); });
  EXPECT_FALSE(audience.may_tell_here());
  audience.wait(audience.posted());
  EXPECT_TRUE(heard.empty());
  audience.open(kSomeDb);
  EXPECT_TRUE(audience.may_tell_here());
  audience.wait(audience.posted());
  EXPECT_EQ(heard, std::vector<std::string>{"before"});
  std::atomic<bool> begun{false};
  std::atomic<bool> ended{false};
  std::thread slow([&] {
    audience.tell([&] {
      begun = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ended = true;
    });
  });
  while (!begun) std::this_thread::yield();
  audience.close();
  EXPECT_TRUE(ended);
  slow.join();
  audience.tell([&] { heard.emplace_back("after"); });
  audience.post([&] { heard.emplace_back("after"); });
  EXPECT_EQ(heard.size(), 1U);
}

// Goal: what is kept is told by the end of the outermost keeper, where that says.
// Method: one on the caller's thread, one that posts, and the second inside the first.
// Mutation: the inner one telling its own, or both, fails.
TEST(Audience, KeptEvents) {
  Audience audience(one_user());
  audience.open(kSomeDb);
  const auto here = std::this_thread::get_id();
  std::vector<bool> told_here;
  const auto event = [&] { told_here.push_back(std::this_thread::get_id() == here); };
  {
    const KeptEvents outer(KeptEvents::Then::kTellHere);
    audience.tell_later(event);
    {
      const KeptEvents inner(KeptEvents::Then::kPost);
      EXPECT_FALSE(audience.may_tell_here());
      audience.tell_later(event);
    }
    audience.wait(audience.posted());
    EXPECT_TRUE(told_here.empty());
  }
  {
    const KeptEvents alone(KeptEvents::Then::kPost);
    audience.tell_later(event);
  }
  EXPECT_TRUE(audience.may_tell_here());
  audience.tell_later(event);
  audience.wait(audience.posted());
  EXPECT_EQ(told_here, (std::vector<bool>{true, true, false, false}));
}

// Goal: breccia's own files are known by number wherever they lie, and before that by name.
TEST(Audience, OwnFiles) {
  OwnFiles files;
  files.add("/data/db/000012.sst");
  EXPECT_TRUE(files.contains("/elsewhere/000012.sst"));
  EXPECT_FALSE(files.contains("/data/db/000013.sst"));
  EXPECT_FALSE(files.contains("/data/db/000012.log"));
  EXPECT_FALSE(files.contains("/data/db/MANIFEST-000012"));
  EXPECT_TRUE(files.contains("/data/db/breccia-staging/own-watermark-3.sst"));
  EXPECT_FALSE(files.contains("/data/db/breccia-staging/data-3-0.sst"));
  files.remove("/data/db/000013.sst");
  EXPECT_TRUE(files.contains("/data/db/000012.sst"));
  files.remove("/data/db/000012.sst");
  EXPECT_FALSE(files.contains("/data/db/000012.sst"));
}

}  // namespace breccia::tree
