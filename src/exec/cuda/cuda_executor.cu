#include <algorithm>
#include <cstring>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_scan.cuh>
#include <cub/device/device_select.cuh>

#include "base/bytes.h"
#include "exec/cuda/cuda_device.cuh"

namespace breccia::exec::cuda {

namespace {

struct DifferenceFromFirst {
  const std::uint64_t* words;
  __device__ std::uint64_t operator()(std::uint64_t word) const { return word ^ words[0]; }
};

struct BitOr {
  __device__ std::uint64_t operator()(std::uint64_t a, std::uint64_t b) const { return a | b; }
};

/// Whether what comes next in a stream waits for what is in it alone. The default stream waits for
/// others, and others for it.
bool waits_for_nobody(cudaStream_t stream) {
  unsigned flags = 0;
  if (cudaStreamGetFlags(stream, &flags) == cudaSuccess) return flags == cudaStreamNonBlocking;
  (void)cudaGetLastError();
  return false;
}

/// True also of what is no stream.
bool is_captured(cudaStream_t stream) {
  auto status = cudaStreamCaptureStatusNone;
  const cudaError_t said = cudaStreamIsCapturing(stream, &status);
  if (said != cudaSuccess) (void)cudaGetLastError();
  return said != cudaSuccess || status != cudaStreamCaptureStatusNone;
}

/// False also where the driver cannot say.
bool has_nothing_to_do(cudaStream_t stream) {
  const cudaError_t said = cudaStreamQuery(stream);
  if (said != cudaSuccess) (void)cudaGetLastError();  // "not ready" is no error of what comes next
  return said == cudaSuccess;
}

}  // namespace

Result<std::unique_ptr<CudaExecutor>> CudaExecutor::make(CudaDevice& device, Pool& pool,
                                                         bool waits_asleep) {
  std::unique_ptr<CudaExecutor> executor(new CudaExecutor(device, pool, waits_asleep));
  BRECCIA_TRY(executor->open());
  return Result<std::unique_ptr<CudaExecutor>>(std::move(executor));
}

Status CudaExecutor::open() {
  BRECCIA_CUDA_TRY(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  current_ = stream_;
  const unsigned flags = cudaEventDisableTiming | (waits_asleep_ ? cudaEventBlockingSync : 0U);
  for (cudaEvent_t* const event : {&half_done_[0], &half_done_[1], &done_, &before_}) {
    BRECCIA_CUDA_TRY(cudaEventCreateWithFlags(event, flags));
  }
  PinnedPool& pinned = device_.pinned();
  staging_ = static_cast<std::byte*>(pinned.allocate(kStagingBytes));
  words_ = static_cast<std::uint64_t*>(pinned.allocate(kPinnedWords * sizeof *words_));
  if (staging_ == nullptr || words_ == nullptr) {
    return Status::MemoryLimit("no pinned memory for an executor");
  }
  staging_on_device_ = static_cast<std::byte*>(find_mapped(staging_, kStagingBytes));
  BRECCIA_TAKE(words_on_device_, Array<std::uint64_t>::make(pool(), kPinnedWords));
  return Status::OK();
}

CudaExecutor::~CudaExecutor() {
  // On a lost device these fail, and there is nothing left to give back.
  if (stream_ != nullptr) {
    (void)BRECCIA_CUDA_STATUS(cudaStreamSynchronize(stream_));
    (void)BRECCIA_CUDA_STATUS(cudaStreamDestroy(stream_));
  }
  for (const cudaEvent_t event : {half_done_[0], half_done_[1], done_, before_}) {
    if (event != nullptr) (void)BRECCIA_CUDA_STATUS(cudaEventDestroy(event));
  }
  PinnedPool& pinned = device_.pinned();
  if (staging_ != nullptr) pinned.release(staging_, kStagingBytes);
  if (words_ != nullptr) pinned.release(words_, kPinnedWords * sizeof *words_);
}

cudaError_t CudaExecutor::wait() {
  if (has_left_ || !waits_asleep_) return wait_awake();
  const cudaError_t recorded = cudaEventRecord(done_, current_);
  return recorded == cudaSuccess ? cudaEventSynchronize(done_) : recorded;
}

cudaError_t CudaExecutor::wait_awake() {
  return has_left_ ? cudaEventSynchronize(done_) : cudaStreamSynchronize(current_);
}

// An operation failed: waits for the stream, so that the caller may give memory back. An error that
// is still there after it was cleared is the device's, not this operation's.
Status CudaExecutor::settle(Status status) {
  if (status.ok()) return status;
  Status waited = BRECCIA_CUDA_STATUS(wait_awake());
  if (!waited.ok()) waited = BRECCIA_CUDA_STATUS(wait_awake());
  come_home();
  if (waited.ok()) return status;
  device_.lose(waited);
  return waited;
}

void CudaExecutor::come_home() {
  current_ = stream_;
  has_left_ = false;
  has_work_ = false;
}

void* CudaExecutor::find_mapped(const void* host, std::size_t bytes) const {
  return device_.ranges().find(host, bytes);
}

Status CudaExecutor::follow(void* stream) {
  const auto of_caller = static_cast<cudaStream_t>(stream);
  // An event would cost some microseconds, here and on the device.
  if (!is_captured(of_caller) && waits_for_nobody(of_caller) && has_nothing_to_do(of_caller)) {
    return Status::OK();
  }
  BRECCIA_TRY(note_before(of_caller));
  return settle(BRECCIA_CUDA_STATUS(cudaStreamWaitEvent(this->stream(), before_, 0)));
}

Status CudaExecutor::enter(void* stream) {
  BRECCIA_ASSERT(!is_away());
  if (has_work_) BRECCIA_TRY(finish());
  const auto of_caller = static_cast<cudaStream_t>(stream);
  BRECCIA_TRY(note_before(of_caller));  // whether work may go there
  current_ = of_caller;
  has_work_ = true;
  return Status::OK();
}

Status CudaExecutor::leave() {
  BRECCIA_ASSERT(is_away());
  BRECCIA_TRY(settle(BRECCIA_CUDA_STATUS(cudaEventRecord(done_, this->stream()))));
  has_left_ = true;
  return Status::OK();
}

Status CudaExecutor::note_before(cudaStream_t of_caller) {
  if (!is_captured(of_caller) && cudaEventRecord(before_, of_caller) == cudaSuccess) {
    return Status::OK();
  }
  (void)cudaGetLastError();
  BRECCIA_TRY(finish());  // it is the stream's fault only if the device has none
  return Status::InvalidArgument("a stream that cannot be waited for",
                                 "it must be one of the store's device, and not captured");
}

bool CudaExecutor::is_done() const {
  const cudaError_t said = has_left_ ? cudaEventQuery(done_) : cudaStreamQuery(current_);
  if (said == cudaSuccess) return true;
  (void)cudaGetLastError();
  // While another thread captures a graph the driver may refuse to say.
  return said != cudaErrorNotReady && said != cudaErrorStreamCaptureUnsupported &&
         said != cudaErrorStreamCaptureImplicit;
}

Status CudaExecutor::finish() {
  BRECCIA_TRY(settle(BRECCIA_CUDA_STATUS(wait())));
  come_home();
  if (scratch_.bytes() > kScratchKeptBytesMax) scratch_ = Array<std::byte>();
  return Status::OK();
}

Result<std::byte*> CudaExecutor::scratch(std::size_t bytes) {
  if (bytes > scratch_.bytes() || scratch_.data() == nullptr) {
    BRECCIA_ASSERT(!is_away());  // it would come home
    BRECCIA_TRY(finish());
    scratch_ = Array<std::byte>();
    auto grown = Array<std::byte>::make(pool(), std::max<std::size_t>(bytes, 1));
    if (!grown.ok()) return settle(grown.status());
    scratch_ = grown.take();
  }
  return scratch_.data();
}

Status CudaExecutor::sort_pairs(std::uint64_t* keys, std::uint32_t* ids, std::uint64_t n) {
  if (n == 0) return Status::OK();
  cub::DoubleBuffer<std::uint64_t> keys_buffer(keys, nullptr);
  cub::DoubleBuffer<std::uint32_t> ids_buffer(ids, nullptr);
  std::size_t cub_bytes = 0;
  BRECCIA_TRY(settle(BRECCIA_CUDA_STATUS(cub::DeviceRadixSort::SortPairs(
      nullptr, cub_bytes, keys_buffer, ids_buffer, n, 0, 64, stream()))));
  const std::size_t ids_at = base::round_up(n * sizeof *keys, 256);
  const std::size_t cub_at = base::round_up(ids_at + n * sizeof *ids, 256);
  BRECCIA_TAKE(std::byte* const work, scratch(cub_at + cub_bytes));
  keys_buffer.d_buffers[1] = reinterpret_cast<std::uint64_t*>(work);
  ids_buffer.d_buffers[1] = reinterpret_cast<std::uint32_t*>(work + ids_at);
  BRECCIA_TRY(settle(BRECCIA_CUDA_STATUS(cub::DeviceRadixSort::SortPairs(
      work + cub_at, cub_bytes, keys_buffer, ids_buffer, n, 0, 64, stream()))));
  if (keys_buffer.Current() != keys) BRECCIA_TRY(copy(keys, keys_buffer.Current(), n));
  if (ids_buffer.Current() != ids) BRECCIA_TRY(copy(ids, ids_buffer.Current(), n));
  return Status::OK();
}

Status CudaExecutor::exclusive_scan(const std::uint64_t* in, std::uint64_t* out, std::uint64_t n,
                                    std::uint64_t* total) {
  *total = 0;
  if (n == 0) return Status::OK();
  // `out` may be `in`: its last word is fetched before the scan.
  BRECCIA_TRY(settle(BRECCIA_CUDA_STATUS(
      cudaMemcpyAsync(&words_[0], in + n - 1, sizeof *in, cudaMemcpyDeviceToHost, stream()))));
  BRECCIA_TRY(with_scratch([&](void* work, std::size_t& bytes) {
    return cub::DeviceScan::ExclusiveSum(work, bytes, in, out, static_cast<std::int64_t>(n),
                                         stream());
  }));
  BRECCIA_TRY(settle(BRECCIA_CUDA_STATUS(
      cudaMemcpyAsync(&words_[1], out + n - 1, sizeof *out, cudaMemcpyDeviceToHost, stream()))));
  BRECCIA_TRY(finish());
  *total = words_[0] + words_[1];
  return Status::OK();
}

Status CudaExecutor::select(const std::uint32_t* in, const std::uint8_t* flags, std::uint64_t n,
                            std::uint32_t* out, std::uint64_t* count) {
  *count = 0;
  if (n == 0) return Status::OK();
  BRECCIA_TRY(select_here(in, flags, n, out, words_on_device_.data()));
  return fetch_word(count);
}

Status CudaExecutor::select_here(const std::uint32_t* in, const std::uint8_t* flags,
                                 std::uint64_t n, std::uint32_t* out, std::uint64_t* count) {
  return with_scratch([&](void* work, std::size_t& bytes) {
    return cub::DeviceSelect::Flagged(work, bytes, in, flags, out, count,
                                      static_cast<std::int64_t>(n), stream());
  });
}

Status CudaExecutor::make_room_to_select(std::uint64_t n) {
  std::size_t bytes = 0;
  const std::uint32_t* const in = nullptr;
  const std::uint8_t* const flags = nullptr;
  std::uint32_t* const out = nullptr;
  BRECCIA_TRY(settle(BRECCIA_CUDA_STATUS(
      cub::DeviceSelect::Flagged(nullptr, bytes, in, flags, out, words_on_device_.data(),
                                 static_cast<std::int64_t>(n), current_))));
  return scratch(bytes).status();
}

Status CudaExecutor::difference(const std::uint64_t* words, std::uint64_t n, std::uint64_t* bits) {
  *bits = 0;
  if (n == 0) return Status::OK();
  BRECCIA_TRY(with_scratch([&](void* work, std::size_t& bytes) {
    return cub::DeviceReduce::TransformReduce(
        work, bytes, words, words_on_device_.data(), static_cast<std::int64_t>(n), BitOr{},
        DifferenceFromFirst{words}, std::uint64_t{0}, stream());
  }));
  return fetch_word(bits);
}

/// Brings the device's answer to the host.
Status CudaExecutor::fetch_word(std::uint64_t* word) {
  BRECCIA_TRY(settle(BRECCIA_CUDA_STATUS(cudaMemcpyAsync(
      words_, words_on_device_.data(), sizeof *words_, cudaMemcpyDeviceToHost, stream()))));
  BRECCIA_TRY(finish());
  *word = words_[0];
  return Status::OK();
}

Status CudaExecutor::copy_within(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return Status::OK();
  return settle(BRECCIA_CUDA_STATUS(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream())));
}

Status CudaExecutor::copy_pinned_in(void* to, const void* host, std::size_t bytes) {
  if (bytes == 0) return Status::OK();
  return settle(
      BRECCIA_CUDA_STATUS(cudaMemcpyAsync(to, host, bytes, cudaMemcpyHostToDevice, stream())));
}

Status CudaExecutor::copy_in(void* to, const void* host, std::size_t bytes) {
  if (bytes == 0 || device_.ranges().find(host, bytes) != nullptr) {
    return copy_pinned_in(to, host, bytes);
  }
  return settle(stage_in(static_cast<std::byte*>(to), static_cast<const std::byte*>(host), bytes));
}

Status CudaExecutor::copy_bytes_out(void* host, const void* from, std::size_t bytes) {
  if (bytes == 0) return Status::OK();
  if (device_.ranges().find(host, bytes) != nullptr) {
    return settle(
        BRECCIA_CUDA_STATUS(cudaMemcpyAsync(host, from, bytes, cudaMemcpyDeviceToHost, stream())));
  }
  return settle(
      stage_out(static_cast<std::byte*>(host), static_cast<const std::byte*>(from), bytes));
}

// While the device copies one half of the staging memory, the host fills the other.
Status CudaExecutor::stage_in(std::byte* to, const std::byte* host, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += kStagingHalfBytes) {
    const std::size_t piece = std::min(bytes - at, kStagingHalfBytes);
    std::byte* const half = staging_ + half_ * kStagingHalfBytes;
    BRECCIA_CUDA_TRY(cudaEventSynchronize(half_done_[half_]));
    std::memcpy(half, host + at, piece);
    BRECCIA_CUDA_TRY(cudaMemcpyAsync(to + at, half, piece, cudaMemcpyHostToDevice, stream()));
    BRECCIA_CUDA_TRY(cudaEventRecord(half_done_[half_], stream()));
    half_ = 1 - half_;
  }
  return Status::OK();
}

// While the device fills one half, the host empties the other. The stream keeps copies out of a
// half behind copies in from it.
Status CudaExecutor::stage_out(std::byte* host, const std::byte* from, std::size_t bytes) {
  const std::size_t pieces = (bytes + kStagingHalfBytes - 1) / kStagingHalfBytes;
  const auto piece_bytes = [&](std::size_t piece) {
    return std::min(bytes - piece * kStagingHalfBytes, kStagingHalfBytes);
  };
  for (std::size_t piece = 0; piece <= pieces; ++piece) {
    if (piece < pieces) {
      BRECCIA_CUDA_TRY(cudaMemcpyAsync(staging_ + piece % 2 * kStagingHalfBytes,
                                       from + piece * kStagingHalfBytes, piece_bytes(piece),
                                       cudaMemcpyDeviceToHost, stream()));
      BRECCIA_CUDA_TRY(cudaEventRecord(half_done_[piece % 2], stream()));
    }
    if (piece > 0) {
      const std::size_t done = piece - 1;
      BRECCIA_CUDA_TRY(cudaEventSynchronize(half_done_[done % 2]));
      std::memcpy(host + done * kStagingHalfBytes, staging_ + done % 2 * kStagingHalfBytes,
                  piece_bytes(done));
    }
  }
  return Status::OK();
}

}  // namespace breccia::exec::cuda
