#pragma once

#include <breccia/store.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace breccia {

/// A store over another one: whatever it does not do itself, the one below does. The base of tiers
/// (caches, routers, observers) that work over any engine; they override what they change.
///
/// A tier that answers reads by itself overrides Get, MultiGet, Submit, SubmitAsync and
/// OpenTransaction, and one that watches writes Put, Delete, Merge and the last three: no function
/// of the store below calls one of this store.
///
/// Owner   the store below is owned, and closed and deleted with this one.
/// Threads as Store.
class StackableStore : public Store {
 public:
  /// Shape   `below` is not null.
  explicit StackableStore(std::unique_ptr<Store> below) : below_(std::move(below)) {}

  /// The store below.
  /// Owner   this store's.
  [[nodiscard]] Store* below() const { return below_.get(); }

  Status Close() override { return below_->Close(); }
  Status Submit(const WriteOptions& options, Batch* batch) override {
    return below_->Submit(options, batch);
  }
  [[nodiscard]] std::unique_ptr<Transaction> OpenTransaction() override {
    return below_->OpenTransaction();
  }
  void SubmitAsync(const WriteOptions& options, Batch* batch,
                   std::function<void(Status)> done) override {
    below_->SubmitAsync(options, batch, std::move(done));
  }
  [[nodiscard]] Batch NewBatch() override { return below_->NewBatch(); }
  Status RegisterMemory(void* memory, std::size_t bytes,
                        MemoryRegistration* registration) override {
    return below_->RegisterMemory(memory, bytes, registration);
  }
  Status Put(const WriteOptions& options, const Slice& key, const Slice& value) override {
    return below_->Put(options, key, value);
  }
  Status Delete(const WriteOptions& options, const Slice& key) override {
    return below_->Delete(options, key);
  }
  Status Merge(const WriteOptions& options, const Slice& key, const Slice& operand) override {
    return below_->Merge(options, key, operand);
  }
  Status Get(const Slice& key, std::string* value) override { return below_->Get(key, value); }
  std::vector<Status> MultiGet(std::span<const Slice> keys,
                               std::vector<std::string>* values) override {
    return below_->MultiGet(keys, values);
  }
  Status CreateFamily(const std::string& name, FamilyId* family) override {
    return below_->CreateFamily(name, family);
  }
  Status DropFamily(FamilyId family) override { return below_->DropFamily(family); }
  [[nodiscard]] std::vector<std::pair<std::string, FamilyId>> Families() const override {
    return below_->Families();
  }
  Status Changes(std::uint64_t from, const ChangesOptions& options,
                 std::unique_ptr<ChangeStream>* stream) override {
    return below_->Changes(from, options, stream);
  }
  [[nodiscard]] std::uint64_t Position() const override { return below_->Position(); }
  Status SyncLog() override { return below_->SyncLog(); }
  Status Flush() override { return below_->Flush(); }
  bool GetProperty(const std::string& name, std::string* value) override {
    return below_->GetProperty(name, value);
  }
  [[nodiscard]] RecoveryReport recovery() const override { return below_->recovery(); }

 private:
  std::unique_ptr<Store> below_;
};

}  // namespace breccia
