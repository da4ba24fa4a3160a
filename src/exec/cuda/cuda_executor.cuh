#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/assert.h"
#include "base/result.h"
#include "exec/cuda/cuda_error.h"
#include "exec/cuda/cuda_tuning.h"
#include "exec/executor.h"
#include "exec/group.h"
#include "exec/pool.h"

namespace breccia::exec::cuda {

class CudaDevice;

/// A copy of host memory on the device.
template <class T>
class Imported {
 public:
  explicit Imported(Array<T> copy) : copy_(std::move(copy)) {}
  [[nodiscard]] const T* data() const { return copy_.data(); }

 private:
  Array<T> copy_;
};

/// F::kBlocksMin<W>, if it is there: how many blocks fit onto a multiprocessor at least, which
/// bounds a thread's registers. 0: the compiler's choice.
template <int W, class F>
constexpr int blocks_min_of() {
  if constexpr (requires { F::template kBlocksMin<W>; }) {
    return F::template kBlocksMin<W>;
  } else {
    return 0;
  }
}

/// One thread per lane; a group whose items all lie behind the last ends at once.
template <int W, int BlockThreads, class F>
__global__ void __launch_bounds__(BlockThreads, (blocks_min_of<W, F>()))
    run_groups(const __grid_constant__ F functor, std::uint64_t count) {
  const std::uint64_t thread = std::uint64_t{blockIdx.x} * BlockThreads + threadIdx.x;
  const std::uint64_t first = thread / W * W;
  if (first < count) functor(CudaGroup<W>{}, first);
}

/// Runs algorithms on one stream of the device; see exec/executor.h for the contract.
/// Operations are in order on the stream; those that answer on the host wait for it.
/// Errors  every operation: IOError, MemoryLimit. It has waited for the stream then, and if the
///         device is beyond use, the CudaDevice knows.
/// Threads one owner.
class CudaExecutor {
 public:
  static constexpr bool kIsHost = false;
  static constexpr bool kIsAsync = true;
  static constexpr std::uint64_t kCountedMax = cuda::kCountedMax;

  /// Errors  IOError, MemoryLimit.
  static Result<std::unique_ptr<CudaExecutor>> make(CudaDevice& device, Pool& pool,
                                                    bool waits_asleep);
  ~CudaExecutor();
  CudaExecutor(const CudaExecutor&) = delete;
  CudaExecutor& operator=(const CudaExecutor&) = delete;

  [[nodiscard]] Pool& pool() { return pool_; }
  /// For whoever puts work into it.
  [[nodiscard]] cudaStream_t stream() {
    BRECCIA_ASSERT(!has_left_);
    has_work_ = true;
    return current_;
  }

  template <int W, class F>
  Status launch(std::uint64_t count, const F& functor) {
    if constexpr (requires { F::kBlockThreads; }) {
      return launch_blocks<W, F::kBlockThreads>(count, functor);
    } else {
      return launch_blocks<W, kBlockThreads>(count, functor);
    }
  }
  template <int W, int BlockThreads, class F>
  Status launch_blocks(std::uint64_t count, const F& functor) {
    static_assert(BlockThreads % 32 == 0);
    if (count == 0) return Status::OK();
    const std::uint64_t blocks = (count + BlockThreads - 1) / BlockThreads;
    BRECCIA_ASSERT(blocks < std::uint64_t{1} << 31);
    run_groups<W, BlockThreads, F>
        <<<static_cast<unsigned>(blocks), BlockThreads, 0, stream()>>>(functor, count);
    return settle(BRECCIA_CUDA_STATUS(cudaGetLastError()));
  }

  Status sort_pairs(std::uint64_t* keys, std::uint32_t* ids, std::uint64_t n);

  /// Both stand in exec/cuda/cuda_sort.cuh.
  template <class Less>
  Status stable_sort(std::uint32_t* ids, std::uint64_t n, const Less& less);
  template <class Less>
  Status merge(const std::uint32_t* a, std::uint64_t a_count, const std::uint32_t* b,
               std::uint64_t b_count, std::uint32_t* out, const Less& less);

  Status exclusive_scan(const std::uint64_t* in, std::uint64_t* out, std::uint64_t n,
                        std::uint64_t* total);
  Status select(const std::uint32_t* in, const std::uint8_t* flags, std::uint64_t n,
                std::uint32_t* out, std::uint64_t* count);
  Status difference(const std::uint64_t* words, std::uint64_t n, std::uint64_t* bits);

  /// Always copies: sorts and gathers read in random order, which the bus is slow at.
  template <class T>
  Result<Imported<T>> import(const T* host, std::uint64_t n) {
    auto copy = Array<T>::make(pool(), n);
    if (!copy.ok()) return settle(copy.status());
    BRECCIA_TRY(copy_in(copy.value().data(), host, n * sizeof(T)));
    return Imported<T>(copy.take());
  }
  template <class T>
  Status copy(T* to, const T* from, std::uint64_t n) {
    return copy_within(to, from, n * sizeof(T));
  }
  template <class T>
  Status copy_out(T* host, const T* from, std::uint64_t n) {
    return copy_bytes_out(host, from, n * sizeof(T));
  }
  [[nodiscard]] std::uint64_t* words() { return words_ + kAnswerWords; }
  template <class T>
  T* reach(T* host) const {
    return reach(host, 1);
  }
  template <class T>
  T* reach(T* host, std::uint64_t n) const {
    return static_cast<T*>(find_mapped(host, n * sizeof(T)));
  }
  Status select_here(const std::uint32_t* in, const std::uint8_t* flags, std::uint64_t n,
                     std::uint32_t* out, std::uint64_t* count);
  Status make_room_to_select(std::uint64_t n);
  /// Errors  InvalidArgument also: no stream of this device, or one that is captured.
  Status follow(void* stream);
  /// The stream may be destroyed behind leave().
  /// Errors  as follow().
  Status enter(void* stream);
  Status leave();
  Status finish();
  [[nodiscard]] bool has_work() const { return has_work_; }
  /// Whether it is in a caller's stream, between enter() and finish() or a failure.
  [[nodiscard]] bool is_away() const { return current_ != stream_; }
  /// Whether finish() has nothing to wait for, or an error to tell.
  [[nodiscard]] bool is_done() const;

  /// Pinned memory of kStagingBytes, free between finish() and the next import or copy_out.
  [[nodiscard]] std::byte* staging() { return staging_; }
  /// The same where kernels read and write it.
  [[nodiscard]] std::byte* staging_on_device() { return staging_on_device_; }
  /// Work space, valid until the next call that takes work space or finishes.
  Result<std::byte*> scratch(std::size_t bytes);
  /// Copies from pinned host memory.
  Status copy_pinned_in(void* to, const void* host, std::size_t bytes);

 private:
  /// Words in which operations that answer at once do so, before those of words().
  static constexpr std::uint64_t kAnswerWords = 2;
  static constexpr std::uint64_t kPinnedWords = kAnswerWords + kWords;

  CudaExecutor(CudaDevice& device, Pool& pool, bool waits_asleep)
      : device_(device), pool_(pool), waits_asleep_(waits_asleep) {}

  Status open();
  /// Waits for all work.
  cudaError_t wait();
  /// The same, not asleep.
  cudaError_t wait_awake();
  /// Behind such a wait.
  void come_home();
  /// Notes in before_ what a caller's stream has to do.
  Status note_before(cudaStream_t of_caller);
  [[nodiscard]] void* find_mapped(const void* host, std::size_t bytes) const;
  Status settle(Status status);
  Status copy_in(void* to, const void* host, std::size_t bytes);
  Status copy_within(void* to, const void* from, std::size_t bytes);
  Status copy_bytes_out(void* host, const void* from, std::size_t bytes);
  Status fetch_word(std::uint64_t* word);
  Status stage_in(std::byte* to, const std::byte* host, std::size_t bytes);
  Status stage_out(std::byte* host, const std::byte* from, std::size_t bytes);

  /// Calls a CUB function twice: for the size of its work space, then with it.
  template <class Call>
  Status with_scratch(const Call& call) {
    std::size_t bytes = 0;
    BRECCIA_TRY(settle(BRECCIA_CUDA_STATUS(call(nullptr, bytes))));
    BRECCIA_TAKE(std::byte* const memory, scratch(bytes));
    return settle(BRECCIA_CUDA_STATUS(call(memory, bytes)));
  }

  CudaDevice& device_;
  Pool& pool_;
  const bool waits_asleep_;
  cudaStream_t stream_ = nullptr;
  cudaStream_t current_ = nullptr;  // where work goes: that, or a caller's
  bool has_work_ = false;           // that nobody has waited for
  bool has_left_ = false;           // a caller's stream, in which the work ends with done_
  cudaEvent_t done_ = nullptr;      // what a thread sleeps for
  cudaEvent_t before_ = nullptr;    // of a caller's stream
  cudaEvent_t half_done_[2] = {nullptr, nullptr};
  int half_ = 0;
  std::byte* staging_ = nullptr;
  std::byte* staging_on_device_ = nullptr;
  std::uint64_t* words_ = nullptr;  // pinned: what the device answers
  Array<std::uint64_t> words_on_device_;
  Array<std::byte> scratch_;
};

}  // namespace breccia::exec::cuda
