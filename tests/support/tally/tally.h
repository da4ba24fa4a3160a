#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "exec/device.h"

/// A module with device code of its own, as a new engine brings it: an interface, algorithms over a
/// group, and an instance for each executor. Nothing in exec knows it.

namespace breccia::testing {

/// Counts words by their remainder.
class Tally {
 public:
  static constexpr std::uint32_t kCounts = 5;

  virtual ~Tally() = default;
  /// How many of `words` have each remainder modulo kCounts. All groups count in the same few
  /// places.
  virtual Result<std::vector<std::uint64_t>> count(const std::vector<std::uint64_t>& words) = 0;
  /// The same with a load and a store where there should be one addition: counts get lost.
  virtual Result<std::vector<std::uint64_t>> count_badly(
      const std::vector<std::uint64_t>& words) = 0;
  /// One group after the other hands a message on: every word is the number of its group plus all
  /// that it received. Groups wait for each other, so `groups` is at most what runs at once.
  virtual Result<std::uint64_t> hand_on(std::uint64_t groups) = 0;
};

/// For tenants of devices that are no GPU.
std::unique_ptr<Tally> make_tally(const exec::TenantPtr& tenant);
/// For tenants of a GPU.
std::unique_ptr<Tally> make_tally_on_cuda(const exec::TenantPtr& tenant);

}  // namespace breccia::testing
