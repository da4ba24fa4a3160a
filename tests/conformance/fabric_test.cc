#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "conformance/fabric_worlds.h"
#include "support/seeds.h"

/// What a port promises, on each network (fabric/port.h).

namespace breccia::fabric::testing {

namespace {

constexpr TimeUs kLong = 10'000'000;
constexpr std::uint64_t kBytes = 1 << 16;

/// What tests of a network say to each other.
enum Kinds : std::uint8_t { kRegion = 1, kEcho, kEnd, kCount };

std::span<const std::byte> bytes_of(const RegionName& name) {
  return std::as_bytes(std::span(&name, 1));
}

RegionName name_of(const Arrival& arrival) {
  RegionName name;
  EXPECT_EQ(arrival.payload.size(), sizeof name);
  std::memcpy(&name, arrival.payload.data(), sizeof name);
  return name;
}

/// Tells each that asks of a region, and ends when so many have said so.
void serve(Port* port, const RegionName& name, int clients) {
  for (int ended = 0; ended < clients;) {
    const auto arrival = port->poll(port->now_us() + kLong);
    ASSERT_TRUE(arrival.has_value());
    if (arrival->kind == Arrival::Kind::kGone) continue;
    const Header header = arrival->header;
    if (header.kind == kRegion) {
      ASSERT_TRUE(port->send(arrival->peer, header, bytes_of(name), port->now_us() + kLong).ok());
    } else if (header.kind == kEcho) {
      ASSERT_TRUE(port->send(arrival->peer, header, arrival->payload, port->now_us() + kLong).ok());
    } else {
      ASSERT_EQ(header.kind, kEnd);
      ++ended;
    }
  }
}

PeerId connect(Port* port, const std::string& address) {
  auto peer = port->connect(address, port->now_us() + kLong);
  EXPECT_TRUE(peer.ok()) << peer.status().ToString();
  return peer.ok() ? peer.value() : 0;
}

Arrival next(Port* port) {
  auto arrival = port->poll(port->now_us() + kLong);
  EXPECT_TRUE(arrival.has_value());
  return arrival.value_or(Arrival{});
}

/// A connection of before may have gone.
RegionName ask_for_region(Port* port, PeerId peer) {
  EXPECT_TRUE(port->send(peer, {.kind = kRegion}, {}, port->now_us() + kLong).ok());
  Arrival arrival = next(port);
  while (arrival.kind == Arrival::Kind::kGone && arrival.peer != peer) arrival = next(port);
  return name_of(arrival);
}

void say_end(Port* port, PeerId peer) {
  EXPECT_TRUE(port->send(peer, {.kind = kEnd}, {}, port->now_us() + kLong).ok());
}

class FabricConformance : public ::testing::TestWithParam<Kind> {
 protected:
  void run(const std::function<void(World*)>& test) {
    for (const std::uint64_t seed : breccia::testing::seeds_to_run(GetParam().seeds)) {
      SCOPED_TRACE(breccia::testing::replay_command(seed));
      test(GetParam().make(seed).get());
      if (HasFailure()) return;
    }
  }
};

}  // namespace

// Goal: what one writes into memory of another everybody reads there, of all sizes and at all
//   places.
TEST_P(FabricConformance, WritesAreRead) {
  run([](World* world) {
    const auto server = [](Port* port) {
      auto region = port->make_region(kBytes, Access::kReadWrite);
      ASSERT_TRUE(region.ok());
      ASSERT_EQ(region.value()->bytes().size(), kBytes);
      serve(port, region.value()->name(), 1);
      EXPECT_EQ(region.value()->bytes()[kBytes - 1], std::byte{99});
    };
    const auto client = [world](Port* port) {
      const PeerId peer = connect(port, world->address(0));
      const RegionName name = ask_for_region(port, peer);
      for (const std::uint64_t bytes : {1, 7, 8, 9, 63, 64, 65, 4096, 20'000}) {
        std::vector<std::byte> out(bytes), in(bytes);
        for (std::uint64_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>(i + bytes);
        const std::uint64_t offset = (bytes * 37) % (kBytes - bytes);
        const Write write{name, offset, out};
        ASSERT_TRUE(port->write(peer, {&write, 1}, port->now_us() + kLong).ok());
        const Read read{name, offset, in};
        ASSERT_TRUE(port->read(peer, {&read, 1}, port->now_us() + kLong).ok());
        EXPECT_EQ(in, out);
      }
      const std::byte last{99};
      const Write write{name, kBytes - 1, {&last, 1}};
      ASSERT_TRUE(port->write(peer, {&write, 1}, port->now_us() + kLong).ok());
      say_end(port, peer);
    };
    world->run({server, client});
  });
}

// Goal: many reads in one call are all done, into where each was to go.
TEST_P(FabricConformance, ManyReadsAtOnce) {
  run([](World* world) {
    const auto server = [](Port* port) {
      auto region = port->make_region(kBytes, Access::kRead);
      ASSERT_TRUE(region.ok());
      for (std::uint64_t i = 0; i < kBytes; ++i) {
        region.value()->bytes()[i] = static_cast<std::byte>(i / 64);
      }
      serve(port, region.value()->name(), 1);
    };
    const auto client = [world](Port* port) {
      const PeerId peer = connect(port, world->address(0));
      const RegionName name = ask_for_region(port, peer);
      for (const std::size_t count : {1, 2, 64, 300}) {
        std::vector<std::byte> lines(64 * count);
        std::vector<Read> reads;
        for (std::size_t i = 0; i < count; ++i) {
          reads.push_back({name, (i * 7 % 1024) * 64, std::span(lines).subspan(64 * i, 64)});
        }
        ASSERT_TRUE(port->read(peer, reads, port->now_us() + kLong).ok());
        for (std::size_t i = 0; i < lines.size(); ++i) {
          ASSERT_EQ(lines[i], static_cast<std::byte>(i / 64 * 7 % 1024)) << i;
        }
      }
      say_end(port, peer);
    };
    world->run({server, client});
  });
}

// Goal: reads of one call are each of their own region, in whichever order these come.
// Method: two regions of one peer, one after the other, and twice the same; at last a place that
//   one of them does not have.
// Mutation: all are read of the first one's; bounds of another region.
TEST_P(FabricConformance, SeveralRegionsAtOnce) {
  run([](World* world) {
    const auto server = [](Port* port) {
      auto one = port->make_region(kBytes, Access::kRead);
      auto other = port->make_region(kBytes / 2, Access::kRead);
      ASSERT_TRUE(one.ok() && other.ok());
      std::fill_n(one.value()->bytes().begin(), kBytes, std::byte{1});
      std::fill_n(other.value()->bytes().begin(), kBytes / 2, std::byte{2});
      serve(port, one.value()->name(), 1);
      serve(port, other.value()->name(), 1);
    };
    const auto client = [world](Port* port) {
      const PeerId peer = connect(port, world->address(0));
      const RegionName one = ask_for_region(port, peer);
      say_end(port, peer);
      const RegionName other = ask_for_region(port, peer);
      std::vector<std::byte> lines(64 * 5);
      const auto line = [&](std::size_t i) { return std::span(lines).subspan(64 * i, 64); };
      std::vector<Read> reads = {{one, 0, line(0)},
                                 {other, 64, line(1)},
                                 {one, kBytes - 64, line(2)},
                                 {one, 128, line(3)},
                                 {other, 0, line(4)}};
      ASSERT_TRUE(port->read(peer, reads, port->now_us() + kLong).ok());
      const std::vector<std::byte> first = {std::byte{1}, std::byte{2}, std::byte{1}, std::byte{1},
                                            std::byte{2}};
      for (std::size_t i = 0; i < lines.size(); ++i) ASSERT_EQ(lines[i], first[i / 64]) << i;
      reads[1].offset = kBytes - 64;
      EXPECT_TRUE(port->read(peer, reads, port->now_us() + kLong).IsInvalidArgument());
      say_end(port, port->is_gone(peer) ? connect(port, world->address(0)) : peer);
    };
    world->run({server, client});
  });
}

// Goal: many writes of one call are all there when it is over, small ones and large ones, those of
//   the last place of a region, too; one that is refused makes all of it an error.
// Mutation: writes that are left out where they do not fit into one message; a call that is over
//   before they are there; a region that is to be read alone.
TEST_P(FabricConformance, ManyWritesAtOnce) {
  run([](World* world) {
    const auto server = [](Port* port) {
      auto region = port->make_region(kBytes, Access::kReadWrite);
      ASSERT_TRUE(region.ok());
      serve(port, region.value()->name(), 1);
    };
    const auto client = [world](Port* port) {
      const PeerId peer = connect(port, world->address(0));
      const RegionName name = ask_for_region(port, peer);
      std::vector<std::byte> expected(kBytes);
      ASSERT_TRUE(
          port->read(peer, std::array{Read{name, 0, expected}}, port->now_us() + kLong).ok());
      std::vector<std::vector<std::byte>> from;
      std::vector<Write> writes;
      std::uint64_t offset = 1;
      for (std::size_t i = 0; offset + 20'000 < kBytes; ++i) {
        const std::size_t bytes = i % 50 == 49 ? 20'000 : 1 + i * 7 % 400;
        from.emplace_back(bytes, static_cast<std::byte>(i));
        std::copy(from.back().begin(), from.back().end(),
                  expected.begin() + static_cast<std::ptrdiff_t>(offset));
        writes.push_back({name, offset, {}});
        offset += bytes + i % 3;
      }
      from.emplace_back(1, std::byte{77});
      writes.push_back({name, kBytes - 1, {}});
      expected.back() = std::byte{77};
      for (std::size_t i = 0; i < writes.size(); ++i) writes[i].from = from[i];
      ASSERT_TRUE(port->write(peer, writes, port->now_us() + kLong).ok());
      std::vector<std::byte> found(kBytes);
      ASSERT_TRUE(port->read(peer, std::array{Read{name, 0, found}}, port->now_us() + kLong).ok());
      EXPECT_EQ(found, expected);
      const PeerId other = connect(port, world->address(0));  // which may be gone by that
      const std::array two = {Write{name, 0, from.back()}, Write{name, kBytes, from.back()}};
      EXPECT_FALSE(port->write(other, two, port->now_us() + kLong).ok());
      say_end(port, peer);
    };
    world->run({server, client});
  });
}

// Goal: what is read of several peers, and written to them, in one call is all done, each with whom
//   it is of; if one of them is gone the call says so of that one, and the others are read.
// Mutation: all of the first peer; a peer that is left out; one that is gone, and is waited for.
TEST_P(FabricConformance, SeveralPeersAtOnce) {
  run([](World* world) {
    const auto serve_own = [](std::uint64_t own) {
      return [own](Port* port) {
        auto region = port->make_region(kBytes, Access::kReadWrite);
        ASSERT_TRUE(region.ok());
        std::fill_n(region.value()->bytes().begin(), kBytes / 2, static_cast<std::byte>(own));
        serve(port, region.value()->name(), 1);
      };
    };
    const auto client = [world](Port* port) {
      std::vector<PeerId> peers;
      std::vector<RegionName> names;
      for (const int i : {0, 1}) {
        peers.push_back(connect(port, world->address(i)));
        names.push_back(ask_for_region(port, peers.back()));
      }
      for (const std::size_t bytes : {64, 20'000}) {
        std::vector<std::byte> out(bytes, std::byte{7});
        std::vector<std::vector<std::byte>> in(8, std::vector<std::byte>(bytes));
        std::vector<std::vector<Read>> reads(2);
        std::vector<std::vector<Write>> writes(2);
        for (std::size_t i = 0; i < in.size(); ++i) {
          const std::uint64_t offset = i % 4 < 2 ? 0 : kBytes / 2;
          reads[i % 2].push_back({names[i % 2], offset, in[i]});
        }
        for (const std::size_t i : {0U, 1U}) writes[i].push_back({names[i], kBytes / 2, out});
        std::vector<WritesTo> to = {{peers[0], writes[0]}, {peers[1], writes[1]}};
        port->write_all(to, port->now_us() + kLong);
        for (const WritesTo& peer : to) ASSERT_TRUE(peer.status.ok());
        std::vector<ReadsOf> of = {{peers[0], reads[0]}, {peers[1], reads[1]}};
        port->read_all(of, port->now_us() + kLong);
        for (const ReadsOf& peer : of) ASSERT_TRUE(peer.status.ok());
        for (std::size_t i = 0; i < in.size(); ++i) {
          const auto expected = i % 4 < 2 ? static_cast<std::byte>(1 + i % 2) : std::byte{7};
          EXPECT_EQ(in[i], std::vector<std::byte>(bytes, expected)) << i;
        }
      }
      const PeerId gone = connect(port, world->address(0));
      port->disconnect(gone);
      std::byte one{0};
      const Read read{names[0], 0, {&one, 1}}, other{names[1], 0, {&one, 1}};
      std::vector<ReadsOf> of = {{gone, {&read, 1}}, {peers[1], {&other, 1}}};
      port->read_all(of, port->now_us() + kLong);
      EXPECT_TRUE(of[0].status.IsIOError());
      EXPECT_TRUE(of[1].status.ok());
      EXPECT_EQ(one, std::byte{2});
      for (const PeerId peer : peers) say_end(port, peer);
    };
    world->run({serve_own(1), serve_own(2), client});
  });
}

// Goal: of several peers of one call one that has died takes nothing from the others: these are
//   read, and written to, within the time that all have, and the call ends by then.
// Method: three peers, the second of which dies while it is read; then once more.
// Mutation: peers one behind the other, all of whose time the dead one takes (Sim); one status for
//   all of them.
TEST_P(FabricConformance, OneOfSeveralPeersDies) {
  constexpr std::size_t kPeers = 3, kVictim = 1;
  constexpr TimeUs kTime = 1'000'000, kLate = 500'000;
  run([=](World* world) {
    const auto serve_own = [=](std::uint64_t own) {
      return [=](Port* port) {
        auto region = port->make_region(kBytes, Access::kReadWrite);
        ASSERT_TRUE(region.ok());
        std::ranges::fill(region.value()->bytes(), static_cast<std::byte>(1 + own));
        serve(port, region.value()->name(), 1);
        if (own != kVictim) return;
        world->sleep(1000);
        region.value().reset();
        world->die(own);
      };
    };
    const auto client = [=](Port* port) {
      std::vector<PeerId> peers;
      std::vector<RegionName> names;
      for (std::size_t i = 0; i < kPeers; ++i) {
        peers.push_back(connect(port, world->address(i)));
        names.push_back(ask_for_region(port, peers.back()));
      }
      say_end(port, peers[kVictim]);
      const TimeUs give_up = port->now_us() + kLong;
      for (int without = 0; without < 2;) {
        ASSERT_LT(port->now_us(), give_up);
        std::array<std::vector<std::byte>, kPeers> in;
        std::vector<Read> reads;
        std::vector<Write> writes;
        std::vector<ReadsOf> of;
        std::vector<WritesTo> to;
        for (std::size_t i = 0; i < kPeers; ++i) {
          in[i].assign(64, std::byte{0});
          reads.push_back({names[i], 0, in[i]});
          writes.push_back({names[i], 128, in[i]});
        }
        for (std::size_t i = 0; i < kPeers; ++i) {
          of.push_back({peers[i], {&reads[i], 1}});
          to.push_back({peers[i], {&writes[i], 1}});
        }
        const TimeUs begin = port->now_us();
        port->read_all(of, begin + kTime);
        EXPECT_LE(port->now_us(), begin + kTime + kLate);
        for (const std::size_t i : {0U, 2U}) {
          ASSERT_TRUE(of[i].status.ok()) << of[i].status.ToString();
          ASSERT_EQ(in[i], std::vector<std::byte>(64, static_cast<std::byte>(1 + i)));
        }
        const TimeUs then = port->now_us();
        port->write_all(to, then + kTime);
        EXPECT_LE(port->now_us(), then + kTime + kLate);
        for (const std::size_t i : {0U, 2U}) {
          ASSERT_TRUE(to[i].status.ok()) << to[i].status.ToString();
        }
        if (!of[kVictim].status.ok()) {
          EXPECT_FALSE(to[kVictim].status.ok());
          ++without;
        }
      }
      for (const std::size_t i : {0U, 2U}) say_end(port, peers[i]);
    };
    world->run({serve_own(0), serve_own(1), serve_own(2), client});
  });
}

// Goal: messages come whole, in order, from whom they are said to, with what they were sent.
TEST_P(FabricConformance, MessagesComeInOrder) {
  run([](World* world) {
    const auto server = [](Port* port) { serve(port, {}, 3); };
    const auto client = [world](Port* port) {
      const PeerId peer = connect(port, world->address(0));
      const std::vector<std::size_t> sizes = {0, 1, 100, 4096, 70'000, kPayloadMax, 3};
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        const std::vector<std::byte> payload(sizes[i], static_cast<std::byte>(i));
        const Header header{.kind = kEcho, .epoch = 5, .request = i};
        ASSERT_TRUE(port->send(peer, header, payload, port->now_us() + kLong).ok());
      }
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        const Arrival arrival = next(port);
        ASSERT_EQ(arrival.kind, Arrival::Kind::kMessage);
        EXPECT_EQ(arrival.peer, peer);
        EXPECT_EQ(arrival.header, (Header{.kind = kEcho, .epoch = 5, .request = i}));
        ASSERT_EQ(arrival.payload, std::vector<std::byte>(sizes[i], static_cast<std::byte>(i)));
      }
      say_end(port, peer);
    };
    world->run({server, client, client, client});
  });
}

// Goal: nobody reaches what is not let, and who tries is told so; others go on.
// Method: beyond the end, so far that sums overflow, a key that is none, a write where only reads
//   are let, a region that ended.
TEST_P(FabricConformance, NothingElseIsReached) {
  run([](World* world) {
    const auto server = [](Port* port) {
      auto region = port->make_region(kBytes, Access::kRead);
      ASSERT_TRUE(region.ok());
      const RegionName name = region.value()->name();
      serve(port, name, 1);
      region.value().reset();
      serve(port, name, 1);
    };
    const auto client = [world](Port* port) {
      PeerId peer = connect(port, world->address(0));
      const RegionName name = ask_for_region(port, peer);
      std::vector<std::byte> bytes(64);
      const auto reads = [&](const RegionName& of, std::uint64_t offset) {
        if (port->is_gone(peer)) peer = connect(port, world->address(0));
        const Read read{of, offset, bytes};
        return port->read(peer, {&read, 1}, port->now_us() + kLong);
      };
      RegionName other = name;
      other.key += 12345;
      EXPECT_TRUE(reads(other, 0).IsInvalidArgument());
      EXPECT_TRUE(reads(name, kBytes - 63).IsInvalidArgument());
      EXPECT_TRUE(reads(name, kBytes).IsInvalidArgument());
      EXPECT_TRUE(reads(name, ~std::uint64_t{0} - 10).IsInvalidArgument());
      EXPECT_TRUE(reads(name, kBytes - 64).ok());
      if (port->is_gone(peer)) peer = connect(port, world->address(0));
      const Write write{name, 0, bytes};
      EXPECT_TRUE(port->write(peer, {&write, 1}, port->now_us() + kLong).IsInvalidArgument());
      EXPECT_TRUE(reads(name, 0).ok());
      say_end(port, peer);
      // It has ended by the time that the server answers.
      ASSERT_TRUE(port->send(peer, {.kind = kEcho}, {}, port->now_us() + kLong).ok());
      ASSERT_EQ(next(port).kind, Arrival::Kind::kMessage);
      EXPECT_TRUE(reads(name, 0).IsInvalidArgument());
      if (port->is_gone(peer)) peer = connect(port, world->address(0));
      say_end(port, peer);
    };
    world->run({server, client});
  });
}

// Goal: a region that ends under reads and writes ends them: what was read is what lay there, and
//   who read is told, and reads what there is instead.
// Method: single reads, many, large ones, and writes where they are let, until one is refused.
// Mutation: reads over shared memory that are not looked at when they are done; pages that are
//   given back, and can still be read by the provider.
TEST_P(FabricConformance, RegionsEndUnderReads) {
  constexpr int kRegions = 5;
  constexpr std::byte kFull{0x5a};
  run([kFull](World* world) {
    const auto server = [world, kFull](Port* port) {
      for (int i = 0; i < kRegions; ++i) {
        const auto access = i % 2 == 0 ? Access::kRead : Access::kReadWrite;
        auto region = port->make_region(kBytes, access);
        ASSERT_TRUE(region.ok());
        const auto bytes = region.value()->bytes();
        std::fill(bytes.begin(), bytes.end(), kFull);
        serve(port, region.value()->name(), 1);
        world->sleep(static_cast<TimeUs>(i) * 700);
      }
    };
    const auto client = [world, kFull](Port* port) {
      PeerId peer = connect(port, world->address(0));
      std::vector<std::byte> all(kBytes), full(kBytes, kFull);
      for (int i = 0; i < kRegions; ++i) {
        const RegionName name = ask_for_region(port, peer);
        say_end(port, peer);
        const std::vector<std::vector<Read>> kinds = {
            {{name, 8, std::span(all).first(64)}},
            {{name, 0, std::span(all).first(8)}, {name, 16, std::span(all).subspan(8, 999)}},
            {{name, 0, all}}};
        const TimeUs late = port->now_us() + kLong;
        Status status;
        for (std::size_t n = 0; status.ok() && port->now_us() < late; ++n) {
          const std::vector<Read>& reads = kinds[n % kinds.size()];
          std::fill(all.begin(), all.end(), std::byte{});
          status = port->read(peer, reads, late);
          std::size_t bytes = 0;
          for (const Read& read : reads) bytes += read.into.size();
          const auto end = full.begin() + static_cast<std::ptrdiff_t>(bytes);
          ASSERT_TRUE(!status.ok() || std::equal(full.begin(), end, all.begin())) << n;
          const Write write{name, n % 64, std::span(full).first(n % kBytes / 2)};
          if (status.ok() && i % 2 != 0) status = port->write(peer, {&write, 1}, late);
        }
        ASSERT_TRUE(status.IsInvalidArgument() || status.IsIOError()) << status.ToString();
        if (port->is_gone(peer)) peer = connect(port, world->address(0));
        ASSERT_TRUE(port->read(peer, kinds[0], late).IsInvalidArgument());
        if (port->is_gone(peer)) peer = connect(port, world->address(0));
      }
    };
    world->run({server, client});
  });
}

// Goal: each call ends when its time is over, and not before.
TEST_P(FabricConformance, WaitsHaveAnEnd) {
  run([](World* world) {
    const auto alone = [](Port* port) {
      for (const TimeUs wait : {0, 1, 1000, 20'000}) {
        const TimeUs begin = port->now_us();
        EXPECT_FALSE(port->poll(begin + wait).has_value());
        EXPECT_GE(port->now_us() - begin, wait);
        EXPECT_LE(port->now_us() - begin, wait + 10'000);
      }
      const TimeUs begin = port->now_us();
      EXPECT_FALSE(port->connect("nowhere", begin + 1000).ok());
    };
    world->run({alone});
  });
}

// Goal: who was connected hears of an end, and calls fail at once from then on.
TEST_P(FabricConformance, EndsAreTold) {
  run([](World* world) {
    const auto server = [](Port* port) {
      const Arrival first = next(port);
      EXPECT_EQ(first.header.kind, kEcho);
      const Arrival gone = next(port);
      EXPECT_EQ(gone.kind, Arrival::Kind::kGone);
      EXPECT_EQ(gone.peer, first.peer);
      EXPECT_TRUE(port->is_gone(first.peer));
      EXPECT_TRUE(port->send(first.peer, {}, {}, port->now_us() + kLong).IsIOError());
    };
    const auto client = [world](Port* port) {
      const PeerId peer = connect(port, world->address(0));
      ASSERT_TRUE(port->send(peer, {.kind = kEcho}, {}, port->now_us() + kLong).ok());
      world->sleep(10'000);
      port->disconnect(peer);
      EXPECT_TRUE(port->is_gone(peer));
      std::vector<std::byte> bytes(8);
      const Read read{{}, 0, bytes};
      EXPECT_TRUE(port->read(peer, {&read, 1}, port->now_us() + kLong).IsIOError());
    };
    world->run({server, client});
  });
}

INSTANTIATE_TEST_SUITE_P(, FabricConformance, ::testing::ValuesIn(kinds()),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace breccia::fabric::testing
