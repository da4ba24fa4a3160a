#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/random.h"
#include "base/thread_slot.h"

namespace breccia::hot {

/// Takes one of so many hashes, of each thread, and hands them on by the hundred. Threads without a
/// slot of their own are not sampled.
/// Threads any.
class Sampler {
 public:
  static constexpr std::size_t kAtOnce = 128;
  using Samples = std::array<std::uint64_t, kAtOnce>;

  /// take(samples): called by whoever brought the last of them; it must be quick.
  Sampler(std::uint32_t one_in, std::function<void(const Samples&)> take)
      : one_in_(one_in), take_(std::move(take)), places_(base::kThreadSlots) {}

  void see(std::uint64_t hash) {
    see(1, [&](std::uint64_t) { return hash; });
  }
  /// So many: hash_of(i) is asked of those alone that are taken.
  template <class HashOf>
  void see(std::uint64_t count, const HashOf& hash_of) {
    const std::uint32_t slot = base::thread_slot();
    if (slot == base::kThreadSlots) return;
    Place& place = places_[slot];
    std::uint64_t next = place.skip;
    for (; next < count; next += 1 + next_gap(&place)) add(&place, hash_of(next));
    place.skip = next - count;
  }

 private:
  struct Place;

  void add(Place* place, std::uint64_t hash) {
    place->samples[place->count++] = hash;
    if (place->count < kAtOnce) return;
    place->count = 0;
    take_(place->samples);
  }

  /// From 0 to twice as many as are passed over on average: with gaps of one length, who asks in
  /// turns is seen always or never.
  std::uint64_t next_gap(Place* place) const {
    place->state = base::mix64(place->state + 1);
    return place->state % (2 * std::uint64_t{one_in_} - 1);
  }

  struct alignas(64) Place {
    std::uint64_t skip = 0;  // so many are passed over
    std::uint64_t count = 0;
    std::uint64_t state = 0;
    Samples samples{};
  };

  const std::uint32_t one_in_;
  const std::function<void(const Samples&)> take_;
  std::vector<Place> places_;
};

}  // namespace breccia::hot
