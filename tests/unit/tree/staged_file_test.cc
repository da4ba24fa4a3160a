#include "tree/staged_file.h"

#include <gtest/gtest.h>
#include <rocksdb/env.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/sst_file_reader.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/table.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "exec/host/host_memory.h"
#include "support/append_operator.h"
#include "support/folder.h"
#include "support/seeds.h"

namespace breccia::tree {
namespace {

using testing::Folder;
using testing::Place;

/// A kind of table.
struct Kind {
  const char* name;
  std::function<void(rocksdb::Options*, rocksdb::BlockBasedTableOptions*)> change;
};

std::vector<Kind> encoded_kinds() {
  return {
      {"defaults", [](auto*, auto*) {}},
      {"filter", [](auto*, auto* t) { t->filter_policy.reset(rocksdb::NewBloomFilterPolicy(10)); }},
      {"lz4 at the bottom",
       [](auto* o, auto*) {
         o->bottommost_compression = rocksdb::kLZ4Compression;
         o->compression = rocksdb::kNoCompression;
       }},
      {"zstd on the last level",
       [](auto* o, auto*) {
         o->compression_per_level = {rocksdb::kNoCompression, rocksdb::kZSTD};
       }},
      {"nothing compressed",
       [](auto* o, auto* t) {
         o->compression = rocksdb::kNoCompression;
         t->filter_policy.reset(rocksdb::NewBloomFilterPolicy(7.5));
       }},
      {"crc32c, version 2",
       [](auto* o, auto* t) {
         o->compression = rocksdb::kNoCompression;
         t->checksum = rocksdb::kCRC32c;
         t->format_version = 2;
       }},
      {"an index as it is", [](auto*, auto* t) { t->enable_index_compression = false; }},
      {"keys of an index as they are",
       [](auto*, auto* t) {
         t->index_shortening = rocksdb::BlockBasedTableOptions::IndexShorteningMode::kNoShortening;
       }},
      {"keys of an index all shortened",
       [](auto*, auto* t) {
         t->index_shortening =
             rocksdb::BlockBasedTableOptions::IndexShorteningMode::kShortenSeparatorsAndSuccessor;
       }},
      {"large blocks", [](auto*, auto* t) { t->block_size = 64 << 10; }},
      {"small blocks",
       [](auto*, auto* t) {
         t->block_size = 300;
         t->block_restart_interval = 3;
         t->format_version = 4;
       }},
  };
}

std::vector<Kind> others() {
  return {
      {"blocks with hashes",
       [](auto*, auto* t) {
         t->data_block_index_type = rocksdb::BlockBasedTableOptions::kDataBlockBinaryAndHash;
       }},
      {"a filter of an older version",
       [](auto*, auto* t) {
         t->filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
         t->format_version = 4;
       }},
      {"a level",
       [](auto* o, auto*) {
         o->compression = rocksdb::kZSTD;
         o->compression_opts.level = 3;
       }},
      {"another filter",
       [](auto*, auto* t) { t->filter_policy.reset(rocksdb::NewRibbonFilterPolicy(10)); }},
  };
}

/// Entries of a file, ascending; texts are owned.
struct Entries {
  std::vector<std::string> keys;
  std::vector<std::string> values;
  std::vector<FileEntry> list;
};

std::string text_of(base::Random* random, std::uint64_t bytes) {
  std::string text(bytes, ' ');
  for (char& c : text) c = static_cast<char>('a' + random->below(3));
  return text;
}

void make_entries(std::uint64_t count, base::Random* random, Entries* entries) {
  std::map<std::string, std::string> made;
  const bool is_uniform = random->below(2) == 0;
  while (made.size() < count) {
    const std::string key = text_of(random, is_uniform ? 16 : random->below(40));
    made[key] =
        text_of(random, random->below(100) == 0 ? random->below(100'000) : random->below(99));
  }
  for (auto& [key, value] : made) {
    entries->keys.push_back(key);
    entries->values.push_back(value);
  }
  constexpr record::Op kOps[] = {record::Op::kPut,   record::Op::kPut,
                                 record::Op::kPut,   record::Op::kDelete,
                                 record::Op::kMerge, record::Op::kSingleDelete};
  for (std::size_t i = 0; i < count; ++i) {
    const record::Op op = kOps[random->below(6)];
    const bool hides = op == record::Op::kSingleDelete || random->below(20) == 0;
    entries->list.push_back({op, entries->keys[i], entries->values[i], hides});
  }
}

/// Fills a file with RocksDB's writer.
void write_stock(const std::string& path, const rocksdb::Options& options,
                 rocksdb::ColumnFamilyHandle* family, const std::vector<FileEntry>& entries) {
  rocksdb::SstFileWriter writer(rocksdb::EnvOptions(options), options, family);
  ASSERT_TRUE(writer.Open(path).ok());
  for (const FileEntry& entry : entries) {
    if (entry.hides_older) {
      ASSERT_TRUE(writer.DeleteRange(entry.key, entry.key.ToString() + '\0').ok());
    }
    Status status;
    if (entry.op == record::Op::kPut) status = writer.Put(entry.key, entry.value);
    if (entry.op == record::Op::kMerge) status = writer.Merge(entry.key, entry.value);
    if (entry.op == record::Op::kDelete) status = writer.Delete(entry.key);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  ASSERT_TRUE(writer.Finish().ok());
}

/// What a file's properties say, and the session, but for what no two files share and what hangs on
/// how blocks are cut.
std::map<std::string, std::string> said_of(const std::string& path, const rocksdb::Options& options,
                                           std::string* session) {
  rocksdb::SstFileReader reader(options);
  EXPECT_TRUE(reader.Open(path).ok());
  EXPECT_TRUE(reader.VerifyChecksum().ok());
  const auto p = reader.GetTableProperties();
  std::map<std::string, std::string> said = p->user_collected_properties;
  for (auto& [name, value] : p->readable_properties) said["readable " + name] = value;
  const auto number = [&](const char* name, std::uint64_t value) {
    said[name] = std::to_string(value);
  };
  number("entries", p->num_entries);
  number("deletions", p->num_deletions);
  number("operands", p->num_merge_operands);
  number("ranges", p->num_range_deletions);
  number("key bytes", p->raw_key_size);
  number("value bytes", p->raw_value_size);
  number("filter entries", p->num_filter_entries);
  number("family", p->column_family_id);
  number("creation time", p->creation_time);
  number("oldest key", p->oldest_key_time);
  number("file creation", p->file_creation_time);
  number("version", p->format_version);
  number("fixed", p->fixed_key_len);
  said["name"] = p->column_family_name;
  said["filter"] = p->filter_policy_name;
  said["comparator"] = p->comparator_name;
  said["operator"] = p->merge_operator_name;
  said["prefix"] = p->prefix_extractor_name;
  said["collectors"] = p->property_collectors_names;
  said["compression"] = p->compression_name;
  said["compression options"] = p->compression_options;
  said["database"] = p->db_id;
  said["host"] = p->db_host_id;
  EXPECT_EQ(p->db_session_id.size(), 20U);
  EXPECT_GT(p->orig_file_number, 0U);
  *session = p->db_session_id;
  return said;
}

/// A database of RocksDB's that holds a value of every second key before the file comes.
class Stock {
 public:
  Stock(const std::string& path, rocksdb::Options options, const Entries& entries) {
    options.create_if_missing = true;
    rocksdb::DB* db = nullptr;
    EXPECT_TRUE(rocksdb::DB::Open(options, path, &db).ok());
    db_.reset(db);
    for (std::size_t i = 0; i < entries.keys.size(); i += 2) {
      EXPECT_TRUE(db_->Put({}, entries.keys[i], "before").ok());
    }
    EXPECT_TRUE(db_->Flush({}).ok());
  }

  rocksdb::ColumnFamilyHandle* family() { return db_->DefaultColumnFamily(); }
  void ingest(const std::string& path) {
    rocksdb::IngestExternalFileOptions how;
    how.write_global_seqno = false;
    how.verify_checksums_before_ingest = true;
    const Status status = db_->IngestExternalFile({path}, how);
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
  std::map<std::string, std::string> all() {
    std::map<std::string, std::string> all;
    rocksdb::ReadOptions how;
    how.total_order_seek = true;
    const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator(how));
    for (at->SeekToFirst(); at->Valid(); at->Next()) {
      all[at->key().ToString()] = at->value().ToString();
    }
    EXPECT_TRUE(at->status().ok());
    return all;
  }
  /// The same, key by key, so that filters are asked.
  void expect_gets(const Entries& entries, const std::map<std::string, std::string>& all) {
    std::string value;
    for (const std::string& key : entries.keys) {
      const Status status = db_->Get({}, key, &value);
      const auto found = all.find(key);
      ASSERT_EQ(status.ok(), found != all.end()) << status.ToString();
      if (!status.ok()) continue;
      ASSERT_EQ(value, found->second);
    }
  }
  void compact() {
    EXPECT_TRUE(db_->CompactRange({}, nullptr, nullptr).ok());
    EXPECT_TRUE(db_->VerifyChecksum().ok());
  }

 private:
  std::unique_ptr<rocksdb::DB> db_;
};

/// An Env whose files have so many bytes left together.
class FullEnv final : public rocksdb::EnvWrapper {
 public:
  FullEnv() : EnvWrapper(rocksdb::Env::Default()) {}
  [[nodiscard]] const char* Name() const override { return "FullEnv"; }
  rocksdb::Status NewWritableFile(const std::string& path,
                                  std::unique_ptr<rocksdb::WritableFile>* file,
                                  const rocksdb::EnvOptions& options) override {
    const rocksdb::Status status = target()->NewWritableFile(path, &inner_, options);
    if (status.ok()) *file = std::make_unique<File>(std::move(inner_), &left);
    return status;
  }
  std::uint64_t left = 0;

 private:
  class File final : public rocksdb::WritableFileWrapper {
   public:
    File(std::unique_ptr<rocksdb::WritableFile> inner, std::uint64_t* left)
        : WritableFileWrapper(inner.get()), inner_(std::move(inner)), left_(*left) {}
    using WritableFileWrapper::Append;
    rocksdb::Status Append(const rocksdb::Slice& bytes) override {
      if (bytes.size() > left_) return rocksdb::Status::NoSpace();
      left_ -= bytes.size();
      return inner_->Append(bytes);
    }

   private:
    const std::unique_ptr<rocksdb::WritableFile> inner_;
    std::uint64_t& left_;
  };
  std::unique_ptr<rocksdb::WritableFile> inner_;
};

rocksdb::Options options_of(const Kind& kind) {
  rocksdb::Options options;
  options.merge_operator = std::make_shared<testing::AppendOperator>();
  rocksdb::BlockBasedTableOptions tables;
  kind.change(&options, &tables);
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(tables));
  return options;
}

/// Writes the same entries twice, ingests both, and compares what the files and the databases say.
void compare(const Kind& kind, std::uint64_t count, bool by_encoder, std::uint64_t seed) {
  SCOPED_TRACE(kind.name);
  base::Random random(seed);
  const Folder folder(Place::kMemory);
  const rocksdb::Options options = options_of(kind);
  ASSERT_EQ(is_encoded(options), by_encoder);
  Entries entries;
  make_entries(count, &random, &entries);
  Stock ours(folder / "ours", options, entries);
  Stock stock(folder / "stock", options, entries);
  exec::host::HostPool work(1 << 30);
  auto made = stage_file(folder / "ours.sst", options, ours.family(), work);
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  for (const FileEntry& entry : entries.list) {
    const Status status = made.value()->add(entry);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  const Status finished = made.value()->finish();
  ASSERT_TRUE(finished.ok()) << finished.ToString();
  write_stock(folder / "stock.sst", options, stock.family(), entries.list);
  std::string session;
  std::string stock_session;
  EXPECT_EQ(said_of(folder / "ours.sst", options, &session),
            said_of(folder / "stock.sst", options, &stock_session));
  EXPECT_NE(session, stock_session);
  ours.ingest(folder / "ours.sst");
  stock.ingest(folder / "stock.sst");
  const auto all = stock.all();
  EXPECT_EQ(ours.all(), all);
  ours.expect_gets(entries, all);
  ours.compact();
  EXPECT_EQ(ours.all(), all);
}

// Goal: what the encoder writes to be ingested is to RocksDB what its own writer's files are.
// Method: random puts, deletions, operands, and deletions of ranges above what a database holds;
//         both files' properties, and what databases give that have taken them in, also behind a
//         compaction.
// Mutation: leaving all files to RocksDB; a property left out; operands counted as
//           deletions; sequence numbers other than 0; a filter of a batch's keys alone.
TEST(StagedFile, IsToRocksDBAsItsOwn) {
  for (const std::uint64_t seed : testing::seeds_to_run(1)) {
    SCOPED_TRACE(seed);
    for (const Kind& kind : encoded_kinds()) compare(kind, 9'000, true, seed);
    for (const Kind& kind : encoded_kinds()) compare(kind, 1, true, seed);
    for (const Kind& kind : others()) compare(kind, 500, false, seed);
  }
}

// Goal: a flush that fails leaves no part of a file, and says what RocksDB's Env said.
// Method: a file that is dropped before its end; files of an Env that has no more room, from the
//         first block on or at the end.
// Mutation: leaving the file where it is; an error that is dropped.
TEST(StagedFile, LeavesNothingWhereItFails) {
  const Folder folder(Place::kMemory);
  rocksdb::Options options = options_of(encoded_kinds().front());
  Entries entries;
  entries.keys = {"a"};
  Stock stock(folder / "db", options, entries);
  exec::host::HostPool work(1 << 30);
  const std::string path = folder / "file.sst";
  const std::string value(100'000, 'v');
  for (const bool is_large : {false, true}) {
    auto made = stage_file(path, options, stock.family(), work);
    ASSERT_TRUE(made.ok());
    for (int i = 0; i < (is_large ? 20 : 1); ++i) {
      ASSERT_TRUE(
          made.value()->add({record::Op::kPut, std::to_string(100 + i), value, false}).ok());
    }
    EXPECT_TRUE(std::filesystem::exists(path));
    made.value().reset();
    EXPECT_FALSE(std::filesystem::exists(path));
  }
  FullEnv full;
  options.env = &full;
  for (full.left = 0; full.left < 3'000'000; full.left += 70'001) {
    const std::uint64_t begin = full.left;
    auto made = stage_file(path, options, stock.family(), work);
    ASSERT_TRUE(made.ok());
    Status status;
    for (int i = 0; i < 20 && status.ok(); ++i) {
      status = made.value()->add({record::Op::kPut, std::to_string(100 + i), value, false});
    }
    if (status.ok()) status = made.value()->finish();
    EXPECT_EQ(status.IsNoSpace(), !status.ok()) << status.ToString();
    made.value().reset();
    EXPECT_EQ(std::filesystem::exists(path), status.ok());
    EXPECT_TRUE(status.ok() || begin <= 2'100'000) << status.ToString();
    full.left = begin;
  }
}

// Goal: keys that do not ascend reach no file.
// Method: a key twice, and one before.
// Mutation: a comparison that lets equal keys pass.
TEST(StagedFile, RefusesKeysOutOfOrder) {
  const Folder folder(Place::kMemory);
  const rocksdb::Options options = options_of(encoded_kinds().front());
  Entries entries;
  entries.keys = {"a"};
  Stock stock(folder / "db", options, entries);
  exec::host::HostPool work(1 << 30);
  auto made = stage_file(folder / "file.sst", options, stock.family(), work);
  ASSERT_TRUE(made.ok());
  ASSERT_TRUE(made.value()->add({record::Op::kPut, "", "1", false}).ok());
  ASSERT_TRUE(made.value()->add({record::Op::kPut, "b", "1", false}).ok());
  EXPECT_TRUE(made.value()->add({record::Op::kPut, "b", "2", false}).IsCorruption());
  EXPECT_TRUE(made.value()->add({record::Op::kPut, "a", "2", false}).IsCorruption());
}

// Goal: a file that holds deletions of ranges alone is one, too.
// Method: two of them, above what a database holds.
// Mutation: an index that must have an entry.
TEST(StagedFile, HoldsRangeDeletionsAlone) {
  const Folder folder(Place::kMemory);
  const rocksdb::Options options = options_of(encoded_kinds().front());
  Entries entries;
  entries.keys = {"a", "", "b", "", "c", "", "d"};
  Stock stock(folder / "db", options, entries);
  exec::host::HostPool work(1 << 30);
  auto made = stage_file(folder / "file.sst", options, stock.family(), work);
  ASSERT_TRUE(made.ok());
  ASSERT_TRUE(made.value()->delete_range("a", "b").ok());
  ASSERT_TRUE(made.value()->delete_range("c", "ca").ok());
  ASSERT_TRUE(made.value()->finish().ok());
  stock.ingest(folder / "file.sst");
  const std::map<std::string, std::string> left{{"b", "before"}, {"d", "before"}};
  EXPECT_EQ(stock.all(), left);
  stock.compact();
  EXPECT_EQ(stock.all(), left);
}

// Goal: what a flush left that failed is in nobody's way, and its other names keep their bytes.
// Method: a file of that name, with a second name.
// Mutation: a file that must be new; one that is cut off and written again.
TEST(StagedFile, TakesTheNameOfOneThatFailed) {
  const Folder folder(Place::kMemory);
  const rocksdb::Options options = options_of(encoded_kinds().front());
  Entries entries;
  entries.keys = {"a"};
  Stock stock(folder / "db", options, entries);
  exec::host::HostPool work(1 << 30);
  const auto write = [&](const char* value) {
    auto made = stage_file(folder / "file.sst", options, stock.family(), work);
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    ASSERT_TRUE(made.value()->add({record::Op::kPut, "a", value, false}).ok());
    ASSERT_TRUE(made.value()->finish().ok());
  };
  write("first");
  std::filesystem::create_hard_link(folder / "file.sst", folder / "other.sst");
  write("second");
  stock.ingest(folder / "other.sst");
  EXPECT_EQ(stock.all()["a"], "first");
  stock.ingest(folder / "file.sst");
  EXPECT_EQ(stock.all()["a"], "second");
}

}  // namespace
}  // namespace breccia::tree
