#include "batch/selection.h"

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "base/random.h"
#include "batch/requests.h"

/// A batch of n puts and n lookups of 16-byte keys is copied to another one: as a whole, or each
/// half of it by a selection of its own. Items are requests.

namespace breccia::batch {

namespace {

std::unique_ptr<Requests> make_batch(std::uint64_t each) {
  auto batch = std::make_unique<Requests>(exec::shared_plain_host_memory());
  const std::string value(100, 'v');
  for (std::uint64_t i = 0; i < each; ++i) {
    const std::uint64_t words[] = {base::mix64(i), i};
    const Slice key(reinterpret_cast<const char*>(words), sizeof words);
    if (!batch->add_write(record::Op::kPut, kDefaultFamily, key, value).ok() ||
        !batch->add_read(kDefaultFamily, key).ok()) {
      std::abort();
    }
  }
  return batch;
}

void BM_Append(benchmark::State& state) {
  const auto batch = make_batch(state.range(0));
  Requests copy(exec::shared_plain_host_memory());
  Selection chosen = batch->none_chosen();
  for (Flags* const flags : {&chosen.writes[0].points, &chosen.reads[0]}) {
    for (std::size_t i = 0; i < flags->size(); ++i) (*flags)[i] = base::mix64(i) % 2;
  }
  const Selection others = chosen.others();
  const bool whole = state.range(1) == 0;
  for (auto _ : state) {
    copy.clear();
    if (!(whole ? copy.append(*batch)
                : copy.append(*batch, chosen) && copy.append(*batch, others))) {
      std::abort();
    }
  }
  state.SetItemsProcessed(state.iterations() * 2 * state.range(0));
}

BENCHMARK(BM_Append)
    ->ArgNames({"n", "chosen"})
    ->ArgsProduct({{64, 4 << 10, 32 << 10}, {0, 1}})
    ->UseRealTime();

}  // namespace

}  // namespace breccia::batch
