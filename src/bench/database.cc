#include "bench/database.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <rocksdb/db.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "base/assert.h"
#include "base/cached_bytes.h"
#include "console/console.h"
#include "tree/whole_page_env.h"

namespace breccia::bench {

namespace {

namespace fs = std::filesystem;

struct NamedState {
  State state;
  const char* name;
};

constexpr std::array<NamedState, 4> kStates = {{{State::kMemtable, "memtable"},
                                                {State::kClean, "clean"},
                                                {State::kTreeWarm, "tree-warm"},
                                                {State::kTreeCold, "tree-cold"}}};

// A tree that still compacts after so long is measured as it is.
constexpr std::chrono::seconds kSettleMax{60};
constexpr std::chrono::milliseconds kSettleLook{20};
constexpr int kSettledLooks = 5;  // one behind the other at which there was nothing to wait for
constexpr std::uint32_t kWarmBatch = 4096;

const NamedState* find_state(std::string_view name) {
  return std::find_if(kStates.begin(), kStates.end(),
                      [&](const NamedState& one) { return name == one.name; });
}

Status file_error(const char* what, const std::string& file) {
  return Status::IOError(fmt::format("{} {}: {}", what, file, std::strerror(errno)));
}

/// Has the system forget what this process has mapped of a file: it would stay cached.
void forget_mapped(const std::string& name) {
  std::error_code error;
  const std::string path = " " + fs::canonical(name, error).string();
  if (error) return;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (!line.ends_with(path)) continue;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) != 2) continue;
    // By now something else may be mapped there, of which this loses nothing.
    (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_PAGEOUT);
  }
}

Status drop_cached(const std::string& name, base::CachedBytes* bytes) {
  const int file = ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0 && errno == ENOENT) return Status();  // compacted since the folder was listed
  if (file < 0) return file_error("open", name);
  // Pages that wait to be written cannot be dropped.
  Status status = fdatasync(file) == 0 ? Status() : file_error("sync", name);
  if (status.ok()) {
    forget_mapped(name);
    (void)posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    status = base::count_cached(file, name, bytes);
  }
  ::close(file);
  return status;
}

}  // namespace

bool is_state(std::string_view name) { return find_state(name) != kStates.end(); }

State state_of(std::string_view name) {
  BRECCIA_ASSERT(is_state(name));
  return find_state(name)->state;
}

const char* state_name(State state) { return kStates.at(static_cast<std::size_t>(state)).name; }

Status Database::open() {
  engine_.reset();  // the folder is one engine's at a time
  BRECCIA_TAKE(engine_, open_engine(config_, place_));
  return Status();
}

Status Database::open_for(const RocksdbTuning& tuning) {
  const auto is_vector = [](const RocksdbTuning& one) { return one.loading == Loading::kVector; };
  const bool same = is_vector(config_.rocksdb) == is_vector(tuning);
  config_.rocksdb = tuning;
  if (!same) return open();
  engine_->retune(tuning);
  return Status();
}

Status Database::flush() {
  BRECCIA_TRY(engine_->flush());
  in_tree_ = true;
  warm_ = false;
  return Status();
}

namespace {

/// RocksDB's, of all families, as none may be left out.
Status compact_tree(const rocksdb::Options& options, const std::string& folder) {
  std::vector<std::string> names;
  BRECCIA_TRY(rocksdb::DB::ListColumnFamilies(options, folder, &names));
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (const std::string& name : names) families.emplace_back(name, options);
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* opened = nullptr;
  BRECCIA_TRY(rocksdb::DB::Open(options, folder, families, &handles, &opened));
  const std::unique_ptr<rocksdb::DB> database(opened);
  rocksdb::CompactRangeOptions whole;
  whole.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForceOptimized;
  whole.max_subcompactions = std::max(1U, std::thread::hardware_concurrency());
  const Status status = database->CompactRange(whole, nullptr, nullptr);
  for (rocksdb::ColumnFamilyHandle* const handle : handles) {
    BRECCIA_TRY(database->DestroyColumnFamilyHandle(handle));
  }
  BRECCIA_TRY(status);
  return database->Close();
}

}  // namespace

Status Database::compact() {
  if (config_.engine != "breccia" && config_.engine != "rocksdb") {
    return Status::InvalidArgument(config_.engine + " has no tree to compact");
  }
  BRECCIA_TRY(flush());
  settle();
  engine_.reset();
  rocksdb::Options options = rocksdb_options(config_);
  options.create_if_missing = false;
  // As a store with such files writes them.
  const bool are_mapped = config_.engine == "breccia" && config_.residency_bytes > 0;
  if (are_mapped) options.env = tree::whole_page_env(options.env);
  BRECCIA_TRY(compact_tree(options, place_.db));
  return open();
}

Status Database::bring_into(State state, const Step& step) {
  if (state == State::kMemtable || !engine_->keeps()) return Status();
  if (state == State::kClean && !in_tree_) return keep_clean();
  if (state == State::kClean) {
    if (config_.clean_bytes == clean_bytes_) return Status();
    return Status::InvalidArgument("nothing is clean behind a state of the tree",
                                   "write in between, or begin with the state clean");
  }
  if (state == State::kTreeWarm && warm_) return Status();
  if (!in_tree_) BRECCIA_TRY(flush());
  settle();
  config_.clean_bytes = 0;  // an opened store takes back what its log still has
  BRECCIA_TRY(open());
  settle();  // opening may begin a compaction
  if (state == State::kTreeWarm) return warm(step);
  BRECCIA_TAKE(const double cached, drop_cached_tables(place_.db));
  if (cached > 0) {
    console::say(
        fmt::format("warning: the system keeps {:.0f} % of the SST files cached", 100 * cached));
  }
  return Status();
}

/// Flushes into an engine that keeps what it has flushed.
Status Database::keep_clean() {
  if (config_.clean_bytes != clean_bytes_) {
    config_.clean_bytes = clean_bytes_;
    BRECCIA_TRY(open());
  }
  BRECCIA_TRY(flush());
  settle();
  return Status();
}

// Waits until the tree compacts no more, which would take the cores, and the cache, from the reads;
// and until keys of its files are where they are to be.
void Database::settle() {
  const auto end = std::chrono::steady_clock::now() + kSettleMax;
  const auto is_busy = [&] {
    return (!config_.no_compactions && engine_->compacts()) || engine_->loads();
  };
  // Behind a compaction nobody has looked at its files yet: once is not enough.
  int quiet = 0;
  while (quiet < kSettledLooks && std::chrono::steady_clock::now() < end) {
    quiet = is_busy() ? 0 : quiet + 1;
    std::this_thread::sleep_for(kSettleLook);
  }
}

Status Database::warm(const Step& step) {
  BRECCIA_ASSERT(step.reads);
  DriverConfig config = step.warming_driver;
  config.batch_size = kWarmBatch;
  DriverOutcome outcome;
  drive(engine_.get(), config, step.warming, /*live=*/{}, &outcome);
  warm_ = outcome.status.ok();
  return outcome.status;
}

Result<double> drop_cached_tables(const std::string& folder) {
  base::CachedBytes bytes;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() != ".sst") continue;
    BRECCIA_TRY(drop_cached(entry->path().string(), &bytes));
  }
  if (error) return Status::IOError(fmt::format("list {}: {}", folder, error.message()));
  return bytes.share();
}

}  // namespace breccia::bench
