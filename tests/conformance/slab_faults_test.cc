#include "conformance/slab_model.h"
#include "exec/fake/fake_device.h"

namespace breccia::slab::conformance {
namespace {

/// Puts new keys, and deletes some of those that there are.
std::vector<Request> some_batch(const Model& model, base::Random& random) {
  std::vector<Request> batch;
  for (const auto& [key, value] : model) {
    if (random.one_in(3)) batch.push_back({.operation = Operation::kDelete, .key = key});
  }
  for (int i = 0; i < 300; ++i) {
    batch.push_back(
        {.operation = Operation::kUpsert, .key = random.next(), .value = random.next()});
  }
  return batch;
}

void note(const std::vector<Request>& batch, Model* model) {
  for (const Request& request : batch) {
    if (request.operation == Operation::kDelete) model->erase(request.key);
    if (request.operation == Operation::kUpsert && request.code != Code::kNoRoom) {
      (*model)[request.key] = request.value;
    }
  }
}

// Goal: what a device says that fails is true: nothing was done, or the table is of no use now.
// Method: a batch in which heads change places, buckets are split, chains made shorter and slabs
//   added, with each operation failing in turn, once; then the same batch again, and all that is
//   there.
// Mutation: memory that runs out behind a split, and is called nothing done; a list of free slabs
//   that is renewed half.
TEST(SlabFaults, EachOperationMayFail) {
  for (const exec::Fault fault : {exec::Fault::kOutOfMemory, exec::Fault::kLaunchFailure}) {
    bool is_through = false;
    int undone = 0;
    std::uint64_t risen = 0;
    std::uint64_t reserves = 0;
    for (std::uint64_t k = 1; !is_through; ++k) {
      SCOPED_TRACE("operation " + std::to_string(k));
      ASSERT_LT(k, 2'000U);
      exec::FakeFaults faults;
      base::Random random(k % 8);
      const auto backend = backend_on(exec::fake::make_fake_device(&faults));
      const bool has_chains = k % 2 == 1;
      auto made = backend->make_table({.bytes_max = (has_chains ? 200 : 110) * sizeof(Slab),
                                       .keys_of_bucket = has_chains ? 60U : 5U,
                                       .requests_of_head = 1,
                                       .secret = random_secret(random)});
      ASSERT_TRUE(made.ok()) << made.status().ToString();
      Table& table = *made.value();
      Model model;
      // Heads go to the host in the third batch, or change places in the fourth.
      for (std::uint64_t turn = 0; turn < 2 + k / 2 % 2; ++turn) {
        std::vector<Request> batch = some_batch(model, random);
        ASSERT_TRUE(run_batch(*backend, table, &batch).ok());
        note(batch, &model);
      }
      if (table.figures().reserve > 0) ++reserves;  // not where the host's memory is out of reach
      std::vector<Request> batch = some_batch(model, random);
      faults.fail_after(k, fault);
      const std::uint64_t before = faults.operations();
      const Status status = run_batch(*backend, table, &batch);
      is_through = faults.operations() - before < k;
      faults.fail_after(1'000'000, fault);
      if (status.ok()) {
        note(batch, &model);
      } else if (status.IsMemoryLimit()) {
        ++undone;
        const Status again = run_batch(*backend, table, &batch);
        ASSERT_TRUE(again.ok()) << again.ToString();
        note(batch, &model);
      } else {
        ASSERT_TRUE(status.IsIOError()) << status.ToString();
        std::vector<Request> finds = {{.key = 1}};
        const Status after = run_batch(*backend, table, &finds);
        // What failed before anything was done is no fault of the table's.
        EXPECT_TRUE(after.ok() || after.IsIOError()) << after.ToString();
        continue;
      }
      ASSERT_EQ(contents(*backend, table), model);
      risen += table.figures().risen;
    }
    EXPECT_GT(undone, 0);
    EXPECT_GT(reserves, 0U);
    EXPECT_GT(risen, 0U);
  }
}

}  // namespace
}  // namespace breccia::slab::conformance
