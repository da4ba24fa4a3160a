#include "conformance/residency_conformance.h"
#include "exec/fake/fake_device.h"
#include "exec/sim/sim_device.h"

namespace breccia::residency::conformance {
namespace {

/// A GPU that has memory of its own, and never fails.
std::shared_ptr<Backend> fake_backend(std::uint64_t /*seed*/) {
  static exec::FakeFaults faults;
  return backend_on(exec::fake::make_fake_device(&faults));
}

const Executor kExecutors[] = {
    {"host", [](std::uint64_t) { return host_backend(); }, 40},
    {"simulator",
     [](std::uint64_t seed) { return backend_on(exec::sim::make_simulator_device(seed)); }, 10},
    {"fake", fake_backend, 10}};

INSTANTIATE_TEST_SUITE_P(Executors, ResidencyConformance,
                         ::testing::Combine(::testing::ValuesIn(kExecutors),
                                            ::testing::ValuesIn(kConfigs)),
                         test_name);

}  // namespace
}  // namespace breccia::residency::conformance
