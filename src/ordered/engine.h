#pragma once

#include <breccia/options.h>
#include <breccia/store.h>

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "batch/async_queue.h"
#include "batch/together.h"
#include "cache/device_tags.h"
#include "cache/row_cache.h"
#include "ordered/background/file_loader.h"
#include "ordered/background/filter_builder.h"
#include "ordered/background/flusher.h"
#include "ordered/background/merger.h"
#include "ordered/background/room.h"
#include "ordered/figures.h"
#include "ordered/listeners.h"
#include "ordered/parts.h"
#include "ordered/read/history.h"
#include "ordered/read/lookups.h"
#include "ordered/request_counter.h"
#include "ordered/tree_changes.h"
#include "ordered/tree_filters.h"
#include "ordered/write/publisher.h"
#include "ordered/write/writer.h"
#include "wal/commit_queue.h"
#include "wal/read/changes.h"

namespace breccia::ordered {

/// The ordered engine: our log and memtables above a RocksDB tree, batches on a backend.
///
/// The front of its rooms: a write is the Writer's, a read the Lookups', what is changed in the
/// tree from outside the TreeChanges'. docs/ARCHITECTURE.md follows requests through. Opening and
/// closing are in open.cc.
///
/// Threads any.
class Engine final : public Store {
 public:
  static Status open(const Options& options, const std::string& path,
                     std::unique_ptr<Engine>* engine);
  ~Engine() override;

  Status Close() override;
  Status Submit(const WriteOptions& options, Batch* batch) override {
    return writer_->submit(options, ReadSet(), &batch->requests());
  }
  [[nodiscard]] std::unique_ptr<Transaction> OpenTransaction() override;
  void SubmitAsync(const WriteOptions& options, Batch* batch,
                   std::function<void(Status)> done) override;
  [[nodiscard]] Batch NewBatch() override;
  Status RegisterMemory(void* memory, std::size_t bytes, MemoryRegistration* registration) override;
  Status Put(const WriteOptions& options, const Slice& key, const Slice& value) override {
    return writer_->write_one(options, record::Op::kPut, kDefaultFamily, key, value);
  }
  Status Delete(const WriteOptions& options, const Slice& key) override {
    return writer_->write_one(options, record::Op::kDelete, kDefaultFamily, key, Slice());
  }
  Status Merge(const WriteOptions& options, const Slice& key, const Slice& operand) override {
    return writer_->write_one(options, record::Op::kMerge, kDefaultFamily, key, operand);
  }
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
  /// Keeps what these need for read sets whose positions are `since` or later.
  [[nodiscard]] History::Hold hold(std::uint64_t since) { return {history_, since}; }
  [[nodiscard]] Writer& writer() { return *writer_; }
  [[nodiscard]] const Lookups& lookups() const { return *lookups_; }
  [[nodiscard]] TreeChanges& tree_changes() { return *tree_changes_; }
  /// Flush(), whether the tree is overloaded with files or not: see Flusher::flush.
  Status flush(bool waits_for_tree);
  /// What change streams read from.
  [[nodiscard]] wal::ChangeSource change_source() { return {log_.get(), commits_.get()}; }
  [[nodiscard]] Figures figures() const;
  [[nodiscard]] Listeners& listeners() const { return *listeners_; }
  [[nodiscard]] tree::Tree& below() { return *below_; }
  [[nodiscard]] const Options& options() const { return options_; }
  /// Whether what holds the current view together is so: see check_view. After a fault nothing is
  /// looked at: memory may hold what was never shown.
  /// Errors  Corruption: what is wrong.
  [[nodiscard]] Status check();

 private:
  Engine() = default;
  Status start(const Options& options, const std::string& path);
  Status choose_backend();
  Status make_room_for_files();
  Status open_tree(const std::string& path);
  void add_compactions(rocksdb::DBOptions* tree);
  Status open_log(const std::string& path, std::shared_ptr<View>* recovered);
  void make_rooms(std::shared_ptr<View> recovered);
  void make_background(const StoreParts& parts);
  void note_device(const Status& why, bool left);
  void log_statistics() const;

  Options options_;
  BackendMin backend_min_{};
  std::unique_ptr<Statistics> statistics_;
  std::unique_ptr<RequestCounter> counter_;
  std::unique_ptr<Listeners> listeners_;
  std::shared_ptr<compaction::Service> compactions_;  // null: RocksDB does them
  std::unique_ptr<tree::Tree> below_;
  std::shared_ptr<cache::RowCache> cache_;  // null: there is none
  std::unique_ptr<TreeFilters> filters_;
  std::unique_ptr<ResidentFiles> files_;
  std::unique_ptr<Backends> backends_;
  std::unique_ptr<wal::Log> log_;
  Fault fault_;
  Closed closed_;
  ViewState state_;
  std::unique_ptr<RunBuilder> builder_;
  std::unique_ptr<Room> room_;
  std::unique_ptr<Publisher> publisher_;
  std::unique_ptr<wal::CommitQueue> commits_;
  std::unique_ptr<cache::DeviceTags> device_tags_;
  std::unique_ptr<RunSearch> search_;
  std::unique_ptr<Reader> reader_;
  std::unique_ptr<Updater> updater_;
  std::unique_ptr<RangeReader> ranges_;
  std::shared_ptr<History> history_;
  std::unique_ptr<Validator> validator_;
  TakenRuns taken_runs_;
  std::unique_ptr<Merger> merger_;
  std::unique_ptr<Flusher> flusher_;
  std::unique_ptr<FilterBuilder> filter_builder_;
  std::unique_ptr<FileLoader> file_loader_;
  std::unique_ptr<Lookups> lookups_;
  std::unique_ptr<Writer> writer_;
  std::unique_ptr<TreeChanges> tree_changes_;
  std::unique_ptr<batch::Together> together_;
  std::unique_ptr<batch::AsyncQueue> async_;
  RecoveryReport recovery_;
  std::mutex close_mutex_;
  Status close_status_;
};

}  // namespace breccia::ordered
