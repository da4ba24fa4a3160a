#include "disagg/asking.h"

#include <algorithm>
#include <utility>

namespace breccia::disagg {

using fabric::TimeUs;

namespace {

/// A peer that took nothing may by then.
constexpr TimeUs kTakesNothingUs = 200;

}  // namespace

Result<std::vector<std::byte>> Asking::ask(fabric::PeerId peer, Ask what,
                                           const WireWriter& question, TimeUs until,
                                           const IsOff& is_off) {
  Question one{.peer = peer, .bytes = &question, .is_off = is_off};
  ask(what, {&one, 1}, until);
  if (!one.was_put && !one.is_over) return Status::TimedOut("there was no time to ask");
  return std::move(one.answer);
}

/// A peer that takes nothing is to hold nobody up for longer than one that does not answer, and of
/// several none of the others at all.
void Asking::ask(Ask what, std::span<Question> all, TimeUs until) {
  for (Question& one : all) one.request = draw_request();
  const auto are_over = [all] {
    return std::all_of(all.begin(), all.end(), [](const Question& one) { return one.is_over; });
  };
  while (!are_over() && port_->now_us() < until) {
    TimeUs wake = until;
    for (Question& one : all) {
      const TimeUs patience = all.size() > 1 ? 0 : again_us_;
      if (!one.is_over && port_->now_us() >= one.again) put(what, &one, patience, until);
      if (!one.is_over) wake = std::min(wake, one.again);
    }
    // What has come for others is not waited behind.
    for (TimeUs at = wake; !are_over(); at = 0) {
      auto arrival = port_->poll(at);
      if (!arrival.has_value()) break;
      hear(what, &*arrival, all);
    }
  }
}

void Asking::put(Ask what, Question* one, TimeUs patience, TimeUs until) {
  const auto end = [one](Status status) {
    one->answer = std::move(status);
    one->is_over = true;
  };
  if (one->was_put && one->is_off && one->is_off()) {
    return end(Status::IOError("a server has another role"));
  }
  const fabric::Header header{
      .kind = static_cast<std::uint8_t>(what), .epoch = epoch_, .request = one->request};
  const TimeUs late = std::min(until, port_->now_us() + patience);
  const Status sent = port_->send(one->peer, header, one->bytes->bytes(), late);
  if (!sent.ok() && !sent.IsTimedOut()) return end(sent);
  const TimeUs soon = patience > 0 ? 0 : kTakesNothingUs;
  one->again = port_->now_us() + (sent.ok() ? again_us_ : soon);
  one->was_put = true;
  one->answer = Status::TimedOut("a server does not answer");
}

void Asking::hear(Ask what, fabric::Arrival* arrival, std::span<Question> all) {
  const bool is_gone = arrival->kind == fabric::Arrival::Kind::kGone;
  const auto kind = static_cast<std::uint8_t>(static_cast<std::uint8_t>(what) | kAnswerBit);
  const auto found = std::find_if(all.begin(), all.end(), [&](const Question& one) {
    return one.peer == arrival->peer && !one.is_over &&
           (is_gone || (arrival->header.request == one.request && arrival->header.kind == kind));
  });
  const bool is_ours = found != all.end() && !is_gone;
  if (!is_ours && hears_others_) hears_others_(*arrival);
  if (found == all.end()) return;  // of a question that was given up
  found->is_over = true;
  found->answered_us = port_->now_us();
  if (is_gone) {
    found->answer = Status::IOError("a server is gone");
    return;
  }
  WireReader answer(arrival->payload);
  if (Status code = take_code(&answer); !code.ok()) {
    found->answer = std::move(code);
    return;
  }
  arrival->payload.erase(arrival->payload.begin());
  found->answer = std::move(arrival->payload);
}

Status take_code(WireReader* answer) {
  if (answer->left() == 0) return Status::IOError("an answer without a code");
  const auto code = answer->take<Code>();
  if (code == Code::kOk) return Status::OK();
  const std::string sentence = answer->take_bytes().ToString();
  switch (code) {
    case Code::kFull:
      return Status::MemoryLimit(sentence);
    case Code::kBusy:
      return Status::Busy(sentence);
    case Code::kEpoch:
      return Status::TryAgain(sentence);
    default:
      return Status::InvalidArgument(sentence);
  }
}

Result<MemoryPeer> meet_memory(fabric::Port* port, Asking* asking, const std::string& address,
                               TimeUs until) {
  BRECCIA_TAKE(const fabric::PeerId peer, port->connect(address, until));
  const auto told = asking->ask(peer, Ask::kPool, {}, until);
  if (!told.ok()) {
    port->disconnect(peer);
    return told.status();
  }
  WireReader reader(told.value());
  const auto pool = reader.take<PoolInfo>();
  if (!reader.is_whole() || pool.node >= kNodesMax) {
    port->disconnect(peer);
    return Status::IOError("what a memory server told is no pool");
  }
  return MemoryPeer{.peer = peer,
                    .node = static_cast<std::uint32_t>(pool.node),
                    .region = pool.region,
                    .hold_us = pool.hold_us};
}

}  // namespace breccia::disagg
