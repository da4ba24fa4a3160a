#pragma once

#include <rocksdb/listener.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>

namespace breccia::rocks {

/// Keeps the ingests of files and the ends of compactions in the tree apart.
///
/// RocksDB 7.8 chooses the level of an ingested file by two states of the family: which levels have
/// files by the newest version, what they overlap by the super version. While a compaction is being
/// installed these differ, and a file may go below older data that it overlaps. (Source: RocksDB
/// 7.8.3, ExternalSstFileIngestionJob::AssignLevelAndSeqnoForIngestedFile; seen in
/// tests/metamorphic/found/ingest_beside_compaction.txt.)
///
/// A compaction may be installed from when the last of its subcompactions has ended, or from its
/// begin if it has none, until its end. No such time and no ingest overlap: each waits for the
/// other. Of DB::CompactFiles RocksDB tells no end; whoever calls it must keep ingests away.
///
/// Threads any number. Order  ingests first: a compaction that ends later waits for one that waits.
class InstallGate final : public rocksdb::EventListener {
 public:
  /// Keeps compactions from being installed while it lives.
  class Ingest {
   public:
    /// `idle` says that no compaction is running, whatever the gate was told: RocksDB does not tell
    /// of ends once its background work is cancelled.
    /// Bound   waits for compactions that are being installed.
    Ingest(InstallGate* gate, const std::function<bool()>& idle) : gate_(gate) {
      gate_->begin_ingest(idle);
    }
    ~Ingest() { gate_->end_ingest(); }
    Ingest(const Ingest&) = delete;
    Ingest& operator=(const Ingest&) = delete;

   private:
    InstallGate* gate_;
  };

  [[nodiscard]] const char* Name() const override { return "breccia.InstallGate"; }
  void OnCompactionBegin(rocksdb::DB* db, const rocksdb::CompactionJobInfo& job) override;
  void OnCompactionCompleted(rocksdb::DB* db, const rocksdb::CompactionJobInfo& job) override;
  void OnSubcompactionBegin(const rocksdb::SubcompactionJobInfo& job) override;
  void OnSubcompactionCompleted(const rocksdb::SubcompactionJobInfo& job) override;

 private:
  void begin_ingest(const std::function<bool()>& idle);
  void end_ingest();
  [[nodiscard]] bool may_install() const;
  void wait_for_ingests(std::unique_lock<std::mutex>* lock);

  std::mutex mutex_;
  std::condition_variable changed_;
  int ingests_ = 0;          // that run or wait
  std::map<int, int> jobs_;  // by id: its subcompactions that run
};

}  // namespace breccia::rocks
