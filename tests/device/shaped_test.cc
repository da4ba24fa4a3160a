#include "conformance/shaped_conformance.h"

namespace breccia::hash::shapes::conformance {
namespace {

using hash::conformance::backend_of_kind;

const Executor kExecutors[] = {
    {"cuda", [](std::uint64_t) { return backend_of_kind(exec::DeviceKind::kCuda); }, 25}};

INSTANTIATE_TEST_SUITE_P(Cuda, ShapedConformance, ::testing::ValuesIn(kExecutors),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace breccia::hash::shapes::conformance
