#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "base/result.h"
#include "fabric/libfabric/memory.h"
#include "fabric/libfabric/packet.h"
#include "fabric/libfabric/provider.h"

namespace breccia::fabric::libfabric {

/// An endpoint of the provider, with memory of its own for all that comes and goes: what a call
/// gave up on may be done yet, and then must not touch what is the caller's.
///
/// One access that is refused, or a connection that breaks, and it may reach that address never
/// again, while a new endpoint does: its address is spoiled.
/// Threads one at a time.
class Endpoint {
 public:
  enum class Use : std::uint8_t { kReceive, kSend, kRead, kWrite };

  /// A packet, or bytes that are read or written.
  struct Slot {
    fi_context2 context;  // first: this is how the provider names it
    Use use;
    std::span<std::byte> bytes;
    void* description;
    // Of whoever posts it.
    PeerId peer = 0;
    std::uint64_t batch = 0;
    std::span<std::byte> into;
  };
  struct Done {
    Slot* slot;
    std::size_t bytes;  // that were received
    bool is_ok;
  };
  enum class Posted : std::uint8_t {
    kYes,
    kNotNow,  // no room, or no connection yet: progress() makes them
    kNever,
  };

  /// With so many receives that wait, and slots for the rest.
  /// Errors  IOError; MemoryLimit.
  static Result<std::unique_ptr<Endpoint>> open(const Provider& provider, fi_info* info,
                                                std::size_t receives, std::size_t slots);
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  [[nodiscard]] const RawAddress& address() const { return address_; }
  /// Readable when there is something to do; look at may_block() before.
  [[nodiscard]] int bell() const { return bell_; }
  [[nodiscard]] bool may_block();

  /// Once more, or for the first time.
  /// Errors  IOError: no such address.
  [[nodiscard]] Result<fi_addr_t> insert(const RawAddress& address);
  /// As often as it was inserted.
  void remove(const RawAddress& address);
  void spoil(const RawAddress& address) { spoiled_.insert(address); }
  [[nodiscard]] bool has_spoiled() const { return !spoiled_.empty(); }
  [[nodiscard]] bool is_in_use() const { return !inserted_.empty(); }
  [[nodiscard]] bool is_spoiled(const RawAddress& address) const {
    return spoiled_.contains(address);
  }

  Status add_slots(std::size_t count);
  [[nodiscard]] std::size_t slot_count() const { return slot_count_; }
  /// Null: all are under way.
  [[nodiscard]] Slot* take();
  void give_back(Slot* slot);
  [[nodiscard]] std::size_t slots_under_way() const { return slot_count_ - free_.size(); }

  [[nodiscard]] Posted send(Slot* slot, fi_addr_t to, std::size_t bytes);
  [[nodiscard]] Posted read(Slot* slot, fi_addr_t from, std::uint64_t key, std::uint64_t remote,
                            std::size_t bytes);
  /// Done when everybody's reads see it.
  [[nodiscard]] Posted write(Slot* slot, fi_addr_t to, std::uint64_t key, std::uint64_t remote,
                             std::size_t bytes);
  void receive(Slot* slot);

  /// What is done, until the next call.
  [[nodiscard]] std::span<const Done> progress();

 private:
  static constexpr std::size_t kDoneMax = 32;

  explicit Endpoint(const Provider& provider) : provider_(provider) {}
  Status make(fi_info* info);
  Status add_receives(std::size_t count);
  Result<std::span<Slot>> make_slots(std::size_t count);
  [[nodiscard]] bool take_error(Done* done);

  const Provider& provider_;
  // Those that use others are closed before them.
  std::vector<std::unique_ptr<Memory>> memory_;
  std::vector<std::unique_ptr<Slot[]>> slots_;
  Handle<fid_av> peers_;
  Handle<fid_cq> queue_;
  Handle<fid_ep> endpoint_;
  struct Inserted {
    fi_addr_t peer;
    int times;
  };
  RawAddress address_;
  std::map<RawAddress, Inserted, EarlierAddress> inserted_;
  std::set<RawAddress, EarlierAddress> spoiled_;
  int bell_ = -1;
  std::size_t slot_count_ = 0;  // without those of receives
  std::vector<Slot*> free_;
  std::vector<Slot*> to_receive_;  // that the provider had no room for
  std::array<Done, kDoneMax> done_;
};

}  // namespace breccia::fabric::libfabric
