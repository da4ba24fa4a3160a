#pragma once

#include <rocksdb/db.h>
#include <rocksdb/listener.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/memory.h"
#include "tree/teller.h"

namespace breccia::tree {

/// The number in `.../000012.sst`; 0: the file is no table.
[[nodiscard]] std::uint64_t table_number(const std::string& path);

/// The files of breccia's own families, of which users hear nothing.
/// Threads any.
class OwnFiles {
 public:
  void add(const std::string& path);
  void remove(const std::string& path);
  /// True also of a staged file that is to become one of them.
  [[nodiscard]] bool contains(const std::string& path) const;

 private:
  mutable std::mutex mutex_;
  std::unordered_set<std::uint64_t> numbers_;  // of those in the tree
};

/// A user's event listeners, and how they are reached. Shared by a store and its tree's listeners,
/// of which either may live longer.
///
/// Threads any, where a function does not say otherwise.
class Audience {
 public:
  using Users = std::vector<std::shared_ptr<rocksdb::EventListener>>;
  using Event = std::function<void()>;

  explicit Audience(Users users) : users_(std::move(users)) {}

  [[nodiscard]] const Users& users() const { return users_; }
  [[nodiscard]] OwnFiles& own_files() { return own_files_; }
  /// The database that users see is open: what was posted is told from now on.
  void open(rocksdb::DB* shown);
  [[nodiscard]] bool is_open() const { return is_open_.load(); }
  /// The database that users see, for what is told after open().
  [[nodiscard]] rocksdb::DB* shown() const { return shown_.load(); }
  /// Nobody hears anything from now on. What was posted is told before that, if there was an
  /// open(), and callbacks that run come to their end. Not to be called by a callback.
  void close();

  /// Runs `event`, which tells users something, here.
  template <class Telling>
  void tell(const Telling& event) {
    if (!enter()) return;
    base::as_memory_allows(event);
    leave();
  }
  /// Waits, after open(), until what was posted before it is told: for events whose order counts.
  void wait_for_backlog();
  /// False if a callback on this thread might wait for the call that tells it, now or while a
  /// KeptEvents lives: then tell_later() is for it.
  [[nodiscard]] bool may_tell_here() const;
  /// Keeps the event for this thread's KeptEvents, or else posts it.
  void tell_later(Event event);
  /// Lets the teller's thread tell it, behind what was posted before.
  void post(Event event);
  /// Events that were posted up to now.
  [[nodiscard]] std::uint64_t posted() const { return teller_.posted(); }
  /// See Teller::wait. Before open() there is nothing to wait for.
  void wait(std::uint64_t count) {
    if (is_open()) (void)teller_.wait(count);
  }

 private:
  /// False if nobody hears anything any more.
  bool enter();
  void leave();

  const Users users_;
  std::atomic<rocksdb::DB*> shown_{nullptr};
  OwnFiles own_files_;
  std::atomic<bool> is_open_{false};
  std::uint64_t backlog_ = 0;  // events posted before open(); set before is_open_
  std::atomic<bool> is_up_to_date_{false};
  // Sequentially consistent: a callback that misses `closed_` is seen in `inside_` by who closes.
  std::atomic<std::int64_t> inside_{0};
  std::atomic<bool> closed_{false};
  std::mutex mutex_;
  std::condition_variable left_;
  Teller teller_;  // last: it uses all of the above
};

/// While it lives, what this thread should tell is kept, where may_tell_here() is asked. Its end
/// tells it: here, for a call that holds something which a callback may wait for; or on the
/// teller's thread, for a thread for which it may wait. Of two the outer one tells.
class KeptEvents {
 public:
  enum class Then { kTellHere, kPost };
  explicit KeptEvents(Then then);
  ~KeptEvents();
  KeptEvents(const KeptEvents&) = delete;
  KeptEvents& operator=(const KeptEvents&) = delete;

 private:
  friend class Audience;
  const Then then_;
  KeptEvents* const outer_;
  std::vector<std::pair<Audience*, Audience::Event>> events_;
};

}  // namespace breccia::tree
