#include "disagg/coordinator/zookeeper_session.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/clock.h"
#include "base/log.h"

// A session's questions:
//
// 1. When it is connected, and has not asked for a sixteenth of its time, ask() puts a round: a
//    sync, which only the leader answers; whether the document changed, or the document itself;
//    the members. Sessions read in order, so the members are as of the document or later, and both
//    as of the sync or later.
// 2. hear() takes answers off the line. The last of a round makes the news, if all are good. If the
//    document is another one than was handed out, the next round reads it.
// 3. Connections that are lost answer all that was asked through them, by a code; the library
//    connects again by itself. Who waits for a change of his own knows then that it may have
//    happened.

namespace breccia::disagg {

using base::now_us;
using fabric::TimeUs;

namespace {

constexpr TimeUs kRoundsPerSession = 16;
constexpr TimeUs kSessionMsMax = 3'600'000;
constexpr TimeUs kLogPauseUs = 1'000'000;

std::chrono::steady_clock::time_point moment_of(TimeUs at_us) {
  const TimeUs now = now_us();
  return base::deadline_after(at_us > now ? at_us - now : 0);
}

/// What the library has to say, a line a second at most: it tries to connect every few
/// milliseconds, and has something to say each time.
void log_line(const char* line) {
  static std::atomic<TimeUs> again_us{0};
  TimeUs again = again_us.load();
  const TimeUs now = now_us();
  if (now >= again && again_us.compare_exchange_strong(again, now + kLogPauseUs)) {
    log(LogLevel::kWarning, line);
  }
}

std::string millis(TimeUs us) { return std::to_string(us / 1000) + " ms"; }

}  // namespace

Result<std::unique_ptr<ZooKeeperSession>> ZooKeeperSession::open(const Options& options) {
  const TimeUs session_ms = options.session_us / 1000;
  if (session_ms == 0 || session_ms > kSessionMsMax) {
    return Status::InvalidArgument("no time of a session", std::to_string(options.session_us));
  }
  zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
  std::unique_ptr<ZooKeeperSession> session(new ZooKeeperSession(options));
  const std::scoped_lock lock(session->mutex_);
  // Whatever the servers count, they begin behind this.
  session->sure_from_us_ = session->asked_us_ = now_us();
  session->handle_ = zookeeper_init2(options.hosts.c_str(), on_event, static_cast<int>(session_ms),
                                     nullptr, session.get(), ZOO_NO_LOG_CLIENTENV, log_line);
  if (session->handle_ == nullptr) {
    return Status::InvalidArgument("no addresses of ZooKeeper's servers", options.hosts);
  }
  return session;
}

ZooKeeperSession::~ZooKeeperSession() {
  zhandle_t* handle = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    is_over_ = true;
    handle = std::exchange(handle_, nullptr);
  }
  ended_.notify_all();
  if (watcher_.joinable()) watcher_.join();
  if (handle != nullptr) zookeeper_close(handle);
}

bool ZooKeeperSession::is_over() const {
  const std::scoped_lock lock(mutex_);
  return is_over_;
}

bool ZooKeeperSession::is_ending() const {
  const std::scoped_lock lock(mutex_);
  return is_ending_;
}

// ---- what the library calls ----

void ZooKeeperSession::on_event(zhandle_t* handle, int type, int state, const char*, void* self) {
  if (type != ZOO_SESSION_EVENT) return;
  auto* const session = static_cast<ZooKeeperSession*>(self);
  if (state == ZOO_CONNECTED_STATE) {
    session->hear_connected(static_cast<TimeUs>(zoo_recv_timeout(handle)) * 1000);
    return;
  }
  const std::scoped_lock lock(session->mutex_);
  session->is_connected_ = false;
  session->is_over_ |= state == ZOO_EXPIRED_SESSION_STATE || state == ZOO_AUTH_FAILED_STATE;
  session->changed_.notify_all();
}

void ZooKeeperSession::hear_connected(TimeUs granted_us) {
  const std::scoped_lock lock(mutex_);
  if (granted_us_ == 0 && granted_us != options_.session_us) {
    log(LogLevel::kWarning, "ZooKeeper grants sessions of " + millis(granted_us) + ", not of " +
                                millis(options_.session_us));
  }
  granted_us_ = granted_us_ == 0 ? granted_us : std::min(granted_us_, granted_us);
  is_connected_ = true;
  is_alone_ = is_alone_known_ = false;
  changed_.notify_all();
}

void ZooKeeperSession::on_name(int code, const char*, const void* self) {
  static_cast<ZooKeeperSession*>(const_cast<void*>(self))->hear({.code = code});
}

void ZooKeeperSession::on_stat(int code, const Stat* stat, const void* self) {
  Answer answer{.code = code};
  if (code == ZOK) answer.stat = *stat;
  static_cast<ZooKeeperSession*>(const_cast<void*>(self))->hear(std::move(answer));
}

void ZooKeeperSession::on_data(int code, const char* value, int bytes, const Stat* stat,
                               const void* self) {
  Answer answer{.code = code};
  if (code == ZOK) answer.stat = *stat;
  if (code == ZOK && bytes > 0) answer.bytes.assign(value, static_cast<std::size_t>(bytes));
  static_cast<ZooKeeperSession*>(const_cast<void*>(self))->hear(std::move(answer));
}

void ZooKeeperSession::on_names(int code, const String_vector* names, const void* self) {
  Answer answer{.code = code};
  if (code == ZOK) answer.names.insert(names->data, names->data + names->count);
  static_cast<ZooKeeperSession*>(const_cast<void*>(self))->hear(std::move(answer));
}

void ZooKeeperSession::hear(Answer answer) {
  const std::scoped_lock lock(mutex_);
  BRECCIA_ASSERT(!questions_.empty());
  const Held question = std::move(questions_.front());
  questions_.pop_front();
  question->answer = std::move(answer);
  question->is_answered = true;
  if (question->then) question->then(*question);
  changed_.notify_all();
}

// ---- questions ----

std::string ZooKeeperSession::path_of(const std::string& node) const {
  return options_.root + "/" + node;
}

ZooKeeperSession::Held ZooKeeperSession::put(const Asks& asks,
                                             std::function<void(const Question&)> then) {
  auto question = std::make_shared<Question>(
      Question{.sent_us = now_us(), .answer = {}, .then = std::move(then)});
  questions_.push_back(question);
  const int code = handle_ == nullptr ? static_cast<int>(ZINVALIDSTATE) : asks(handle_);
  if (code != ZOK) {
    questions_.pop_back();
    question->answer.code = code;
    question->is_answered = true;
    if (question->then) question->then(*question);
  }
  return question;
}

void ZooKeeperSession::put_folders() {
  const std::string all = path_of("members");
  for (std::size_t end = all.find('/', 1); end != std::string::npos; end = all.find('/', end + 1)) {
    put(
        [&](zhandle_t* handle) {
          return zoo_acreate(handle, all.substr(0, end).c_str(), "", 0, &ZOO_OPEN_ACL_UNSAFE, 0,
                             on_name, this);
        },
        nullptr);
  }
  put(
      [&](zhandle_t* handle) {
        return zoo_acreate(handle, all.c_str(), "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, on_name, this);
      },
      nullptr);
}

void ZooKeeperSession::ask() {
  const std::scoped_lock lock(mutex_);
  asked_us_ = now_us();
  if (is_over_ || !is_connected_ || is_round_under_way_ || asked_us_ < ask_again_us_) return;
  ask_again_us_ = asked_us_ + granted_us_ / kRoundsPerSession;
  put_round();
}

void ZooKeeperSession::put_round() {
  is_round_under_way_ = true;
  if (!is_alone_known_) {
    is_alone_known_ = true;
    put([&](zhandle_t* handle) { return zoo_aget(handle, ZOO_CONFIG_NODE, 0, on_data, this); },
        [this](const Question& config) {
          is_alone_ =
              config.answer.code == ZOK && config.answer.bytes.find("server.") == std::string::npos;
        });
  }
  if (lacks_folders_) put_folders();
  put([&](zhandle_t* handle) { return zoo_async(handle, options_.root.c_str(), on_name, this); },
      [this](const Question& sync) { acknowledge(sync); });
  const std::string map = path_of("map");
  const Held document = put(
      [&](zhandle_t* handle) {
        return wants_document_ ? zoo_aget(handle, map.c_str(), 0, on_data, this)
                               : zoo_aexists(handle, map.c_str(), 0, on_stat, this);
      },
      nullptr);
  put(
      [&](zhandle_t* handle) {
        return zoo_aget_children(handle, path_of("members").c_str(), 0, on_names, this);
      },
      [this, document](const Question& members) { hear_members(*document, members); });
}

void ZooKeeperSession::hear_members(const Question& document, const Question& members) {
  is_round_under_way_ = false;
  lacks_folders_ = members.answer.code == ZNONODE;
  const bool is_there = document.answer.code == ZOK;
  if (members.answer.code != ZOK || !(is_there || document.answer.code == ZNONODE)) return;
  const std::int64_t change = is_there ? document.answer.stat.mzxid : 0;
  if (!wants_document_ && change != document_change_) {
    wants_document_ = true;
    ask_again_us_ = 0;
    return;
  }
  News news;
  news.version = is_there ? static_cast<std::uint64_t>(document.answer.stat.version) + 1 : 0;
  news.members = members.answer.names;
  if (wants_document_) {
    news.document = document.answer.bytes;
  } else if (news_.has_value()) {
    news.document = std::move(news_->document);  // nobody has taken it
  }
  wants_document_ = false;
  document_change_ = change;
  news_ = std::move(news);
}

std::optional<ZooKeeperSession::News> ZooKeeperSession::take_news() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(news_, std::nullopt);
}

// ---- how long the session lasts ----

// A session ends when the one server that counts, alone or the leader of an ensemble, has heard
// nothing of it for the granted time. That one hears of a packet after it was sent, and puts the
// end a granted time behind, by its own clock, and never earlier. So a session lasts from the
// sending of anything that it has heard of, plus that time.
//
// A server that is alone, or the leader, has heard of what it answers. A follower answers reads
// alone, also if it has lost the leader without knowing, and what it hands on to the leader does
// not count there either: it tells which sessions it has heard of when the leader pings it, twice
// in a tick. So what was acknowledged counts once a sync is answered, which only the leader does,
// that was sent a third of the session later: the leader has pinged in between, as a session has
// two ticks at least, and what a follower says comes in order. If the session moved in between, its
// new server has asked the leader for it, which counts for the leader, and comes behind all that
// was acknowledged before. Another leader, and a server that starts again, begin to count anew.
//
// Assumed: servers of an ensemble are set up alike, so that the time that another one grants is not
// less (if it is, it is used as soon as it is known), and no shorter than two ticks. Clocks that
// differ, and pings that are late, have the last tenth.
void ZooKeeperSession::acknowledge(const Question& sync) {
  if (sync.answer.code != ZOK) return;
  if (is_alone_) {
    sure_from_us_ = sync.sent_us;
    return;
  }
  while (!acknowledged_.empty() &&
         acknowledged_.front().heard_us + granted_us_ / 3 <= sync.sent_us) {
    sure_from_us_ = acknowledged_.front().sent_us;
    acknowledged_.pop_front();
  }
  acknowledged_.push_back({.sent_us = sync.sent_us, .heard_us = now_us()});
}

TimeUs ZooKeeperSession::sure_until_us() const {
  const std::scoped_lock lock(mutex_);
  return is_over_ ? 0 : sure_from_us_ + granted_us_ / 10 * 9;
}

void ZooKeeperSession::end_if_nobody_asks() {
  BRECCIA_ASSERT(!watcher_.joinable());
  const std::scoped_lock lock(mutex_);
  asked_us_ = now_us();
  watcher_ = std::thread([this] { watch_asker(); });
}

void ZooKeeperSession::watch_asker() {
  std::unique_lock lock(mutex_);
  while (!is_over_) {
    const TimeUs session_us = granted_us_ == 0 ? options_.session_us : granted_us_;
    const TimeUs until = (is_asker_waiting_ ? now_us() : asked_us_) + session_us;
    if (now_us() >= until) {
      is_over_ = is_ending_ = true;
      zhandle_t* const handle = std::exchange(handle_, nullptr);
      lock.unlock();
      log(LogLevel::kWarning, "a member that did nothing for its session's time leaves");
      zookeeper_close(handle);
      lock.lock();
      is_ending_ = false;
      return;
    }
    ended_.wait_until(lock, moment_of(until));
  }
}

// ---- changes ----

int ZooKeeperSession::wait_for(const Asks& asks, TimeUs until, Answer* answer) {
  std::unique_lock lock(mutex_);
  is_asker_waiting_ = true;
  Held question;
  int code = ZOPERATIONTIMEOUT;
  if (changed_.wait_until(lock, moment_of(until), [&] { return is_over_ || is_connected_; })) {
    question = put(asks, nullptr);
    if (changed_.wait_until(lock, moment_of(until), [&] { return question->is_answered; })) {
      code = question->answer.code;
      *answer = std::move(question->answer);
    }
  }
  is_asker_waiting_ = false;
  asked_us_ = now_us();
  return code;
}

int ZooKeeperSession::create(const std::string& node, std::string_view value, int flags,
                             TimeUs until) {
  const std::string path = path_of(node);
  const Asks asks = [&](zhandle_t* handle) {
    return zoo_acreate(handle, path.c_str(), value.data(), static_cast<int>(value.size()),
                       &ZOO_OPEN_ACL_UNSAFE, flags, on_name, this);
  };
  Answer answer;
  const int code = wait_for(asks, until, &answer);
  if (code != ZNONODE) return code;
  {
    const std::scoped_lock lock(mutex_);
    put_folders();
  }
  return wait_for(asks, until, &answer);  // behind the folders
}

int ZooKeeperSession::replace(const std::string& node, std::string_view value, int version,
                              TimeUs until) {
  const std::string path = path_of(node);
  Answer answer;
  return wait_for(
      [&](zhandle_t* handle) {
        return zoo_aset(handle, path.c_str(), value.data(), static_cast<int>(value.size()), version,
                        on_stat, this);
      },
      until, &answer);
}

int ZooKeeperSession::find_own(const std::string& node, bool* is_own, TimeUs until) {
  const std::string path = path_of(node);
  Answer answer;
  const int code = wait_for(
      [&](zhandle_t* handle) { return zoo_aexists(handle, path.c_str(), 0, on_stat, this); }, until,
      &answer);
  const std::scoped_lock lock(mutex_);
  *is_own = code == ZOK && handle_ != nullptr &&
            answer.stat.ephemeralOwner == zoo_client_id(handle_)->client_id;
  return code;
}

}  // namespace breccia::disagg
