#include "conformance/hash_model.h"
#include "exec/fake/fake_device.h"

namespace breccia::hash::conformance {
namespace {

// Goal: what a device says that fails is true: nothing was done, or the table is of no use now.
// Method: a batch that grows the table, with each operation failing in turn, once; for values in
// slots, in rows, and keys in rows.
// Mutation: memory that runs out behind the first exchange and is called nothing done.
TEST(HashFaults, EachOperationMayFail) {
  for (int kind = 0; kind < 4; ++kind) {
    const exec::Fault fault =
        kind % 2 == 0 ? exec::Fault::kOutOfMemory : exec::Fault::kLaunchFailure;
    bool is_through = false;
    for (std::uint64_t k = 1; !is_through; ++k) {
      SCOPED_TRACE("kind " + std::to_string(kind) + ", operation " + std::to_string(k));
      ASSERT_LT(k, 1'000U);
      exec::FakeFaults faults;
      base::Random random(k);
      const auto backend = backend_on(exec::fake::make_fake_device(&faults));
      auto made = backend->make_table({.slots_min = 16,
                                       .slots_max = 4096,
                                       .moved_min = 1,
                                       .key_bytes = kind < 2 ? 8U : 32U,
                                       .value_bytes = k % 2 == 0 ? 8U : 16U,
                                       .rows = 500,
                                       .secret = random_secret(random)});
      ASSERT_TRUE(made.ok());
      Table& table = *made.value();
      Model model;
      std::vector<Request> batch;
      bool was_undone = false;
      for (int turn = 0; turn < 3; ++turn) {
        batch.clear();
        for (int i = 0; i < 20; ++i) {
          batch.push_back(
              {.operation = Operation::kInsert, .key = random.next(), .value = random.next()});
        }
        if (turn == 2) faults.fail_after(k, fault);
        const std::uint64_t before = faults.operations();
        const Status status = run_batch(*backend, table, &batch);
        is_through = turn == 2 && faults.operations() - before < k;
        was_undone = status.IsMemoryLimit();
        if (!status.ok()) break;
        for (const Request& request : batch) {
          if (request.code == Code::kAbsent) model[request.key] = request.value;
        }
      }
      faults.fail_after(1'000'000, fault);
      std::vector<Request> again = batch;
      const Status after = run_batch(*backend, table, &again);
      if (!after.ok()) {
        EXPECT_TRUE(after.IsIOError() && !was_undone) << after.ToString();
        continue;
      }
      for (const Request& request : again) {
        const auto at = model.find(request.key);
        EXPECT_EQ(request.code, at == model.end() ? Code::kAbsent : Code::kPresent);
        model[request.key] = at == model.end() ? request.value : at->second;
      }
      expect_is(*backend, table, model);
    }
  }
}

}  // namespace
}  // namespace breccia::hash::conformance
