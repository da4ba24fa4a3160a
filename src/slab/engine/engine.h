#pragma once

#include <breccia/slab_options.h>
#include <breccia/store.h>

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/section_mutex.h"
#include "batch/async_queue.h"
#include "batch/key_order.h"
#include "batch/requests.h"
#include "batch/together.h"
#include "hash/engine/numbering.h"
#include "slab/engine/index.h"

namespace breccia::slab {

/// What lookups found: of each, the batch that put it; 0: there was none.
struct Found {
  std::vector<std::uint64_t> sequence;
};

/// What lookups found that a transaction depends on.
struct Seen {
  const batch::Requests* reads;
  Found found;
};

/// The slab engine: records in the host's memory, and a table of chained slabs on a device that
/// knows where that of each key is.
///
/// Lookups share the table. A batch that writes has it for itself: its lookups find what was there,
/// its entries come in, at once for all others, and what they replace is freed. Keys that share a
/// number share a list. A table of which is not known what it has is made again from the entries.
///
/// Source  [kvcg] section 5. Deviation: batches are atomic (docs/impl/slab.md).
/// Threads any.
class Engine final : public Store {
 public:
  /// `number_mask`: bits of the numbers of keys that count; tests take some away.
  /// Errors  as Store::Open.
  static Status open(const SlabOptions& options, std::uint64_t number_mask,
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
  [[nodiscard]] std::uint64_t Position() const override { return sequence_; }
  Status SyncLog() override;
  Status Flush() override;
  bool GetProperty(const std::string& name, std::string* value) override;
  [[nodiscard]] RecoveryReport recovery() const override { return {}; }

  /// Submit of a batch that depends on lookups: it happens only if what they found is still so.
  /// Errors  as Submit; Busy: it is not.
  Status submit(const WriteOptions& options, std::span<const Seen> seen, batch::Requests* requests);
  /// Answers the lookups of `requests`, if what was seen before is still so at that moment.
  /// Errors  as Submit; Busy: it is not.
  Status look(std::span<const Seen> seen, batch::Requests* requests, Found* found);

 private:
  struct Change;

  explicit Engine(const hash::Numbering& numbering) : numbering_(numbering) {}
  Status start(const SlabOptions& options);
  [[nodiscard]] Status check_open() const;
  Status write(std::span<const Seen> seen, batch::Requests* requests);
  Status make_entries(const batch::Writes& writes, Change* change);
  static void choose(const batch::Writes& writes, Change* change);
  Status book(Change* change);
  template <class Work>
  Status with_index(const Work& work);
  Status restore();
  Status come_in(Change* change);
  Status put_in(Change* change);
  void list(Change* change);
  void settle(Change* change);
  Status find(const record::KeyColumnsRef& keys, std::vector<const Entry*>* entries) const;
  Status check_seen(std::span<const Seen> seen) const;
  Status write_one(record::Op op, const Slice& key, const Slice& value);

  SlabOptions options_;
  const hash::Numbering numbering_;
  exec::DevicePtr device_;
  std::string no_device_;  // why there is none, if one was looked for
  /// Lookups share it; a batch that writes has it for itself. Guards all up to `sequence_`.
  mutable base::SectionMutex mutex_;
  std::unique_ptr<Index> index_;  // null: it failed, and is made again by who comes next
  Entries entries_;
  std::atomic<std::uint64_t> sequence_{0};  // of the last batch that wrote
  std::atomic<std::uint64_t> booked_{0};    // bytes of entries, and of those that may come in
  std::unique_ptr<batch::Together> together_;
  std::unique_ptr<batch::AsyncQueue> async_;
  std::atomic<bool> closed_{false};
  std::atomic<std::uint64_t> gets_{0}, writes_{0};
};

}  // namespace breccia::slab
