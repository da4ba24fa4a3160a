#include "disagg/coordinator/zookeeper.h"

#include <limits>
#include <utility>

#include "base/clock.h"
#include "disagg/coordinator/zookeeper_session.h"

namespace breccia::disagg {

using fabric::TimeUs;

namespace {

Status failed(const char* what, int code) {
  if (code == ZOPERATIONTIMEOUT) return Status::TimedOut(what, zerror(code));
  return Status::IOError(what, zerror(code));
}

/// A path that ZooKeeper takes, as far as people get it wrong; the rest its library refuses.
bool is_path(const std::string& path) {
  return path.size() > 1 && path.front() == '/' && path.back() != '/' &&
         path.find("//") == std::string::npos;
}

}  // namespace

ZooKeeper::ZooKeeper(const Options& options) : options_(options) {}

ZooKeeper::~ZooKeeper() = default;

Result<std::unique_ptr<ZooKeeper>> ZooKeeper::open(const Options& options) {
  if (!is_path(options.root)) return Status::InvalidArgument("no path", options.root);
  std::unique_ptr<ZooKeeper> zookeeper(new ZooKeeper(options));
  BRECCIA_TRY(zookeeper->begin_session());
  return zookeeper;
}

std::string ZooKeeper::describe() const { return "ZooKeeper " + options_.hosts + options_.root; }

/// There is a session, the one of a moment ago or another one.
Status ZooKeeper::begin_session() {
  if (session_ != nullptr && !session_->is_over()) return Status::OK();
  is_member_ = false;
  if (session_ != nullptr && session_->is_ending()) return Status::IOError("a session is ending");
  session_.reset();
  BRECCIA_TAKE(session_, ZooKeeperSession::open({.hosts = options_.hosts,
                                                 .root = options_.root,
                                                 .session_us = options_.session_us}));
  return Status::OK();
}

const Coordinator::View* ZooKeeper::look() {
  if (begin_session().ok()) {
    if (auto news = session_->take_news()) {
      if (!view_.has_value()) view_.emplace();
      view_->version = news->version;
      view_->members = std::move(news->members);
      if (news->document.has_value()) view_->document = *std::move(news->document);
    }
    session_->ask();
  }
  return view_.has_value() ? &*view_ : nullptr;
}

Status ZooKeeper::join(const std::string& name, TimeUs until) {
  if (has_joined_) return Status::InvalidArgument("it has joined before");
  if (!is_path("/" + name) || name.find('/') != std::string::npos) {
    return Status::InvalidArgument("no name of a node", name);
  }
  BRECCIA_TRY(begin_session());
  has_joined_ = true;
  session_->end_if_nobody_asks();
  const std::string node = "members/" + name;
  int code = ZCONNECTIONLOSS;
  // The name is nobody else's, and a session that is over takes nothing: so this may be repeated.
  while (code == ZCONNECTIONLOSS) {
    code = session_->create(node, "", ZOO_EPHEMERAL, until);
    if (code != ZNODEEXISTS) continue;
    bool is_own = false;
    code = session_->find_own(node, &is_own, until);
    if (code == ZOK && !is_own) return Status::InvalidArgument("the name is another one's", name);
  }
  if (code != ZOK) return failed("nothing is known of joining", code);
  is_member_ = true;
  return Status::OK();
}

TimeUs ZooKeeper::sure_until_us() const { return is_member_ ? session_->sure_until_us() : 0; }

Result<bool> ZooKeeper::replace(std::uint64_t version, const std::string& document, TimeUs until) {
  if (document.size() > kDocumentBytesMax) {
    return Status::InvalidArgument("a document too large for ZooKeeper");
  }
  // Nodes have no such version, but one for "whichever it is", which must not come of it.
  if (version > std::numeric_limits<std::int32_t>::max()) return false;
  BRECCIA_TRY(begin_session());
  const int code = version == 0
                       ? session_->create("map", document, 0, until)
                       : session_->replace("map", document, static_cast<int>(version - 1), until);
  if (code == ZOK) return true;
  const bool is_refused =
      version == 0 ? code == ZNODEEXISTS : code == ZBADVERSION || code == ZNONODE;
  if (is_refused) return false;
  return failed("nothing is known of replacing", code);
}

}  // namespace breccia::disagg
