#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fabric/local/door.h"
#include "fabric/local/shared_memory.h"
#include "fabric/port.h"

namespace breccia::fabric::local {

/// A port to other processes of the computer, of the same user. Reads and writes are copies out of
/// and into memory that both have mapped, without a system call; messages go by unix sockets.
///
/// Order   that a peer has ended its reads are told within a millisecond.
class LocalPort final : public Port {
 public:
  /// Others find it at "local:PATH"; the path must not be there.
  /// Errors  IOError.
  static Result<std::unique_ptr<LocalPort>> open(const std::string& path);
  ~LocalPort() override;

  [[nodiscard]] std::string describe() const override {
    return "local: shared memory and unix sockets";
  }
  [[nodiscard]] std::string address() const override { return "local:" + door_->path(); }
  [[nodiscard]] TimeUs now_us() const override;
  [[nodiscard]] Result<std::unique_ptr<Region>> make_region(std::uint64_t bytes,
                                                            Access access) override;
  [[nodiscard]] Result<PeerId> connect(const std::string& address, TimeUs until) override;
  [[nodiscard]] bool is_gone(PeerId peer) const override { return !peers_.contains(peer); }
  void disconnect(PeerId peer) override;
  [[nodiscard]] Status read(PeerId peer, std::span<const Read> reads, TimeUs until) override;
  [[nodiscard]] Status write(PeerId peer, std::span<const Write> writes, TimeUs until) override;
  [[nodiscard]] Status send(PeerId peer, const Header& header, std::span<const std::byte> payload,
                            TimeUs until) override;
  [[nodiscard]] std::optional<Arrival> poll(TimeUs until) override;

 private:
  static constexpr unsigned kSpinProcessorsMin = 8;
  static constexpr TimeUs kSpinUs = 50;

  class Memory;  // a region
  struct Peer {
    Descriptor socket;
    std::string path;
    TimeUs looked_us = 0;         // when it was there
    std::vector<std::byte> came;  // of a message that is not whole yet
    std::vector<std::byte> rest;  // of one that was handed over, and did not fit
    std::map<std::uint64_t, std::unique_ptr<SharedMemory>> memory;
  };

  explicit LocalPort(std::unique_ptr<Door> door) : door_(std::move(door)) {}
  Result<PeerId> add_peer(Descriptor socket, std::string path);
  [[nodiscard]] Peer* find(PeerId peer);
  [[nodiscard]] bool is_there(PeerId peer);
  Result<SharedMemory*> memory_of(PeerId peer, const RegionName& region, TimeUs until);
  Status read_region(PeerId peer, std::span<const Read> reads, TimeUs until);
  void let_guests_in();
  void receive(PeerId peer);
  std::optional<std::size_t> take_messages(PeerId peer, std::span<const std::byte> came);
  std::optional<std::size_t> push(PeerId peer, std::span<const std::byte> bytes);
  Status push_until(PeerId peer, std::span<const std::byte>* left, TimeUs until);
  void keep_rest(PeerId peer, std::span<const std::byte> left);
  void push_rest(PeerId peer);
  void watch(PeerId peer, bool for_room);
  void note_gone(PeerId peer);
  void arrive(Arrival arrival);
  void look_who_sends();

  const std::unique_ptr<Door> door_;
  Descriptor watch_;  // epoll
  std::uint64_t next_key_ = 1;
  PeerId next_peer_ = 0;
  std::map<PeerId, Peer> peers_;  // those that are not gone
  std::deque<Arrival> inbox_;
  std::size_t inbox_bytes_ = 0;
  std::vector<std::byte> buffer_;  // what is received goes there first
  /// Behind an arrival it looks for so long without waiting, where processors are many: with few,
  /// others could not work meanwhile.
  const TimeUs spin_us_ = std::thread::hardware_concurrency() >= kSpinProcessorsMin ? kSpinUs : 0;
  TimeUs heard_ = 0;  // when something came
};

}  // namespace breccia::fabric::local
