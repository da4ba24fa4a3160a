#pragma once

#include <rocksdb/listener.h>
#include <rocksdb/options.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace breccia::tree {

/// Keeps the ingests of files away from what RocksDB 7.8 does not bear beside them.
///
/// 1. Ends of compactions. RocksDB chooses the level of an ingested file by two states of the
///    family: which levels have files by the newest version, what they overlap by the super
///    version. While a compaction is being installed these differ, and a file may go below older
///    data that it overlaps. (Source: RocksDB 7.8.3,
///    ExternalSstFileIngestionJob::AssignLevelAndSeqnoForIngestedFile; seen in
///    tests/metamorphic/found/ingest_beside_compaction.txt.) A compaction may be installed from
///    when the last of its subcompactions has ended, or from its begin if it has none, until its
///    end. No such time and no ingest overlap: each waits for the other. Of DB::CompactFiles
///    RocksDB tells subcompactions alone: its caller tells the rest (Call).
/// 2. Moves of whole levels: DB::CompactRange with change_level compacts, waits until no
///    compaction runs, and moves the files by what it has seen of the levels (LevelMove). A flush
///    keeps away from all of it, but not while a callback of a user's runs in a compaction: that
///    may wait for the flush, and the move waits for the compaction.
/// 3. Whoever wants no flush (pause).
///
/// Users' listeners stand between the two sides of the gate, so that no callback of theirs comes
/// while its compaction counts as one that is being installed.
///
/// Threads any number.
/// Order   ingests first: a compaction that ends later waits for one that waits.
class InstallGate {
 public:
  using EventListeners = std::vector<std::shared_ptr<rocksdb::EventListener>>;

  /// The listeners of a tree: `users` between the sides of the gate.
  [[nodiscard]] static EventListeners around(const std::shared_ptr<InstallGate>& gate,
                                             const EventListeners& users);
  /// The compaction service of a tree: what it does counts as a subcompaction, of which RocksDB
  /// tells nobody then.
  [[nodiscard]] static std::shared_ptr<rocksdb::CompactionService> around(
      const std::shared_ptr<InstallGate>& gate,
      const std::shared_ptr<rocksdb::CompactionService>& service);
  /// True if the calling thread is where its compaction may be installed: what it tells is to be
  /// told elsewhere, as who hears it may wait for an ingest.
  [[nodiscard]] static bool is_installing();

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
    InstallGate* const gate_;
  };

  /// A call of DB::CompactFiles.
  /// Bound   waits for ingests.
  class Call {
   public:
    explicit Call(InstallGate* gate);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    InstallGate* const gate_;
    const bool was_installing_;
  };

  /// A flush's files on their way in.
  /// Bound   waits for pauses and moves of levels.
  class Flush {
   public:
    explicit Flush(InstallGate* gate) : gate_(gate) { gate_->begin_flush(); }
    ~Flush() { gate_->end_flush(); }
    Flush(const Flush&) = delete;
    Flush& operator=(const Flush&) = delete;

   private:
    InstallGate* const gate_;
  };

  /// A call of DB::CompactRange with change_level.
  /// Bound   waits for a flush's files that are on their way in.
  class LevelMove {
   public:
    explicit LevelMove(InstallGate* gate) : gate_(gate) { gate_->keep_out(&gate_->level_moves_); }
    ~LevelMove() { gate_->let_in(&gate_->level_moves_); }
    LevelMove(const LevelMove&) = delete;
    LevelMove& operator=(const LevelMove&) = delete;

   private:
    InstallGate* const gate_;
  };

  /// A callback of a user's about a file, on whatever thread: in a compaction it may wait for a
  /// flush as those about the compaction do.
  class FileCallback {
   public:
    FileCallback();
    ~FileCallback();
    FileCallback(const FileCallback&) = delete;
    FileCallback& operator=(const FileCallback&) = delete;

   private:
    const std::shared_ptr<InstallGate> gate_;  // null: this thread compacts nothing
  };

  /// Ends when no flush's files are on their way in; those that come wait for as many resume().
  void pause() { keep_out(&pauses_); }
  void resume() { let_in(&pauses_); }

 private:
  class Front;
  class Back;
  class Service;
  struct Job {
    int parts = 0;         // subcompactions that run
    bool of_call = false;  // of DB::CompactFiles: there was no begin
  };

  void begin_ingest(const std::function<bool()>& idle);
  void end_ingest();
  void begin_flush();
  void end_flush();
  void begin_callback();
  void end_callback();
  void begin_job(int id);
  void end_job(int id);
  void begin_part(int id);
  void end_part(int id);
  void keep_out(int* reasons);
  void let_in(int* reasons);
  [[nodiscard]] bool is_job_installed() const;
  [[nodiscard]] bool is_call_installed() const;

  std::mutex mutex_;
  std::condition_variable changed_;
  int ingests_ = 0;          // that run or wait
  std::map<int, Job> jobs_;  // by RocksDB's number
  int calls_ = 0;            // of DB::CompactFiles
  int flushes_ = 0;          // whose files are on their way in
  int pauses_ = 0;           // why those that come wait: until resume()
  int level_moves_ = 0;      // or, unless there are callbacks, until the move is done
  int callbacks_ = 0;        // of users, in compactions
};

}  // namespace breccia::tree
