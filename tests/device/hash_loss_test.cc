#include <breccia/hash_store.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "device/lost_device.h"
#include "support/folder.h"

namespace breccia {
namespace {

using testing::Folder;
using testing::Place;

constexpr std::size_t kRowBytes = 128;
constexpr std::size_t kRows = 40'000;  // more than few

/// Ends the process that a death test runs in, with what is wrong.
void demand(bool is_right, const std::string& what) {
  if (is_right) return;
  std::cerr << what << std::endl;
  std::_Exit(1);
}
void demand(const Status& status) { demand(status.ok(), status.ToString()); }

/// What verbs on ids say of a GPU that was lost behind some that it has answered, `count` ids each.
void lose_behind_lookups(std::size_t count) {
  const Folder folder(Place::kMemory);
  HashOptions options;
  options.create_if_missing = true;
  options.backend = BackendChoice::kCuda;
  options.row_cache_bytes = 16 << 20;
  options.cached_row_bytes = kRowBytes;
  std::unique_ptr<HashStore> store;
  demand(HashStore::Open(options, folder / "store", &store));
  std::vector<std::uint64_t> ids(kRows);
  for (std::size_t i = 0; i < kRows; ++i) ids[i] = 7 * i;
  void* ids_there = nullptr;
  void* rows_there = nullptr;
  void* found_there = nullptr;
  demand(cudaMalloc(&ids_there, kRows * sizeof ids[0]) == cudaSuccess, "cudaMalloc");
  demand(cudaMalloc(&rows_there, kRows * kRowBytes) == cudaSuccess, "cudaMalloc");
  demand(cudaMalloc(&found_there, kRows) == cudaSuccess, "cudaMalloc");
  demand(cudaMemset(rows_there, 'r', kRows * kRowBytes) == cudaSuccess, "cudaMemset");
  demand(cudaMemcpy(ids_there, ids.data(), kRows * sizeof ids[0], cudaMemcpyHostToDevice) ==
             cudaSuccess,
         "cudaMemcpy");
  IdRows rows{.ids = static_cast<const std::uint64_t*>(ids_there),
              .count = kRows,
              .rows = rows_there,
              .row_bytes = kRowBytes,
              .found = static_cast<std::uint8_t*>(found_there)};
  demand(store->PutRows({}, rows));
  rows.count = count;
  for (int turn = 0; turn < 3; ++turn) demand(store->FindRows(rows));
  testing::lose_device();
  const Status found = store->FindRows(rows);
  demand(found.IsIOError(), "of a lookup: " + found.ToString());
  demand(!store->PutRows({}, rows).ok(), "rows of a GPU that is lost are put");
  std::string value;
  const std::string key(reinterpret_cast<const char*>(&ids[3]), sizeof ids[3]);
  demand(store->Get(key, &value));
  demand(value == std::string(kRowBytes, 'r'), "another row");
  demand(store->Put({}, key, "more"));
  demand(store->Get(key, &value));
  demand(value == "more", "another value");
  std::cerr << "all is there" << std::endl;
  std::_Exit(0);
}

// Goal: a GPU that is lost is an error of the medium to who names memory there, and costs a store
//       nothing else: its index goes on on the host.
// Method: a kernel of the same process that traps behind lookups of few ids, and of many; each in a
//         process of its own, as nothing brings the GPU back.
// Mutation: a wait that is left out as nothing was launched, so that nobody hears of the loss.
TEST(HashLossDeathTest, StoresGoOnOnTheHost) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const std::size_t count : {std::size_t{4096}, kRows}) {
    SCOPED_TRACE(count);
    EXPECT_EXIT(lose_behind_lookups(count), ::testing::ExitedWithCode(0), "all is there");
  }
}

}  // namespace
}  // namespace breccia
