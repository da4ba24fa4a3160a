#include "bench/key_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <string>

#include "base/assert.h"
#include "base/random.h"
#include "bench/stream.h"
#include "bench/ycsb/ycsb.h"

namespace breccia::bench {

namespace {

constexpr std::size_t kNumberBytes = 8;
constexpr std::size_t kPrefixBytesMin = 8;
constexpr std::uint64_t kPrefixes = 256;
constexpr std::size_t kUrlBytesMax = 128;
constexpr std::uint64_t kHostsPerName = 256;

constexpr std::array<std::string_view, 16> kNames = {
    "news",   "shop", "wiki",  "photos", "maps", "music", "forum",   "archive",
    "travel", "code", "games", "recipe", "bank", "video", "weather", "library"};
constexpr std::array<std::string_view, 4> kDomains = {".com/", ".org/", ".de/", ".co.uk/"};
constexpr std::array<std::string_view, 8> kFolders = {
    "articles/", "en/", "2024/", "products/", "images/", "users/", "category/", "a/"};

std::size_t write_url(std::uint64_t number, char* to) {
  const std::uint64_t word = base::mix64(number);
  char* at = to;
  const auto append = [&at](std::string_view text) {
    std::memcpy(at, text.data(), text.size());
    at += text.size();
  };
  append("https://");
  if ((word & 1) != 0) append("www.");
  append(kNames[(word >> 8) % kNames.size()]);
  at = std::to_chars(at, to + kUrlBytesMax, (word >> 12) % kHostsPerName).ptr;
  append(kDomains[(word >> 20) % kDomains.size()]);
  const std::uint64_t depth = (word >> 22) % 4;
  for (std::uint64_t i = 0; i < depth; ++i) append(kFolders[(word >> (24 + 3 * i)) % 8]);
  // The number tells addresses apart: nothing comes behind it.
  return static_cast<std::size_t>(std::to_chars(at, to + kUrlBytesMax, number, 16).ptr - to);
}

std::size_t write_prefixed(std::uint64_t number, std::size_t key_size, char* to) {
  const std::size_t prefix_size = key_size - kNumberBytes;
  std::uint64_t prefix = base::mix64(number) % kPrefixes;
  for (std::size_t i = prefix_size; i > 0; --i, prefix /= 10) {
    to[i - 1] = static_cast<char>('0' + prefix % 10);
  }
  write_key(mix_bits(number, 64), kNumberBytes, to + prefix_size);
  return key_size;
}

int number_bits(std::size_t key_size) {
  return static_cast<int>(8 * std::min(key_size, kNumberBytes));
}

}  // namespace

KeyShape key_shape(std::string_view name) {
  if (name == "uniform") return KeyShape::kUniform;
  if (name == "ycsb") return KeyShape::kYcsb;
  if (name == "prefixed") return KeyShape::kPrefixed;
  if (name == "urls") return KeyShape::kUrls;
  BRECCIA_ASSERT(name == "seq");
  return KeyShape::kSequence;
}

KeySet::KeySet(KeyShape shape, std::size_t key_size, std::uint64_t count)
    : shape_(shape), key_size_(key_size), count_(count) {
  BRECCIA_ASSERT(key_size > 0 && count > 0);
}

Status KeySet::check(bool with_absent) const {
  if (shape_ == KeyShape::kYcsb || shape_ == KeyShape::kUrls) return Status();
  if (shape_ == KeyShape::kPrefixed && key_size_ < kPrefixBytesMin + kNumberBytes) {
    return Status::InvalidArgument(fmt::format("--key_set prefixed needs a --key_size of {} bytes",
                                               kPrefixBytesMin + kNumberBytes));
  }
  const std::uint64_t numbers = with_absent ? 2 * count_ : count_;
  const int bits = number_bits(key_size_);
  if (bits == 64 || numbers <= std::uint64_t{1} << bits) return Status();
  return Status::InvalidArgument(
      fmt::format("{} keys do not fit in --key_size {}", numbers, key_size_));
}

std::size_t KeySet::write(std::uint64_t number, char* to) const {
  BRECCIA_ASSERT(number < count_);
  return write_any(number, to);
}

std::size_t KeySet::write_absent(std::uint64_t number, char* to) const {
  BRECCIA_ASSERT(number < count_);
  if (shape_ != KeyShape::kSequence || key_size_ <= kNumberBytes) {
    return write_any(count_ + number, to);
  }
  const std::size_t size = write_any(number, to);
  to[size - 1] = '1';  // keys of the set end with zeros
  return size;
}

std::size_t KeySet::write_any(std::uint64_t number, char* to) const {
  switch (shape_) {
    case KeyShape::kSequence:
      write_key(number, key_size_, to);
      return key_size_;
    case KeyShape::kUniform:
      write_key(mix_bits(number, number_bits(key_size_)), key_size_, to);
      return key_size_;
    case KeyShape::kYcsb:
      return write_ycsb_key(YcsbWorkload(), number, to);
    case KeyShape::kPrefixed:
      return write_prefixed(number, key_size_, to);
    case KeyShape::kUrls:
      break;
  }
  return write_url(number, to);
}

std::size_t KeySet::size_max() const {
  if (shape_ == KeyShape::kYcsb) return ycsb_key_size_max(YcsbWorkload());
  return shape_ == KeyShape::kUrls ? kUrlBytesMax : key_size_;
}

std::size_t KeySet::size_mean() const {
  constexpr std::uint64_t kLooked = 1024;
  std::string key(size_max(), '\0');
  const std::uint64_t looked = std::min(kLooked, count_);
  std::size_t bytes = looked / 2;
  // Keys from all over the set: the digits of an address grow with its number.
  for (std::uint64_t i = 0; i < looked; ++i) bytes += write(i * (count_ / looked), key.data());
  return bytes / looked;
}

}  // namespace breccia::bench
