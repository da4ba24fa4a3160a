#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/descriptor.h"
#include "base/result.h"
#include "fabric/libfabric/endpoint.h"
#include "fabric/libfabric/link.h"
#include "fabric/libfabric/regions.h"
#include "fabric/libfabric/spare.h"
#include "fabric/port.h"

namespace breccia::fabric::libfabric {

/// What a port knows and does, by whichever of its two threads is there: its owner's while that is
/// in a call, else one of its own.
/// Threads lock(), provider() and address() any; all else with the lock.
class Engine {
 public:
  using Lock = std::unique_lock<std::mutex>;
  /// How long to wait, and since when nothing has come.
  struct Wait {
    TimeUs until;
    TimeUs idle_us;
    int also = -1;  // a descriptor that ends a pause
    bool has_also_rung = false;
  };
  /// Accesses of a call that are under way. What comes when the call is over finds none.
  class Batch {
   public:
    explicit Batch(Engine* engine);
    ~Batch();
    Batch(const Batch&) = delete;
    Batch& operator=(const Batch&) = delete;

    const std::uint64_t id;
    std::size_t under_way = 0;
    bool is_refused = false;  // a question was
    bool is_lost = false;     // an access was

   private:
    Engine* const engine_;
  };
  /// Bytes of one slot at most.
  struct Transfer {
    std::uint64_t key;
    std::uint64_t remote;
    std::span<std::byte> into;        // of a read
    std::span<const std::byte> from;  // of a write
  };

  static Result<std::unique_ptr<Engine>> open(const Options& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] const Provider& provider() const { return *provider_; }
  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] Lock lock() { return Lock(mutex_); }

  /// Does what there is to do; if that is nothing for a while, waits without the lock.
  /// False: the time is over.
  bool turn(Lock* lock, Wait* wait);

  /// Links to whoever is there: it has a hello under way. None: not yet, as there is no endpoint
  /// for it.
  std::optional<Result<PeerId>> add_link(const RawAddress& address);
  /// Null: it is gone. Not across a turn().
  [[nodiscard]] Link* find(PeerId peer);
  [[nodiscard]] bool has_been(PeerId peer) const { return peer < next_peer_; }
  /// Ends a link; its peer is told.
  void leave(PeerId peer);
  /// The same for all, at the end.
  void leave_all();
  [[nodiscard]] bool has_packets_under_way() const;

  Result<Regions::Made> make_region(std::uint64_t bytes, Access access);
  void end_region(std::uint64_t key);

  /// Hands a packet over, in order. False: the link is gone by that.
  bool say(Link* link, Kind kind, std::span<const std::byte> body);
  /// Sends what there is to be sent and may be. False: the link is gone by that.
  bool pump(Link* link);
  /// False: not now; the link may be gone.
  bool post(Link* link, const Transfer& transfer, Batch* batch);
  [[nodiscard]] std::optional<Arrival> take_arrival();

 private:
  /// What is let go a while after the last packet.
  struct Leaving {
    Endpoint* endpoint;
    RawAddress address;
    TimeUs until_us;
  };

  explicit Engine(std::unique_ptr<Provider> provider);
  Status add_endpoint(std::unique_ptr<Endpoint> endpoint);
  void look_for_spare();
  [[nodiscard]] Endpoint* door() const { return endpoints_.front().get(); }
  Result<Link*> add(Endpoint* endpoint, const RawAddress& address);
  Status make_room_for_link(Endpoint* endpoint);

  bool progress();
  bool pause(Lock* lock, Wait* wait);
  void handle(Endpoint* at, const Endpoint::Done& done);
  void finish(const Endpoint::Done& done);
  void tend(TimeUs now);
  void let_go(TimeUs now);
  void ping(TimeUs now);

  bool pump_one(Link* link);
  [[nodiscard]] std::optional<std::size_t> write_body(Link* link, std::span<std::byte> into);
  void sent(Link* link, Kind kind, std::size_t body_bytes);
  [[nodiscard]] static bool is_lost(Link* link, Endpoint::Posted posted);

  void hear(Endpoint* at, std::span<const std::byte> bytes);
  void hear_other_version(Endpoint* at, const Packet& packet);
  Link* let_in(const Packet& hello);
  void hear_hello(const Packet& packet);
  [[nodiscard]] bool hear_of(Link* link, const Packet& packet);
  [[nodiscard]] bool hear_welcome(Link* link, std::span<const std::byte> body);
  [[nodiscard]] bool hear_part(Link* link, std::span<const std::byte> body);
  [[nodiscard]] bool hear_ask(Link* link, std::span<const std::byte> body);
  [[nodiscard]] bool hear_region(Link* link, std::span<const std::byte> body);
  [[nodiscard]] bool hear_ended(Link* link, std::span<const std::byte> body);
  [[nodiscard]] bool hear_gather(Link* link, std::span<const std::byte> body);
  [[nodiscard]] bool hear_gathered(Link* link, Kind kind, std::span<const std::byte> body);
  [[nodiscard]] bool hear_scatter(Link* link, std::span<const std::byte> body);
  void let_more_come(Link* link);

  void drop(PeerId peer);
  void note_gone(PeerId peer);
  void lose(PeerId peer);
  void arrive(Arrival arrival);

  std::mutex mutex_;
  const std::unique_ptr<Provider> provider_;
  std::string address_;  // of the door
  Regions regions_;
  // The first is the door, by which others come in. More there are where addresses are spoiled.
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  Spare spare_{provider_.get()};
  bool awaits_spare_ = false;
  Status no_spare_;               // why there is none
  base::Descriptor bells_;        // epoll of theirs
  std::map<PeerId, Link> links_;  // those that are not gone
  std::unordered_map<std::uint64_t, PeerId> names_;
  std::set<PeerId> wanting_;  // whose packets found no room
  std::vector<Leaving> leaving_;
  std::unordered_map<std::uint64_t, Batch*> batches_;
  std::uint64_t next_batch_ = 1;
  PeerId next_peer_ = 0;
  std::deque<Arrival> inbox_;
  std::size_t inbox_bytes_ = 0;
  TimeUs tended_us_ = 0;
  TimeUs spin_us_ = 0;
  const bool spins_long_;
};

}  // namespace breccia::fabric::libfabric
