#include "conformance/slab_conformance.h"

namespace breccia::slab::conformance {
namespace {

const Executor kExecutors[] = {
    {"cuda", [](std::uint64_t) { return backend_of_kind(exec::DeviceKind::kCuda); }, 20}};

INSTANTIATE_TEST_SUITE_P(Cuda, SlabConformance, ::testing::ValuesIn(kExecutors),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace breccia::slab::conformance
