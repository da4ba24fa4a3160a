#include "conformance/runs_conformance.h"

namespace breccia::runs::conformance {
namespace {

constexpr std::uint64_t kMemoryBytes = 2ULL << 30;

struct CudaMaker {
  /// The work space of an idle executor.
  static constexpr std::uint64_t kIdleBytesMax = 8 << 20;
  static constexpr bool kMeasuresCopies = true;
  static std::shared_ptr<Backend> make(std::uint64_t) {
    auto device = exec::open_device(exec::DeviceKind::kCuda, 0);
    EXPECT_TRUE(device.ok()) << device.status().ToString();
    auto backend = make_backend(device.value(), {.name = "test", .bytes_max = kMemoryBytes});
    EXPECT_TRUE(backend.ok()) << backend.status().ToString();
    return backend.take();
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Cuda, BackendConformance, CudaMaker);

}  // namespace
}  // namespace breccia::runs::conformance
