#include "rocks/install_gate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace breccia::rocks {

namespace {

/// RocksDB's side of a gate: compactions by their ids.
class Compactions {
 public:
  explicit Compactions(InstallGate* gate) : gate_(gate) {}
  void begin(int id) { gate_->OnCompactionBegin(nullptr, compaction(id)); }
  void end(int id) { gate_->OnCompactionCompleted(nullptr, compaction(id)); }
  void begin_part(int id) { gate_->OnSubcompactionBegin(part(id)); }
  void end_part(int id) { gate_->OnSubcompactionCompleted(part(id)); }

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
  InstallGate* gate_;
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
//   first subcompaction, and from the end of its last one to its own end.
// Method: one compaction of two parts, another that moves files without any, an ingest at each
// step. Mutation: counting a compaction as installed when its last part ends lets an ingest
// through.
TEST(InstallGate, IngestsWaitForInstalls) {
  InstallGate gate;
  Compactions compactions(&gate);
  const auto ingest = [&] { const InstallGate::Ingest alone(&gate, never); };
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
  InstallGate gate;
  Compactions compactions(&gate);
  compactions.begin(1);
  compactions.begin_part(1);
  auto ingest = std::make_unique<InstallGate::Ingest>(&gate, never);
  compactions.begin_part(1);  // does not wait
  EXPECT_TRUE(waits([&] { compactions.begin(2); }, [&] { ingest.reset(); }));
  compactions.end(2);
  ingest = std::make_unique<InstallGate::Ingest>(&gate, never);
  EXPECT_TRUE(waits([&] { compactions.end_part(1); }, [&] { ingest.reset(); }));
}

// Goal: an ingest does not wait for compactions of which RocksDB has stopped to tell.
// Method: a compaction that begins and is never heard of again; the tree says that none is running.
// Mutation: an ingest that trusts the gate alone waits for ever.
TEST(InstallGate, EndsThatNobodyTells) {
  InstallGate gate;
  Compactions(&gate).begin(1);
  const InstallGate::Ingest alone(&gate, [] { return true; });
}

}  // namespace breccia::rocks
