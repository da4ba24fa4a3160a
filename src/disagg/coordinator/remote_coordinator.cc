#include "disagg/coordinator/remote_coordinator.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/assert.h"

namespace breccia::disagg {

using fabric::TimeUs;

namespace {

/// Of questions under way: older ones are not answered any more.
constexpr std::size_t kLooksMax = 64;
/// Whose answers do not come for so many times as long as is between two is silent.
constexpr TimeUs kSilent = 32;

}  // namespace

RemoteCoordinator::~RemoteCoordinator() {
  if (peer_.has_value()) port_->disconnect(*peer_);
}

Status RemoteCoordinator::connect(TimeUs until) {
  if (peer_.has_value() && !port_->is_gone(*peer_)) return Status::OK();
  peer_.reset();
  const auto peer = port_->connect(options_.address, until);
  reached_ = peer.status();
  if (peer.ok()) peer_ = peer.value();
  return reached_;
}

const Coordinator::View* RemoteCoordinator::look() {
  // Whoever is there behind the next try may be of the same release.
  if (reached_.IsInvalidArgument()) reached_ = Status::OK();
  while (const auto arrival = port_->poll(0)) hear(*arrival);
  const TimeUs now = port_->now_us();
  // Who went without a word is met anew.
  const bool is_silent =
      !looks_.empty() && looks_.begin()->second.asked + kSilent * options_.look_us < now;
  if (is_silent && peer_.has_value()) {
    port_->disconnect(*peer_);
    peer_.reset();
    looks_.clear();
  }
  const bool is_due = looked_ == 0 || now >= looked_ + options_.look_us;
  if (is_due && (peer_.has_value() || now >= connect_again_)) {
    const bool is_there = connect(now + options_.connect_us).ok();
    // Who is not there now is not asked all the time.
    if (!is_there) connect_again_ = port_->now_us() + 4 * options_.connect_us;
    if (is_there) {
      looked_ = port_->now_us();
      const fabric::Header header{.kind = static_cast<std::uint8_t>(Ask::kLook),
                                  .request = asking_.draw_request()};
      const std::uint64_t version = view_.has_value() ? view_->version : 0;
      looks_[header.request] = {looked_, version, members_version_};
      if (looks_.size() > kLooksMax) looks_.erase(looks_.begin());
      WireWriter question;
      question.add_bytes(name_).add(version).add(members_version_);
      // What does not go at once is asked again.
      (void)port_->send(*peer_, header, question.bytes(), looked_);
    }
  }
  return view_.has_value() ? &*view_ : nullptr;
}

/// Of answers those that are newer than what is known.
void RemoteCoordinator::hear(const fabric::Arrival& arrival) {
  if (arrival.kind == fabric::Arrival::Kind::kGone) {
    if (arrival.peer == peer_) peer_.reset();
    return;
  }
  constexpr std::uint8_t kLooked = static_cast<std::uint8_t>(Ask::kLook) | kAnswerBit;
  const auto look = looks_.find(arrival.header.request);
  const bool is_it =
      arrival.peer == peer_ && arrival.header.kind == kLooked && look != looks_.end();
  if (!is_it) return;
  const Look asked = look->second;
  looks_.erase(looks_.begin(), std::next(look));
  WireReader answer(arrival.payload);
  if (take_code(&answer).ok()) take_view(answer, asked);
}

/// What was known then is not told again. Whose answer is of less than what is known by now came
/// from a coordinator of before.
void RemoteCoordinator::take_view(WireReader answer, const Look& look) {
  const auto head = answer.take<LookHead>();
  View view = view_.value_or(View());
  if (head.version != look.version) {
    view.document = answer.take_bytes().ToString();
  } else if (view.version != head.version) {
    return;
  }
  view.version = head.version;
  if (head.members_version != look.members_version) {
    view.members.clear();
    while (answer.left() > 0) view.members.insert(answer.take_bytes().ToString());
  } else if (members_version_ != head.members_version) {
    return;
  }
  if (!answer.is_whole()) return;
  members_version_ = head.members_version;
  // Whoever is none any more does not become one again.
  is_lost_ = is_lost_ || (!name_.empty() && head.sure_us == 0);
  sure_until_ = is_lost_ || name_.empty() ? 0 : look.asked + head.sure_us;
  view_ = std::move(view);
}

Status RemoteCoordinator::join(const std::string& name, TimeUs until) {
  BRECCIA_ASSERT(!name.empty());
  if (!name_.empty()) return Status::InvalidArgument("it has joined before");
  BRECCIA_TRY(connect(until));
  WireWriter question;
  question.add_bytes(name);
  const TimeUs asked = port_->now_us();
  const auto joined = asking_.ask(*peer_, Ask::kJoin, question, until);
  BRECCIA_TRY(joined.status());
  name_ = name;
  // Until the first look says for how long; those that are under way were nobody's.
  looked_ = 0;
  looks_.clear();
  sure_until_ = asked;
  return Status::OK();
}

Result<bool> RemoteCoordinator::replace(std::uint64_t version, const std::string& document,
                                        TimeUs until) {
  BRECCIA_TRY(connect(until));
  WireWriter question;
  question.add(version).add_bytes(document);
  BRECCIA_TAKE(const auto answer, asking_.ask(*peer_, Ask::kReplace, question, until));
  looked_ = 0;  // there is news
  WireReader reader(answer);
  const auto is_replaced = reader.take<std::uint8_t>();
  if (!reader.is_whole()) return Status::IOError("no answer of a coordinator");
  return is_replaced == 1;
}

}  // namespace breccia::disagg
