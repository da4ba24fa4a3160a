#include "device/lost_device.h"

#include <cuda_runtime.h>

namespace breccia::testing {

namespace {

__global__ void trap() { asm("trap;"); }

}  // namespace

void lose_device() {
  trap<<<1, 1>>>();
  (void)cudaDeviceSynchronize();
}

}  // namespace breccia::testing
