#pragma once

#include <rocksdb/db.h>
#include <rocksdb/listener.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "ordered/state.h"

namespace breccia::tree {
class Audience;
}

namespace breccia::ordered {

/// What a user's event listeners hear of a store.
///
/// The tree's events are handed on by tree_events.h. Flushes, memtables, waits and faults are the
/// engine's, and told by one thread in their order: who hears them may call the store, and wait for
/// a flush. Files that a flush brings in are no ingests to a user but parts of it. Nobody hears of
/// breccia's own families.
///
/// Threads any; those of a flush by the flusher's thread.
class Listeners {
 public:
  using Users = std::vector<std::shared_ptr<rocksdb::EventListener>>;

  explicit Listeners(Users users);
  ~Listeners() { close(); }
  Listeners(const Listeners&) = delete;
  Listeners& operator=(const Listeners&) = delete;

  /// What the tree is to be given in place of the user's.
  [[nodiscard]] Users for_tree();
  /// The tree is open: which of its files are breccia's own.
  void note_files(rocksdb::DB* tree);
  /// Users see the store as `shown`: what was told meanwhile, and all that follows, reaches them.
  void open(rocksdb::DB* shown);
  /// Nobody hears anything from now on: see Audience::close.
  void close();

  /// A flush has taken `view`, whose memtables are sealed, and begins.
  void flush_begins(const View& view, std::uint64_t applied, bool manual);
  /// Its files are in the tree. For wait(): 0, or its last event.
  std::uint64_t flush_completed();
  /// It failed.
  void flush_failed() { flush_.clear(); }
  /// Waits until an event was told, unless an event's own callback asks.
  void wait(std::uint64_t event);

  void background_error(rocksdb::BackgroundErrorReason reason, const Status& status);
  /// Writers begin to wait for room, or none waits any more.
  void stall(const View& view, bool stalled);
  /// A user's handle is about to go; told here.
  void handle_goes(rocksdb::ColumnFamilyHandle* handle);

 private:
  /// One family's part of a flush.
  struct Job {
    rocksdb::FlushJobInfo info;
    rocksdb::MemTableInfo memtable;
    bool has_file = false;
  };

  void add_file(const rocksdb::ExternalFileIngestionInfo& info);
  [[nodiscard]] bool has_users() const;
  [[nodiscard]] static Job job_of(const View& view, const FamilyView& family,
                                  std::uint64_t applied);
  /// Tells all users: `call` takes one.
  template <class Call>
  void post(Call call);

  const std::shared_ptr<tree::Audience> audience_;
  int jobs_ = 0;
  std::vector<Job> flush_;  // of the flusher's thread, which also ingests
};

}  // namespace breccia::ordered
