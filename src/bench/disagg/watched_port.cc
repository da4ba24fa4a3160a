#include "bench/disagg/watched_port.h"

#include <algorithm>
#include <cstring>

#include "bench/threads.h"

namespace breccia::bench::disagg {

namespace {

std::uint64_t word_of(std::span<const std::byte> payload) {
  std::uint64_t word = 0;
  if (payload.size() >= sizeof word) std::memcpy(&word, payload.data(), sizeof word);
  return word;
}

}  // namespace

std::uint64_t Watch::now_ns() { return ns_between(Clock::time_point(), Clock::now()); }

void Watch::note(Event::Kind kind) {
  if (!looks()) return;
  const std::uint64_t now = now_ns();
  keep({.kind = kind, .begin_ns = now, .end_ns = now});
}

Status WatchedPort::read(fabric::PeerId peer, std::span<const fabric::Read> reads,
                         fabric::TimeUs until) {
  if (!watch_->looks()) return port_->read(peer, reads, until);
  Event event{.kind = Event::Kind::kRead, .peer = peer, .begin_ns = Watch::now_ns()};
  Status status = port_->read(peer, reads, until);
  event.end_ns = Watch::now_ns();
  for (const fabric::Read& one : reads) event.bytes += one.into.size();
  watch_->keep(event);
  return status;
}

Status WatchedPort::write(fabric::PeerId peer, std::span<const fabric::Write> writes,
                          fabric::TimeUs until) {
  if (!watch_->looks()) return port_->write(peer, writes, until);
  Event event{.kind = Event::Kind::kWrite, .peer = peer, .begin_ns = Watch::now_ns()};
  Status status = port_->write(peer, writes, until);
  event.end_ns = Watch::now_ns();
  for (const fabric::Write& one : writes) event.bytes += one.from.size();
  watch_->keep(event);
  return status;
}

void WatchedPort::read_all(std::span<fabric::ReadsOf> all, fabric::TimeUs until) {
  if (!watch_->looks()) return port_->read_all(all, until);
  Event event{.kind = Event::Kind::kRead, .begin_ns = Watch::now_ns()};
  port_->read_all(all, until);
  event.end_ns = Watch::now_ns();
  for (const fabric::ReadsOf& peer : all) {
    for (const fabric::Read& one : peer.reads) event.bytes += one.into.size();
  }
  watch_->keep(event);
}

void WatchedPort::write_all(std::span<fabric::WritesTo> all, fabric::TimeUs until) {
  if (!watch_->looks()) return port_->write_all(all, until);
  Event event{.kind = Event::Kind::kWrite, .begin_ns = Watch::now_ns()};
  port_->write_all(all, until);
  event.end_ns = Watch::now_ns();
  for (const fabric::WritesTo& peer : all) {
    for (const fabric::Write& one : peer.writes) event.bytes += one.from.size();
  }
  watch_->keep(event);
}

Status WatchedPort::send(fabric::PeerId peer, const fabric::Header& header,
                         std::span<const std::byte> payload, fabric::TimeUs until) {
  if (!watch_->looks()) return port_->send(peer, header, payload, until);
  Event event{.kind = Event::Kind::kSend,
              .message = header.kind,
              .peer = peer,
              .request = header.request,
              .word = word_of(payload),
              .begin_ns = Watch::now_ns()};
  Status status = port_->send(peer, header, payload, until);
  event.end_ns = Watch::now_ns();
  watch_->keep(event);
  return status;
}

std::optional<fabric::Arrival> WatchedPort::poll(fabric::TimeUs until) {
  if (!watch_->looks()) return port_->poll(until);
  const std::uint64_t begin = Watch::now_ns();
  auto arrival = port_->poll(until);
  if (arrival.has_value() && arrival->kind == fabric::Arrival::Kind::kMessage) {
    watch_->keep({.kind = Event::Kind::kHear,
                  .message = arrival->header.kind,
                  .peer = arrival->peer,
                  .request = arrival->header.request,
                  .word = word_of(arrival->payload),
                  .begin_ns = begin,
                  .end_ns = Watch::now_ns()});
  }
  return arrival;
}

}  // namespace breccia::bench::disagg
