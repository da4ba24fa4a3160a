#pragma once

#include <breccia/options.h>
#include <breccia/store.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cache/device_tags.h"
#include "cache/row_cache.h"
#include "ordered/background/flusher.h"
#include "ordered/background/merger.h"
#include "ordered/background/room.h"
#include "ordered/figures.h"
#include "ordered/listeners.h"
#include "ordered/read/history.h"
#include "ordered/read/range.h"
#include "ordered/read/read_set.h"
#include "ordered/read/reader.h"
#include "ordered/write/async_queue.h"
#include "ordered/write/publisher.h"
#include "ordered/write/ticket.h"
#include "ordered/write/update.h"
#include "wal/changes.h"
#include "wal/commit_queue.h"

namespace breccia::ordered {

/// The ordered engine: our log and memtables above a RocksDB tree, batches on a backend.
///
/// A write: room -> place in the log (wal::CommitQueue) -> records copied, runs built -> sealed ->
/// committed and published in order. A read: pin a view -> search memtable and runs -> values from
/// the log -> the rest from the tree. docs/ARCHITECTURE.md follows requests through.
///
/// Threads any.
class Engine final : public Store {
 public:
  static Status open(const Options& options, const std::string& path,
                     std::unique_ptr<Engine>* engine);
  ~Engine() override;

  Status Close() override;
  Status Submit(const WriteOptions& options, Batch* batch) override;
  [[nodiscard]] std::unique_ptr<Transaction> OpenTransaction() override;
  void SubmitAsync(const WriteOptions& options, Batch* batch,
                   std::function<void(Status)> done) override;
  [[nodiscard]] Batch NewBatch() override;
  Status Put(const WriteOptions& options, const Slice& key, const Slice& value) override;
  Status Delete(const WriteOptions& options, const Slice& key) override;
  Status Merge(const WriteOptions& options, const Slice& key, const Slice& operand) override;
  Status Get(const Slice& key, std::string* value) override;
  std::vector<Status> MultiGet(std::span<const Slice> keys,
                               std::vector<std::string>* values) override;
  Status CreateFamily(const std::string& name, FamilyId* family) override;
  Status DropFamily(FamilyId family) override;
  [[nodiscard]] std::vector<std::pair<std::string, FamilyId>> Families() const override;
  Status Changes(std::uint64_t from, const ChangesOptions& options,
                 std::unique_ptr<ChangeStream>* stream) override;
  [[nodiscard]] std::uint64_t Position() const override { return state_.visible(); }
  Status SyncLog() override;
  Status Flush() override { return flush(/*waits_for_tree=*/true); }
  bool GetProperty(const std::string& name, std::string* value) override;
  [[nodiscard]] RecoveryReport recovery() const override { return recovery_; }

  // ---- for the layers above ----

  /// What is visible now. Holding it keeps memtables, log segments and files in place.
  [[nodiscard]] Pin pin() const { return state_.pin(); }

  /// Submit, if nothing of `validated` was written since.
  /// Errors  also those of Validator::validate: nothing was done.
  Status submit_validated(const WriteOptions& options, const ReadSet& validated,
                          batch::Requests* requests);
  /// Writes the requests' writes, all or none, if nothing of `reads` was written since; they come
  /// right behind that check. Without writes, only the check.
  /// Errors  as Submit; InvalidArgument also for a family that is not there; those of
  ///         Validator::validate: nothing was written.
  Status commit(const WriteOptions& options, const ReadSet& reads, batch::Requests* requests);
  /// Whether anything of `reads` was written since, as of now.
  /// Errors  those of Validator::validate.
  [[nodiscard]] Status check(const ReadSet& reads) const {
    return validator_->validate(state_.pin(), reads, reads_min_);
  }
  /// Keeps what these need for read sets whose positions are `since` or later.
  [[nodiscard]] History::Hold hold(std::uint64_t since) { return {history_, since}; }
  /// One write.
  Status write_one(const WriteOptions& options, record::Op op, FamilyId family, const Slice& key,
                   const Slice& value);

  /// `from_tree`: whether the answer needed the tree; may be null.
  /// Errors  InvalidArgument: no such family in the pin; those of read_version.
  Status get(const Pin& pin, FamilyId family, const Slice& key, rocksdb::PinnableSlice* value,
             bool* from_tree) const;
  /// The reads of `requests` as of `pin`.
  /// Errors  InvalidArgument: a family is not in the pin; MemoryLimit.
  Status read(const Pin& pin, batch::Requests* requests);

  /// An iterator over `family` as of `pin`, which it holds. `options`: bounds, fill_cache and what
  /// else concerns the tree; its snapshot is not looked at. `repin` as for make_iterator.
  /// Errors  InvalidArgument, in its status.
  [[nodiscard]] std::unique_ptr<rocksdb::Iterator> iterate(const rocksdb::ReadOptions& options,
                                                           FamilyId family, const Pin& pin,
                                                           std::function<Pin()> repin) const;

  /// Errors  InvalidArgument: there is one of that name; IOError.
  Result<tree::TreeFamily> create_family(const std::string& name,
                                         const rocksdb::ColumnFamilyOptions& options);
  /// The same with the data of exported files, which is seen after refresh_tree().
  /// Errors  also those about the files.
  Result<tree::TreeFamily> import_family(const std::string& name,
                                         const rocksdb::ColumnFamilyOptions& options,
                                         const rocksdb::ImportColumnFamilyOptions& how,
                                         const rocksdb::ExportImportFilesMetaData& files);
  /// The family takes no writes any more; its data goes with the last view that holds it. The next
  /// flush takes it out of the current one: who wants to go on reading pins a view in
  /// `about_to_drop`, which is called once it is known that the family is there.
  /// Errors  InvalidArgument: the default family, or not there; IOError.
  Status drop_family(FamilyId family, const std::function<void()>& about_to_drop);
  /// Forgets a dropped family: nobody has a handle to it.
  void forget_family(FamilyId family);
  /// Flush(), whether the tree is overloaded with files or not: see Maintenance::flush.
  Status flush(bool waits_for_tree);
  /// Lets lookups see what somebody brought into the tree (ingested files, imports).
  /// Shape   memtables held nothing of it: flush first, and write nothing in between.
  void refresh_tree();
  /// Forgets what is cached of the tree: somebody took a file out of it.
  void forget_cached();
  /// Caches nothing of the tree any more: somebody changes it past the engine.
  void stop_caching();

  /// What change streams read from.
  [[nodiscard]] wal::ChangeSource change_source() { return {log_.get(), commits_.get()}; }
  [[nodiscard]] Figures figures() const;
  [[nodiscard]] Listeners& listeners() const { return *listeners_; }
  [[nodiscard]] tree::Tree& below() { return *below_; }
  [[nodiscard]] const Options& options() const { return options_; }

 private:
  Engine() = default;
  /// Errors  ShutdownInProgress: after Close().
  [[nodiscard]] Status check_open() const;
  void log_statistics() const;
  Status start(const Options& options, const std::string& path);
  Status choose_backend();
  wal::CommitEnvironment commit_environment();
  void note_device(const Status& why, bool left);
  Status open_log(const std::string& path);
  Result<std::shared_ptr<View>> recovered_view(const std::vector<wal::RecoveredFrame>& frames);
  void start_background();
  [[nodiscard]] FamilyViewPtr new_family(const tree::TreeFamily& family) const;

  void run_group(std::span<AsyncBatch> group);
  Status run_together(std::span<AsyncBatch> group);
  Status submit_together(std::span<AsyncBatch* const> batches);
  void publish_change(const std::function<void(View*)>& change);
  void publish_family(const tree::TreeFamily& family);
  Status multi_get(std::span<const Slice> keys, std::vector<std::string>* values,
                   std::vector<Status>* statuses);
  Status figure(const std::string& name, std::string* value) const;
  void change_tree(const std::function<void(View*)>& change);

  using UpdatedBatch = std::vector<UpdatedWrites>;
  Status enter(const WriteOptions& options, const ReadSet& reads, batch::Requests* requests,
               bool as_runs, UpdatedBatch* updated, WriteTicket* ticket);
  using UpdatesAhead = std::vector<std::unique_ptr<UpdateWork>>;
  void prepare_updates(batch::Requests* requests, UpdatesAhead* ahead) const;
  void update_in_turn(UpdatesAhead* ahead, UpdatedBatch* updated);
  Status submit_writes(const WriteOptions& options, const ReadSet& reads, batch::Requests* requests,
                       WriteTicket* ticket);
  [[nodiscard]] bool become_one_run_each(const batch::Requests& requests) const;
  Status fill_frame(batch::Requests* requests, bool as_runs, WriteTicket* ticket);
  Status build_runs(batch::Requests* requests, WriteTicket* ticket);
  Status build_run(const batch::Writes& writes, std::uint32_t* descriptors, WriteTicket* ticket);
  /// The host is about to search the family's runs: where it would search more orders than runs,
  /// the runs' own are read for those who come next.
  void note_host_search(const FamilyView& family) const;
  void submit_reads(const Pin& pin, bool own_writes, std::uint64_t base, batch::Requests* requests);
  Status commit_writes(const WriteOptions& options, const ReadSet& reads,
                       batch::Requests* requests);
  Status carry_out(const WriteOptions& options, const ReadSet& validated,
                   batch::Requests* requests);
  /// Of one batch, when it has been answered.
  void count_requests(const batch::Requests& requests);
  /// Says, once in a process, that there is no device for a batch that would run on one.
  void miss_device(const batch::Requests& requests) const;
  void seal_for_search(const batch::Requests& requests);
  void seal_for_search(const ReadSet& reads);
  void seal_for_search(FamilyId family, std::uint64_t requests, std::uint64_t entries_min);
  void lift_for_search(FamilyId family, std::uint64_t requests, std::uint64_t requests_min);
  [[nodiscard]] std::shared_ptr<exec::HostMemory> batch_memory() const;

  Options options_;
  std::uint64_t reads_min_ = 0;  // requests from which a batch runs on the backend
  std::uint64_t writes_min_ = 0;
  std::string no_device_;  // why there is none, if one was looked for
  std::unique_ptr<Statistics> statistics_;
  std::unique_ptr<Listeners> listeners_;
  std::unique_ptr<tree::Tree> below_;
  std::shared_ptr<cache::RowCache> cache_;  // null: there is none
  std::unique_ptr<Backends> backends_;
  std::unique_ptr<wal::Log> log_;
  Fault fault_;
  ViewState state_;
  std::unique_ptr<RunBuilder> builder_;
  std::unique_ptr<Publisher> publisher_;
  std::unique_ptr<wal::CommitQueue> commits_;
  std::unique_ptr<cache::DeviceTags> device_tags_;
  std::unique_ptr<RunSearch> search_;
  std::unique_ptr<Reader> reader_;
  std::unique_ptr<Updater> updater_;
  std::unique_ptr<RangeReader> ranges_;
  std::shared_ptr<History> history_;
  std::unique_ptr<Validator> validator_;
  base::Bell flush_bell_;  // rung when there may be something to flush
  TakenRuns taken_runs_;
  std::unique_ptr<Room> room_;
  std::unique_ptr<Merger> merger_;
  std::unique_ptr<Flusher> flusher_;
  std::unique_ptr<AsyncQueue> async_;
  RecoveryReport recovery_;
  std::mutex close_mutex_;
  std::atomic<bool> closed_{false};
  Status close_status_;
};

}  // namespace breccia::ordered
