#include "runs/cuda/small_search.cuh"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "base/limits.h"
#include "exec/cuda/cuda_tuning.h"
#include "runs/algo/search_wide.cuh"
#include "runs/cuda/search_tuning.h"

namespace breccia::runs::cuda {

namespace {

using exec::cuda::kStagingBytes;

constexpr int kWidth = 32;
/// Columns begin at multiples of this, so that a warp's reads of them are whole lines.
constexpr std::uint64_t kColumnAlignment = 128;

/// Room that columns of a search take in staging memory, at most.
std::uint64_t column_bytes(const QueriesRef& queries) {
  const record::KeyColumnsRef& keys = queries.keys;
  const std::uint64_t columns = 1 + (keys.uniform() ? 0 : 1) + (queries.bound == nullptr ? 0 : 1);
  return (columns * keys.count + keys.tail_count) * sizeof(std::uint64_t) + 4 * kColumnAlignment;
}

/// Room of one column of results.
std::uint64_t found_bytes(const QueriesRef& queries) {
  return base::round_up(queries.keys.count * sizeof(std::uint64_t), kColumnAlignment);
}

/// Results go straight into host memory: the caller's, or the staging memory from `at` on.
class Returned {
 public:
  Returned(CudaExecutor& x, std::uint64_t* host, std::uint64_t n, std::uint64_t at)
      : x_(x),
        host_(host),
        n_(n),
        at_(at),
        reached_(host == nullptr ? nullptr : x.reach(host, n)) {}
  [[nodiscard]] std::uint64_t* on_device() const {
    if (host_ == nullptr || reached_ != nullptr) return reached_;
    return reinterpret_cast<std::uint64_t*>(x_.staging_on_device() + at_);
  }
  /// When the kernel has finished.
  void take() const {
    if (host_ == nullptr || reached_ != nullptr) return;
    std::memcpy(host_, x_.staging() + at_, n_ * sizeof *host_);
  }

 private:
  CudaExecutor& x_;
  std::uint64_t* host_;
  std::uint64_t n_;
  std::uint64_t at_;
  std::uint64_t* reached_;
};

constexpr std::uint64_t kRunTableBytes = limits::kRunsPerSearchMax * sizeof(RunRef);

/// Lays columns out one behind the other in staging memory.
class Packer {
 public:
  /// `base` is where the kernel will read what lies at staging(); `in_place`: columns that the
  /// kernel can reach stay where they are.
  Packer(CudaExecutor& x, const std::byte* base, bool in_place)
      : x_(x), base_(base), in_place_(in_place) {}

  /// The kernel's address of host[count].
  template <class T>
  const T* put(const T* host, std::uint64_t count) {
    if (count == 0) return nullptr;
    if (in_place_) {
      if (const T* const reached = x_.reach(host, count)) return reached;
    }
    const std::uint64_t at = base::round_up(used_, kColumnAlignment);
    used_ = at + count * sizeof(T);
    BRECCIA_ASSERT(used_ <= kStagingBytes);
    std::memcpy(x_.staging() + at, host, count * sizeof(T));
    return reinterpret_cast<const T*>(base_ + at);
  }
  [[nodiscard]] std::uint64_t used() const { return used_; }

 private:
  CudaExecutor& x_;
  const std::byte* base_;
  bool in_place_;
  std::uint64_t used_ = 0;
};

}  // namespace

bool is_small_search(const QueriesRef& queries) {
  return queries.rows == nullptr && queries.keys.count <= kSmallSearchQueriesMax &&
         queries.keys.tail_count < kStagingBytes &&
         column_bytes(queries) + kRunTableBytes + 2 * found_bytes(queries) <= kStagingBytes;
}

Status small_search(CudaExecutor& x, std::span<const RunRef> runs, const QueriesRef& host,
                    const FoundRef& found) {
  BRECCIA_ASSERT(found.payload != nullptr && found.op == nullptr);
  const std::uint64_t n = host.keys.count;
  const bool zero_copy = column_bytes(host) <= kZeroCopyBytesMax;
  std::byte* base = x.staging_on_device();
  if (!zero_copy) {
    BRECCIA_TAKE(base, x.scratch(kStagingBytes));
  }
  Packer packer(x, base, zero_copy);
  QueriesRef queries = host;
  queries.keys.head = packer.put(host.keys.head, n);
  queries.keys.meta = packer.put(host.keys.meta, host.keys.uniform() ? 0 : n);
  queries.keys.tail = packer.put(host.keys.tail, host.keys.tail_count);
  queries.bound = packer.put(host.bound, host.bound == nullptr ? 0 : n);
  const bool is_inline = runs.size() <= algo::kInlineRunsMax;
  const RunRef* const table = is_inline ? nullptr : packer.put(runs.data(), runs.size());

  const std::uint64_t results_at = kStagingBytes - 2 * found_bytes(host);
  BRECCIA_ASSERT(packer.used() <= results_at);
  const Returned payloads(x, found.payload, n, results_at);
  const Returned values(x, found.value, n, results_at + found_bytes(host));
  const FoundRef out{payloads.on_device(), values.on_device()};
  if (!zero_copy) {
    BRECCIA_TRY(x.copy_pinned_in(base, x.staging(), packer.used()));
  }
  if (!is_inline) {
    BRECCIA_TRY((x.launch_blocks<kWidth, kSmallSearchBlockThreads>(
        n, algo::Search{table, static_cast<int>(runs.size()), queries, out})));
  } else if (n <= kWideSearchQueriesMax) {
    const algo::InlineSearch<algo::SearchWide> search(runs, queries, out);
    BRECCIA_TRY((
        x.launch_blocks<kWideSearchWidth, kSmallSearchBlockThreads>(n * kWideSearchWidth, search)));
  } else {
    const algo::InlineSearch<algo::Search> search(runs, queries, out);
    BRECCIA_TRY((x.launch_blocks<kWidth, kSmallSearchBlockThreads>(n, search)));
  }
  BRECCIA_TRY(x.finish());
  payloads.take();
  values.take();
  return Status::OK();
}

}  // namespace breccia::runs::cuda
