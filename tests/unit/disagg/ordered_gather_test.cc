#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "disagg/block.h"
#include "disagg/cluster_map.h"
#include "disagg/index/ordered_server.h"
#include "unit/disagg/by_hand.h"

/// How an ordered server reads the keys that it is built of: what of which blocks, and how many at
/// a time. The hash server that tells it where they are, and memory servers, are played by the
/// test.

namespace breccia::disagg {

namespace {

using namespace testing;

constexpr std::uint32_t kEpoch = 7;
constexpr TimeUs kFar = 100'000'000;
const KeySeeds kSeeds{.hash = {.start = 5, .factor = 77}, .proof = {.start = 9, .factor = 1111}};

/// Another port, whose reads of a call come one behind the other, and take so long each.
class SlowReads final : public fabric::Port {
 public:
  struct Call {
    std::size_t reads = 0;
    std::size_t bytes = 0;
    bool was_in_time = false;

    friend bool operator==(const Call&, const Call&) = default;
  };

  SlowReads(Net* net, fabric::Port* port) : net_(net), port_(port) {}

  void read_all(std::span<fabric::ReadsOf> all, TimeUs until) override {
    Call call;
    for (const fabric::ReadsOf& one : all) {
      call.reads += one.reads.size();
      for (const fabric::Read& read : one.reads) call.bytes += read.into.size();
    }
    if (call.reads == 0) return;
    const TimeUs now = now_us();
    const TimeUs takes = each_us * call.reads;
    call.was_in_time = now + takes < until;
    net_->sleep(std::min(takes, until - now));
    if (call.was_in_time) {
      port_->read_all(all, until);
    } else {
      for (fabric::ReadsOf& one : all) one.status = Status::TimedOut("a slow network");
    }
    calls.push_back(call);
  }

  [[nodiscard]] std::string describe() const override { return port_->describe(); }
  [[nodiscard]] std::string address() const override { return port_->address(); }
  [[nodiscard]] TimeUs now_us() const override { return port_->now_us(); }
  Result<std::unique_ptr<fabric::Region>> make_region(std::uint64_t bytes,
                                                      fabric::Access access) override {
    return port_->make_region(bytes, access);
  }
  Result<fabric::PeerId> connect(const std::string& to, TimeUs until) override {
    return port_->connect(to, until);
  }
  [[nodiscard]] bool is_gone(fabric::PeerId peer) const override { return port_->is_gone(peer); }
  void disconnect(fabric::PeerId peer) override { port_->disconnect(peer); }
  Status read(fabric::PeerId peer, std::span<const fabric::Read> reads, TimeUs until) override {
    fabric::ReadsOf one{.peer = peer, .reads = reads};
    read_all({&one, 1}, until);
    return one.status;
  }
  Status write(fabric::PeerId peer, std::span<const fabric::Write> writes, TimeUs until) override {
    return port_->write(peer, writes, until);
  }
  Status send(fabric::PeerId peer, const fabric::Header& header, std::span<const std::byte> payload,
              TimeUs until) override {
    return port_->send(peer, header, payload, until);
  }
  std::optional<fabric::Arrival> poll(TimeUs until) override { return port_->poll(until); }

  TimeUs each_us = 0;
  std::vector<Call> calls;  // that read something

 private:
  Net* const net_;
  fabric::Port* const port_;
};

/// Keys, and where their blocks lie, in turn on so many memory servers.
class Blocks {
 public:
  explicit Blocks(std::uint32_t nodes) : lines_(nodes, 1) {}

  void add(const std::string& key, std::uint64_t value_bytes) {
    const std::string value(value_bytes, 'v');
    const auto node = static_cast<std::uint32_t>(all_.size() % lines_.size());
    const Location block{.node = node,
                         .size_class = class_of(block_bytes(key.size(), value.size())),
                         .line = lines_[node]};
    lines_[node] += lines_of(block.size_class);
    all_.push_back({.key = key, .block = block, .bytes = make_block(++generation_, key, value)});
  }
  /// What lies where the last one's block was is something else by now.
  void replace_last(std::vector<std::byte> by) {
    BRECCIA_ASSERT(by.size() <= all_.back().block.bytes());
    all_.back().bytes = std::move(by);
    all_.back().is_replaced = true;
  }
  [[nodiscard]] std::size_t size() const { return all_.size(); }
  [[nodiscard]] std::uint64_t bytes_of(std::uint32_t node) const {
    return lines_[node] * kLineBytes;
  }
  void write_to(std::uint32_t node, std::span<std::byte> memory) const {
    for (const One& one : all_) {
      if (one.block.node != node) continue;
      std::ranges::copy(one.bytes,
                        memory.begin() + static_cast<std::ptrdiff_t>(one.block.offset()));
    }
  }
  [[nodiscard]] ChainEntry entry(std::size_t i) const {
    return {.id = kSeeds.id_of(all_[i].key), .slot = slot_of(0, all_[i].block)};
  }
  /// Bytes of the block, and of the key that is said to be there.
  [[nodiscard]] std::uint64_t block_bytes_of(std::size_t i) const { return all_[i].block.bytes(); }
  [[nodiscard]] std::size_t key_bytes_of(std::size_t i) const { return all_[i].key.size(); }
  /// What the index is to have.
  [[nodiscard]] std::vector<std::pair<std::string, Slot>> in_order() const {
    std::vector<std::pair<std::string, Slot>> keys;
    for (const One& one : all_) {
      if (!one.is_replaced) keys.emplace_back(one.key, slot_of(0, one.block));
    }
    std::ranges::sort(keys);
    return keys;
  }

 private:
  struct One {
    std::string key;
    Location block;
    std::vector<std::byte> bytes;
    bool is_replaced = false;
  };
  std::vector<std::uint64_t> lines_;  // that are taken, of each server
  std::uint32_t generation_ = 0;
  std::vector<One> all_;
};

/// A server that has them in its memory.
class MemoryOf {
 public:
  MemoryOf(fabric::Port* port, std::uint32_t node, const Blocks& blocks)
      : port_(port),
        node_(node),
        region_(port->make_region(blocks.bytes_of(node), fabric::Access::kReadWrite).take()),
        answers_(port) {
    blocks.write_to(node, region_->bytes());
  }
  void serve(TimeUs until) {
    const auto answer = [this](Ask ask, const WireReader& /*question*/) {
      EXPECT_EQ(ask, Ask::kPool);
      ++met;
      return answer_of(Code::kOk).add(PoolInfo{.region = region_->name(), .node = node_});
    };
    answer_all(port_, &answers_, answer, until);
  }
  int met = 0;

 private:
  fabric::Port* const port_;
  const std::uint32_t node_;
  const std::unique_ptr<fabric::Region> region_;
  Answers answers_;
};

bool serve_once(MemoryOf* server, TimeUs until) {
  server->serve(until);
  return true;
}

Served<MemoryOf> serve_memory_of(Net* net, std::uint32_t node, const Blocks& blocks) {
  return serve<MemoryOf>(net, [node, &blocks](fabric::Port* port) {
    return std::make_unique<MemoryOf>(port, node, blocks);
  });
}

struct Watched {
  Watched(Net* net, fabric::Port* port, const OrderedServer::Options& options)
      : reads(net, port), server(&reads, options) {}
  SlowReads reads;
  OrderedServer server;
};

bool serve_once(Watched* one, TimeUs until) { return testing::serve_once(&one->server, until); }

ClusterMap map_of(const std::vector<Served<MemoryOf>>& memory) {
  ClusterMap map{.epoch = kEpoch, .shards = {{.has_begun = true}}};
  for (std::uint32_t node = 0; node < memory.size(); ++node) {
    map.memory.push_back(
        {.node = node, .member = "m" + std::to_string(node), .address = memory[node].address});
  }
  return map;
}

/// An ordered server that is built of them by the test.
class Build {
 public:
  Build(Net* net, const Blocks& blocks, const ClusterMap& map, OrderedServer::Options options)
      : net_(net), blocks_(blocks), hand_(net) {
    options.sorts_aside = false;
    watched_ = serve<Watched>(net, [net, &map, &options](fabric::Port* port) {
      auto made = std::make_unique<Watched>(net, port, options);
      EXPECT_TRUE(made->server.follow(map, 0).ok());
      made->server.trust_until(kFar);
      return made;
    });
    to_server_ = hand_.meet(watched_.address);
    const Follow follow{.from = 0, .is_whole = 1, .seeds = kSeeds};
    const std::uint64_t request =
        hand_.put(to_server_, Ask::kFollow, kEpoch, WireWriter().add(follow));
    EXPECT_EQ(hand_.code_of(request), Code::kOk);
  }
  [[nodiscard]] SlowReads& reads() { return watched_.server->reads; }
  [[nodiscard]] Net::Node node() const { return watched_.node; }
  [[nodiscard]] bool is_whole() const { return watched_.server->server.is_whole(); }
  /// Tells where keys are, so many at a time, until the index is whole, or for so long.
  void go_on(TimeUs within_us, std::size_t told_at_once) {
    const TimeUs until = net_->now_us() + within_us;
    while (!is_whole() && net_->now_us() < until) {
      const auto question = hand_.question();
      if (!question.has_value()) continue;
      ASSERT_EQ(question->header.kind, static_cast<std::uint8_t>(Ask::kChains));
      const auto first = WireReader(question->payload).take<std::uint64_t>();
      const std::uint64_t end = std::min(first + told_at_once, blocks_.size());
      WireWriter answer = answer_of(Code::kOk);
      answer.add(end < blocks_.size() ? end : 0);
      for (std::uint64_t i = first; i < end; ++i) answer.add(blocks_.entry(i));
      hand_.answer(*question, answer);
    }
  }
  void expect_all() {
    ASSERT_TRUE(is_whole());
    const auto expected = blocks_.in_order();
    std::vector<std::pair<std::string, Slot>> found;
    for (bool is_more = true; is_more;) {
      const std::string last = found.empty() ? "" : found.back().first;
      const auto answer = hand_.answer_to(
          hand_.put(to_server_, Ask::kKeysBehind, kEpoch, WireWriter().add_bytes(last)));
      WireReader reader(answer);
      ASSERT_EQ(reader.take<Code>(), Code::kOk);
      is_more = reader.left() > 0;
      while (reader.left() > 0) {
        const auto slot = reader.take<Slot>();
        found.emplace_back(reader.take_bytes().ToString(), slot);
      }
    }
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], expected[i]) << i;
  }

 private:
  Net* const net_;
  const Blocks& blocks_;
  Hand hand_;
  Served<Watched> watched_;
  fabric::PeerId to_server_ = 0;
};

/// The same each time.
std::string some_key(std::uint64_t number, std::size_t bytes) {
  base::Random random(number);
  std::string key(bytes, 'k');
  for (char& one : key) one = static_cast<char>(random.below(256));
  return key;
}

}  // namespace

// Goal: of how many keys blocks are read in a turn is halved where the network has no time for
//   them, until it has, so that the index gets whole; and doubled behind turns that it had time
//   for, so that as many as ever are read when it is fast again.
// Method: the network has time for 2,500 reads, and for any number behind a while. 48,000 keys are
//   told, 12,000 at a time, with a key in ten that takes another read.
// Mutation: a turn that is not halved (the index never gets whole), or not doubled, or beyond what
//   was set; keys of a turn that failed that are left out, or come twice.
TEST(DisaggOrderedGather, TurnsAreHalvedAndGrowAgain) {
  run_by_hand([](Net* net) {
    constexpr std::size_t kKeys = 48'000, kTold = 12'000, kAtOnce = 8000, kInTime = 2500;
    Blocks blocks(2);
    for (std::uint64_t i = 0; i < kKeys; ++i) blocks.add(some_key(i, i % 10 == 0 ? 100 : 12), 50);
    const std::vector<Served<MemoryOf>> memory = {serve_memory_of(net, 0, blocks),
                                                  serve_memory_of(net, 1, blocks)};
    const OrderedServer::Options options;
    ASSERT_EQ(options.keys_at_once, kAtOnce);
    Build build(net, blocks, map_of(memory), options);
    std::vector<SlowReads::Call>& calls = build.reads().calls;
    build.reads().each_us = options.read_us / 2 / kInTime;  // a mirror would have as long
    const auto count_read = [&calls] {
      std::size_t reads = 0;
      for (const SlowReads::Call& call : calls) reads += call.was_in_time ? call.reads : 0;
      return reads;
    };
    const TimeUs late = net->now_us() + kFar / 10;
    while (!build.is_whole() && net->now_us() < late) {
      build.go_on(kSoonUs, kTold);
      if (count_read() > kKeys / 3) build.reads().each_us = 0;
    }
    build.expect_all();
    ASSERT_FALSE(calls.empty());
    EXPECT_EQ(calls.front().reads, kAtOnce);
    std::size_t failed = 0, most = 0;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      EXPECT_LE(calls[i].reads, kAtOnce);
      failed += calls[i].was_in_time ? 0 : 1;
      most = std::max(most, calls[i].was_in_time ? calls[i].reads : 0);
      if (calls[i].was_in_time || i + 1 == calls.size()) continue;
      EXPECT_LE(calls[i + 1].reads, (calls[i].reads + 1) / 2) << i;
    }
    EXPECT_GE(failed, 2U);     // there was no time for eight or for four thousand
    EXPECT_EQ(most, kAtOnce);  // and then there was
    EXPECT_LT(failed, 40U);
  });
}

// Goal: of blocks the first line is read where all keys of the turn before were in one, and two
//   otherwise; what a key has beyond that is read behind it, and nothing else is. All keys come out
//   right, whichever lengths follow one another, and those whose blocks are of something else by
//   now are none.
// Method: turns of 50 keys each, beside what is to be read of them; keys of all lengths around one
//   line and two, also in blocks of one line.
// Mutation: heads that stay long, or short; that are short behind a turn with long keys, or long
//   behind one with short ones; a key that ends where its head does, or a byte behind it, as if it
//   were one byte longer or shorter; rests of keys of another entry; what is no key any more.
TEST(DisaggOrderedGather, ReadsWhatKeysTake) {
  run_by_hand([](Net* net) {
    constexpr std::size_t kAtOnce = 50;
    constexpr std::size_t kInOne = kLineBytes - sizeof(BlockHeader);
    constexpr std::size_t kInTwo = 2 * kLineBytes - sizeof(BlockHeader);
    const std::vector<std::vector<std::size_t>> lengths = {
        {8, kInOne},  // the first heads are long
        {8, 16, kInOne - 1, kInOne},
        {8, kInOne, kInOne + 1},  // one line is read of these
        {8, kInOne + 1, kInTwo},  // two are
        {kInOne, kInTwo, kInTwo + 1, 300, 65'536},
        {1000, kInTwo + 1},
        {8, kInOne},
        {2, kInOne},
        {2, kInTwo + 1, 300, kInOne + 1},
        {3, 20},
        {4, 20}};
    Blocks blocks(3);
    std::vector<SlowReads::Call> expected;
    std::size_t head = 2 * kLineBytes;
    for (const std::vector<std::size_t>& of_turn : lengths) {
      SlowReads::Call heads{.was_in_time = true}, rests{.was_in_time = true};
      for (std::size_t i = 0; i < kAtOnce; ++i) {
        const std::size_t key_bytes = of_turn[i % of_turn.size()];
        // Some blocks are no longer than their keys, or one line.
        blocks.add(some_key(blocks.size(), key_bytes), i % 3 == 0 ? 0 : 100);
        const std::size_t in_head = std::min(head, blocks.block_bytes_of(blocks.size() - 1));
        ++heads.reads;
        heads.bytes += in_head;
        if (sizeof(BlockHeader) + key_bytes <= in_head) continue;
        ++rests.reads;
        rests.bytes += key_bytes;
      }
      expected.push_back(heads);
      if (rests.reads > 0) expected.push_back(rests);
      head = std::ranges::max(of_turn) <= kInOne ? kLineBytes : 2 * kLineBytes;
    }
    std::vector<Served<MemoryOf>> memory;
    for (std::uint32_t i = 0; i < 3; ++i) memory.push_back(serve_memory_of(net, i, blocks));
    Build build(net, blocks, map_of(memory), {.keys_at_once = kAtOnce});
    build.go_on(kFar / 10, blocks.size());
    build.expect_all();
    ASSERT_EQ(build.reads().calls.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(build.reads().calls[i].reads, expected[i].reads) << i;
      EXPECT_EQ(build.reads().calls[i].bytes, expected[i].bytes) << i;
    }
  });
}

// Goal: an entry whose block is of another key by now, or of none, adds no key and holds nobody up.
// Method: every other block has another key, one that is longer than the block says it can be, a
//   longer one that was there before, or nothing.
// Mutation: keys that are not looked at; one that is said to end beyond its block, and is read.
TEST(DisaggOrderedGather, LeavesOutWhatWasReplaced) {
  run_by_hand([](Net* net) {
    Blocks blocks(2);
    for (std::uint64_t i = 0; i < 400; ++i) {
      blocks.add(some_key(i, 1 + i % 120), 100);
      if (i % 2 == 0) continue;
      std::vector<std::byte> by = make_block(9, some_key(1000 + i, 1 + 7 * i % 150), "v");
      if (i % 8 == 1) std::memset(by.data(), 0xff, sizeof(BlockHeader));
      if (i % 8 == 3) by.assign(kLineBytes, std::byte{0});
      if (i % 8 == 5) by = make_block(9, some_key(i, 1 + i % 120).substr(0, i % 120), "v");
      blocks.replace_last(std::move(by));
    }
    const std::vector<Served<MemoryOf>> memory = {serve_memory_of(net, 0, blocks),
                                                  serve_memory_of(net, 1, blocks)};
    Build build(net, blocks, map_of(memory), {.keys_at_once = 50});
    build.go_on(kFar / 10, 150);
    build.expect_all();
  });
}

// Goal: where a memory server does not answer the keys are read of its mirror, if that is whole,
//   in the same map: a build need not wait until the cluster knows who is gone. A mirror that is
//   not whole is not read.
// Method: a server that is cut off when it was met, or killed then, or could never be met, beside
//   one without a mirror; in each case with a mirror that is whole, and with one that is not.
// Mutation: mirrors that are never read, or though they are not whole, or have no time left; a
//   server that was never met, whose mirror is not asked how long its memory is.
TEST(DisaggOrderedGather, ReadsMirrorsOfServersThatDoNotAnswer) {
  enum class Way : std::uint8_t { kCutOff, kKilled, kNeverMet };
  for (const Way way : {Way::kCutOff, Way::kKilled, Way::kNeverMet}) {
    for (const bool is_whole : {true, false}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(way)) + (is_whole ? ", whole" : ", not whole"));
      run_by_hand([way, is_whole](Net* net) {
        Blocks blocks(2);
        for (std::uint64_t i = 0; i < 300; ++i) blocks.add(some_key(i, 1 + i % 120), 50);
        const std::vector<Served<MemoryOf>> memory = {serve_memory_of(net, 0, blocks),
                                                      serve_memory_of(net, 1, blocks)};
        const Served<MemoryOf> mirror = serve_memory_of(net, 0, blocks);
        ClusterMap map = map_of(memory);
        map.memory[0].mirror = {
            .member = "mirror", .address = mirror.address, .written_by = 1, .is_whole = is_whole};
        if (way == Way::kNeverMet) net->kill(memory[0].node);
        Build build(net, blocks, map, {.keys_at_once = 40});
        while (memory[1].server->met == 0 || mirror.server->met == 0) net->sleep(100);
        net->sleep(kSoonUs);
        if (way == Way::kCutOff) net->cut(build.node(), memory[0].node);
        if (way == Way::kKilled) net->kill(memory[0].node);
        build.go_on(kFar / 20, 100);
        EXPECT_EQ(build.is_whole(), is_whole);
        if (is_whole) build.expect_all();
      });
    }
  }
}

}  // namespace breccia::disagg
