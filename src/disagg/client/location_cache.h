#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "disagg/key_id.h"
#include "disagg/location.h"

namespace breccia::disagg {

/// Where values of keys lay when they were last seen. Of two keys that share a place the later one
/// is remembered.
/// Bound   32 bytes a place.
/// Threads one owner.
class LocationCache {
 public:
  struct Known {
    KeyId id;
    Slot slot = 0;  // 0: none
    std::uint32_t generation = 0;
  };

  /// At least so many places; 0: it remembers nothing.
  explicit LocationCache(std::uint64_t places) : places_(places == 0 ? 0 : std::bit_ceil(places)) {}

  /// Null: nothing is known.
  [[nodiscard]] const Known* find(const KeyId& id) const {
    if (places_.empty()) return nullptr;
    const Known& known = places_[place_of(id)];
    return known.slot != 0 && known.id == id ? &known : nullptr;
  }
  void keep(const KeyId& id, const Location& location, std::uint32_t generation) {
    if (places_.empty()) return;
    places_[place_of(id)] = {.id = id, .slot = slot_of(0, location), .generation = generation};
  }
  void forget(const KeyId& id) {
    if (find(id) != nullptr) places_[place_of(id)] = Known();
  }

 private:
  [[nodiscard]] std::size_t place_of(const KeyId& id) const {
    return id.proof & (places_.size() - 1);
  }

  std::vector<Known> places_;
};

}  // namespace breccia::disagg
