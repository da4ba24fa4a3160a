#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "disagg/cluster_map.h"
#include "disagg/coordinator/coordinator.h"
#include "disagg/index/hash_server.h"
#include "disagg/index/index_server.h"
#include "disagg/index/ordered_server.h"
#include "disagg/membership.h"
#include "fabric/port.h"

namespace breccia::disagg {

/// A server that has an index of a shard, or waits to have one: when nobody has it, or who has is
/// no member of the cluster any more, it takes the role (a new epoch), builds the index from the
/// other one, and says when it is whole. Where there is no other one, or none that is whole, the
/// hash index is built from the memory servers, and the ordered one from that.
///
/// Of several that wait one gets it, whose map the coordinator takes. Nobody gets the ordered one
/// while the hash index is not there, or not whole: it would have nothing to build from.
///
/// Where all is well, and processes have not as many indexes as one another, or one has both of a
/// shard, which would be lost together, one that waits wants an index of another process (it is its
/// heir), which lets it go. Then it is as if that one had gone, but no write has an unknown end,
/// and it stays for a while, to tell those who ask that they are to ask another one.
/// Owner   port and coordinator outlive it; the coordinator is this one's alone.
/// Threads the port's.
/// Source  [hstore] 4.3. Deviation: who takes over is settled by the coordinator's versions.
class Seat {
 public:
  struct Options {
    Role role = Role::kHash;
    std::uint32_t shards = 1;                   // of a cluster that begins, up to kShardsMax
    std::optional<record::HashSeed> placement;  // of that; none: a random one
    std::string member;                         // its name, which nobody has had
    HashServer::Options hash;
    OrderedServer::Options ordered;
    fabric::TimeUs turn_us = 5'000;     // between two looks at the cluster
    fabric::TimeUs agree_us = 100'000;  // what it asks the coordinator for has so long
    fabric::TimeUs stay_us = 500'000;   // who has given its index away answers so long yet
    std::string process;                // by its name, which seats of other processes do not have
    /// Where the shard's other index is had by this process, or the cluster begins and it has any,
    /// those of others come first for so long; and it is so long that one waits before it wants
    /// another one's.
    fabric::TimeUs patience_us = 1'000'000;
    /// A memory server that is no member any more is waited for so long, if nobody has all of its
    /// values; then it is lost.
    fabric::TimeUs return_us = 2'000'000;
    /// A memory server that is no member any more, and has a mirror, or its mirror, is waited for
    /// so long if they have media: the power of both may be cut, and either be the one that comes
    /// back. Longer than a session, as members are none any more so long behind one another.
    fabric::TimeUs other_us = 250'000;
    /// A number whose values have another one is nobody's behind that: who remembers or has leased
    /// anything there does so no longer (MemoryServer::Options::hold_us).
    fabric::TimeUs forget_us = 1'800'000'000;
  };

  Seat(fabric::Port* port, Coordinator* coordinator, const Options& options)
      : port_(port),
        options_(options),
        membership_(port, coordinator, options.member, options.agree_us) {}
  ~Seat() = default;
  Seat(const Seat&) = delete;
  Seat& operator=(const Seat&) = delete;

  /// Does what comes until then.
  /// Errors  Aborted: others do not take it for a member any more, or have its role; it is of no
  ///         use from here on. Those of its server.
  [[nodiscard]] Status serve(fabric::TimeUs until);
  /// Null: it waits.
  [[nodiscard]] const IndexServer* server() const { return server_.get(); }

 private:
  Status turn(fabric::TimeUs until);
  Status take_view();
  [[nodiscard]] bool is_there(const ClusterMap::Index& index) const;
  [[nodiscard]] const ClusterMap::Index& mine() const {
    return map_.shards[*shard_].of(options_.role);
  }
  [[nodiscard]] bool has_lost_source() const;
  bool look_for_role();
  bool found();
  [[nodiscard]] bool may_inherit(const ClusterMap::Shard& shard) const;
  [[nodiscard]] bool may_take(const ClusterMap::Shard& shard) const;
  [[nodiscard]] bool waits_for_media() const;
  using Loads = std::map<std::string, int>;  // indexes that a process has, one at least
  [[nodiscard]] Loads loads_now() const;
  [[nodiscard]] bool waits_to_take(const ClusterMap::Shard& shard, const Loads& loads) const;
  [[nodiscard]] bool is_quiet() const;
  [[nodiscard]] bool wants(const ClusterMap::Shard& shard, const Loads& loads) const;
  [[nodiscard]] bool has_waited(std::uint32_t shard, bool may, bool waits);
  bool take_role(std::uint32_t shard);
  bool be_heir(std::uint32_t shard);
  void begin();
  Status leave();
  Status give_up();
  void give_away(ClusterMap* next) const;
  [[nodiscard]] ClusterMap news();
  using Since = std::map<std::uint32_t, fabric::TimeUs>;  // by memory servers' numbers
  [[nodiscard]] bool has_waited(Since* since, std::uint32_t node, fabric::TimeUs so_long) const;

  fabric::Port* const port_;
  const Options options_;
  Membership membership_;
  const Coordinator::View* view_ = nullptr;
  std::uint64_t version_ = 0;  // of the map
  ClusterMap map_;
  std::optional<std::uint32_t> shard_;  // whose index it has
  Since gone_since_;
  Since moved_since_;
  std::map<std::uint32_t, fabric::TimeUs> free_since_;  // shards whose index it may have
  std::optional<std::uint64_t>
      offered_;  // the map that it has offered another one for, if it waits
  fabric::TimeUs offer_again_ = 0;
  fabric::TimeUs leaves_at_ = 0;       // it has given its index away; 0: it has not
  std::unique_ptr<HashServer> table_;  // made before it is anybody: that takes long
  std::unique_ptr<IndexServer> server_;
};

}  // namespace breccia::disagg
