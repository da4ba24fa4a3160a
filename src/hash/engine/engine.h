#pragma once

#include <breccia/hash_store.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/fault.h"
#include "batch/async_queue.h"
#include "batch/requests.h"
#include "batch/together.h"
#include "hash/engine/cleaner.h"
#include "hash/engine/live.h"
#include "hash/engine/log_view.h"
#include "hash/engine/mark.h"
#include "hash/engine/row_scan.h"
#include "hash/engine/state.h"
#include "hash/engine/step.h"
#include "pmem/disk.h"
#include "wal/commit_queue.h"
#include "wal/files.h"

namespace breccia::hash {

/// What lookups found that a transaction depends on.
struct Seen {
  const batch::Requests* reads;
  Found found;
};

/// What a store stands on, and tests replace.
struct Ground {
  std::shared_ptr<wal::Files> files;
  std::shared_ptr<pmem::Disk> disk;
  /// Bits of the numbers of keys that count: with few of them keys share numbers.
  std::uint64_t number_mask = ~std::uint64_t{0};
  /// Bytes of a segment from which on it is full; 0: when nothing more fits.
  std::uint64_t roll_bytes = 0;
  /// Nothing is done by threads of the store's own: neither cleaning nor making segments ahead.
  bool is_scripted = false;
  /// Lookups of so many ids are looked up as few are.
  std::uint64_t few_ids = kFewIds;
  /// Records of which scans ask the map at a time.
  std::uint64_t scanned_at_once = LiveRecords::kRecordsAtOnce;
};

/// The hash engine: records in a log, and a table on a device that knows the newest of each key.
///
/// A write is a frame of the log, and then entries of the key map (state.h); a lookup asks that and
/// copies the value out of the log. The log is all there is: its oldest part is cleaned
/// (cleaner.h), and the map is filled from it when the store opens.
///
/// Source  [gphash] for the table. Deviation: what is durable is a log, not the table
///         (docs/impl/hash.md, "Why a log").
/// Threads any.
class Engine final : public HashStore {
 public:
  /// Errors  as Store::Open.
  static Status open(const HashOptions& options, const std::string& path, const Ground& ground,
                     std::unique_ptr<Engine>* engine);
  ~Engine() override;

  Status Close() override;
  Status Submit(const WriteOptions& options, Batch* batch) override {
    return submit(options, {}, &batch->requests());
  }
  [[nodiscard]] std::unique_ptr<Transaction> OpenTransaction() override;
  void SubmitAsync(const WriteOptions& options, Batch* batch,
                   std::function<void(Status)> done) override;
  [[nodiscard]] Batch NewBatch() override;
  Status RegisterMemory(void* memory, std::size_t bytes, MemoryRegistration* registration) override;
  Status Put(const WriteOptions& options, const Slice& key, const Slice& value) override {
    return write_one(options, record::Op::kPut, key, value);
  }
  Status Delete(const WriteOptions& options, const Slice& key) override {
    return write_one(options, record::Op::kDelete, key, Slice());
  }
  Status Merge(const WriteOptions& options, const Slice& key, const Slice& operand) override;
  Status Get(const Slice& key, std::string* value) override;
  std::vector<Status> MultiGet(std::span<const Slice> keys,
                               std::vector<std::string>* values) override;
  Status CreateFamily(const std::string& name, FamilyId* family) override;
  Status DropFamily(FamilyId family) override;
  [[nodiscard]] std::vector<std::pair<std::string, FamilyId>> Families() const override;
  Status Changes(std::uint64_t from, const ChangesOptions& options,
                 std::unique_ptr<ChangeStream>* stream) override;
  [[nodiscard]] std::uint64_t Position() const override { return state_->visible(); }
  Status SyncLog() override;
  Status Flush() override { return SyncLog(); }
  bool GetProperty(const std::string& name, std::string* value) override;
  [[nodiscard]] RecoveryReport recovery() const override { return recovery_; }
  [[nodiscard]] int Device() const override;
  Status FindRows(const IdRows& rows) override;
  Status FindCachedRows(const IdRows& rows) override;
  Status PinRows(const IdRows& ids, std::unique_ptr<RowPins>* pins) override;
  Status PutRows(const WriteOptions& options, const IdRows& rows) override;
  Status DeleteRows(const WriteOptions& options, const IdRows& ids) override;
  Status ScanRows(const RowRange& range, std::unique_ptr<RowScan>* scan) override;
  Status Snapshot(const std::string& folder) override;
  Status EvictRows(const EvictOptions& options, std::uint64_t* evicted) override;
  Status Flush(std::uint64_t step) override;
  [[nodiscard]] std::optional<std::uint64_t> FlushedStep() const override;

  [[nodiscard]] Cleaner& cleaner() { return *cleaner_; }
  /// Errors  ShutdownInProgress: it is not.
  [[nodiscard]] Status check_open() const;
  /// Submit of a batch that depends on lookups: it happens only if what they found is still so, and
  /// right behind that check.
  /// Errors  as Submit; Busy: it is not.
  Status submit(const WriteOptions& options, std::span<const Seen> seen, batch::Requests* requests);
  /// Answers the lookups of `requests`, if what was seen before is still so at that moment.
  /// Errors  as Submit; Busy: it is not.
  Status look(std::span<const Seen> seen, batch::Requests* requests, Found* found);

 private:
  Engine() = default;
  Status start(const HashOptions& options, const std::string& path, const Ground& ground);
  Result<Mark> find_mark(const MarkFile& file, const std::string& path) const;
  static Status check_is_empty(const std::string& path, const Ground& ground);
  Status open_log(const std::string& dir, const Ground& ground, const Mark& mark);

  static Status check_requests(const batch::Requests& requests);
  [[nodiscard]] std::shared_ptr<exec::HostMemory> batch_memory() const {
    return {device_, &device_->host_memory()};
  }
  Status write(const WriteOptions& options, std::span<const Seen> seen, batch::Requests* requests);
  Status read(std::span<const Seen> seen, const batch::Requests* requests, Found* found);
  Status enter(std::span<const Seen> seen, const batch::Requests& requests, WriteTicket* ticket);
  Status write_one(const WriteOptions& options, record::Op op, const Slice& key,
                   const Slice& value);
  [[nodiscard]] bool may_wait(const WriteOptions& options) const {
    return options.wait_us_max.value_or(options_.wait_us_max.value_or(1)) > 0;
  }
  void note_written(std::uint64_t records, std::uint64_t bytes) {
    writes_ += records;
    cleaner_->note_written(records, bytes);
  }
  Status make_row_cache();
  [[nodiscard]] Status check_lookup(const IdRows& rows) const;
  [[nodiscard]] Result<IdRows> counted(const IdRows& rows);
  [[nodiscard]] bool caches(std::size_t row_bytes) const;
  Status begin_to_find(const IdRows& rows);
  Status pin(const IdsRef& ids, Pins* pins);
  void renew_cached(const RowRecords& records, const RowsInRef& rows);
  Status find_on_device(const IdRows& rows);
  Status find_by_batch(const IdRows& rows);
  Status list_missing(const IdRows& rows);
  Status write_on_device(const WriteOptions& options, const RowsInRef& rows);
  Status put_by_batch(const WriteOptions& options, const IdRows& rows);
  [[nodiscard]] LiveRows live_rows(const RowRange& range) {
    return {state_.get(), range, ground_.scanned_at_once};
  }
  [[nodiscard]] BytesColumn column(const IdRows& rows, const void* data, std::size_t width) const;

  HashOptions options_;
  std::unique_ptr<wal::FolderLock> lock_;  // of the store's folder: before the mark is believed
  exec::DevicePtr device_;
  std::shared_ptr<Backend> backend_;
  CachePtr row_cache_;  // null: none
  std::shared_ptr<LogView> log_view_;
  Ground ground_;
  std::string no_device_;  // why there is none, if one was looked for
  std::unique_ptr<wal::Log> log_;
  base::Fault fault_;
  std::unique_ptr<State> state_;
  std::unique_ptr<wal::CommitQueue> commits_;
  std::unique_ptr<Cleaner> cleaner_;
  std::unique_ptr<batch::Together> together_;
  std::unique_ptr<batch::AsyncQueue> async_;
  RecoveryReport recovery_;
  mutable std::mutex step_mutex_;  // guards what the file says, and what is known of it
  std::optional<StepFile> step_file_;
  std::optional<StepMark> flushed_;
  std::atomic<bool> closed_{false};
  std::mutex close_mutex_;
  Status close_status_;
  std::atomic<std::uint64_t> gets_{0}, writes_{0};
};

}  // namespace breccia::hash
