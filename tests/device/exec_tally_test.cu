#include "exec/cuda/instantiate.cuh"
#include "support/tally/tally_on.h"
#include "support/tally/tally_test.h"

namespace breccia::testing {

std::unique_ptr<Tally> make_tally_on_cuda(const exec::TenantPtr& tenant) {
  return exec::cuda::instantiate_on_cuda<TallyOn, Tally>(tenant);
}

namespace {

// Goal: the module of tests/conformance/exec_tally_test.cc runs on a GPU, too.
// Method, Mutation: as there.
TEST(Tally, RunsOnCuda) {
  auto device = exec::open_device(exec::DeviceKind::kCuda, 0);
  ASSERT_TRUE(device.ok()) << device.status().ToString();
  const auto tally = make_tally_on_cuda(device.value()->admit({.name = "tally"}).take());
  for (std::uint64_t seed = 1; seed <= 100; ++seed) expect_tally(*tally, seed);
}

}  // namespace
}  // namespace breccia::testing
