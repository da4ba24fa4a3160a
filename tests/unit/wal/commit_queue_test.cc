#include "wal/commit_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <latch>
#include <thread>
#include <vector>

#include "base/random.h"
#include "support/folder.h"
#include "support/sparse_files.h"

namespace breccia::wal {

namespace {

/// A commit queue on a log of its own that notes what it publishes.
class Commits {
 public:
  Commits() : folder_(testing::Place::kMemory) {
    LogOptions options;
    options.dir = folder_ / "log";
    options.files = testing::make_sparse_files();
    LogRecovery recovery;
    auto log = Log::open(
        options, 0, [](const RecoveredFrame&) { return Status::OK(); }, &recovery);
    EXPECT_TRUE(log.ok());
    log_ = log.take();
    queue_ = std::make_unique<CommitQueue>(
        log_.get(), &fault,
        CommitEnvironment{.publish =
                              [this](Ticket& ticket) {
                                published.push_back(ticket.frame.position);
                                if (at_publish) at_publish(published.size());
                                return Status::OK();
                              },
                          .visible = [] { return std::uint64_t{0}; },
                          .note = [this](const CommitNote& note) { frames += note.frames; }});
  }

  CommitQueue& queue() { return *queue_; }

  Status enter(Ticket* ticket) { return queue_->enter(ticket, sizeof record_, 1, 0); }
  void seal(Ticket* ticket) {
    ticket->frame.mixed = true;
    log_->fill(&ticket->frame, record_);
    log_->seal(&ticket->frame);
  }

  base::Fault fault;
  std::function<void(std::uint64_t)> at_publish;  // is told how many were; may be empty
  std::vector<std::uint64_t> published;
  std::uint64_t frames = 0;  // that were noted

 private:
  static constexpr std::byte record_[8] = {};  // an empty key with an empty value
  const testing::Folder folder_;
  std::unique_ptr<Log> log_;
  std::unique_ptr<CommitQueue> queue_;
};

}  // namespace

// Goal: tickets stand in the order of the log, each once; what breaks it ends the process.
// Method: three tickets of one place each; the list is asked for more and for fewer, and gets one
//   twice.
// Mutation: push_back() without its assertion, or holds() that only counts or only compares, fails.
TEST(TicketListDeathTest, HoldsTheOrderOfTheLog) {
  Ticket tickets[3];
  TicketList list;
  EXPECT_TRUE(list.holds(0));
  for (std::uint64_t i = 0; i < 3; ++i) {
    tickets[i].frame.position = 64 * (i + 1);
    list.push_back(&tickets[i]);
    EXPECT_TRUE(list.holds(i + 1));
    EXPECT_FALSE(list.holds(i));
    EXPECT_FALSE(list.holds(i + 2));
  }
  EXPECT_DEATH(list.push_back(&tickets[0]), "frame.end");
  list.pop_front();
  EXPECT_TRUE(list.holds(2));
  tickets[2].frame.position = 64;
  EXPECT_FALSE(list.holds(2));
}

// Goal: batches are published one after the other, in the order of their places, each exactly once.
// Method: eight threads with all kinds of durability.
// Mutation: committing whatever is ready, instead of the ready ones at the front, fails; so does,
// with ThreadSanitizer, to change between enter() and finish() what others read of a frame (flags).
TEST(CommitQueue, ConcurrentBatchesAreInOrder) {
  constexpr int kThreads = 8;
  constexpr std::size_t kEach = 500;
  Commits commits;
  std::vector<std::thread> threads;
  for (std::uint64_t seed = 1; seed <= kThreads; ++seed) {
    threads.emplace_back([&, seed] {
      base::Random random(seed);
      std::uint64_t last = 0;
      for (std::size_t i = 0; i < kEach; ++i) {
        Ticket ticket;
        ticket.durability = static_cast<Durability>(random.below(3));
        ASSERT_TRUE(commits.enter(&ticket).ok());
        ASSERT_GT(ticket.frame.position, last);
        last = ticket.frame.position;
        if (random.one_in(4)) std::this_thread::yield();
        commits.seal(&ticket);
        ASSERT_TRUE(commits.queue().finish(&ticket).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(commits.published.size(), kThreads * kEach);
  EXPECT_TRUE(std::is_sorted(commits.published.begin(), commits.published.end()));
  EXPECT_EQ(commits.frames, kThreads * kEach);
}

// Goal: batches that wait for one in front of them are all committed by its owner.
// Method: one ticket enters first and finishes last, ten finish before it in their own threads.
// Mutation: finish() that commits its own ticket only never returns for the ten.
TEST(CommitQueue, ConcurrentBatchesWaitForTheFirst) {
  Commits commits;
  Ticket first;
  ASSERT_TRUE(commits.enter(&first).ok());
  std::vector<std::thread> threads;
  std::latch waiting(10);
  for (int i = 0; i < 10; ++i) {
    threads.emplace_back([&] {
      Ticket ticket;
      ASSERT_TRUE(commits.enter(&ticket).ok());
      commits.seal(&ticket);
      waiting.count_down();
      ASSERT_TRUE(commits.queue().finish(&ticket).ok());
    });
  }
  waiting.wait();
  EXPECT_TRUE(commits.published.empty());
  commits.seal(&first);
  EXPECT_TRUE(commits.queue().finish(&first).ok());
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(commits.published.size(), 11u);
}

// Goal: who commits for others is let go when its own batch is done, however many come.
// Method: while a batch is published the next one has always been finished, until the first
//         thread's call has returned.
// Mutation: a leader that goes on as long as somebody finishes returns behind all the others.
TEST(CommitQueue, ConcurrentLeadersAreLetGo) {
  constexpr std::uint64_t kMost = 1000;
  Commits commits;
  std::atomic<std::uint64_t> finished{0};
  std::atomic<bool> is_let_go{false};
  const auto finish_one = [&] {
    Ticket ticket;
    ASSERT_TRUE(commits.enter(&ticket).ok());
    commits.seal(&ticket);
    ++finished;
    ASSERT_TRUE(commits.queue().finish(&ticket).ok());
  };
  std::vector<std::thread> others;
  commits.at_publish = [&](std::uint64_t published) {
    if (is_let_go || published >= kMost) return;
    while (others.size() < 2) {
      others.emplace_back([&] {
        while (!is_let_go && finished < kMost) finish_one();
      });
    }
    while (!is_let_go && finished <= published && finished < kMost) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // it is behind its first step
  };
  finish_one();
  EXPECT_LT(finished, kMost);
  is_let_go = true;
  for (std::thread& thread : others) thread.join();
}

// Goal: a batch that is given up takes those behind it with it and stops the queue; those in front
//   of it are committed.
// Method: three tickets, the middle one abandoned, in every order of finishing.
// Mutation: abandon() without setting the fault lets the third be acknowledged behind a hole.
TEST(CommitQueue, AbandonedBatchStopsTheQueue) {
  const Status why = Status::IOError("given up");
  for (const bool abandoned_last : {false, true}) {
    Commits commits;
    Ticket before;
    Ticket given_up;
    Ticket behind;
    for (Ticket* ticket : {&before, &given_up, &behind}) ASSERT_TRUE(commits.enter(ticket).ok());
    commits.seal(&before);
    commits.seal(&behind);
    EXPECT_TRUE(commits.queue().finish(&before).ok());
    Status status;
    std::thread third([&] {
      if (!abandoned_last) commits.fault.set(base::Fault::Place::kLog, why);
      status = commits.queue().finish(&behind);
    });
    commits.queue().abandon(&given_up, why);
    third.join();
    EXPECT_EQ(status.code(), why.code());
    EXPECT_EQ(commits.published.size(), 1u);
    Ticket late;
    EXPECT_EQ(commits.enter(&late).code(), why.code());
    EXPECT_EQ(commits.queue().keep(/*sync=*/true).code(), why.code());
  }
}

}  // namespace breccia::wal
