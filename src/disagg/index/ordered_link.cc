#include "disagg/index/ordered_link.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/assert.h"

namespace breccia::disagg {

namespace {

/// Who could not be reached is left alone for so many times as long as was waited.
constexpr fabric::TimeUs kPauses = 4;

}  // namespace

std::size_t OrderedLink::index_of(Ask what) {
  const auto* const kind = std::find(std::begin(kKinds), std::end(kKinds), what);
  BRECCIA_ASSERT(kind != std::end(kKinds));
  return static_cast<std::size_t>(kind - std::begin(kKinds));
}

void OrderedLink::follow(const ClusterMap::Index& of, std::uint32_t epoch) {
  epoch_ = epoch;
  if (of.member != of_.member || of.address != of_.address) leave();
  of_ = of;
}

void OrderedLink::leave() {
  if (peer_.has_value()) port_->disconnect(*peer_);
  peer_.reset();
  is_met_ = false;
  for (Question& one : questions_) one = Question();
}

void OrderedLink::tend(const Follow& follow) {
  if (of_.address.empty()) return;
  const fabric::TimeUs now = port_->now_us();
  if (peer_.has_value() && port_->is_gone(*peer_)) leave();
  if (!peer_.has_value()) {
    if (now < connect_again_) return;
    auto connected = port_->connect(of_.address, now + options_.meet_us);
    connect_again_ = port_->now_us() + kPauses * options_.meet_us;
    if (!connected.ok()) return;
    peer_ = connected.take();
    is_met_ = false;
  }
  if (!is_met_ && !is_asked(Ask::kFollow) && port_->now_us() >= follow_again_) {
    ask(Ask::kFollow, WireWriter().add(follow).bytes());
  }
  for (const Ask what : kKinds) {
    if (is_asked(what) && now >= of(what).again) send(what);
  }
}

fabric::TimeUs OrderedLink::wake() const {
  if (of_.address.empty()) return std::numeric_limits<fabric::TimeUs>::max();
  if (!peer_.has_value()) return connect_again_;
  fabric::TimeUs first = is_met_ || is_asked(Ask::kFollow)
                             ? std::numeric_limits<fabric::TimeUs>::max()
                             : follow_again_;
  for (const Question& one : questions_) {
    if (one.request != 0) first = std::min(first, one.again);
  }
  return first;
}

void OrderedLink::ask(Ask what, std::vector<std::byte> question) {
  BRECCIA_ASSERT(peer_.has_value() && !is_asked(what));
  of(what) = {.request = asking_->draw_request(), .bytes = std::move(question)};
  send(what);
}

void OrderedLink::send(Ask what) {
  Question& question = of(what);
  const fabric::Header header{
      .kind = static_cast<std::uint8_t>(what), .epoch = epoch_, .request = question.request};
  question.again = port_->now_us() + options_.again_us;
  // The peer may be slow, or gone: what does not go goes again, or the peer is met anew.
  (void)port_->send(*peer_, header, question.bytes, question.again);
}

std::optional<Ask> OrderedLink::hear(const fabric::Header& header, bool is_ok) {
  for (const Ask what : kKinds) {
    const bool is_it = header.kind == (static_cast<std::uint8_t>(what) | kAnswerBit) &&
                       is_asked(what) && of(what).request == header.request;
    if (!is_it) continue;
    if (what == Ask::kFollow) is_met_ = is_ok;
    if (what == Ask::kFollow && !is_ok) follow_again_ = port_->now_us() + options_.again_us;
    of(what) = Question();
    return what;
  }
  return std::nullopt;
}

}  // namespace breccia::disagg
