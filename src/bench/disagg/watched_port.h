#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fabric/port.h"

namespace breccia::bench::disagg {

/// What a port did, and when; or what its user says.
struct Event {
  enum class Kind : std::uint8_t {
    kRead,
    kWrite,
    kSend,
    kHear,   // a message came; until then it was waited
    kBegin,  // of an operation, as its user says
    kEnd,
  };
  Kind kind;
  std::uint8_t message = 0;  // kind of a message
  fabric::PeerId peer = 0;
  std::uint64_t request = 0;  // of a message
  std::uint64_t word = 0;     // the first eight bytes of a message's payload, or zero
  std::uint64_t bytes = 0;    // that were read or written
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;
};

/// The first events while it was on.
/// Bound   so many of them.
/// Threads the port's; is_on anybody.
struct Watch {
  explicit Watch(std::size_t events_max) : most(events_max) {}

  const std::size_t most;
  std::atomic<bool> is_on{false};
  std::vector<Event> events;

  [[nodiscard]] bool looks() const { return is_on.load(std::memory_order_acquire); }
  /// Something that takes no time.
  void note(Event::Kind kind);
  void keep(const Event& event) {
    if (events.size() < most) events.push_back(event);
  }
  [[nodiscard]] static std::uint64_t now_ns();
};

/// A port, and a watch on it.
/// Owner   the watch outlives it.
/// Threads the port's.
class WatchedPort final : public fabric::Port {
 public:
  WatchedPort(std::unique_ptr<fabric::Port> port, Watch* watch)
      : port_(std::move(port)), watch_(watch) {}

  [[nodiscard]] std::string describe() const override { return port_->describe(); }
  [[nodiscard]] std::string address() const override { return port_->address(); }
  [[nodiscard]] fabric::TimeUs now_us() const override { return port_->now_us(); }
  [[nodiscard]] Result<std::unique_ptr<fabric::Region>> make_region(
      std::uint64_t bytes, fabric::Access access) override {
    return port_->make_region(bytes, access);
  }
  [[nodiscard]] Result<fabric::PeerId> connect(const std::string& address,
                                               fabric::TimeUs until) override {
    return port_->connect(address, until);
  }
  [[nodiscard]] bool is_gone(fabric::PeerId peer) const override { return port_->is_gone(peer); }
  void disconnect(fabric::PeerId peer) override { port_->disconnect(peer); }
  [[nodiscard]] Status read(fabric::PeerId peer, std::span<const fabric::Read> reads,
                            fabric::TimeUs until) override;
  [[nodiscard]] Status write(fabric::PeerId peer, std::span<const fabric::Write> writes,
                             fabric::TimeUs until) override;
  void read_all(std::span<fabric::ReadsOf> all, fabric::TimeUs until) override;
  void write_all(std::span<fabric::WritesTo> all, fabric::TimeUs until) override;
  [[nodiscard]] Status send(fabric::PeerId peer, const fabric::Header& header,
                            std::span<const std::byte> payload, fabric::TimeUs until) override;
  [[nodiscard]] std::optional<fabric::Arrival> poll(fabric::TimeUs until) override;

 private:
  const std::unique_ptr<fabric::Port> port_;
  Watch* const watch_;
};

}  // namespace breccia::bench::disagg
