#include <cstring>
#include <map>
#include <mutex>

#include "base/random.h"
#include "exec/calibrate.h"
#include "exec/cuda/cuda_calibrate.cuh"
#include "exec/cuda/cuda_device.cuh"

namespace breccia::exec::cuda {

namespace {

constexpr std::uint64_t kCopyBytes = 16 << 20;
constexpr std::uint64_t kCopyWords = kCopyBytes / sizeof(std::uint64_t);
constexpr std::uint64_t kRowWords = 16;
constexpr std::uint64_t kHostBytes = 64 << 20;
constexpr std::uint64_t kRows = kHostBytes / (kRowWords * sizeof(std::uint64_t));
constexpr std::uint64_t kRowsRead = 1 << 16;
constexpr int kTimes = 4;
constexpr int kLaunches = 32;

struct Nothing {
  template <class Group>
  __device__ void operator()(const Group&, std::uint64_t) const {}
};

/// to[i] = from[i]
struct CopyWords {
  const std::uint64_t* from;
  std::uint64_t count;
  std::uint64_t* to;
  template <class Group>
  __device__ void operator()(const Group& group, std::uint64_t first) const {
    each_item(group, first, count, [&](std::uint64_t i) { to[i] = from[i]; });
  }
};

/// A group of kRowWords lanes copies one random row.
struct CopyRandomRows {
  const std::uint64_t* rows;
  std::uint64_t* to;
  template <class Group>
  __device__ void operator()(const Group& group, std::uint64_t first) const {
    const std::uint64_t row = base::mix64(first / kRowWords) % kRows;
    group.each_lane([&](int lane) {
      const auto word = static_cast<std::uint64_t>(lane);
      to[first + word] = rows[row * kRowWords + word];
    });
  }
};

/// The shortest time of `operation` and the wait for it. The first error ends it.
template <class Operation>
Result<double> shortest_operation(CudaExecutor& x, int times, const Operation& operation) {
  Status status;
  const double seconds = shortest_seconds(times, [&] {
    if (status.ok()) status = operation();
    if (status.ok()) status = x.finish();
  });
  BRECCIA_TRY(status);
  return seconds;
}

Result<Calibration> measure_now(CudaDevice& device, CudaExecutor& x) {
  HostRanges ranges;
  PinnedPool pinned(2 * kHostBytes, ranges, device);
  BRECCIA_TAKE(const Array<std::uint64_t> host,
               Array<std::uint64_t>::make(pinned, kHostBytes / sizeof(std::uint64_t)));
  BRECCIA_TAKE(const Array<std::uint64_t> words, Array<std::uint64_t>::make(x.pool(), kCopyWords));
  const auto* const mapped =
      static_cast<const std::uint64_t*>(ranges.find(host.data(), host.bytes()));
  std::memset(host.data(), 0, host.bytes());

  BRECCIA_TAKE(const double launch,
               shortest_operation(x, kLaunches, [&] { return x.launch<32>(32, Nothing{}); }));
  BRECCIA_TAKE(const double copy_in, shortest_operation(x, kTimes, [&] {
                 return x.copy_pinned_in(words.data(), host.data(), kCopyBytes);
               }));
  BRECCIA_TAKE(const double copy_out, shortest_operation(x, kTimes, [&] {
                 return BRECCIA_CUDA_STATUS(cudaMemcpyAsync(host.data(), words.data(), kCopyBytes,
                                                            cudaMemcpyDeviceToHost, x.stream()));
               }));
  BRECCIA_TAKE(const double zero_copy, shortest_operation(x, kTimes, [&] {
                 return x.launch<32>(kCopyWords, CopyWords{mapped, kCopyWords, words.data()});
               }));
  BRECCIA_TAKE(
      const double random, shortest_operation(x, kTimes, [&] {
        return x.launch<kRowWords>(kRowsRead * kRowWords, CopyRandomRows{mapped, words.data()});
      }));
  Calibration result = host_calibration();
  result.launch_us = launch * 1e6;
  result.copy_in_bytes_per_s = kCopyBytes / copy_in;
  result.copy_out_bytes_per_s = kCopyBytes / copy_out;
  result.zero_copy_bytes_per_s = kCopyBytes / zero_copy;
  result.zero_copy_accesses_per_s = kRowsRead / random;
  return result;
}

}  // namespace

Result<Calibration> measure(CudaDevice& device, CudaExecutor& x) {
  static std::mutex mutex;
  static std::map<int, Calibration> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(device.number());
  if (found != known.end()) return found->second;
  BRECCIA_TAKE(const Calibration measured, measure_now(device, x));
  known.emplace(device.number(), measured);
  return measured;
}

}  // namespace breccia::exec::cuda
