#include "batch/key_parts.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <utility>

#include "base/assert.h"
#include "base/parallel.h"
#include "base/random.h"

namespace breccia::batch {

namespace {

constexpr int kDigitBits = 8;
/// Fewer are sorted by comparing: digits would be counted for longer.
constexpr std::size_t kDigitKeysMin = 128;

using Lists = std::span<const std::vector<std::uint32_t>>;

std::uint64_t total(Lists lists) {
  std::uint64_t sum = 0;
  for (const auto& list : lists) sum += list.size();
  return sum;
}

}  // namespace

KeyParts::KeyParts(const record::KeyColumnsRef& keys, Lists chosen, std::uint64_t parts)
    : columns_(keys),
      keys_(std::make_unique_for_overwrite<Key[]>(total(chosen))),
      room_(std::make_unique_for_overwrite<Key[]>(total(chosen))),
      ends_(parts, 0) {
  BRECCIA_ASSERT(parts > 0 && parts <= kPartsMax);
  if (parts > 1 && total(chosen) > 0) {
    divide(chosen, choose_bounds(chosen, parts));
    return;
  }
  Key* out = keys_.get();
  for (const auto& list : chosen) {
    for (const std::uint32_t index : list) *out++ = key_at(index);
  }
  std::fill(ends_.begin(), ends_.end(), out - keys_.get());
}

/// The keys with which parts but the first begin: quantiles of a sample.
std::vector<KeyParts::Key> KeyParts::choose_bounds(Lists chosen, std::uint64_t parts) const {
  constexpr std::uint64_t kSamplesPerPart = 8;
  const std::uint64_t count = parts * kSamplesPerPart;
  std::vector<Key> samples;
  samples.reserve(count);
  const std::uint64_t keys = total(chosen);
  BRECCIA_ASSERT(keys > 0);
  auto list = chosen.begin();
  std::uint64_t list_end = list->size();
  for (std::uint64_t i = 0; i < count; ++i) {
    // One of each stretch of the keys, but not at equal distances: arrival may have a rhythm.
    const std::uint64_t begin = keys * i / count;
    const std::uint64_t length = std::max<std::uint64_t>(keys * (i + 1) / count - begin, 1);
    const std::uint64_t at = begin + base::mix64(i) % length;
    while (at >= list_end) list_end += (++list)->size();
    samples.push_back(key_at((*list)[at - (list_end - list->size())]));
  }
  std::sort(samples.begin(), samples.end(),
            [this](const Key& left, const Key& right) { return is_less(left, right); });
  for (std::uint64_t part = 1; part < parts; ++part) {
    samples[part - 1] = samples[part * kSamplesPerPart];
  }
  samples.resize(parts - 1);
  BRECCIA_INVARIANT(
      std::is_sorted(samples.begin(), samples.end(),
                     [this](const Key& left, const Key& right) { return is_less(left, right); }));
  return samples;
}

void KeyParts::divide(Lists chosen, const std::vector<Key>& bounds) {
  const std::uint64_t parts = ends_.size();
  std::vector<std::vector<std::uint16_t>> part_of(chosen.size());
  // Of list l and part p at [l * parts + p]: how many there are, then where the next one goes.
  std::vector<std::uint64_t> places(chosen.size() * parts, 0);
  for (std::size_t l = 0; l < chosen.size(); ++l) part_of[l].resize(chosen[l].size());
  base::parallel_for(std::size_t{0}, chosen.size(), [&](std::size_t l) {
    for (std::size_t i = 0; i < chosen[l].size(); ++i) {
      const auto above = std::upper_bound(
          bounds.begin(), bounds.end(), key_at(chosen[l][i]),
          [this](const Key& left, const Key& right) { return is_less(left, right); });
      const auto part = static_cast<std::uint16_t>(above - bounds.begin());
      part_of[l][i] = part;
      ++places[l * parts + part];
    }
  });
  std::uint64_t sum = 0;
  for (std::uint64_t part = 0; part < parts; ++part) {
    for (std::size_t l = 0; l < chosen.size(); ++l) {
      sum += std::exchange(places[l * parts + part], sum);
    }
    ends_[part] = sum;
  }
  BRECCIA_ASSERT(sum == total(chosen));
  base::parallel_for(std::size_t{0}, chosen.size(), [&](std::size_t l) {
    for (std::size_t i = 0; i < chosen[l].size(); ++i) {
      keys_[places[l * parts + part_of[l][i]]++] = key_at(chosen[l][i]);
    }
  });
}

std::span<const KeyParts::Key> KeyParts::sort(std::uint64_t i) {
  BRECCIA_ASSERT(i < count());
  const std::span<Key> keys = keys_of(i);
  const auto less = [this](const Key& left, const Key& right) { return is_less(left, right); };
  if (keys.size() < kDigitKeysMin) {
    std::sort(keys.begin(), keys.end(), less);
    return keys;
  }
  const int shift = sort_by_digits(keys, {room_.get() + (keys.data() - keys_.get()), keys.size()});
  for (auto begin = keys.begin(); begin != keys.end();) {
    const auto end = std::find_if(begin + 1, keys.end(), [&](const Key& key) {
      return key.head >> shift != begin->head >> shift;
    });
    if (end - begin > 1) std::sort(begin, end, less);
    begin = end;
  }
  return keys;
}

/// Sorts by two digits of the heads, from the highest bit on in which any two differ. Returns how
/// many bits of a head are below those.
int KeyParts::sort_by_digits(std::span<Key> keys, std::span<Key> room) {
  std::uint64_t differing = 0;
  for (const Key& key : keys) differing |= key.head ^ keys[0].head;
  const int shift = std::max(0, 64 - std::countl_zero(differing) - 2 * kDigitBits);
  constexpr std::uint64_t kMask = (1 << kDigitBits) - 1;
  for (int pass = 0; pass < 2; ++pass) {
    const int by = shift + pass * kDigitBits;
    std::array<std::uint32_t, kMask + 1> place{};
    for (const Key& key : keys) ++place[key.head >> by & kMask];
    std::exclusive_scan(place.begin(), place.end(), place.begin(), std::uint32_t{0});
    for (const Key& key : keys) room[place[key.head >> by & kMask]++] = key;
    std::swap(keys, room);
  }
  return shift;
}

}  // namespace breccia::batch
