#include "fabric/libfabric/libfabric_port.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/descriptor.h"
#include "fabric/libfabric/engine.h"

/// What this backend does besides what all do (tests/conformance/fabric_test.cc), by TCP.

namespace breccia::fabric::libfabric {

namespace {

constexpr TimeUs kLong = 10'000'000;
constexpr std::uint64_t kBytes = 1 << 16;
/// How much later than it was said a call ends where others use the processor, too.
constexpr TimeUs kSlackUs = 500'000;

Options by_tcp() {
  Options options;
  options.policy = Policy::kTcp;
  options.node = "127.0.0.1";
  return options;
}

std::unique_ptr<LibfabricPort> open_port() {
  auto port = LibfabricPort::open(by_tcp());
  EXPECT_TRUE(port.ok()) << port.status().ToString();
  return port.take();
}

PeerId connect(Port* port, const std::string& address) {
  auto peer = port->connect(address, port->now_us() + kLong);
  EXPECT_TRUE(peer.ok()) << peer.status().ToString();
  return peer.value();
}

Status read(Port* port, PeerId peer, const RegionName& region, std::span<std::byte> into,
            TimeUs wait = kLong) {
  const Read one{region, 0, into};
  return port->read(peer, {&one, 1}, port->now_us() + wait);
}

Status read_twice(Port* port, PeerId peer, const RegionName& region, std::span<std::byte> into,
                  TimeUs wait = kLong) {
  const Read both[] = {{region, 0, into.first(8)}, {region, 8, into.subspan(8)}};
  return port->read(peer, both, port->now_us() + wait);
}

Status write(Port* port, PeerId peer, const RegionName& region, std::span<const std::byte> from,
             TimeUs wait = kLong) {
  const Write one{region, 0, from};
  return port->write(peer, {&one, 1}, port->now_us() + wait);
}

/// A process with a region that has no thread of its own: it does what it does in work().
class Process {
 public:
  Process() {
    auto engine = Engine::open(by_tcp());
    EXPECT_TRUE(engine.ok());
    engine_ = engine.take();
    const auto lock = engine_->lock();
    region_ = engine_->make_region(kBytes, Access::kReadWrite).value();
  }
  [[nodiscard]] std::string address() const { return engine_->address(); }
  [[nodiscard]] const RegionName& region() const { return region_.name; }
  void turn() {
    auto lock = engine_->lock();
    Engine::Wait wait{.until = 0, .idle_us = 0};
    (void)engine_->turn(&lock, &wait);
  }
  /// Does what others want while `body` runs.
  void work(const std::function<void()>& body) {
    std::atomic<bool> stops = false;
    std::thread works([&] {
      while (!stops.load()) {
        turn();
        std::this_thread::yield();
      }
    });
    body();
    stops.store(true);
    works.join();
  }
  /// It ends, and tells nobody.
  void die() { engine_.reset(); }

 private:
  std::unique_ptr<Engine> engine_;
  Regions::Made region_;
};

/// Somebody with an endpoint who sends packets that no port sends.
class Stranger {
 public:
  explicit Stranger(const std::string& address) {
    provider_ = Provider::open(by_tcp()).take();
    endpoint_ = Endpoint::open(*provider_, provider_->info(), 8, 8).take();
    to_ = endpoint_->insert(provider_->address_of(address).value()).value();
  }
  /// Whether it left.
  bool send(std::span<const std::byte> bytes) {
    Endpoint::Slot* const slot = endpoint_->take();
    EXPECT_NE(slot, nullptr);
    std::copy(bytes.begin(), bytes.end(), slot->bytes.begin());
    return finish(slot, [&] { return endpoint_->send(slot, to_, bytes.size()); });
  }
  bool say(Kind kind, std::span<const std::byte> body, std::uint32_t granted = kPartsUnderWayMax) {
    std::vector<std::byte> bytes(kEnvelopeBytes + body.size());
    const Envelope envelope{
        .kind = kind, .sequence = sequence_++, .link = link_, .granted = granted};
    write_envelope(envelope, body.size(), bytes);
    bytes[kVersionAt] ^= version_bits_;
    std::copy(body.begin(), body.end(), bytes.begin() + kEnvelopeBytes);
    return send(bytes);
  }
  void speak_another_version() { version_bits_ = std::byte{0x40}; }
  bool say_hello() {
    Greeting hello{};
    hello.link = kName;
    hello.address_bytes = endpoint_->address().size();
    std::memcpy(hello.address, endpoint_->address().data(), endpoint_->address().size());
    link_ = 0;
    sequence_ = 0;
    return say(Kind::kHello, std::as_bytes(std::span(&hello, 1)));
  }
  /// Says hello, and waits for the welcome.
  void come_in() {
    ASSERT_TRUE(say_hello());
    const TimeUs until = base::now_us() + kLong;
    while (link_ == 0 && base::now_us() < until) work();
    ASSERT_NE(link_, 0U);
  }
  /// The next packet of that kind that comes. None: there is none.
  std::optional<Envelope> wait_for(Kind kind) {
    const TimeUs until = base::now_us() + kLong;
    const auto is_it = [kind](const auto& one) { return one.first.kind == kind; };
    while (base::now_us() < until) {
      const auto found = std::find_if(heard_.begin(), heard_.end(), is_it);
      if (found == heard_.end()) {
        work();
        continue;
      }
      const auto [envelope, greeting] = *found;
      heard_.erase(heard_.begin(), found + 1);
      if (kind == Kind::kHello) answer_to(greeting);
      return envelope;
    }
    return std::nullopt;
  }
  [[nodiscard]] std::string address() const { return provider_->text_of(endpoint_->address()); }
  static constexpr std::uint64_t kName = 4711;
  bool read(std::uint64_t key, std::uint64_t offset) {
    Endpoint::Slot* const slot = endpoint_->take();
    return finish(slot, [&] { return endpoint_->read(slot, to_, key, offset, 64); });
  }
  void skip_packet() { ++sequence_; }

 private:
  template <class Post>
  bool finish(Endpoint::Slot* slot, const Post& post) {
    const TimeUs until = base::now_us() + kLong;
    auto posted = post();
    while (posted == Endpoint::Posted::kNotNow && base::now_us() < until) {
      work();
      posted = post();
    }
    EXPECT_EQ(posted, Endpoint::Posted::kYes);
    done_ = nullptr;
    while (done_ != slot && base::now_us() < until) work();
    EXPECT_EQ(done_, slot);
    return was_ok_;
  }
  void work() {
    for (const Endpoint::Done& done : endpoint_->progress()) {
      if (done.slot->use == Endpoint::Use::kReceive) {
        const auto packet = read_packet(done.slot->bytes.first(done.bytes));
        Greeting greeting{};
        if (done.is_ok && packet.has_value()) {
          std::memcpy(&greeting, packet->body.data(),
                      std::min(sizeof greeting, packet->body.size()));
          heard_.emplace_back(packet->envelope, greeting);
          if (packet->envelope.kind == Kind::kWelcome) link_ = greeting.link;
        }
        endpoint_->receive(done.slot);
        continue;
      }
      done_ = done.slot;
      was_ok_ = done.is_ok;
      endpoint_->give_back(done.slot);
    }
  }

  /// What is said from here on goes to who said that hello.
  void answer_to(const Greeting& hello) {
    link_ = hello.link;
    sequence_ = 0;
    to_ = endpoint_->insert(RawAddress(hello.address, hello.address + hello.address_bytes)).value();
  }

  static constexpr std::size_t kVersionAt = 2;
  std::byte version_bits_{};
  std::vector<std::pair<Envelope, Greeting>> heard_;
  std::unique_ptr<Provider> provider_;
  std::unique_ptr<Endpoint> endpoint_;
  fi_addr_t to_ = FI_ADDR_UNSPEC;
  std::uint64_t link_ = 0;
  std::uint32_t sequence_ = 0;
  Endpoint::Slot* done_ = nullptr;
  bool was_ok_ = false;
};

}  // namespace

// Goal: nobody gets software who asked for hardware, or for whatever there is without allowing it.
TEST(FabricLibfabric, SoftwareIsAllowedOrRefused) {
  const auto opens = [](Policy policy, bool allow_software) {
    Options options;
    options.policy = policy;
    options.allow_software = allow_software;
    return LibfabricPort::open(options);
  };
  const bool has_hardware = opens(Policy::kVerbs, true).ok() || opens(Policy::kEfa, true).ok();
  const auto any = opens(Policy::kAuto, false);
  EXPECT_EQ(any.ok(), has_hardware);
  EXPECT_TRUE(any.ok() || any.status().IsNotSupported()) << any.status().ToString();
  const auto allowed = opens(Policy::kAuto, true);
  ASSERT_TRUE(allowed.ok()) << allowed.status().ToString();
  const auto tcp = opens(Policy::kTcp, false);
  ASSERT_TRUE(tcp.ok()) << tcp.status().ToString();
  EXPECT_EQ(tcp.value()->describe(), "libfabric: tcp;ofi_rxm (software)");
  EXPECT_EQ(allowed.value()->describe() == tcp.value()->describe(), !has_hardware);
  Options nowhere = by_tcp();
  nowhere.node = "192.0.2.1";  // of nobody
  EXPECT_FALSE(LibfabricPort::open(nowhere).ok());
}

TEST(FabricLibfabric, AddressesAreTexts) {
  const auto port = open_port();
  for (const char* text : {"", "nowhere", "fi:", "fi:tcp:", "fi:tcp:127.0.0.1", "fi:tcp:x:1",
                           "fi:tcp:127.0.0.1:", "fi:tcp:127.0.0.1:65536", "fi:tcp:127.0.0.1:1x",
                           "fi:tcp:[::1]:1", "fi:verbs:127.0.0.1:1", "local:/x"}) {
    const auto peer = port->connect(text, port->now_us() + kLong);
    EXPECT_TRUE(!peer.ok() && peer.status().IsInvalidArgument()) << text;
  }
  const auto provider = Provider::open(by_tcp()).take();
  const std::string text = "fi:tcp:127.0.0.1:4711";
  EXPECT_EQ(provider->text_of(provider->address_of(text).value()), text);
}

// Goal: who was refused comes back, also to one that has started again, and to one that was not
//   there when it was tried first.
// Method: a name whose base is wrong, which nobody but the provider notices.
TEST(FabricLibfabric, ConnectionsAreMadeAnew) {
  const auto here = open_port();
  auto there = open_port();
  const std::string address = there->address();
  Options options = by_tcp();
  options.service = address.substr(address.rfind(':') + 1);
  std::vector<std::byte> bytes(64);
  for (int round = 0; round < 3; ++round) {
    const auto region = there->make_region(kBytes, Access::kRead).take();
    for (int again = 0; again < 2; ++again) {
      const PeerId peer = connect(here.get(), address);
      ASSERT_TRUE(read(here.get(), peer, region->name(), bytes).ok());
      RegionName wrong = region->name();
      wrong.base += kBytes;
      EXPECT_TRUE(read(here.get(), peer, wrong, bytes).IsIOError());
      EXPECT_TRUE(here->is_gone(peer));
    }
    const PeerId peer = connect(here.get(), address);
    ASSERT_TRUE(read(here.get(), peer, region->name(), bytes).ok());
  }
  there.reset();
  for (int round = 0; round < 3; ++round) {
    EXPECT_FALSE(here->connect(address, here->now_us() + 30'000).ok());
    there = LibfabricPort::open(options).take();
    const PeerId peer = connect(here.get(), address);
    EXPECT_TRUE(here->send(peer, {}, bytes, here->now_us() + kLong).ok());
    there.reset();
  }
}

// Goal: a port that was asked for is had, by one, who goes to others as all do.
TEST(FabricLibfabric, PortsMayBeChosen) {
  const auto other = open_port();
  Options options = by_tcp();
  const std::string free = open_port()->address();  // by now
  options.service = free.substr(free.rfind(':') + 1);
  const auto first = LibfabricPort::open(options);
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  EXPECT_EQ(first.value()->address(), free);
  EXPECT_FALSE(LibfabricPort::open(options).ok());
  connect(first.value().get(), other->address());
  connect(other.get(), free);
}

// Goal: what a question asks for is what the regions hold, and nothing else.
TEST(FabricLibfabric, QuestionsAreChecked) {
  const auto provider = Provider::open(by_tcp()).take();
  Regions regions;
  const Regions::Made made = regions.make(*provider, 1000, Access::kRead).value();
  for (std::size_t i = 0; i < 1000; ++i) made.bytes[i] = static_cast<std::byte>(i * 7);
  std::vector<std::byte> answer(kBodyBytesMax);
  const auto ask = [&](const std::vector<Piece>& pieces) {
    const GatherHead head{.question = 5, .pieces = static_cast<std::uint32_t>(pieces.size())};
    std::vector<std::byte> question(sizeof head + pieces.size() * sizeof(Piece));
    std::memcpy(question.data(), &head, sizeof head);
    if (!pieces.empty()) {
      std::memcpy(question.data() + sizeof head, pieces.data(), pieces.size() * sizeof(Piece));
    }
    const auto bytes = regions.gather(question, answer);
    if (!question.empty()) question.pop_back();
    EXPECT_FALSE(regions.gather(question, answer).has_value());
    return bytes;
  };
  const auto is_refused = [&](const Piece& piece) {
    const auto bytes = ask({{made.name.key, 0, 8}, piece});
    GatheredHead head{};
    std::memcpy(&head, answer.data(), sizeof head);
    return bytes == sizeof head && head.question == 5 && head.is_refused != 0;
  };
  const std::vector<Piece> pieces = {{made.name.key, 0, 64},  {made.name.key, 3, 0},
                                     {made.name.key, 5, 2},   {made.name.key, 13, 90},
                                     {made.name.key, 999, 1}, {made.name.key, 1000, 0}};
  ASSERT_EQ(ask(pieces), sizeof(GatheredHead) + 64 + 2 + 90 + 1);
  const std::byte* at = answer.data() + sizeof(GatheredHead);
  for (const Piece& piece : pieces) {
    EXPECT_EQ(std::memcmp(at, made.bytes.data() + piece.offset, piece.bytes), 0);
    at += piece.bytes;
  }
  EXPECT_EQ(ask({}), sizeof(GatheredHead));
  EXPECT_TRUE(is_refused({made.name.key + 1, 0, 1}));
  EXPECT_TRUE(is_refused({made.name.key, 1000, 1}));
  EXPECT_TRUE(is_refused({made.name.key, 993, 8}));
  EXPECT_TRUE(is_refused({made.name.key, ~std::uint64_t{0} - 3, 8}));
  EXPECT_FALSE(ask({{made.name.key, 0, ~std::uint64_t{0}}}).has_value());
  EXPECT_FALSE(ask({{made.name.key, 0, kGatheredBytesMax + 1}}).has_value());
  regions.end(made.name.key);
  EXPECT_TRUE(is_refused({made.name.key, 0, 8}));
  EXPECT_EQ(regions.facts(made.name.key).rights, Rights::kNone);
}

// Goal: what is to be written is written where it is said to be, all of it or nothing, and nothing
//   else.
// Mutation: regions that are to be read alone, ends of regions and of questions that are not looked
//   at; what comes before a piece that is refused.
TEST(FabricLibfabric, ScattersAreChecked) {
  const auto provider = Provider::open(by_tcp()).take();
  Regions regions;
  const Regions::Made made = regions.make(*provider, 1000, Access::kReadWrite).value();
  const Regions::Made read_only = regions.make(*provider, 64, Access::kRead).value();
  const auto question_of = [](const std::vector<Piece>& pieces, std::size_t bytes) {
    const GatherHead head{.question = 5, .pieces = static_cast<std::uint32_t>(pieces.size())};
    std::vector<std::byte> question(sizeof head + pieces.size() * sizeof(Piece) + bytes,
                                    std::byte{9});
    std::memcpy(question.data(), &head, sizeof head);
    std::memcpy(question.data() + sizeof head, pieces.data(), pieces.size() * sizeof(Piece));
    return question;
  };
  const auto written = [&] {
    return std::count(made.bytes.begin(), made.bytes.end(), std::byte{9});
  };
  const auto is_refused = [&](const Piece& piece) {
    const auto said = regions.scatter(question_of({{made.name.key, 0, 8}, piece}, 8 + piece.bytes));
    return said.has_value() && said->question == 5 && said->is_refused != 0 && written() == 0;
  };
  EXPECT_TRUE(is_refused({made.name.key + 77, 0, 1}));
  EXPECT_TRUE(is_refused({read_only.name.key, 0, 8}));
  EXPECT_TRUE(is_refused({made.name.key, 1000, 1}));
  EXPECT_TRUE(is_refused({made.name.key, 993, 8}));
  EXPECT_TRUE(is_refused({made.name.key, ~std::uint64_t{0} - 3, 8}));
  const std::vector<Piece> pieces = {
      {made.name.key, 16, 64}, {made.name.key, 3, 0}, {made.name.key, 105, 37}};
  auto question = question_of(pieces, 101);
  for (const std::size_t bytes : {0, 100, 102}) {
    EXPECT_FALSE(regions.scatter(question_of(pieces, bytes)).has_value());
  }
  for (std::size_t cut = 1; cut < question.size(); cut += 7) {
    EXPECT_FALSE(regions.scatter(std::span(question).first(question.size() - cut)).has_value());
  }
  EXPECT_FALSE(
      regions.scatter(question_of({{made.name.key, 0, ~std::uint64_t{0}}}, 8)).has_value());
  EXPECT_EQ(written(), 0);
  const auto said = regions.scatter(question);
  ASSERT_TRUE(said.has_value());
  EXPECT_EQ(said->is_refused, 0U);
  EXPECT_EQ(written(), 101);
  for (const Piece& piece : pieces) {
    const auto bytes = made.bytes.subspan(piece.offset, piece.bytes);
    EXPECT_EQ(std::count(bytes.begin(), bytes.end(), std::byte{9}), bytes.size());
  }
}

// Goal: memory of a port is read and written while its owner is elsewhere, also by a question, and
//   by who has never been there before.
TEST(FabricLibfabric, OwnersMayBeElsewhere) {
  const auto there = open_port();
  const auto region = there->make_region(kBytes, Access::kReadWrite).take();
  for (int round = 0; round < 3; ++round) {
    const auto here = open_port();
    const PeerId peer = connect(here.get(), there->address());
    const std::vector<std::byte> out(64, static_cast<std::byte>(round + 1));
    std::vector<std::byte> in(64);
    ASSERT_TRUE(write(here.get(), peer, region->name(), out).ok());
    ASSERT_TRUE(read(here.get(), peer, region->name(), in).ok());
    EXPECT_EQ(in, out);
    std::fill(in.begin(), in.end(), std::byte{});
    ASSERT_TRUE(read_twice(here.get(), peer, region->name(), in).ok());
    EXPECT_EQ(in, out);
    // Larger than an answer, beside small ones.
    std::vector<std::byte> all(kBytes);
    const Read reads[] = {{region->name(), 0, std::span(all).first(10)},
                          {region->name(), 10, std::span(all).subspan(10)}};
    ASSERT_TRUE(here->read(peer, reads, here->now_us() + kLong).ok());
    EXPECT_TRUE(std::equal(out.begin(), out.end(), all.begin()));
  }
}

// Goal: who hangs holds nobody longer than was said, and when it goes on so does all else; what
//   came too late touches nothing of the caller's.
// Method: a process that does nothing between turns.
// Mutation: reads into the caller's memory; slots that calls give back.
TEST(FabricLibfabric, PeersThatHang) {
  constexpr TimeUs kWait = 5000;
  Process there;
  const auto here = open_port();
  PeerId peer = 0;
  std::vector<std::byte> bytes(64);
  there.work([&] {
    peer = connect(here.get(), there.address());
    ASSERT_TRUE(read(here.get(), peer, there.region(), bytes).ok());
  });
  const auto ends = [&](const auto& call) {
    const TimeUs begin = here->now_us();
    const Status status = call();
    EXPECT_LE(here->now_us() - begin, kWait + kSlackUs);
    return status;
  };
  std::uint64_t sent = 0;
  for (int round = 0; round < 50; ++round) {
    std::vector<std::byte> ours(64, std::byte{1});
    const auto late = [&](const Status& status) { return status.IsTimedOut(); };
    EXPECT_TRUE(late(ends([&] { return read(here.get(), peer, there.region(), ours, kWait); })));
    EXPECT_TRUE(
        late(ends([&] { return read_twice(here.get(), peer, there.region(), ours, kWait); })));
    EXPECT_TRUE(late(ends([&] { return write(here.get(), peer, there.region(), ours, kWait); })));
    EXPECT_EQ(ours, std::vector<std::byte>(64, std::byte{1}));
    const Status status =
        ends([&] { return here->send(peer, {.request = sent}, bytes, here->now_us() + kWait); });
    EXPECT_TRUE(status.ok() || status.IsTimedOut());
    sent += status.ok() ? 1 : 0;
  }
  EXPECT_LE(sent, kPartsUnderWayMax);
  EXPECT_TRUE(ends([&] {
                return here->connect(there.address(), here->now_us() + kWait).status();
              }).IsTimedOut());
  there.work([&] {
    ASSERT_TRUE(read(here.get(), peer, there.region(), bytes).ok());
    ASSERT_TRUE(read_twice(here.get(), peer, there.region(), bytes).ok());
    ASSERT_TRUE(write(here.get(), peer, there.region(), bytes).ok());
    ASSERT_TRUE(here->send(peer, {.request = sent}, bytes, here->now_us() + kLong).ok());
  });
  EXPECT_FALSE(here->is_gone(peer));
}

// Goal: who has died holds nobody either, and is gone; another one is had.
// Mutation: waiting for the provider, which goes on connecting, to say so.
TEST(FabricLibfabric, PeersThatDie) {
  const auto here = open_port();
  for (int round = 0; round < 2; ++round) {
    Process there;
    PeerId peer = 0;
    std::vector<std::byte> bytes(64);
    there.work([&] {
      peer = connect(here.get(), there.address());
      ASSERT_TRUE(read(here.get(), peer, there.region(), bytes).ok());
    });
    there.die();
    const TimeUs begin = here->now_us();
    EXPECT_FALSE(read(here.get(), peer, there.region(), bytes, 20'000).ok());
    EXPECT_FALSE(write(here.get(), peer, there.region(), bytes, 20'000).ok());
    EXPECT_LE(here->now_us() - begin, 40'000 + kSlackUs);
    // It is tried again for a while, in vain.
    while (!here->is_gone(peer) && here->now_us() - begin < kLong) {
      EXPECT_FALSE(read(here.get(), peer, there.region(), bytes, 20'000).ok());
    }
    EXPECT_TRUE(here->is_gone(peer));
    EXPECT_EQ(here->poll(here->now_us() + kLong)->kind, Arrival::Kind::kGone);
  }
}

// Goal: a port that ends says so.
TEST(FabricLibfabric, EndsOfPortsAreTold) {
  const auto here = open_port();
  auto there = open_port();
  const PeerId peer = connect(here.get(), there->address());
  there.reset();
  const auto gone = here->poll(here->now_us() + kLong);
  ASSERT_TRUE(gone.has_value());
  EXPECT_EQ(gone->kind, Arrival::Kind::kGone);
  EXPECT_EQ(gone->peer, peer);
}

// Goal: bytes that are no packets of the provider's, and connections that say nothing, hold nobody.
TEST(FabricLibfabric, GarbageOnTheSocket) {
  const auto there = open_port();
  const auto region = there->make_region(kBytes, Access::kReadWrite).take();
  const std::string address = there->address();
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port =
      htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::vector<base::Descriptor> sockets;
  for (int i = 0; i < 6; ++i) {
    sockets.emplace_back(::socket(AF_INET, SOCK_STREAM, 0));
    ASSERT_EQ(::connect(sockets.back().get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    const std::vector<char> garbage(i % 3 * 3000, static_cast<char>(i * 40));
    (void)::send(sockets.back().get(), garbage.data(), garbage.size(), MSG_NOSIGNAL);
  }
  sockets.erase(sockets.begin() + 3, sockets.end());
  const auto here = open_port();
  const PeerId peer = connect(here.get(), address);
  std::vector<std::byte> bytes(64);
  EXPECT_TRUE(read(here.get(), peer, region->name(), bytes).ok());
  EXPECT_TRUE(read_twice(here.get(), peer, region->name(), bytes).ok());
}

// Goal: who sends what no port sends is gone, and nobody else is.
TEST(FabricLibfabric, StrangePackets) {
  const auto there = open_port();
  const auto here = open_port();
  const PeerId peer = connect(here.get(), there->address());
  const std::vector<std::byte> garbage(500, std::byte{0x55});
  const std::vector<std::byte> one(1);
  Stranger stranger(there->address());
  // Of nobody: they are not heard.
  EXPECT_TRUE(stranger.send(one));
  EXPECT_TRUE(stranger.send(garbage));
  EXPECT_TRUE(stranger.say(Kind::kPart, garbage));
  EXPECT_TRUE(stranger.say(Kind::kHello, garbage));
  using Act = std::function<void()>;
  const std::vector<Act> acts = {
      [&] { (void)stranger.say(Kind::kPart, garbage); },
      [&] { (void)stranger.say(Kind::kPart, {}); },
      [&] { (void)stranger.say(Kind::kWelcome, garbage); },
      [&] { (void)stranger.say(Kind::kAsk, garbage); },
      [&] { (void)stranger.say(Kind::kRegion, garbage); },
      [&] { (void)stranger.say(Kind::kEnded, one); },
      [&] { (void)stranger.say(Kind::kGather, one); },
      [&] { (void)stranger.say(Kind::kGather, garbage); },
      [&] { (void)stranger.say(Kind::kGathered, garbage); },
      [&] { (void)stranger.say(Kind::kScatter, one); },
      [&] { (void)stranger.say(Kind::kScatter, garbage); },
      [&] { (void)stranger.say(Kind::kScattered, garbage); },
      [&] { (void)stranger.say(Kind::kGrant, {}, /*granted=*/1'000'000); },
      [&] {
        stranger.skip_packet();
        (void)stranger.say(Kind::kPing, {});
      },
      [&] { (void)stranger.say(Kind::kGoodbye, {}); },
  };
  for (std::size_t i = 0; i < acts.size(); ++i) {
    SCOPED_TRACE(i);
    stranger.come_in();
    // A message first, so that it is known who it is.
    const WireHeader header = encode({.request = i}, {});
    ASSERT_TRUE(stranger.say(Kind::kPart, header));
    const auto first = there->poll(there->now_us() + kLong);
    ASSERT_TRUE(first.has_value() && first->kind == Arrival::Kind::kMessage);
    EXPECT_EQ(first->header.request, i);
    acts[i]();
    const auto gone = there->poll(there->now_us() + kLong);
    ASSERT_TRUE(gone.has_value() && gone->kind == Arrival::Kind::kGone);
    EXPECT_EQ(gone->peer, first->peer);
  }
  EXPECT_FALSE(here->is_gone(peer));
  EXPECT_TRUE(here->send(peer, {.request = 77}, one, here->now_us() + kLong).ok());
  const auto message = there->poll(there->now_us() + kLong);
  ASSERT_TRUE(message.has_value());
  EXPECT_EQ(message->header.request, 77U);
}

// Goal: who speaks another version is told so, whoever of the two connects, and costs nothing.
// Method: a stranger whose packets are of another version, more often than links are let in.
// Mutation: a goodbye that is not said, or whose link stays; a hello that is not answered.
TEST(FabricLibfabric, AnotherVersionIsToldSo) {
  const auto there = open_port();
  {
    Stranger newer(there->address());
    newer.speak_another_version();
    constexpr int kTimes = 1100;
    for (int i = 0; i < kTimes; ++i) ASSERT_TRUE(newer.say_hello());
    for (int i = 0; i < kTimes; ++i) {
      const auto answer = newer.wait_for(Kind::kGoodbye);
      ASSERT_TRUE(answer.has_value()) << i;
      ASSERT_EQ(answer->link, Stranger::kName);
    }
  }
  EXPECT_FALSE(there->poll(there->now_us() + 20'000).has_value());
  const auto here = open_port();
  connect(here.get(), there->address());

  Stranger other(there->address());
  other.speak_another_version();
  std::thread answers([&other] {
    ASSERT_TRUE(other.wait_for(Kind::kHello).has_value());
    EXPECT_TRUE(other.say(Kind::kGoodbye, {}));
  });
  const TimeUs begin = here->now_us();
  const auto peer = here->connect(other.address(), begin + kLong);
  answers.join();
  EXPECT_TRUE(peer.status().IsInvalidArgument()) << peer.status().ToString();
  EXPECT_LE(here->now_us() - begin, kLong / 2);
}

// Goal: the provider lets nobody read what is no region, or is none any more, and whoever tries
//   hurts but itself.
TEST(FabricLibfabric, TheProviderRefuses) {
  const auto there = open_port();
  auto region = there->make_region(kBytes, Access::kReadWrite).take();
  const RegionName name = region->name();
  const auto here = open_port();
  const PeerId peer = connect(here.get(), there->address());
  std::vector<std::byte> bytes(64);
  const std::pair<std::uint64_t, std::uint64_t> wrong[] = {
      {name.key + 1, 0}, {name.key, kBytes - 63}, {name.key, ~std::uint64_t{0} - 10}};
  for (const auto& [key, offset] : wrong) {
    Stranger stranger(there->address());
    EXPECT_TRUE(stranger.read(name.key, kBytes - 64));
    EXPECT_FALSE(stranger.read(key, offset));
    EXPECT_TRUE(read(here.get(), peer, name, bytes).ok());
  }
  Stranger stranger(there->address());
  EXPECT_TRUE(stranger.read(name.key, 0));
  region.reset();
  EXPECT_FALSE(stranger.read(name.key, 0));
  EXPECT_TRUE(read(here.get(), peer, name, bytes).IsInvalidArgument());
  EXPECT_FALSE(here->is_gone(peer));
}

// Goal: who sends to somebody that does not poll waits, and what was handed over comes whole and in
//   order when that does.
// Mutation: a window that goes on whatever waits to be polled.
TEST(FabricLibfabric, WhoDoesNotPollIsWaitedFor) {
  const auto here = open_port(), there = open_port();
  const PeerId peer = connect(here.get(), there->address());
  for (const std::size_t size : {0, 100, 50'000, 1 << 20}) {
    SCOPED_TRACE(size);
    const auto payload_of = [&](std::uint64_t i) {
      return std::vector<std::byte>(size, static_cast<std::byte>(i));
    };
    std::uint64_t sent = 0, bytes = 0;
    // On a busy computer one may wait for who takes messages in, and not for who polls.
    const TimeUs until = here->now_us() + kLong;
    while (true) {
      const TimeUs begin = here->now_us();
      const Status status =
          here->send(peer, {.request = sent}, payload_of(sent), here->now_us() + 20'000);
      EXPECT_LE(here->now_us() - begin, 20'000 + kSlackUs);
      if (status.IsTimedOut()) {
        if (bytes > 1U << 20 || here->now_us() > until) break;
        continue;
      }
      ASSERT_TRUE(status.ok()) << status.ToString();
      ++sent;
      bytes += size + kHeaderBytes;
      ASSERT_LE(bytes, 8U << 20);
    }
    EXPECT_GT(bytes, 1U << 20);
    for (std::uint64_t i = 0; i < sent; ++i) {
      const auto arrival = there->poll(there->now_us() + kLong);
      ASSERT_TRUE(arrival.has_value()) << i << " of " << sent;
      ASSERT_EQ(arrival->header.request, i);
      ASSERT_EQ(arrival->payload, payload_of(i));
    }
  }
}

// Goal: owners, threads that stand in for them and peers do not disturb each other.
// Method: three ports that read, write, ask and send to each other, with pauses.
TEST(FabricLibfabric, ConcurrentPorts) {
  constexpr int kPorts = 3, kRounds = 150;
  std::vector<std::unique_ptr<LibfabricPort>> ports;
  std::vector<std::unique_ptr<Region>> regions;
  for (int i = 0; i < kPorts; ++i) {
    ports.push_back(open_port());
    regions.push_back(ports.back()->make_region(kBytes, Access::kReadWrite).take());
  }
  std::atomic<int> echoes = 0;
  const auto run = [&](int self) {
    LibfabricPort* const port = ports[self].get();
    const int other = (self + 1) % kPorts;
    const RegionName region = regions[other]->name();
    const PeerId peer = connect(port, ports[other]->address());
    std::vector<std::byte> out(200), in(200);
    for (int round = 0; round < kRounds; ++round) {
      std::fill(out.begin(), out.end(), static_cast<std::byte>(round));
      ASSERT_TRUE(write(port, peer, region, out).ok());
      ASSERT_TRUE(
          (round % 2 == 0 ? read(port, peer, region, in) : read_twice(port, peer, region, in))
              .ok());
      ASSERT_EQ(in, out);
      ASSERT_TRUE(port->send(peer, {.request = 1}, out, port->now_us() + kLong).ok());
      while (const auto arrival = port->poll(round % 10 == 0 ? port->now_us() + 300 : 0)) {
        echoes += arrival->kind == Arrival::Kind::kMessage ? 1 : 0;
      }
      if (round % 50 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kPorts; ++i) threads.emplace_back(run, i);
  for (std::thread& thread : threads) thread.join();
  for (const auto& port : ports) {
    while (const auto arrival = port->poll(port->now_us() + 20'000)) {
      echoes += arrival->kind == Arrival::Kind::kMessage ? 1 : 0;
    }
  }
  EXPECT_EQ(echoes.load(), kPorts * kRounds);
}

}  // namespace breccia::fabric::libfabric
