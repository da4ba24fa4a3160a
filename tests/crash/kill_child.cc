#include <breccia/hash_options.h>
#include <breccia/options.h>
#include <breccia/store.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/random.h"
#include "hash/engine/engine.h"
#include "hot/tier.h"
#include "kill_state.h"
#include "support/backend.h"
#include "support/refill.h"
#include "support/restless_tier.h"
#include "support/sparse_files.h"

namespace breccia::crash {

KillState* map_state(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  BRECCIA_ASSERT(fd >= 0 && ::ftruncate(fd, sizeof(KillState)) == 0);
  void* const at = ::mmap(nullptr, sizeof(KillState), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  BRECCIA_ASSERT(at != MAP_FAILED);
  ::close(fd);
  return static_cast<KillState*>(at);
}

void unmap_state(KillState* state) { ::munmap(state, sizeof(KillState)); }

namespace {

using Pending = WriterState::Pending;

constexpr char kOtherFamily[] = "other";
/// Of a writer, those that it writes and looks up most if there is a tier for them.
constexpr std::uint32_t kHotKeys = 8;

std::string key_text(std::uint32_t writer, std::uint32_t key) {
  return fmt::format("{}/{}{}", writer, std::string(key % 7, 'k'), key);
}

/// What batch `number` wrote under a key: a value, or nothing (a deletion, or no batch at all).
std::optional<std::string> content_of(std::uint64_t number, std::uint32_t writer,
                                      std::uint32_t key) {
  if (number == 0) return std::nullopt;
  const std::uint64_t mixed = base::mix64(number ^ base::mix64(writer * kKeysPerWriter + key));
  if (mixed % 8 == 0) return std::nullopt;
  return fmt::format("{}:{}", number, std::string(mixed % 100, static_cast<char>('a' + key % 26)));
}

class Child {
 public:
  Child(const std::string& folder, const ChildRun& run)
      : folder_(folder), run_(run), random_(run.seed), state_(map_state(folder + "/expected")) {}

  void run() {
    Status status = run_.hash ? open_hash() : open();
    if (status.ok() && run_.hot) status = put_tier_before();
    if (!status.ok()) return fail("open: " + status.ToString());
    for (std::uint32_t writer = 0; writer < kWriters; ++writer) {
      const std::string error = check(writer);
      if (!error.empty()) return fail(error);
    }
    ++state_->verified;
    // Keeps the log short, so that opening stays quick.
    if (random_.one_in(8)) status = store_->Flush();
    if (!status.ok()) return fail("flush: " + status.ToString());
    state_->phase = Phase::kLoading;
    std::vector<std::thread> threads;
    for (std::uint32_t writer = 0; writer < kWriters; ++writer) {
      threads.emplace_back([this, writer, seed = random_.next()] { write(writer, seed); });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  Status open() {
    Options options;
    options.create_if_missing = true;
    options.backend = run_.simulator ? BackendChoice::kSimulator : testing::backend_under_test();
    options.simulator_seed = random_.next();
    options.device_requests_min = random_.one_in(2) ? 8 : 64;
    options.memtable_bytes = random_.one_in(2) ? 1 << 20 : 64 << 20;
    options.rocksdb.info_log_level = rocksdb::InfoLogLevel::FATAL_LEVEL;
    options.rocksdb.compression = rocksdb::kNoCompression;
    options.rocksdb.max_file_opening_threads = 1;
    options.families = {{kOtherFamily, options.rocksdb}};
    const Status status = Store::Open(options, folder_ + "/store", &store_);
    if (!status.ok()) return status;
    for (const auto& [name, family] : store_->Families()) {
      if (name == kOtherFamily) other_ = family;
    }
    if (random_.one_in(2)) testing::wait_for_refill(store_.get());
    return other_ != kDefaultFamily ? status : Status::Corruption("a family is missing");
  }

  /// Segments that are full soon, so that the log is cleaned again and again.
  Status open_hash() {
    HashOptions options;
    options.create_if_missing = true;
    options.backend = run_.simulator ? BackendChoice::kSimulator : testing::backend_under_test();
    options.simulator_seed = random_.next();
    options.log_factor = 1;
    const bool is_sparse = random_.one_in(2);
    const hash::Ground ground{.files = is_sparse ? testing::make_sparse_files() : wal::real_files(),
                              .disk = pmem::real_disk(),
                              .roll_bytes = is_sparse ? 64ULL << 10 : 4ULL << 20};
    std::unique_ptr<hash::Engine> engine;
    const Status status = hash::Engine::open(options, folder_ + "/store", ground, &engine);
    store_ = std::move(engine);
    return status;
  }

  Status put_tier_before() {
    BRECCIA_TAKE(store_,
                 hot::Tier::make(testing::restless_tier(&random_, kHotKeys), std::move(store_)));
    return Status::OK();
  }

  /// Every third key lies in the other family, if there is one.
  [[nodiscard]] bool is_other(std::uint32_t key) const { return !run_.hash && key % 3 == 2; }
  [[nodiscard]] FamilyId family_of(std::uint32_t key) const {
    return is_other(key) ? other_ : kDefaultFamily;
  }

  void fail(const std::string& error) {
    const std::lock_guard lock(fail_mutex_);
    if (state_->phase == Phase::kFailed) return;
    const std::size_t bytes = std::min(error.size(), sizeof state_->error - 1);
    std::memcpy(state_->error, error.data(), bytes);
    state_->error[bytes] = '\0';
    state_->phase = Phase::kFailed;
  }

  /// Compares the writer's keys with what was acknowledged and settles its pending batch.
  std::string check(std::uint32_t writer) {
    WriterState& expected = state_->writers[writer];
    if (expected.pending == Pending::kAcked) expected.settle();
    Batch reads;
    Status status;
    for (std::uint32_t key = 0; status.ok() && key < kKeysPerWriter; ++key) {
      status = reads.Get(family_of(key), key_text(writer, key));
    }
    if (status.ok()) status = store_->Submit(WriteOptions(), &reads);
    if (!status.ok()) return "reading: " + status.ToString();
    std::vector<bool> in_batch(kKeysPerWriter, false);
    for (std::uint32_t i = 0; expected.pending == Pending::kSubmitted && i < expected.count; ++i) {
      in_batch[expected.key_of(i)] = true;
    }
    bool may_be_missing = true;
    bool may_be_whole = true;
    for (std::uint32_t key = 0; key < kKeysPerWriter; ++key) {
      const Status::Code code = reads.code(key);
      if (code != Status::Code::kOk && code != Status::Code::kNotFound) {
        return fmt::format("key {}: code {}", key, static_cast<int>(code));
      }
      const auto found = code == Status::Code::kOk
                             ? std::optional<std::string>(reads.value(key).ToString())
                             : std::nullopt;
      const bool as_acked = found == content_of(expected.acked[key], writer, key);
      const bool as_pending = in_batch[key] && found == content_of(expected.number, writer, key);
      may_be_missing = may_be_missing && as_acked;
      may_be_whole = may_be_whole && (in_batch[key] ? as_pending : as_acked);
      if (!as_acked && !as_pending) {
        return fmt::format("writer {}, key {}: batch {} was acknowledged, {} is pending, found {}",
                           writer, key, expected.acked[key], in_batch[key] ? expected.number : 0,
                           found.value_or("nothing"));
      }
    }
    if (!may_be_missing && !may_be_whole) {
      return fmt::format("writer {}: batch {} of {} keys is half there", writer, expected.number,
                         expected.count);
    }
    if (expected.pending == Pending::kSubmitted) {
      ++(may_be_whole ? state_->whole : state_->missing);
      if (may_be_whole) expected.settle();
      expected.pending = Pending::kNone;
    }
    return "";
  }

  void write(std::uint32_t writer, std::uint64_t seed) {
    base::Random random(seed);
    WriterState& mine = state_->writers[writer];
    while (state_->phase == Phase::kLoading) {
      if (random.one_in(64)) {
        const Status status = store_->Flush();
        if (!status.ok()) return fail("flush: " + status.ToString());
        ++state_->flushes;
      }
      mine.first = static_cast<std::uint32_t>(random.below(kKeysPerWriter));
      mine.stride = static_cast<std::uint32_t>(1 + random.below(kKeysPerWriter - 1));
      const std::uint64_t shape = random.below(8);
      mine.count =
          static_cast<std::uint32_t>(shape < 3 ? 1 : 1 + random.below(shape < 6 ? 100 : kBatchMax));
      if (run_.hot) {  // what floods the samples leaves nothing hot
        mine.count = std::min(mine.count, kHotKeys);
        if (shape < 6) mine.first = static_cast<std::uint32_t>(random.below(kHotKeys));
      }
      mine.number = std::atomic_ref(state_->number).fetch_add(1) + 1;
      mine.pending.store(Pending::kSubmitted, std::memory_order_release);
      const Status status = submit(writer, mine);
      if (!status.ok()) return fail("write: " + status.ToString());
      mine.pending.store(Pending::kAcked, std::memory_order_release);
      mine.settle();
      ++state_->acked;
      if (run_.hot && !are_as_acked(writer, &random)) {
        return fail("a hot key has what was not acknowledged last");
      }
    }
  }

  bool are_as_acked(std::uint32_t writer, base::Random* random) {
    for (std::uint32_t i = 0; i < 4 * kHotKeys; ++i) {
      if (!is_as_acked(writer, static_cast<std::uint32_t>(random->below(kHotKeys)))) return false;
    }
    std::string hits;
    if (writer == 0 && store_->GetProperty("breccia.hot.hits", &hits)) {
      state_->hits += std::stoull(hits) - hits_seen_;
      hits_seen_ = std::stoull(hits);
    }
    return true;
  }
  /// Of a key that nobody writes just now.
  bool is_as_acked(std::uint32_t writer, std::uint32_t key) {
    if (is_other(key)) return true;
    std::string value;
    const Status found = store_->Get(key_text(writer, key), &value);
    const auto expected = content_of(state_->writers[writer].acked[key], writer, key);
    return expected.has_value() ? found.ok() && value == *expected : found.IsNotFound();
  }

  /// A third of what is written beside a tier reaches the medium before it is acknowledged.
  Status submit(std::uint32_t writer, const WriterState& mine) {
    WriteOptions options;
    if (run_.hot && mine.number % 3 == 0) options.durability = Durability::kSync;
    if (mine.count == 1 && mine.number % 2 == 0 && !is_other(mine.key_of(0))) {
      const std::uint32_t key = mine.key_of(0);
      const auto content = content_of(mine.number, writer, key);
      return content ? store_->Put(options, key_text(writer, key), *content)
                     : store_->Delete(options, key_text(writer, key));
    }
    Batch batch;
    const bool by_range = mine.number % 4 == 0 && !run_.hash;
    for (std::uint32_t i = 0; i < mine.count; ++i) {
      const std::uint32_t key = mine.key_of(i);
      const std::string text = key_text(writer, key);
      const auto content = content_of(mine.number, writer, key);
      const Status status = content    ? batch.Put(family_of(key), text, *content)
                            : by_range ? batch.DeleteRange(family_of(key), text, text + '\0')
                                       : batch.Delete(family_of(key), text);
      if (!status.ok()) return status;
    }
    return store_->Submit(options, &batch);
  }

  const std::string folder_;
  const ChildRun run_;
  base::Random random_;
  KillState* const state_;
  std::mutex fail_mutex_;
  std::uint64_t hits_seen_ = 0;  // of the first writer
  std::unique_ptr<Store> store_;
  FamilyId other_ = kDefaultFamily;
};

}  // namespace

void run_child(const std::string& folder, const ChildRun& run) { Child(folder, run).run(); }

}  // namespace breccia::crash
