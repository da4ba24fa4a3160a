// Do streams that wait for a held one keep others from going on? nvcc -O2 -arch=sm_90 -cudart static
#include <cuda_runtime.h>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>
__global__ void touch(int* at) { *at += 1; }
std::atomic<bool> held{false};
void wait(void*) { while (held) std::this_thread::sleep_for(std::chrono::milliseconds(1)); }
int main() {
  int* at = nullptr;
  cudaMalloc(&at, 4);
  for (const int waiting : {0, 1, 4, 8, 16, 32}) {
    std::vector<cudaStream_t> streams(waiting + 33);
    for (auto& s : streams) cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    for (auto& s : streams) touch<<<1, 1, 0, s>>>(at);
    cudaDeviceSynchronize();
    cudaEvent_t event;
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    held = true;
    cudaLaunchHostFunc(streams[0], wait, nullptr);
    cudaEventRecord(event, streams[0]);
    for (int i = 1; i <= waiting; ++i) {
      cudaStreamWaitEvent(streams[i], event, 0);
      touch<<<1, 1, 0, streams[i]>>>(at);
    }
    for (int i = waiting + 1; i < waiting + 33; ++i) touch<<<1, 1, 0, streams[i]>>>(at);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    int blocked = 0;
    for (int i = waiting + 1; i < waiting + 33; ++i) blocked += cudaStreamQuery(streams[i]) == cudaErrorNotReady;
    held = false;
    cudaDeviceSynchronize();
    std::printf("{\"streams_that_wait\":%d,\"others\":32,\"others_that_stand\":%d}\n", waiting, blocked);
    for (auto& s : streams) cudaStreamDestroy(s);
  }
  return 0;
}
