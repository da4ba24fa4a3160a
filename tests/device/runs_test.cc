#include "conformance/runs_conformance.h"

namespace breccia::runs::conformance {
namespace {

constexpr std::uint64_t kMemoryBytes = 2ULL << 30;

struct CudaMaker {
  /// The work space of an idle executor.
  static constexpr std::uint64_t kIdleBytesMax = 8 << 20;
  static constexpr bool kMeasuresCopies = true;
  static std::unique_ptr<Backend> make(std::uint64_t) {
    auto backend = make_cuda_backend(kMemoryBytes);
    EXPECT_TRUE(backend.ok()) << backend.status().ToString();
    return backend.take();
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Cuda, BackendConformance, CudaMaker);

}  // namespace
}  // namespace breccia::runs::conformance
