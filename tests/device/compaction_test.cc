#include "conformance/compaction_conformance.h"

namespace breccia::compaction::conformance {
namespace {

const Executor kExecutors[] = {
    {"cuda", [](std::uint64_t) { return backend_of_kind(exec::DeviceKind::kCuda); }, 60 << 10}};

INSTANTIATE_TEST_SUITE_P(Cuda, ExecutorConformance, ::testing::ValuesIn(kExecutors),
                         [](const auto& info) { return std::string(info.param.name); });
INSTANTIATE_TEST_SUITE_P(Cuda, MergeConformance,
                         ::testing::Combine(::testing::ValuesIn(kExecutors),
                                            ::testing::ValuesIn(kConfigs)),
                         test_name);

}  // namespace
}  // namespace breccia::compaction::conformance
