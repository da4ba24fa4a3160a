#include <benchmark/benchmark.h>
#include <breccia/options.h>
#include <breccia/store.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "base/random.h"

/// What a request costs the client that adds it to a transaction, against one that it adds to a
/// batch which it uses again: puts or lookups of 8-byte keys and values. A transaction is opened,
/// filled and given up; nothing is submitted. Items are requests.

namespace breccia {

namespace {

constexpr std::uint64_t kKeys = 1 << 20;

std::unique_ptr<Store> open_store() {
  const char* const memory = "/dev/shm";
  const std::string folder =
      std::string(std::filesystem::exists(memory) ? memory : "/tmp") + "/breccia-micro-transaction";
  std::filesystem::remove_all(folder);
  Options options;
  options.create_if_missing = true;
  options.backend = BackendChoice::kHost;
  options.rocksdb.info_log_level = rocksdb::InfoLogLevel::FATAL_LEVEL;
  std::unique_ptr<Store> store;
  const Status status = Store::Open(options, folder, &store);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return store;
}

void fill(Batch* batch, std::uint64_t requests, bool reads) {
  for (std::uint64_t i = 0; i < requests; ++i) {
    const std::uint64_t id = base::mix64(i) % kKeys;
    const Slice key(reinterpret_cast<const char*>(&id), sizeof id);
    const Status status = reads ? batch->Get(key) : batch->Put(key, key);
    if (!status.ok()) std::abort();
  }
}

void run(benchmark::State& state, bool reads, bool in_transactions) {
  static const auto store = open_store();  // one for all: opening takes longer than they do
  if (store == nullptr) return state.SkipWithError("the store cannot be opened");
  const auto requests = static_cast<std::uint64_t>(state.range(0));
  Batch batch = store->NewBatch();
  for (auto _ : state) {
    if (in_transactions) {
      const auto transaction = store->OpenTransaction();
      fill(&transaction->batch(), requests, reads);
    } else {
      batch.Clear();
      fill(&batch, requests, reads);
    }
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void BM_AddPutToBatch(benchmark::State& state) { run(state, false, false); }
void BM_AddPutToTransaction(benchmark::State& state) { run(state, false, true); }
void BM_AddGetToBatch(benchmark::State& state) { run(state, true, false); }
void BM_AddGetToTransaction(benchmark::State& state) { run(state, true, true); }

BENCHMARK(BM_AddPutToBatch)->Arg(1)->Arg(64)->Arg(4096)->Arg(1 << 20);
BENCHMARK(BM_AddPutToTransaction)->Arg(1)->Arg(64)->Arg(4096)->Arg(1 << 20);
BENCHMARK(BM_AddGetToBatch)->Arg(1)->Arg(64)->Arg(4096)->Arg(1 << 20);
BENCHMARK(BM_AddGetToTransaction)->Arg(1)->Arg(64)->Arg(4096)->Arg(1 << 20);

}  // namespace

}  // namespace breccia
