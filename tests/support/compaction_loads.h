#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/random.h"
#include "compaction/backend.h"
#include "compaction/merge_job.h"
#include "sst/check.h"
#include "sst/table.h"
#include "support/folder.h"
#include "support/seeds.h"

/// Databases whose files are to be merged, for each way in which RocksDB writes tables, and what
/// comes of them.

namespace breccia::compaction::conformance {

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

inline const Config kConfigs[] = {
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
    {"keys and values of up to 4 KiB", 5, rocksdb::kXXH3, rocksdb::kNoCompression, 16, 1, 10, 4096,
     4096, 4096, 0, 64 << 20, 600},
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

inline rocksdb::Options options_of(const Config& config) {
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
  options.allow_fallocate = false;  // a log in memory would be cleared and freed as a whole
  options.compression = config.compression;
  options.disable_auto_compactions = true;
  options.target_file_size_base = config.file_bytes;
  options.max_compaction_bytes = 1ULL << 40;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

inline sst::TableShape shape_of(const Config& config) {
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

inline std::string key_of(std::uint64_t number, const Config& config) {
  if (config.key_bytes_max == 0) return fmt::format("key{:013}", number * 7919 % 1'000'000'007);
  base::Random random(number);
  std::string key(1 + random.below(config.key_bytes_max), 'k');
  // Bytes that tags have, too, so that a key may go on as the tag of another.
  for (char& byte : key) byte = static_cast<char>(random.below(4) == 0 ? random.below(256) : 1);
  return key;
}

inline std::string random_value(base::Random& random, std::uint64_t bytes_max) {
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

inline void load(const std::string& folder, const Config& config, std::uint64_t seed,
                 Loaded* loaded) {
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
inline MergeJob job_of(const Loaded& loaded, const Config& config, const std::string& folder) {
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
  job.by_whole_pages = std::strlen(config.name) % 2 == 0;  // of half of them
  return job;
}

inline std::string read_file(const std::string& path) {
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

inline void append_entries(const std::string& path, std::vector<Entry>* entries) {
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

/// All blocks but the properties, the metaindex and the footer, which say where those are.
inline std::string but_properties(const sst::Table& table, const std::string& file) {
  return file.substr(0, table.meta_blocks().at(sst::names::kProperties).offset);
}

inline std::map<std::string, std::string> comparable_properties(const sst::Table& table) {
  auto properties = table.properties();
  for (const char* const name :
       {"rocksdb.creating.db.identity", "rocksdb.creating.host.identity",
        "rocksdb.creating.session.identity", "rocksdb.original.file.number",
        "rocksdb.file.creation.time", "rocksdb.compression_options"}) {
    properties.erase(name);
  }
  return properties;
}

inline std::shared_ptr<Backend> backend_on(const exec::DevicePtr& device) {
  auto backend = make_backend(device, {.name = "compaction"});
  EXPECT_TRUE(backend.ok());
  return backend.take();
}
inline std::shared_ptr<Backend> backend_of_kind(exec::DeviceKind kind) {
  auto device = exec::open_device(kind, 0);
  EXPECT_TRUE(device.ok()) << device.status().ToString();
  return backend_on(device.value());
}

}  // namespace breccia::compaction::conformance
