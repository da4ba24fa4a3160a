#include <breccia/options.h>
#include <breccia/store.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rocksdb/db.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/assert.h"
#include "base/random.h"
#include "option_sets.h"
#include "support/backend.h"
#include "support/folder.h"
#include "support/seeds.h"
#include "support/sparse_files.h"

/// The four micro-benchmarks with which H-Rocks shows that it answers as RocksDB ([hrocks] section
/// 6.6), as tests: random requests in batches of random sizes, every result compared, and at the
/// end what is there, before a flush and after it.

namespace breccia::metamorphic {

namespace {

constexpr std::uint64_t kRequests = 1'000'000;
constexpr std::uint64_t kBatchMax = 65'536;

/// A micro-benchmark: what it draws from.
struct Mix {
  std::uint64_t keys;        // besides the one that all share
  std::uint64_t one_key_in;  // every so many requests are of the shared key
  bool deletes;
  bool updates;
};

enum class Verb { kPut, kGet, kDelete, kUpdate };

struct Request {
  Verb verb;
  std::uint64_t key;
  std::uint64_t number;
};

std::string bytes_of(std::uint64_t number) {
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

/// A store beside RocksDB in memory.
class Bench {
 public:
  Bench(const Mix& mix, std::uint64_t seed)
      : mix_(mix),
        random_(seed),
        env_(rocksdb::NewMemEnv(rocksdb::Env::Default())),
        folder_(testing::Place::kMemory) {
    rocksdb::Options tree = database_options();
    tree.merge_operator = merge_operator_of(1);
    Options options;
    options.create_if_missing = true;
    options.backend = testing::backend_under_test();
    options.memtable_bytes = 16 << 20;
    options.rocksdb.env = testing::sparse_env();
    options.rocksdb = tree;
    BRECCIA_ASSERT(Store::Open(options, folder_ / "store", &store_).ok());
    tree.env = env_.get();
    tree.create_if_missing = true;
    rocksdb::DB* db = nullptr;
    BRECCIA_ASSERT(rocksdb::DB::Open(tree, "/reference", &db).ok());
    reference_.reset(db);
  }

  /// Runs batches until `requests` requests have run. Returns the first difference, or nothing.
  std::string run(std::uint64_t requests) {
    std::uint64_t done = 0;
    std::string error;
    while (done < requests && error.empty()) {
      if (batches_ % 16 == 0) draw_ratios();
      // Each size class is as likely as every other; most batches are small.
      const std::uint64_t most = std::uint64_t{1} << random_.below(random_.one_in(4) ? 17 : 9);
      const std::uint64_t size = std::min(most / 2 + random_.below(most / 2 + 1) + 1, kBatchMax);
      error = run_batch(size);
      if (!error.empty()) error = fmt::format("batch {} of {}: {}", batches_, size, error);
      done += size;
      ++batches_;
    }
    return error;
  }
  /// The first difference between what the two hold now, or nothing.
  std::string compare_contents() {
    const std::string end(sizeof(std::uint64_t) + 1, '\xff');  // behind every key
    batch_.Clear();
    Status status = batch_.Range("", end, 2 * static_cast<std::uint32_t>(mix_.keys) + 2);
    if (status.ok()) status = store_->Submit(WriteOptions(), &batch_);
    if (!status.ok()) return status.ToString();
    const std::unique_ptr<rocksdb::Iterator> expected(
        reference_->NewIterator(rocksdb::ReadOptions()));
    entries_ = 0;
    for (expected->SeekToFirst(); expected->Valid(); expected->Next(), ++entries_) {
      if (entries_ == batch_.range_size(0)) return fmt::format("{} entries alone", entries_);
      const auto [key, value] = batch_.range_entry(0, entries_);
      if (key != expected->key() || value != expected->value()) {
        return fmt::format("entry {} is another one", entries_);
      }
    }
    return entries_ == batch_.range_size(0) ? "" : fmt::format("more than {} entries", entries_);
  }
  Status flush() { return store_->Flush(); }

  [[nodiscard]] std::uint64_t entries() const { return entries_; }
  [[nodiscard]] std::uint64_t batches() const { return batches_; }
  [[nodiscard]] std::uint64_t found() const { return found_; }
  [[nodiscard]] std::uint64_t missed() const { return missed_; }

 private:
  void draw_ratios() {
    puts_ = 1 + random_.below(8);
    gets_ = 1 + random_.below(8);
    deletes_ = mix_.deletes ? 1 + random_.below(4) : 0;
    updates_ = mix_.updates ? 1 + random_.below(12) : 0;
  }

  Request draw() {
    const std::uint64_t dice = random_.below(puts_ + gets_ + deletes_ + updates_);
    const Verb verb = dice < puts_                      ? Verb::kPut
                      : dice < puts_ + gets_            ? Verb::kGet
                      : dice < puts_ + gets_ + deletes_ ? Verb::kDelete
                                                        : Verb::kUpdate;
    const bool shared = mix_.keys == 0 || random_.one_in(mix_.one_key_in);
    return {verb, shared ? 0 : 1 + random_.below(mix_.keys), random_.next()};
  }

  std::string run_batch(std::uint64_t size) {
    batch_.Clear();
    requests_.clear();
    for (std::uint64_t i = 0; i < size; ++i) {
      const Request request = requests_.emplace_back(draw());
      const std::string key = bytes_of(base::mix64(request.key));
      const std::string value = bytes_of(request.number);
      const Status status = request.verb == Verb::kPut      ? batch_.Put(key, value)
                            : request.verb == Verb::kDelete ? batch_.Delete(key)
                            : request.verb == Verb::kUpdate ? batch_.Merge(key, value)
                                                            : batch_.Get(key);
      if (!status.ok()) return status.ToString();
    }
    const Status status = store_->Submit(WriteOptions(), &batch_);
    return status.ok() ? compare() : status.ToString();
  }

  std::string compare() {
    rocksdb::WriteOptions without_log;
    without_log.disableWAL = true;
    std::size_t read = 0;
    std::string expected;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      const Request& request = requests_[i];
      const std::string key = bytes_of(base::mix64(request.key));
      const std::string value = bytes_of(request.number);
      Status status;
      if (request.verb == Verb::kPut) {
        status = reference_->Put(without_log, key, value);
      } else if (request.verb == Verb::kDelete) {
        status = reference_->Delete(without_log, key);
      } else if (request.verb == Verb::kUpdate) {
        status = reference_->Merge(without_log, key, value);
      } else {
        const Status answer = reference_->Get(rocksdb::ReadOptions(), key, &expected);
        const std::size_t at = read++;
        ++(answer.ok() ? found_ : missed_);
        if (batch_.code(at) != answer.code() || (answer.ok() && batch_.value(at) != expected)) {
          return fmt::format("request {} reads something else", i);
        }
      }
      if (!status.ok()) return "the reference: " + status.ToString();
    }
    return "";
  }

  const Mix mix_;
  base::Random random_;
  std::uint64_t puts_ = 0, gets_ = 0, deletes_ = 0, updates_ = 0;
  std::uint64_t batches_ = 0, found_ = 0, missed_ = 0, entries_ = 0;
  std::vector<Request> requests_;
  Batch batch_;
  const std::unique_ptr<rocksdb::Env> env_;
  std::unique_ptr<rocksdb::DB> reference_;
  const testing::Folder folder_;
  std::unique_ptr<Store> store_;
};

void run(const Mix& mix) {
  const std::uint64_t seed = testing::seeds_to_run(1).front();
  Bench bench(mix, seed);
  const std::uint64_t requests = testing::share_of(kRequests);
  ASSERT_EQ(bench.run(requests), "") << "seed " << seed << "\n" << testing::replay_command(seed);
  std::printf("%lu requests in %lu batches, %lu reads found a value, %lu none\n", requests,
              bench.batches(), bench.found(), bench.missed());
  EXPECT_GT(bench.found(), 0u);
  if (mix.keys > 0) {  // of the one key nothing is missed from its first PUT on
    EXPECT_GT(bench.missed(), 0u);
  }
  EXPECT_EQ(bench.compare_contents(), "") << testing::replay_command(seed);
  ASSERT_TRUE(bench.flush().ok());
  EXPECT_EQ(bench.compare_contents(), "") << testing::replay_command(seed);
  EXPECT_GT(bench.entries(), 0u);
}

}  // namespace

// Goal: a GET returns the latest value of the one key that everybody writes.
// Method: 1,000,000 PUTs and GETs in batches of up to 65,536, compared with RocksDB.
// Mutation: reading a batch's GETs before its PUTs fails at once.
TEST(Consistency, OneKey) { run({.keys = 0, .one_key_in = 1, .deletes = false, .updates = false}); }

// Goal: the same beside many other keys.
// Method: every 16th request is of the shared key, the others of 100,000.
TEST(Consistency, ManyKeys) {
  run({.keys = 100'000, .one_key_in = 16, .deletes = false, .updates = false});
}

// Goal: the same where keys are deleted.
// Method: DELETEs among them, single and many keys.
TEST(Consistency, Deletes) {
  run({.keys = 10'000, .one_key_in = 4, .deletes = true, .updates = false});
}

// Goal: no update is lost: each changes the latest value, several of a key in one batch, too.
// Method: UPDATEs that add to 8-byte numbers, among all the rest.
// Mutation: working out each update of a batch from what was before the batch fails.
TEST(Consistency, Updates) {
  run({.keys = 3'000, .one_key_in = 8, .deletes = true, .updates = true});
}

}  // namespace breccia::metamorphic
