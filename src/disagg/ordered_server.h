#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "disagg/answers.h"
#include "disagg/protocol.h"
#include "fabric/port.h"

namespace breccia::disagg {

/// Keys in their order, and where their values lie: what ranges are read from, and what a lost hash
/// index is made of. It has writes in its log before they are acknowledged, and in the index
/// afterwards, when nobody waits, or somebody wants to see them.
/// Owner   the port outlives it.
/// Threads the port's.
/// Source  [hstore] 3.2 and 4.2, the SLS.
class OrderedServer {
 public:
  struct Options {
    /// Writes go into the index when nothing has come for so long, or a scan wants them.
    fabric::TimeUs idle_us = 0;
  };

  OrderedServer(fabric::Port* port, const Options& options)
      : port_(port), options_(options), answers_(port) {}
  OrderedServer(const OrderedServer&) = delete;
  OrderedServer& operator=(const OrderedServer&) = delete;

  /// Does what comes until then.
  void serve(fabric::TimeUs until);
  /// Writes that are in the log alone.
  [[nodiscard]] std::size_t lag() const { return log_.size(); }

 private:
  WireWriter answer(Ask ask, WireReader question);
  WireWriter log(WireReader question);
  WireWriter scan(WireReader question);
  void apply(std::size_t most);

  fabric::Port* const port_;
  const Options options_;
  Answers answers_;
  std::uint64_t log_id_ = 0;     // of the hash server whose writes it has; 0: nobody's yet
  std::deque<LoggedWrite> log_;  // behind the index
  std::uint64_t through_ = 0;    // of the log
  std::map<std::string, Slot, std::less<>> index_;
};

}  // namespace breccia::disagg
