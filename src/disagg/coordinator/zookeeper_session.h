#pragma once

#include <zookeeper/zookeeper.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "base/result.h"
#include "disagg/coordinator/coordinator.h"

namespace breccia::disagg {

/// One session with servers of ZooKeeper, through their C library, which has two threads for it:
/// one sends and receives, the other one brings answers, in the order of the questions.
///
/// What the library knows of this object is its address, and questions wait in line here: so an
/// answer finds its question, or what is left of one that nobody waits for any more. After
/// zookeeper_close() nothing comes any more.
/// Threads who made it; what answers change is under the mutex.
class ZooKeeperSession {
 public:
  struct Options {
    std::string hosts;  // "host:port,...": servers of one ensemble
    std::string root;   // a path in ZooKeeper, from "/" on
    fabric::TimeUs session_us;
  };
  /// The whole news: the document is null if it is the one of the view before.
  struct News {
    std::uint64_t version = 0;
    std::optional<std::string> document;
    std::set<std::string> members;
  };

  /// Begins to connect.
  /// Errors  InvalidArgument: the hosts are no list of such, or none has an address; no time.
  static Result<std::unique_ptr<ZooKeeperSession>> open(const Options& options);
  ~ZooKeeperSession();
  ZooKeeperSession(const ZooKeeperSession&) = delete;
  ZooKeeperSession& operator=(const ZooKeeperSession&) = delete;

  /// It has expired, or was ended: the servers take nothing from it any more.
  [[nodiscard]] bool is_over() const;
  /// It is being ended, because nobody asked, and its destructor would wait for that.
  [[nodiscard]] bool is_ending() const;
  /// Asks for news, if none are under way and the last are not new.
  void ask();
  /// What came since the last call.
  [[nodiscard]] std::optional<News> take_news();

  /// From now on the session ends by itself if nobody calls ask() for its time, or waits in here:
  /// the library would say that this process lives as long as its own threads do. To be called
  /// once.
  void end_if_nobody_asks();
  /// No later than the moment at which the servers could end the session by themselves.
  [[nodiscard]] fabric::TimeUs sure_until_us() const;

  /// Each waits until it is connected, asks, and waits for the answer: a code of ZooKeeper's, and
  /// ZOPERATIONTIMEOUT if the time is over. The root's nodes are made where they lack.
  int create(const std::string& node, std::string_view value, int flags, fabric::TimeUs until);
  int replace(const std::string& node, std::string_view value, int version, fabric::TimeUs until);
  /// The node is there, and this session's.
  int find_own(const std::string& node, bool* is_own, fabric::TimeUs until);

 private:
  struct Answer {
    int code = ZOK;
    Stat stat{};
    std::string bytes{};
    std::set<std::string> names{};
  };
  struct Question {
    fabric::TimeUs sent_us;
    bool is_answered = false;
    Answer answer;
    std::function<void(const Question&)> then;  // under the mutex
  };
  using Held = std::shared_ptr<Question>;
  /// Gives the question to the library.
  using Asks = std::function<int(zhandle_t*)>;

  explicit ZooKeeperSession(const Options& options) : options_(options) {}

  static void on_event(zhandle_t* handle, int type, int state, const char* path, void* self);
  static void on_name(int code, const char* name, const void* self);
  static void on_stat(int code, const Stat* stat, const void* self);
  static void on_data(int code, const char* value, int bytes, const Stat* stat, const void* self);
  static void on_names(int code, const String_vector* names, const void* self);
  void hear(Answer answer);
  void hear_connected(fabric::TimeUs granted_us);

  // These have the mutex.
  Held put(const Asks& asks, std::function<void(const Question&)> then);
  void put_folders();
  void put_round();
  void acknowledge(const Question& sync);
  void hear_members(const Question& document, const Question& members);

  int wait_for(const Asks& asks, fabric::TimeUs until, Answer* answer);
  void watch_asker();
  [[nodiscard]] std::string path_of(const std::string& node) const;

  const Options options_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;  // of what has the mutex
  zhandle_t* handle_ = nullptr;      // null: ended
  bool is_over_ = false;
  bool is_ending_ = false;
  bool is_connected_ = false;
  bool is_alone_ = false;          // the server that it is connected to is one without others
  bool is_alone_known_ = false;    // or has been asked
  fabric::TimeUs granted_us_ = 0;  // the least time of this session that a server has granted
  std::deque<Held> questions_;     // without an answer

  bool lacks_folders_ = true;
  bool wants_document_ = true;
  std::int64_t document_change_ = 0;  // of the document that was handed out: its mzxid
  bool is_round_under_way_ = false;
  fabric::TimeUs ask_again_us_ = 0;
  std::optional<News> news_;

  struct Acknowledged {
    fabric::TimeUs sent_us;
    fabric::TimeUs heard_us;
  };
  std::deque<Acknowledged> acknowledged_;  // but a leader may not know yet
  fabric::TimeUs sure_from_us_ = 0;        // the leader has heard of the session since then

  bool is_asker_waiting_ = false;  // in wait_for()
  fabric::TimeUs asked_us_ = 0;    // when ask() was called
  std::condition_variable ended_;
  std::thread watcher_;
};

}  // namespace breccia::disagg
