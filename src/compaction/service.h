#pragma once

#include <breccia/compaction.h>
#include <rocksdb/db.h>
#include <rocksdb/listener.h>
#include <rocksdb/options.h>
#include <sys/types.h>

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "compaction/context.h"
#include "compaction/decision.h"
#include "compaction/job.h"
#include "compaction/merge_job.h"
#include "exec/device.h"

/// RocksDB's compactions, from its call to its answer:
///
///   1. OnCompactionBegin tells of a job. It is kept.
///   2. StartV2 gives the job's text, on the same thread; of a job in parts, of each part on a
///      thread of its own. What is known of it says whether it may be done here, and where.
///   3. WaitForCompleteV2 waits for a turn, has it done, looks at what came out, and answers.
///   4. RocksDB moves the files to their places.
///   5. OnCompactionCompleted tells of the end, also of jobs that were never offered.
///
/// Whatever goes wrong, the answer is that RocksDB may do the job: each other one would stop the
/// database. No exception leaves.

namespace breccia::compaction {

/// Who does the work.
struct Engine {
  /// Errors  as compaction::merge().
  std::function<Status(const MergeJob& job, Place place, Merged* merged)> merge;
  std::function<bool()> has_device;
};

struct ServiceOptions {
  DecisionOptions decision;
  std::uint64_t running_max = 2;
  std::uint64_t wait_us_max = 30'000'000;
  Declared declared;
};

/// Why a job that had been taken is RocksDB's all the same.
namespace failures {
inline constexpr const char* kUnsupported = "seen in the data: not supported";
inline constexpr const char* kBroken = "seen in the data: broken";
inline constexpr const char* kMemory = "no memory";
inline constexpr const char* kInputOutput = "an error of files or the device";
inline constexpr const char* kDoubtful = "the outcome did not stand the checks";
inline constexpr const char* kFolder = "no folder for the outputs";
inline constexpr const char* kWaited = "waited too long";
inline constexpr const char* kException = "an exception";
}  // namespace failures

struct Figures {
  std::uint64_t offered = 0;                  // jobs and parts of jobs
  std::array<std::uint64_t, kPlaces> done{};  // where; those of kLocal are the ones left
  std::map<std::string, std::uint64_t> left;  // by reason
  MergeCounts counts;
  std::uint64_t files_written = 0;
  std::uint64_t merge_micros = 0;
  std::uint64_t waited_micros = 0;
  std::array<double, kPlaces> pace{};  // see Costs
  std::string last_error;

  /// A line for each of them.
  [[nodiscard]] std::string lines() const;
};

/// Null, or why RocksDB should not have these files: it checks little of it.
/// Shape   `size`: of the inputs.
[[nodiscard]] const char* doubt_of(const MergeJob& job, const JobSize& size, const Merged& merged,
                                   std::uint64_t files_max);

/// Threads any.
class Service final : public rocksdb::CompactionService {
 public:
  Service(ServiceOptions options, Engine engine);
  ~Service() override;

  [[nodiscard]] const char* Name() const override { return kName; }
  rocksdb::CompactionServiceJobStatus StartV2(const rocksdb::CompactionServiceJobInfo& info,
                                              const std::string& input) override;
  rocksdb::CompactionServiceJobStatus WaitForCompleteV2(
      const rocksdb::CompactionServiceJobInfo& info, std::string* result) override;

  /// For the listener.
  void begin(rocksdb::DB* database, const rocksdb::CompactionJobInfo& info) noexcept;
  void complete(rocksdb::DB* database, const rocksdb::CompactionJobInfo& info) noexcept;

  [[nodiscard]] Figures figures() const;
  /// Jobs that are known now; for tests.
  [[nodiscard]] std::size_t kept_jobs() const;

  static constexpr const char* kName = "BrecciaCompactionService";

 private:
  /// What RocksDB hands out at once: a job, or one of its subcompactions.
  struct Task {
    Context context;
    OutcomeFacts outcome;
    Place place = Place::kLocal;
    std::uint64_t files_max = 0;
    double expected_micros = 0;
  };
  struct Job {
    std::shared_ptr<const Begun> begun;
    std::map<std::uint64_t, std::shared_ptr<Task>> tasks = {};  // by RocksDB's number
    std::vector<std::string> folders = {};
    JobSize size = {};
    std::uint64_t offered = 0;
    bool is_measured = false;  // RocksDB does it, and might have been slower or faster
  };
  struct Database {
    std::string session;
    bool is_cleared = false;
    std::string folder = {};  // of this process's outputs; empty: none was made
    std::map<std::uint64_t, Job> jobs = {};
  };
  class Turn;

  std::shared_ptr<const Begun> begun_of(const rocksdb::CompactionServiceJobInfo& info);
  /// Null, or why not.
  const char* start(const rocksdb::CompactionServiceJobInfo& info, const std::string& input);
  const char* take_in(const rocksdb::CompactionServiceJobInfo& info,
                      const std::shared_ptr<Task>& task);
  const char* finish(const rocksdb::CompactionServiceJobInfo& info, std::string* result);
  const char* work(Task* task, std::string* result);
  const char* make_folder(const rocksdb::CompactionServiceJobInfo& info, Task* task);
  std::shared_ptr<Task> take_out(const rocksdb::CompactionServiceJobInfo& info);
  void drop(Job* job);
  void release(const Task& task);
  void note_left(const char* why);
  void note_done(const Task& task, const Merged& merged, std::uint64_t micros);
  const char* note_error(const Status& status);

  const ServiceOptions options_;
  const Engine engine_;
  const pid_t process_;
  mutable std::mutex mutex_;  // guards what follows
  std::map<std::string, Database> databases_;
  Costs costs_;
  Figures figures_;
  std::uint64_t tasks_ = 0;     // taken, and not answered
  double expected_micros_ = 0;  // of those
  std::uint64_t running_ = 0;
  std::uint64_t next_turn_ = 0;
  std::deque<std::uint64_t> turns_;  // who waits
  std::condition_variable turn_;
  TableChoices choices_;
};

/// What NewCompactionService() makes. `device`: what kAuto means, beside cores; null: whatever
/// there is when there is something to merge.
std::shared_ptr<Service> add_service(const CompactionServiceOptions& how,
                                     const exec::DevicePtr& device, rocksdb::DBOptions* options);

/// What tells a service of the jobs of all databases that have it.
class ServiceListener final : public rocksdb::EventListener {
 public:
  explicit ServiceListener(std::shared_ptr<Service> service) : service_(std::move(service)) {}

  // It has no name, as RocksDB would write that into the OPTIONS file.
  void OnCompactionBegin(rocksdb::DB* database, const rocksdb::CompactionJobInfo& info) override {
    service_->begin(database, info);
  }
  void OnCompactionCompleted(rocksdb::DB* database,
                             const rocksdb::CompactionJobInfo& info) override {
    service_->complete(database, info);
  }

 private:
  const std::shared_ptr<Service> service_;
};

}  // namespace breccia::compaction
