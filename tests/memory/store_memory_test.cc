#include <breccia/hash_options.h>
#include <breccia/merge_operators.h>
#include <breccia/store.h>
#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "base/memory.h"
#include "hash/engine/engine.h"
#include "memory/fail_each.h"
#include "support/folder.h"
#include "support/small_options.h"
#include "support/sparse_files.h"

/// A store in a process without memory.

namespace breccia {

namespace {

using testing::fail_each;
using testing::tried;
using Entries = std::map<std::string, std::string>;

std::string number(std::uint64_t value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

/// A store, and what must be in it.
class Session {
 public:
  /// `hash`: of the hash engine, which has no ranges and no operands, and cleans where the other
  /// one flushes.
  explicit Session(bool hash = false)
      : folder_(testing::Place::kMemory),
        path_(folder_ / "store"),
        options_(testing::small_options()),
        hash_(hash) {
    hash_options_.create_if_missing = true;
    hash_options_.backend = BackendChoice::kHost;
    hash_options_.keys_expected = 8;
    hash_options_.admission_requests_min = 4;
    options_.device_requests_min = 8;
    options_.entry_cache_bytes = 1 << 16;
    options_.rocksdb.merge_operator = NewInt64AddOperator();
    options_.admission_requests_min = 4;
  }
  ~Session() { testing::disarm_allocations(); }

  bool open() {
    const Status status = tried([&] { return open_store(); });
    EXPECT_TRUE(status.ok() || status.IsMemoryLimit()) << status.ToString();
    EXPECT_EQ(status.ok(), store_ != nullptr);
    return status.ok();
  }

  void put(const std::string& key, const std::string& value) {
    note(tried([&] { return store_->Put({}, key, value); }), {{key, value}});
  }

  /// Puts keys begin0, begin1, ... and reads one of them, one from before, and a range.
  void batch(const std::string& begin, int puts, std::uint64_t value) {
    Batch batch = store_->NewBatch();
    Entries entries;
    for (int i = 0; i < puts; ++i) entries[begin + std::to_string(i)] = number(value + i);
    const Status built = tried([&] { return build(entries, begin, &batch); });
    if (!built.ok()) {
      EXPECT_TRUE(built.IsMemoryLimit());
      return;
    }
    const Status status = tried([&] { return store_->Submit({}, &batch); });
    note(status, entries);
    if (status.ok()) check_reads(batch, begin + "0", begin);
  }

  /// The same by columns; the lookups' values go into an array.
  void columns(const std::string& begin, int puts, std::uint64_t value) {
    Batch batch = store_->NewBatch();
    Entries entries;
    std::string keys;
    std::string values;
    for (int i = 0; i < puts; ++i) {
      keys += begin + static_cast<char>('A' + i);
      values += number(value + i);
      entries[begin + static_cast<char>('A' + i)] = number(value + i);
    }
    const auto count = static_cast<std::size_t>(puts);
    const auto key_column = BytesColumn::Fixed(keys.data(), count, begin.size() + 1);
    std::string read(8 * count, '.');
    std::vector<std::uint8_t> found(count, 9);
    const Status built = tried([&] {
      Status status = batch.Put(0, key_column, BytesColumn::Fixed(values.data(), count, 8));
      if (status.ok()) status = batch.Get(0, key_column, {read.data(), 8, 8, found.data()});
      return status;
    });
    if (!built.ok()) {
      EXPECT_TRUE(built.IsMemoryLimit());
      return;
    }
    const Status status = tried([&] { return store_->Submit({}, &batch); });
    note(status, entries);
    for (std::size_t i = 0; status.ok() && i < count; ++i) {
      if (batch.code(i) == Status::Code::kAborted) {
        EXPECT_EQ(found[i], 0);
        continue;
      }
      EXPECT_EQ(batch.code(i), Status::Code::kOk);
      EXPECT_EQ(found[i], 1);
      EXPECT_EQ(read.substr(8 * i, 8), values.substr(8 * i, 8));
    }
  }

  /// Several batches that go together.
  void batches_together(const std::string& begin) {
    constexpr int kBatches = 4;
    std::vector<Batch> batches;
    std::vector<std::promise<Status>> done(kBatches);
    std::vector<Entries> entries(kBatches);
    for (int i = 0; i < kBatches; ++i) {
      batches.push_back(store_->NewBatch());
      const std::string key = begin + std::to_string(i);
      entries[i][key] = number(i);
      EXPECT_TRUE(build(entries[i], key, &batches.back()).ok());
    }
    for (int i = 0; i < kBatches; ++i) {
      const testing::ExposedCall exposed;
      // A reference: std::function needs no memory for it.
      store_->SubmitAsync({}, &batches[i], [one = &done[i]](Status status) {
        const testing::SparedThread spared;
        one->set_value(std::move(status));
      });
    }
    for (int i = 0; i < kBatches; ++i) {
      const Status status = done[i].get_future().get();
      note(status, entries[i]);
      if (status.ok()) check_reads(batches[i], begin + std::to_string(i), begin);
    }
  }

  /// Adds to numbers that are there, as one batch that is worked out when it is submitted.
  void add(const std::string& begin, int count, std::uint64_t more) {
    Batch batch = store_->NewBatch();
    Entries entries;
    for (int i = 0; i < count; ++i) {
      const std::string key = begin + std::to_string(i);
      if (!model_.contains(key)) return;
      std::uint64_t before = 0;
      std::memcpy(&before, model_[key].data(), sizeof before);
      entries[key] = number(before + more);
      EXPECT_TRUE(batch.Merge(key, number(more)).ok());
    }
    note(tried([&] { return store_->Submit({}, &batch); }), entries);
  }

  void transaction(const std::string& key, const std::string& value) {
    std::unique_ptr<Transaction> open;
    try {
      const testing::ExposedCall exposed;
      open = store_->OpenTransaction();
    } catch (const std::bad_alloc&) {
      return;  // it has no other way to say so
    }
    Batch reads = store_->NewBatch();
    EXPECT_TRUE(reads.Get(key).ok());
    const Status read = tried([&] { return open->Read(&reads); });
    const Status built = tried([&] { return open->batch().Put(key, value); });
    EXPECT_TRUE(built.ok() || built.IsMemoryLimit());
    if (!read.ok() || !built.ok()) return;
    note(tried([&] { return open->Close({}); }), {{key, value}});
  }

  void flush() {
    bool was_done = false;
    const Status status = tried([&] {
      return hash_ ? static_cast<hash::Engine&>(*store_).cleaner().clean_one(&was_done)
                   : store_->Flush();
    });
    if (!status.ok() && !status.IsMemoryLimit()) stopped_ = true;
  }

  void close() {
    (void)tried([&] { return store_->Close(); });
    const testing::ExposedCall exposed;
    store_.reset();
  }

  [[nodiscard]] bool is_open() const { return store_ != nullptr; }

  /// Without failures: what is acknowledged is there, all else is not, also when it is opened
  /// again.
  void check() {
    testing::disarm_allocations();
    if (store_ != nullptr) {
      check_entries(/*after_opening=*/false);
      const Status status = store_->Put({}, "after", "all");
      EXPECT_TRUE(status.ok() || status.IsIOError()) << status.ToString();
      EXPECT_TRUE(status.ok() || !status.ToString().empty());
      note(status, {{"after", "all"}});
      store_.reset();
    }
    ASSERT_TRUE(open_store().ok());
    check_entries(/*after_opening=*/true);
    EXPECT_TRUE(store_->Put({}, "last", "of all").ok());
    EXPECT_TRUE(store_->Flush().ok());
    model_["last"] = "of all";
    check_entries(/*after_opening=*/true);
  }

 private:
  Status open_store() {
    if (!hash_) return Store::Open(options_, path_, &store_);
    return base::or_memory_limit([&] {
      const hash::Ground ground{.files = testing::make_sparse_files(),
                                .disk = pmem::real_disk(),
                                .number_mask = 3,
                                .roll_bytes = 1024,
                                .is_scripted = true};
      std::unique_ptr<hash::Engine> engine;
      const Status status = hash::Engine::open(hash_options_, path_, ground, &engine);
      store_ = std::move(engine);
      return status;
    });
  }
  Status build(const Entries& entries, const std::string& begin, Batch* batch) const {
    for (const auto& [key, value] : entries) {
      const Status status = batch->Put(key, value);
      if (!status.ok()) return status;
    }
    Status status = batch->Get(entries.begin()->first);
    if (status.ok()) status = batch->Get("first");
    if (status.ok() && !hash_) status = batch->Range(begin, begin + "~", 100);
    return status;
  }

  /// A read is answered rightly, or says that there was no memory.
  void check_reads(const Batch& batch, const std::string& own, const std::string& begin) {
    if (batch.code(0) != Status::Code::kAborted) {
      ASSERT_EQ(batch.code(0), Status::Code::kOk);
      EXPECT_EQ(batch.value(0).ToString(), model_[own]);
    }
    if (batch.code(1) != Status::Code::kAborted && !unknown_key("first")) {
      EXPECT_EQ(batch.code(1) == Status::Code::kOk, model_.contains("first"));
    }
    if (hash_ || batch.range_code(0) == Status::Code::kAborted) return;
    ASSERT_EQ(batch.range_code(0), Status::Code::kOk);
    EXPECT_GE(batch.range_size(0), 1U);
    EXPECT_EQ(batch.range_entry(0, 0).first.ToString().substr(0, begin.size()), begin);
  }

  /// What became of a write, by its status. MemoryLimit promises that nothing was written; after
  /// any other error the store has stopped, and only opening it tells.
  void note(const Status& status, const Entries& entries) {
    for (const auto& [key, value] : entries) keys_.insert_or_assign(key, 0);
    if (status.ok()) {
      EXPECT_FALSE(stopped_);
      for (const auto& [key, value] : entries) model_[key] = value;
    } else if (!status.IsMemoryLimit()) {
      EXPECT_TRUE(status.IsIOError()) << status.ToString();
      stopped_ = true;
      unknown_.push_back(entries);
    }
  }

  [[nodiscard]] bool unknown_key(const std::string& key) const {
    for (const Entries& entries : unknown_) {
      if (entries.contains(key)) return true;
    }
    return false;
  }

  std::string found(const std::string& key) {
    std::string value;
    const Status status = store_->Get(key, &value);
    EXPECT_TRUE(status.ok() || status.IsNotFound()) << status.ToString();
    return status.ok() ? value : std::string();
  }

  void check_entries(bool after_opening) {
    for (const auto& [key, unused] : keys_) {
      if (after_opening && unknown_key(key)) continue;
      EXPECT_EQ(found(key), model_.contains(key) ? model_[key] : std::string()) << key;
    }
    for (const Entries& entries : unknown_) {
      if (!after_opening) continue;
      std::size_t there = 0;
      for (const auto& [key, value] : entries) there += found(key) == value ? 1 : 0;
      EXPECT_TRUE(there == 0 || there == entries.size()) << "half of a batch is there";
    }
  }

  const testing::Folder folder_;
  const std::string path_;
  Options options_;
  HashOptions hash_options_;
  const bool hash_;
  std::unique_ptr<Store> store_;
  Entries model_;
  std::map<std::string, int> keys_;  // all that anybody has tried to write
  std::vector<Entries> unknown_;     // batches whose status does not say whether they are there
  bool stopped_ = false;
};

}  // namespace

// Goal: a store that cannot be opened for want of memory says so, and opens when there is some.
// Method: each allocation of opening one that has entries in its log and in its tree, and of
// closing
//   it, fails.
// Mutation: a log that is half open keeps its folder locked; a thread that does not start ends all.
TEST(StoreMemory, Opens) {
  fail_each<Session>([](Session* session, const auto& arm) {
    ASSERT_TRUE(session->open());
    session->put("first", "value");
    session->batch("tree", 16, 1);
    session->flush();
    session->batch("log", 16, 1);
    session->put("second", "value");
    session->close();
    arm();
    if (session->open()) session->close();
  });
}

// Goal: what a write says is true, whatever found no memory: written whole and seen, or not there.
// Method: each allocation fails of single writes, of batches into the memtable and as runs, of
// those
//   that are worked out, of transactions and of reads.
// Mutation: publishing that begins anew inserts a record twice; a queue that needs memory for who
//   has its place in the log already ends the process.
TEST(StoreMemory, WritesAndReads) {
  fail_each<Session>([](Session* session, const auto& arm) {
    ASSERT_TRUE(session->open());
    session->batch("base", 12, 100);
    arm();
    session->put("first", "value");
    session->batch("small", 3, 1);
    session->batch("large", 16, 1);
    session->add("base", 12, 7);
    session->transaction("in a transaction", "value");
    session->put("second", "value");
    session->batch("other", 10, 5);
  });
}

// Goal: the same of batches by columns, whose lookups say in their array what became of them.
// Method: each allocation fails of columns into the memtable and as a run, and of what reads them.
// Mutation: a lookup without memory that leaves its array as it was fails.
TEST(StoreMemory, Columns) {
  fail_each<Session>([](Session* session, const auto& arm) {
    ASSERT_TRUE(session->open());
    session->batch("base", 12, 100);
    arm();
    session->columns("few", 3, 1);
    session->columns("many", 20, 1);
    session->put("first", "value");
    session->columns("again", 9, 7);
  });
}

// Goal: the thread that runs batches later answers each of them.
// Method: each allocation fails of four batches that go together, twice.
// Mutation: a group that is made before it is known that there is memory for it loses its batches.
TEST(StoreMemory, BatchesTogether) {
  fail_each<Session>([](Session* session, const auto& arm) {
    ASSERT_TRUE(session->open());
    session->put("first", "value");
    arm();
    session->batches_together("a");
    session->batches_together("b");
  });
}

// Goal: the log goes on without a segment that was to be made ahead, and a roll changes nothing
// where
//   it finds no memory.
// Method: each allocation fails of values that fill a segment, so that one is made ahead and taken.
// Mutation: a preparer that does not survive ends the process; a closing frame that is written
// before
//   there is room to note the next segment leaves the log without its end.
TEST(StoreMemory, LogRolls) {
  constexpr std::size_t kValueBytes = 20 << 20;
  std::vector<std::string> values;
  for (const char letter : {'a', 'b', 'c', 'd'}) values.emplace_back(kValueBytes, letter);
  fail_each<Session>([&](Session* session, const auto& arm) {
    ASSERT_TRUE(session->open());
    arm();
    for (const std::string& value : values) session->put("large " + value.substr(0, 1), value);
    session->put("first", "value");
  });
}

// Goal: flushes and merges try again, and lose nothing.
// Method: each allocation fails of enough runs for a merge, of flushes, and of what comes behind.
// Mutation: a flush that is done again when its files lie in the tree adds operands twice; runs
// that
//   a merge took and did not give back stop every flush.
TEST(StoreMemory, FlushesAndMerges) {
  fail_each<Session>([](Session* session, const auto& arm) {
    ASSERT_TRUE(session->open());
    session->batch("base", 12, 100);
    arm();
    for (int i = 0; i < 5; ++i) session->batch("run" + std::to_string(i), 10, 1);
    session->add("base", 12, 7);
    session->flush();
    session->put("first", "value");
    session->batch("more", 10, 1);
    session->flush();
  });
}

// Goal: all of this of the hash engine: what a write says is true, an opening that fails leaves
//   what was there, and cleaning loses nothing.
// Method: each allocation fails of writes, lookups, batches that go together and transactions, of
//   cleaning two segments, of closing and of opening again; keys share numbers.
// Mutation: a ticket that is not given up when its frame cannot be filled stops everybody.
TEST(StoreMemory, HashEngine) {
  fail_each<Session>(
      [](Session* session, const auto& arm) {
        ASSERT_TRUE(session->open());
        session->batch("base", 12, 100);
        arm();
        session->put("first", "value");
        session->batch("small", 3, 1);
        session->columns("few", 3, 1);
        session->batches_together("a");
        session->flush();
        session->transaction("in a transaction", "value");
        session->batch("base", 12, 200);
        session->flush();
        session->put("first", "another");
        session->close();
        if (session->open()) session->close();
      },
      /*hash=*/true);
}

}  // namespace breccia
