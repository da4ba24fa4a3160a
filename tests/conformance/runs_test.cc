#include "conformance/runs_conformance.h"
#include "support/backends.h"

namespace breccia::runs::conformance {
namespace {

struct HostMaker {
  static constexpr std::uint64_t kIdleBytesMax = 0;
  static constexpr bool kMeasuresCopies = false;
  static std::shared_ptr<Backend> make(std::uint64_t) { return make_host_backend(); }
};

struct SimulatorMaker {
  static constexpr std::uint64_t kIdleBytesMax = 0;
  static constexpr bool kMeasuresCopies = false;
  static std::shared_ptr<Backend> make(std::uint64_t seed) {
    return testing::make_simulator_backend(seed);
  }
};

/// A fake device without faults: runs that the host cannot read.
struct FakeMaker {
  static constexpr std::uint64_t kIdleBytesMax = 0;
  static constexpr bool kMeasuresCopies = false;
  static std::shared_ptr<Backend> make(std::uint64_t) {
    static exec::FakeFaults none;
    return testing::make_fake_backend(&none);
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Host, BackendConformance, HostMaker);
INSTANTIATE_TYPED_TEST_SUITE_P(Simulator, BackendConformance, SimulatorMaker);
INSTANTIATE_TYPED_TEST_SUITE_P(Fake, BackendConformance, FakeMaker);

}  // namespace
}  // namespace breccia::runs::conformance
