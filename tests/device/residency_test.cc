#include "conformance/residency_conformance.h"

namespace breccia::residency::conformance {
namespace {

std::shared_ptr<Backend> cuda_backend(std::uint64_t /*seed*/) {
  auto device = exec::open_device(exec::DeviceKind::kCuda, 0);
  EXPECT_TRUE(device.ok()) << device.status().ToString();
  return backend_on(device.value());
}

const Executor kExecutors[] = {{"cuda", cuda_backend, 10, 8 << 20}};

INSTANTIATE_TEST_SUITE_P(Cuda, ResidencyConformance,
                         ::testing::Combine(::testing::ValuesIn(kExecutors),
                                            ::testing::ValuesIn(kConfigs)),
                         test_name);

}  // namespace
}  // namespace breccia::residency::conformance
