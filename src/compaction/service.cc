#include "compaction/service.h"

#include <breccia/compaction.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <limits>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/clock.h"
#include "base/memory.h"
#include "compaction/backend.h"
#include "exec/choose.h"
#include "exec/device.h"
#include "sst/session.h"

namespace breccia::compaction {

namespace {

using rocksdb::CompactionServiceJobInfo;
using rocksdb::CompactionServiceJobStatus;

constexpr const char* kFolderName = "breccia-compaction";
constexpr std::uint64_t kFilesMax = 1 << 20;  // of a job

std::uint64_t job_of(const CompactionServiceJobInfo& info) { return info.job_id >> 32; }

std::uint64_t thread_micros() {
  timespec now{};
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) != 0) return 0;
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec) / 1000;
}

// ---- names of files ----------------------------------------------------------------------------

/// Where a job's files are: in a folder of the process's, which has numbers for its jobs.
struct Names {
  std::string process;
  std::uint64_t first_number = 0;
};

/// Numbers for `count` tables; no other process has its name, if this one was forked.
Names take_names(std::uint64_t count) {
  static std::mutex mutex;
  static pid_t process = 0;
  static std::string name;
  static std::uint64_t next_number = 1;
  const std::lock_guard lock(mutex);
  if (process != getpid()) {
    name = sst::new_session();
    next_number = 1;
    process = getpid();
  }
  return {name, std::exchange(next_number, next_number + count)};
}

// ---- folders -----------------------------------------------------------------------------------

std::filesystem::path root_of(const std::string& database) {
  return std::filesystem::path(database) / kFolderName;
}

void remove_whole(const std::filesystem::path& folder) noexcept {
  base::as_memory_allows([&] {
    std::error_code error;
    std::filesystem::remove_all(folder, error);
  });
}

/// Removes what other processes have left: one at a time has a database open.
void remove_others(const std::filesystem::path& root, const std::string& process) noexcept {
  base::as_memory_allows([&] {
    std::error_code error;
    std::vector<std::filesystem::path> others;
    for (const auto& entry : std::filesystem::directory_iterator(root, error)) {
      if (entry.path().filename() != process) others.push_back(entry.path());
    }
    for (const auto& other : others) remove_whole(other);
  });
}

/// Removes the folder of a process, and the one around it, if they are empty.
void remove_empty(const std::filesystem::path& session) noexcept {
  base::as_memory_allows([&] {
    std::error_code error;
    if (std::filesystem::remove(session, error)) {
      std::filesystem::remove(session.parent_path(), error);
    }
  });
}

bool is_same_file_system(const std::string& a, const std::string& b) {
  struct stat of_a {};
  struct stat of_b {};
  return stat(a.c_str(), &of_a) == 0 && stat(b.c_str(), &of_b) == 0 && of_a.st_dev == of_b.st_dev;
}

/// A folder that goes, with what is in it, unless it is kept.
class Outputs {
 public:
  explicit Outputs(std::string folder) : folder_(std::move(folder)) {}
  ~Outputs() {
    if (!is_kept_) remove_whole(folder_);
  }
  Outputs(const Outputs&) = delete;
  Outputs& operator=(const Outputs&) = delete;
  void keep() { is_kept_ = true; }

 private:
  const std::string folder_;
  bool is_kept_ = false;
};

// ---- checks ------------------------------------------------------------------------------------

std::string_view user_key(const std::string& key) {
  return std::string_view(key).substr(0, key.size() - sst::kTagBytes);
}

bool is_whole(const MergedFile& file, const std::string& folder) {
  if (file.name.empty() || file.name.find('/') != std::string::npos) return false;
  if (file.smallest.size() < sst::kTagBytes || file.largest.size() < sst::kTagBytes) return false;
  if (user_key(file.smallest) > user_key(file.largest)) return false;
  if (file.smallest_sequence > file.largest_sequence || file.entries == 0) return false;
  std::error_code error;
  return std::filesystem::file_size(folder + "/" + file.name, error) == file.bytes && !error;
}

}  // namespace

const char* doubt_of(const MergeJob& job, const JobSize& size, const Merged& merged,
                     std::uint64_t files_max) {
  const MergeCounts& counts = merged.counts;
  const bool has_bounds = job.begin || job.end;
  if (merged.files.size() > files_max) return failures::kDoubtful;
  if (!has_bounds && counts.entries_read != size.entries) return failures::kDoubtful;
  if (counts.entries_written > counts.entries_read) return failures::kDoubtful;
  // Nothing at all is left only where something was deleted.
  if (counts.entries_read > 0 && merged.files.empty() && counts.deletions_read == 0) {
    return failures::kDoubtful;
  }
  // Several files in level 0 would each want sequence numbers of their own.
  const bool has_one_file = job.file_bytes == std::numeric_limits<std::uint64_t>::max();
  if (has_one_file && merged.files.size() > 1) return failures::kDoubtful;
  std::uint64_t entries = 0;
  for (std::size_t i = 0; i < merged.files.size(); ++i) {
    const MergedFile& file = merged.files[i];
    if (!is_whole(file, job.folder)) return failures::kDoubtful;
    if (i > 0 && user_key(merged.files[i - 1].largest) >= user_key(file.smallest)) {
      return failures::kDoubtful;
    }
    entries += file.entries;
  }
  return entries == counts.entries_written ? nullptr : failures::kDoubtful;
}

std::string Figures::lines() const {
  std::string text;
  const auto add = [&text](std::string_view name, const auto& value) {
    text += fmt::format("{}: {}\n", name, value);
  };
  add("jobs offered", offered);
  for (std::size_t place = 0; place < kPlaces; ++place) {
    add(fmt::format("jobs by {}", name_of(static_cast<Place>(place))), done[place]);
  }
  for (const auto& [why, count] : left) add(fmt::format("left to RocksDB, {}", why), count);
  add("bytes read", counts.bytes_read);
  add("bytes written", counts.bytes_written);
  add("files written", files_written);
  add("entries read", counts.entries_read);
  add("entries written", counts.entries_written);
  add("micros of merges", merge_micros);
  add("micros of waiting", waited_micros);
  for (std::size_t place = 0; place < kPlaces; ++place) {
    add(fmt::format("pace of {}", name_of(static_cast<Place>(place))), pace[place]);
  }
  if (!last_error.empty()) add("last error", last_error);
  return text;
}

// ---- the queue ---------------------------------------------------------------------------------

/// The right to run, after those who came before.
class Service::Turn {
 public:
  explicit Turn(Service& service) : service_(service) {
    std::unique_lock lock(service_.mutex_);
    const std::uint64_t mine = service_.next_turn_++;
    service_.turns_.push_back(mine);
    const auto wait = std::chrono::microseconds(service_.options_.wait_us_max);
    has_it_ = service_.turn_.wait_for(lock, wait, [&] {
      return service_.turns_.front() == mine && service_.running_ < service_.options_.running_max;
    });
    std::erase(service_.turns_, mine);
    if (has_it_) service_.running_ += 1;
    service_.turn_.notify_all();  // who is next may run, too, or waits no longer behind this one
  }
  ~Turn() {
    if (!has_it_) return;
    const std::lock_guard lock(service_.mutex_);
    BRECCIA_ASSERT(service_.running_ > 0);
    service_.running_ -= 1;
    service_.turn_.notify_all();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  [[nodiscard]] bool has_it() const { return has_it_; }

 private:
  Service& service_;
  bool has_it_ = false;
};

void Service::release(const Task& task) {
  BRECCIA_ASSERT(tasks_ > 0);
  tasks_ -= 1;
  expected_micros_ = tasks_ == 0 ? 0 : expected_micros_ - task.expected_micros;
}

// ---- the beginning and the end of a job --------------------------------------------------------

Service::Service(ServiceOptions options, Engine engine)
    : options_(options), engine_(std::move(engine)), process_(getpid()) {
  BRECCIA_ASSERT(options_.running_max > 0);
}

Service::~Service() {
  // Of a forked process's copy the folders are not.
  if (process_ != getpid()) return;
  // Only its own: another service of this process may be at work in the same folder.
  for (auto& [name, database] : databases_) {
    for (auto& [number, job] : database.jobs) drop(&job);
    if (!database.folder.empty()) remove_empty(database.folder);
  }
}

void Service::begin(rocksdb::DB* database, const rocksdb::CompactionJobInfo& info) noexcept {
  try {
    auto begun = std::make_shared<const Begun>(Begun{database, info});
    std::string session;
    (void)database->GetDbSessionId(session);
    const std::lock_guard lock(mutex_);
    Database& known = databases_[database->GetName()];
    if (known.session != session) {
      // Opened again: what was under way is over.
      for (auto& [number, job] : known.jobs) drop(&job);
      known = {.session = session};
      choices_.forget(database->GetName());
    }
    Job& job = known.jobs[static_cast<std::uint64_t>(info.job_id)];
    drop(&job);
    job = {.begun = std::move(begun)};
  } catch (...) {  // without it the job is RocksDB's
  }
}

void Service::complete(rocksdb::DB* database, const rocksdb::CompactionJobInfo& info) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    const auto known = databases_.find(database->GetName());
    if (known == databases_.end()) return;
    auto node = known->second.jobs.extract(static_cast<std::uint64_t>(info.job_id));
    if (node.empty()) return;
    Job& job = node.mapped();
    if (job.is_measured && job.offered == 1 && info.status.ok()) {
      costs_.learn(Place::kLocal, job.size, info.stats.elapsed_micros);
    }
    drop(&job);
    if (!known->second.folder.empty()) remove_empty(known->second.folder);
  } catch (...) {  // what is left goes when the database is opened again
  }
}

/// With the lock.
void Service::drop(Job* job) {
  for (const auto& [number, task] : job->tasks) release(*task);
  job->tasks.clear();
  for (const std::string& folder : job->folders) remove_whole(folder);
  job->folders.clear();
}

// ---- StartV2 -----------------------------------------------------------------------------------

CompactionServiceJobStatus Service::StartV2(const CompactionServiceJobInfo& info,
                                            const std::string& input) {
  const char* why = failures::kException;
  try {
    why = start(info, input);
    if (why == nullptr) return CompactionServiceJobStatus::kSuccess;
  } catch (...) {  // that is what `why` says
  }
  note_left(why);
  return CompactionServiceJobStatus::kUseLocal;
}

const char* Service::start(const CompactionServiceJobInfo& info, const std::string& input) {
  const std::shared_ptr<const Begun> begun = begun_of(info);
  const Result<ServiceJob> job = read_job(input);
  if (begun == nullptr || !job.ok()) {
    return why_not({.has_context = begun != nullptr, .is_well_formed = job.ok()});
  }
  const auto task = std::make_shared<Task>();
  task->context = gather(*begun, job.value(), options_.declared, &choices_);
  if (const char* const why = why_not(task->context.facts)) return why;
  const MergeJob& merge = task->context.job;
  const JobSize& size = task->context.size;
  task->files_max = std::min(kFilesMax, 64 * (2 + size.bytes / merge.file_bytes));
  OutcomeFacts& outcome = task->outcome;
  outcome.output_level = job.value().output_level;
  outcome.database_id = job.value().database_id;
  outcome.input_files = size.files;
  outcome.input_files_at_output_level = task->context.inputs_at_output_level;
  outcome.is_manual = begun->info.compaction_reason == rocksdb::CompactionReason::kManualCompaction;
  return take_in(info, task);
}

std::shared_ptr<const Begun> Service::begun_of(const CompactionServiceJobInfo& info) {
  const std::lock_guard lock(mutex_);
  figures_.offered += 1;
  const auto database = databases_.find(info.db_name);
  if (database == databases_.end() || database->second.session != info.db_session_id) {
    return nullptr;
  }
  const auto job = database->second.jobs.find(job_of(info));
  if (job == database->second.jobs.end()) return nullptr;
  job->second.offered += 1;
  return job->second.begun;
}

const char* Service::take_in(const CompactionServiceJobInfo& info,
                             const std::shared_ptr<Task>& task) {
  Load load;
  load.has_device = engine_.has_device();  // may take its time: without the lock
  const JobSize& size = task->context.size;
  const std::lock_guard lock(mutex_);
  load.running = tasks_;
  // So many run at once that who comes waits for no more than its share of the others.
  load.waiting_micros = tasks_ < options_.running_max
                            ? 0
                            : expected_micros_ / static_cast<double>(options_.running_max);
  Job& job = databases_[info.db_name].jobs[job_of(info)];
  const Decision decision = decide(size, load, costs_, options_.decision);
  if (decision.place == Place::kLocal) {
    job.size = size;
    job.is_measured = decision.why != decision_reasons::kSmall;
    return decision.why;
  }
  task->place = decision.place;
  task->expected_micros = costs_.micros(decision.place, size);
  const bool is_new = job.tasks.emplace(info.job_id, task).second;
  BRECCIA_ASSERT(is_new);
  tasks_ += 1;
  expected_micros_ += task->expected_micros;
  return nullptr;
}

// ---- WaitForCompleteV2 -------------------------------------------------------------------------

CompactionServiceJobStatus Service::WaitForCompleteV2(const CompactionServiceJobInfo& info,
                                                      std::string* result) {
  const char* why = failures::kException;
  try {
    why = finish(info, result);
    if (why == nullptr) return CompactionServiceJobStatus::kSuccess;
  } catch (...) {  // that is what `why` says
  }
  note_left(why);
  return CompactionServiceJobStatus::kUseLocal;
}

std::shared_ptr<Service::Task> Service::take_out(const CompactionServiceJobInfo& info) {
  const std::lock_guard lock(mutex_);
  auto& jobs = databases_[info.db_name].jobs;
  const auto job = jobs.find(job_of(info));
  if (job == jobs.end()) return nullptr;
  auto node = job->second.tasks.extract(info.job_id);
  return node.empty() ? nullptr : std::move(node.mapped());
}

const char* Service::finish(const CompactionServiceJobInfo& info, std::string* result) {
  const std::shared_ptr<Task> task = take_out(info);
  if (task == nullptr) return failures::kException;
  struct Releasing {
    Service& service;
    const Task& task;
    ~Releasing() {
      const std::lock_guard lock(service.mutex_);
      service.release(task);
    }
  } const releasing{*this, *task};
  const base::Stopwatch watch;
  const Turn turn(*this);
  {
    const std::lock_guard lock(mutex_);
    figures_.waited_micros += watch.micros();
  }
  if (!turn.has_it()) return failures::kWaited;
  if (const char* const why = make_folder(info, task.get())) return why;
  Outputs outputs(task->context.job.folder);
  if (const char* const why = work(task.get(), result)) return why;
  outputs.keep();
  return nullptr;
}

const char* Service::make_folder(const CompactionServiceJobInfo& info, Task* task) {
  const Names names = take_names(task->files_max);
  const std::filesystem::path root = root_of(info.db_name);
  const std::filesystem::path folder = root / names.process / std::to_string(names.first_number);
  MergeJob& merge = task->context.job;
  merge.folder = folder.string();
  merge.first_file_number = names.first_number;
  merge.origin.session_id = sst::new_session();
  task->outcome.folder = merge.folder;
  task->outcome.session_id = merge.origin.session_id;
  // With the lock, as folders that are empty go when a job ends.
  const std::lock_guard lock(mutex_);
  Database& database = databases_[info.db_name];
  if (!database.is_cleared) {
    remove_others(root, names.process);
    database.is_cleared = true;
  }
  const auto job = database.jobs.find(job_of(info));
  if (job == database.jobs.end()) return failures::kFolder;
  job->second.folders.push_back(merge.folder);
  database.folder = folder.parent_path().string();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  // RocksDB renames the files, and stops if it cannot.
  const bool is_fit = !error && is_same_file_system(info.db_name, merge.folder);
  return is_fit ? nullptr : failures::kFolder;
}

const char* Service::work(Task* task, std::string* result) {
  MergeJob& merge = task->context.job;
  merge.origin.file_creation_time = static_cast<std::uint64_t>(std::time(nullptr));
  const base::Stopwatch watch;
  const std::uint64_t thread_begin = thread_micros();
  Merged merged;
  const Status status = engine_.merge(merge, task->place, &merged);
  if (!status.ok()) return note_error(status);
  if (const char* const why = doubt_of(merge, task->context.size, merged, task->files_max)) {
    return why;
  }
  task->outcome.elapsed_micros = watch.micros();
  task->outcome.cpu_micros = thread_micros() - thread_begin;
  *result = write_outcome(merged, task->outcome);
  note_done(*task, merged, task->outcome.elapsed_micros);
  return nullptr;
}

// ---- figures -----------------------------------------------------------------------------------

void Service::note_left(const char* why) {
  base::as_memory_allows([&] {
    const std::lock_guard lock(mutex_);
    figures_.done[static_cast<std::size_t>(Place::kLocal)] += 1;
    figures_.left[why] += 1;
  });
}

void Service::note_done(const Task& task, const Merged& merged, std::uint64_t micros) {
  const std::lock_guard lock(mutex_);
  const MergeCounts& more = merged.counts;
  costs_.learn(task.place, task.context.size, micros);
  figures_.done[static_cast<std::size_t>(task.place)] += 1;
  figures_.files_written += merged.files.size();
  figures_.merge_micros += micros;
  MergeCounts& counts = figures_.counts;
  counts.bytes_read += more.bytes_read;
  counts.bytes_written += more.bytes_written;
  counts.entries_read += more.entries_read;
  counts.deletions_read += more.deletions_read;
  counts.key_bytes_read += more.key_bytes_read;
  counts.value_bytes_read += more.value_bytes_read;
  counts.entries_written += more.entries_written;
  counts.deletions_written += more.deletions_written;
}

const char* Service::note_error(const Status& status) {
  {
    const std::lock_guard lock(mutex_);
    figures_.last_error = status.ToString();
  }
  if (status.IsNotSupported()) return failures::kUnsupported;
  if (status.IsCorruption()) return failures::kBroken;
  if (status.IsMemoryLimit()) return failures::kMemory;
  return failures::kInputOutput;
}

Figures Service::figures() const {
  const std::lock_guard lock(mutex_);
  Figures figures = figures_;
  for (std::size_t place = 0; place < kPlaces; ++place) {
    figures.pace[place] = costs_.pace(static_cast<Place>(place));
  }
  return figures;
}

std::size_t Service::kept_jobs() const {
  const std::lock_guard lock(mutex_);
  std::size_t jobs = 0;
  for (const auto& [name, database] : databases_) jobs += database.jobs.size();
  return jobs;
}

// ---- for users ---------------------------------------------------------------------------------

namespace {

/// What runs merges, made when there is something to merge: a GPU takes its time to begin.
class Engines {
 public:
  Engines(CompactionServiceOptions how, exec::DevicePtr device)
      : how_(std::move(how)), given_(std::move(device)) {}

  bool has_device() {
    const std::lock_guard lock(mutex_);
    return open().ok() && device_ != nullptr && !device_->device().is_lost();
  }

  Status merge(const MergeJob& job, Place place, Merged* merged) {
    BRECCIA_ASSERT(place != Place::kLocal);
    std::shared_ptr<Backend> backend;
    {
      const std::lock_guard lock(mutex_);
      BRECCIA_TRY(open());
      backend = place == Place::kDevice ? device_ : host_;
    }
    if (backend == nullptr) return Status::IOError("no backend for a compaction");
    return compaction::merge(job, *backend, merged);
  }

 private:
  /// Errors  what the first call said, if that found nothing.
  Status open() {
    if (is_open_) return base::copy_of(status_);
    is_open_ = true;
    status_ = base::or_memory_limit([this] { return make(); });
    return base::copy_of(status_);
  }

  Result<exec::DevicePtr> choose() const {
    if (given_ != nullptr && how_.backend == BackendChoice::kAuto) return given_;
    StoreOptions options;
    options.backend = how_.backend;
    options.simulator_seed = how_.simulator_seed;
    options.device = how_.device;
    std::string why_none;
    return exec::choose_device(options, &why_none);
  }

  Status make() {
    BRECCIA_TAKE(const exec::DevicePtr device, choose());
    const exec::TenantOptions tenant{
        .name = "compaction", .bytes_max = how_.device_bytes_max, .waits_asleep = true};
    if (!device->is_host()) {
      BRECCIA_TAKE(device_, make_backend(device, tenant));
      if (how_.backend != BackendChoice::kAuto) return Status::OK();
    }
    BRECCIA_TAKE(const exec::DevicePtr host, exec::open_device(exec::DeviceKind::kHost, 0));
    BRECCIA_TAKE(host_, make_backend(host, {.name = "compaction"}));
    return Status::OK();
  }

  const CompactionServiceOptions how_;
  const exec::DevicePtr given_;
  std::mutex mutex_;
  bool is_open_ = false;
  Status status_;
  std::shared_ptr<Backend> device_;
  std::shared_ptr<Backend> host_;
};

}  // namespace

std::shared_ptr<Service> add_service(const CompactionServiceOptions& how,
                                     const exec::DevicePtr& device, rocksdb::DBOptions* options) {
  BRECCIA_ASSERT(options != nullptr);
  ServiceOptions service;
  service.decision.bytes_min = how.bytes_min;
  service.decision.jobs_max = std::max<std::uint64_t>(how.jobs_max, 1);
  service.decision.device_files_min = how.device_files_min;
  service.decision.device_bytes_min = how.device_bytes_min;
  service.decision.may_use_host =
      how.backend == BackendChoice::kAuto || how.backend == BackendChoice::kHost;
  service.decision.weighs_rocksdb = how.backend == BackendChoice::kAuto;
  service.running_max = std::max<std::uint64_t>(how.running_max, 1);
  service.wait_us_max = how.wait_us_max;
  service.declared.has_file_manager = options->sst_file_manager != nullptr;
  service.declared.has_only_committed = how.has_only_committed;
  const auto engines = std::make_shared<Engines>(how, device);
  Engine engine;
  engine.merge = [engines](const MergeJob& job, Place place, Merged* merged) {
    return engines->merge(job, place, merged);
  };
  engine.has_device = [engines] { return engines->has_device(); };
  const auto made = std::make_shared<Service>(service, std::move(engine));
  options->listeners.push_back(std::make_shared<ServiceListener>(made));
  return made;
}

}  // namespace breccia::compaction

namespace breccia {

std::shared_ptr<rocksdb::CompactionService> NewCompactionService(
    rocksdb::DBOptions* options, const CompactionServiceOptions& how) {
  return compaction::add_service(how, nullptr, options);
}

std::string CompactionServiceReport(const rocksdb::CompactionService& service) {
  const auto* const ours = dynamic_cast<const compaction::Service*>(&service);
  return ours == nullptr ? std::string() : ours->figures().lines();
}

}  // namespace breccia
