#include "conformance/hash_conformance.h"

namespace breccia::hash::conformance {
namespace {

const Executor kExecutors[] = {
    {"cuda", [](std::uint64_t) { return backend_of_kind(exec::DeviceKind::kCuda); }, 20}};

INSTANTIATE_TEST_SUITE_P(Cuda, HashConformance, ::testing::ValuesIn(kExecutors),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace breccia::hash::conformance
