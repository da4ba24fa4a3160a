#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "conformance/exec_conformance.h"
#include "exec/cuda/cuda_device.cuh"
#include "exec/cuda/cuda_sort.cuh"

namespace breccia::exec::conformance {
namespace {

constexpr std::uint64_t kMemoryBytes = 2ULL << 30;

class CudaRig {
 public:
  explicit CudaRig(std::uint64_t, std::uint64_t bytes_max = kMemoryBytes) {
    auto device = open_device(DeviceKind::kCuda, 0);
    EXPECT_TRUE(device.ok()) << device.status().ToString();
    tenant_ = device.value()->admit({.name = "test", .bytes_max = bytes_max}).take();
    auto lease = static_cast<cuda::CudaTenant&>(*tenant_).executor();
    EXPECT_TRUE(lease.ok()) << lease.status().ToString();
    x_.emplace(lease.take());
  }
  cuda::CudaExecutor& x() { return **x_; }
  Device& device() { return tenant_->device(); }
  HostMemory& host_memory() { return device().host_memory(); }

 private:
  TenantPtr tenant_;
  std::optional<cuda::CudaTenant::Lease> x_;
};

INSTANTIATE_TYPED_TEST_SUITE_P(Cuda, ExecConformance, CudaRig);

/// Writes where there is no memory.
struct WriteNowhere {
  std::uint64_t* nowhere;
  template <class Group>
  __device__ void operator()(const Group& group, std::uint64_t first) const {
    group.each_lane([&](int) { *nowhere = first; });
  }
};

// Goal: running out of device memory is an answer, and nothing is lost by it.
// Method: an executor with little memory asks for much, then for little.
// Mutation: an error that CUDA still remembers fails the next launch.
TEST(CudaExecutor, MemoryRunsOut) {
  CudaRig rig(1, 64 << 20);
  auto* const x = &rig.x();
  const std::vector<std::uint64_t> much(16 << 20);
  EXPECT_TRUE(x->import(much.data(), much.size()).status().IsMemoryLimit());
  EXPECT_TRUE(rig.device().lost().ok());
  const auto words = put(*x, std::vector<std::uint64_t>(1000, 5));
  EXPECT_EQ(get(*x, words.data(), 1000), std::vector<std::uint64_t>(1000, 5));
}

// Goal: a crashed kernel is an IOError, and the device counts as lost from then on. The process's
// context is lost with it, so this runs in a child of its own.
// Method: a kernel writes through a null pointer; the child ends with 0 if all was as it should be.
// Mutation: an error that is cleared and forgotten lets later calls run on a dead context.
TEST(CudaExecutorDeathTest, CrashedKernelLosesTheDevice) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        CudaRig rig(1);
        Status status = rig.x().launch<32>(1, WriteNowhere{nullptr});
        if (status.ok()) status = rig.x().finish();
        std::_Exit(status.IsIOError() && rig.device().lost().IsIOError() ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace breccia::exec::conformance
