#include "conformance/exec_conformance.h"
#include "exec/fake/fake_device.h"
#include "exec/host/host_executor.h"
#include "exec/host/host_memory.h"
#include "exec/sim/sim_executor.h"

namespace breccia::exec::conformance {
namespace {

constexpr std::uint64_t kMemoryBytes = 4ULL << 30;

class HostRig {
 public:
  explicit HostRig(std::uint64_t) {}
  host::HostExecutor& x() { return x_; }
  HostMemory& host_memory() { return plain_host_memory(); }

 private:
  host::HostPool pool_{kMemoryBytes};
  host::HostExecutor x_{pool_};
};

class SimRig {
 public:
  explicit SimRig(std::uint64_t seed) : scheduler_(seed) {}
  sim::SimExecutor& x() { return x_; }
  HostMemory& host_memory() { return plain_host_memory(); }

 private:
  sim::SimPool pool_{kMemoryBytes};
  sim::Scheduler scheduler_;
  sim::SimExecutor x_{pool_, scheduler_};
};

/// The fake device's executor where nothing fails.
class FakeRig {
 public:
  explicit FakeRig(std::uint64_t seed) : scheduler_(seed) {}
  fake::FakeExecutor& x() { return x_; }
  HostMemory& host_memory() { return plain_host_memory(); }

 private:
  sim::SimPool pool_{kMemoryBytes};
  sim::Scheduler scheduler_;
  FakeFaults none_;
  DevicePtr device_ = fake::make_fake_device(&none_);
  fake::FakeExecutor x_{*device_, pool_, scheduler_, none_};
};

INSTANTIATE_TYPED_TEST_SUITE_P(Host, ExecConformance, HostRig);
INSTANTIATE_TYPED_TEST_SUITE_P(Sim, ExecConformance, SimRig);
INSTANTIATE_TYPED_TEST_SUITE_P(Fake, ExecConformance, FakeRig);

}  // namespace
}  // namespace breccia::exec::conformance
