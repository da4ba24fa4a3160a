#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/result.h"
#include "disagg/answers.h"
#include "disagg/pool.h"
#include "disagg/protocol.h"
#include "fabric/port.h"

namespace breccia::disagg {

/// Memory for keys and values, which clients read and write themselves; it only keeps which blocks
/// are whose.
/// Owner   the port outlives it.
/// Threads the port's.
class MemoryServer {
 public:
  /// Errors  MemoryLimit.
  static Result<std::unique_ptr<MemoryServer>> make(fabric::Port* port, std::uint64_t bytes);
  MemoryServer(const MemoryServer&) = delete;
  MemoryServer& operator=(const MemoryServer&) = delete;

  /// Its number, by which entries name it; before that it answers nobody.
  void be_node(std::uint32_t node);
  /// Answers what comes until then.
  void serve(fabric::TimeUs until);
  [[nodiscard]] const Pool& pool() const { return pool_; }

 private:
  MemoryServer(fabric::Port* port, std::unique_ptr<fabric::Region> region)
      : port_(port),
        region_(std::move(region)),
        pool_(region_->bytes().size() / kLineBytes),
        answers_(port) {}

  WireWriter answer(Ask ask, WireReader question);
  WireWriter lease(WireReader question);
  WireWriter take_back(WireReader question);

  fabric::Port* const port_;
  std::optional<std::uint32_t> node_;
  const std::unique_ptr<fabric::Region> region_;
  Pool pool_;
  Answers answers_;
};

}  // namespace breccia::disagg
