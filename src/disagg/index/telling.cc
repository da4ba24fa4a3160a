#include "disagg/index/telling.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/assert.h"
#include "base/log.h"

namespace breccia::disagg {

using fabric::TimeUs;

void Telling::begin(Ask what, News news) {
  BRECCIA_ASSERT(is_over() && told_.empty());
  what_ = what;
  news_ = std::move(news);
  forget_lost();
  tend();
}

void Telling::follow(std::uint32_t epoch) {
  epoch_ = epoch;
  told_.clear();
  forget_lost();
}

void Telling::forget_lost() {
  std::erase_if(news_, [this](const auto& one) { return !memory_->is_kept(one.first); });
}

bool Telling::is_told(std::uint32_t node) const {
  return std::any_of(told_.begin(), told_.end(), [&](const One& one) { return one.node == node; });
}

void Telling::tend() {
  if (is_over()) return;
  // Whoever is met again is told again, and the other one of the two with it.
  for (std::size_t i = 0; i < told_.size();) {
    const std::uint32_t node = told_[i].node;
    const bool is_gone = port_->is_gone(told_[i].peer);
    if (is_gone) std::erase_if(told_, [&](const One& one) { return one.node == node; });
    i = is_gone ? 0 : i + 1;
  }
  for (const auto& [node, news] : news_) {
    if (!is_told(node)) tell(node);
  }
  for (One& one : told_) {
    if (!one.has_heard && port_->now_us() >= one.again) send(&one);
  }
}

/// All that have that memory, if they are connected.
void Telling::tell(std::uint32_t node) {
  for (const MemoryPeer* const of : memory_->find_all(node)) {
    told_.push_back({.node = node, .peer = of->peer, .request = asking_->draw_request()});
  }
}

void Telling::send(One* one) {
  one->again = port_->now_us() + again_us_;
  const fabric::Header header{
      .kind = static_cast<std::uint8_t>(what_), .epoch = epoch_, .request = one->request};
  // What does not go now goes again.
  (void)port_->send(one->peer, header, news_.at(one->node).bytes(), one->again);
}

TimeUs Telling::wake() const {
  TimeUs first = std::numeric_limits<TimeUs>::max();
  for (const One& one : told_) {
    if (!one.has_heard) first = std::min(first, one.again);
  }
  return first;
}

void Telling::hear(const fabric::Arrival& arrival) {
  const std::uint8_t kind = static_cast<std::uint8_t>(what_) | kAnswerBit;
  if (arrival.kind != fabric::Arrival::Kind::kMessage || arrival.header.kind != kind) return;
  const auto one = std::find_if(told_.begin(), told_.end(), [&](const One& of) {
    return of.peer == arrival.peer && of.request == arrival.header.request && !of.has_heard;
  });
  if (one == told_.end()) return;
  WireReader answer(arrival.payload);
  const Status code = take_code(&answer);
  if (!code.ok() && !code.IsInvalidArgument()) {
    // Who has another map yet is asked by another question: this one is answered.
    one->request = asking_->draw_request();
    return;
  }
  // What makes no sense there does not later.
  if (!code.ok())
    log(LogLevel::kWarning, "a memory server was told of no block: " + code.ToString());
  one->has_heard = true;
  const std::uint32_t node = one->node;
  const bool have_all = std::all_of(told_.begin(), told_.end(),
                                    [&](const One& of) { return of.node != node || of.has_heard; });
  if (have_all) be_over(node);
}

void Telling::be_over(std::uint32_t node) {
  news_.erase(node);
  std::erase_if(told_, [&](const One& one) { return one.node == node; });
}

}  // namespace breccia::disagg
