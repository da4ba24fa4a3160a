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

#include "batch/async_queue.h"
#include "batch/requests.h"
#include "batch/together.h"
#include "hash/engine/numbering.h"
#include "slab/engine/holder.h"

namespace breccia::slab {

/// The slab engine: what it has, by keys and values of any size (entry_holder.h) or of 8 bytes
/// (word_holder.h), as a Store.
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
  [[nodiscard]] std::uint64_t Position() const override { return holder_->sequence(); }
  Status SyncLog() override;
  Status Flush() override;
  [[nodiscard]] bool TellsMoments() const override { return true; }
  bool GetProperty(const std::string& name, std::string* value) override;
  [[nodiscard]] RecoveryReport recovery() const override { return {}; }

  /// Submit of a batch that depends on lookups: it happens only if what they found is still so.
  /// Errors  as Submit; Busy: it is not.
  Status submit(const WriteOptions& options, std::span<const Seen> seen, batch::Requests* requests);
  /// Answers the lookups of `requests`, if what was seen before is still so at that moment.
  /// Errors  as Submit; Busy: it is not.
  Status look(std::span<const Seen> seen, batch::Requests* requests, Found* found);

 private:
  Engine() = default;
  Status start(const SlabOptions& options, const hash::Numbering& numbering);
  [[nodiscard]] Status check(const batch::Requests& requests) const;
  Status write_one(const WriteOptions& options, record::Op op, const Slice& key,
                   const Slice& value);

  exec::DevicePtr device_;
  std::string no_device_;  // why there is none, if one was looked for
  std::unique_ptr<Holder> holder_;
  std::unique_ptr<batch::Together> together_;
  std::unique_ptr<batch::AsyncQueue> async_;
  std::atomic<std::uint64_t> gets_{0}, writes_{0};
};

}  // namespace breccia::slab
