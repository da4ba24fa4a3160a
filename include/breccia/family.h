#pragma once

#include <cstdint>

namespace breccia {

/// A column family, by the number that RocksDB gave it. Numbers are never used again.
using FamilyId = std::uint32_t;
inline constexpr FamilyId kDefaultFamily = 0;

}  // namespace breccia
