#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "disagg/asking.h"
#include "disagg/cluster_map.h"
#include "disagg/memory_peers.h"
#include "disagg/protocol.h"
#include "fabric/port.h"

namespace breccia::disagg {

/// Asks all memory servers of a map which values of a shard's keys they have, page by page, all
/// servers at once; their mirrors agree to each page before it counts, as a hash server that went
/// may have told one of the two more than the other one.
/// Owner   port, asking and memory outlive it.
/// Threads the port's.
class MemoryScan {
 public:
  MemoryScan(fabric::Port* port, Asking* asking, const MemoryPeers* memory, fabric::TimeUs again_us,
             const KeySeeds& seeds)
      : port_(port), asking_(asking), memory_(memory), again_us_(again_us), seeds_(seeds) {}

  /// Its servers are asked, those that were, where it is at; those that are lost are not.
  void follow(const ClusterMap& map, std::uint32_t shard);
  void tend();
  /// When tend() has something to do.
  [[nodiscard]] fabric::TimeUs wake() const;
  void hear(const fabric::Arrival& arrival);

  /// What was told and not taken yet: in no order, of a key also several.
  [[nodiscard]] std::deque<ValueEntry>& found() { return found_; }
  [[nodiscard]] bool has_found() const { return !found_.empty(); }
  /// There will be no more.
  [[nodiscard]] bool is_over() const;
  /// No memory server was told of a later write.
  [[nodiscard]] std::uint64_t last() const { return last_; }

 private:
  /// What a server has told that its mirror has not agreed to.
  struct Page {
    std::uint64_t next = 0;
    std::vector<ValueEntry> entries;
  };
  struct One {
    std::string member;
    std::uint64_t line = 0;  // what begins before it was told
    bool is_over = false;
    std::optional<Page> page;
    fabric::PeerId peer = 0;
    std::uint64_t request = 0;  // 0: none is under way
    fabric::TimeUs again = 0;
  };
  void go_on(std::uint32_t node, One* one);
  void ask(One* one, const MemoryPeer& of, Ask what, const WireWriter& question);
  [[nodiscard]] std::optional<Page> page_in(WireReader answer, std::uint32_t node, const One& one);
  void take(One* one);

  fabric::Port* const port_;
  Asking* const asking_;
  const MemoryPeers* const memory_;
  const fabric::TimeUs again_us_;
  const KeySeeds seeds_;
  std::uint32_t epoch_ = 0;
  std::uint32_t shard_ = 0;
  std::map<std::uint32_t, One> all_;  // by node
  std::deque<ValueEntry> found_;
  std::uint64_t last_ = 0;
};

}  // namespace breccia::disagg
