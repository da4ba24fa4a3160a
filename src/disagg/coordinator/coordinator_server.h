#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/result.h"
#include "disagg/answers.h"
#include "disagg/protocol.h"
#include "fabric/port.h"
#include "pmem/disk.h"

namespace breccia::disagg {

/// A coordinator by itself: for a cluster on one computer, and for trying one out. What it knows is
/// in a file before anybody hears of it, so it may end and begin again; while it is gone, members
/// are not sure any more, and nothing changes.
/// Owner   the port outlives it.
/// Threads the port's.
class CoordinatorServer {
 public:
  struct Options {
    std::shared_ptr<pmem::Disk> disk = pmem::real_disk();
    std::string file;                     // empty: it forgets everything at its end
    fabric::TimeUs session_us = 200'000;  // who was not heard of so long is no member any more
  };

  /// Errors  IOError, Corruption: of the file.
  static Result<std::unique_ptr<CoordinatorServer>> make(fabric::Port* port,
                                                         const Options& options);
  CoordinatorServer(const CoordinatorServer&) = delete;
  CoordinatorServer& operator=(const CoordinatorServer&) = delete;

  /// Answers what comes until then.
  /// Errors  IOError: the file cannot be written; who asked for a change does not know whether it
  ///         happened.
  [[nodiscard]] Status serve(fabric::TimeUs until);

 private:
  CoordinatorServer(fabric::Port* port, const Options& options)
      : port_(port),
        options_(options),
        answers_(port),
        members_version_(1 + (port->now_us() << 20)),
        heard_(port->now_us()) {}

  Status read();
  Status write() const;
  std::optional<WireWriter> answer(Ask ask, WireReader question);
  WireWriter look(WireReader question);
  WireWriter join(WireReader question);
  WireWriter replace(WireReader question);
  void let_go();

  fabric::Port* const port_;
  const Options options_;
  Answers answers_;
  std::uint64_t version_ = 0;
  std::string document_;
  std::map<std::string, fabric::TimeUs> members_;  // until when
  std::uint64_t members_version_;  // another one each time that they are others, or this one begins
  fabric::TimeUs heard_;           // when it last looked at what has come
  Status failed_;
};

}  // namespace breccia::disagg
