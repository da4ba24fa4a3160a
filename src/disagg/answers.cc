#include "disagg/answers.h"

#include <algorithm>

namespace breccia::disagg {

namespace {

/// Who does not take an answer for so long does not get it.
constexpr fabric::TimeUs kSendUs = 100'000;

}  // namespace

void Answers::serve(fabric::TimeUs until, const Answer& answer) {
  do {
    const auto arrival = port_->poll(until);
    if (!arrival.has_value()) return;
    if (arrival->kind == fabric::Arrival::Kind::kGone) {
      peers_.erase(arrival->peer);
    } else if ((arrival->header.kind & kAnswerBit) == 0) {
      hear(*arrival, answer);
    }
  } while (port_->now_us() < until);
}

void Answers::hear(const fabric::Arrival& arrival, const Answer& answer) {
  Peer& peer = peers_[arrival.peer];
  const std::uint64_t request = arrival.header.request;
  if (request <= peer.forgotten) return;
  auto found = peer.answers.find(request);
  if (found == peer.answers.end()) {
    const WireWriter fresh =
        answer(static_cast<Ask>(arrival.header.kind), WireReader(arrival.payload));
    found = peer.answers.emplace(request, fresh.bytes()).first;
  }
  fabric::Header header = arrival.header;
  header.kind |= kAnswerBit;
  // Where it does not come through, who has asked will find out.
  (void)port_->send(arrival.peer, header, found->second, port_->now_us() + kSendUs);
  while (peer.answers.size() > kKeptMax) {
    peer.forgotten = peer.answers.begin()->first;
    peer.answers.erase(peer.answers.begin());
  }
}

}  // namespace breccia::disagg
