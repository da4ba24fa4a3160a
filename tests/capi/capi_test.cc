#include <breccia/c.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "random_program.h"
#include "support/folder.h"
#include "support/seeds.h"

namespace breccia::testing {

namespace {

std::string taken(char* text) {
  std::string taken = text;
  std::free(text);
  return taken;
}

/// The first line that differs, and those before it.
std::string difference(const std::string& theirs, const std::string& ours) {
  const auto [at, other] = std::mismatch(theirs.begin(), theirs.end(), ours.begin(), ours.end());
  const auto place = static_cast<std::size_t>(at - theirs.begin());
  const std::size_t from = place < 300 ? 0 : place - 300;
  return "RocksDB: ..." + theirs.substr(from, 400) + "\nbreccia: ..." + ours.substr(from, 400);
}

/// Writes and reads back the keys of one thread, and counts what is not as written.
int wrong_values(breccia_t* db, int thread) {
  constexpr std::size_t kKeys = 200;
  int wrong = 0;
  char* error = nullptr;
  breccia_writeoptions_t* const write = breccia_writeoptions_create();
  breccia_batch_t* const batch = breccia_batch_create(db, &error);
  std::vector<std::string> texts(kKeys);
  for (int round = 0; round < 10; ++round) {
    std::vector<const char*> keys, values(kKeys);
    std::vector<std::size_t> lengths, value_lengths(kKeys);
    std::vector<int> codes(kKeys);
    for (std::size_t i = 0; i < kKeys; ++i) {
      texts[i] = std::to_string(thread) + "/" + std::to_string(i * 7919 % kKeys);
      keys.push_back(texts[i].data());
      lengths.push_back(texts[i].size());
    }
    breccia_batch_clear(batch);
    breccia_batch_put(batch, nullptr, kKeys, keys.data(), lengths.data(), keys.data(),
                      lengths.data(), &error);
    breccia_batch_get(batch, nullptr, kKeys, keys.data(), lengths.data(), &error);
    breccia_batch_submit(db, write, batch, &error);
    if (error != nullptr) break;
    breccia_batch_values(batch, 0, kKeys, codes.data(), values.data(), value_lengths.data());
    for (std::size_t i = 0; i < kKeys; ++i) {
      wrong += std::string(values[i], value_lengths[i]) != texts[i];
    }
  }
  wrong += error != nullptr;
  breccia_batch_destroy(batch);
  breccia_writeoptions_destroy(write);
  return wrong;
}

}  // namespace

// Goal: a program for rocksdb/c.h sees the same from breccia after a change of its prefix.
// Method: one C file compiled for both; random operations from a seed; what was seen is compared.
// Mutation: a get that leaves out *value_length, or a snapshot taken late, fails.
TEST(CApi, RandomProgramsAgree) {
  constexpr int kSteps = 600;
  for (const std::uint64_t seed : seeds_to_run(20)) {
    SCOPED_TRACE("seed=" + std::to_string(seed));
    const Folder rocksdb(Place::kMemory);
    const Folder breccia(Place::kMemory);
    const std::string theirs = taken(run_rocksdb(seed, kSteps, rocksdb.path().c_str()));
    const std::string ours = taken(run_breccia(seed, kSteps, breccia.path().c_str()));
    ASSERT_GT(theirs.size(), 10'000U);
    ASSERT_TRUE(theirs == ours) << difference(theirs, ours);
  }
}

// Goal: what breccia/c.h has of its own does what it says, and refusals are errors.
// Method: a C11 program: batches, engine options, families, backups, snapshots, refusals.
// Mutation: listing the hidden family, or a range that ignores its limit, fails.
TEST(CApi, Walk) {
  const Folder folder(Place::kMemory);
  const char* const failed = walk_breccia(folder.path().c_str());
  EXPECT_EQ(failed, nullptr) << failed;
}

// Goal: any number of threads may submit batches through C.
// Method: threads with keys of their own write, read back in the same batch and in the next.
// Mutation: a batch that shares results with another thread's fails, also under tsan.
TEST(CApi, ConcurrentBatches) {
  const Folder folder(Place::kMemory);
  char* error = nullptr;
  breccia_options_t* const options = breccia_options_create();
  breccia_options_set_create_if_missing(options, 1);
  breccia_engine_options_t* const engine = breccia_engine_options_create();
  breccia_engine_options_set_backend(engine, breccia_backend_host);
  breccia_engine_options_set_memtable_bytes(engine, 256 << 20);
  breccia_t* const db = breccia_open_with(options, engine, (folder / "db").c_str(), &error);
  ASSERT_EQ(error, nullptr) << error;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] { wrong += wrong_values(db, thread); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  breccia_close(db);
  breccia_engine_options_destroy(engine);
  breccia_options_destroy(options);
}

}  // namespace breccia::testing
