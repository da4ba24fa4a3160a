#include "compaction/job.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/table_properties.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <sstream>
#include <vector>

#include "support/folder.h"

namespace breccia::compaction {
namespace {

using testing::Folder;
using testing::Place;

/// Keeps the texts of jobs, which RocksDB then does.
class Recorder final : public rocksdb::CompactionService {
 public:
  const char* Name() const override { return "Recorder"; }
  rocksdb::CompactionServiceJobStatus StartV2(const rocksdb::CompactionServiceJobInfo&,
                                              const std::string& input) override {
    const std::lock_guard lock(mutex_);
    texts_.push_back(input);
    return rocksdb::CompactionServiceJobStatus::kUseLocal;
  }
  std::vector<std::string> texts() const {
    const std::lock_guard lock(mutex_);
    return texts_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> texts_;
};

std::unique_ptr<rocksdb::DB> open(const rocksdb::Options& options, const std::string& path) {
  rocksdb::DB* opened = nullptr;
  EXPECT_TRUE(rocksdb::DB::Open(options, path, &opened).ok());
  return std::unique_ptr<rocksdb::DB>(opened);
}

std::string text_of(const FieldWriter& fields) { return fields.framed(); }

/// A job as RocksDB writes it, with only what is read here.
FieldWriter small_job(const char* missing) {
  const auto is_there = [&](const char* name) { return std::string_view(missing) != name; };
  FieldWriter fields;
  FieldWriter family;
  if (is_there("name")) family.add_hex("name", "default");
  if (is_there("options")) family.add_nested("options", {});
  if (is_there("column_family")) fields.add_nested("column_family", family);
  if (is_there("db_options")) fields.add_nested("db_options", {});
  if (is_there("snapshots")) fields.add_plain("snapshots", "3:5");
  if (is_there("input_files")) fields.add_hex("input_files", "000001.sst");
  if (is_there("output_level")) fields.add("output_level", 2);
  if (is_there("db_id")) fields.add_hex("db_id", "id");
  if (is_there("has_begin")) fields.add("has_begin", true);
  if (is_there("begin")) fields.add_hex("begin", std::string("\x00;", 2));
  if (is_there("has_end")) fields.add("has_end", false);
  fields.add_plain("end", "");
  return fields;
}

// Goal: RocksDB's own text of a job is understood, with all that is needed of it.
// Method: a real compaction of a family with a strange name, with snapshots.
// Mutation: a field that is read from the wrong place.
TEST(CompactionJob, ReadsRocksDbsText) {
  const Folder folder(Place::kMemory);
  const auto recorder = std::make_shared<Recorder>();
  rocksdb::Options options;
  options.create_if_missing = true;
  options.allow_fallocate = false;  // a log in memory would be cleared and freed as a whole
  options.compaction_service = recorder;
  options.disable_auto_compactions = true;
  const auto db = open(options, folder.path());
  rocksdb::ColumnFamilyHandle* opened = nullptr;
  ASSERT_TRUE(db->CreateColumnFamily(options, "strange;{}=:name", &opened).ok());
  const std::unique_ptr<rocksdb::ColumnFamilyHandle> family(opened);
  std::vector<const rocksdb::Snapshot*> snapshots;
  for (int round = 0; round < 3; ++round) {
    for (int key = 0; key < 50; ++key) {
      ASSERT_TRUE(db->Put({}, family.get(), fmt::format("{:03}", key), "value").ok());
    }
    ASSERT_TRUE(db->Flush({}, family.get()).ok());
    if (round < 2) snapshots.push_back(db->GetSnapshot());
  }
  std::vector<rocksdb::LiveFileMetaData> files;
  db->GetLiveFilesMetaData(&files);
  ASSERT_TRUE(db->CompactRange({}, family.get(), nullptr, nullptr).ok());
  ASSERT_EQ(recorder->texts().size(), 1U);
  const std::string text = recorder->texts()[0];
  auto read = read_job(text);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  const ServiceJob& job = read.value();
  EXPECT_EQ(job.family, "strange;{}=:name");
  EXPECT_EQ(job.family_options.at("comparator"), "leveldb.BytewiseComparator");
  EXPECT_EQ(job.family_options.at("table_factory"), "BlockBasedTable");
  EXPECT_EQ(job.database_options.at("allow_2pc"), "false");
  EXPECT_EQ(job.snapshots, (std::vector<std::uint64_t>{snapshots[0]->GetSequenceNumber(),
                                                       snapshots[1]->GetSequenceNumber()}));
  ASSERT_EQ(job.inputs.size(), files.size());
  EXPECT_EQ(job.inputs[0], files[0].relative_filename);
  EXPECT_EQ(job.output_level, 1);
  std::string identity;
  ASSERT_TRUE(db->GetDbIdentity(identity).ok());
  EXPECT_EQ(job.database_id, identity);
  EXPECT_FALSE(job.begin);
  EXPECT_FALSE(job.end);
  for (std::size_t bytes = 0; bytes < text.size(); ++bytes) {
    ASSERT_FALSE(read_job(text.substr(0, bytes)).ok()) << bytes;
  }
  for (const auto* const snapshot : snapshots) db->ReleaseSnapshot(snapshot);
}

// Goal: parts of a job have their ranges, which meet.
// Method: RocksDB parts a compaction of many files among threads.
// Mutation: a bound that is taken where there is none.
TEST(CompactionJob, ReadsRanges) {
  const Folder folder(Place::kMemory);
  const auto recorder = std::make_shared<Recorder>();
  rocksdb::Options options;
  options.create_if_missing = true;
  options.allow_fallocate = false;  // a log in memory would be cleared and freed as a whole
  options.compaction_service = recorder;
  options.disable_auto_compactions = true;
  options.compression = rocksdb::kNoCompression;
  options.target_file_size_base = 1 << 16;
  options.max_subcompactions = 3;
  options.max_background_jobs = 8;
  const auto db = open(options, folder.path());
  for (int round = 0; round < 4; ++round) {
    for (int key = 1000 * round; key < 1000 * round + 2000; ++key) {
      ASSERT_TRUE(db->Put({}, fmt::format("{:06}", key), std::string(100, 'v')).ok());
    }
    ASSERT_TRUE(db->Flush({}).ok());
  }
  ASSERT_TRUE(db->CompactRange({}, nullptr, nullptr).ok());
  std::map<std::string, std::string> ranges;
  for (const std::string& text : recorder->texts()) {
    const auto job = read_job(text);
    ASSERT_TRUE(job.ok()) << job.status().ToString();
    ranges[job.value().begin.value_or("")] = job.value().end.value_or("");
  }
  EXPECT_GT(ranges.size(), 1U);
  std::string at;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    ASSERT_TRUE(ranges.contains(at)) << at;
    at = ranges[at];
  }
  EXPECT_EQ(at, "");
}

// Goal: a text that lacks something is refused.
// Method: each field left out in turn.
// Mutation: a field that is taken for empty where it is missing.
TEST(CompactionJob, WantsEachField) {
  const std::string whole = text_of(small_job(""));
  ASSERT_TRUE(read_job(whole).ok()) << read_job(whole).status().ToString();
  EXPECT_EQ(read_job(whole).value().begin, std::string("\x00;", 2));
  EXPECT_EQ(read_job(whole).value().snapshots, (std::vector<std::uint64_t>{3, 5}));
  for (const char* const missing :
       {"name", "options", "column_family", "db_options", "snapshots", "input_files",
        "output_level", "db_id", "has_begin", "begin", "has_end"}) {
    EXPECT_TRUE(read_job(text_of(small_job(missing))).status().IsCorruption()) << missing;
  }
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = whole;
    return read_job(text.replace(text.find(from), from.size(), to)).ok();
  };
  EXPECT_TRUE(changed("3:5", "5:5"));
  EXPECT_FALSE(changed("3:5", "5:3"));
  EXPECT_FALSE(changed("3:5", "3:x"));
  EXPECT_FALSE(changed("output_level=2", "output_level=-1"));
  EXPECT_FALSE(changed("has_begin=true", "has_begin=1"));
}

// Goal: a table's identity is what RocksDB computes of its properties.
// Method: RocksDB's own files; what it computed stands in its manifest, as two words.
// Mutation: a session's digits parted elsewhere, or another hash.
TEST(CompactionJob, UniqueIds) {
  const Folder folder(Place::kMemory);
  rocksdb::Options options;
  options.create_if_missing = true;
  options.allow_fallocate = false;  // a log in memory would be cleared and freed as a whole
  const auto db = open(options, folder.path());
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(db->Put({}, "key", "value").ok());
    ASSERT_TRUE(db->Flush({}).ok());
  }
  std::string manifests;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    if (!entry.path().filename().string().starts_with("MANIFEST")) continue;
    std::ostringstream text;
    text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    manifests += text.str();
  }
  rocksdb::TablePropertiesCollection tables;
  ASSERT_TRUE(db->GetPropertiesOfAllTables(&tables).ok());
  EXPECT_EQ(tables.size(), 3U);
  for (const auto& [path, table] : tables) {
    const auto id = unique_id(table->db_id, table->db_session_id, table->orig_file_number);
    const std::string words(reinterpret_cast<const char*>(id.data()), sizeof id);
    EXPECT_NE(manifests.find(words), std::string::npos) << path;
  }
  const std::array<std::uint64_t, 2> none = {0, 0};
  EXPECT_EQ(unique_id("", "AAAAAAAAAAAAAAAAAAAA", 1), none);
  EXPECT_EQ(unique_id("id", "AAAA", 1), none);
  EXPECT_EQ(unique_id("id", "aAAAAAAAAAAAAAAAAAAA", 1), none);
}

// Goal: an outcome says all of each file, as RocksDB wants, and counts.
// Method: two files and none, read again.
// Mutation: a field left out, or a number of the first file for all.
TEST(CompactionJob, WritesOutcomes) {
  Merged merged;
  const auto file = [](std::uint64_t number, const char* name) {
    MergedFile file;
    file.number = number;
    file.name = name;
    file.smallest = std::string("a\x01\x05\0\0\0\0\0\0", 9);
    file.largest = std::string("b\x01\0\0\0\0\0\0\0", 9);
    file.largest_sequence = 5;
    file.creation_time = 17;
    file.file_creation_time = 18;
    return file;
  };
  merged.files = {file(9, "1.sst"), file(8, "2.sst")};
  merged.counts = {.bytes_read = 100,
                   .bytes_written = 60,
                   .entries_read = 10,
                   .deletions_read = 3,
                   .entries_written = 6,
                   .deletions_written = 1};
  OutcomeFacts facts;
  facts.folder = "folder";
  facts.output_level = 4;
  facts.database_id = "id";
  facts.session_id = "0123456789ABCDEFGHIJ";
  const std::string text = write_outcome(merged, facts);
  const Fields fields = read_fields(unframed(text).value()).take();
  EXPECT_EQ(fields.at("status"), "{code=0;subcode=0;severity=0;message=;}");
  EXPECT_EQ(fields.at("output_path"), to_hex("folder"));
  EXPECT_EQ(fields.at("output_level"), "4");
  EXPECT_EQ(fields.at("num_output_records"), "6");
  EXPECT_EQ(fields.at("total_bytes"), "60");
  const Fields stats = read_nested(fields.at("stats")).take();
  EXPECT_EQ(stats.at("num_input_records"), "10");
  EXPECT_EQ(stats.at("num_expired_deletion_records"), "2");
  EXPECT_EQ(stats.at("num_records_replaced"), "2");
  const std::string list = fields.at("output_files");
  const auto items = read_list(std::string_view(list).substr(1, list.size() - 2)).take();
  ASSERT_EQ(items.size(), 2U);
  const Fields second = read_nested(items[1]).take();
  EXPECT_EQ(second.size(), 10U);
  EXPECT_EQ(second.at("file_name"), to_hex("2.sst"));
  EXPECT_EQ(second.at("smallest_internal_key"), "610105000000000000");
  EXPECT_EQ(second.at("largest_seqno"), "5");
  EXPECT_EQ(second.at("oldest_ancester_time"), "17");
  const auto id = unique_id("id", facts.session_id, 8);
  EXPECT_EQ(second.at("unique_id"), fmt::format("{}:{}", id[0], id[1]));
  merged.files.clear();
  const std::string empty = write_outcome(merged, facts);
  EXPECT_EQ(read_fields(unframed(empty).value()).take().at("output_files"), "");
}

}  // namespace
}  // namespace breccia::compaction
