#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/table.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "record/key_columns.h"
#include "residency/file_set.h"
#include "residency/listing.h"
#include "residency/scan.h"
#include "support/folder.h"
#include "support/seeds.h"

/// Databases whose files' keys are to be resident, and what lookups in them must say.

namespace breccia::residency::conformance {

using testing::Folder;
using testing::Place;

/// How keys look, and how tables are written.
struct Config {
  const char* name;
  std::string prefix;
  std::uint64_t key_bytes_max = 0;  // behind the prefix; 0: 16 each
  rocksdb::ChecksumType checksum = rocksdb::kXXH3;
  rocksdb::CompressionType compression = rocksdb::kNoCompression;
  bool deletes_ranges = false;
  bool merges = false;
};
inline const Config kConfigs[] = {
    {"keys of 16 bytes", ""},
    {"a common prefix", "users/of/a/long/name/"},
    {"short keys", "", 3},
    {"keys of any length", "p", 60},
    {"a prefix of zeros", std::string(11, '\0'), 4},
    {"crc32c", "", 0, rocksdb::kCRC32c},
    {"LZ4", "", 0, rocksdb::kXXH3, rocksdb::kLZ4Compression},
    {"snappy and crc32c", "", 0, rocksdb::kCRC32c, rocksdb::kSnappyCompression},
    {"ZSTD and keys of any length", "p", 60, rocksdb::kXXH3, rocksdb::kZSTD},
    {"range deletions", "", 0, rocksdb::kXXH3, rocksdb::kNoCompression, true},
    {"merge operands", "", 0, rocksdb::kXXH3, rocksdb::kNoCompression, false, true},
};

inline std::string random_key(const Config& config, base::Random& random) {
  std::string key = config.prefix;
  if (config.key_bytes_max == 0) {
    key += fmt::format("{:016}", random.below(600));
  } else {
    const std::uint64_t bytes = random.below(config.key_bytes_max + 1);
    for (std::uint64_t i = 0; i < bytes; ++i) {
      key.push_back(static_cast<char>(random.below(3) * 127));
    }
  }
  return key;
}

/// A database of several levels, and some keys, of which it has a part.
class Database {
 public:
  Database(const Config& config, std::uint64_t seed)
      : config_(config), random_(seed), folder_(Place::kMemory) {
    rocksdb::BlockBasedTableOptions table;
    table.checksum = config.checksum;
    table.block_size = 256 + random_.below(4096);
    rocksdb::Options options;
    options.create_if_missing = true;
    options.allow_fallocate = false;  // a log in memory would be cleared and freed as a whole
    options.compression = config.compression;
    options.disable_auto_compactions = true;
    options.target_file_size_base = 8 << 10;
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    if (config.merges) {
      EXPECT_TRUE(
          rocksdb::MergeOperator::CreateFromString({}, "stringappend", &options.merge_operator)
              .ok());
    }
    rocksdb::DB* opened = nullptr;
    EXPECT_TRUE(rocksdb::DB::Open(options, folder_ / "db", &opened).ok());
    db_.reset(opened);
    for (int i = 0; i < 1500; ++i) keys_.push_back(random_key(config, random_));
  }
  ~Database() { release(); }

  /// Whether files may leave what a key has to RocksDB: it had operands once, or a range deletion
  /// was there.
  [[nodiscard]] bool may_ask(const std::string& key) const {
    return merged_.contains(key) ||
           std::any_of(deleted_.begin(), deleted_.end(), [&](const auto& range) {
             return range.first <= key && key <= range.second;
           });
  }

  /// The same of entries from one key on, up to the next one, if any. Where nothing was read yet an
  /// operand farther on may be where a level begins.
  [[nodiscard]] bool may_ask_from(const std::string& key, std::optional<std::string> next,
                                  bool has_begun) const {
    const auto operand = merged_.lower_bound(key);
    const bool is_near = operand != merged_.end() && (!next.has_value() || *operand <= *next);
    return is_near || (operand != merged_.end() && !has_begun) ||
           std::any_of(deleted_.begin(), deleted_.end(), [&](const auto& range) {
             return range.second >= key && (!next.has_value() || range.first <= *next);
           });
  }

  /// Flushes and compactions between writes, with snapshots that keep older versions.
  void fill() {
    const std::uint64_t flushes = 1 + random_.below(8);
    for (std::uint64_t flush = 0; flush < flushes; ++flush) {
      write(random_.below(500));
      ASSERT_TRUE(db_->Flush({}).ok());
      if (random_.below(4) > 0) continue;
      ASSERT_TRUE(db_->CompactRange({}, nullptr, nullptr).ok());
    }
    release();
  }
  [[nodiscard]] rocksdb::DB* db() const { return db_.get(); }
  [[nodiscard]] const std::vector<std::string>& keys() const { return keys_; }
  [[nodiscard]] std::vector<ListedLevel> files() const {
    return list_files(db_.get(), db_->DefaultColumnFamily());
  }

 private:
  void write(std::uint64_t requests) {
    for (std::uint64_t i = 0; i < requests; ++i) {
      const std::string& key = keys_[random_.below(keys_.size() / 2)];
      const std::uint64_t kind = random_.below(50);
      const bool is_put_once = once_.contains(key);
      once_.erase(key);
      if (kind < 8) {
        // Of what was written otherwise a single deletion takes away who knows what.
        ASSERT_TRUE((is_put_once ? db_->SingleDelete({}, key) : db_->Delete({}, key)).ok());
      } else if (kind == 8 && config_.deletes_ranges) {
        const std::string other = keys_[random_.below(keys_.size() / 2)];
        const std::string end = random_.below(8) == 0 ? std::max(key, other) : key + "zz";
        ASSERT_TRUE(db_->DeleteRange({}, db_->DefaultColumnFamily(), key, end).ok());
        deleted_.emplace_back(key, end);
      } else if (kind < 12 && config_.merges) {
        ASSERT_TRUE(db_->Merge({}, key, "operand").ok());
        merged_.insert(key);
      } else {
        if (written_.insert(key).second && !config_.deletes_ranges) once_.insert(key);
        const std::string value(random_.below(20) == 0 ? random_.below(5000) : random_.below(60),
                                static_cast<char>(random_.below(256)));
        ASSERT_TRUE(db_->Put({}, key, value).ok());
      }
      if (random_.below(30) == 0) snapshots_.push_back(db_->GetSnapshot());
    }
  }
  void release() {
    for (const rocksdb::Snapshot* snapshot : snapshots_) db_->ReleaseSnapshot(snapshot);
    snapshots_.clear();
  }

  const Config& config_;
  base::Random random_;
  Folder folder_;
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<std::string> keys_;
  std::vector<const rocksdb::Snapshot*> snapshots_;
  std::set<std::string> written_;
  std::set<std::string> once_;  // no more than that, and nothing else
  std::set<std::string> merged_;
  std::vector<std::pair<std::string, std::string>> deleted_;
};

inline std::shared_ptr<Backend> backend_on(const exec::DevicePtr& device) {
  auto backend = make_backend(device, {.name = "residency"});
  EXPECT_TRUE(backend.ok());
  return backend.take();
}
inline std::shared_ptr<Backend> host_backend() {
  auto device = exec::open_device(exec::DeviceKind::kHost, 0);
  EXPECT_TRUE(device.ok());
  return backend_on(device.value());
}

/// Reads the files that `chosen` says; others stay RocksDB's alone.
template <class Chosen>
Status read_files(Backend* backend, std::vector<ListedLevel>* levels, const Chosen& chosen,
                  std::uint64_t piece_bytes = FileReader::kPieceBytes) {
  FileReader reader(backend, piece_bytes, std::make_shared<Unmapper>());
  for (ListedLevel& level : *levels) {
    for (ListedFile& file : level) {
      if (!chosen()) continue;
      std::uint64_t needed = 0;
      auto read = reader.read(file.path, [&](std::uint64_t bytes) {
        needed = bytes;
        return Status::OK();
      });
      if (read.ok()) {
        file.resident = read.take();
        // Columns of each piece begin with lines.
        const std::uint64_t rounded = 1000 + 1000 * file.resident->pieces.size();
        EXPECT_LE(file.resident->memory_bytes(), 2 * needed + rounded);
        EXPECT_GE(2 * file.resident->memory_bytes(), needed);
      } else if (!read.status().IsNotSupported()) {
        return read.status();
      }
    }
  }
  return Status::OK();
}

/// What the set says of keys, as find() does; those alone that are sought, every third is not.
struct Found {
  explicit Found(const std::vector<std::string>& keys) : columns(exec::plain_host_memory()) {
    for (const std::string& key : keys) EXPECT_TRUE(columns.append(key.data(), key.size()));
    for (std::uint32_t i = 0; i < keys.size(); ++i) {
      if (i % 3 != 1) which.push_back(i);
    }
    place.resize(which.size());
    part.resize(which.size());
  }
  Status look_up(const FileSet& set) {
    BRECCIA_TAKE(const SearchPtr search,
                 set.find(columns.ref(), which.data(), which.size(), {place.data(), part.data()}));
    return search->finish();
  }

  record::KeyColumns columns;
  std::vector<std::uint32_t> which;
  std::vector<std::uint64_t> place;
  std::vector<std::uint32_t> part;
};

/// Compares what the set says with what the database says. Returns how many keys it leaves to
/// RocksDB; of a set that has all files those alone that may be.
inline std::uint64_t compare(const FileSet& set, const Database& database, bool has_all = false) {
  Found found(database.keys());
  EXPECT_TRUE(found.look_up(set).ok());
  std::uint64_t asked = 0;
  FileSet::Unpacked unpacked;
  for (std::size_t i = 0; i < found.which.size(); ++i) {
    const std::string& key = database.keys()[found.which[i]];
    const std::uint64_t place = found.place[i];
    if (set.host_reads()) {
      record::KeyColumns one(exec::plain_host_memory());
      EXPECT_TRUE(one.append(key.data(), key.size()));
      std::uint32_t part = 0;
      EXPECT_EQ(set.find_one(one.ref(), &part), place);
      EXPECT_TRUE(!is_value(place) || part == found.part[i]);
    }
    if (place == kAsk) {
      ++asked;
      EXPECT_TRUE(!has_all || database.may_ask(key)) << Slice(key).ToString(true);
      continue;
    }
    std::string value;
    const Status status = database.db()->Get({}, key, &value);
    EXPECT_EQ(status.ok(), is_value(place)) << Slice(key).ToString(true);
    if (status.ok() && is_value(place)) {
      Slice known;
      EXPECT_TRUE(set.value(place, found.part[i], &unpacked, &known).ok());
      EXPECT_EQ(known, Slice(value));
    }
  }
  return asked;
}

inline FileSetPtr set_of(const std::shared_ptr<Backend>& backend, std::vector<ListedLevel> levels) {
  auto set = FileSet::make(backend, std::move(levels), std::make_shared<Usage>());
  EXPECT_TRUE(set.ok()) << set.status().ToString();
  return set.ok() ? set.take() : nullptr;
}

/// The same of many at once: what is not known is left, and nothing else.
inline void compare_many(const FileSet& set, const Database& database,
                         std::vector<std::vector<std::uint32_t>> places,
                         std::optional<std::uint64_t> asked) {
  const Found all(database.keys());
  std::size_t sought = 0;
  for (const auto& list : places) sought += list.size();
  std::mutex mutex;
  std::map<std::uint32_t, std::optional<std::string>> answers;
  set.get_many(all.columns.ref(), &places, 2,
               [&](std::uint64_t worker, std::span<const tree::KnownFiles::Known> known) {
                 const std::lock_guard lock(mutex);
                 EXPECT_LT(worker, 2U);
                 for (const auto& one : known) {
                   const auto answer =
                       one.is_found ? std::optional(one.value.ToString()) : std::nullopt;
                   EXPECT_TRUE(answers.emplace(one.place, answer).second);
                 }
               });
  std::uint64_t left = 0;
  for (const auto& list : places) left += list.size();
  EXPECT_EQ(left, asked.value_or(left));
  EXPECT_EQ(left + answers.size(), sought);
  for (const auto& [place, answer] : answers) {
    std::string value;
    const Status status = database.db()->Get({}, database.keys()[place], &value);
    EXPECT_EQ(status.ok(), answer.has_value());
    if (answer.has_value()) {
      EXPECT_EQ(*answer, value);
    }
  }
}
/// The same of those that Found looks up, in lists with gaps, and of all, in one.
inline void compare_many(const FileSet& set, const Database& database, std::uint64_t asked) {
  std::vector<std::vector<std::uint32_t>> some(3);
  for (const std::uint32_t i : Found(database.keys()).which) some[i % 3].push_back(i);
  compare_many(set, database, some, asked);
  std::vector<std::uint32_t> all(database.keys().size());
  std::iota(all.begin(), all.end(), 0U);
  compare_many(set, database, {all}, std::nullopt);
}

/// Compares entries from each `step`th key on, `most` at most, with those of a database: all of
/// them, or up to where RocksDB is to be asked, of a set that has all files no sooner than it may
/// be.
inline void compare_scans(const FileSet& set, const Database& database, std::uint64_t most,
                          bool has_all, std::size_t step = 1) {
  const Found all(database.keys());
  auto starts = set.seek(all.columns.ref());
  EXPECT_TRUE(starts.ok());
  Scan scan(set);
  const std::unique_ptr<rocksdb::Iterator> expected(database.db()->NewIterator({}));
  for (std::size_t i = 0; i < database.keys().size(); i += step) {
    expected->Seek(database.keys()[i]);
    // Of two ranges one has an end.
    const Slice end = database.keys()[(i + 7) % database.keys().size()];
    const bool ends = i % 2 == 0;
    scan.fetch_block(*starts.value(), i, most);
    scan.fetch_entry(*starts.value(), i);
    scan.begin(*starts.value(), i, database.keys()[i], ends ? std::optional(end) : std::nullopt);
    std::uint64_t entry = 0;
    for (; entry < most && scan.knows(); ++entry) {
      const bool is_there = expected->Valid() && !(ends && expected->key().compare(end) >= 0);
      EXPECT_EQ(scan.valid(), is_there);
      if (!scan.valid() || ::testing::Test::HasFailure()) break;
      EXPECT_EQ(scan.key(), expected->key());
      EXPECT_EQ(scan.value(), expected->value());
      scan.next();
      expected->Next();
    }
    if (!has_all || scan.knows()) continue;
    const auto next = expected->Valid() ? std::optional(expected->key().ToString()) : std::nullopt;
    EXPECT_TRUE(database.may_ask_from(database.keys()[i], next, entry > 0)) << i;
  }
}

/// Looks for entries in a set without files, as a tree has when all was deleted.
inline void look_into_nothing(const FileSet& set, const Database& database) {
  const Found all(database.keys());
  auto starts = set.seek(all.columns.ref());
  ASSERT_TRUE(starts.ok());
  Scan scan(set);
  for (std::size_t i = 0; i < std::min<std::size_t>(20, database.keys().size()); ++i) {
    scan.fetch_block(*starts.value(), i, /*entries=*/10);
    scan.fetch_entry(*starts.value(), i);
    scan.begin(*starts.value(), i, database.keys()[i], std::nullopt);
    EXPECT_TRUE(scan.knows());
    EXPECT_FALSE(scan.valid());
  }
}

}  // namespace breccia::residency::conformance
