#include "keys.h"

#include <algorithm>
#include <unordered_set>

#include "base/limits.h"

namespace breccia::model {

namespace {

constexpr std::uint64_t kHotKeys = 8;

std::string random_bytes(base::Random* random, std::uint64_t bytes) {
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(random->next());
  return text;
}

std::string odd_key(base::Random* random) {
  switch (random->below(8)) {
    case 0:
      return random_bytes(random, random->below(4));
    case 1:
      return "key" + std::to_string(random->below(1000));
    case 2:
      return std::string(8, 'p') + random_bytes(random, random->below(3));
    case 3:
      return "a prefix of 24 bytes, yes" + random_bytes(random, random->below(10));
    case 4:
      return random_bytes(random, random->below(3)) + std::string(random->below(20), '\0');
    case 5:
      return std::string(7 + random->below(3), '\xff') + random_bytes(random, random->below(2));
    case 6:
      return random_bytes(random, 8);
    default:
      break;
  }
  if (!random->one_in(64)) return random_bytes(random, random->below(64));
  // Equal but for the end, so that a comparison has to go all the way.
  std::string key(random->one_in(4) ? limits::kKeyBytesMax - 64 : 4000, 'l');
  return key + random_bytes(random, random->below(3));
}

}  // namespace

std::uint32_t Universe::pick(base::Random* random) const {
  const std::uint64_t among =
      random->one_in(2) ? std::min<std::uint64_t>(kHotKeys, keys.size()) : keys.size();
  return static_cast<std::uint32_t>(random->below(among));
}

Universe make_universe(std::uint64_t seed, std::uint64_t count, const std::string& prefix) {
  base::Random random(seed);
  Universe universe;
  std::unordered_set<std::string> seen;
  constexpr std::uint64_t kLengths[] = {8, 16, 24, 5};
  const std::uint64_t uniform_bytes = seed % 3 == 0 ? kLengths[random.below(4)] : 0;
  if (uniform_bytes == 0) seen.insert(universe.keys.emplace_back(prefix));
  while (universe.keys.size() < count) {
    std::string key =
        prefix + (uniform_bytes == 0 ? odd_key(&random) : random_bytes(&random, uniform_bytes));
    if (seen.insert(key).second) universe.keys.push_back(std::move(key));
  }
  return universe;
}

std::string make_value(base::Random* random) {
  std::uint64_t bytes = random->below(48);
  if (random->one_in(50)) bytes = random->below(2000);
  if (random->one_in(3000)) bytes = random->below((100 << 10) + 1);
  std::string value(bytes, '\0');
  const std::uint64_t fill = random->next();
  for (std::size_t i = 0; i < bytes; ++i) value[i] = static_cast<char>(fill >> (i % 8 * 8));
  return value;
}

}  // namespace breccia::model
