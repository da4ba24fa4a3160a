#include "disagg/asking.h"

#include <algorithm>
#include <utility>

namespace breccia::disagg {

using fabric::TimeUs;

Result<std::vector<std::byte>> Asking::ask(fabric::PeerId peer, Ask what,
                                           const WireWriter& question, TimeUs until,
                                           const IsOff& is_off) {
  const fabric::Header header{
      .kind = static_cast<std::uint8_t>(what), .epoch = epoch_, .request = draw_request()};
  TimeUs again = 0;
  while (port_->now_us() < until) {
    if (port_->now_us() >= again) {
      if (again > 0 && is_off && is_off()) return Status::IOError("a server has another role");
      // A peer that takes nothing is to hold nobody up for longer than one that does not answer.
      const TimeUs late = std::min(until, port_->now_us() + again_us_);
      const Status sent = port_->send(peer, header, question.bytes(), late);
      if (!sent.ok() && !sent.IsTimedOut()) return sent;
      again = port_->now_us() + (sent.ok() ? again_us_ : 0);
    }
    auto arrival = port_->poll(std::min(until, again));
    if (!arrival.has_value()) continue;
    const bool is_gone = arrival->kind == fabric::Arrival::Kind::kGone && arrival->peer == peer;
    const bool is_ours = arrival->peer == peer && arrival->header.request == header.request &&
                         arrival->header.kind == (header.kind | kAnswerBit);
    if (!is_ours && hears_others_) hears_others_(*arrival);
    if (is_gone) return Status::IOError("a server is gone");
    if (!is_ours) continue;  // of a question that was given up
    WireReader answer(arrival->payload);
    BRECCIA_TRY(take_code(&answer));
    arrival->payload.erase(arrival->payload.begin());
    return std::move(arrival->payload);
  }
  return Status::TimedOut("a server does not answer");
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
