// What a small batch costs on a machine before anything is done for it: a launch and its answer,
// keys over the bus, dependent reads of the device's memory. The floors of
// 2026-11-30-h200-huge-pages.jsonl: nvcc -O3 -std=c++17 -arch=sm_90 2026-11-30-h200-floors.cu
#include <cuda_runtime.h>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>
using Clock = std::chrono::steady_clock;
static double us(Clock::time_point a, Clock::time_point b) {
  return std::chrono::duration<double>(b - a).count() * 1e6;
}
#define CK(x)                                             \
  do {                                                    \
    cudaError_t e = (x);                                  \
    if (e != cudaSuccess) {                               \
      std::printf("%s: %s\n", #x, cudaGetErrorString(e)); \
      std::exit(1);                                       \
    }                                                     \
  } while (0)
__global__ void empty() {}
__global__ void flag(volatile std::uint32_t* f, std::uint32_t v) { *f = v; }
__global__ void bus(const std::uint64_t* keys, std::uint64_t* out, unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = keys[2 * i] + keys[2 * i + 1];
}
// chain of `steps` dependent reads in `words` of HBM, 16 lanes a query as the product's
__global__ void chain(const std::uint64_t* keys, std::uint64_t* out, const std::uint64_t* mem,
                      std::uint64_t words, int steps, unsigned n) {
  unsigned i = (blockIdx.x * blockDim.x + threadIdx.x) / 16;
  unsigned lane = threadIdx.x % 16;
  if (i >= n) return;
  std::uint64_t at = keys[2 * i] + keys[2 * i + 1];
  for (int s = 0; s < steps; ++s) {
    at = at * 6364136223846793005ull + 1442695040888963407ull;
    at += mem[(at + lane * 1000003ull) % words];
    at = __shfl_sync(0xffffffff, at, threadIdx.x % 32 / 16 * 16);
  }
  if (lane == 0) out[i] = at;
}
__global__ void persistent(volatile std::uint32_t* bell, volatile std::uint32_t* answer,
                           std::uint32_t rounds) {
  for (std::uint32_t r = 1; r <= rounds; ++r) {
    while (*bell < r) {
    }
    __threadfence_system();
    *answer = r;
  }
}
template <class F>
void measure(const char* what, F f) {
  std::vector<double> t;
  for (int i = 0; i < 3000; ++i) t.push_back(f());
  t.erase(t.begin(), t.begin() + 200);
  std::sort(t.begin(), t.end());
  std::printf("{\"floor\": \"%s\", \"p10_us\": %.2f, \"p50_us\": %.2f, \"p99_us\": %.2f}\n", what,
              t[t.size() / 10], t[t.size() / 2], t[t.size() * 99 / 100]);
  std::fflush(stdout);
}
int main() {
  CK(cudaSetDeviceFlags(cudaDeviceScheduleSpin));
  cudaStream_t s;
  CK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  std::uint64_t *keys, *out;
  std::uint32_t* f;
  CK(cudaMallocHost(&keys, 1 << 20));
  CK(cudaMallocHost(&out, 1 << 20));
  CK(cudaMallocHost(&f, 4096));
  for (int i = 0; i < (1 << 17); ++i) keys[i] = i * 0x9E3779B97F4A7C15ull;
  const std::uint64_t words = 1ull << 30;  // 8 GB
  std::uint64_t* mem;
  CK(cudaMalloc(&mem, words * 8));
  CK(cudaMemset(mem, 1, words * 8));
  f[0] = 0;
  f[512] = 0;
  volatile std::uint32_t* vf = f;
  measure("empty launch, the call alone", [&] {
    auto a = Clock::now();
    empty<<<1, 32, 0, s>>>();
    auto b = Clock::now();
    CK(cudaStreamSynchronize(s));
    return us(a, b);
  });
  measure("empty launch and cudaStreamSynchronize", [&] {
    auto a = Clock::now();
    empty<<<1, 32, 0, s>>>();
    CK(cudaStreamSynchronize(s));
    return us(a, Clock::now());
  });
  std::uint32_t v = 0;
  measure("launch that writes a word to the host, polled", [&] {
    ++v;
    auto a = Clock::now();
    flag<<<1, 1, 0, s>>>(f, v);
    while (vf[0] != v) {
    }
    auto b = Clock::now();
    CK(cudaStreamSynchronize(s));
    return us(a, b);
  });
  measure("4096 keys of 16 B read from and 8 B each written to the host, synchronized", [&] {
    auto a = Clock::now();
    bus<<<32, 128, 0, s>>>(keys, out, 4096);
    CK(cudaStreamSynchronize(s));
    return us(a, Clock::now());
  });
  for (int steps : {1, 6, 8, 10, 12}) {
    char name[128];
    std::snprintf(name, sizeof name, "the same behind %d dependent reads of 8 GB, 16 lanes a key",
                  steps);
    measure(name, [&] {
      auto a = Clock::now();
      chain<<<512, 128, 0, s>>>(keys, out, mem, words, steps, 4096);
      CK(cudaStreamSynchronize(s));
      return us(a, Clock::now());
    });
  }
  {
    cudaGraph_t g;
    cudaGraphExec_t ge;
    CK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    chain<<<512, 128, 0, s>>>(keys, out, mem, words, 8, 4096);
    CK(cudaStreamEndCapture(s, &g));
    CK(cudaGraphInstantiate(&ge, g, 0));
    measure("8 dependent reads as a graph", [&] {
      auto a = Clock::now();
      CK(cudaGraphLaunch(ge, s));
      CK(cudaStreamSynchronize(s));
      return us(a, Clock::now());
    });
  }
  {
    const std::uint32_t rounds = 3000;
    f[0] = 0;
    f[512] = 0;
    persistent<<<1, 1, 0, s>>>(f, f + 512, rounds);
    std::uint32_t r = 0;
    measure("a word to a kernel that runs already and back", [&] {
      ++r;
      auto a = Clock::now();
      vf[0] = r;
      while (vf[512] != r) {
      }
      return us(a, Clock::now());
    });
    CK(cudaStreamSynchronize(s));
  }
  return 0;
}
