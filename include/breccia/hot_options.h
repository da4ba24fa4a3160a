#pragma once

#include <cstddef>
#include <cstdint>

namespace breccia {

/// Options of a tier that keeps hot keys on the CPU, in front of a store of any engine.
///
/// It learns from a sample of the requests which keys those are, and keeps copies of what they
/// have; writes go through to the store. Answers are those of the store.
struct HotOptions {
  /// Keys that are hot at most.
  std::uint64_t keys_max = 10'000;
  /// Larger values are not kept.
  std::size_t value_bytes_max = 64 << 10;
  /// One of so many requests is a sample.
  std::uint32_t sample_one_in = 8;
  /// Samples behind which it is looked whether other keys should be hot; at first sooner.
  std::uint64_t samples_of_window = 1 << 20;
  /// They are if so large a share of all requests goes to hot keys more than now.
  double gain_min = 0.005;
};

}  // namespace breccia
