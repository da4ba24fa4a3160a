/// What an engine does with what comes.

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "base/clock.h"
#include "base/memory.h"
#include "fabric/libfabric/engine.h"

namespace breccia::fabric::libfabric {

namespace {

/// Who comes in when there are so many is not heard.
constexpr std::size_t kPeersMax = 1024;
/// Whoever has messages of so many bytes waiting here has to wait with the next.
constexpr std::size_t kInboxBytesMax = 4 << 20;
/// Nobody else comes in while so much is waiting.
constexpr std::size_t kInboxOfAllBytesMax = 256 << 20;

template <class Body>
[[nodiscard]] bool read_body(std::span<const std::byte> bytes, Body* body) {
  if (bytes.size() != sizeof *body) return false;
  std::memcpy(body, bytes.data(), sizeof *body);
  return true;
}

}  // namespace

/// What names no link is of nobody, or of one that is gone.
void Engine::hear(Endpoint* at, std::span<const std::byte> bytes) {
  const auto packet = read_packet(bytes);
  if (!packet.has_value()) return;
  if (packet->is_of_other_version) return hear_other_version(at, *packet);
  if (packet->envelope.kind == Kind::kHello) {
    if (at == door()) hear_hello(*packet);
    return;
  }
  const auto named = names_.find(packet->envelope.link);
  if (named == names_.end()) return;
  const PeerId peer = named->second;
  Link* const link = find(peer);
  BRECCIA_ASSERT(link != nullptr);
  if (link->endpoint != at) return;
  if (packet->envelope.kind == Kind::kGoodbye) return note_gone(peer);
  bool goes_on = false;
  base::as_memory_allows([&] { goes_on = hear_of(link, *packet); });
  if (!goes_on) return lose(peer);
  if (Link* const still = find(peer)) (void)pump(still);
}

/// False: it says something that no peer says.
bool Engine::hear_of(Link* link, const Packet& packet) {
  const Envelope& envelope = packet.envelope;
  // One that is missing was lost with its connection, and what it was nobody knows.
  if (envelope.sequence != link->sequence_in) return false;
  ++link->sequence_in;
  link->pings = 0;
  link->looked_us = base::now_us();
  link->parts_granted = envelope.granted;
  if (link->parts_granted - link->parts_sent > kPartsUnderWayMax) return false;
  if (link->other == 0 && envelope.kind != Kind::kWelcome) return false;
  const std::span<const std::byte> body = packet.body;
  switch (envelope.kind) {
    case Kind::kWelcome:
      return hear_welcome(link, body);
    case Kind::kPart:
      return hear_part(link, body);
    case Kind::kPing:
      (void)say(link, Kind::kPong, {});
      return true;
    case Kind::kAsk:
      return hear_ask(link, body);
    case Kind::kRegion:
      return hear_region(link, body);
    case Kind::kEnded:
      return hear_ended(link, body);
    case Kind::kGather:
      return hear_gather(link, body);
    case Kind::kGathered:
    case Kind::kScattered:
      return hear_gathered(link, envelope.kind, body);
    case Kind::kScatter:
      return hear_scatter(link, body);
    case Kind::kGrant:
    case Kind::kPong:
      return true;
    case Kind::kHello:
    case Kind::kGoodbye:
      break;
  }
  return false;
}

// ---- who comes in ------------------------------------------------------------------------------

/// Who says hello is told goodbye, and who was said hello to, connect() tells.
void Engine::hear_other_version(Endpoint* at, const Packet& packet) {
  if (packet.envelope.kind == Kind::kHello) {
    Link* const link = at == door() ? let_in(packet) : nullptr;
    if (link == nullptr) return;
    link->is_of_other_version = true;
    (void)say(link, Kind::kGoodbye, {});
    return;
  }
  const auto named = names_.find(packet.envelope.link);
  if (named == names_.end()) return;
  Link* const link = find(named->second);
  BRECCIA_ASSERT(link != nullptr);
  if (link->endpoint == at && link->other == 0) link->is_of_other_version = true;
}

/// Null: not now, or it is no hello.
Link* Engine::let_in(const Packet& packet) {
  Greeting hello;
  if (packet.body.size() < sizeof hello) return nullptr;
  std::memcpy(&hello, packet.body.data(), sizeof hello);
  if (hello.link == 0 || hello.address_bytes != door()->address().size()) return nullptr;
  const RawAddress address(hello.address, hello.address + hello.address_bytes);
  if (links_.size() >= kPeersMax || inbox_bytes_ >= kInboxOfAllBytesMax) return nullptr;
  auto added = add(door(), address);
  if (!added.ok()) return nullptr;
  Link* const link = added.value();
  link->is_guest = true;
  link->other = hello.link;
  link->sequence_in = packet.envelope.sequence + 1;
  link->parts_granted = packet.envelope.granted;
  return link;
}

void Engine::hear_hello(const Packet& packet) {
  Link* const link = packet.body.size() == sizeof(Greeting) ? let_in(packet) : nullptr;
  if (link == nullptr) return;
  Greeting welcome{};
  welcome.link = link->name;
  (void)say(link, Kind::kWelcome, std::as_bytes(std::span(&welcome, 1)));
}

bool Engine::hear_welcome(Link* link, std::span<const std::byte> body) {
  Greeting welcome;
  if (link->other != 0 || !read_body(body, &welcome) || welcome.link == 0) return false;
  link->other = welcome.link;
  return true;
}

// ---- messages ----------------------------------------------------------------------------------

bool Engine::hear_part(Link* link, std::span<const std::byte> body) {
  if (link->parts_came == link->parts_let) return false;  // more than it was let
  ++link->parts_came;
  let_more_come(link);
  std::vector<std::byte>& came = link->came;
  const bool is_first = came.empty();
  if (!is_first) came.insert(came.end(), body.begin(), body.end());
  const std::span<const std::byte> all = is_first ? body : std::span<const std::byte>(came);
  if (all.size() < kHeaderBytes) return false;  // a first part has that
  const auto bytes = message_bytes(all);
  if (!bytes.has_value() || all.size() > *bytes) return false;
  if (all.size() < *bytes) {
    came.reserve(*bytes);
    if (is_first) came.assign(body.begin(), body.end());
    return true;
  }
  Arrival arrival{.kind = Arrival::Kind::kMessage, .peer = link->peer, .header = {}, .payload = {}};
  std::span<const std::byte> payload;
  if (decode(all, &arrival.header, &payload) != Damage::kNone) return false;
  arrival.payload.assign(payload.begin(), payload.end());
  came = std::vector<std::byte>();
  arrive(std::move(arrival));
  return true;
}

void Engine::let_more_come(Link* link) {
  if (link->inbox_bytes < kInboxBytesMax) link->parts_let = link->parts_came + kPartsUnderWayMax;
}

// ---- memory ------------------------------------------------------------------------------------

bool Engine::hear_ask(Link* link, std::span<const std::byte> body) {
  std::uint64_t key = 0;
  if (!read_body(body, &key)) return false;
  const Facts facts = regions_.facts(key);
  (void)say(link, Kind::kRegion, std::as_bytes(std::span(&facts, 1)));
  return true;
}

bool Engine::hear_region(Link* link, std::span<const std::byte> body) {
  Facts facts;
  if (!read_body(body, &facts)) return false;
  const auto found = link->regions.find(facts.key);
  if (found == link->regions.end() || found->second.has_value()) return false;
  found->second = facts;
  return true;
}

bool Engine::hear_ended(Link* link, std::span<const std::byte> body) {
  std::uint64_t key = 0;
  if (!read_body(body, &key)) return false;
  const auto found = link->regions.find(key);
  if (found != link->regions.end() && found->second.has_value()) link->regions.erase(found);
  return true;
}

bool Engine::hear_gather(Link* link, std::span<const std::byte> body) {
  if (link->answers_owed == kQuestionsMax) return false;
  ++link->answers_owed;
  (void)say(link, Kind::kGathered, body);
  return true;
}

bool Engine::hear_scatter(Link* link, std::span<const std::byte> body) {
  if (link->answers_owed == kQuestionsMax) return false;
  const auto said = regions_.scatter(body);
  if (!said.has_value()) return false;
  ++link->answers_owed;
  (void)say(link, Kind::kScattered, std::as_bytes(std::span(&*said, 1)));
  return true;
}

bool Engine::hear_gathered(Link* link, Kind kind, std::span<const std::byte> body) {
  GatheredHead head;
  if (body.size() < sizeof head) return false;
  std::memcpy(&head, body.data(), sizeof head);
  const auto found = link->questions.find(head.question);
  if (found == link->questions.end() || found->second.answer != kind) return false;
  const Link::Question question = found->second;
  link->questions.erase(found);
  const auto batch = batches_.find(question.batch);
  if (batch == batches_.end()) return true;  // the call is over
  BRECCIA_ASSERT(batch->second->under_way > 0);
  --batch->second->under_way;
  std::span<const std::byte> bytes = body.subspan(sizeof head);
  if (head.is_refused != 0) {
    batch->second->is_refused = true;
    return bytes.empty();
  }
  for (const Read& read : question.reads) {
    if (bytes.size() < read.into.size()) return false;
    std::memcpy(read.into.data(), bytes.data(), read.into.size());
    bytes = bytes.subspan(read.into.size());
  }
  return bytes.empty();
}

}  // namespace breccia::fabric::libfabric
