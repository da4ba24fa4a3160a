#include "hash/shapes/shape.h"

#include <fmt/format.h>

#include <cstdio>

namespace breccia::hash::shapes {

namespace {

bool is_power_of_two(int number) { return number > 0 && (number & (number - 1)) == 0; }

}  // namespace

bool Shape::is_valid() const {
  constexpr int kManyMax = 4;
  return is_power_of_two(levels) && is_power_of_two(locations) && is_power_of_two(slots) &&
         levels <= kManyMax && locations <= kManyMax && slots <= kCandidatesMax &&
         candidates() <= kCandidatesMax;
}

std::string Shape::name() const { return fmt::format("{}L-{}H-{}S", levels, locations, slots); }

std::optional<Shape> Shape::of_name(const std::string& name) {
  Shape shape;
  if (std::sscanf(name.c_str(), "%2dL-%2dH-%2dS", &shape.levels, &shape.locations, &shape.slots) !=
      3) {
    return std::nullopt;
  }
  // What is read back differently had something else in it.
  if (!shape.is_valid() || shape.name() != name) return std::nullopt;
  return shape;
}

int share_of(const Shape& shape, int lanes) {
  constexpr int kShareMax = 8;  // pairs that a lane has in registers
  if (!shape.is_valid() || lanes < 4 || !exec::is_group_width(lanes)) return 0;
  const int share = shape.candidates() / lanes;
  return share <= kShareMax && share <= shape.slots ? share : 0;
}

}  // namespace breccia::hash::shapes
