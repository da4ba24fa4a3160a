#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/histogram.h"
#include "bench/disagg/nodes.h"

namespace breccia::bench::disagg {

/// What operations of one kind, or a part of each, took all clients together.
struct Figure {
  /// Of who worked meanwhile; known of all operations of a measurement together.
  struct Work {
    std::uint64_t reads = 0;  // of others' memory
    Nodes::Cpu cpu;
  };

  std::string name;
  double seconds = 0;  // in which they were done
  base::Histogram ns;
  std::uint32_t batch = 1;  // operations of which each time is
  std::optional<Work> work;
  std::optional<double> share_percent;  // of a part: of the whole operations' time

  [[nodiscard]] double us(double percent) const {
    return 1e-3 * static_cast<double>(ns.percentile(percent));
  }
  /// Of one operation, in units of a plain read.
  [[nodiscard]] double r_units(double percent, double r_us) const {
    return us(percent) / (batch * r_us);
  }
  [[nodiscard]] std::uint64_t operations() const { return batch * ns.count(); }
  [[nodiscard]] double per_sec() const { return static_cast<double>(operations()) / seconds; }
};

/// What the rows of a round have in common.
struct Setting {
  bool json = false;
  std::string network;
  std::string indexes;
  std::uint32_t clients = 0;
  std::uint32_t memory_servers = 0;
  std::uint32_t shards = 1;
  bool is_kept = false;  // in memory servers' files
  std::uint64_t keys = 0;
  std::uint64_t key_bytes = 0;
  std::uint32_t value_bytes = 0;
  double fill_percent = 0;
  std::uint64_t seed = 0;
};

/// Operations a second of the store as it is, by figure, where it was measured in the same round.
using Reference = std::map<std::string, double>;

/// Prints a figure, also in units of `r_us`, and how many times as many operations `reference` has
/// a second, if it has that figure.
void say(const Setting& setting, const Figure& figure, double r_us, const Reference* reference);

/// All keys, put there many at once.
struct Filling {
  double seconds = 0;
  Nodes::Cpu cpu;
};
void say(const Setting& setting, const Filling& filling);

/// An index that was built anew, beside how many keys one thread can read a second.
struct Rebuild {
  std::string name;
  double seconds = 0;
  double read_keys_per_sec = 0;
};
void say(const Setting& setting, const Rebuild& rebuild, const Figure& writes);

}  // namespace breccia::bench::disagg
