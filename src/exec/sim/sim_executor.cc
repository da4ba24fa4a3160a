#include "exec/sim/sim_executor.h"

#include <tuple>
#include <vector>

namespace breccia::exec::sim {

Status SimExecutor::sort_pairs(std::uint64_t* keys, std::uint32_t* ids, std::uint64_t n) {
  check_own(keys, n);
  check_own(ids, n);
  std::vector<std::pair<std::uint64_t, std::uint32_t>> pairs(n);
  for (std::uint64_t i = 0; i < n; ++i) pairs[i] = {keys[i], ids[i]};
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (std::uint64_t i = 0; i < n; ++i) std::tie(keys[i], ids[i]) = pairs[i];
  return Status::OK();
}

Status SimExecutor::exclusive_scan(const std::uint64_t* in, std::uint64_t* out, std::uint64_t n,
                                   std::uint64_t* total) {
  check_own(in, n);
  check_own(out, n);
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < n; ++i) {
    const std::uint64_t own = in[i];
    out[i] = sum;
    sum += own;
  }
  *total = sum;
  return Status::OK();
}

Status SimExecutor::select(const std::uint32_t* in, const std::uint8_t* flags, std::uint64_t n,
                           std::uint32_t* out, std::uint64_t* count) {
  check_own(in, n);
  check_own(flags, n);
  check_own(out, n);
  std::uint64_t kept = 0;
  for (std::uint64_t i = 0; i < n; ++i) {
    if (flags[i] != 0) out[kept++] = in[i];
  }
  *count = kept;
  return Status::OK();
}

Status SimExecutor::difference(const std::uint64_t* words, std::uint64_t n, std::uint64_t* bits) {
  check_own(words, n);
  std::uint64_t result = 0;
  for (std::uint64_t i = 1; i < n; ++i) result |= words[i] ^ words[0];
  *bits = result;
  return Status::OK();
}

}  // namespace breccia::exec::sim
