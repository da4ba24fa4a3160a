#include "conformance/shaped_conformance.h"
#include "exec/sim/sim_device.h"

namespace breccia::hash::shapes::conformance {
namespace {

using hash::conformance::backend_of_kind;
using hash::conformance::backend_on;

const Executor kExecutors[] = {
    {"host", [](std::uint64_t) { return backend_of_kind(exec::DeviceKind::kHost); }, 100},
    {"simulator",
     [](std::uint64_t seed) { return backend_on(exec::sim::make_simulator_device(seed)); }, 25}};

INSTANTIATE_TEST_SUITE_P(Executors, ShapedConformance, ::testing::ValuesIn(kExecutors),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace breccia::hash::shapes::conformance
