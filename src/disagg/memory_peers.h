#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "disagg/asking.h"
#include "disagg/cluster_map.h"
#include "disagg/location.h"
#include "fabric/port.h"

namespace breccia::disagg {

/// Of a number: the server, and its mirror.
constexpr std::size_t kServersOfANode = 2;

/// The memory servers of a map, and their mirrors, with connections where these can be had.
/// Owner   port and asking outlive it.
/// Threads the port's.
class MemoryPeers {
 public:
  struct Options {
    fabric::TimeUs again_us = 20'000;  // between two looks at whether all are there
    fabric::TimeUs meet_us = 10'000;   // it waits for one so long, and leaves it alone longer
  };

  MemoryPeers(fabric::Port* port, Asking* asking, const Options& options)
      : port_(port), asking_(asking), options_(options) {}
  ~MemoryPeers();
  MemoryPeers(const MemoryPeers&) = delete;
  MemoryPeers& operator=(const MemoryPeers&) = delete;

  void follow(const ClusterMap& map);
  /// Connects to those that it has no connection to, if it is time to, until one cannot be reached;
  /// the next time it begins behind that one. A server and its mirror have meet_us each, so there
  /// is to be time for both.
  void tend(fabric::TimeUs until);
  /// When tend() has something to do again.
  [[nodiscard]] fabric::TimeUs wake() const { return again_; }
  /// One of them did not do what it was asked for.
  void doubt() { again_ = 0; }

  /// The one that is asked for blocks, and that is read. Null: there is no such server, or none
  /// that was reached.
  [[nodiscard]] const MemoryPeer* find(std::uint32_t node) const;
  /// The one that has all of that server's values, too. Null: there is none, or it was not reached.
  [[nodiscard]] const MemoryPeer* find_whole_mirror(std::uint32_t node) const;
  /// All that are written: the server, and its mirror if it has one. Empty: one of them was not
  /// reached.
  [[nodiscard]] std::vector<const MemoryPeer*> find_all(std::uint32_t node) const;
  /// Bytes of a server's memory.
  struct BlockRead {
    std::uint64_t offset;
    std::span<std::byte> into;
  };
  using ReadsByNode = std::map<std::uint32_t, std::vector<BlockRead>>;
  /// Of all servers at once, and of whole mirrors what these did not tell. They have half of the
  /// time each.
  /// Errors  TryAgain: neither was reached; those of a port.
  [[nodiscard]] Status read(const ReadsByNode& all, fabric::TimeUs within_us);
  /// What lay there is nowhere any more. What has another number now is not lost: who was told that
  /// it lies there is to ask anew.
  [[nodiscard]] bool is_lost(std::uint32_t node) const;
  /// There is such a number, and values may lie there.
  [[nodiscard]] bool is_kept(std::uint32_t node) const;
  /// Of the memory that read() reads of; 0: neither was reached.
  [[nodiscard]] std::uint64_t bytes_of(std::uint32_t node) const;
  /// Whether a value may lie there, as far as is known.
  [[nodiscard]] bool is_place(const Location& location) const;
  /// Those that values are to go to: where two servers have them, if there are such.
  [[nodiscard]] const std::vector<std::uint32_t>& nodes() const { return nodes_; }
  /// Another number each time that other servers have what is written there.
  /// Shape   a node of the map.
  [[nodiscard]] std::uint64_t servers_of(std::uint32_t node) const { return all_.at(node).servers; }

 private:
  /// A server that was met, or is to be.
  struct Server {
    std::string member;  // empty: there is none
    std::string address;
    std::optional<MemoryPeer> peer;
  };
  struct One {
    bool is_lost = false;
    bool is_moved = false;
    bool has_whole_mirror = false;
    std::uint64_t servers = 0;
    std::array<Server, kServersOfANode> server;  // and its mirror
  };

  struct Unread {
    std::uint32_t node;
    std::span<const BlockRead> reads;
    Status why = Status::TryAgain("a memory server was not reached");
  };
  using Finding = const MemoryPeer* (MemoryPeers::*)(std::uint32_t node) const;

  void keep(One* next, One* before);
  void read_of(Finding find_peer, std::vector<Unread>* left, fabric::TimeUs within_us);
  Status meet(fabric::TimeUs until);
  Status meet(std::uint32_t node, Server* server, fabric::TimeUs until);
  void leave(One* one);

  fabric::Port* const port_;
  Asking* const asking_;
  const Options options_;
  std::map<std::uint32_t, One> all_;  // by node
  std::vector<std::uint32_t> nodes_;
  std::uint64_t servers_ = 0;
  std::uint32_t last_ = 0;  // that was tried
  fabric::TimeUs again_ = 0;
};

}  // namespace breccia::disagg
