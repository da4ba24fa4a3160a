#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "disagg/asking.h"
#include "disagg/memory_peers.h"
#include "disagg/protocol.h"
#include "fabric/port.h"

namespace breccia::disagg {

/// Tells memory servers something of their blocks, each of them and its mirror, all at once; what
/// was told is over when all have said that they heard it. What was not is told again.
/// Owner   port, asking and memory outlive it.
/// Threads the port's.
class Telling {
 public:
  using News = std::map<std::uint32_t, WireWriter>;  // by node
  /// Where a shard's news for a node go.
  static WireWriter& news_for(std::uint32_t node, std::uint32_t shard, News* news) {
    const auto [found, is_new] = news->try_emplace(node);
    return is_new ? found->second.add(shard) : found->second;
  }

  Telling(fabric::Port* port, Asking* asking, const MemoryPeers* memory, fabric::TimeUs again_us)
      : port_(port), asking_(asking), memory_(memory), again_us_(again_us) {}

  /// Shape   is_over().
  void begin(Ask what, News news);
  [[nodiscard]] bool is_over() const { return news_.empty(); }
  /// There is another map: what is not over is told again, to those that are in it. Of servers that
  /// are lost it is over.
  void follow(std::uint32_t epoch);
  /// Tells those that are connected, again if they do not answer.
  void tend();
  /// When tend() has something to do.
  [[nodiscard]] fabric::TimeUs wake() const;
  /// An answer, maybe one of these.
  void hear(const fabric::Arrival& arrival);

 private:
  struct One {
    std::uint32_t node = 0;
    fabric::PeerId peer = 0;
    std::uint64_t request = 0;
    fabric::TimeUs again = 0;
    bool has_heard = false;
  };
  void forget_lost();
  [[nodiscard]] bool is_told(std::uint32_t node) const;
  void tell(std::uint32_t node);
  void send(One* one);
  void be_over(std::uint32_t node);

  fabric::Port* const port_;
  Asking* const asking_;
  const MemoryPeers* const memory_;
  const fabric::TimeUs again_us_;
  std::uint32_t epoch_ = 0;
  Ask what_ = Ask::kCommit;
  News news_;              // that not all have heard
  std::vector<One> told_;  // of these, whom
};

}  // namespace breccia::disagg
