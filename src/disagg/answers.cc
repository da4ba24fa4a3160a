#include "disagg/answers.h"

#include "base/assert.h"

namespace breccia::disagg {

namespace {

/// Who does not take an answer for so long does not get it.
constexpr fabric::TimeUs kSendUs = 100'000;

}  // namespace

void Answers::hear(const fabric::Arrival& arrival, const Answer& answer) {
  if (arrival.kind == fabric::Arrival::Kind::kGone) {
    peers_.erase(arrival.peer);
    return;
  }
  // What it asked, and was answered, may be forgotten.
  if (port_->is_gone(arrival.peer)) return;
  Peer& peer = peers_[arrival.peer];
  const Asker asker{.peer = arrival.peer, .header = arrival.header};
  const std::uint64_t request = arrival.header.request;
  if (request <= peer.forgotten) return;
  const auto [found, is_new] = peer.answers.try_emplace(request);
  if (!is_new) {
    if (!found->second.empty() && !send(asker, found->second)) forget(asker.peer);
    return;
  }
  while (peer.answers.size() > kKeptMax) {
    peer.forgotten = peer.answers.begin()->first;
    peer.answers.erase(peer.answers.begin());
  }
  const Ask ask = static_cast<Ask>(arrival.header.kind);
  std::optional<WireWriter> now;
  try {
    now = answer(asker, ask, WireReader(arrival.payload));
  } catch (...) {
    peer.answers.erase(request);  // it may be asked again
    throw;
  }
  if (now.has_value()) give(asker, *now);
}

void Answers::give(const Asker& asker, const WireWriter& answer) {
  BRECCIA_ASSERT(!answer.bytes().empty());
  const auto peer = peers_.find(asker.peer);
  if (peer == peers_.end()) return;  // it is gone
  const auto found = peer->second.answers.find(asker.header.request);
  if (found != peer->second.answers.end()) found->second = answer.bytes();
  if (!send(asker, answer.bytes())) forget(asker.peer);
}

/// False: the peer does not take it.
bool Answers::send(const Asker& asker, const std::vector<std::byte>& answer) {
  fabric::Header header = asker.header;
  header.kind |= kAnswerBit;
  return port_->send(asker.peer, header, answer, port_->now_us() + kSendUs).ok();
}

/// Who asks, and takes no answers, is waited for once.
void Answers::forget(fabric::PeerId peer) {
  peers_.erase(peer);
  port_->disconnect(peer);
}

void serve(fabric::Port* port, Answers* answers, const Answers::Answer& answer,
           fabric::TimeUs until) {
  do {
    const auto arrival = port->poll(until);
    if (!arrival.has_value()) return;
    if ((arrival->header.kind & kAnswerBit) == 0) answers->hear(*arrival, answer);
  } while (port->now_us() < until);
}

}  // namespace breccia::disagg
