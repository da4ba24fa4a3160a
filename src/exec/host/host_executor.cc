#include "exec/host/host_executor.h"
#include "base/parallel.h"

#include <tbb/info.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

namespace breccia::exec::host {

namespace {

constexpr int kDigits = 8;
constexpr int kBuckets = 256;

/// Keys and their ids, and work space of the same shape.
struct Pairs {
  std::uint64_t* keys;
  std::uint32_t* ids;
  std::uint64_t* keys_work;
  std::uint32_t* ids_work;

  [[nodiscard]] Pairs from(std::uint64_t i) const {
    return {keys + i, ids + i, keys_work + i, ids_work + i};
  }
};

/// Shifts that bring the bytes in which keys differ to the lowest, from the least significant on.
struct Digits {
  std::array<int, kDigits> shift{};
  int count = 0;

  Digits(const std::uint64_t* keys, std::uint64_t n) {
    std::uint64_t differing = 0;
    for (std::uint64_t i = 0; i < n; ++i) differing |= keys[i] ^ keys[0];
    for (int digit = 0; digit < kDigits; ++digit) {
      if ((differing >> 8 * digit & 0xff) != 0) shift[count++] = 8 * digit;
    }
  }
};

/// Sorts by the digits [first, last), the least significant first.
/// Cost    a counting pass, and a scatter pass each.
void sort_by(const Digits& digits, int first, int last, std::uint64_t n, const Pairs& pairs) {
  std::array<std::array<std::uint32_t, kBuckets>, kDigits> buckets;
  for (int digit = first; digit < last; ++digit) buckets[digit].fill(0);
  for (std::uint64_t i = 0; i < n; ++i) {
    for (int digit = first; digit < last; ++digit) {
      ++buckets[digit][pairs.keys[i] >> digits.shift[digit] & 0xff];
    }
  }
  Pairs now = pairs;
  for (int digit = first; digit < last; ++digit) {
    std::uint32_t begin = 0;
    for (std::uint32_t& entry : buckets[digit]) begin += std::exchange(entry, begin);
    for (std::uint64_t i = 0; i < n; ++i) {
      const std::uint32_t to = buckets[digit][now.keys[i] >> digits.shift[digit] & 0xff]++;
      now.keys_work[to] = now.keys[i];
      now.ids_work[to] = now.ids[i];
    }
    std::swap(now.keys, now.keys_work);
    std::swap(now.ids, now.ids_work);
  }
  if (now.keys == pairs.keys) return;
  std::memcpy(pairs.keys, now.keys, n * sizeof *now.keys);
  std::memcpy(pairs.ids, now.ids, n * sizeof *now.ids);
}

/// Stable, of few.
void insertion_sort(std::uint64_t n, const Pairs& pairs) {
  for (std::uint64_t i = 1; i < n; ++i) {
    const std::uint64_t key = pairs.keys[i];
    const std::uint32_t id = pairs.ids[i];
    std::uint64_t to = i;
    for (; to > 0 && pairs.keys[to - 1] > key; --to) {
      pairs.keys[to] = pairs.keys[to - 1];
      pairs.ids[to] = pairs.ids[to - 1];
    }
    pairs.keys[to] = key;
    pairs.ids[to] = id;
  }
}

/// Most significant digits by which n random keys are told apart, but for few.
int telling_digits(std::uint64_t n) { return (static_cast<int>(std::bit_width(n)) + 3 + 7) / 8; }

}  // namespace

void radix_sort(std::uint64_t* keys, std::uint32_t* ids, std::uint64_t* keys_work,
                std::uint32_t* ids_work, std::uint64_t n) {
  BRECCIA_ASSERT(n < (std::uint64_t{1} << 32));
  constexpr std::uint64_t kFew = 64;
  const Pairs pairs{keys, ids, keys_work, ids_work};
  const Digits digits(keys, n);
  // Keys that the first digits do not tell apart are neighbours then.
  const int first = std::max(0, digits.count - telling_digits(n));
  sort_by(digits, first, digits.count, n, pairs);
  if (first == 0) return;
  const int shift = digits.shift[first];
  for (std::uint64_t begin = 0; begin < n;) {
    std::uint64_t end = begin + 1;
    while (end < n && keys[end] >> shift == keys[begin] >> shift) ++end;
    if (end - begin > kFew) {
      sort_by(digits, 0, first, end - begin, pairs.from(begin));
    } else {
      insertion_sort(end - begin, pairs.from(begin));
    }
    begin = end;
  }
}

namespace {

/// Merges two neighbouring sorted ranges of pairs into `out`, the first one's equals first.
void merge_pairs(const std::uint64_t* keys, const std::uint32_t* ids, std::uint64_t middle,
                 std::uint64_t n, std::uint64_t* keys_out, std::uint32_t* ids_out) {
  std::uint64_t a = 0;
  std::uint64_t b = middle;
  for (std::uint64_t out = 0; out < n; ++out) {
    const bool take_a = b == n || (a < middle && keys[a] <= keys[b]);
    const std::uint64_t from = take_a ? a++ : b++;
    keys_out[out] = keys[from];
    ids_out[out] = ids[from];
  }
}

}  // namespace

Status HostExecutor::sort_pairs(std::uint64_t* keys, std::uint32_t* ids, std::uint64_t n) {
  BRECCIA_TAKE(const Array<std::uint64_t> keys_work, Array<std::uint64_t>::make(pool_, n));
  BRECCIA_TAKE(const Array<std::uint32_t> ids_work, Array<std::uint32_t>::make(pool_, n));
  constexpr std::uint64_t kPartMin = 128 << 10;
  const auto cores = static_cast<std::uint64_t>(tbb::info::default_concurrency());
  const std::uint64_t parts = std::bit_floor(std::clamp<std::uint64_t>(n / kPartMin, 1, cores));
  const auto edge = [&](std::uint64_t part) { return n * part / parts; };
  base::parallel_for(std::uint64_t{0}, parts, [&](std::uint64_t part) {
    const std::uint64_t begin = edge(part);
    radix_sort(keys + begin, ids + begin, keys_work.data() + begin, ids_work.data() + begin,
               edge(part + 1) - begin);
  });
  auto* from_keys = keys;
  auto* from_ids = ids;
  auto* to_keys = keys_work.data();
  auto* to_ids = ids_work.data();
  for (std::uint64_t width = 1; width < parts; width *= 2) {
    base::parallel_for(std::uint64_t{0}, parts / (2 * width), [&](std::uint64_t pair) {
      const std::uint64_t begin = edge(pair * 2 * width);
      const std::uint64_t middle = edge(pair * 2 * width + width);
      const std::uint64_t end = edge((pair + 1) * 2 * width);
      merge_pairs(from_keys + begin, from_ids + begin, middle - begin, end - begin, to_keys + begin,
                  to_ids + begin);
    });
    std::swap(from_keys, to_keys);
    std::swap(from_ids, to_ids);
  }
  if (from_keys != keys) {
    BRECCIA_TRY(copy(keys, from_keys, n));
    BRECCIA_TRY(copy(ids, from_ids, n));
  }
  return Status::OK();
}

Status HostExecutor::exclusive_scan(const std::uint64_t* in, std::uint64_t* out, std::uint64_t n,
                                    std::uint64_t* total) {
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < n; ++i) {
    const std::uint64_t own = in[i];
    out[i] = sum;
    sum += own;
  }
  *total = sum;
  return Status::OK();
}

Status HostExecutor::select(const std::uint32_t* in, const std::uint8_t* flags, std::uint64_t n,
                            std::uint32_t* out, std::uint64_t* count) {
  std::uint64_t kept = 0;
  for (std::uint64_t i = 0; i < n; ++i) {
    if (flags[i] != 0) out[kept++] = in[i];
  }
  *count = kept;
  return Status::OK();
}

Status HostExecutor::difference(const std::uint64_t* words, std::uint64_t n, std::uint64_t* bits) {
  std::uint64_t result = 0;
  for (std::uint64_t i = 1; i < n; ++i) result |= words[i] ^ words[0];
  *bits = result;
  return Status::OK();
}

}  // namespace breccia::exec::host
