#pragma once

#include <breccia/store.h>

#include <memory>
#include <string>

#include "rocks/commit.h"
#include "rocks/maintenance.h"
#include "rocks/reader.h"
#include "rocks/workers.h"

namespace breccia::rocks {

/// The ordered engine: our log and memtables above a RocksDB tree, batches on a backend.
///
/// A write: room -> place in the log (CommitQueue) -> records copied, run built -> sealed ->
/// committed and published in order. A read: pin a view -> search memtable and runs -> values from
/// the log -> the rest from the tree. docs/impl/rocks.md follows one batch through.
class Engine final : public Store {
 public:
  static Status open(const Options& options, const std::string& path,
                     std::unique_ptr<Store>* store);
  ~Engine() override;

  Status Submit(const WriteOptions& options, Batch* batch) override;
  void SubmitAsync(const WriteOptions& options, Batch* batch,
                   std::function<void(Status)> done) override;
  [[nodiscard]] Batch NewBatch() override;
  Status Put(const WriteOptions& options, const Slice& key, const Slice& value) override;
  Status Delete(const WriteOptions& options, const Slice& key) override;
  Status Get(const Slice& key, std::string* value) override;
  std::vector<Status> MultiGet(std::span<const Slice> keys,
                               std::vector<std::string>* values) override;
  Status SyncLog() override;
  Status Flush() override;
  bool GetProperty(const std::string& name, std::string* value) override;
  [[nodiscard]] RecoveryReport recovery() const override { return recovery_; }

 private:
  Engine() = default;
  Status start(const Options& options, const std::string& path);
  Status choose_backend();
  Status open_log(const std::string& path);
  void start_maintenance();

  Status enter(const batch::Requests& requests, bool as_run, Ticket* ticket);
  Status submit_writes(const WriteOptions& options, batch::Requests* requests,
                       Ticket* ticket) noexcept;
  Status write_one(const WriteOptions& options, wal::Op op, const Slice& key, const Slice& value);
  Status build_run(batch::Requests* requests, Ticket* ticket);
  void submit_reads(const Pin& pin, bool own_writes, std::uint64_t base, batch::Requests* requests);

  Status publish(Ticket& ticket);
  void publish_records(const Ticket& ticket);
  Status publish_run(Ticket& ticket);
  void seal_for_search();
  Status seal_active_locked();
  /// The current view, copied for a change; call with the publish lock held.
  [[nodiscard]] std::shared_ptr<memtable::View> copy_view() const;
  void change_view(const std::function<void(memtable::View*)>& change);
  /// The host takes over from `failed`: what the view holds on the device is built again there.
  Status retire_device(exec::Backend& failed, const Status& why);
  Status leave_device_locked();

  Options options_;
  std::uint64_t reads_min_ = 0;  // requests from which a batch runs on the backend
  std::uint64_t writes_min_ = 0;
  std::unique_ptr<Below> below_;
  std::unique_ptr<BackendSlot> backends_;
  std::unique_ptr<wal::Log> log_;
  Fault fault_;
  ViewState state_;
  wal::SegmentTablePtr publish_table_;  // guarded by the publish lock
  std::uint64_t last_run_end_ = 0;      // guarded by the publish lock
  std::unique_ptr<CommitQueue> commits_;
  std::unique_ptr<Reader> reader_;
  std::unique_ptr<Maintenance> maintenance_;
  std::unique_ptr<Workers> workers_;
  RecoveryReport recovery_;
};

}  // namespace breccia::rocks
