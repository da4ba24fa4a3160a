#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "disagg/bucket.h"
#include "disagg/client/client.h"
#include "disagg/cluster_map.h"
#include "disagg/coordinator/fixed.h"
#include "disagg/protocol.h"
#include "disagg/watermark.h"
#include "unit/disagg/by_hand.h"

/// A client, and by hand whoever it talks to.

namespace breccia::disagg::testing {

constexpr TimeUs kFar = 10'000'000;
constexpr std::uint32_t kEpoch = 7;
/// A block with it is of MemoryByHand::kBlockClass, of which a client is leased several at once.
inline const std::string kValue(60, 'v');

/// A hash server that takes all writes, and notes where their values lie.
class HashByHand {
 public:
  explicit HashByHand(fabric::Port* port)
      : port_(port),
        region_(
            port->make_region(sizeof(Watermark) + sizeof(Bucket), fabric::Access::kRead).take()),
        answers_(port) {}

  void serve(TimeUs until) {
    answer_all(
        port_, &answers_, [this](Ask ask, WireReader question) { return answer(ask, question); },
        until);
  }
  [[nodiscard]] const std::vector<Location>& written() const { return written_; }

 private:
  WireWriter answer(Ask ask, WireReader question) {
    WireWriter answer = answer_of(Code::kOk);
    if (ask == Ask::kTable) {
      return answer.add(TableInfo{.region = region_->name(),
                                  .number = 1,
                                  .shape = {.bucket_bits = 0, .buckets = 1},
                                  .seeds = {},
                                  .read_us = 1000,
                                  .rest_us = 1001});
    }
    if (ask == Ask::kTrust) return answer.add(Trust{.for_us = 1000, .is_whole = 1, .table = 1});
    EXPECT_EQ(ask, Ask::kWrite);
    written_.push_back(location_in(question.take<Slot>()));
    return answer.add(Slot{0});
  }

  fabric::Port* const port_;
  const std::unique_ptr<fabric::Region> region_;
  Answers answers_;
  std::vector<Location> written_;
};

inline bool serve_once(HashByHand* server, TimeUs until) {
  server->serve(until);
  return true;
}

inline Served<MemoryByHand> serve_memory(Net* net, TimeUs hold_us = kFar) {
  return serve<MemoryByHand>(
      net, [hold_us](fabric::Port* port) { return std::make_unique<MemoryByHand>(port, hold_us); });
}

/// Of one memory server, and its mirror if there is an address.
inline ClusterMap map_of(std::uint32_t epoch, const std::string& hash, const std::string& memory,
                         const std::string& mirror) {
  ClusterMap map{.epoch = epoch, .shards = {{.has_begun = true}}};
  map.shards[0].hash = {.member = "hash", .address = hash, .is_whole = true};
  map.memory.push_back({.member = memory, .address = memory, .bytes = kChunkBytes});
  if (!mirror.empty()) {
    map.memory.front().mirror = {.member = mirror, .address = mirror, .written_by = 1};
  }
  return map;
}

/// A client of a map that the test changes.
struct ClientByHand {
  ClientByHand(Net* net, const ClusterMap& map, TimeUs again_us = kAgainUs)
      : node(net->add_node()), port(net->open(node)), coordinator(map.encode()) {
    auto opened = Client::open(port.get(), &coordinator,
                               {.ask_again_us = again_us,
                                .try_us = kSoonUs,
                                .lease_max = 3,
                                .cached_places = 0,
                                .seed = 1},
                               port->now_us() + kSoonUs);
    EXPECT_TRUE(opened.ok()) << opened.status().ToString();
    client = opened.take();
  }
  Status put(TimeUs wait = 4 * kSoonUs) {
    return client->put("key", kValue, port->now_us() + wait);
  }

  const Net::Node node;
  const std::unique_ptr<fabric::Port> port;
  FixedCoordinator coordinator;
  std::unique_ptr<Client> client;
};

}  // namespace breccia::disagg::testing
