#include <breccia/options.h>
#include <breccia/store.h>
#include <gtest/gtest.h>
#include <rocksdb/env.h>
#include <rocksdb/listener.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "base/random.h"
#include "ordered/engine.h"
#include "support/folder.h"
#include "support/seeds.h"
#include "support/small_options.h"
#include "tree/whole_page_env.h"

/// Compactions of the tree that RocksDB does not do itself.

namespace breccia::ordered {

namespace {

using testing::Folder;
using testing::Place;

/// Whatever the size, on cores.
CompactionServiceOptions all_on_cores() {
  return {.backend = BackendChoice::kHost, .bytes_min = 0};
}

Options tree_options() {
  Options options = testing::small_options();
  options.clean_bytes = 0;  // lookups go to the tree
  options.entry_cache_bytes = 0;
  options.rocksdb.env = rocksdb::Env::Default();  // files of others are RocksDB's
  options.rocksdb.allow_fallocate = false;
  options.compactions = all_on_cores();
  return options;
}

std::uint64_t figure(Engine& engine, const std::string& name) {
  std::string value;
  EXPECT_TRUE(engine.GetProperty("breccia.compactions." + name, &value)) << name;
  return std::stoull(value);
}

using Model = std::map<std::string, std::string>;

/// Random puts and deletions.
void load(Engine* engine, base::Random* random, Model* model) {
  Batch batch;
  for (int i = 0; i < 400; ++i) {
    const std::string key = "key" + std::to_string(random->below(500));
    if (random->one_in(4)) {
      ASSERT_TRUE(batch.Delete(key).ok());
      model->erase(key);
      continue;
    }
    const std::string value = std::to_string(random->next()) + std::string(random->below(60), '.');
    ASSERT_TRUE(batch.Put(key, value).ok());
    (*model)[key] = value;
  }
  ASSERT_TRUE(engine->Submit(WriteOptions(), &batch).ok());
}

/// What a compaction merges: one file alone would be moved.
void load_two_files(Engine* engine, base::Random* random, Model* model) {
  for (int file = 0; file < 2; ++file) {
    load(engine, random, model);
    ASSERT_TRUE(engine->Flush().ok());
  }
}

Model contents(Engine* engine) {
  Model found;
  const auto at = engine->lookups().iterate({}, kDefaultFamily, engine->pin(), {});
  for (at->SeekToFirst(); at->Valid(); at->Next())
    found[at->key().ToString()] = at->value().ToString();
  EXPECT_TRUE(at->status().ok());
  return found;
}

// Goal: compactions of the tree are done by the store's service, and change nothing that is seen.
// Method: random writes and flushes with compactions between them, against a map; the figures say
//         who compacted; a store opened again, without the service, holds the same.
// Mutation: a service that is never asked; ingested files whose sequence numbers are taken for 0.
TEST(TreeCompactions, AreDoneByTheService) {
  for (const std::uint64_t seed : testing::seeds_to_run(5)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const Folder folder(Place::kMemory);
    Options options = tree_options();
    Model model;
    std::unique_ptr<Engine> engine;
    ASSERT_TRUE(Engine::open(options, folder / "store", &engine).ok());
    for (int round = 0; round < 6; ++round) {
      load(engine.get(), &random, &model);
      ASSERT_TRUE(engine->Flush().ok());
      if (round % 2 == 0) continue;
      ASSERT_TRUE(engine->below().db()->CompactRange({}, nullptr, nullptr).ok());
      EXPECT_TRUE(contents(engine.get()) == model);
    }
    EXPECT_GT(figure(*engine, "on-host"), 0U);
    EXPECT_GT(figure(*engine, "bytes-read"), figure(*engine, "bytes-written"));
    engine.reset();
    options.compactions.reset();
    ASSERT_TRUE(Engine::open(options, folder / "store", &engine).ok());
    EXPECT_TRUE(contents(engine.get()) == model);
    ASSERT_TRUE(engine->below().db()->CompactRange({}, nullptr, nullptr).ok());
    EXPECT_TRUE(contents(engine.get()) == model);
    EXPECT_EQ(figure(*engine, "on-host"), 0U);
  }
}

// Goal: a store with residency writes its tables by whole pages, and everything is there: what it
//   flushed, what its service and what RocksDB compacted, also when it is opened again.
// Method: some megabytes in files that overlap, compacted by either; lookups in files, and a scan.
// Mutation: an Env that is not handed on, or a page that is lost, fails.
TEST(TreeCompactions, ByWholePages) {
  for (const bool has_service : {true, false}) {
    const Folder folder(Place::kDisk);
    Options options = tree_options();
    options.residency_bytes = 64 << 20;
    if (!has_service) options.compactions.reset();
    base::Random random(has_service ? 1 : 2);
    Model model;
    std::unique_ptr<Engine> engine;
    ASSERT_TRUE(Engine::open(options, folder / "store", &engine).ok());
    rocksdb::Env* const env = engine->below().db()->GetEnv();
    EXPECT_NE(env, rocksdb::Env::Default());
    EXPECT_EQ(env, tree::whole_page_env(rocksdb::Env::Default()));
    for (int file = 0; file < 3; ++file) {
      Batch batch;
      for (int i = 0; i < 2500; ++i) {
        const std::string key = "key" + std::to_string(random.below(4000));
        std::string value(1000 + random.below(1000), '\0');
        for (char& c : value) c = static_cast<char>(random.next());
        ASSERT_TRUE(batch.Put(key, value).ok());
        model[key] = std::move(value);
      }
      ASSERT_TRUE(engine->Submit(WriteOptions(), &batch).ok());
      ASSERT_TRUE(engine->Flush().ok());
      EXPECT_TRUE(contents(engine.get()) == model);
    }
    ASSERT_TRUE(engine->below().db()->CompactRange({}, nullptr, nullptr).ok());
    EXPECT_TRUE(contents(engine.get()) == model);
    EXPECT_EQ(figure(*engine, "on-host") > 0, has_service);
    ASSERT_TRUE(engine->below().db()->VerifyChecksum().ok());
    engine.reset();
    ASSERT_TRUE(Engine::open(options, folder / "store", &engine).ok());
    EXPECT_TRUE(contents(engine.get()) == model);
  }
}

// Goal: the service is asked unless somebody says that it should not be.
// Method: the default, and none.
// Mutation: a default that leaves compactions to RocksDB.
TEST(TreeCompactions, AreOfferedByDefault) {
  for (const bool is_default : {true, false}) {
    const Folder folder(Place::kMemory);
    Options options = tree_options();
    options.compactions = Options().compactions;
    if (!is_default) options.compactions.reset();
    base::Random random(1);
    Model model;
    std::unique_ptr<Engine> engine;
    ASSERT_TRUE(Engine::open(options, folder / "store", &engine).ok());
    ASSERT_NO_FATAL_FAILURE(load_two_files(engine.get(), &random, &model));
    ASSERT_TRUE(engine->below().db()->CompactRange({}, nullptr, nullptr).ok());
    const std::uint64_t asked =
        figure(*engine, "on-device") + figure(*engine, "on-host") + figure(*engine, "left");
    EXPECT_EQ(asked > 0, is_default);
    EXPECT_TRUE(contents(engine.get()) == model);
  }
}

// Goal: where there are listeners RocksDB compacts, as it tells them all only of what it does.
// Method: a listener that does nothing.
// Mutation: leaving the question out.
TEST(TreeCompactions, AreRocksDbsWithListeners) {
  const Folder folder(Place::kMemory);
  Options options = tree_options();
  options.rocksdb.listeners.push_back(std::make_shared<rocksdb::EventListener>());
  base::Random random(1);
  Model model;
  std::unique_ptr<Engine> engine;
  ASSERT_TRUE(Engine::open(options, folder / "store", &engine).ok());
  ASSERT_NO_FATAL_FAILURE(load_two_files(engine.get(), &random, &model));
  ASSERT_TRUE(engine->below().db()->CompactRange({}, nullptr, nullptr).ok());
  EXPECT_EQ(figure(*engine, "on-host"), 0U);
  EXPECT_TRUE(contents(engine.get()) == model);
}

/// A service of a user's that takes a job, keeps it until it is told to go on, and leaves it.
class HeldService final : public rocksdb::CompactionService {
 public:
  [[nodiscard]] const char* Name() const override { return "HeldService"; }
  rocksdb::CompactionServiceJobStatus StartV2(const rocksdb::CompactionServiceJobInfo&,
                                              const std::string&) override {
    return rocksdb::CompactionServiceJobStatus::kSuccess;
  }
  rocksdb::CompactionServiceJobStatus WaitForCompleteV2(const rocksdb::CompactionServiceJobInfo&,
                                                        std::string*) override {
    std::unique_lock lock(mutex_);
    holds_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return may_go_; });
    return rocksdb::CompactionServiceJobStatus::kUseLocal;
  }
  void wait_until_it_holds() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return holds_; });
  }
  void let_go() {
    const std::lock_guard lock(mutex_);
    may_go_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool holds_ = false;
  bool may_go_ = false;
};

// Goal: flushes go on while a service, of whomever, does a compaction.
// Method: a service that holds a job until a flush has ended.
// Mutation: without InstallGate::Service the flush waits for the compaction, and the test for ever.
TEST(TreeCompactions, FlushesGoOnBesideThem) {
  const Folder folder(Place::kMemory);
  Options options = tree_options();
  const auto service = std::make_shared<HeldService>();
  options.rocksdb.compaction_service = service;
  base::Random random(1);
  Model model;
  std::unique_ptr<Engine> engine;
  ASSERT_TRUE(Engine::open(options, folder / "store", &engine).ok());
  ASSERT_NO_FATAL_FAILURE(load_two_files(engine.get(), &random, &model));
  std::thread compaction(
      [&] { EXPECT_TRUE(engine->below().db()->CompactRange({}, nullptr, nullptr).ok()); });
  service->wait_until_it_holds();
  load(engine.get(), &random, &model);
  EXPECT_TRUE(engine->Flush().ok());
  service->let_go();
  compaction.join();
  EXPECT_TRUE(contents(engine.get()) == model);
}

}  // namespace
}  // namespace breccia::ordered
