#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "compaction/slice_reader.h"
#include "support/compaction_loads.h"

/// What a merge must do on each executor, beside RocksDB's own compaction of the same files.

namespace breccia::compaction::conformance {

/// Where merges run.
struct Executor {
  const char* name;
  std::shared_ptr<Backend> (*make)(std::uint64_t seed);
  std::uint64_t file_bytes;  // of files in slices
};

class ExecutorConformance : public ::testing::TestWithParam<Executor> {};
class MergeConformance : public ::testing::TestWithParam<std::tuple<Executor, Config>> {};

// Goal: with stock cuts a merge writes the bytes that RocksDB writes.
// Method: four files with overwrites and deletions are compacted by RocksDB and by us, for each way
//         to write tables; blocks, filters and indexes are compared, and the properties that name
//         no identity.
// Mutation: one probe more, another estimate of a restart, the final hash's factor: each fails.
TEST_P(MergeConformance, WritesTheSameBytes) {
  const auto& [executor, config] = GetParam();
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
    const Status status = merge(job, *executor.make(seed), &merged);
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
inline void compact_with_rocksdb(rocksdb::DB* db, std::vector<Entry>* entries) {
  rocksdb::CompactRangeOptions all;
  all.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
  ASSERT_TRUE(db->CompactRange(all, nullptr, nullptr).ok());
  std::vector<rocksdb::LiveFileMetaData> files;
  db->GetLiveFilesMetaData(&files);
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return a.smallestkey < b.smallestkey; });
  for (const auto& file : files) append_entries(file.db_path + file.name, entries);
}

// Goal: slices that are merged beside each other hold what RocksDB's files hold.
// Method: the same databases, with files, and so slices, of a few blocks; the range as a whole,
//         sorted, and in two jobs that meet at a key, one merged.
// Mutation: a slice's end that takes its key in, a run's end that is one off, a block cut that
//           forgets the first entry: each fails.
TEST_P(MergeConformance, SlicesHoldTheSame) {
  const Executor& executor = std::get<0>(GetParam());
  Config config = std::get<1>(GetParam());
  config.keys = std::min<std::uint64_t>(config.keys, 600);
  for (const std::uint64_t seed : testing::seeds_to_run(2)) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    // What lies in memory is read by the thread that wants it, the rest through io_uring.
    const Folder folder(seed % 2 == 0 ? Place::kMemory : Place::kDisk);
    std::filesystem::create_directories(folder / "out");
    Loaded loaded;
    load(folder / "db", config, seed, &loaded);
    MergeJob job = job_of(loaded, config, folder / "out");
    std::vector<Entry> expected;
    compact_with_rocksdb(loaded.db.get(), &expected);
    const std::string middle = key_of(config.keys, config);
    int part = 0;
    const auto backend = executor.make(seed);
    job.file_bytes = executor.file_bytes;
    for (const bool in_two : {false, true}) {
      std::vector<Entry> found;
      for (const bool is_second : {false, true}) {
        if (is_second && !in_two) continue;
        job.begin = is_second ? std::optional(middle) : std::nullopt;
        job.end = in_two && !is_second ? std::optional(middle) : std::nullopt;
        job.ordering = !in_two ? Ordering::kSort : is_second ? Ordering::kMerge : Ordering::kAuto;
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

// Goal: runs that are out of order, behind right checksums, end in Corruption.
// Method: of one input two blocks change places; of another a block comes twice.
// Mutation: leaving out every check of order loses entries. (That runs are checked before they are
//           merged: MergeOnFake.OnlySortedRunsAreMerged.)
TEST_P(ExecutorConformance, OrderIsNotBelieved) {
  const Config& config = kConfigs[0];
  const Folder folder(Place::kMemory);
  std::filesystem::create_directories(folder / "out");
  Loaded loaded;
  load(folder / "db", config, /*seed=*/1, &loaded);
  const MergeJob job = job_of(loaded, config, folder / "out");
  Inputs inputs;
  ASSERT_TRUE(Inputs::open(job, &inputs).ok());
  const auto backend = GetParam().make(/*seed=*/1);
  SliceReader reader(inputs, backend->device().host_memory());
  for (const bool comes_twice : {false, true}) {
    Slice slice;
    ASSERT_TRUE(reader.read(std::nullopt, std::nullopt, &slice).ok());
    std::vector<SliceBlock>& blocks = slice.blocks;
    ASSERT_GT(slice.run_blocks.front(), 9U);
    if (comes_twice) {
      blocks[8] = blocks[3];
    } else {
      std::swap(blocks[8], blocks[3]);
    }
    MergedSlice merged(backend->device().host_memory());
    const Status status = backend->merge(slice, job.rules, job.shape, {}, &merged);
    EXPECT_TRUE(status.IsCorruption()) << status.ToString();
    EXPECT_EQ(merged.blocks.size(), 0U);
  }
}

inline std::string test_name(const ::testing::TestParamInfo<std::tuple<Executor, Config>>& info) {
  std::string name =
      fmt::format("{}_{}", std::get<0>(info.param).name, std::get<1>(info.param).name);
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

}  // namespace breccia::compaction::conformance
