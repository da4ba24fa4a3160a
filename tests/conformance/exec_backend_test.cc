#include "conformance/exec_backend_conformance.h"

namespace breccia::exec::conformance {
namespace {

struct HostMaker {
  static constexpr std::uint64_t kIdleBytesMax = 0;
  static std::unique_ptr<Backend> make(std::uint64_t) { return make_host_backend(); }
};

struct SimulatorMaker {
  static constexpr std::uint64_t kIdleBytesMax = 0;
  static std::unique_ptr<Backend> make(std::uint64_t seed) { return make_simulator_backend(seed); }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Host, BackendConformance, HostMaker);
INSTANTIATE_TYPED_TEST_SUITE_P(Simulator, BackendConformance, SimulatorMaker);

}  // namespace
}  // namespace breccia::exec::conformance
