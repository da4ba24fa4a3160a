#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "fabric/libfabric/engine.h"
#include "fabric/port.h"

namespace breccia::fabric::libfabric {

/// What a call reads of one peer, or writes to it. Several small accesses are messages where
/// software does them (kGather, kScatter); others are the provider's.
///
/// What a region is its owner is asked once, before it is accessed: what the provider refuses costs
/// the connection.
/// Owner   the engine, and what is read and written, outlive it.
/// Threads with the engine's lock, also its end.
class Accesses {
 public:
  Accesses(Engine* engine, PeerId peer, std::span<const Read> reads);
  Accesses(Engine* engine, PeerId peer, std::span<const Write> writes);
  Accesses(const Accesses&) = delete;
  Accesses& operator=(const Accesses&) = delete;

  /// Does what can be done now.
  void go_on();
  [[nodiscard]] bool is_over() const { return status_.has_value(); }
  /// What came of them; TimedOut: they are not over.
  [[nodiscard]] Status status() const;

 private:
  struct Check {
    RegionName region;
    std::uint64_t offset;
    std::uint64_t bytes;
    Rights needs;
  };

  [[nodiscard]] bool are_small(std::size_t count) const;
  void add_transfers(const RegionName& region, std::uint64_t offset, std::span<std::byte> into,
                     std::span<const std::byte> from);
  [[nodiscard]] bool is_done() const;
  std::optional<Status> step(Link* link);
  std::optional<Status> check(Link* link);
  [[nodiscard]] bool ask(Link* link);

  Engine* const engine_;
  const PeerId peer_;
  std::optional<Status> status_;
  Engine::Batch batch_;
  std::vector<Check> checks_;
  std::size_t checked_ = 0;
  // By messages: reads or writes.
  std::vector<Read> reads_;
  std::vector<Write> writes_;
  std::size_t asked_ = 0;
  // By the provider.
  std::vector<Engine::Transfer> transfers_;
  std::size_t posted_ = 0;
};

}  // namespace breccia::fabric::libfabric
