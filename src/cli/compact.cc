#include <breccia/compaction.h>
#include <breccia/merge_operators.h>
#include <fmt/format.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/listener.h>
#include <rocksdb/statistics.h>
#include <rocksdb/utilities/options_util.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cli/commands.h"
#include "cli/db/estimate.h"
#include "compaction/service.h"
#include "console/console.h"
#include "console/exit_codes.h"
#include "console/store_flags.h"
#include "exec/choose.h"
#include "facade/db/options.h"

namespace breccia::cli {

namespace {

struct CompactFlags {
  std::string db;
  std::string backend = "auto";
  int device = 0;
  std::uint64_t jobs = 1;
  std::vector<std::string> families;
  bool progress = false;
};

// ---- what was done -----------------------------------------------------------------------------

struct Done {
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_written = 0;
  std::uint64_t entries_read = 0;
  std::uint64_t entries_written = 0;
  std::uint64_t local_bytes = 0;  // of RocksDB's counter, when the last compaction ended
};

/// Counts the compactions that ended, whoever did them. It has no name: one with a name would be
/// written into the database's OPTIONS file.
class Tally final : public rocksdb::EventListener {
 public:
  explicit Tally(std::shared_ptr<rocksdb::Statistics> counters) : counters_(std::move(counters)) {}

  void OnCompactionCompleted(rocksdb::DB* /*database*/,
                             const rocksdb::CompactionJobInfo& info) override {
    if (!info.status.ok()) return;
    const std::lock_guard lock(mutex_);
    done_.bytes_read += info.stats.total_input_bytes;
    done_.bytes_written += info.stats.total_output_bytes;
    done_.entries_read += info.stats.num_input_records;
    done_.entries_written += info.stats.num_output_records;
    done_.local_bytes = local_bytes();
  }

  [[nodiscard]] Done done() const {
    const std::lock_guard lock(mutex_);
    return done_;
  }
  /// What RocksDB's own compactions have read so far.
  [[nodiscard]] std::uint64_t local_bytes() const {
    return counters_->getTickerCount(rocksdb::COMPACT_READ_BYTES);
  }

 private:
  const std::shared_ptr<rocksdb::Statistics> counters_;
  mutable std::mutex mutex_;
  Done done_;
};

double processor_seconds() {
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// ---- progress ----------------------------------------------------------------------------------

/// Bytes that compacting all of a family reads, roughly: what is in a level goes through all
/// levels below it that are in use.
std::uint64_t bytes_to_read(rocksdb::DB* database, rocksdb::ColumnFamilyHandle* family) {
  rocksdb::ColumnFamilyMetaData files;
  database->GetColumnFamilyMetaData(family, &files);
  if (database->GetOptions(family).compaction_style != rocksdb::kCompactionStyleLevel) {
    return files.size;
  }
  std::uint64_t above = 0;
  std::uint64_t total = 0;
  for (const rocksdb::LevelMetaData& level : files.levels) {
    if (level.size == 0) continue;
    if (above > 0) total += above + level.size;
    above += level.size;
  }
  return total == 0 ? above : total;
}

/// A bar on stderr while it lives.
class Bar {
 public:
  Bar(bool on, std::string folder, const Tally& tally, std::uint64_t total)
      : folder_(std::move(folder)), tally_(tally), total_(total), line_(on) {
    if (on) thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
  Bar(const Bar&) = delete;
  Bar& operator=(const Bar&) = delete;
  ~Bar() {
    if (!thread_.joinable()) return;
    thread_.request_stop();
    thread_.join();
  }

 private:
  void run(const std::stop_token& stop) {
    constexpr auto kPeriod = std::chrono::milliseconds(200);
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, stop, kPeriod, [&] { return stop.stop_requested(); })) {
      if (line_.due()) show();
    }
  }

  void show() {
    const Done ended = tally_.done();
    const std::uint64_t local = tally_.local_bytes();
    // Of what is under way: what RocksDB has read, and what the plug-in has written.
    const std::uint64_t under_way =
        (local - std::min(local, ended.local_bytes)) + db::folder_bytes(folder_);
    done_ = std::clamp(ended.bytes_read + under_way, done_, std::max(done_, total_));
    const double part =
        static_cast<double>(done_) / static_cast<double>(std::max<std::uint64_t>(total_, 1));
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin_;
    constexpr std::size_t kWidth = 24;
    const auto filled = static_cast<std::size_t>(part * kWidth);
    std::string line = fmt::format(
        "[{}{}] {:.0f} % of {}, {}/s", std::string(filled, '#'), std::string(kWidth - filled, '.'),
        100 * part, console::human_bytes(static_cast<double>(total_)),
        console::human_bytes(static_cast<double>(done_) / elapsed.count()));
    if (part > 0) {
      line += fmt::format(", {} left", console::human_seconds(elapsed.count() * (1 - part) / part));
    }
    line_.show(line);
  }

  const std::string folder_;
  const Tally& tally_;
  const std::uint64_t total_;
  console::ProgressLine line_;
  std::uint64_t done_ = 0;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;  // last: it uses all of the above
};

// ---- the database ------------------------------------------------------------------------------

/// A database that is open, with the service.
struct Opened {
  std::shared_ptr<rocksdb::CompactionService> service;
  std::shared_ptr<Tally> tally;
  std::vector<rocksdb::ColumnFamilyHandle*> families;
  std::unique_ptr<rocksdb::DB> database;

  Opened() = default;
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  ~Opened() {
    for (rocksdb::ColumnFamilyHandle* const family : families) {
      database->DestroyColumnFamilyHandle(family).PermitUncheckedError();
    }
  }
};

/// Words about what cannot be opened: what went wrong, and what to do next.
struct Refusal {
  Status status;
  std::string next;
};

/// The options of the database's last opening. What cannot be made by its name is an error: without
/// it compactions would do something else, and the database's OPTIONS file would forget it.
Refusal load(const CompactFlags& flags, rocksdb::DBOptions* options,
             facade::Descriptors* families) {
  std::error_code ignored;
  if (!std::filesystem::exists(flags.db + "/CURRENT", ignored)) {
    return {Status::NotFound("there is no RocksDB database"), "check --db"};
  }
  if (facade::is_store({}, flags.db)) {
    return {Status::NotSupported("it is a store of breccia's, which has a log of its own"),
            fmt::format("`breccia detach --db={}` makes it a RocksDB database; the program that "
                        "opens it makes it a store again",
                        flags.db)};
  }
  RegisterMergeOperators();
  rocksdb::ConfigOptions config;
  config.ignore_unknown_options = true;
  config.ignore_unsupported_options = false;
  Status status = rocksdb::LoadLatestOptions(config, flags.db, options, families);
  if (status.ok()) return {};
  if (status.IsNotFound() || status.IsPathNotFound()) {
    return {status, "its OPTIONS file is missing: open it once with its own program"};
  }
  return {status,
          "compact it with its own program, under libbreccia_preload.so with BRECCIA_COMPACTION=1"};
}

Refusal open(const CompactFlags& flags, Opened* opened) {
  rocksdb::DBOptions options;
  facade::Descriptors families;
  Refusal refusal = load(flags, &options, &families);
  if (!refusal.status.ok()) return refusal;
  CompactionServiceOptions how;
  how.backend = console::backend_choice(flags.backend);
  how.device = flags.device;
  how.running_max = flags.jobs;
  how.jobs_max = std::max(how.jobs_max, flags.jobs);
  if (how.backend == BackendChoice::kCuda) {
    how.device_files_min = 1;  // all of them, whatever is expected to be faster
    StoreOptions wanted;
    wanted.backend = how.backend;
    wanted.device = how.device;
    std::string why_none;
    const auto device = exec::choose_device(wanted, &why_none);
    if (!device.ok()) return {device.status(), "use --backend=auto or --backend=host"};
  }
  options.create_if_missing = options.error_if_exists = false;
  options.statistics = rocksdb::CreateDBStatistics();
  opened->tally = std::make_shared<Tally>(options.statistics);
  options.listeners.push_back(opened->tally);
  opened->service = NewCompactionService(&options, how);
  options.compaction_service = opened->service;
  rocksdb::DB* database = nullptr;
  Status status = rocksdb::DB::Open(options, flags.db, families, &opened->families, &database);
  opened->database.reset(database);
  const char* const next = status.IsIOError()
                               ? "close the program that has it open; `breccia doctor --db`"
                               : "open it with its own program; `ldb checkconsistency --db`";
  return {status, status.ok() ? "" : next};
}

/// The families to compact; none, with words on stderr, if one of those named is not there.
std::vector<rocksdb::ColumnFamilyHandle*> chosen(const CompactFlags& flags, const Opened& opened) {
  if (flags.families.empty()) return opened.families;
  std::vector<rocksdb::ColumnFamilyHandle*> found;
  for (const std::string& name : flags.families) {
    std::string names;
    const std::size_t before = found.size();
    for (rocksdb::ColumnFamilyHandle* const family : opened.families) {
      names += (names.empty() ? "" : ", ") + family->GetName();
      const bool is_new = std::find(found.begin(), found.end(), family) == found.end();
      if (family->GetName() == name && is_new) found.push_back(family);
    }
    const bool is_repeated = std::any_of(found.begin(), found.end(),
                                         [&](auto* family) { return family->GetName() == name; });
    if (found.size() > before || is_repeated) continue;
    console::say(fmt::format("error: there is no column family `{}`; there are: {}", name, names));
    return {};
  }
  return found;
}

// ---- the command -------------------------------------------------------------------------------

Status compact(const CompactFlags& flags, const Opened& opened,
               const std::vector<rocksdb::ColumnFamilyHandle*>& families) {
  std::uint64_t total = 0;
  for (auto* const family : families) total += bytes_to_read(opened.database.get(), family);
  // Where breccia/compaction.h says that files are while a compaction runs.
  const Bar bar(flags.progress || console::stderr_is_terminal(), flags.db + "/breccia-compaction",
                *opened.tally, total);
  rocksdb::CompactRangeOptions options;
  options.exclusive_manual_compaction = true;
  // Every file is written anew, but none that this very call has written.
  options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForceOptimized;
  options.max_subcompactions = static_cast<std::uint32_t>(flags.jobs);
  for (auto* const family : families) {
    BRECCIA_TRY(opened.database->CompactRange(options, family, nullptr, nullptr));
  }
  return Status::OK();
}

void print_summary(const Opened& opened, std::size_t families, double seconds, double processor) {
  const Done done = opened.tally->done();
  const auto bytes_read = static_cast<double>(done.bytes_read);
  const double rate = seconds > 0 ? bytes_read / seconds / 1e6 : 0;
  fmt::print("column families: {}\n", families);
  fmt::print("bytes: {} in, {} out\n", console::human_bytes(bytes_read),
             console::human_bytes(static_cast<double>(done.bytes_written)));
  fmt::print(
      "entries: {} in, {} out, {} dropped\n", console::with_commas(done.entries_read),
      console::with_commas(done.entries_written),
      console::with_commas(done.entries_read - std::min(done.entries_read, done.entries_written)));
  fmt::print("time: {:.2f} s, {:.1f} MB/s; processors: {:.2f} s\n", seconds, rate, processor);
  const auto* const service = dynamic_cast<const compaction::Service*>(opened.service.get());
  if (service == nullptr) return;
  const compaction::Figures figures = service->figures();
  const auto jobs = [&](compaction::Place place) {
    return figures.done[static_cast<std::size_t>(place)];
  };
  fmt::print("jobs: {} on the device, {} on the host, {} left to RocksDB\n",
             jobs(compaction::Place::kDevice), jobs(compaction::Place::kHost),
             jobs(compaction::Place::kLocal));
  for (const auto& [why, count] : figures.left) {
    fmt::print("left to RocksDB, {}: {}\n", why, count);
  }
  if (!figures.last_error.empty()) console::say("last error: " + figures.last_error);
}

int run_compact(const CompactFlags& flags) {
  Opened opened;
  const Refusal refusal = open(flags, &opened);
  if (!refusal.status.ok()) {
    console::say_error(fmt::format("cannot compact {}", flags.db), refusal.status, refusal.next);
    return console::kExitFailed;
  }
  const auto families = chosen(flags, opened);
  if (families.empty()) return console::kExitUsage;
  const double processor = processor_seconds();
  const auto begin = std::chrono::steady_clock::now();
  const Status status = compact(flags, opened, families);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  if (!status.ok()) {
    console::say_error(fmt::format("compacting {} has failed", flags.db), status,
                       "nothing is lost; `breccia sst check` finds files that are damaged");
    return console::kExitFailed;
  }
  print_summary(opened, families.size(), elapsed.count(), processor_seconds() - processor);
  return console::kExitOk;
}

}  // namespace

console::Command add_compact(console::App* parent) {
  auto flags = std::make_shared<CompactFlags>();
  console::App* app = parent->add_subcommand(
      "compact", "Compact all of a RocksDB database that no program has open");
  app->add_option("--db", flags->db, "Folder of the database")->required();
  app->add_option("--backend", flags->backend, "Where compactions run: auto, host or cuda")
      ->one_of({"auto", "host", "cuda"})
      ->capture_default_str();
  app->add_option("--device", flags->device, "Which GPU, by CUDA's number")->capture_default_str();
  app->add_option("--family", flags->families,
                  "Name of a column family, may be repeated; default: all")
      ->expected(1, 1)
      ->take_all();
  constexpr std::uint64_t kJobsMax = 64;
  app->add_option("--jobs", flags->jobs, "Parts of a compaction that run at once")
      ->range(1, kJobsMax)
      ->capture_default_str();
  app->add_flag("--progress", flags->progress, "Report once a second, even if not to a terminal");
  app->footer(
      "Options are those of the database's last opening, from its OPTIONS file. Compactions that\n"
      "this program cannot do RocksDB does; the last lines say how many, and why.\n"
      "Examples:\n"
      "  breccia compact --db=DIR\n"
      "  breccia compact --db=DIR --backend=cuda --device=1\n"
      "  breccia compact --db=DIR --family=users --family=orders --jobs=4");
  return {app, [flags] { return run_compact(*flags); }};
}

}  // namespace breccia::cli
