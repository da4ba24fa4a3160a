#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "disagg/coordinator/coordinator.h"
#include "fabric/port.h"

namespace breccia::bench::disagg {

/// Which indexes a store has. Those behind the first are for comparison.
enum class Indexes : std::uint8_t {
  kBoth,          // as it is
  kInStep,        // the ordered index has a write before its server says that it is logged
  kHash,          // no ordered server behind: writes wait for nobody, and there are no ranges
  kOrdered,       // no hash index: the ordered server tells where values lie
  kOrderedReads,  // no hash index: clients read nodes of a tree
};

[[nodiscard]] constexpr bool has_hash(Indexes indexes) { return indexes <= Indexes::kHash; }
[[nodiscard]] constexpr bool has_order(Indexes indexes) { return indexes != Indexes::kHash; }

/// How a client comes to keys and values; what figures are of.
/// Errors  those of breccia::disagg::Client.
/// Owner   port and coordinator outlive it.
/// Threads the port's.
class Way {
 public:
  using Pair = std::pair<std::string, std::string>;
  using Pairs = std::vector<Pair>;

  Way() = default;
  virtual ~Way() = default;
  Way(const Way&) = delete;
  Way& operator=(const Way&) = delete;

  [[nodiscard]] virtual Status get(const Slice& key, std::string* value, fabric::TimeUs until) = 0;
  [[nodiscard]] virtual Status put(const Slice& key, const Slice& value, fabric::TimeUs until) = 0;
  [[nodiscard]] virtual Status erase(const Slice& key, fabric::TimeUs until) = 0;
  /// Many at once, each by itself; those of an ordered index alone one behind the other.
  /// Errors  of the first one that failed; NotFound: there is no such key.
  [[nodiscard]] virtual Status get_all(std::span<const std::string> keys,
                                       std::vector<std::string>* values, fabric::TimeUs until);
  [[nodiscard]] virtual Status put_all(std::span<const Pair> pairs, fabric::TimeUs until);
  /// The first keys from `begin` on. Of an ordered index alone they are not as of one moment.
  [[nodiscard]] virtual Status scan(const Slice& begin, std::uint32_t limit, Pairs* found,
                                    fabric::TimeUs until) = 0;
  /// Of others' memory, so far.
  [[nodiscard]] virtual std::uint64_t reads() const = 0;
  /// Lookups by an ordered index, so far.
  [[nodiscard]] virtual std::uint64_t gets_in_order() const = 0;
};

struct WayOptions {
  /// So many places of values; of a tree all of its inner nodes, or none if it is 0.
  std::uint64_t remembered = 0;
  std::uint64_t seed = 0;
};

/// A client of a store with such indexes.
Result<std::unique_ptr<Way>> open_way(Indexes indexes, fabric::Port* port,
                                      breccia::disagg::Coordinator* coordinator,
                                      const WayOptions& options, fabric::TimeUs until);

}  // namespace breccia::bench::disagg
