#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "disagg/asking.h"
#include "disagg/cluster_map.h"
#include "disagg/protocol.h"
#include "fabric/port.h"

namespace breccia::disagg {

/// A hash server's connection to the ordered server, and its questions there: one of each kind is
/// under way at a time, and put again, as it is, until it is answered.
/// Owner   port and asking outlive it.
/// Threads the port's.
class OrderedLink {
 public:
  struct Options {
    fabric::TimeUs again_us = 0;
    fabric::TimeUs meet_us = 0;
  };

  OrderedLink(fabric::Port* port, Asking* asking, const Options& options)
      : port_(port), asking_(asking), options_(options) {}
  ~OrderedLink() { leave(); }
  OrderedLink(const OrderedLink&) = delete;
  OrderedLink& operator=(const OrderedLink&) = delete;

  /// From here on it is this one.
  void follow(const ClusterMap::Index& of, std::uint32_t epoch);
  /// Forgets that it was met, and what was asked.
  void leave();

  /// Connects, if there is a server and it is time to, and says what `follow` has; puts questions
  /// again whose time is over.
  void tend(const Follow& follow);
  /// When tend() has something to do again.
  [[nodiscard]] fabric::TimeUs wake() const;
  /// Whether the server takes writes of this one.
  [[nodiscard]] bool is_met() const { return is_met_; }
  [[nodiscard]] bool is_peer(fabric::PeerId peer) const { return peer_ == peer; }

  /// One of kShip and kKeysBehind; none of that kind is under way.
  void ask(Ask what, std::vector<std::byte> question);
  [[nodiscard]] bool is_asked(Ask what) const { return of(what).request != 0; }

  /// Of an arrival of the peer's: which question it answers; none: no one's that is under way. An
  /// answer to kFollow says that the server was met, if it is kOk.
  std::optional<Ask> hear(const fabric::Header& header, bool is_ok);

 private:
  struct Question {
    std::uint64_t request = 0;  // 0: none is under way
    std::vector<std::byte> bytes;
    fabric::TimeUs again = 0;
  };
  [[nodiscard]] Question& of(Ask what) { return questions_[index_of(what)]; }
  [[nodiscard]] const Question& of(Ask what) const { return questions_[index_of(what)]; }
  static std::size_t index_of(Ask what);
  void send(Ask what);

  static constexpr Ask kKinds[] = {Ask::kFollow, Ask::kShip, Ask::kKeysBehind};

  fabric::Port* const port_;
  Asking* const asking_;
  const Options options_;
  ClusterMap::Index of_;
  std::uint32_t epoch_ = 0;
  std::optional<fabric::PeerId> peer_;
  fabric::TimeUs connect_again_ = 0;
  fabric::TimeUs follow_again_ = 0;
  bool is_met_ = false;
  Question questions_[std::size(kKinds)];
};

}  // namespace breccia::disagg
