#include "exec/host/host_executor.h"
#include "base/parallel.h"

#include <tbb/info.h>

#include <array>
#include <bit>
#include <cstring>
#include <utility>

namespace breccia::exec::host {

namespace {

constexpr int kDigits = 8;
constexpr int kBuckets = 256;
using Histogram = std::array<std::array<std::uint32_t, kBuckets>, kDigits>;

void count_digits(const std::uint64_t* keys, std::uint64_t n, Histogram* histogram) {
  for (std::uint64_t i = 0; i < n; ++i) {
    std::uint64_t key = keys[i];
    for (int digit = 0; digit < kDigits; ++digit, key >>= 8) ++(*histogram)[digit][key & 0xff];
  }
}

}  // namespace

void radix_sort(std::uint64_t* keys, std::uint32_t* ids, std::uint64_t* keys_work,
                std::uint32_t* ids_work, std::uint64_t n) {
  BRECCIA_ASSERT(n < (std::uint64_t{1} << 32));
  auto* const own_keys = keys;
  auto* const own_ids = ids;
  Histogram histogram{};
  count_digits(keys, n, &histogram);
  for (int digit = 0; digit < kDigits; ++digit) {
    const int shift = 8 * digit;
    auto& bucket = histogram[digit];
    if (n == 0 || bucket[keys[0] >> shift & 0xff] == n) continue;  // the byte is the same in all
    std::uint32_t begin = 0;
    for (std::uint32_t& entry : bucket) begin += std::exchange(entry, begin);
    for (std::uint64_t i = 0; i < n; ++i) {
      const std::uint32_t to = bucket[keys[i] >> shift & 0xff]++;
      keys_work[to] = keys[i];
      ids_work[to] = ids[i];
    }
    std::swap(keys, keys_work);
    std::swap(ids, ids_work);
  }
  if (keys != own_keys) {
    std::memcpy(own_keys, keys, n * sizeof *keys);
    std::memcpy(own_ids, ids, n * sizeof *ids);
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
