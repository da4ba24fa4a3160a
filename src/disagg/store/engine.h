#pragma once

#include <breccia/disagg_options.h>
#include <breccia/store.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "batch/async_queue.h"
#include "batch/requests.h"
#include "disagg/store/clients.h"

namespace breccia::disagg {

/// A cluster as a Store. A batch is run by one client: writes up to the first lookup, what is
/// looked up there, writes up to the next one, and so on.
/// Threads any.
class Engine final : public Store {
 public:
  /// Waits for the cluster as long as for an operation.
  /// Errors  as Store::Open.
  static Status open(const DisaggOptions& options, std::unique_ptr<Engine>* engine);
  ~Engine() override;

  Status Close() override;
  Status Submit(const WriteOptions& options, Batch* batch) override {
    return submit(options, &batch->requests());
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
  [[nodiscard]] std::uint64_t Position() const override { return 0; }
  Status SyncLog() override;
  Status Flush() override;
  bool GetProperty(const std::string& name, std::string* value) override;
  [[nodiscard]] RecoveryReport recovery() const override { return {}; }

 private:
  Engine(const DisaggOptions& options, ClusterConfig config);

  Status submit(const WriteOptions& options, batch::Requests* requests);
  [[nodiscard]] Status check_open() const;
  [[nodiscard]] fabric::TimeUs until(const WriteOptions& options) const;
  Status write(const WriteOptions& options, Change change);

  const DisaggOptions options_;
  Clients clients_;
  std::unique_ptr<batch::AsyncQueue> async_;
  std::atomic<std::uint64_t> gets_{0}, writes_{0}, ranges_{0};
  std::atomic<bool> is_closed_{false};
};

}  // namespace breccia::disagg
