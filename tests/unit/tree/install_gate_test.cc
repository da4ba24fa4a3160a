#include "tree/install_gate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>

namespace breccia::tree {

namespace {

using Gate = std::shared_ptr<InstallGate>;

/// A user's listener that does something in each event of a compaction.
class User final : public rocksdb::EventListener {
 public:
  explicit User(std::function<void()> work) : work_(std::move(work)) {}
  void OnCompactionBegin(rocksdb::DB*, const rocksdb::CompactionJobInfo&) override { work_(); }
  void OnCompactionCompleted(rocksdb::DB*, const rocksdb::CompactionJobInfo&) override { work_(); }
  void OnSubcompactionBegin(const rocksdb::SubcompactionJobInfo&) override { work_(); }
  void OnSubcompactionCompleted(const rocksdb::SubcompactionJobInfo&) override { work_(); }

 private:
  const std::function<void()> work_;
};

/// RocksDB's side of a gate: compactions by their ids, told to all listeners of a tree.
class Compactions {
 public:
  explicit Compactions(
      const Gate& gate, std::function<void()> work = [] {})
      : all_(InstallGate::around(gate, {std::make_shared<User>(std::move(work))})) {}
  void begin(int id) const {
    for (const auto& one : all_) one->OnCompactionBegin(nullptr, compaction(id));
  }
  void end(int id) const {
    for (const auto& one : all_) one->OnCompactionCompleted(nullptr, compaction(id));
  }
  void begin_part(int id) const {
    for (const auto& one : all_) one->OnSubcompactionBegin(part(id));
  }
  void end_part(int id) const {
    for (const auto& one : all_) one->OnSubcompactionCompleted(part(id));
  }

 private:
  static rocksdb::CompactionJobInfo compaction(int id) {
    rocksdb::CompactionJobInfo info;
    info.job_id = id;
    return info;
  }
  static rocksdb::SubcompactionJobInfo part(int id) {
    rocksdb::SubcompactionJobInfo info;
    info.job_id = id;
    return info;
  }
  const InstallGate::EventListeners all_;
};

bool never() { return false; }

/// True if `work` is still waiting after a while; `release` then lets it end.
bool waits(const std::function<void()>& work, const std::function<void()>& release) {
  std::atomic<bool> done{false};
  std::thread thread([&] {
    work();
    done = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const bool waited = !done;
  release();
  thread.join();
  return waited;
}

}  // namespace

// Goal: an ingest waits for a compaction exactly while that may be installed: from its begin to its
//          first subcompaction, and from the end of its last one to its own end.
// Method: one compaction of two parts, another that moves files without any, an ingest at each
//          step.
// Mutation: counting a compaction as installed when its last part ends lets an ingest through.
TEST(InstallGate, IngestsWaitForInstalls) {
  const auto gate = std::make_shared<InstallGate>();
  const Compactions compactions(gate);
  const auto ingest = [&] { const InstallGate::Ingest alone(gate.get(), never); };
  ingest();
  compactions.begin(1);
  EXPECT_TRUE(waits(ingest, [&] { compactions.begin_part(1); }));
  ingest();
  compactions.begin_part(1);
  compactions.end_part(1);
  ingest();
  compactions.end_part(1);
  EXPECT_TRUE(waits(ingest, [&] { compactions.end(1); }));
  compactions.begin(2);
  EXPECT_TRUE(waits(ingest, [&] { compactions.end(2); }));
  ingest();
}

// Goal: a compaction does not come to its end beside an ingest, and goes on meanwhile.
// Method: an ingest, and beside it a new compaction's begin, a part's begin, a part's end.
// Mutation: letting parts end without waiting fails the last.
TEST(InstallGate, InstallsWaitForIngests) {
  const auto gate = std::make_shared<InstallGate>();
  const Compactions compactions(gate);
  compactions.begin(1);
  compactions.begin_part(1);
  auto ingest = std::make_unique<InstallGate::Ingest>(gate.get(), never);
  compactions.begin_part(1);  // does not wait
  EXPECT_TRUE(waits([&] { compactions.begin(2); }, [&] { ingest.reset(); }));
  compactions.end(2);
  ingest = std::make_unique<InstallGate::Ingest>(gate.get(), never);
  EXPECT_TRUE(waits([&] { compactions.end_part(1); }, [&] { ingest.reset(); }));
}

// Goal: an ingest does not wait for compactions of which RocksDB has stopped to tell.
// Method: a compaction that begins and is never heard of again; the tree says that none is running.
// Mutation: an ingest that trusts the gate alone waits for ever.
TEST(InstallGate, EndsThatNobodyTells) {
  const auto gate = std::make_shared<InstallGate>();
  Compactions(gate).begin(1);
  const InstallGate::Ingest alone(gate.get(), [] { return true; });
}

// Goal: of DB::CompactFiles, of which RocksDB tells no begin and no end, an ingest waits for the
//   same, whatever else runs.
// Method: a call with two parts, beside a second call that runs; an ingest at each step.
// Mutation: counting a call that runs as one that is installed, or forgetting the first one's end
// for the second, lets an ingest wait or through.
TEST(InstallGate, IngestsWaitForCalls) {
  const auto gate = std::make_shared<InstallGate>();
  const Compactions compactions(gate);
  const auto ingest = [&] { const InstallGate::Ingest alone(gate.get(), [] { return true; }); };
  auto call = std::make_unique<InstallGate::Call>(gate.get());
  EXPECT_TRUE(waits(ingest, [&] { compactions.begin_part(1); }));
  compactions.begin_part(1);
  compactions.end_part(1);
  ingest();
  const InstallGate::Call other(gate.get());
  compactions.begin_part(2);
  ingest();
  compactions.end_part(1);
  EXPECT_TRUE(waits(ingest, [&] { call.reset(); }));
  ingest();
}

// Goal: no callback of a user's comes while its own compaction keeps ingests away.
// Method: one that ingests in every event of a compaction, and of a call.
// Mutation: the user before the gate, or behind it, in any of the four hangs.
TEST(InstallGate, CallbacksMayIngest) {
  const auto gate = std::make_shared<InstallGate>();
  int ingests = 0;
  const Compactions compactions(gate, [&] {
    const InstallGate::Flush flush(gate.get());
    const InstallGate::Ingest alone(gate.get(), never);
    ++ingests;
  });
  compactions.begin(1);
  compactions.begin_part(1);
  compactions.end_part(1);
  compactions.end(1);
  const InstallGate::Call call(gate.get());
  compactions.begin_part(2);
  compactions.end_part(2);
  EXPECT_EQ(ingests, 6);
}

// Goal: a flush keeps away from the move of a level, but for callbacks in its compactions, which
//   end before the move goes on; and from pauses, callbacks or not.
// Method: flushes at each step, one that a callback has begun and not waited for.
// Mutation: a callback that leaves its flush behind lets it into the move.
TEST(InstallGate, FlushesWaitForMovesOfLevelsConcurrently) {
  const auto gate = std::make_shared<InstallGate>();
  const auto flush = [&] { const InstallGate::Flush one(gate.get()); };
  std::unique_ptr<InstallGate::Flush> left;
  std::atomic<bool> is_left{false};
  const Compactions compactions(gate, [&] {
    left = std::make_unique<InstallGate::Flush>(gate.get());
    is_left = true;
  });
  const auto end_flush = [&] {
    while (!is_left.exchange(false)) std::this_thread::yield();
    left.reset();
  };
  {
    const InstallGate::LevelMove move(gate.get());
    EXPECT_TRUE(waits([&] { compactions.begin(1); }, end_flush));
    EXPECT_TRUE(waits([&] { compactions.end(1); }, end_flush));
  }
  auto move = std::make_unique<InstallGate::LevelMove>(gate.get());
  EXPECT_TRUE(waits(flush, [&] { move.reset(); }));
  gate->pause();
  EXPECT_TRUE(waits(flush, [&] { gate->resume(); }));
  left = std::make_unique<InstallGate::Flush>(gate.get());
  EXPECT_TRUE(waits([&] { gate->pause(); }, [&] { left.reset(); }));
  gate->resume();
  flush();
}

// Goal: what a thread noted of a compaction ends with its database: RocksDB's threads serve all of
//       them, and it tells of no ends once one is being closed.
// Method: a compaction, and then a part of one, begin and never end, and their gates go; a file is
//         told of on that thread, and a compaction of another database begins on it.
// Mutation: a thread that keeps a plain pointer to the gate uses what is gone (seen by the address
//           sanitizer); one that forgets nothing at a begin takes the next one's callbacks for
//           those of a compaction that is being installed.
TEST(InstallGate, NoEndIsToldOf) {
  Compactions(std::make_shared<InstallGate>()).begin(1);
  {
    const Gate gate = std::make_shared<InstallGate>();
    Compactions(gate).begin_part(1);
  }
  { const InstallGate::FileCallback callback; }
  Compactions(std::make_shared<InstallGate>()).begin(1);
  const Gate next = std::make_shared<InstallGate>();
  int told = 0;
  const Compactions compactions(next, [&] {
    ++told;
    EXPECT_FALSE(InstallGate::is_installing());
    const InstallGate::FileCallback callback;
  });
  compactions.begin(1);
  EXPECT_EQ(told, 1);
  compactions.end(1);
  EXPECT_FALSE(InstallGate::is_installing());
}

}  // namespace breccia::tree
