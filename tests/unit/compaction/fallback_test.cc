#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rocksdb/compaction_filter.h>
#include <rocksdb/comparator.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/file_checksum.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/rate_limiter.h>
#include <rocksdb/slice_transform.h>
#include <rocksdb/sst_file_manager.h>
#include <rocksdb/sst_partitioner.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/table_properties_collectors.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

#include "compaction/backend.h"
#include "compaction/service.h"
#include "exec/device.h"
#include "support/folder.h"

namespace breccia::compaction {
namespace {

using rocksdb::BlockBasedTableOptions;
using testing::Folder;
using testing::Place;

using Merge = std::function<Status(const MergeJob&, Merged*)>;
using Contents = std::vector<std::pair<std::string, std::string>>;

/// A database with a service, whose merges are `merge`.
struct Database {
  /// `family`: where everything is done; empty: the default one.
  Database(const std::string& path, rocksdb::Options options, Merge merge,
           const std::string& family, const ServiceOptions& how)
      : path_(path) {
    Engine engine;
    engine.has_device = [] { return true; };
    engine.merge = [merge = std::move(merge)](const MergeJob& job, compaction::Place,
                                              Merged* merged) { return merge(job, merged); };
    service = std::make_shared<Service>(how, std::move(engine));
    options.compaction_service = service;
    options.listeners.push_back(std::make_shared<ServiceListener>(service));
    options.create_if_missing = true;
    options.allow_fallocate = false;  // a log in memory would be cleared and freed as a whole
    options.create_missing_column_families = true;
    std::vector<rocksdb::ColumnFamilyDescriptor> families = {{"default", options}};
    if (!family.empty()) families.emplace_back(family, options);
    rocksdb::DB* opened = nullptr;
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    const Status status = rocksdb::DB::Open(options, path, families, &handles, &opened);
    EXPECT_TRUE(status.ok()) << status.ToString();
    db.reset(opened);
    for (auto* const handle : handles) handles_.emplace_back(handle);
    if (!handles_.empty()) this->family = handles_.back().get();
  }
  ~Database() {
    handles_.clear();
    if (db != nullptr) {
      EXPECT_TRUE(db->Close().ok());
    }
  }

  Contents contents() const {
    rocksdb::ReadOptions how;
    const std::string newest(8, '\xff');
    const rocksdb::Slice time(newest);
    if (family->GetComparator()->timestamp_size() > 0) how.timestamp = &time;
    const std::unique_ptr<rocksdb::Iterator> at(db->NewIterator(how, family));
    Contents contents;
    for (at->SeekToFirst(); at->Valid(); at->Next()) {
      contents.emplace_back(at->key().ToString(), at->value().ToString());
    }
    EXPECT_TRUE(at->status().ok()) << at->status().ToString();
    return contents;
  }
  void flush() const {
    const Status status = db->Flush({}, family);
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
  /// Two files that overlap, with `more` in each of them.
  void fill(const std::function<void(const Database&)>& more) const {
    for (int round = 0; round < 2; ++round) {
      for (int key = round; key < 200; key += 1 + round) {
        const Status status =
            db->Put({}, family, fmt::format("key{:04}", key), fmt::format("{}-{}", round, key));
        EXPECT_TRUE(status.ok()) << status.ToString();
      }
      EXPECT_TRUE(db->Delete({}, family, fmt::format("key{:04}", 7 + round)).ok());
      if (more) more(*this);
      flush();
    }
  }
  void compact() const {
    rocksdb::CompactRangeOptions how;
    how.exclusive_manual_compaction = false;
    const Status status = db->CompactRange(how, family, nullptr, nullptr);
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
  bool has_folder() const { return std::filesystem::exists(path_ + "/breccia-compaction"); }

  std::shared_ptr<Service> service;
  std::unique_ptr<rocksdb::DB> db;
  rocksdb::ColumnFamilyHandle* family = nullptr;

 private:
  const std::string path_;
  std::vector<std::unique_ptr<rocksdb::ColumnFamilyHandle>> handles_;
};

ServiceOptions any_job() {
  ServiceOptions how;
  how.decision.device_bytes_min = 1;
  return how;
}

rocksdb::Options plain_options() {
  rocksdb::Options options;
  options.compression = rocksdb::kNoCompression;
  options.disable_auto_compactions = true;
  return options;
}

template <class Set>
std::function<void(rocksdb::Options*)> table(const Set& set) {
  return [set](rocksdb::Options* options) {
    BlockBasedTableOptions table;
    set(&table);
    options->table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  };
}

/// Drops nothing.
class NoFilter final : public rocksdb::CompactionFilter {
 public:
  const char* Name() const override { return "NoFilter"; }
};

class NoFilters final : public rocksdb::CompactionFilterFactory {
 public:
  const char* Name() const override { return "NoFilters"; }
  std::unique_ptr<rocksdb::CompactionFilter> CreateCompactionFilter(
      const rocksdb::CompactionFilter::Context&) override {
    return std::make_unique<NoFilter>();
  }
};

struct Feature {
  const char* why;
  std::function<void(rocksdb::Options*)> set;
  std::function<void(const Database&)> write = {};  // into each file
  std::function<void(const Database&)> then = {};   // before the compaction
};

/// Does the compaction of a database with the feature, and looks whether it was RocksDB's.
void expect_left(const Feature& feature, const std::string& path, const Merge& merge,
                 const std::string& family, const ServiceOptions& how) {
  rocksdb::Options options = plain_options();
  if (feature.set) feature.set(&options);
  const Database database(path, options, merge, family, how);
  if (database.db == nullptr || ::testing::Test::HasFailure()) return;
  database.fill(feature.write);
  if (feature.then) feature.then(database);
  const Contents before = database.contents();
  database.compact();
  EXPECT_EQ(database.contents(), before);
  const Figures figures = database.service->figures();
  EXPECT_GT(figures.offered, 0U);
  const std::map<std::string, std::uint64_t> expected = {{feature.why, figures.offered}};
  EXPECT_EQ(figures.left, expected) << figures.last_error;
  EXPECT_EQ(database.service->kept_jobs(), 0U);
  EXPECT_FALSE(database.has_folder());
  EXPECT_TRUE(database.db->Put({}, database.family, "later", "value").ok());
  const Status checked = database.db->VerifyChecksum();
  EXPECT_TRUE(checked.ok() || checked.IsNotSupported()) << checked.ToString();
}

/// The engine's own merge, on the host.
Merge real_merge() {
  auto host = exec::open_device(exec::DeviceKind::kHost, 0);
  EXPECT_TRUE(host.ok());
  auto backend = make_backend(host.value(), {.name = "test"});
  EXPECT_TRUE(backend.ok());
  return [backend = backend.take()](const MergeJob& job, Merged* merged) {
    return compaction::merge(job, *backend, merged);
  };
}

Status never(const MergeJob&, Merged*) {
  ADD_FAILURE() << "a merge was begun";
  return Status::NotSupported();
}

void expect_all(const std::vector<Feature>& features, const Merge& merge,
                const std::string& family) {
  for (std::size_t i = 0; i < features.size(); ++i) {
    SCOPED_TRACE(fmt::format("{}, number {}", features[i].why, i));
    const Folder folder(Place::kMemory);
    expect_left(features[i], folder / "db", merge, family, any_job());
  }
}

std::vector<Feature> of_families() {
  using O = rocksdb::Options*;
  using T = BlockBasedTableOptions*;
  static NoFilter filter;
  return {
      {"a compaction filter", [](O o) { o->compaction_filter = &filter; }},
      {"a compaction filter",
       [](O o) { o->compaction_filter_factory = std::make_shared<NoFilters>(); }},
      {"another comparator", [](O o) { o->comparator = rocksdb::ReverseBytewiseComparator(); }},
      {"an SST partitioner",
       [](O o) { o->sst_partitioner_factory = rocksdb::NewSstPartitionerFixedPrefixFactory(4); }},
      {"a prefix extractor",
       [](O o) { o->prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(2)); }},
      {"blob files", [](O o) { o->enable_blob_files = true; }},
      {"paranoid file checks", [](O o) { o->paranoid_file_checks = true; }},
      {"tiered storage", [](O o) { o->preserve_internal_time_seconds = 1000; }},
      {"tiered storage",
       [](O o) {
         o->compaction_style = rocksdb::kCompactionStyleUniversal;
         o->last_level_temperature = rocksdb::Temperature::kCold;
       }},
      {"another table format",
       [](O o) {
         o->allow_mmap_reads = true;
         o->table_factory.reset(rocksdb::NewPlainTableFactory({.hash_table_ratio = 0}));
       }},
      {"another index type",
       table([](T t) { t->index_type = BlockBasedTableOptions::kTwoLevelIndexSearch; })},
      {"another index type",
       table([](T t) { t->index_type = BlockBasedTableOptions::kBinarySearchWithFirstKey; })},
      {"another filter",
       table([](T t) { t->filter_policy.reset(rocksdb::NewRibbonFilterPolicy(10)); })},
      {"another filter", table([](T t) {
         t->filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
         t->optimize_filters_for_memory = true;
       })},
      {"another checksum", table([](T t) { t->checksum = rocksdb::kxxHash64; })},
      {"another checksum", table([](T t) { t->checksum = rocksdb::kNoChecksum; })},
      {"blocks cut otherwise", table([](T t) { t->block_align = true; })},
      {"another compression", [](O o) { o->compression = rocksdb::kZlibCompression; }},
      {"another compression", [](O o) { o->compression = rocksdb::kLZ4HCCompression; }},
      {"a compression dictionary",
       [](O o) {
         o->compression = rocksdb::kZSTD;
         o->compression_opts.max_dict_bytes = 4096;
       }},
      {"a compression level",
       [](O o) {
         o->compression = rocksdb::kZSTD;
         o->compression_opts.level = 9;
       }},
  };
}

std::vector<Feature> of_data() {
  using O = rocksdb::Options*;
  return {
      {"merge operands",
       [](O o) {
         EXPECT_TRUE(
             rocksdb::MergeOperator::CreateFromString({}, "stringappend", &o->merge_operator).ok());
       },
       [](const Database& d) { EXPECT_TRUE(d.db->Merge({}, d.family, "unborn", "operand").ok()); }},
      {"range deletions",
       {},
       [](const Database& d) {
         EXPECT_TRUE(d.db->DeleteRange({}, d.family, "key0020", "key0030").ok());
       }},
      {"an input with blobs",
       [](O o) { o->enable_blob_files = true; },
       {},
       [](const Database& d) {
         EXPECT_TRUE(d.db->SetOptions(d.family, {{"enable_blob_files", "false"}}).ok());
       }},
      {"another compression of an input",
       [](O o) { o->compression = rocksdb::kZlibCompression; },
       {},
       [](const Database& d) {
         EXPECT_TRUE(d.db->SetOptions(d.family, {{"compression", "kNoCompression"}}).ok());
       }},
  };
}

// Goal: a family with a feature that merges do not have is left to RocksDB, for that reason.
// Method: a database with each; in the default family, of which RocksDB tells the options, and in
//   another one, of which a file does.
// Mutation: an option that is not looked at.
TEST(CompactionFallback, Families) {
  expect_all(of_families(), never, "");
  // RocksDB does not write this one into its file of options.
  const auto whole_keys =
      table([](BlockBasedTableOptions* options) { options->use_delta_encoding = false; });
  expect_all({{"keys that are stored whole", whole_keys}}, never, "");
}
TEST(CompactionFallback, OtherFamilies) { expect_all(of_families(), never, "other"); }

// Goal: the same of what files hold, as far as their properties say it.
// Method: files with each.
// Mutation: a property that is not looked at.
TEST(CompactionFallback, Data) { expect_all(of_data(), never, ""); }
TEST(CompactionFallback, DataOfOtherFamilies) { expect_all(of_data(), never, "other"); }

// Goal: the same of what belongs to a whole database.
// Method: a database with each.
// Mutation: an option that is not looked at.
TEST(CompactionFallback, Databases) {
  using O = rocksdb::Options*;
  const Folder elsewhere(Place::kMemory);
  class OtherEnv final : public rocksdb::EnvWrapper {
   public:
    OtherEnv() : EnvWrapper(rocksdb::Env::Default()) {}
    const char* Name() const override { return "OtherEnv"; }
  };
  static OtherEnv env;
  const std::vector<Feature> features = {
      {"file checksums",
       [](O o) { o->file_checksum_gen_factory = rocksdb::GetFileChecksumGenCrc32cFactory(); }},
      {"other or several paths",
       [&](O o) {
         o->db_paths = {{elsewhere / "a", 1 << 20}, {elsewhere / "b", 1 << 20}};
       }},
      {"other or several paths",
       [&](O o) {
         o->db_paths = {{elsewhere / "c", 1 << 20}};
       }},
      {"other or several paths",
       [&](O o) {
         o->cf_paths = {{elsewhere / "d", 1 << 20}};
       }},
      {"an Env of its own", [](O o) { o->env = &env; }},
      {"a rate limiter",
       [](O o) { o->rate_limiter.reset(rocksdb::NewGenericRateLimiter(1 << 30)); }},
      {"an SstFileManager",
       [](O o) {
         o->sst_file_manager.reset(rocksdb::NewSstFileManager(o->env));
         o->sst_file_manager->SetDeleteRateBytesPerSecond(1 << 20);
       }},
      {"checksum handoff",
       [](O o) { o->checksum_handoff_file_types.Add(rocksdb::FileType::kTableFile); }},
      {"transactions", [](O o) { o->allow_2pc = true; }},
      {"files may be ingested behind", [](O o) { o->allow_ingest_behind = true; }},
      // What breaks RocksDB's own texts.
      {"the job's text is not understood", [](O o) { o->db_host_id = "a;b{c"; }},
  };
  expect_all(features, never, "");
}

// Goal: properties that users collect are not lost.
// Method: a collector in the default family, of which options say it, and in another one, of which
//   files do.
// Mutation: outputs without what the collector would have added.
TEST(CompactionFallback, Collectors) {
  const auto set = [](rocksdb::Options* options) {
    options->table_properties_collector_factories.push_back(
        rocksdb::NewCompactOnDeletionCollectorFactory(1000, 999));
  };
  expect_all({{"collectors of properties", set}}, never, "");
  expect_all({{"an input with collected properties", set}}, never, "other");
}

// Goal: user timestamps, which change what a key is, are left alone.
// Method: a family with RocksDB's comparator for them.
// Mutation: another comparator taken for the bytewise one, as its order is the same here.
TEST(CompactionFallback, Timestamps) {
  const Folder folder(Place::kMemory);
  rocksdb::Options options = plain_options();
  ASSERT_TRUE(rocksdb::Comparator::CreateFromString({}, "leveldb.BytewiseComparator.u64ts",
                                                    &options.comparator)
                  .ok());
  const Database database(folder / "db", options, never, "", any_job());
  const std::string time(8, '\x01');
  for (int round = 0; round < 2; ++round) {
    for (const char* const key : {"a", "b", "c"}) {
      EXPECT_TRUE(database.db->Put({}, database.family, key, time, "value").ok());
    }
    database.flush();
  }
  const Contents before = database.contents();
  database.compact();
  EXPECT_EQ(database.contents(), before);
  const std::map<std::string, std::uint64_t> expected = {{"another comparator", 1}};
  EXPECT_EQ(database.service->figures().left, expected);
}

// Goal: FIFO's compactions within level 0 are left alone.
// Method: enough small files for one.
// Mutation: a style that is taken for levels.
TEST(CompactionFallback, Fifo) {
  const Folder folder(Place::kMemory);
  rocksdb::Options options = plain_options();
  options.compaction_style = rocksdb::kCompactionStyleFIFO;
  options.compaction_options_fifo.allow_compaction = true;
  options.level0_file_num_compaction_trigger = 2;
  options.disable_auto_compactions = false;
  options.max_open_files = -1;
  const Database database(folder / "db", options, never, "", any_job());
  for (int round = 0; round < 4; ++round) database.fill({});
  while (database.service->figures().offered == 0) std::this_thread::yield();
  EXPECT_EQ(database.contents().size(), 199U);
  rocksdb::CancelAllBackgroundWork(database.db.get(), /*wait=*/true);  // none is half counted
  const Figures figures = database.service->figures();
  ASSERT_TRUE(figures.left.contains("FIFO style"));
  EXPECT_EQ(figures.left.at("FIFO style"), figures.offered);
}

// Goal: a job of which no event told is left alone.
// Method: CompactFiles().
// Mutation: a job whose files and levels are guessed.
TEST(CompactionFallback, NoEvent) {
  const Folder folder(Place::kMemory);
  const Database database(folder / "db", plain_options(), never, "", any_job());
  database.fill({});
  const Contents before = database.contents();
  std::vector<rocksdb::LiveFileMetaData> files;
  database.db->GetLiveFilesMetaData(&files);
  std::vector<std::string> names;
  for (const auto& file : files) names.push_back(file.name);
  ASSERT_TRUE(database.db->CompactFiles({}, database.family, names, 1).ok());
  EXPECT_EQ(database.contents(), before);
  EXPECT_EQ(database.service->figures().left.at("no event told of the job"), 1U);
}

// Goal: a family of whose tables nobody tells is left alone.
// Method: the database's files of options removed.
// Mutation: the defaults taken for it.
TEST(CompactionFallback, NoOptionsFile) {
  const Folder folder(Place::kMemory);
  const std::string path = folder / "db";
  const auto remove = [&](const Database&) {
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      if (entry.path().filename().string().starts_with("OPTIONS")) {
        std::filesystem::remove(entry.path());
      }
    }
  };
  expect_left({"the family's table options are not known", {}, {}, remove}, path, never, "other",
              any_job());
}

// Goal: tables of another kind among the inputs are left alone, also where new ones are plain.
// Method: the database is opened again with other options.
// Mutation: inputs that are judged by what the options say now.
TEST(CompactionFallback, OlderInputs) {
  const auto write = [](const std::string& path, const Feature& feature) {
    rocksdb::Options options = plain_options();
    feature.set(&options);
    const Database database(path, options, never, "", any_job());
    database.fill({});
  };
  const std::vector<Feature> features = {
      {"another index type of an input", table([](BlockBasedTableOptions* t) {
         t->index_type = BlockBasedTableOptions::kTwoLevelIndexSearch;
       })},
      {"an input with collected properties",
       [](rocksdb::Options* o) {
         o->table_properties_collector_factories.push_back(
             rocksdb::NewCompactOnDeletionCollectorFactory(1000, 999));
       }},
  };
  for (const Feature& feature : features) {
    SCOPED_TRACE(feature.why);
    const Folder folder(Place::kMemory);
    write(folder / "db", feature);
    expect_left({feature.why, {}}, folder / "db", never, "", any_job());
  }
}

// Goal: what only entries tell is found while they are read, and the job is RocksDB's then.
// Method: single deletions and wide columns.
// Mutation: a type of entry that is taken for another one.
TEST(CompactionFallback, WhileReading) {
  const Merge merge = real_merge();
  expect_all({{failures::kUnsupported,
               {},
               [](const Database& d) {
                 EXPECT_TRUE(d.db->SingleDelete({}, d.family, "never-there").ok());
               }},
              {failures::kUnsupported,
               {},
               [](const Database& d) {
                 EXPECT_TRUE(d.db->PutEntity({}, d.family, "wide", {{"column", "value"}}).ok());
               }}},
             merge, "");
}

// Goal: the same of blocks that were compressed with a dictionary.
// Method: RocksDB writes such a file; its options ask for none later.
// Mutation: a dictionary that is not there taken for none.
TEST(CompactionFallback, Dictionaries) {
  const Folder folder(Place::kMemory);
  rocksdb::Options options = plain_options();
  options.compression = rocksdb::kZSTD;
  options.compression_opts.max_dict_bytes = 16 << 10;
  {
    const Database database(folder / "db", options, never, "", any_job());
    const auto more = [](const Database& d) {
      for (int key = 0; key < 5000; ++key) {
        EXPECT_TRUE(d.db->Put({}, d.family, fmt::format("more{:05}", key), "some value").ok());
      }
    };
    database.fill(more);
    database.compact();
  }
  expect_left({failures::kUnsupported, {}}, folder / "db", real_merge(), "", any_job());
}

// Goal: whatever goes wrong in a merge, RocksDB does the job, nothing is left of it, and the
//   database goes on.
// Method: merges that fail in each way, with files in their folders; and those that lie.
// Mutation: an error that is told to RocksDB as one, which stops the database.
TEST(CompactionFallback, Failures) {
  const auto litter = [](const MergeJob& job) {
    std::ofstream(job.folder + "/litter.sst") << "litter";
    return MergedFile{.name = "litter.sst",
                      .smallest = std::string("a") + std::string(8, '\x01'),
                      .largest = std::string("b") + std::string(8, '\x01'),
                      .bytes = 6,
                      .entries = 1};
  };
  const auto failing = [&](const Status& status) {
    return [=](const MergeJob& job, Merged*) {
      (void)litter(job);
      return status;
    };
  };
  const auto throwing = [&](const auto& exception) {
    return [=](const MergeJob& job, Merged*) -> Status {
      (void)litter(job);
      throw exception;
    };
  };
  const auto lying = [&](const std::function<void(Merged*)>& lie) {
    return [=](const MergeJob& job, Merged* merged) {
      merged->files = {litter(job)};
      merged->counts = {.entries_read = 301, .deletions_read = 2, .entries_written = 1};
      lie(merged);
      return Status::OK();
    };
  };
  const std::vector<std::pair<const char*, Merge>> merges = {
      {failures::kUnsupported, failing(Status::NotSupported("no"))},
      {failures::kBroken, failing(Status::Corruption("broken"))},
      {failures::kMemory, failing(Status::MemoryLimit())},
      {failures::kInputOutput, failing(Status::IOError("device"))},
      {failures::kInputOutput, failing(Status::Incomplete("other"))},
      {failures::kException, throwing(std::bad_alloc())},
      {failures::kException, throwing(std::runtime_error("other"))},
      {failures::kException, throwing(17)},
      {failures::kDoubtful, lying([](Merged* m) { m->counts.entries_read -= 1; })},
      {failures::kDoubtful, lying([](Merged* m) { m->counts.entries_written = 2; })},
      {failures::kDoubtful, lying([](Merged* m) { m->files[0].name = "other.sst"; })},
      {failures::kDoubtful, lying([](Merged* m) { m->files[0].name = "../litter.sst"; })},
      {failures::kDoubtful, lying([](Merged* m) { m->files[0].bytes = 7; })},
      {failures::kDoubtful, lying([](Merged* m) { m->files[0].smallest = "short"; })},
      {failures::kDoubtful, lying([](Merged* m) { m->files[0].smallest[0] = 'c'; })},
      {failures::kDoubtful, lying([](Merged* m) { m->files[0].smallest_sequence = 1; })},
      {failures::kDoubtful, lying([](Merged* m) {
         m->files.push_back(m->files[0]);
         m->counts.entries_written = 2;
       })},
      {failures::kDoubtful, lying([](Merged* m) {
         m->files.clear();
         m->counts.entries_written = 0;
         m->counts.deletions_read = 0;
       })},
  };
  for (std::size_t i = 0; i < merges.size(); ++i) {
    SCOPED_TRACE(fmt::format("{}, number {}", merges[i].first, i));
    const Folder folder(Place::kMemory);
    expect_left({merges[i].first, {}}, folder / "db", merges[i].second, "", any_job());
  }
}

// Goal: outputs have a folder of their own while they are written; what a dead process left there
//   goes.
// Method: a database with leftovers; a merge that looks around.
// Mutation: a folder that is made but not cleared.
TEST(CompactionFallback, Folders) {
  const Folder folder(Place::kMemory);
  const std::string path = folder / "db";
  std::atomic<int> merges = 0;
  const Merge merge = [&](const MergeJob& job, Merged*) {
    merges += 1;
    EXPECT_TRUE(std::filesystem::is_directory(job.folder));
    EXPECT_FALSE(std::filesystem::exists(path + "/breccia-compaction/dead"));
    return Status::IOError("no");
  };
  const auto leave = [&](const Database&) {
    std::filesystem::create_directories(path + "/breccia-compaction/dead");
    std::ofstream(path + "/breccia-compaction/dead/1.sst") << "old";
  };
  expect_left({failures::kInputOutput, {}, {}, leave}, path, merge, "", any_job());
  EXPECT_EQ(merges, 1);
}

// Goal: a job that does not get its turn in time is RocksDB's.
// Method: two families; the first one's merge waits for the second's answer.
// Mutation: a thread of RocksDB's that waits for ever.
TEST(CompactionFallback, WaitsWithinBounds) {
  const Folder folder(Place::kMemory);
  std::atomic<bool> is_running = false;
  std::atomic<bool> may_end = false;
  const Merge merge = [&](const MergeJob&, Merged*) {
    is_running = true;
    while (!may_end) std::this_thread::yield();
    return Status::IOError("no");
  };
  ServiceOptions how = any_job();
  how.running_max = 1;
  how.decision.jobs_max = 2;
  how.wait_us_max = 1000;
  rocksdb::Options options = plain_options();
  options.max_background_jobs = 8;
  const Database database(folder / "db", options, merge, "other", how);
  const auto fill = [&](rocksdb::ColumnFamilyHandle* family) {
    for (int round = 0; round < 2; ++round) {
      // Of one key alone RocksDB would move both files.
      EXPECT_TRUE(database.db->Put({}, family, "a", "value").ok());
      EXPECT_TRUE(database.db->Put({}, family, "b", "value").ok());
      EXPECT_TRUE(database.db->Flush({}, family).ok());
    }
  };
  auto* const first = database.db->DefaultColumnFamily();
  fill(first);
  fill(database.family);
  std::thread other([&] {
    rocksdb::CompactRangeOptions alone;
    alone.exclusive_manual_compaction = false;
    EXPECT_TRUE(database.db->CompactRange(alone, first, nullptr, nullptr).ok());
  });
  while (!is_running) std::this_thread::yield();
  database.compact();
  EXPECT_EQ(database.service->figures().left.at(failures::kWaited), 1U);
  may_end = true;
  other.join();
  EXPECT_EQ(database.service->kept_jobs(), 0U);
}

// Goal: small jobs, and those of which the device would have too many, are RocksDB's.
// Method: thresholds that one job does not reach.
// Mutation: a threshold that is not asked.
TEST(CompactionFallback, Decisions) {
  const Folder folder(Place::kMemory);
  ServiceOptions how;
  how.decision.bytes_min = 1 << 30;
  expect_left({decision_reasons::kSmall, {}}, folder / "small", never, "", how);
  how.decision = {.device_files_min = 3};
  expect_left({decision_reasons::kBelowThreshold, {}}, folder / "few", never, "", how);
  how.decision = {.jobs_max = 0};
  expect_left({decision_reasons::kFull, {}}, folder / "full", never, "", how);
}

// Goal: nothing is kept of jobs that RocksDB never offers.
// Method: a file that is moved, as nothing overlaps it.
// Mutation: a job that is kept until the database is closed.
TEST(CompactionFallback, JobsThatAreNotOffered) {
  const Folder folder(Place::kMemory);
  const Database database(folder / "db", plain_options(), never, "", any_job());
  EXPECT_TRUE(database.db->Put({}, database.family, "key", "value").ok());
  database.flush();
  database.compact();
  EXPECT_EQ(database.service->figures().offered, 0U);
  EXPECT_EQ(database.service->kept_jobs(), 0U);
}

}  // namespace
}  // namespace breccia::compaction
