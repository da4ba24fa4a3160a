#include "exec/instantiate.h"
#include "support/seeds.h"
#include "support/tally/tally_on.h"
#include "support/tally/tally_test.h"

namespace breccia::testing {

std::unique_ptr<Tally> make_tally(const exec::TenantPtr& tenant) {
  return exec::instantiate_on_cpus<TallyOn, Tally>(tenant);
}

namespace {

exec::TenantPtr tenant_of(const exec::DevicePtr& device) {
  return device->admit({.name = "tally"}).take();
}

// Goal: a module brings a kernel and atomics of its own, and they run on every executor.
// Method: counts by many groups in few places; a sum that the last group makes of what all wrote.
// Mutation: an addition that is a load and a store (below) loses counts.
TEST(Tally, RunsOnEveryExecutor) {
  exec::FakeFaults none;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    expect_tally(*make_tally(tenant_of(exec::open_device(exec::DeviceKind::kHost, 0).value())),
                 seed);
    expect_tally(*make_tally(tenant_of(exec::sim::make_simulator_device(seed))), seed);
    expect_tally(*make_tally(tenant_of(exec::fake::make_fake_device(&none))), seed);
  }
}

// Goal: the simulator finds what is no atomic, because it may switch at every load and store.
// Method: counts with a load and a store each, by several seeds.
// Mutation: atomics that do not ask the scheduler never lose one.
TEST(Tally, SimulatorSwitchesAtAtomics) {
  const std::vector<std::uint64_t> words(2'000, 3);
  int seeds_that_lose = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const auto tally = make_tally(tenant_of(exec::sim::make_simulator_device(seed)));
    const auto counted = tally->count_badly(words);
    ASSERT_TRUE(counted.ok());
    EXPECT_LE(counted.value()[3], words.size());
    seeds_that_lose += counted.value()[3] < words.size() ? 1 : 0;
  }
  EXPECT_GT(seeds_that_lose, 8);
}

}  // namespace
}  // namespace breccia::testing
