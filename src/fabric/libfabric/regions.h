#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "fabric/libfabric/memory.h"
#include "fabric/libfabric/packet.h"
#include "fabric/port.h"

namespace breccia::fabric::libfabric {

/// The regions of a port, by their keys.
/// Threads one at a time.
class Regions {
 public:
  struct Made {
    RegionName name;
    std::span<std::byte> bytes;
  };
  /// Errors  as Memory::make()'s.
  Result<Made> make(const Provider& provider, std::uint64_t bytes, Access access);
  void end(std::uint64_t key);

  [[nodiscard]] Facts facts(std::uint64_t key) const;
  /// Answers a kGather: bytes of the answer; none: that is no question. Words that lie at multiples
  /// of eight are read at once.
  /// Shape   answer has kBodyBytesMax.
  [[nodiscard]] std::optional<std::size_t> gather(std::span<const std::byte> question,
                                                  std::span<std::byte> answer) const;
  /// Does what a kScatter asks for, all of it or nothing; what it is to be answered; none: that is
  /// no question. Words that lie at multiples of eight are written at once.
  [[nodiscard]] std::optional<GatheredHead> scatter(std::span<const std::byte> question);

 private:
  struct One {
    std::unique_ptr<Memory> memory;
    Rights rights;
  };
  [[nodiscard]] std::span<std::byte> find(const Piece& piece, Rights needs) const;

  std::map<std::uint64_t, One> all_;
  std::vector<std::unique_ptr<Memory>> ended_;  // only their addresses are kept
};

}  // namespace breccia::fabric::libfabric
