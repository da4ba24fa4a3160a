#pragma once

#include <cstdint>
#include <map>
#include <memory>
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

/// A server that has one of the two indexes, or waits to have it: when nobody has the role, or who
/// has is no member of the cluster any more, it takes the role (a new epoch), builds the index from
/// the other one, and says when it is whole. Where there is no other one, or none that is whole,
/// the hash index is built from the memory servers, and the ordered one from that.
///
/// Where one process has both roles, which would be lost together, a seat of another one takes the
/// ordered index.
///
/// Of several that wait one gets it, whose map the coordinator takes. Nobody gets the ordered one
/// while the hash index is not there, or not whole: it would have nothing to build from.
/// Owner   port and coordinator outlive it; the coordinator is this one's alone.
/// Threads the port's.
/// Source  [hstore] 4.3. Deviation: who takes over is settled by the coordinator's versions.
class Seat {
 public:
  struct Options {
    Role role = Role::kHash;
    std::string member;  // its name, which nobody has had
    HashServer::Options hash;
    OrderedServer::Options ordered;
    fabric::TimeUs turn_us = 5'000;     // between two looks at the cluster
    fabric::TimeUs agree_us = 100'000;  // what it asks the coordinator for has so long
    std::string process;                // by its name, which seats of other processes do not have
    /// Where the other role is had by this process, those of others come first for so long; and so
    /// long both may be had by one before a seat of another process takes one of them.
    fabric::TimeUs patience_us = 1'000'000;
    /// A memory server that is no member any more is waited for so long, if nobody has all of its
    /// values; then it is lost.
    fabric::TimeUs return_us = 2'000'000;
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
  [[nodiscard]] bool has_lost_source() const;
  [[nodiscard]] bool may_take() const;
  [[nodiscard]] bool is_crowded() const;
  [[nodiscard]] bool is_patient();
  void take_role();
  void begin();
  [[nodiscard]] ClusterMap news();
  [[nodiscard]] bool has_waited_for(std::uint32_t node);

  fabric::Port* const port_;
  const Options options_;
  Membership membership_;
  const Coordinator::View* view_ = nullptr;
  std::uint64_t version_ = 0;  // of the map
  ClusterMap map_;
  std::map<std::uint32_t, fabric::TimeUs> gone_since_;  // memory servers, by node
  fabric::TimeUs free_since_ = 0;                       // that it may have its role; 0: it may not
  std::unique_ptr<HashServer> table_;  // made before it is anybody: that takes long
  std::unique_ptr<IndexServer> server_;
};

}  // namespace breccia::disagg
