#include "ordered/resident_files.h"

#include <breccia/options.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rocksdb/convenience.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/statistics.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "ordered/engine.h"
#include "ordered/read/files_iterator.h"
#include "support/fake_gpu.h"
#include "support/folder.h"
#include "support/seeds.h"
#include "support/small_options.h"

/// Keys of the tree's files in device memory. That answers are right whatever happens is also for
/// the metamorphic tests and the streams, which run with much, little and no memory for it.

namespace breccia::ordered {

namespace {

class EngineResidentFiles : public ::testing::Test {
 protected:
  EngineResidentFiles() {
    options_ = testing::small_options();
    options_.entry_cache_bytes = 0;
    options_.tree_filter_bytes = 0;
    options_.residency_bytes = 64 << 20;
    options_.rocksdb.statistics = statistics_;
  }
  void open() {
    engine_.reset();
    ASSERT_TRUE(Engine::open(options_, folder_ / "store", &engine_).ok());
  }
  /// A new store, which keeps so many bytes of runs.
  void open_in(const testing::Folder& folder, std::uint64_t clean_bytes) {
    model_.clear();
    engine_.reset();
    options_.clean_bytes = clean_bytes;
    ASSERT_TRUE(Engine::open(options_, folder / "store", &engine_).ok());
  }
  void put(std::uint64_t begin, std::uint64_t end, const std::string& value) {
    Batch batch = engine_->NewBatch();
    for (std::uint64_t id = begin; id < end; ++id) {
      ASSERT_TRUE(batch.Put(key_of(id), value_of(id, value)).ok());
      model_[key_of(id)] = value_of(id, value);
    }
    ASSERT_TRUE(engine_->Submit({}, &batch).ok());
  }
  void append(std::uint64_t begin, std::uint64_t end) {
    Batch batch = engine_->NewBatch();
    for (std::uint64_t id = begin; id < end; ++id) {
      ASSERT_TRUE(batch.Merge(key_of(id), "more").ok());
      std::string& value = model_[key_of(id)];
      value += value.empty() ? "more" : ",more";
    }
    ASSERT_TRUE(engine_->Submit({}, &batch).ok());
  }
  void remove(std::uint64_t begin, std::uint64_t end) {
    Batch batch = engine_->NewBatch();
    for (std::uint64_t id = begin; id < end; ++id) {
      ASSERT_TRUE(batch.Delete(key_of(id)).ok());
      model_.erase(key_of(id));
    }
    ASSERT_TRUE(engine_->Submit({}, &batch).ok());
  }
  /// Those between the keys of two numbers of as many digits.
  void remove_range(std::uint64_t begin, std::uint64_t end) {
    Batch batch = engine_->NewBatch();
    ASSERT_TRUE(batch.DeleteRange(kDefaultFamily, key_of(begin), key_of(end)).ok());
    ASSERT_TRUE(engine_->Submit({}, &batch).ok());
    model_.erase(model_.lower_bound(key_of(begin)), model_.lower_bound(key_of(end)));
  }
  void flush() { ASSERT_TRUE(engine_->Flush().ok()); }
  /// Brings a file of keys into the tree, as a Rocks does.
  void bring_in(const std::string& path, std::uint64_t begin, std::uint64_t end,
                const std::string& value) {
    flush();
    std::map<std::string, std::string> entries;
    for (std::uint64_t id = begin; id < end; ++id) entries[key_of(id)] = value_of(id, value);
    if (entries.empty()) return;
    rocksdb::SstFileWriter file(rocksdb::EnvOptions(), options_.rocksdb);
    ASSERT_TRUE(file.Open(path).ok());
    for (const auto& [key, of_key] : entries) {
      ASSERT_TRUE(file.Put(key, of_key).ok());
      model_[key] = of_key;
    }
    ASSERT_TRUE(file.Finish().ok());
    ASSERT_TRUE(engine_->tree_changes()
                    .bring_in([&] {
                      rocksdb::IngestExternalFileOptions how;
                      how.move_files = true;
                      how.write_global_seqno = false;
                      return engine_->below().ingest_files(
                          {{engine_->below().db()->DefaultColumnFamily(),
                            {path},
                            how,
                            {},
                            {},
                            rocksdb::Temperature::kUnknown}});
                    })
                    .ok());
  }
  /// Takes all files out that lie between two keys, when all of the tree lies in one level.
  void take_out(std::uint64_t begin, std::uint64_t end) {
    flush();
    rocksdb::DB* const tree = engine_->below().db();
    ASSERT_TRUE(tree->CompactRange({}, nullptr, nullptr).ok());
    const std::string from = std::min(key_of(begin), key_of(end));
    const std::string to = std::max(key_of(begin), key_of(end));
    const rocksdb::Slice first(from);
    const rocksdb::Slice last(to);
    ASSERT_TRUE(engine_->tree_changes()
                    .take_out([&] {
                      return rocksdb::DeleteFilesInRange(tree, tree->DefaultColumnFamily(), &first,
                                                         &last);
                    })
                    .ok());
    const std::unique_ptr<rocksdb::Iterator> left(tree->NewIterator({}));
    model_.clear();
    for (left->SeekToFirst(); left->Valid(); left->Next()) {
      model_[left->key().ToString()] = left->value().ToString();
    }
  }
  /// Until all files that the tree has are listed, and so many of them resident.
  bool wait_for_files() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < deadline) {
      const std::uint64_t listed = figure("files-listed");
      if (listed == files_of_tree() && listed == figure("files")) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return false;
  }
  /// Looks keys up in a batch and a few singly: each has what the model has.
  void look_up(std::uint64_t begin, std::uint64_t end) {
    Batch batch = engine_->NewBatch();
    for (std::uint64_t id = begin; id < end; ++id) ASSERT_TRUE(batch.Get(key_of(id)).ok());
    ASSERT_TRUE(engine_->Submit({}, &batch).ok());
    std::string value;
    for (std::uint64_t id = begin; id < end; ++id) {
      const auto i = static_cast<std::size_t>(id - begin);
      const auto expected = model_.find(key_of(id));
      if (expected == model_.end()) {
        ASSERT_EQ(batch.code(i), Status::Code::kNotFound) << id;
      } else {
        ASSERT_EQ(batch.code(i), Status::Code::kOk) << id;
        ASSERT_EQ(batch.value(i).ToString(), expected->second) << id;
      }
      if (id % 16 != 0) continue;
      const Status status = engine_->Get(key_of(id), &value);
      ASSERT_EQ(status.ok(), expected != model_.end()) << id;
      if (status.ok()) {
        ASSERT_EQ(value, expected->second) << id;
      }
    }
  }
  /// Reads ranges in a batch: each has what the model has.
  void read_ranges(std::uint64_t ranges, std::uint32_t limit) {
    Batch batch = engine_->NewBatch();
    const std::string end(1, '\x7f');
    const auto begin_of = [](std::uint64_t i) {
      return i % 3 == 0 ? fmt::format("{:08}", i) : key_of(i * 17 % 5000);
    };
    for (std::uint64_t i = 0; i < ranges; ++i) {
      ASSERT_TRUE(batch.Range(begin_of(i), end, limit).ok());
    }
    ASSERT_TRUE(engine_->Submit({}, &batch).ok());
    for (std::uint64_t i = 0; i < ranges; ++i) {
      ASSERT_EQ(batch.range_code(i), Status::Code::kOk);
      auto expected = model_.lower_bound(begin_of(i));
      std::uint64_t count = 0;
      for (; count < batch.range_size(i); ++count, ++expected) {
        ASSERT_NE(expected, model_.end());
        const auto [key, value] = batch.range_entry(i, count);
        if (const std::uint64_t* const pairs = batch.range_pairs(i)) {
          ASSERT_EQ(std::memcmp(key.data(), pairs + 2 * count, 16), 0);
        }
        ASSERT_EQ(key.ToString(), expected->first);
        ASSERT_EQ(value.ToString(), expected->second);
      }
      ASSERT_TRUE(count == limit || expected == model_.end()) << count;
    }
  }
  [[nodiscard]] std::unique_ptr<rocksdb::Iterator> new_iterator(
      const rocksdb::ReadOptions& options) {
    return engine_->lookups().iterate(options, kDefaultFamily, engine_->pin(), {});
  }
  /// An iterator from the first key to the last.
  void read_all() {
    const auto iterator = new_iterator({});
    iterator->SeekToFirst();
    for (const auto& [key, value] : model_) {
      ASSERT_TRUE(iterator->Valid());
      ASSERT_EQ(iterator->key().ToString(), key);
      ASSERT_EQ(iterator->value().ToString(), value);
      iterator->Next();
    }
    EXPECT_FALSE(iterator->Valid());
    EXPECT_TRUE(iterator->status().ok());
  }
  /// An iterator with random bounds goes anywhere, beside the model.
  void walk(std::uint64_t seed) {
    base::Random random(seed);
    std::string low = key_of(random.below(2000));
    std::string high = key_of(random.below(2000));
    if (high < low) std::swap(low, high);
    const Slice lower = low;
    const Slice upper = high;
    rocksdb::ReadOptions options;
    const bool has_lower = random.one_in(2);
    const bool has_upper = random.one_in(2);
    if (has_lower) options.iterate_lower_bound = &lower;
    if (has_upper) options.iterate_upper_bound = &upper;
    const auto first = has_lower ? model_.lower_bound(low) : model_.begin();
    const auto last = has_upper ? model_.lower_bound(high) : model_.end();
    const auto iterator = new_iterator(options);
    auto at = last;
    for (int step = 0; step < 200; ++step) {
      // Often just before what files do not know.
      const std::uint64_t near = 290 + 1000 * random.below(2) + 400 * random.below(2);
      std::string target = key_of(random.one_in(2) ? near + random.below(25) : random.below(2100));
      if (random.one_in(8)) target += "x";
      const std::uint64_t what = random.below(12);
      if (what == 0) {
        iterator->SeekToFirst();
        at = first;
      } else if (what == 1) {
        iterator->SeekToLast();
        at = first == last ? last : std::prev(last);
      } else if (what == 2) {
        iterator->Seek(target);
        at = model_.lower_bound(target);
        if (has_lower && target < low) at = first;
        if (at != model_.end() && has_upper && at->first >= high) at = last;
      } else if (what == 3) {
        iterator->SeekForPrev(target);
        at = model_.upper_bound(target);
        if (has_upper && target >= high) at = last;
        const bool is_none = at == model_.begin() || (has_lower && std::prev(at)->first < low);
        at = is_none ? last : std::prev(at);
      } else if (at == last) {
        continue;
      } else if (what < 10) {
        iterator->Next();
        ++at;
      } else {
        iterator->Prev();
        at = at == first ? last : std::prev(at);
      }
      ASSERT_TRUE(iterator->status().ok()) << iterator->status().ToString();
      ASSERT_EQ(iterator->Valid(), at != last) << "step " << step;
      if (at == last) continue;
      ASSERT_EQ(iterator->key().ToString(), at->first) << "step " << step;
      ASSERT_EQ(iterator->value().ToString(), at->second);
      ASSERT_EQ(iterator->columns().size(), 1U);
      ASSERT_EQ(iterator->columns()[0].value(), Slice(at->second));
    }
  }
  [[nodiscard]] std::uint64_t ranges_by_iterator() {
    std::string value;
    EXPECT_TRUE(engine_->GetProperty("breccia.ranges.by-iterator", &value));
    return std::stoull(value);
  }
  [[nodiscard]] std::uint64_t figure(const std::string& name) {
    std::string value;
    EXPECT_TRUE(engine_->GetProperty("breccia.residency." + name, &value)) << name;
    return std::stoull(value);
  }
  [[nodiscard]] std::uint64_t cache_figure(const std::string& name) {
    std::string value;
    EXPECT_TRUE(engine_->GetProperty("breccia.entry-cache." + name, &value)) << name;
    return std::stoull(value);
  }
  [[nodiscard]] std::uint64_t files_of_tree() {
    std::uint64_t files = 0;
    const ViewPtr view = engine_->pin().view;
    for (const FamilyViewPtr& family : view->families) {
      rocksdb::ColumnFamilyMetaData tree;
      engine_->below().db()->GetColumnFamilyMetaData(family->tree.get(), &tree);
      files += tree.file_count;
    }
    return files;
  }
  [[nodiscard]] std::uint64_t tree_lookups() const {
    return statistics_->getTickerCount(rocksdb::NUMBER_MULTIGET_KEYS_READ) +
           statistics_->getTickerCount(rocksdb::NUMBER_KEYS_READ);
  }
  static std::string key_of(std::uint64_t id) { return "key " + std::to_string(id); }
  static std::string value_of(std::uint64_t id, const std::string& value) {
    return value + " of " + std::to_string(id);
  }

  const testing::Folder folder_{testing::Place::kMemory};
  const std::shared_ptr<rocksdb::Statistics> statistics_ = rocksdb::CreateDBStatistics();
  static constexpr std::uint64_t kDeviceBytes = 1ULL << 30;
  testing::FakeGpu gpu_{kDeviceBytes};  // stores on it are closed before
  Options options_;
  std::unique_ptr<Engine> engine_;
  std::map<std::string, std::string> model_;
};

}  // namespace

// Goal: what lies in resident files is not asked of RocksDB, in batches and singly, whether it is
//       there, deleted or nowhere; also right behind an opening.
// Method: flushes over one another, and RocksDB's count of lookups around what is looked up.
// Mutation: files that are listed and never asked; lookups of what is nowhere that go on to
//           RocksDB.
TEST_F(EngineResidentFiles, AnswerForTheTree) {
  open();
  put(0, 4000, "first");
  flush();
  put(1000, 2000, "second");
  remove(2000, 2500);
  flush();
  for (int opened = 0; opened < 2; ++opened) {
    ASSERT_TRUE(wait_for_files());
    EXPECT_GT(figure("keys"), 5000U);
    EXPECT_GT(figure("bytes"), 5000U * 16);
    const std::uint64_t before = tree_lookups();
    look_up(0, 6000);
    EXPECT_EQ(tree_lookups(), before);
    EXPECT_GE(figure("answered"), 6000U);
    EXPECT_EQ(figure("left"), 0U);
    open();
  }
}

// Goal: what had to be unpacked of a file is in the entry cache for who asks next, from batches and
//       from single lookups; what lies there as it is stays out of it.
// Method: what the cache took in, and what it answered, around lookups of files with and without
//         compression, and with blocks that gain nothing by it; then values that have changed.
// Mutation: nothing that is kept, or all, or what lies in files with compression; a value that is
//           kept under another key of its block.
TEST_F(EngineResidentFiles, WhatWasUnpackedIsKept) {
  options_.entry_cache_bytes = 1 << 20;
  const std::string value = "a value that a value that a value is like";
  for (const auto compression : {rocksdb::kLZ4Compression, rocksdb::kNoCompression}) {
    SCOPED_TRACE(static_cast<int>(compression));
    const testing::Folder folder(testing::Place::kMemory);
    options_.rocksdb.compression = compression;
    open_in(folder, /*clean_bytes=*/0);
    put(0, 2000, value);
    flush();
    ASSERT_TRUE(wait_for_files());
    const std::uint64_t before = tree_lookups();
    look_up(0, 1000);
    if (compression == rocksdb::kNoCompression) {
      EXPECT_EQ(cache_figure("inserts"), 0U);
      continue;
    }
    EXPECT_GE(cache_figure("inserts"), 900U);
    std::string found;
    for (int turn = 0; turn < 2; ++turn) {
      const std::uint64_t hits = cache_figure("hits");
      for (std::uint64_t id = 1500; id < 1600; ++id) {
        ASSERT_TRUE(engine_->Get(key_of(id), &found).ok());
        ASSERT_EQ(found, value_of(id, value));
      }
      // A thread that found little asks for one in four.
      if (turn > 0) {
        EXPECT_GE(cache_figure("hits"), hits + 10);
      }
    }
    const std::uint64_t hits = cache_figure("hits");
    look_up(0, 1000);
    EXPECT_GE(cache_figure("hits"), hits + 900);
    EXPECT_EQ(tree_lookups(), before);
    put(500, 600, "another value than that");
    flush();
    ASSERT_TRUE(wait_for_files());
    look_up(0, 1000);

    base::Random random(1);
    for (std::uint64_t id = 5000; id < 5200; ++id) {
      std::string bytes(400, '\0');
      for (char& byte : bytes) byte = static_cast<char>(random.next());
      put(id, id + 1, bytes);
    }
    flush();
    ASSERT_TRUE(wait_for_files());
    const std::uint64_t inserts = cache_figure("inserts");
    look_up(5010, 5190);
    EXPECT_LE(cache_figure("inserts"), inserts + 10);
  }
}

// Goal: whatever changes the tree, lookups say what is so, at once, and files follow.
// Method: random writes, flushes, compactions, files that are brought in and taken out, with
//         lookups between them, some as soon as they can be, some when files are there.
// Mutation: files of a tree that has changed; files listed while somebody brings others in.
TEST_F(EngineResidentFiles, FollowTheTree) {
  for (const std::uint64_t seed : testing::seeds_to_run(10)) {
    SCOPED_TRACE(testing::replay_command(seed));
    base::Random random(seed);
    model_.clear();
    engine_.reset();
    const testing::Folder folder(testing::Place::kMemory);
    options_.rocksdb.level0_file_num_compaction_trigger = static_cast<int>(2 + random.below(4));
    options_.rocksdb.compression =
        random.one_in(2) ? rocksdb::kLZ4Compression : rocksdb::kNoCompression;
    options_.entry_cache_bytes = random.one_in(2) ? 64 << 10 : 0;
    ASSERT_TRUE(Engine::open(options_, folder / "store", &engine_).ok());
    for (int step = 0; step < 40; ++step) {
      const std::uint64_t begin = random.below(3000);
      const std::uint64_t end = begin + random.below(1000);
      const std::uint64_t kind = random.below(8);
      if (kind < 3) {
        put(begin, end, std::to_string(step));
      } else if (kind == 3) {
        remove(begin, end);
      } else if (kind < 6) {
        flush();
      } else if (kind == 6) {
        ASSERT_TRUE(engine_->below().db()->CompactRange({}, nullptr, nullptr).ok());
      } else {
        const std::uint64_t other = random.below(3);
        if (other == 0) bring_in(folder / "brought", begin, end, std::to_string(step));
        if (other == 1) take_out(begin, end);
        EXPECT_TRUE(other < 2 || wait_for_files());
      }
      look_up(0, 4000);
      if (HasFatalFailure()) return;
    }
    flush();
    // Compactions go on, and who looks up while files change may have to ask RocksDB.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    const auto past_rocksdb = [&] { return figure("answered") + cache_figure("hits"); };
    std::uint64_t answered = 0;
    while (answered < 4000 && std::chrono::steady_clock::now() < deadline) {
      const std::uint64_t before = past_rocksdb();
      look_up(0, 4000);
      answered = past_rocksdb() - before;
    }
    EXPECT_GE(answered, 4000U);
    ASSERT_TRUE(engine_->check().ok());
  }
}

// Goal: what a compaction replaces serves until what replaces it is there: nobody asks RocksDB.
// Method: lookups all through compactions of all files, until the new files are resident; RocksDB's
//         count of lookups; with room for both, and for one of the two, where it may be asked but
//         files are all there in the end.
// Mutation: files that are listed published at once; replaced ones that take the new ones' room.
TEST_F(EngineResidentFiles, ServeWhileACompactionReplacesThem) {
  const std::uint64_t plenty = 64 << 20;
  std::uint64_t needed = 0;  // by all files before a compaction
  for (const bool is_short : {false, true}) {
    const std::uint64_t bytes = is_short ? needed + needed / 3 : plenty;
    SCOPED_TRACE(fmt::format("{} bytes", bytes));
    const testing::Folder folder(testing::Place::kMemory);
    model_.clear();
    engine_.reset();
    options_.residency_bytes = bytes;
    options_.rocksdb.disable_auto_compactions = true;
    ASSERT_TRUE(Engine::open(options_, folder / "store", &engine_).ok());
    for (int step = 0; step < 4; ++step) {
      put(0, 2000, std::to_string(step));
      flush();
      put(1000, 3000, std::to_string(step));
      flush();
      ASSERT_TRUE(wait_for_files());
      needed = std::max(needed, figure("bytes"));
      const std::uint64_t before = tree_lookups();
      const std::uint64_t loads = figure("loads");
      std::atomic<bool> is_compacted{false};
      std::jthread compaction([&] {
        // Some take away what the one before wrote, before it was read.
        rocksdb::CompactRangeOptions all;
        all.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
        for (int i = 0; i < 5; ++i) {
          EXPECT_TRUE(engine_->below().db()->CompactRange(all, nullptr, nullptr).ok());
        }
        is_compacted = true;
      });
      const auto is_read = [&] {
        return is_compacted && figure("loads") > loads && figure("files-listed") == files_of_tree();
      };
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
      while (!is_read() && std::chrono::steady_clock::now() < deadline) {
        look_up(0, 3000);
        if (HasFatalFailure()) return;
      }
      ASSERT_TRUE(wait_for_files());
      look_up(0, 3000);
      if (!is_short) {
        EXPECT_EQ(tree_lookups(), before);
      }
    }
  }
}

// Goal: behind a flush that clean runs remember, what files said before serves for all other keys
//       until the new files are there: nobody asks RocksDB, and no answer is out of date.
// Method: puts and deletions over what is in files, flushes, and lookups of all keys right behind
//         each, with compactions between them; RocksDB's count of lookups. Clean runs that are
//         merged meanwhile, that leave one by one, and none; operands and range deletions.
// Mutation: files that are asked for keys whose clean run has left; a merge of clean runs that
//           forgets deletions; new files published before they are read; a base that a flush reads
//           there without clean runs.
TEST_F(EngineResidentFiles, ServeBelowCleanRuns) {
  ASSERT_TRUE(
      rocksdb::MergeOperator::CreateFromString({}, "stringappend", &options_.rocksdb.merge_operator)
          .ok());
  for (const std::uint64_t clean :
       {std::uint64_t{64} << 20, std::uint64_t{150} << 10, std::uint64_t{0}}) {
    SCOPED_TRACE(fmt::format("{} bytes of clean runs", clean));
    const testing::Folder folder(testing::Place::kMemory);
    options_.rocksdb.disable_auto_compactions = true;
    open_in(folder, /*clean_bytes=*/0);
    put(0, 3000, "first");
    flush();
    engine_.reset();
    // Clean runs that do not have all of the tree.
    options_.clean_bytes = clean;
    ASSERT_TRUE(Engine::open(options_, folder / "store", &engine_).ok());
    ASSERT_TRUE(wait_for_files());
    const std::uint64_t answered = figure("answered");
    std::uint64_t older = 0;
    std::uint64_t asked = 0;  // where no compaction has just taken all files away
    for (std::uint64_t step = 0; step < 40; ++step) {
      const std::uint64_t from = step * 61 % 2500;
      put(from, from + 200, std::string(step % 4 == 1 ? 2000 : 1, 'x') + std::to_string(step));
      remove(from + 250, from + 400);
      flush();
      const ViewPtr view = engine_->pin().view;
      ASSERT_TRUE(view->family(kDefaultFamily)->asks_tree());
      older += view->family(kDefaultFamily)->older_files != nullptr ? 1 : 0;
      const std::uint64_t before = tree_lookups();
      look_up(0, 3000);
      if (HasFatalFailure()) return;
      asked += step % 8 == 6 ? 0 : tree_lookups() - before;
      if (step % 8 == 5) {
        ASSERT_TRUE(engine_->below().db()->CompactRange({}, nullptr, nullptr).ok());
      }
      if (step % 8 == 6) {
        ASSERT_TRUE(wait_for_files());
      }
    }
    EXPECT_GT(figure("answered"), answered);
    if (clean == std::uint64_t{64} << 20) {
      EXPECT_EQ(asked, 0U);
    }
    if (clean == 0) {
      EXPECT_EQ(older, 0U);
    }
    // What clean runs may not hold; behind what they do, and before that is read again.
    for (std::uint64_t step = 0; step < 6; ++step) {
      put(step * 100, step * 100 + 1000, std::string(step % 2 == 0 ? 4000 : 1, 'x'));
      flush();
      append(step * 100, step * 100 + 300);
      if (step % 4 == 1) remove_range(1000, 1050);
      flush();
      look_up(0, 3000);
      if (HasFatalFailure()) return;
    }
    ASSERT_TRUE(engine_->check().ok());
  }
}

// Goal: ranges read the tree's part in its files, whatever memory has of it, and not by RocksDB's
//       iterators; entries of 8 and 8 bytes and longer ones, and deletions, are as they were
//       written.
// Method: ranges of every limit behind flushes over one another, with and without entries in memory
//         and runs that are kept there; RocksDB's seeks around them.
// Mutation: a part of memory or of the tree that is left out; pairs of which one is longer.
TEST_F(EngineResidentFiles, RangesReadInFiles) {
  for (const std::uint64_t clean_bytes : {std::uint64_t{0}, std::uint64_t{1} << 20}) {
    const testing::Folder folder(testing::Place::kMemory);
    open_in(folder, clean_bytes);
    put(0, 4000, "first");
    for (std::uint64_t id = 0; id < 300; ++id) {
      model_[fmt::format("{:08}", id)] = fmt::format("{:08}", id + 1);
      const std::string& value = model_[fmt::format("{:08}", id)];
      ASSERT_TRUE(engine_->Put({}, fmt::format("{:08}", id), value).ok());
    }
    flush();
    put(1000, 2000, "second");
    remove(2000, 2500);
    flush();
    for (int state = 0; state < 3; ++state) {
      ASSERT_TRUE(wait_for_files());
      const std::uint64_t seeks = statistics_->getTickerCount(rocksdb::NUMBER_DB_SEEK);
      SCOPED_TRACE(fmt::format("{} bytes are kept, state {}", clean_bytes, state));
      for (const std::uint32_t limit : {1U, 10U, 128U, 299U, 3000U}) {
        read_ranges(300, limit);
        // In runs with deletions a walk may have too little room.
        const std::uint64_t few = state == 0 ? 0 : 5 * 300 / 10;
        EXPECT_LE(statistics_->getTickerCount(rocksdb::NUMBER_DB_SEEK), seeks + few) << limit;
      }
      if (HasFatalFailure()) return;
      EXPECT_GE(figure("ranges"), clean_bytes == 0 ? 5 * 300U : 0U);
      put(500 + 100 * state, 1500, "third");
      remove(3000, 3100 + 100 * state);
    }
  }
}

// Goal: ranges one by one are read in files, too, where the host has their keys.
// Method: single ranges behind flushes over one another, with and without runs that are kept, then
//         with entries in memory; RocksDB's seeks around them.
// Mutation: few ranges that are left to iterators.
TEST_F(EngineResidentFiles, SingleRangesReadInFiles) {
  for (const std::uint64_t clean_bytes : {std::uint64_t{0}, std::uint64_t{1} << 20}) {
    const testing::Folder folder(testing::Place::kMemory);
    open_in(folder, clean_bytes);
    put(0, 4000, "first");
    flush();
    put(1000, 2000, "second");
    flush();
    for (const bool has_memory : {false, true}) {
      if (has_memory) put(500, 510, "third");
      ASSERT_TRUE(wait_for_files());
      const std::uint64_t seeks = statistics_->getTickerCount(rocksdb::NUMBER_DB_SEEK);
      const std::uint64_t iterators = ranges_by_iterator();
      for (int round = 0; round < 20; ++round) {
        for (const std::uint32_t limit : {1U, 10U, 299U}) read_ranges(1, limit);
      }
      EXPECT_EQ(statistics_->getTickerCount(rocksdb::NUMBER_DB_SEEK), seeks);
      // Of what runs have all the tree is not asked.
      if (clean_bytes == 0) {
        EXPECT_EQ(ranges_by_iterator(), iterators);
      }
      EXPECT_GE(figure("ranges"), clean_bytes == 0 ? 60U : 0U);
    }
  }
}

// Goal: lookups and ranges may go on while files are written, compacted, read by several threads
//       and let go, and each finds a value that its key has had.
// Method: readers in batches beside a writer, with many small files and room for some of them.
// Mutation: files that are unmapped, or pieces that are freed, while a batch reads them.
TEST_F(EngineResidentFiles, ConcurrentReadsWhileFilesChange) {
  options_.rocksdb.target_file_size_base = 16 << 10;
  options_.residency_bytes = 150'000;
  open();
  put(0, 4000, "v0");
  flush();
  std::atomic<bool> ends{false};
  const auto is_of = [](const Slice& value, const std::string& key) {
    return value.ToString().ends_with(" of " + key.substr(std::string("key ").size()));
  };
  const auto read = [&](std::uint64_t seed) {
    base::Random random(seed);
    while (!ends) {
      Batch batch = engine_->NewBatch();
      std::vector<std::string> keys;
      for (int i = 0; i < 300; ++i) keys.push_back(key_of(random.below(4000)));
      for (const std::string& key : keys) ASSERT_TRUE(batch.Get(key).ok());
      for (int i = 0; i < 150; ++i) ASSERT_TRUE(batch.Range(keys[i], "l", 5).ok());
      ASSERT_TRUE(engine_->Submit({}, &batch).ok());
      for (std::size_t i = 0; i < keys.size(); ++i) {
        ASSERT_EQ(batch.code(i), Status::Code::kOk);
        ASSERT_TRUE(is_of(batch.value(i), keys[i]));
      }
      for (std::size_t i = 0; i < 150; ++i) {
        for (std::size_t j = 0; j < batch.range_size(i); ++j) {
          const auto [key, value] = batch.range_entry(i, j);
          ASSERT_TRUE(is_of(value, key.ToString()));
        }
      }
    }
  };
  std::vector<std::thread> readers;
  for (std::uint64_t seed = 1; seed <= 2; ++seed) readers.emplace_back(read, seed);
  for (int round = 1; round <= 20; ++round) {
    const std::uint64_t begin = static_cast<std::uint64_t>(round % 8) * 400;
    const std::uint64_t loads = figure("loads");
    put(begin, begin + 800, "v" + std::to_string(round));
    flush();
    if (round % 3 == 0) {
      EXPECT_TRUE(engine_->below().db()->CompactRange({}, nullptr, nullptr).ok());
    }
    // Some files of most rounds are there for a while.
    for (int i = 0; i < 100 && figure("loads") == loads; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  EXPECT_GT(figure("loads"), 20U);
  EXPECT_GT(figure("answered"), 0U);
  EXPECT_GT(figure("ranges"), 0U);
  ends = true;
  for (std::thread& reader : readers) reader.join();
  look_up(0, 4000);
}

// Goal: a range that reaches what files do not say is RocksDB's, whole; others are read in files,
//       and so are all lookups but of those very keys.
// Method: operands and a range deletion among many keys, ranges of every length from everywhere,
//         some of which end before them; RocksDB's count of lookups.
// Mutation: a range that ends where operands or a deleted range begin; one that goes on behind
//           them; files with operands or range deletions that say nothing of their other keys.
TEST_F(EngineResidentFiles, RangesReachWhatOnlyRocksDbKnows) {
  ASSERT_TRUE(
      rocksdb::MergeOperator::CreateFromString({}, "stringappend", &options_.rocksdb.merge_operator)
          .ok());
  options_.rocksdb.disable_auto_compactions = true;
  open();
  put(0, 2000, "first");
  flush();
  Batch batch = engine_->NewBatch();
  for (std::uint64_t id = 300; id < 304; ++id) {
    ASSERT_TRUE(batch.Merge(key_of(id), "more").ok());
    model_[key_of(id)] += ",more";
  }
  ASSERT_TRUE(engine_->Submit({}, &batch).ok());
  put(304, 500, "beside them");
  flush();
  put(0, 100, "newer");
  remove_range(700, 704);
  flush();
  ASSERT_TRUE(wait_for_files());
  const std::uint64_t before = tree_lookups();
  look_up(0, 2000);
  // Four with operands, as many and an end that are deleted; in a batch, and every 16th once more.
  EXPECT_GT(tree_lookups(), before);
  EXPECT_LE(tree_lookups(), before + 2 * 9);
  for (const std::uint32_t limit : {1U, 7U, 100U, 3000U}) read_ranges(300, limit);
  if (HasFatalFailure()) return;
  EXPECT_GT(ranges_by_iterator(), 0U);
  EXPECT_LT(ranges_by_iterator(), figure("ranges"));
  put(100, 200, "second");  // in memory
  for (const std::uint32_t limit : {1U, 50U, 3000U}) read_ranges(300, limit);
}

// Goal: iterators read the tree in files from a key on, and say what RocksDB's do wherever they
//       go: backward, over what files do not know, between bounds, beside what memory has.
// Method: random walks through a tree with operands and a range deletion, beside a map; a walk
//         through one without, for which RocksDB seeks nothing.
// Mutation: a walk that goes on in files behind operands, or from the wrong key where it turns; a
//           bound that is not kept; columns without a value.
TEST_F(EngineResidentFiles, IteratorsReadInFiles) {
  ASSERT_TRUE(
      rocksdb::MergeOperator::CreateFromString({}, "stringappend", &options_.rocksdb.merge_operator)
          .ok());
  options_.rocksdb.disable_auto_compactions = true;
  options_.clean_bytes = 0;
  open();
  put(0, 2000, "first");
  flush();
  put(500, 900, "second");
  remove(800, 850);
  flush();
  ASSERT_TRUE(wait_for_files());
  const std::uint64_t seeks = statistics_->getTickerCount(rocksdb::NUMBER_DB_SEEK);
  read_all();
  EXPECT_EQ(statistics_->getTickerCount(rocksdb::NUMBER_DB_SEEK), seeks);
  rocksdb::ReadOptions ahead;  // as RocksDB alone does it
  ahead.readahead_size = 1 << 20;
  new_iterator(ahead)->SeekToFirst();
  EXPECT_GT(statistics_->getTickerCount(rocksdb::NUMBER_DB_SEEK), seeks);
  for (std::uint64_t state = 0; state < 2; ++state) {
    Batch batch = engine_->NewBatch();
    for (std::uint64_t id = 300 + 1000 * state; id < 304 + 1000 * state; ++id) {
      ASSERT_TRUE(batch.Merge(key_of(id), "more").ok());
      model_[key_of(id)] += ",more";
    }
    ASSERT_TRUE(engine_->Submit({}, &batch).ok());
    remove_range(700 + 1000 * state, 704 + 1000 * state);
    if (state == 0) flush();  // else memory has them
    ASSERT_TRUE(wait_for_files());
    read_all();
    for (const std::uint64_t seed : testing::seeds_to_run(30)) {
      SCOPED_TRACE(testing::replay_command(seed));
      walk(seed);
      if (HasFatalFailure()) return;
    }
  }
}

// Goal: the tree's iterator turns where it is, in files or not.
// Method: back and forth from a key in files and from one behind which nothing is known there.
// Mutation: a turn at the key before.
TEST_F(EngineResidentFiles, TheTreesIteratorTurns) {
  options_.clean_bytes = 0;
  open();
  put(0, 100, "first");
  flush();
  ASSERT_TRUE(wait_for_files());
  const Pin pin = engine_->pin();
  const FamilyView& family = *pin.view->family(kDefaultFamily);
  const auto iterator = make_files_iterator(
      *family.files, {}, [&] { return pin.view->below.iterate({}, family.in_tree()); });
  std::vector<std::string> keys;
  for (const auto& [key, value] : model_) keys.push_back(key);
  ASSERT_EQ(keys.size(), 100U);
  const auto is_at = [&](std::size_t i) {
    return iterator->Valid() && iterator->key() == keys[i] && iterator->status().ok();
  };
  for (int round = 0; round < 3; ++round) {
    iterator->Seek(keys[50]);
    for (std::size_t i = 50; i < 55; ++i, iterator->Next()) EXPECT_TRUE(is_at(i)) << i;
    for (std::size_t i = 55; i > 45; --i, iterator->Prev()) EXPECT_TRUE(is_at(i)) << i;
    for (std::size_t i = 45; i < 100; ++i, iterator->Next()) EXPECT_TRUE(is_at(i)) << i;
    EXPECT_FALSE(iterator->Valid());
    iterator->SeekForPrev(keys[60]);
    EXPECT_TRUE(is_at(60));
    iterator->Next();
    EXPECT_TRUE(is_at(61));
    iterator->SeekToLast();
    EXPECT_TRUE(is_at(99));
    iterator->SeekToFirst();
    EXPECT_TRUE(is_at(0));
  }
}

// Goal: where there is room for some files alone, the newest have it, and RocksDB is asked for the
//       others; what went makes room.
// Method: more keys than fit; then all are deleted, and compacted away, and others written.
// Mutation: a file that did not fit and is never tried again; a set without what did not fit.
TEST_F(EngineResidentFiles, LeaveWhatDoesNotFitToRocksDb) {
  options_.residency_bytes = 200'000;
  options_.rocksdb.target_file_size_base = 64 << 10;
  options_.rocksdb.disable_auto_compactions = true;
  open();
  for (std::uint64_t part = 0; part < 10; ++part) {
    put(part * 2000, part * 2000 + 2000, "much");
    flush();
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (figure("files") == 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  look_up(0, 21'000);
  EXPECT_GT(figure("answered"), 0U);
  // What was written last is there whatever was there before.
  for (std::uint64_t part = 0; part < 10; ++part) {
    put(part * 2000, part * 2000 + 1000, "more");
    flush();
    const std::uint64_t enough = figure("answered") + 500;
    while (figure("answered") < enough && std::chrono::steady_clock::now() < deadline) {
      look_up(part * 2000, part * 2000 + 600);
    }
    EXPECT_GE(figure("answered"), enough);
  }
  EXPECT_GT(figure("left"), 0U);
  EXPECT_LT(figure("files"), figure("files-listed"));
  EXPECT_LE(figure("bytes"), options_.residency_bytes);
  remove(0, 20'000);
  flush();
  ASSERT_TRUE(engine_->below().db()->CompactRange({}, nullptr, nullptr).ok());
  put(0, 1000, "few");
  flush();
  EXPECT_TRUE(wait_for_files());
  look_up(0, 21'000);
}

// Goal: who else wants the device's memory gets it, for a while.
// Method: resident files on a fake GPU, whose memory another tenant wants.
// Mutation: an owner that gives nothing, or takes it again at once.
TEST_F(EngineResidentFiles, GiveMemoryToOthers) {
  gpu_.use(&options_);
  open();
  put(0, 4000, "first");
  flush();
  ASSERT_TRUE(wait_for_files());
  auto device = exec::open_device(exec::DeviceKind::kCuda, gpu_.number());
  ASSERT_TRUE(device.ok());
  auto other = device.value()->admit({.name = "other"});
  ASSERT_TRUE(other.ok());
  const std::uint64_t wanted = kDeviceBytes - device.value()->memory_held() + 4096;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  void* memory = nullptr;
  while (memory == nullptr && std::chrono::steady_clock::now() < deadline) {
    memory = other.value()->pool().allocate(wanted);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_NE(memory, nullptr);
  if (memory != nullptr) other.value()->pool().release(memory, wanted);
  EXPECT_EQ(figure("bytes"), 0U);
  look_up(0, 4000);
}

// Goal: a device that is lost takes no lookup with it.
// Method: a fake GPU with resident files, which is lost.
// Mutation: an error of the device that lookups say.
TEST_F(EngineResidentFiles, GoWithTheirDevice) {
  gpu_.use(&options_);
  open();
  put(0, 4000, "first");
  flush();
  ASSERT_TRUE(wait_for_files());
  look_up(0, 4000);
  EXPECT_GT(figure("answered"), 0U);
  gpu_.faults.fail_after(1, exec::Fault::kDeviceLost);
  look_up(0, 4000);
  put(0, 100, "second");
  flush();
  look_up(0, 4000);
}

}  // namespace breccia::ordered
