#include "conformance/compaction_conformance.h"
#include "exec/sim/sim_device.h"

namespace breccia::compaction::conformance {
namespace {

const Executor kExecutors[] = {
    {"host", [](std::uint64_t) { return backend_of_kind(exec::DeviceKind::kHost); }, 20 << 10},
    {"simulator",
     [](std::uint64_t seed) { return backend_on(exec::sim::make_simulator_device(seed)); },
     60 << 10}};

INSTANTIATE_TEST_SUITE_P(Executors, ExecutorConformance, ::testing::ValuesIn(kExecutors),
                         [](const auto& info) { return std::string(info.param.name); });
INSTANTIATE_TEST_SUITE_P(Tables, MergeConformance,
                         ::testing::Combine(::testing::ValuesIn(kExecutors),
                                            ::testing::ValuesIn(kConfigs)),
                         test_name);

}  // namespace
}  // namespace breccia::compaction::conformance
