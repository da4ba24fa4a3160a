#include "tree/install_gate.h"

#include <algorithm>
#include <chrono>

#include "base/assert.h"

namespace breccia::tree {

namespace {

// RocksDB's threads serve all databases of a process, and it tells of no ends once one is being
// closed: what a thread notes here may be of a database that is gone, until its next compaction.
thread_local bool installing = false;                // see is_installing()
thread_local std::weak_ptr<InstallGate> compacting;  // the gate of this thread's subcompaction

}  // namespace

bool InstallGate::is_installing() { return installing; }

// ---- the two sides -----------------------------------------------------------------------------

/// Hears of compactions before the users do.
class InstallGate::Front final : public rocksdb::EventListener {
 public:
  explicit Front(std::shared_ptr<InstallGate> gate) : gate_(std::move(gate)) {}
  [[nodiscard]] const char* Name() const override { return "breccia.InstallGate.Front"; }
  void OnCompactionBegin(rocksdb::DB*, const rocksdb::CompactionJobInfo&) override {
    installing = false;
    compacting.reset();
    gate_->begin_callback();
  }
  void OnCompactionCompleted(rocksdb::DB*, const rocksdb::CompactionJobInfo& job) override {
    installing = false;
    gate_->end_job(job.job_id);
    gate_->begin_callback();
  }
  void OnSubcompactionBegin(const rocksdb::SubcompactionJobInfo& job) override {
    installing = false;
    compacting = gate_;
    gate_->begin_part(job.job_id);
    gate_->begin_callback();
  }
  void OnSubcompactionCompleted(const rocksdb::SubcompactionJobInfo&) override {
    gate_->begin_callback();
  }
  void OnTableFileCreationStarted(const rocksdb::TableFileCreationBriefInfo&) override {
    gate_->begin_callback();
  }
  void OnTableFileCreated(const rocksdb::TableFileCreationInfo&) override {
    gate_->begin_callback();
  }

 private:
  const std::shared_ptr<InstallGate> gate_;
};

/// Hears of them after the users.
class InstallGate::Back final : public rocksdb::EventListener {
 public:
  explicit Back(std::shared_ptr<InstallGate> gate) : gate_(std::move(gate)) {}
  [[nodiscard]] const char* Name() const override { return "breccia.InstallGate.Back"; }
  void OnCompactionBegin(rocksdb::DB*, const rocksdb::CompactionJobInfo& job) override {
    gate_->end_callback();
    gate_->begin_job(job.job_id);
    installing = true;
  }
  void OnCompactionCompleted(rocksdb::DB*, const rocksdb::CompactionJobInfo&) override {
    gate_->end_callback();
  }
  void OnSubcompactionBegin(const rocksdb::SubcompactionJobInfo&) override {
    gate_->end_callback();
  }
  void OnSubcompactionCompleted(const rocksdb::SubcompactionJobInfo& job) override {
    gate_->end_callback();
    compacting.reset();
    gate_->end_part(job.job_id);
    installing = true;
  }
  void OnTableFileCreationStarted(const rocksdb::TableFileCreationBriefInfo&) override {
    gate_->end_callback();
  }
  void OnTableFileCreated(const rocksdb::TableFileCreationInfo&) override { gate_->end_callback(); }

 private:
  const std::shared_ptr<InstallGate> gate_;
};

InstallGate::EventListeners InstallGate::around(const std::shared_ptr<InstallGate>& gate,
                                                const EventListeners& users) {
  EventListeners all{std::make_shared<Front>(gate)};
  all.insert(all.end(), users.begin(), users.end());
  all.push_back(std::make_shared<Back>(gate));
  return all;
}

/// Tells of what a service does. Without it a compaction would count as one that is being installed
/// from its begin on, and a flush would wait for all of it.
class InstallGate::Service final : public rocksdb::CompactionService {
 public:
  Service(std::shared_ptr<InstallGate> gate, std::shared_ptr<rocksdb::CompactionService> service)
      : gate_(std::move(gate)), service_(std::move(service)) {}
  [[nodiscard]] const char* Name() const override { return service_->Name(); }

  rocksdb::CompactionServiceJobStatus StartV2(const rocksdb::CompactionServiceJobInfo& info,
                                              const std::string& input) override {
    begin(info);
    const auto status = service_->StartV2(info, input);
    if (status != rocksdb::CompactionServiceJobStatus::kSuccess) end(info);
    return status;
  }
  rocksdb::CompactionServiceJobStatus WaitForCompleteV2(
      const rocksdb::CompactionServiceJobInfo& info, std::string* result) override {
    const auto status = service_->WaitForCompleteV2(info, result);
    end(info);
    return status;
  }

 private:
  /// RocksDB's number of the job; behind it stands the subcompaction's.
  static int job_of(const rocksdb::CompactionServiceJobInfo& info) {
    return static_cast<int>(info.job_id >> 32);
  }
  void begin(const rocksdb::CompactionServiceJobInfo& info) {
    installing = false;
    gate_->begin_part(job_of(info));
  }
  void end(const rocksdb::CompactionServiceJobInfo& info) {
    gate_->end_part(job_of(info));
    installing = true;
  }

  const std::shared_ptr<InstallGate> gate_;
  const std::shared_ptr<rocksdb::CompactionService> service_;
};

std::shared_ptr<rocksdb::CompactionService> InstallGate::around(
    const std::shared_ptr<InstallGate>& gate,
    const std::shared_ptr<rocksdb::CompactionService>& service) {
  return service == nullptr ? nullptr : std::make_shared<Service>(gate, service);
}

// ---- compactions -------------------------------------------------------------------------------

void InstallGate::begin_job(int id) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ingests_ == 0; });
  jobs_[id] = Job{};
}

void InstallGate::end_job(int id) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.erase(id);
  }
  changed_.notify_all();
}

void InstallGate::begin_part(int id) {
  {
    const std::lock_guard lock(mutex_);
    Job& job = jobs_.try_emplace(id, Job{0, /*of_call=*/true}).first->second;
    ++job.parts;
  }
  changed_.notify_all();
}

void InstallGate::end_part(int id) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ingests_ == 0; });
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return;  // of a call that has ended without waiting for it
  BRECCIA_ASSERT(found->second.parts > 0);
  --found->second.parts;
  if (found->second.of_call && found->second.parts == 0) jobs_.erase(found);
}

InstallGate::Call::Call(InstallGate* gate) : gate_(gate), was_installing_(installing) {
  std::unique_lock lock(gate_->mutex_);
  gate_->changed_.wait(lock, [&] { return gate_->ingests_ == 0; });
  ++gate_->calls_;
  installing = true;
}

InstallGate::Call::~Call() {
  installing = was_installing_;
  {
    const std::lock_guard lock(gate_->mutex_);
    BRECCIA_ASSERT(gate_->calls_ > 0);
    --gate_->calls_;
    // RocksDB may have stopped to tell of ends.
    if (gate_->calls_ == 0) {
      std::erase_if(gate_->jobs_, [](const auto& job) { return job.second.of_call; });
    }
  }
  gate_->changed_.notify_all();
}

bool InstallGate::is_job_installed() const {
  return std::any_of(jobs_.begin(), jobs_.end(),
                     [](const auto& job) { return !job.second.of_call && job.second.parts == 0; });
}

bool InstallGate::is_call_installed() const {
  return calls_ > std::count_if(jobs_.begin(), jobs_.end(),
                                [](const auto& job) { return job.second.of_call; });
}

// ---- ingests -----------------------------------------------------------------------------------

void InstallGate::begin_ingest(const std::function<bool()>& idle) {
  constexpr auto kLookAgain = std::chrono::milliseconds(100);
  std::unique_lock lock(mutex_);
  ++ingests_;
  const auto may_go = [&] { return !is_job_installed() && !is_call_installed(); };
  while (!changed_.wait_for(lock, kLookAgain, may_go)) {
    if (!is_call_installed() && idle()) return;
  }
}

void InstallGate::end_ingest() {
  {
    const std::lock_guard lock(mutex_);
    BRECCIA_ASSERT(ingests_ > 0);
    --ingests_;
  }
  changed_.notify_all();
}

InstallGate::FileCallback::FileCallback() : gate_(compacting.lock()) {
  if (gate_ != nullptr) gate_->begin_callback();
}

InstallGate::FileCallback::~FileCallback() {
  if (gate_ != nullptr) gate_->end_callback();
}

// ---- flushes -----------------------------------------------------------------------------------

void InstallGate::begin_flush() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return pauses_ == 0 && (level_moves_ == 0 || callbacks_ > 0); });
  ++flushes_;
}

void InstallGate::end_flush() {
  {
    const std::lock_guard lock(mutex_);
    BRECCIA_ASSERT(flushes_ > 0);
    --flushes_;
  }
  changed_.notify_all();
}

void InstallGate::begin_callback() {
  {
    const std::lock_guard lock(mutex_);
    ++callbacks_;
  }
  changed_.notify_all();
}

// A flush that the callback has let through ends before the move of a level can go on.
void InstallGate::end_callback() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return level_moves_ == 0 || flushes_ == 0; });
  BRECCIA_ASSERT(callbacks_ > 0);
  --callbacks_;
}

void InstallGate::keep_out(int* reasons) {
  std::unique_lock lock(mutex_);
  ++*reasons;
  changed_.wait(lock, [&] { return flushes_ == 0; });
}

void InstallGate::let_in(int* reasons) {
  {
    const std::lock_guard lock(mutex_);
    BRECCIA_ASSERT(*reasons > 0);
    --*reasons;
  }
  changed_.notify_all();
}

}  // namespace breccia::tree
