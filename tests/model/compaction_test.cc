#include <breccia/compaction.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/table.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <source_location>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "compaction/backend.h"
#include "compaction/service.h"
#include "exec/device.h"
#include "exec/sim/sim_device.h"
#include "sst/check.h"
#include "sst/table.h"
#include "support/fake_gpu.h"
#include "support/folder.h"
#include "support/seeds.h"

/// Stock RocksDB with the compaction service against std::map.

namespace breccia::compaction {
namespace {

using testing::Folder;

/// Contents of the families, by number.
using Model = std::vector<std::map<std::string, std::string>>;

bool is_ok(const Status& status, const std::source_location& at = std::source_location::current()) {
  if (!status.ok()) {
    ADD_FAILURE_AT(at.file_name(), static_cast<int>(at.line())) << status.ToString();
  }
  return status.ok();
}

/// Counts compactions that begin, whoever does them.
class Begins final : public rocksdb::EventListener {
 public:
  const char* Name() const override { return "Begins"; }
  void OnCompactionBegin(rocksdb::DB*, const rocksdb::CompactionJobInfo&) override { count += 1; }

  std::atomic<std::uint64_t> count = 0;
};

std::shared_ptr<Backend> backend_on(const exec::DevicePtr& device) {
  auto backend = make_backend(device, {.name = "compaction"});
  BRECCIA_ASSERT(backend.ok());
  return backend.take();
}

std::shared_ptr<Backend> host_backend() {
  static const std::shared_ptr<Backend> backend =
      backend_on(exec::open_device(exec::DeviceKind::kHost, 0).take());
  return backend;
}

/// A service that gives all that it may to `backend`, and adds its listener.
std::shared_ptr<Service> service_on(const std::shared_ptr<Backend>& backend,
                                    const ServiceOptions& how, rocksdb::DBOptions* options) {
  Engine engine;
  engine.has_device = [] { return true; };
  engine.merge = [backend](const MergeJob& job, Place, Merged* merged) {
    return merge(job, *backend, merged);
  };
  const auto service = std::make_shared<Service>(how, std::move(engine));
  options->listeners.push_back(std::make_shared<ServiceListener>(service));
  return service;
}

/// The same through the public function: each job goes where it is expected to end first.
std::shared_ptr<Service> public_service(const CompactionServiceOptions& how,
                                        rocksdb::DBOptions* options) {
  const auto made = NewCompactionService(options, how);
  auto service = std::dynamic_pointer_cast<Service>(made);
  BRECCIA_ASSERT(service != nullptr);
  EXPECT_FALSE(CompactionServiceReport(*made).empty());
  return service;
}

bool can_run(const char* program) {
  return std::system(fmt::format("{} --version >/dev/null 2>&1", program).c_str()) == 0 ||
         std::system(fmt::format("command -v {} >/dev/null 2>&1", program).c_str()) == 0;
}

// ---- what a run draws --------------------------------------------------------------------------

std::shared_ptr<rocksdb::TableFactory> draw_table(base::Random* random) {
  constexpr double kBits[] = {0, 2, 10, 16.3};
  constexpr int kRestarts[] = {1, 3, 16, 64};
  rocksdb::BlockBasedTableOptions table;
  table.format_version = static_cast<std::uint32_t>(2 + random->below(4));
  table.checksum = random->one_in(2) ? rocksdb::kXXH3 : rocksdb::kCRC32c;
  table.block_size = 256ULL << random->below(7);
  table.block_restart_interval = kRestarts[random->below(4)];
  table.index_block_restart_interval = kRestarts[random->below(4)];
  table.whole_key_filtering = !random->one_in(8);
  const double bits = kBits[random->below(4)];
  if (bits > 0) {
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(bits));
    table.format_version = 5;  // before it, filters are RocksDB's to write
  }
  return std::shared_ptr<rocksdb::TableFactory>(rocksdb::NewBlockBasedTableFactory(table));
}

rocksdb::ColumnFamilyOptions draw_family(base::Random* random) {
  constexpr rocksdb::CompressionType kTypes[] = {rocksdb::kNoCompression,
                                                 rocksdb::kSnappyCompression,
                                                 rocksdb::kLZ4Compression, rocksdb::kZSTD};
  rocksdb::ColumnFamilyOptions options;
  options.table_factory = draw_table(random);
  options.compression = kTypes[random->below(4)];
  if (random->one_in(3)) options.bottommost_compression = kTypes[random->below(4)];
  options.compaction_style =
      random->one_in(3) ? rocksdb::kCompactionStyleUniversal : rocksdb::kCompactionStyleLevel;
  options.level_compaction_dynamic_level_bytes = random->one_in(2);
  options.num_levels = static_cast<int>(2 + random->below(6));
  options.write_buffer_size = 64 << 10;
  options.target_file_size_base = (8ULL << 10) << random->below(4);
  options.target_file_size_multiplier = static_cast<int>(1 + random->below(2));
  options.max_bytes_for_level_base = (32ULL << 10) << random->below(4);
  options.max_bytes_for_level_multiplier = static_cast<double>(2 + random->below(4));
  options.level0_file_num_compaction_trigger = static_cast<int>(2 + random->below(3));
  options.optimize_filters_for_hits = random->one_in(4);
  options.compaction_options_universal.allow_trivial_move = random->one_in(2);
  options.compaction_options_universal.max_size_amplification_percent =
      random->one_in(2) ? 200 : 20;
  options.compaction_options_universal.incremental = random->one_in(4);
  return options;
}

rocksdb::DBOptions draw_database(base::Random* random) {
  rocksdb::DBOptions options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.info_log_level = rocksdb::InfoLogLevel::FATAL_LEVEL;
  options.max_background_flushes = 1;
  options.max_background_compactions = static_cast<int>(1 + random->below(4));
  options.max_subcompactions = static_cast<std::uint32_t>(1 + random->below(4));
  options.max_file_opening_threads = 1;
  options.enable_pipelined_write = random->one_in(2);
  return options;
}

/// Keys of one kind: numbers in text, or words of few bytes, some of which go on as a tag may.
struct Keys {
  explicit Keys(base::Random* random)
      : count(100ULL << random->below(6)), is_text(random->one_in(2)) {}

  [[nodiscard]] std::string at(std::uint64_t number) const {
    if (is_text) return fmt::format("key{:06}", number);
    base::Random random(number);
    std::string key(1 + random.below(40), '\x01');
    for (char& byte : key) byte = static_cast<char>(random.below(3) == 0 ? random.below(256) : 1);
    return key;
  }
  [[nodiscard]] std::string any(base::Random* random) const { return at(random->below(count)); }

  const std::uint64_t count;
  const bool is_text;
};

std::string draw_value(base::Random* random, std::uint64_t number) {
  const std::uint64_t bytes = random->one_in(100) ? random->below(9000) : random->below(150);
  std::string value(bytes, static_cast<char>('a' + random->below(26)));
  // Every other value does not compress.
  if (random->one_in(2)) {
    for (char& byte : value) byte = static_cast<char>(random->next());
  }
  return value + std::to_string(number);
}

// ---- a run -------------------------------------------------------------------------------------

/// A database, what it should hold, and the service that is being tested.
class Trial {
 public:
  Trial(std::uint64_t seed, std::uint64_t operations)
      : random_(seed),
        operations_(operations),
        keys_(&random_),
        folder_(testing::Place::kMemory),
        options_(draw_database(&random_)) {
    const std::uint64_t families = 1 + random_.below(3);
    for (std::uint64_t family = 0; family < families; ++family) {
      family_options_.push_back(draw_family(&random_));
    }
    model_.resize(families);
  }
  ~Trial() { close(); }

  /// The whole of it, all compactions on `backend`, or, without one, by the public service.
  void run(const std::shared_ptr<Backend>& backend) {
    const std::uint64_t lives = random_.one_in(3) ? 2 : 1;
    for (std::uint64_t life = 0; life < lives; ++life) {
      if (!open_with(backend)) return;
      compare();
      for (std::uint64_t i = 0; i < operations_ / lives && is_fine(); ++i) act();
      if (is_fine()) end_life();
    }
    if (is_fine()) check_with_programs();
    if (is_fine()) go_on_without();
  }

  /// Operations, one life, without its end.
  void load() {
    for (std::uint64_t i = 0; i < operations_ && is_fine(); ++i) act();
  }

  bool open_with(const std::shared_ptr<Backend>& backend) {
    rocksdb::DBOptions options = options_;
    if (backend == nullptr) {
      const CompactionServiceOptions how{.backend = BackendChoice::kHost, .bytes_min = 0};
      return open_with(&options, public_service(how, &options));
    }
    ServiceOptions how;
    how.decision.device_bytes_min = 1;
    how.running_max = 1 + random_.below(3);
    if (random_.one_in(3)) how.decision.jobs_max = 1 + random_.below(3);
    return open_with(&options, service_on(backend, how, &options));
  }
  bool open_with(rocksdb::DBOptions* options, std::shared_ptr<Service> service) {
    service_ = std::move(service);
    options->compaction_service = service_;
    return open(*options);
  }
  [[nodiscard]] const rocksdb::DBOptions& options() const { return options_; }

  void compare() const {
    for (const auto& [snapshot, model] : snapshots_) compare(snapshot, model);
    compare(nullptr, model_);
  }

  /// Nothing is to do any more, and all of it is whole.
  void end_life() {
    compare();
    release();
    for (auto* const family : handles_) is_ok(db_->Flush({}, family));
    wait_until_quiet();
    compare();
    if (is_fine() && random_.one_in(4)) {
      compact_all();
      wait_until_quiet();
      compare();
    }
    if (!is_fine()) return;
    is_ok(db_->VerifyChecksum());
    check_tables();
    check_service();
    close();
    EXPECT_FALSE(std::filesystem::exists(path() + "/breccia-compaction"));
  }

  void close() {
    if (db_ == nullptr) return;
    release();
    for (auto* const family : handles_) is_ok(db_->DestroyColumnFamilyHandle(family));
    handles_.clear();
    is_ok(db_->Close());
    db_.reset();
  }

  /// RocksDB alone goes on with the files, and rewrites them.
  void go_on_without() {
    service_.reset();
    if (!open(options_)) return;
    compare();
    wait_until_quiet();
    compact_all();
    compare();
    is_ok(db_->VerifyChecksum());
    close();
  }

  [[nodiscard]] Figures figures() const { return service_->figures(); }
  [[nodiscard]] const Figures& last_figures() const { return last_figures_; }
  [[nodiscard]] static bool is_fine() { return !::testing::Test::HasFailure(); }

 private:
  [[nodiscard]] std::string path() const { return folder_ / "db"; }
  static std::string name_of_family(std::size_t family) {
    return family == 0 ? "default" : fmt::format("family{}", family);
  }

  bool open(rocksdb::DBOptions options) {
    begins_ = std::make_shared<Begins>();
    options.listeners.push_back(begins_);
    std::vector<rocksdb::ColumnFamilyDescriptor> families;
    for (std::size_t family = 0; family < model_.size(); ++family) {
      families.emplace_back(name_of_family(family), family_options_[family]);
    }
    rocksdb::DB* db = nullptr;
    if (!is_ok(rocksdb::DB::Open(options, path(), families, &handles_, &db))) return false;
    db_.reset(db);
    return true;
  }

  void release() {
    for (const auto& [snapshot, model] : snapshots_) db_->ReleaseSnapshot(snapshot);
    snapshots_.clear();
  }

  // ---- operations ------------------------------------------------------------------------------

  void act() {
    const std::size_t family = random_.below(model_.size());
    // Rare ones are about as many in each run, however long it is.
    const std::uint64_t what = random_.below(operations_);
    if (what < 6) return take_snapshot();
    if (what < 9) return drop_snapshot();
    if (what < 24) return void(is_ok(db_->Flush({}, handles_[family])));
    if (what < 27) return compact_range(family);
    if (what < 31) return ingest(family);
    if (what < 32) return compare();
    write(family);
  }

  void write(std::size_t family) {
    rocksdb::WriteBatch batch;
    const std::uint64_t count = random_.one_in(8) ? 1 + random_.below(16) : 1;
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::string key = keys_.any(&random_);
      if (random_.one_in(4)) {
        is_ok(batch.Delete(handles_[family], key));
        model_[family].erase(key);
      } else {
        const std::string value = draw_value(&random_, ++written_);
        is_ok(batch.Put(handles_[family], key, value));
        model_[family][key] = value;
      }
    }
    is_ok(db_->Write({}, &batch));
  }

  void take_snapshot() { snapshots_.emplace_back(db_->GetSnapshot(), model_); }

  void drop_snapshot() {
    if (snapshots_.empty()) return;
    const auto at =
        snapshots_.begin() + static_cast<std::ptrdiff_t>(random_.below(snapshots_.size()));
    db_->ReleaseSnapshot(at->first);
    snapshots_.erase(at);
  }

  void compact_range(std::size_t family) {
    rocksdb::CompactRangeOptions how;
    how.exclusive_manual_compaction = random_.one_in(2);
    how.max_subcompactions = static_cast<std::uint32_t>(random_.below(5));
    if (random_.one_in(2)) {
      how.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
    }
    std::string begin = keys_.any(&random_);
    std::string end = keys_.any(&random_);
    if (begin > end) std::swap(begin, end);
    const rocksdb::Slice from(begin);
    const rocksdb::Slice to(end);
    const bool has_bounds = random_.one_in(2);
    is_ok(db_->CompactRange(how, handles_[family], has_bounds ? &from : nullptr,
                            has_bounds ? &to : nullptr));
  }

  void ingest(std::size_t family) {
    // Without this RocksDB 7.8 may merge ingested files within level 0 to one that then, by its
    // sequence numbers, overlaps what the memtable becomes: it calls that a corruption.
    is_ok(db_->Flush({}, handles_[family]));
    const std::string file = folder_ / "ingested.sst";
    const rocksdb::Options options(options_, family_options_[family]);
    rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options, handles_[family]);
    std::map<std::string, std::string> more;
    const std::uint64_t first = random_.below(keys_.count);
    for (std::uint64_t i = 0; i < 50; ++i) {
      more[keys_.at(first + i)] = random_.one_in(5) ? "" : draw_value(&random_, ++written_);
    }
    is_ok(writer.Open(file));
    for (const auto& [key, value] : more) {
      is_ok(value.empty() ? writer.Delete(key) : writer.Put(key, value));
    }
    is_ok(writer.Finish());
    rocksdb::IngestExternalFileOptions how;
    how.move_files = random_.one_in(2);
    how.write_global_seqno = random_.one_in(2);
    if (!is_ok(db_->IngestExternalFile(handles_[family], {file}, how))) return;
    for (const auto& [key, value] : more) {
      if (value.empty()) {
        model_[family].erase(key);
      } else {
        model_[family][key] = value;
      }
    }
    std::filesystem::remove(file);
  }

  void compact_all() {
    rocksdb::CompactRangeOptions how;
    how.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
    for (auto* const family : handles_) is_ok(db_->CompactRange(how, family, nullptr, nullptr));
  }

  // ---- checks ----------------------------------------------------------------------------------

  void compare(const rocksdb::Snapshot* snapshot, const Model& model) const {
    rocksdb::ReadOptions how;
    how.snapshot = snapshot;
    for (std::size_t family = 0; family < model.size() && is_fine(); ++family) {
      const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator(how, handles_[family]));
      auto expected = model[family].begin();
      for (at->SeekToFirst(); at->Valid() && expected != model[family].end(); at->Next()) {
        ASSERT_EQ(at->key().ToString(true), rocksdb::Slice(expected->first).ToString(true));
        ASSERT_TRUE(at->value() == expected->second);
        ++expected;
      }
      ASSERT_TRUE(is_ok(at->status()));
      ASSERT_FALSE(at->Valid()) << at->key().ToString(true) << " is too much";
      ASSERT_TRUE(expected == model[family].end())
          << rocksdb::Slice(expected->first).ToString(true) << " is lost";
      for (std::uint64_t i = 0; i < keys_.count; i += 1 + keys_.count / 400) {
        compare_key(how, family, keys_.at(i), model[family]);
      }
    }
  }

  void compare_key(const rocksdb::ReadOptions& how, std::size_t family, const std::string& key,
                   const std::map<std::string, std::string>& model) const {
    rocksdb::PinnableSlice value;
    const Status status = db_->Get(how, handles_[family], key, &value);
    const auto expected = model.find(key);
    if (expected == model.end()) {
      ASSERT_TRUE(status.IsNotFound()) << status.ToString();
    } else {
      ASSERT_TRUE(is_ok(status));
      ASSERT_TRUE(value == expected->second);
    }
  }

  [[nodiscard]] bool is_pending() const {
    std::uint64_t is_one = 0;
    for (auto* const family : handles_) {
      const bool is_known =
          db_->GetIntProperty(family, rocksdb::DB::Properties::kCompactionPending, &is_one);
      EXPECT_TRUE(is_known);
      if (is_one > 0) return true;
    }
    return false;
  }

  /// Compactions end: RocksDB wants none any more, or, as universal style may say that it wants one
  /// and then find none, begins none for a while.
  void wait_until_quiet() const {
    constexpr std::chrono::seconds kLong{30};
    constexpr std::chrono::milliseconds kStep{5};
    constexpr int kStepsWithout = 20;
    const auto begin = std::chrono::steady_clock::now();
    std::uint64_t begun = ~0ULL;
    for (int without = 0; without == 0 || (is_pending() && without < kStepsWithout);) {
      ASSERT_LT(std::chrono::steady_clock::now() - begin, kLong)
          << begun << " compactions, and no end";
      if (without > 0) std::this_thread::sleep_for(kStep);
      // The first waits for all that is scheduled, the second lets the rest be.
      is_ok(db_->PauseBackgroundWork());
      without = begins_->count == begun ? without + 1 : 0;
      begun = begins_->count;
      is_ok(db_->ContinueBackgroundWork());
    }
  }

  void check_tables() const {
    std::vector<rocksdb::LiveFileMetaData> files;
    db_->GetLiveFilesMetaData(&files);
    for (const auto& file : files) {
      const auto table = sst::Table::open(file.directory + "/" + file.relative_filename);
      ASSERT_TRUE(is_ok(table.status())) << file.relative_filename;
      sst::TableCounts counts;
      ASSERT_TRUE(is_ok(sst::check_table(*table.value(), {}, &counts))) << file.relative_filename;
      EXPECT_TRUE(counts.has_known_order);
      EXPECT_EQ(counts.entries, file.num_entries) << file.relative_filename;
      EXPECT_EQ(counts.deletions, file.num_deletions) << file.relative_filename;
    }
  }

  /// Nothing is kept, and nothing but a choice was left to RocksDB.
  void check_service() {
    EXPECT_EQ(service_->kept_jobs(), 0U);
    last_figures_ = service_->figures();
    for (const auto& [why, count] : last_figures_.left) {
      EXPECT_TRUE(why == decision_reasons::kFull || why == decision_reasons::kSlower)
          << why << ": " << count << ' ' << last_figures_.last_error;
    }
  }

  /// The closed database, seen by RocksDB's own programs.
  void check_with_programs() {
    static const bool has_ldb = can_run("ldb");
    static const bool has_sst_dump = can_run("sst_dump");
    // Always where all seeds run.
    if (testing::share_of(100) < 100 && !random_.one_in(25)) return;
    const auto run = [this](const std::string& words) {
      const std::string out = folder_ / "out";
      const int code =
          std::system(fmt::format("LSAN_OPTIONS= {} >{} 2>&1 </dev/null", words, out).c_str());
      EXPECT_EQ(code, 0) << words;
      EXPECT_NE(std::system(fmt::format("grep -qi 'corrupt' {}", out).c_str()), 0) << words;
    };
    if (has_ldb) run(fmt::format("ldb --db={} checkconsistency", path()));
    if (has_sst_dump) run(fmt::format("sst_dump --command=verify --file={}", path()));
  }

  base::Random random_;
  const std::uint64_t operations_;
  const Keys keys_;
  const Folder folder_;
  const rocksdb::DBOptions options_;
  std::vector<rocksdb::ColumnFamilyOptions> family_options_;
  Model model_;
  std::vector<std::pair<const rocksdb::Snapshot*, Model>> snapshots_;
  std::uint64_t written_ = 0;
  std::shared_ptr<Begins> begins_;
  std::shared_ptr<Service> service_;
  Figures last_figures_;
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> handles_;
};

}  // namespace

// Goal: a database whose compactions the service does holds what was written, at every snapshot, in
//   files that RocksDB, its programs and our own checks find whole, and comes to rest.
// Method: random loads on random options, on the host, each 20th on the simulator, against a map;
//   then RocksDB opens the files alone and rewrites them.
// Mutation: a deletion dropped above older versions; sequence numbers kept at the bottom, which is
//   compacted for ever; an ingested file's keys taken by the sequence numbers that they say.
TEST(CompactionModel, RandomLoads) {
  Figures all;
  const std::vector<std::uint64_t> seeds = testing::seeds_to_run(500);
  for (const std::uint64_t seed : seeds) {
    SCOPED_TRACE(testing::replay_command(seed));
    const bool is_simulated = seed % 20 == 19;
    std::shared_ptr<Backend> backend = host_backend();
    if (is_simulated) backend = backend_on(exec::sim::make_simulator_device(seed));
    if (seed % 4 == 0) backend.reset();
    Trial trial(seed, is_simulated ? 300 : 4000);
    trial.run(backend);
    if (!Trial::is_fine()) return;
    const Figures& figures = trial.last_figures();
    all.offered += figures.offered;
    for (std::size_t place = 0; place < kPlaces; ++place) all.done[place] += figures.done[place];
    all.files_written += figures.files_written;
    all.counts.entries_read += figures.counts.entries_read;
  }
  std::printf("%lu jobs, here %lu and %lu, left %lu; %lu files, %lu entries read\n", all.offered,
              all.done[0], all.done[1], all.done[2], all.files_written, all.counts.entries_read);
  if (seeds.size() < 20) return;
  EXPECT_GT(all.done[0] + all.done[1], all.offered / 4);
}

// Goal: a device that is lost in the middle of a job loses nothing: RocksDB does that job and all
//   that follow.
// Method: loads on a fake device that is lost at a random operation, against std::map.
// Mutation: an error of the device that is told to RocksDB stops the database.
TEST(CompactionModel, LostDevice) {
  std::uint64_t jobs = 0;
  std::uint64_t done = 0;
  std::uint64_t lost = 0;
  const std::vector<std::uint64_t> seeds = testing::seeds_to_run(60);
  for (const std::uint64_t seed : seeds) {
    SCOPED_TRACE(testing::replay_command(seed));
    testing::FakeGpu gpu;
    base::Random random(seed);
    gpu.faults.fail_after(1 + random.below(random.one_in(2) ? 300 : 3000),
                          exec::Fault::kDeviceLost);
    Trial trial(seed, 300);
    rocksdb::DBOptions options = trial.options();
    const CompactionServiceOptions how{
        .device = gpu.number(), .bytes_min = 0, .device_bytes_min = 1};
    if (!trial.open_with(&options, public_service(how, &options))) return;
    trial.load();
    trial.compare();
    const Figures figures = trial.figures();
    for (const auto& [why, count] : figures.left) {
      // An allocation of a lost device is one that fails.
      const bool is_loss = why == failures::kInputOutput || why == failures::kMemory;
      lost += is_loss ? count : 0;
      EXPECT_TRUE(is_loss || why == decision_reasons::kNoDevice || why == decision_reasons::kFull)
          << why << ": " << count << ' ' << figures.last_error;
    }
    jobs += figures.offered;
    done += figures.done[static_cast<std::size_t>(Place::kDevice)];
    trial.close();
    trial.go_on_without();
    if (!Trial::is_fine()) return;
  }
  std::printf("%lu jobs, %lu by devices, %lu at the loss of one\n", jobs, done, lost);
  if (seeds.size() < 20) return;
  EXPECT_GT(lost, 0U);
  EXPECT_GT(done, 0U);
}

}  // namespace breccia::compaction
