#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "disagg/protocol.h"
#include "fabric/port.h"

namespace breccia::disagg {

/// Questions of one port, one after the other. A question that may have got lost is put again, as
/// the same one: servers answer each once (answers.h). What else comes meanwhile is forgotten.
/// Owner   the port outlives it.
/// Threads the port's.
class Asking {
 public:
  Asking(fabric::Port* port, fabric::TimeUs again_us) : port_(port), again_us_(again_us) {}

  /// What was answered behind its code.
  /// Errors  TimedOut: nothing was. IOError: the peer is gone. MemoryLimit, Busy, InvalidArgument:
  ///         what it says by its code.
  Result<std::vector<std::byte>> ask(fabric::PeerId peer, Ask what, const WireWriter& question,
                                     fabric::TimeUs until);

 private:
  fabric::Port* const port_;
  const fabric::TimeUs again_us_;
  std::uint64_t next_request_ = 1;
};

/// A memory server, as who uses its blocks knows it.
struct MemoryPeer {
  fabric::PeerId peer = 0;
  std::uint32_t node = 0;
  fabric::RegionName region;
};

/// Connects to a memory server, and asks for its pool.
/// Errors  those of a connection and a question; IOError: it is no memory server.
Result<MemoryPeer> meet_memory(fabric::Port* port, Asking* asking, const std::string& address,
                               fabric::TimeUs until);

}  // namespace breccia::disagg
