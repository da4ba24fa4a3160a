#include "sst/table.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/table.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <tuple>
#include <vector>

#include "base/bytes.h"
#include "base/random.h"
#include "sst/block.h"
#include "sst/check.h"
#include "sst/checksum.h"
#include "support/folder.h"
#include "support/seeds.h"

namespace breccia::sst {
namespace {

using testing::Folder;
using testing::Place;

struct Entry {
  std::string key;
  std::uint64_t sequence = 0;
  EntryType type = EntryType::kValue;
  std::string value;

  bool operator==(const Entry&) const = default;
};

void PrintTo(const Entry& entry, std::ostream* out) {
  *out << Slice(entry.key).ToString(true) << " " << entry.sequence << " " << name_of(entry.type);
}

/// How RocksDB writes a table.
struct Config {
  std::uint32_t version = 5;
  rocksdb::ChecksumType checksum = rocksdb::kXXH3;
  rocksdb::CompressionType compression = rocksdb::kNoCompression;
  int restarts = 16;
  int index_restarts = 1;
  bool has_hash_index = false;
  bool is_aligned = false;
};

rocksdb::Options options_of(const Config& config) {
  rocksdb::BlockBasedTableOptions table;
  table.format_version = config.version;
  table.checksum = config.checksum;
  table.block_restart_interval = config.restarts;
  table.index_block_restart_interval = config.index_restarts;
  table.block_align = config.is_aligned;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  if (config.has_hash_index) {
    table.data_block_index_type = rocksdb::BlockBasedTableOptions::kDataBlockBinaryAndHash;
  }
  rocksdb::Options options;
  options.create_if_missing = true;
  options.allow_fallocate = false;  // a log in memory would be cleared and freed as a whole
  options.compression = config.compression;
  options.disable_auto_compactions = true;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  EXPECT_TRUE(
      rocksdb::MergeOperator::CreateFromString({}, "stringappend", &options.merge_operator).ok());
  return options;
}

std::string random_key(base::Random& random) {
  std::string key = fmt::format("key{:03}", random.below(500));
  key.append(random.below(20), static_cast<char>('a' + random.below(3)));
  return key;
}

/// A table with every version of what was written, and those versions.
struct Written {
  std::string file;
  std::vector<Entry> entries;
  std::vector<Entry> range_deletions;
};

/// A snapshot behind each request keeps a flush from dropping any.
void write_with_rocksdb(const std::string& folder, const Config& config, std::uint64_t seed,
                        std::uint64_t requests, Written* written) {
  base::Random random(seed);
  rocksdb::DB* opened = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open(options_of(config), folder, &opened).ok());
  const std::unique_ptr<rocksdb::DB> db(opened);
  std::vector<const rocksdb::Snapshot*> snapshots;
  for (std::uint64_t i = 0; i < requests; ++i) {
    Entry entry{random_key(random), 0, EntryType::kValue, ""};
    entry.value.assign(random.below(10) == 0 ? random.below(6000) : random.below(60), 'v');
    const std::uint64_t kind = random.below(20);
    if (kind == 0) {
      entry.type = EntryType::kDeletion;
      entry.value.clear();
      ASSERT_TRUE(db->Delete({}, entry.key).ok());
    } else if (kind == 1) {
      entry.key = fmt::format("single{}", i);
      entry.type = EntryType::kSingleDeletion;
      entry.value.clear();
      ASSERT_TRUE(db->SingleDelete({}, entry.key).ok());
    } else if (kind == 2) {
      entry.type = EntryType::kMerge;
      ASSERT_TRUE(db->Merge({}, entry.key, entry.value).ok());
    } else if (kind == 3) {
      entry.type = EntryType::kRangeDeletion;
      entry.value = entry.key + "z";
      ASSERT_TRUE(db->DeleteRange({}, db->DefaultColumnFamily(), entry.key, entry.value).ok());
    } else {
      ASSERT_TRUE(db->Put({}, entry.key, entry.value).ok());
    }
    entry.sequence = db->GetLatestSequenceNumber();
    snapshots.push_back(db->GetSnapshot());
    (entry.type == EntryType::kRangeDeletion ? written->range_deletions : written->entries)
        .push_back(entry);
  }
  ASSERT_TRUE(db->Flush({}).ok());
  for (const rocksdb::Snapshot* snapshot : snapshots) db->ReleaseSnapshot(snapshot);
  std::vector<rocksdb::LiveFileMetaData> files;
  db->GetLiveFilesMetaData(&files);
  ASSERT_EQ(files.size(), 1U);
  written->file = folder + files[0].name;
  std::sort(written->entries.begin(), written->entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.key, b.sequence) < std::tie(b.key, a.sequence);
  });
}

std::vector<Entry> entries_of(const Table& table, Status* status) {
  std::vector<Entry> entries;
  *status = visit_entries(table, [&](const InternalKey& key, const Slice& value) {
    entries.push_back({key.user_key.ToString(), key.sequence, key.type, value.ToString()});
    return true;
  });
  return entries;
}

std::string read_file(const std::string& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

/// Opens and checks; OK if nothing is wrong.
Status check_file(const std::string& path, TableCounts* counts) {
  const auto table = Table::open(path);
  return table.ok() ? check_table(*table.value(), nullptr, counts) : table.status();
}

std::vector<Config> configs() {
  std::vector<Config> all;
  for (std::uint32_t version = 2; version <= 5; ++version) {
    for (const auto checksum : {rocksdb::kXXH3, rocksdb::kCRC32c}) {
      all.push_back({.version = version, .checksum = checksum, .restarts = 4});
    }
    all.push_back({.version = version, .checksum = rocksdb::kxxHash, .index_restarts = 5});
    all.push_back({.version = version, .checksum = rocksdb::kxxHash64, .has_hash_index = true});
  }
  for (const auto compression : {rocksdb::kSnappyCompression, rocksdb::kLZ4Compression,
                                 rocksdb::kLZ4HCCompression, rocksdb::kZSTD}) {
    all.push_back({.compression = compression});
  }
  all.push_back({.checksum = rocksdb::kNoChecksum, .restarts = 1});
  all.push_back({.is_aligned = true});
  return all;
}

// Goal: every version that RocksDB wrote is read, in its order, and the table passes its check.
// Method: random requests with a snapshot behind each, flushed under many kinds of tables.
// Mutation: handles that are not told as differences, or a hash index that is taken for restarts.
TEST(SstTable, HoldsWhatRocksDbWrote) {
  for (const std::uint64_t seed : testing::seeds_to_run(2)) {
    for (const Config& config : configs()) {
      SCOPED_TRACE(fmt::format("version {}, checksum {}, compression {}; {}", config.version,
                               static_cast<int>(config.checksum),
                               static_cast<int>(config.compression),
                               testing::replay_command(seed)));
      const Folder folder(Place::kMemory);
      Written written;
      write_with_rocksdb(folder.path(), config, seed, 600, &written);
      if (HasFatalFailure()) return;
      const auto table = Table::open(written.file);
      ASSERT_TRUE(table.ok()) << table.status().ToString();
      EXPECT_EQ(table.value()->version(), config.version);
      Status status;
      EXPECT_EQ(entries_of(*table.value(), &status), written.entries);
      EXPECT_TRUE(status.ok()) << status.ToString();
      TableCounts counts;
      status = check_table(*table.value(), nullptr, &counts);
      EXPECT_TRUE(status.ok()) << status.ToString();
      EXPECT_EQ(counts.entries, written.entries.size() + written.range_deletions.size());
      EXPECT_EQ(counts.range_deletions, written.range_deletions.size());
    }
  }
}

// Goal: no byte of a file may change without being noticed.
// Method: one bit of each byte in turn; what is left out is a version that is as good.
// Mutation: a block that is not read, or bytes between blocks, a footer's zeros or a property that
//   nobody looks at.
TEST(SstTable, EveryByteIsChecked) {
  base::Random random(testing::seeds_to_run(1).front());
  const Folder folder(Place::kMemory);
  Written written;
  write_with_rocksdb(folder / "db", {.compression = rocksdb::kLZ4Compression}, 7, 60, &written);
  if (HasFatalFailure()) return;
  const std::string whole = read_file(written.file);
  const std::string path = folder / "changed.sst";
  const std::size_t version_at = whole.size() - 12;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ (1 << random.below(8)));
    const auto version = static_cast<unsigned char>(changed[at]);
    if (at == version_at && version >= kVersionMin && version <= kVersionMax) continue;
    write_file(path, changed);
    TableCounts counts;
    ASSERT_FALSE(check_file(path, &counts).ok()) << "byte " << at << " of " << whole.size();
  }
  for (std::size_t bytes = 0; bytes < whole.size(); bytes += 1 + bytes / 16) {
    write_file(path, whole.substr(0, bytes));
    TableCounts counts;
    ASSERT_FALSE(check_file(path, &counts).ok()) << bytes << " bytes";
  }
}

/// Puts the right checksum behind the block.
void seal(const Handle& handle, std::string* file) {
  std::uint32_t sum = 0;
  ASSERT_TRUE(
      block_checksum(ChecksumType::kXxh3, Slice(file->data() + handle.offset, handle.bytes), &sum));
  std::memcpy(file->data() + handle.offset + handle.bytes + 1, &sum, sizeof sum);
}

// Goal: a block that is broken behind a right checksum is refused or read, and nothing beyond it.
// Method: bytes of a random block changed and its checksum put right; sanitizers watch.
// Mutation: a length, a handle or a restart that is believed.
TEST(SstTable, BrokenBlocksDoNoHarm) {
  std::uint64_t refused = 0;
  for (const auto compression : {rocksdb::kNoCompression, rocksdb::kSnappyCompression,
                                 rocksdb::kLZ4Compression, rocksdb::kZSTD}) {
    const Folder folder(Place::kMemory);
    Written written;
    write_with_rocksdb(folder / "db", {.compression = compression}, 11, 200, &written);
    if (HasFatalFailure()) return;
    const std::string whole = read_file(written.file);
    std::vector<Handle> handles;
    {
      const auto table = Table::open(written.file);
      ASSERT_TRUE(table.ok()) << table.status().ToString();
      handles = {table.value()->index(), table.value()->metaindex()};
      for (const auto& [name, handle] : table.value()->meta_blocks()) handles.push_back(handle);
      for (const DataBlock& block : table.value()->data_blocks()) handles.push_back(block.handle);
    }
    const std::string path = folder / "changed.sst";
    for (const std::uint64_t seed : testing::seeds_to_run(1500)) {
      SCOPED_TRACE(testing::replay_command(seed));
      base::Random random(seed);
      std::string changed = whole;
      const Handle& handle = handles[random.below(handles.size())];
      for (std::uint64_t times = 1 + random.below(3); times > 0; --times) {
        // Lengths and restarts stand at both ends.
        const std::uint64_t reach = std::min<std::uint64_t>(handle.bytes + 1, 1 + random.below(64));
        const std::uint64_t at = random.below(reach);
        const bool from_end = random.below(2) == 0;
        changed[handle.offset + (from_end ? handle.bytes - at : at)] =
            static_cast<char>(random.below(3) == 0 ? 0xFF : random.below(256));
      }
      seal(handle, &changed);
      write_file(path, changed);
      TableCounts counts;
      refused += check_file(path, &counts).ok() ? 0 : 1;
      const auto table = Table::open(path);
      if (!table.ok()) continue;
      Status status;
      (void)entries_of(*table.value(), &status);
      for (const DataBlock& block : table.value()->data_blocks()) {
        std::string room;
        Slice contents;
        if (!table.value()->read_data(block.handle, &room, &contents).ok()) continue;
        BlockEntries entries(contents, BlockEntries::Kind::kValues);
        for (int seeks = 0; seeks < 4; ++seeks) {
          (void)(entries.seek_value(random.below(contents.size() + 1)) && entries.next());
          std::uint64_t pairs[20];
          (void)entries.take_pairs(~std::uint64_t{0}, 10, pairs);
        }
      }
    }
  }
  EXPECT_GT(refused, 0U);
}

// Goal: whoever knows where a value begins finds its entry, and those behind it.
// Method: each byte of each data block is sought, in blocks with restarts near and far.
// Mutation: a restart at which the value itself begins; keys without what those before began with;
//   a place within a value that is taken for the next one.
TEST(SstBlock, FindsEntriesByTheirValues) {
  for (const int restarts : {1, 3, 16}) {
    const Folder folder(Place::kMemory);
    Written written;
    write_with_rocksdb(folder / "db", {.restarts = restarts}, 3, 200, &written);
    if (HasFatalFailure()) return;
    const auto table = Table::open(written.file);
    ASSERT_TRUE(table.ok()) << table.status().ToString();
    for (const DataBlock& block : table.value()->data_blocks()) {
      std::string room;
      Slice contents;
      ASSERT_TRUE(table.value()->read_data(block.handle, &room, &contents).ok());
      std::map<std::uint64_t, std::string> keys;  // by where values begin
      BlockEntries all(contents, BlockEntries::Kind::kValues);
      while (all.next()) keys[all.value().data() - contents.data()] = all.key().ToString();
      for (std::uint64_t at = 0; at < contents.size(); ++at) {
        BlockEntries entries(contents, BlockEntries::Kind::kValues);
        const auto expected = keys.find(at);
        ASSERT_EQ(entries.seek_value(at), expected != keys.end()) << at;
        ASSERT_EQ(entries.status().ok(), expected != keys.end()) << at;
        if (expected == keys.end()) continue;
        ASSERT_EQ(entries.key().ToString(), expected->second);
        const bool has_more = std::next(expected) != keys.end();
        ASSERT_EQ(entries.next(), has_more);
        if (has_more) {
          ASSERT_EQ(entries.key().ToString(), std::next(expected)->second);
        }
      }
    }
  }
}

struct BlockEntry {
  std::string key;  // with its tag
  std::string value;
};

/// Entries in order, most of them values of 8 bytes of keys of 8; `odd`: one in so many is not, or
/// is another version of the key before it. 0: none is.
std::vector<BlockEntry> random_entries(base::Random& random, std::uint64_t count,
                                       std::uint64_t odd) {
  std::vector<BlockEntry> entries;
  std::uint64_t head = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto is_odd = [&] { return odd > 0 && random.below(odd) == 0; };
    const bool is_version = i > 0 && is_odd();
    if (!is_version) head += 1 + (std::uint64_t{1} << random.below(48));
    std::string key(8, '\0');
    for (int byte = 0; byte < 8; ++byte) key[byte] = static_cast<char>(head >> (56 - 8 * byte));
    if (!is_version && is_odd()) key.push_back('x');
    if (is_version) key = entries[i - 1].key.substr(0, entries[i - 1].key.size() - kTagBytes);
    const std::uint64_t tag = (count - i) << 8 | (is_odd() ? 0 : 1);
    key.append(reinterpret_cast<const char*>(&tag), sizeof tag);
    entries.push_back({key, std::string(is_odd() ? random.below(300) : 8, 'v')});
    for (char& byte : entries[i].value) byte = static_cast<char>(random.below(256));
  }
  return entries;
}

void append_varint(std::uint64_t number, std::string* to) {
  for (; number >= 0x80; number >>= 7) to->push_back(static_cast<char>(number | 0x80));
  to->push_back(static_cast<char>(number));
}

std::string block_of(const std::vector<BlockEntry>& entries, std::size_t interval) {
  std::string block;
  std::string restarts;
  const auto append_word = [](std::uint64_t word, std::string* to) {
    const auto own = static_cast<std::uint32_t>(word);
    to->append(reinterpret_cast<const char*>(&own), sizeof own);
  };
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::string& key = entries[i].key;
    std::size_t shared = 0;
    if (i % interval == 0) {
      append_word(block.size(), &restarts);
    } else {
      const std::string& before = entries[i - 1].key;
      while (shared < key.size() && shared < before.size() && key[shared] == before[shared]) {
        ++shared;
      }
    }
    append_varint(shared, &block);
    append_varint(key.size() - shared, &block);
    append_varint(entries[i].value.size(), &block);
    block += key.substr(shared) + entries[i].value;
  }
  const std::size_t count = restarts.size() / sizeof(std::uint32_t);
  block += restarts;
  append_word(count, &block);
  return block;
}

// Goal: entries that are taken in rows are those that come one by one, and no others are in rows.
// Method: blocks of keys and values of 8 bytes, with and without versions, deletions and other
//   lengths between them; rows of any length, before any end, mixed with single steps.
// Mutation: a version, a deletion or a key at the end that is taken along; what a row leaves behind
//   it (key, restarts) that is not what single steps leave; a row that ends at a restart.
TEST(SstBlock, TakesPairsInRows) {
  for (const std::uint64_t seed : testing::seeds_to_run(300)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    const std::uint64_t odd = seed % 3 == 0 ? 0 : 2 + random.below(30);
    const auto expected = random_entries(random, 1 + random.below(300), odd);
    const std::string block = block_of(expected, 1 + random.below(20));
    const bool has_end = random.below(2) == 0;
    const std::uint64_t end =
        base::load_big_endian_8(expected[random.below(expected.size())].key.data());
    BlockEntries entries(block, BlockEntries::Kind::kValues);
    std::uint64_t in_rows = 0;
    std::size_t at = 0;
    for (; entries.next(); ++at) {
      ASSERT_EQ(entries.key().ToString(), expected[at].key);
      ASSERT_EQ(entries.value().ToString(), expected[at].value);
      std::vector<std::uint64_t> pairs(2 * (1 + random.below(100)));
      const std::uint32_t taken =
          entries.take_pairs(has_end ? end : ~std::uint64_t{0},
                             static_cast<std::uint32_t>(pairs.size() / 2), pairs.data());
      for (std::uint32_t i = 0; i < taken; ++i) {
        const BlockEntry& own = expected[++at];
        ASSERT_EQ(own.key.size(), 16U);
        ASSERT_EQ(own.key[8], 1) << "a deletion";
        ASSERT_EQ(own.value, std::string(reinterpret_cast<const char*>(&pairs[2 * i + 1]), 8));
        ASSERT_EQ(own.key.substr(0, 8),
                  std::string(reinterpret_cast<const char*>(&pairs[2 * i]), 8));
        ASSERT_NE(own.key.substr(0, 8), expected[at - 1].key.substr(0, 8));
        ASSERT_TRUE(!has_end || base::load_big_endian_8(own.key.data()) < end);
      }
      ASSERT_EQ(entries.key().ToString(), expected[at].key);
      ASSERT_EQ(entries.value().ToString(), expected[at].value);
      in_rows += taken;
    }
    ASSERT_TRUE(entries.status().ok()) << entries.status().ToString();
    ASSERT_EQ(at, expected.size());
    if (odd == 0 && !has_end && expected.size() > 100) {
      ASSERT_GT(in_rows, expected.size() / 2);
    }
  }
}

// Goal: what a table says of itself, behind right checksums, is held against its entries.
// Method: one lie at a time in the index, the properties and a data block.
// Mutation: separators, counts, order or types that are not looked at.
TEST(SstTable, LiesAreFound) {
  const Folder folder(Place::kMemory);
  Written written;
  write_with_rocksdb(folder / "db", {}, 5, 300, &written);
  if (HasFatalFailure()) return;
  const std::string whole = read_file(written.file);
  const auto table = Table::open(written.file);
  ASSERT_TRUE(table.ok());
  ASSERT_GE(table.value()->data_blocks().size(), 3U);
  const Handle index = table.value()->index();
  const Handle data = table.value()->data_blocks()[1].handle;
  const Handle properties = table.value()->meta_blocks().at(names::kProperties);
  // Behind the lengths of the first separator; behind a name's end, of which a property's value
  // follows; the first key, and its tag.
  const std::uint64_t separator_at = index.offset + 2;
  const std::uint64_t count_at = whole.find("entries", properties.offset) + 7;
  const std::uint64_t key_at = whole.find("key", data.offset);
  const std::uint64_t tag_at = key_at + static_cast<unsigned char>(whole[data.offset + 1]) - 8;
  const std::tuple<const char*, Handle, std::uint64_t, char> lies[] = {
      {"behind what the index says", index, separator_at, '\x01'},
      {"before what the index says", index, separator_at, '\x7f'},
      {"property", properties, count_at, static_cast<char>(whole[count_at] ^ 1)},
      {"out of order", data, key_at, '\x01'},
      {"unknown type", data, tag_at, '\x55'},
  };
  for (const auto& [what, block, at, byte] : lies) {
    std::string changed = whole;
    changed[at] = byte;
    seal(block, &changed);
    write_file(folder / "changed.sst", changed);
    TableCounts counts;
    const Status status = check_file(folder / "changed.sst", &counts);
    EXPECT_TRUE(status.IsCorruption()) << what;
    EXPECT_NE(status.ToString().find(what), std::string::npos) << what << ": " << status.ToString();
  }
}

// Goal: a file that was ingested, whose properties then do not match their checksum, is read.
// Method: RocksDB writes and ingests a file with the number in it; it passes its check. With
//   another byte of its properties changed it does not.
// Mutation: properties that are taken whatever their checksum says.
TEST(SstTable, IngestedFiles) {
  const Folder folder(Place::kMemory);
  const rocksdb::Options options = options_of({});
  rocksdb::DB* opened = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open(options, folder / "db", &opened).ok());
  const std::unique_ptr<rocksdb::DB> db(opened);
  ASSERT_TRUE(db->Put({}, "a", "old").ok());
  ASSERT_TRUE(db->Flush({}).ok());
  rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options);
  ASSERT_TRUE(writer.Open(folder / "new.sst").ok());
  ASSERT_TRUE(writer.Put("a", "new").ok());
  ASSERT_TRUE(writer.Finish().ok());
  rocksdb::IngestExternalFileOptions how;
  how.write_global_seqno = true;
  ASSERT_TRUE(db->IngestExternalFile({folder / "new.sst"}, how).ok());
  std::vector<rocksdb::LiveFileMetaData> files;
  db->GetLiveFilesMetaData(&files);
  ASSERT_EQ(files.size(), 2U);
  int ingested = 0;
  for (const auto& file : files) {
    const std::string path = (folder / "db") + file.name;
    TableCounts counts;
    const Status status = check_file(path, &counts);
    EXPECT_TRUE(status.ok()) << status.ToString();
    const auto table = Table::open(path);
    ASSERT_TRUE(table.ok());
    const auto& properties = table.value()->properties();
    const auto number = properties.find(names::kGlobalSequence);
    if (number == properties.end()) continue;
    ingested += 1;
    EXPECT_EQ(load_little_endian<std::uint64_t>(number->second.data()), file.largest_seqno);
    std::string changed = read_file(path);
    const std::size_t at = changed.find("leveldb.BytewiseComparator");
    ASSERT_NE(at, std::string::npos);
    changed[at] = 'k';
    write_file(folder / "changed.sst", changed);
    EXPECT_TRUE(check_file(folder / "changed.sst", &counts).IsCorruption());
  }
  EXPECT_EQ(ingested, 1);
}

// Goal: tables that are not read here say so.
// Method: an index of several blocks, a dictionary, a plain file and none.
// Mutation: a first level of an index that is taken for all of it.
TEST(SstTable, OthersAreNamed) {
  const Folder folder(Place::kMemory);
  rocksdb::BlockBasedTableOptions parts;
  parts.index_type = rocksdb::BlockBasedTableOptions::kTwoLevelIndexSearch;
  rocksdb::Options options;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(parts));
  rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options);
  ASSERT_TRUE(writer.Open(folder / "parts.sst").ok());
  ASSERT_TRUE(writer.Put("a", "1").ok());
  ASSERT_TRUE(writer.Finish().ok());
  EXPECT_TRUE(Table::open(folder / "parts.sst").status().IsNotSupported());
  EXPECT_TRUE(Table::open(folder / "none.sst").status().IsIOError());
  write_file(folder / "text.sst", std::string(1000, 'x'));
  EXPECT_TRUE(Table::open(folder / "text.sst").status().IsCorruption());
  write_file(folder / "empty.sst", "");
  EXPECT_TRUE(Table::open(folder / "empty.sst").status().IsCorruption());
}

// Goal: numbers are read as they are written, and not beyond a word or the end.
// Method: each length at its limits, then too long ones and every cut.
// Mutation: a fifth byte of a 32-bit number that may hold more than four bits.
TEST(SstFormat, Varints) {
  const auto read = [](const std::string& bytes, auto word) {
    Input input{Slice(bytes)};
    return input.varint(&word) && input.rest().empty() ? std::optional(word) : std::nullopt;
  };
  EXPECT_EQ(read(std::string(1, '\x7f'), std::uint32_t{}), 127U);
  EXPECT_EQ(read("\x80\x01", std::uint32_t{}), 128U);
  EXPECT_EQ(read("\xff\xff\xff\xff\x0f", std::uint32_t{}), 0xFFFFFFFFU);
  EXPECT_EQ(read("\xff\xff\xff\xff\x1f", std::uint32_t{}), std::nullopt);
  EXPECT_EQ(read("\xff\xff\xff\xff\xff\x01", std::uint32_t{}), std::nullopt);
  EXPECT_EQ(read("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", std::uint64_t{}), ~std::uint64_t{});
  EXPECT_EQ(read("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", std::uint64_t{}), std::nullopt);
  const std::string whole("\x80\x80\x80\x80\x01", 5);
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_EQ(read(whole.substr(0, bytes), std::uint64_t{}), std::nullopt) << bytes;
  }
}

}  // namespace
}  // namespace breccia::sst
