#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/random.h"
#include "disagg/bucket.h"
#include "disagg/cluster_map.h"
#include "disagg/coordinator/fixed.h"
#include "disagg/watermark.h"
#include "support/seeds.h"
#include "unit/disagg/sim_cluster.h"

/// What comes from others need not make sense.

namespace breccia::disagg {

namespace {

using namespace testing;
using fabric::TimeUs;
using fabric::sim::Net;

constexpr TimeUs kLong = 10'000'000;
constexpr std::uint8_t kKinds = 26;  // more than there are
constexpr std::uint64_t kTableLines = 5;
constexpr std::uint64_t kMirrorBytes = PoolImage::kChunkLines * kLineBytes;

/// Bytes that are a payload here and there: lengths and numbers that are small, or all ones.
std::vector<std::byte> draw_payload(base::Random* random) {
  WireWriter writer;
  for (std::uint64_t n = random->below(8); n > 0; --n) {
    switch (random->below(6)) {
      case 0:
        writer.add(random->next());
        break;
      case 1:
        writer.add(random->below(4));
        break;
      case 2:
        writer.add(static_cast<std::uint32_t>(random->below(100)));
        break;
      case 3:
        writer.add_bytes(std::string(random->below(40), 'k'));
        break;
      case 4:
        writer.add(~std::uint64_t{0} >> random->below(64));
        break;
      default:
        writer.add(static_cast<std::uint8_t>(random->below(6)));
        break;
    }
  }
  std::vector<std::byte> bytes = writer.bytes();
  if (!bytes.empty() && random->one_in(4)) bytes.resize(random->below(bytes.size()));
  return bytes;
}

/// Which blocks are in use, with contents by chance.
void add_use(base::Random* random, WireWriter* writer) {
  writer->add(UseHead{.region = {.key = random->below(4), .base = 0, .bytes = kMirrorBytes},
                      .next = 1 + random->below(2)});
  PoolImage::Chunk chunk{
      .size_class = static_cast<std::uint32_t>(random->below(60)), .is_used = {}, .used = 0};
  chunk.is_used.resize(chunk.size_class < kSizeClasses ? PoolImage::blocks_of(chunk.size_class)
                                                       : random->below(100));
  for (std::uint64_t n = random->below(9); n > 0 && !chunk.is_used.empty(); --n) {
    chunk.is_used[random->below(chunk.is_used.size())] = true;
  }
  const std::uint64_t number = random->below(8) == 0 ? random->next() >> random->below(64) : 0;
  add_chunk(number, chunk, writer);
}

/// An answer of the right shape, with contents by chance.
std::vector<std::byte> draw_answer(Ask ask, base::Random* random) {
  const auto any_word = [random] {
    return random->one_in(2) ? random->below(8) : random->next() >> random->below(64);
  };
  const auto any_slot = [&] {
    return std::uint64_t{random->below(64)} << 46 | random->below(2) << 38 | any_word() % 100'000;
  };
  const auto any_region = [&] {
    return fabric::RegionName{.key = random->below(4), .base = 0, .bytes = 64 * random->below(40)};
  };
  WireWriter writer;
  writer.add(Code::kOk);
  switch (ask) {
    case Ask::kTable:
      writer.add(TableInfo{
          .region = {.key = 1, .base = 0, .bytes = kTableLines * kLineBytes},
          .shape = {.bucket_bits = static_cast<std::uint32_t>(random->below(3)), .buckets = 4},
          .seeds = {},
          .read_us = 1000,
          .rest_us = 1000 + random->below(1000)});
      break;
    case Ask::kPool:
      writer.add(PoolInfo{.region = any_region(), .node = random->below(8) == 0 ? any_word() : 0});
      break;
    case Ask::kFollow:
      writer.add(Followed{.through = any_word(), .is_whole = random->below(2)});
      for (std::uint64_t n = random->below(4); n > 0; --n) writer.add(any_word()).add(any_slot());
      break;
    case Ask::kValues:
      writer.add(random->one_in(2) ? 0 : any_word()).add(any_word());
      for (std::uint64_t n = random->below(4); n > 0; --n) {
        writer.add(ValueEntry{.id = {}, .slot = any_slot(), .sequence = any_word()});
      }
      break;
    case Ask::kTrust:
      writer.add(Trust{.for_us = any_word(), .is_whole = random->below(2)});
      break;
    case Ask::kScan:
      writer.add(ScanHead{.sequence = any_word(), .for_us = any_word()});
      for (std::uint64_t n = random->below(4); n > 0; --n) writer.add(any_slot());
      break;
    case Ask::kShip:
      writer.add(Logged{.through = any_word()});
      for (std::uint64_t n = random->below(4); n > 0; --n) writer.add(any_slot());
      break;
    case Ask::kKeysBehind:
      for (std::uint64_t n = random->below(4); n > 0; --n) {
        writer.add(any_slot())
            .add_bytes(std::string(1 + random->below(3), 'a' + random->below(26)));
      }
      break;
    case Ask::kLease:
      for (std::uint64_t n = random->below(4); n > 0; --n) writer.add(any_word());
      break;
    case Ask::kUse:
      add_use(random, &writer);
      break;
    default:
      writer.add(any_slot());
      break;
  }
  return writer.bytes();
}

/// Changes of what is in use, as a memory server tells its mirror.
std::vector<std::byte> draw_changes(base::Random* random) {
  WireWriter writer;
  for (std::uint64_t n = random->below(4); n > 0; --n) {
    writer.add(static_cast<std::uint8_t>(random->below(3)))
        .add(static_cast<std::uint32_t>(random->below(60)))
        .add(random->one_in(2) ? random->below(100) : random->next() >> random->below(64));
  }
  return writer.bytes();
}

/// Buckets that are whole, and lead anywhere.
std::unique_ptr<fabric::Region> draw_region(fabric::Port* port, base::Random* random) {
  auto region = port->make_region(kTableLines * kLineBytes, fabric::Access::kReadWrite).take();
  reinterpret_cast<Watermark*>(region->bytes().data())->set(random->below(100));
  auto* const buckets = reinterpret_cast<Bucket*>(region->bytes().data() + sizeof(Watermark));
  for (std::size_t i = 0; i + 1 < kTableLines; ++i) {
    for (Slot& slot : buckets[i].slot) {
      slot = random->one_in(2) ? random->next() : random->next() >> 12 & ~(Slot{3} << 44);
    }
    buckets[i].next = static_cast<std::uint32_t>(random->below(6));
    buckets[i].checksum = buckets[i].sum();
  }
  return region;
}

/// Answers whatever comes with what makes no sense, and asks such things.
void answer_garbage(fabric::Port* port, base::Random* random) {
  std::uint64_t request = 0;
  while (true) {
    const auto arrival = port->poll(port->now_us() + kLong);
    if (!arrival.has_value() || arrival->kind == fabric::Arrival::Kind::kGone) continue;
    if ((arrival->header.kind & kAnswerBit) != 0) continue;
    std::vector<std::byte> answer =
        random->below(4) == 0 ? draw_payload(random)
                              : draw_answer(static_cast<Ask>(arrival->header.kind), random);
    fabric::Header header = arrival->header;
    header.kind |= kAnswerBit;
    (void)port->send(arrival->peer, header, answer, port->now_us() + kLong);
    header = {.kind = static_cast<std::uint8_t>(Ask::kKeep), .epoch = 1, .request = ++request};
    (void)port->send(arrival->peer, header, draw_changes(random), port->now_us() + kLong);
  }
}

/// A mirror of the map's memory server, which serves for a while. Whether it came to have all.
bool serve_mirror(fabric::Port* port, const ClusterMap& map, TimeUs until) {
  MemoryServer::Options options;
  options.member = "mirror";
  options.bytes = kMirrorBytes;
  options.again_us = 300;
  const auto server = MemoryServer::make(port, options).take();
  ClusterMap with_mirror = map;
  with_mirror.memory.front().mirror = {
      .member = "mirror", .address = "", .written_by = 1, .is_whole = false};
  EXPECT_TRUE(server->follow(with_mirror).ok());
  server->serve(until);
  return server->mirror()->is_whole();
}

/// A hash server that is built from the ordered one, or from memory servers. It may see that
/// something is wrong.
void serve_hash(fabric::Port* port, ClusterMap map, bool from_memory, TimeUs until) {
  HashServer::Options options;
  options.table.bucket_bits = 1;
  options.table.makes_aside = false;
  options.again_us = 300;
  auto server = HashServer::make(port, options);
  ASSERT_TRUE(server.ok());
  if (from_memory) {
    server.value()->begin_from_memory();
    map.shards[0].hash.is_whole = false;
    map.shards[0].ordered = {};
  }
  ASSERT_TRUE(server.value()->follow(map, 0).ok());
  server.value()->trust_until(kLong);
  (void)server.value()->serve(until);
}

}  // namespace

// Goal: no question ends a server by an assertion, or holds it up.
// Method: questions of all kinds whose payloads make sense in part, to all servers of a cluster.
TEST(DisaggGarbage, QuestionsToServers) {
  set_log_level(LogLevel::kError);
  for (const std::uint64_t seed : breccia::testing::seeds_to_run(400)) {
    SCOPED_TRACE(breccia::testing::replay_command(seed));
    SimCluster cluster(seed, fabric::sim::Weather(),
                       {.memory_servers = 2,
                        .copies = static_cast<std::uint32_t>(1 + seed % 2),
                        .session_us = 20'000});
    Net& net = cluster.net();
    const Net::Node node = net.add_node();
    net.start(node, [&] {
      const auto coordinator = cluster.meet_coordinator(node);
      ClusterMap map;
      while (map.memory.empty() || map.shards.empty() || !map.shards[0].has_begun) {
        net.sleep(300);
        const Coordinator::View* const view = coordinator->it.look();
        if (view != nullptr) map = ClusterMap::decode(view->document).take();
      }
      const auto port = net.open(node);
      std::vector<fabric::PeerId> peers;
      std::vector<std::string> addresses = {
          map.shards[0].hash.address, map.shards[0].ordered.address, map.memory.front().address,
          cluster.coordinator_address()};
      const std::string& mirror = map.memory.front().mirror.address;
      if (!mirror.empty()) addresses.push_back(mirror);
      for (const std::string& address : addresses) {
        peers.push_back(port->connect(address, cluster.late()).take());
      }
      base::Random random(seed);
      for (std::uint64_t i = 1; i < 200; ++i) {
        const fabric::Header header{.kind = static_cast<std::uint8_t>(random.below(kKinds)),
                                    .epoch = map.epoch + random.one_in(4),
                                    .request = i};
        const auto peer = peers[random.below(peers.size())];
        (void)port->send(peer, header, draw_payload(&random), cluster.late());
        while (port->poll(net.now_us() + random.below(50)).has_value()) continue;
      }
    });
    cluster.run();
  }
}

// Goal: no answer ends who asked by an assertion, and each ends by its time.
// Method: a hash server, a mirror and a client among peers that answer what makes no sense.
TEST(DisaggGarbage, AnswersToAskers) {
  set_log_level(LogLevel::kError);
  std::uint64_t opened = 0, copied = 0, runs = 0;
  for (const std::uint64_t seed : breccia::testing::seeds_to_run(400)) {
    SCOPED_TRACE(breccia::testing::replay_command(seed));
    Net net(seed, fabric::sim::Weather());
    base::Random random(seed);
    std::vector<std::unique_ptr<fabric::Port>> ports;
    const auto open = [&](Net::Node node) {
      ports.push_back(net.open(node));
      return ports.back().get();
    };
    const Net::Node liars = net.add_node();
    net.let_serve(liars);
    std::vector<std::string> addresses;
    std::vector<std::unique_ptr<fabric::Region>> regions;
    for (int i = 0; i < 3; ++i) {
      fabric::Port* const port = open(liars);
      addresses.push_back(port->address());
      regions.push_back(draw_region(port, &random));
      net.start(liars, [port, &random] { answer_garbage(port, &random); });
    }
    const ClusterMap map{.epoch = 1,
                         .shards = {{.has_begun = true,
                                     .hash = {"h", addresses[0], /*is_whole=*/true},
                                     .ordered = {"o", addresses[1], /*is_whole=*/true}}},
                         .memory = {{.node = 0, .member = "m", .address = addresses[2]}}};
    const Net::Node node = net.add_node();
    fabric::Port* const of_hash = open(node);
    net.start(node,
              [&, of_hash] { serve_hash(of_hash, map, random.one_in(2), net.now_us() + 20'000); });
    fabric::Port* const of_mirror = open(node);
    net.start(node, [&, of_mirror] {
      if (serve_mirror(of_mirror, map, net.now_us() + 20'000)) ++copied;
    });
    fabric::Port* const of_client = open(node);
    net.start(node, [&, of_client] {
      FixedCoordinator coordinator(map.encode());
      ClientOptions options;
      options.seed = seed + 1;
      options.try_us = 1000;
      options.ask_again_us = 300;
      auto client = Client::open(of_client, &coordinator, options, net.now_us() + 20'000);
      EXPECT_LE(net.now_us(), 21'000U);
      ++runs;
      if (!client.ok()) return;
      ++opened;
      std::string value;
      (void)client.value()->get("key", &value, net.now_us() + 5000);
      (void)client.value()->put("key", "value", net.now_us() + 5000);
      std::vector<std::pair<std::string, std::string>> found;
      (void)client.value()->scan("", "", 10, &found, net.now_us() + 5000);
    });
    net.run();
  }
  EXPECT_TRUE((opened > 0 && copied > 0) || runs < 20);
}

// Goal: what the coordinator has need not be a map.
TEST(DisaggGarbage, Maps) {
  const ClusterMap map{
      .epoch = 7,
      .placement_seed = {.start = 11, .factor = ~std::uint64_t{0}},
      .shards =
          {{.has_begun = true,
            .hash = {.member = "h", .address = "a", .is_whole = true},
            .ordered = {.member = "o", .address = "b", .is_whole = false}},
           {.has_begun = false,
            .hash = {.member = "i",
                     .address = "f",
                     .is_whole = true,
                     .process = "x",
                     .given_by = "j",
                     .heir = {.member = "k", .address = "g", .process = "y", .may_take = true}},
            .ordered = {}}},
      .memory = {{.node = 3, .member = "m", .address = "c", .is_lost = true},
                 {.node = 5,
                  .member = "n",
                  .address = "d",
                  .bytes = 1 << 20,
                  .is_lost = false,
                  .mirror = {.member = "p", .address = "e", .written_by = 1, .is_whole = false}}}};
  const std::string good = map.encode();
  ASSERT_TRUE(ClusterMap::decode(good).ok());
  EXPECT_EQ(ClusterMap::decode(good).value(), map);
  EXPECT_EQ(ClusterMap::decode("").value(), ClusterMap());
  base::Random random(breccia::testing::seeds_to_run(1).front());
  for (std::uint64_t i = 0; i < breccia::testing::share_of(20'000); ++i) {
    std::string other = good;
    for (std::uint64_t n = 1 + random.below(4); n > 0; --n) {
      const std::size_t at = random.below(other.size());
      const auto byte = static_cast<char>(random.next());
      random.one_in(2) ? void(other[at] = byte) : void(other.erase(at, 1 + random.below(8)));
      if (other.empty()) other = "{";
    }
    const auto decoded = ClusterMap::decode(other);
    if (!decoded.ok()) {
      const bool is_known = decoded.status().IsCorruption() || decoded.status().IsNotSupported();
      ASSERT_TRUE(is_known) << other;
      continue;
    }
    for (const auto& one : decoded.value().memory) ASSERT_LT(one.node, kNodesMax);
    ASSERT_LE(decoded.value().shards.size(), kShardsMax);
  }
}

}  // namespace breccia::disagg
