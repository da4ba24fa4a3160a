#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fabric/port.h"
#include "fabric/sim/net.h"

namespace breccia::fabric::sim {

/// A port of a simulated network.
class SimPort final : public Port {
 public:
  SimPort(Net* net, Net::Node node, Net::PortId id);
  ~SimPort() override;

  [[nodiscard]] std::string describe() const override { return "sim"; }
  [[nodiscard]] std::string address() const override { return "sim:" + std::to_string(id_); }
  [[nodiscard]] TimeUs now_us() const override { return net_->now_us(); }
  [[nodiscard]] Result<std::unique_ptr<Region>> make_region(std::uint64_t bytes,
                                                            Access access) override;
  [[nodiscard]] Result<PeerId> connect(const std::string& address, TimeUs until) override;
  [[nodiscard]] bool is_gone(PeerId peer) const override { return link(peer).is_gone; }
  void disconnect(PeerId peer) override;
  [[nodiscard]] Status read(PeerId peer, std::span<const Read> reads, TimeUs until) override;
  [[nodiscard]] Status write(PeerId peer, std::span<const Write> writes, TimeUs until) override;
  void read_all(std::span<ReadsOf> all, TimeUs until) override;
  void write_all(std::span<WritesTo> all, TimeUs until) override;
  [[nodiscard]] Status send(PeerId peer, const Header& header, std::span<const std::byte> payload,
                            TimeUs until) override;
  [[nodiscard]] std::optional<Arrival> poll(TimeUs until) override;

 private:
  friend class Net;
  class Memory;  // a region
  struct Link {
    Net::PortId port;
    PeerId peer;  // what that port calls this one
    bool is_gone = false;
    TimeUs last_us = 0;  // when the last message that was sent comes
  };
  /// Accesses of one call to one peer, which go on when nobody waits for them any more.
  struct Accesses;
  struct Access;

  [[nodiscard]] std::span<std::byte> region_of(std::uint64_t key, bool writes);
  [[nodiscard]] const Link& link(PeerId peer) const;
  [[nodiscard]] Link& link(PeerId peer);
  void access(std::span<const std::shared_ptr<Accesses>> all, TimeUs until);
  void start(const std::shared_ptr<Accesses>& accesses);
  [[nodiscard]] bool settle(Accesses* accesses, bool is_late);
  void divide(const std::shared_ptr<Accesses>& accesses, std::size_t which);
  [[nodiscard]] bool reaches(const Link& to) const;
  void deliver(PeerId from, std::vector<std::byte> message);
  void note_killed(Net::Node node);
  void note_parted(Net::Node here, Net::Node there, TimeUs time);
  void note_gone(PeerId peer);
  void arrive(Arrival arrival);

  Net* const net_;
  const Net::Node node_;
  const Net::PortId id_;
  std::vector<Link> links_;
  std::deque<Arrival> inbox_;
  Net::ThreadId polls_ = 0;  // 0: nobody does
  std::uint64_t next_key_ = 1;
  std::map<std::uint64_t, Memory*> regions_;
  std::map<std::uint64_t, std::vector<std::byte>> ended_;  // what they had, if regions stay
};

}  // namespace breccia::fabric::sim
