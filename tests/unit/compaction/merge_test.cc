#include "compaction/merge_job.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/table.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <vector>

#include "base/random.h"
#include "compaction/backend.h"
#include "exec/fake/fake_device.h"
#include "exec/sim/sim_device.h"
#include "sst/check.h"
#include "sst/table.h"
#include "support/folder.h"
#include "support/seeds.h"

namespace breccia::compaction {
namespace {

using testing::Folder;
using testing::Place;

/// How RocksDB writes, and what.
struct Config {
  const char* name;
  std::uint32_t version = 5;
  rocksdb::ChecksumType checksum = rocksdb::kXXH3;
  rocksdb::CompressionType compression = rocksdb::kNoCompression;
  int restarts = 16;
  int index_restarts = 1;
  double filter_bits = 10;
  std::size_t block_bytes = 4096;
  std::uint64_t key_bytes_max = 16;  // from 1 to that many; 0: 16 each
  std::uint64_t value_bytes_max = 100;
  int snapshots = 0;
  std::uint64_t file_bytes = 64 << 20;
  std::uint64_t keys = 3000;
};

const Config kConfigs[] = {
    {"defaults"},
    {"version2", 2, rocksdb::kXXH3, rocksdb::kNoCompression, 16, 1, 0},
    {"version3", 3, rocksdb::kXXH3, rocksdb::kNoCompression, 16, 1, 0},
    {"version4", 4, rocksdb::kXXH3, rocksdb::kNoCompression, 16, 1, 0},
    {"crc32c", 5, rocksdb::kCRC32c},
    {"xxh64", 5, rocksdb::kxxHash64},
    {"index restarts of 4", 5, rocksdb::kXXH3, rocksdb::kNoCompression, 16, 4},
    {"index restarts of 16", 5, rocksdb::kXXH3, rocksdb::kNoCompression, 16, 16},
    {"restarts of 1", 5, rocksdb::kXXH3, rocksdb::kNoCompression, 1},
    {"restarts of 7", 5, rocksdb::kXXH3, rocksdb::kNoCompression, 7},
    {"2 bits", 5, rocksdb::kXXH3, rocksdb::kNoCompression, 16, 1, 2},
    {"16.3 bits", 5, rocksdb::kXXH3, rocksdb::kNoCompression, 16, 1, 16.3},
    {"no filter", 5, rocksdb::kXXH3, rocksdb::kNoCompression, 16, 1, 0},
    {"blocks of 16 KiB", 5, rocksdb::kXXH3, rocksdb::kNoCompression, 16, 1, 10, 16 << 10},
    {"keys of 1 to 415 bytes", 5, rocksdb::kXXH3, rocksdb::kNoCompression, 16, 1, 10, 4096, 415},
    {"keys of 1 to 2000 bytes", 5, rocksdb::kXXH3, rocksdb::kNoCompression, 16, 1, 10, 4096, 2000},
    {"keys of 1 or 2 bytes", 5, rocksdb::kXXH3, rocksdb::kNoCompression, 16, 1, 10, 4096, 2},
    {"values of up to 5 KiB", 5, rocksdb::kXXH3, rocksdb::kNoCompression, 16, 1, 10, 4096, 40,
     5000},
    {"snapshots", 5, rocksdb::kXXH3, rocksdb::kNoCompression, 16, 1, 10, 4096, 0, 60, 40, 64 << 20,
     300},
    {"snapshots, short keys", 5, rocksdb::kXXH3, rocksdb::kNoCompression, 16, 4, 10, 4096, 3, 60,
     40, 64 << 20, 300},
    {"several files", 5, rocksdb::kXXH3, rocksdb::kNoCompression, 16, 1, 10, 4096, 0, 100, 0,
     100 << 10},
    {"snappy", 5, rocksdb::kXXH3, rocksdb::kSnappyCompression},
    {"lz4", 5, rocksdb::kXXH3, rocksdb::kLZ4Compression},
    {"zstd", 5, rocksdb::kXXH3, rocksdb::kZSTD},
};

rocksdb::Options options_of(const Config& config) {
  rocksdb::BlockBasedTableOptions table;
  table.format_version = config.version;
  table.checksum = config.checksum;
  table.block_restart_interval = config.restarts;
  table.index_block_restart_interval = config.index_restarts;
  table.block_size = config.block_bytes;
  if (config.filter_bits > 0) {
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(config.filter_bits));
  }
  rocksdb::Options options;
  options.create_if_missing = true;
  options.compression = config.compression;
  options.disable_auto_compactions = true;
  options.target_file_size_base = config.file_bytes;
  options.max_compaction_bytes = 1ULL << 40;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

sst::TableShape shape_of(const Config& config) {
  sst::TableShape shape;
  shape.version = config.version;
  shape.checksum = static_cast<sst::ChecksumType>(config.checksum);
  shape.compression = static_cast<sst::Compression>(config.compression);
  shape.block_bytes = config.block_bytes;
  shape.restarts = static_cast<std::uint32_t>(config.restarts);
  shape.index_restarts = static_cast<std::uint32_t>(config.index_restarts);
  shape.filter_millibits = static_cast<std::uint32_t>(config.filter_bits * 1000 + 0.5);
  return shape;
}

std::string key_of(std::uint64_t number, const Config& config) {
  if (config.key_bytes_max == 0) return fmt::format("key{:013}", number * 7919 % 1'000'000'007);
  base::Random random(number);
  std::string key(1 + random.below(config.key_bytes_max), 'k');
  // Bytes that tags have, too, so that a key may go on as the tag of another.
  for (char& byte : key) byte = static_cast<char>(random.below(4) == 0 ? random.below(256) : 1);
  return key;
}

std::string random_value(base::Random& random, std::uint64_t bytes_max) {
  std::string value(random.below(bytes_max + 1), 'v');
  for (std::size_t i = 0; i < value.size(); i += 3) value[i] = static_cast<char>(random.below(256));
  return value;
}

/// A database with files in level 0, and its snapshots.
struct Loaded {
  std::unique_ptr<rocksdb::DB> db;
  std::vector<const rocksdb::Snapshot*> snapshots;

  ~Loaded() {
    for (const rocksdb::Snapshot* snapshot : snapshots) db->ReleaseSnapshot(snapshot);
  }
};

void load(const std::string& folder, const Config& config, std::uint64_t seed, Loaded* loaded) {
  rocksdb::DB* opened = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open(options_of(config), folder, &opened).ok());
  loaded->db.reset(opened);
  base::Random random(seed);
  constexpr std::uint64_t kFiles = 4;
  for (std::uint64_t file = 0; file < kFiles; ++file) {
    for (std::uint64_t i = 0; i < config.keys; ++i) {
      const std::string key = key_of(random.below(2 * config.keys), config);
      if (random.below(8) == 0) {
        ASSERT_TRUE(opened->Delete({}, key).ok());
      } else {
        ASSERT_TRUE(opened->Put({}, key, random_value(random, config.value_bytes_max)).ok());
      }
      if (config.snapshots > 0 &&
          random.below(kFiles * config.keys) < static_cast<std::uint64_t>(config.snapshots)) {
        loaded->snapshots.push_back(opened->GetSnapshot());
      }
    }
    ASSERT_TRUE(opened->Flush({}).ok());
  }
}

/// The job of compacting all files, which lie in level 0, to the bottom; files are linked to
/// `folder`, as a compaction deletes them.
MergeJob job_of(const Loaded& loaded, const Config& config, const std::string& folder) {
  MergeJob job;
  std::vector<rocksdb::LiveFileMetaData> files;
  loaded.db->GetLiveFilesMetaData(&files);
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return a.largest_seqno > b.largest_seqno; });
  for (const auto& file : files) {
    const std::string link = folder + "/in" + file.name.substr(1);
    std::filesystem::create_hard_link(file.db_path + file.name, link);
    job.runs.push_back({{link, std::nullopt}});
  }
  for (const rocksdb::Snapshot* snapshot : loaded.snapshots) {
    if (job.rules.snapshots.empty() ||
        job.rules.snapshots.back() != snapshot->GetSequenceNumber()) {
      job.rules.snapshots.push_back(snapshot->GetSequenceNumber());
    }
  }
  job.rules.is_bottommost = true;
  job.rules.drops_deletions = true;
  job.shape = shape_of(config);
  job.origin.filter_policy = "bloomfilter";
  job.file_bytes = config.file_bytes;
  job.folder = folder;
  return job;
}

std::string read_file(const std::string& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

/// What a table holds.
struct Entry {
  std::string key;  // internal
  std::string value;

  bool operator==(const Entry&) const = default;
};

void append_entries(const std::string& path, std::vector<Entry>* entries) {
  auto table = sst::Table::open(path);
  ASSERT_TRUE(table.ok()) << table.status().ToString();
  sst::TableCounts counts;
  const Status checked = sst::check_table(*table.value(), {}, &counts);
  ASSERT_TRUE(checked.ok()) << path << ": " << checked.ToString();
  const Status status = sst::visit_entries(
      *table.value(), [&](const sst::InternalKey& key, const rocksdb::Slice& value) {
        entries->push_back({fmt::format("{} {} {}", key.user_key.ToString(true), key.sequence,
                                        static_cast<int>(key.type)),
                            value.ToString()});
        return true;
      });
  ASSERT_TRUE(status.ok()) << status.ToString();
}

std::shared_ptr<Backend> host_backend() {
  auto device = exec::open_device(exec::DeviceKind::kHost, 0);
  EXPECT_TRUE(device.ok());
  auto backend = make_backend(device.value(), {.name = "compaction"});
  EXPECT_TRUE(backend.ok());
  return backend.take();
}

std::shared_ptr<Backend> simulated_backend(std::uint64_t seed) {
  auto backend = make_backend(exec::sim::make_simulator_device(seed), {.name = "compaction"});
  EXPECT_TRUE(backend.ok());
  return backend.take();
}

/// All blocks but the properties, the metaindex and the footer, which say where those are.
std::string but_properties(const sst::Table& table, const std::string& file) {
  return file.substr(0, table.meta_blocks().at(sst::names::kProperties).offset);
}

std::map<std::string, std::string> comparable_properties(const sst::Table& table) {
  auto properties = table.properties();
  for (const char* const name :
       {"rocksdb.creating.db.identity", "rocksdb.creating.host.identity",
        "rocksdb.creating.session.identity", "rocksdb.original.file.number",
        "rocksdb.file.creation.time", "rocksdb.compression_options"}) {
    properties.erase(name);
  }
  return properties;
}

class MergeAsStock : public ::testing::TestWithParam<Config> {};

// Goal: with stock cuts a merge writes the bytes that RocksDB writes.
// Method: four files with overwrites and deletions are compacted by RocksDB and by us, for each way
//         to write tables; blocks, filters and indexes are compared, and the properties that name
//         no identity.
// Mutation: one probe more, another estimate of a restart, the final hash's factor: each fails.
TEST_P(MergeAsStock, WritesTheSameBytes) {
  const Config& config = GetParam();
  for (const std::uint64_t seed : testing::seeds_to_run(2)) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Folder folder(Place::kMemory);
    const std::string out = folder.path() + "/out";
    std::filesystem::create_directories(out);
    Loaded loaded;
    load(folder.path() + "/db", config, seed, &loaded);
    MergeJob job = job_of(loaded, config, out);
    job.has_stock_cuts = true;
    Merged merged;
    const Status status = merge(job, *host_backend(), &merged);
    ASSERT_TRUE(status.ok()) << status.ToString();
    rocksdb::CompactRangeOptions all;
    all.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
    ASSERT_TRUE(loaded.db->CompactRange(all, nullptr, nullptr).ok());
    std::vector<rocksdb::LiveFileMetaData> files;
    loaded.db->GetLiveFilesMetaData(&files);
    std::sort(files.begin(), files.end(),
              [](const auto& a, const auto& b) { return a.smallestkey < b.smallestkey; });
    ASSERT_EQ(files.size(), merged.files.size());
    for (std::size_t i = 0; i < files.size(); ++i) {
      const std::string theirs = files[i].db_path + files[i].name;
      const std::string ours = out + "/" + merged.files[i].name;
      auto their_table = sst::Table::open(theirs);
      auto our_table = sst::Table::open(ours);
      ASSERT_TRUE(our_table.ok()) << our_table.status().ToString();
      sst::TableCounts counts;
      const Status checked = sst::check_table(*our_table.value(), {}, &counts);
      EXPECT_TRUE(checked.ok()) << checked.ToString();
      EXPECT_EQ(comparable_properties(*our_table.value()),
                comparable_properties(*their_table.value()));
      EXPECT_TRUE(but_properties(*our_table.value(), read_file(ours)) ==
                  but_properties(*their_table.value(), read_file(theirs)));
      EXPECT_EQ(merged.files[i].smallest_sequence, files[i].smallest_seqno);
      EXPECT_EQ(merged.files[i].largest_sequence, files[i].largest_seqno);
    }
  }
}

/// What RocksDB makes of all files.
void compact_with_rocksdb(rocksdb::DB* db, std::vector<Entry>* entries) {
  rocksdb::CompactRangeOptions all;
  all.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
  ASSERT_TRUE(db->CompactRange(all, nullptr, nullptr).ok());
  std::vector<rocksdb::LiveFileMetaData> files;
  db->GetLiveFilesMetaData(&files);
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return a.smallestkey < b.smallestkey; });
  for (const auto& file : files) append_entries(file.db_path + file.name, entries);
}

class MergeInSlices : public ::testing::TestWithParam<Config> {};

// Goal: slices that are merged beside each other, on any executor, hold what RocksDB's files hold.
// Method: the same databases, with files, and so slices, of a few blocks; the host, and the
//         simulator; the range as a whole, and in two jobs that meet at a key.
// Mutation: a slice's end that takes its key in, a run's end that is one off, a block cut that
//           forgets the first entry: each fails.
TEST_P(MergeInSlices, HoldTheSame) {
  Config config = GetParam();
  config.keys = std::min<std::uint64_t>(config.keys, 600);
  for (const std::uint64_t seed : testing::seeds_to_run(2)) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Folder folder(Place::kMemory);
    std::filesystem::create_directories(folder / "out");
    Loaded loaded;
    load(folder / "db", config, seed, &loaded);
    MergeJob job = job_of(loaded, config, folder / "out");
    std::vector<Entry> expected;
    compact_with_rocksdb(loaded.db.get(), &expected);
    const std::string middle = key_of(config.keys, config);
    int part = 0;
    for (const auto& backend : {host_backend(), simulated_backend(seed)}) {
      job.file_bytes = backend->device().is_host() ? 20 << 10 : 60 << 10;
      for (const bool in_two : {false, true}) {
        std::vector<Entry> found;
        for (const bool is_second : {false, true}) {
          if (is_second && !in_two) continue;
          job.begin = is_second ? std::optional(middle) : std::nullopt;
          job.end = in_two && !is_second ? std::optional(middle) : std::nullopt;
          job.folder = folder / ("out" + std::to_string(part++));
          std::filesystem::create_directories(job.folder);
          Merged merged;
          const Status status = merge(job, *backend, &merged);
          ASSERT_TRUE(status.ok()) << status.ToString();
          for (const MergedFile& file : merged.files) {
            append_entries(job.folder + "/" + file.name, &found);
          }
        }
        EXPECT_EQ(found.size(), expected.size());
        EXPECT_TRUE(found == expected);
      }
    }
  }
}

std::string test_name(const ::testing::TestParamInfo<Config>& info) {
  std::string name = info.param.name;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Tables, MergeInSlices, ::testing::ValuesIn(kConfigs), test_name);
INSTANTIATE_TEST_SUITE_P(Tables, MergeAsStock, ::testing::ValuesIn(kConfigs), test_name);

// ---- what fails --------------------------------------------------------------------------------

constexpr std::uint64_t kNever = 1ULL << 40;

/// A small job, and how many entries come of it.
class SmallJob {
 public:
  explicit SmallJob(const Config& config) : folder_(Place::kMemory) {
    std::filesystem::create_directories(folder_ / "out");
    load(folder_ / "db", config, /*seed=*/1, &loaded_);
    job_ = job_of(loaded_, config, folder_ / "out");
    inputs_ = files();
    EXPECT_TRUE(run(*host_backend()).ok());
    entries_ = written_;
    EXPECT_GT(entries_, 50U);
  }

  /// Does the job; if that ends well, with what is to come of it, else without a file.
  Status run(Backend& backend) {
    Merged merged;
    Status status = merge(job_, backend, &merged);
    written_ = merged.counts.entries_written;
    if (status.ok()) {
      EXPECT_TRUE(entries_ == 0 || written_ == entries_);
      for (const MergedFile& file : merged.files) {
        std::filesystem::remove(job_.folder + "/" + file.name);
      }
    }
    EXPECT_EQ(files(), inputs_);
    return status;
  }
  MergeJob& job() { return job_; }

 private:
  [[nodiscard]] std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(folder_ / "out"), {}));
  }

  Folder folder_;
  Loaded loaded_;
  MergeJob job_;
  std::size_t inputs_ = 0;
  std::uint64_t entries_ = 0;
  std::uint64_t written_ = 0;
};

Config small_config() {
  Config config{"small"};
  config.keys = 60;
  return config;
}

std::shared_ptr<Backend> fake_backend(exec::FakeFaults* faults) {
  auto backend = make_backend(exec::fake::make_fake_device(faults), {.name = "compaction"});
  EXPECT_TRUE(backend.ok());
  return backend.take();
}

// Goal: whichever operation of a device fails, the merge says so, leaves no file, keeps no memory,
//       and the device goes on.
// Method: one job again and again, with operation 1, 2, 3, ... failing, for each fault.
// Mutation: an error that is dropped on the way out ends in an OK without entries.
TEST(MergeOnFake, AnyOperationMayFail) {
  SmallJob job(small_config());
  exec::FakeFaults counted;
  ASSERT_TRUE(job.run(*fake_backend(&counted)).ok());
  const std::uint64_t operations = counted.operations();
  ASSERT_GT(operations, 50U);
  for (const exec::Fault fault : {exec::Fault::kOutOfMemory, exec::Fault::kLaunchFailure}) {
    exec::FakeFaults faults;
    const auto backend = fake_backend(&faults);
    std::uint64_t failures = 0;
    for (std::uint64_t k = 1; k <= operations; ++k) {
      SCOPED_TRACE(fmt::format("operation {}", k));
      faults.fail_after(k, fault);
      // An allocation of nothing succeeds even without memory.
      const Status status = job.run(*backend);
      EXPECT_TRUE(status.ok() || status.IsMemoryLimit() || status.IsIOError());
      failures += status.ok() ? 0 : 1;
      EXPECT_EQ(backend->tenant().used(), 0U);
      faults.fail_after(kNever, fault);
      EXPECT_TRUE(job.run(*backend).ok());
    }
    EXPECT_GT(failures, operations * 3 / 4);
  }
}

// Goal: a device that is lost in the middle of a job ends it, and all that come, with an error.
// Method: as above, with a loss.
// Mutation: an operation behind the loss that says OK ends in wrong files.
TEST(MergeOnFake, MayBeLost) {
  SmallJob job(small_config());
  exec::FakeFaults counted;
  ASSERT_TRUE(job.run(*fake_backend(&counted)).ok());
  for (std::uint64_t k = 1; k <= counted.operations(); ++k) {
    SCOPED_TRACE(fmt::format("operation {}", k));
    exec::FakeFaults faults;
    const auto backend = fake_backend(&faults);
    faults.fail_after(k, exec::Fault::kDeviceLost);
    // What is lost in the last wait may have been done.
    const Status status = job.run(*backend);
    EXPECT_TRUE(status.ok() || status.IsMemoryLimit() || status.IsIOError()) << status.ToString();
    EXPECT_TRUE(job.run(*backend).IsIOError());
  }
}

// Goal: a merge on the device that goes wrong without a word is noticed before anybody believes it.
// Method: one job again and again, with merge 1, 2, 3, ... losing an entry and saying OK.
// Mutation: leaving CheckMerged out ends in an OK, or in a read beyond an array.
TEST(MergeOnFake, AnyMergeMayBeFalse) {
  SmallJob job(small_config());
  exec::FakeFaults counted;
  ASSERT_TRUE(job.run(*fake_backend(&counted)).ok());
  ASSERT_GT(counted.sorts(), 2U);
  for (std::uint64_t k = 1; k <= counted.sorts(); ++k) {
    SCOPED_TRACE(fmt::format("merge {}", k));
    exec::FakeFaults faults;
    const auto backend = fake_backend(&faults);
    faults.falsify_sort(k);
    EXPECT_TRUE(job.run(*backend).IsCorruption());
  }
}

}  // namespace
}  // namespace breccia::compaction
