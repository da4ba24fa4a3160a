#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/result.h"
#include "disagg/cluster_map.h"
#include "disagg/coordinator/coordinator.h"
#include "fabric/port.h"

namespace breccia::disagg {

/// A server as a member of its cluster: it joins, says that it lives, and offers other maps.
/// Owner   port and coordinator outlive it; the coordinator is this one's alone.
/// Threads the port's.
class Membership {
 public:
  /// `name`: nobody has had it. What it asks the coordinator for has agree_us.
  Membership(const fabric::Port* port, Coordinator* coordinator, std::string name,
             fabric::TimeUs agree_us)
      : port_(port), coordinator_(coordinator), name_(std::move(name)), agree_us_(agree_us) {}
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  /// Joins if it has not yet. What was last heard; null: nothing, or it is no member yet.
  /// Errors  Aborted: others do not take it for a member any more.
  Result<const Coordinator::View*> look() {
    if (!has_joined_) {
      const Status joined = coordinator_->join(name_, port_->now_us() + agree_us_);
      // It may be a member all the same, and then the name is taken.
      if (joined.IsInvalidArgument()) return Status::Aborted("no member", joined.ToString());
      has_joined_ = joined.ok();
    }
    const Coordinator::View* const view = coordinator_->look();
    if (has_joined_ && coordinator_->sure_until_us() == 0) {
      return Status::Aborted("the cluster does not take this server for a member any more");
    }
    return has_joined_ ? view : nullptr;
  }
  /// Who is first with the next map, its is taken; whether that was this one, a view will tell.
  void offer(const ClusterMap& next, std::uint64_t version) {
    (void)coordinator_->replace(version, next.encode(), port_->now_us() + agree_us_);
  }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] fabric::TimeUs sure_until_us() const { return coordinator_->sure_until_us(); }

 private:
  const fabric::Port* const port_;
  Coordinator* const coordinator_;
  const std::string name_;
  const fabric::TimeUs agree_us_;
  bool has_joined_ = false;
};

}  // namespace breccia::disagg
