#pragma once

#include <rocksdb/db.h>
#include <rocksdb/listener.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "rocks/state.h"

namespace breccia::rocks {

/// What a user's event listeners hear of a store.
///
/// The tree is given one listener that hands its events on, with the database that the user knows
/// in the place of the tree. Two kinds differ: files that a flush brings in are no ingests to a
/// user but flushes, and flushes, memtables, waits and faults are the engine's, told by it.
///
/// Threads any. Events of a flush are told by the flusher's thread, the engine's others by a thread
///         of this object, in their order: listeners may call the store.
class Listeners {
 public:
  explicit Listeners(std::vector<std::shared_ptr<rocksdb::EventListener>> users);
  ~Listeners();
  Listeners(const Listeners&) = delete;
  Listeners& operator=(const Listeners&) = delete;

  /// What the tree is to be given in place of the user's.
  [[nodiscard]] std::vector<std::shared_ptr<rocksdb::EventListener>> for_tree() const;
  /// The database that users see; null: the tree itself.
  void show_as(rocksdb::DB* db) { shown_->store(db); }

  /// A flush has taken `view`, whose memtables are sealed, and begins.
  void flush_begins(const memtable::View& view, std::uint64_t applied, bool manual);
  /// Its files are in the tree.
  void flush_completed();
  /// It failed.
  void flush_failed();

  void background_error(rocksdb::BackgroundErrorReason reason, const Status& status);
  /// Writers begin to wait for room, or none waits any more.
  void stall(const memtable::View& view, bool stalled);

 private:
  class Relay;
  using Users = std::vector<std::shared_ptr<rocksdb::EventListener>>;
  /// One family's part of a flush.
  struct Job {
    rocksdb::FlushJobInfo info;
    rocksdb::MemTableInfo memtable;
    bool has_file = false;
  };

  void add_file(const rocksdb::ExternalFileIngestionInfo& info);
  [[nodiscard]] rocksdb::DB* database() const;
  [[nodiscard]] static Job job_of(const memtable::View& view, const memtable::FamilyView& family,
                                  std::uint64_t applied);
  void post(std::function<void()> event);
  void run(const std::stop_token& stop);

  const Users users_;
  const std::shared_ptr<std::atomic<rocksdb::DB*>> shown_;
  std::shared_ptr<Relay> relay_;
  rocksdb::DB* tree_ = nullptr;  // of the flush under way
  int jobs_ = 0;
  std::vector<Job> flush_;  // of the flusher's thread, which also ingests

  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<std::function<void()>> events_;
  std::jthread teller_;  // last: it uses all of the above
};

}  // namespace breccia::rocks
