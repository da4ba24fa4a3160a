#include <fmt/format.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/random.h"
#include "sst/check.h"
#include "sst/checksum.h"
#include "sst/seal.h"
#include "support/compaction_loads.h"

namespace breccia::compaction::conformance {
namespace {

/// Seeds of a thousand inputs each: all of them where a read beyond a block is seen.
#if defined(__SANITIZE_ADDRESS__)
std::vector<std::uint64_t> all_seeds() {
  if (const auto only = testing::only_seed()) return {*only};
  std::vector<std::uint64_t> seeds(1000);
  std::iota(seeds.begin(), seeds.end(), 0);
  return seeds;
}
#else
std::vector<std::uint64_t> all_seeds() { return testing::seeds_to_run(50); }
#endif

/// Contents of data blocks as RocksDB wrote them, each of its own kind.
std::vector<std::string> written_blocks() {
  std::vector<std::string> blocks;
  for (Config config : kConfigs) {
    if (config.compression != rocksdb::kNoCompression) continue;
    config.keys = 40;
    const Folder folder(Place::kMemory);
    std::filesystem::create_directories(folder / "out");
    Loaded loaded;
    load(folder / "db", config, /*seed=*/7, &loaded);
    for (const InputRun& run : job_of(loaded, config, folder / "out").runs) {
      const auto table = sst::Table::open(run.front().path);
      EXPECT_TRUE(table.ok());
      std::string room;
      rocksdb::Slice contents;
      EXPECT_TRUE(table.value()
                      ->read_data(table.value()->data_blocks().front().handle, &room, &contents)
                      .ok());
      blocks.push_back(contents.ToString());
    }
  }
  return blocks;
}

/// Small blocks: of each, the first entries and restarts of their own.
std::string shortened(const std::string& block, base::Random& random) {
  const auto restarts =
      sst::algo::Restarts::of(block.data(), static_cast<std::uint32_t>(block.size()));
  sst::algo::Reader reader{block.data(), block.data() + restarts.entries_bytes};
  std::uint64_t left = 1 + random.below(6);
  for (sst::algo::RawEntry entry; left > 0 && reader.at < reader.end; --left) {
    if (!entry.take(&reader)) break;
  }
  std::string part(block.data(), reader.at);
  const std::uint32_t end[2] = {0, 1};
  part.append(reinterpret_cast<const char*>(end), sizeof end);
  return part;
}

/// Changes a few bytes, or what blocks are made of.
void mutate(base::Random& random, const std::vector<std::string>& all, std::string* block) {
  for (std::uint64_t times = 1 + random.below(3); times > 0 && !block->empty(); --times) {
    const std::size_t at = random.below(block->size());
    switch (random.below(7)) {
      case 0:
        (*block)[at] = static_cast<char>(random.next());
        break;
      case 1:
        (*block)[at] = static_cast<char>((*block)[at] + 1 - 2 * static_cast<int>(random.below(2)));
        break;
      case 2:  // where lengths of entries and restarts are
        (*block)[random.one_in(2) ? at % 3 : block->size() - 1 - at % 8 % block->size()] =
            static_cast<char>(random.below(256));
        break;
      case 3:
        block->erase(at, random.below(8));
        break;
      case 4:
        block->insert(at, block->substr(random.below(block->size()), random.below(16)));
        break;
      case 5: {
        const std::string& other = all[random.below(all.size())];
        block->replace(at, random.below(16), other.substr(random.below(other.size()), 16));
        break;
      }
      default: {
        const std::uint32_t large = ~std::uint32_t{0} >> random.below(32);
        std::memcpy(
            block->data() + std::min(at, block->size() - std::min<std::size_t>(4, block->size())),
            &large, std::min<std::size_t>(4, block->size()));
      }
    }
  }
}

/// A block with a right checksum, in as much memory as it may be read.
std::unique_ptr<char[]> with_checksum(const std::string& block) {
  auto bytes = std::make_unique<char[]>(block.size() + sst::kTrailerBytes + sst::algo::kPadBytes);
  std::memcpy(bytes.get(), block.data(), block.size());
  const auto sum = static_cast<std::uint32_t>(XXH3_64bits(block.data(), block.size()));
  std::memcpy(bytes.get() + block.size() + 1, &sum, sizeof sum);
  return bytes;
}

/// Merges blocks, each a run of its own; what comes out, if anything, is blocks in order. False:
/// nothing did.
bool merge_blocks(Backend& backend, const std::vector<std::string>& blocks, base::Random& random) {
  Slice slice;
  std::vector<std::unique_ptr<char[]>> memory;
  slice.files.emplace_back();
  for (const std::string& block : blocks) {
    memory.push_back(with_checksum(block));
    slice.blocks.push_back({static_cast<std::uint32_t>(slice.parts.size()), 0, 0,
                            static_cast<std::uint32_t>(block.size())});
    slice.parts.push_back({memory.back().get(), block.size() + sst::kTrailerBytes});
    slice.run_blocks.push_back(1);
  }
  MergeRules rules;
  rules.is_bottommost = random.one_in(2);
  rules.snapshots = {random.below(200), 200 + random.below(200)};
  sst::TableShape shape;
  MergedSlice merged(exec::plain_host_memory());
  const Status status = backend.merge(slice, rules, shape, {}, &merged);
  if (!status.ok()) {
    EXPECT_TRUE(status.IsCorruption() || status.IsNotSupported()) << status.ToString();
    return false;
  }
  sst::SealedBlocks sealed;
  const Status outcome =
      sst::seal(shape, merged.bytes.data(), encoded_bytes(merged), merged.entries_kept,
                {merged.blocks.data(), merged.blocks.size()}, &sealed);
  EXPECT_TRUE(outcome.ok()) << outcome.ToString();
  return true;
}

// Goal: no block, whatever it says behind a right checksum, does harm: no read outside of it, no
//       hang, and what comes out is in order.
// Method: blocks of RocksDB's, whole and with few entries, are changed at random and merged, alone
//         and with others; a thousand inputs a seed, in memory of exactly their size.
// Mutation: a length, a restart or an order that is not checked: found by the address sanitizer, or
//           by what comes out.
TEST(MergeFuzz, LiesDoNoHarm) {
  const std::vector<std::string> all = written_blocks();
  const auto backend = backend_of_kind(exec::DeviceKind::kHost);
  std::uint64_t inputs = 0;
  std::uint64_t merged = 0;
  for (const std::uint64_t seed : all_seeds()) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    for (int i = 0; i < 1000; ++i, ++inputs) {
      std::vector<std::string> blocks(1 + random.below(3));
      for (std::string& block : blocks) {
        const std::string& one = all[random.below(all.size())];
        block = random.below(20) == 0 ? one : shortened(one, random);
        if (!random.one_in(4)) mutate(random, all, &block);
      }
      merged += merge_blocks(*backend, blocks, random) ? 1 : 0;
      ASSERT_FALSE(HasFailure()) << "input " << i;
    }
  }
  // Changes that nothing can notice, and those that must be.
  EXPECT_GT(merged, inputs / 10);
  EXPECT_LT(merged, inputs * 9 / 10);
}

/// Makes a block's checksum right.
void seal_again(const sst::Handle& handle, std::string* file) {
  std::uint32_t sum = 0;
  const rocksdb::Slice contents(file->data() + handle.offset, handle.bytes);
  ASSERT_TRUE(sst::block_checksum(sst::ChecksumType::kXxh3, contents, &sum));
  std::memcpy(file->data() + handle.offset + handle.bytes + 1, &sum, sizeof sum);
}

/// All blocks of a table.
std::vector<sst::Handle> handles_of(const sst::Table& table) {
  std::vector<sst::Handle> handles = {table.metaindex(), table.index()};
  for (const auto& [name, handle] : table.meta_blocks()) handles.push_back(handle);
  for (const sst::DataBlock& block : table.data_blocks()) handles.push_back(block.handle);
  return handles;
}

/// Changes a few bytes of blocks, mostly behind right checksums, or of anything; or cuts the file.
void mutate_file(base::Random& random, const std::vector<sst::Handle>& handles, std::string* file) {
  if (random.one_in(10)) {
    file->resize(random.below(file->size()));
    return;
  }
  for (std::uint64_t times = 1 + random.below(3); times > 0; --times) {
    if (random.one_in(8)) {
      (*file)[random.below(file->size())] = static_cast<char>(random.next());
      continue;
    }
    const sst::Handle& handle = handles[random.below(handles.size())];
    const std::uint64_t near = random.below(std::min<std::uint64_t>(handle.bytes + 1, 64));
    const std::uint64_t at = random.one_in(2) ? near : handle.bytes - near;
    (*file)[handle.offset + at] = static_cast<char>(random.one_in(3) ? 0xFF : random.next());
    if (!random.one_in(8)) seal_again(handle, file);
  }
}

// Goal: no file does harm, wherever it lies: in its footer, index, properties, filter or data.
// Method: one file of a job is changed at random; the job is done, or refused without a file; what
//         comes out stands the check of tables.
// Mutation: a handle that is followed beyond the file's end; a count that is believed.
TEST(MergeFuzz, FilesThatLieDoNoHarm) {
  std::uint64_t merged = 0;
  std::uint64_t inputs = 0;
  const auto backend = backend_of_kind(exec::DeviceKind::kHost);
  for (const std::uint64_t seed : testing::seeds_to_run(100)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    Config config = kConfigs[random.below(std::size(kConfigs))];
    config.checksum = rocksdb::kXXH3;
    config.keys = 40;
    const Folder folder(Place::kMemory);
    std::filesystem::create_directories(folder / "out");
    Loaded loaded;
    load(folder / "db", config, seed, &loaded);
    MergeJob job = job_of(loaded, config, folder / "out");
    std::string& path = job.runs[random.below(job.runs.size())].front().path;
    const std::string whole = read_file(path);
    const auto table = sst::Table::open(path);
    ASSERT_TRUE(table.ok());
    path = folder / "changed.sst";
    for (int i = 0; i < 40; ++i, ++inputs) {
      std::string changed = whole;
      mutate_file(random, handles_of(*table.value()), &changed);
      std::ofstream(path, std::ios::binary | std::ios::trunc) << changed;
      job.folder = folder / ("out" + std::to_string(i));
      std::filesystem::create_directories(job.folder);
      Merged result;
      const Status status = merge(job, *backend, &result);
      EXPECT_TRUE(status.ok() || status.IsCorruption() || status.IsNotSupported() ||
                  status.IsMemoryLimit())
          << status.ToString();
      EXPECT_TRUE(status.ok() || std::filesystem::is_empty(job.folder)) << status.ToString();
      for (const MergedFile& file : result.files) {
        sst::TableCounts counts;
        const auto written = sst::Table::open(job.folder + "/" + file.name);
        ASSERT_TRUE(written.ok()) << written.status().ToString();
        const Status checked = sst::check_table(*written.value(), {}, &counts);
        EXPECT_TRUE(checked.ok()) << checked.ToString();
      }
      merged += status.ok() ? 1 : 0;
      ASSERT_FALSE(HasFailure()) << "input " << i;
    }
  }
  EXPECT_GT(merged, inputs / 20);
  EXPECT_LT(merged, inputs * 19 / 20);
}

}  // namespace
}  // namespace breccia::compaction::conformance
