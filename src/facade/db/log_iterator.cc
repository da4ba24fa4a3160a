#include "facade/db/log_iterator.h"

#include <rocksdb/comparator.h>
#include <rocksdb/write_batch.h>

#include <cstring>

#include "base/assert.h"

namespace breccia::facade {

namespace {

/// All that a WriteBatch asks of a handle is the family's number, which a dropped one still has.
class Numbered final : public rocksdb::ColumnFamilyHandle {
 public:
  explicit Numbered(FamilyId id) : id_(id) {}
  [[nodiscard]] const std::string& GetName() const override { return name_; }
  [[nodiscard]] std::uint32_t GetID() const override { return id_; }
  Status GetDescriptor(rocksdb::ColumnFamilyDescriptor*) override {
    return Status::NotSupported("a number alone");
  }
  [[nodiscard]] const rocksdb::Comparator* GetComparator() const override {
    return rocksdb::BytewiseComparator();
  }

 private:
  const FamilyId id_;
  const std::string name_;
};

Status add(const Change& change, rocksdb::WriteBatch* batch) {
  Numbered family(change.family);
  switch (change.kind) {
    case Change::Kind::kPut:
      return batch->Put(&family, change.key, change.value);
    case Change::Kind::kDelete:
      return batch->Delete(&family, change.key);
    case Change::Kind::kMerge:
      return batch->Merge(&family, change.key, change.value);
    case Change::Kind::kSingleDelete:
      return batch->SingleDelete(&family, change.key);
    case Change::Kind::kDeleteRange:
      break;
  }
  return batch->DeleteRange(&family, change.key, change.value);
}

class LogIterator final : public rocksdb::TransactionLogIterator {
 public:
  LogIterator(std::shared_ptr<ordered::Engine> engine, std::unique_ptr<ChangeStream> stream)
      : engine_(std::move(engine)), stream_(std::move(stream)) {
    Next();
  }

  bool Valid() override { return stream_->Valid(); }
  void Next() override {
    status_ = stream_->Next(/*wait_us=*/0);
    if (status_.IsTimedOut()) status_ = Status::OK();  // the end, for now
  }
  Status status() override { return status_; }

  rocksdb::BatchResult GetBatch() override {
    BRECCIA_ASSERT(Valid());
    rocksdb::WriteBatch batch;
    const FamilyId prepared = prepared_family();
    for (const Change& change : stream_->changes()) {
      if (change.family == prepared) continue;  // which users do not see
      status_ = add(change, &batch);
      if (!status_.ok()) break;
    }
    rocksdb::BatchResult result;
    result.sequence = stream_->position() - batch.Count() + 1;
    // The number stands in the batch's first eight bytes, too, and nothing public sets it there.
    std::string bytes = batch.Data();
    const std::uint64_t sequence = result.sequence;
    std::memcpy(bytes.data(), &sequence, sizeof sequence);
    result.writeBatchPtr = std::make_unique<rocksdb::WriteBatch>(bytes);
    return result;
  }

 private:
  /// The family of prepared transactions, or one that there is not.
  [[nodiscard]] FamilyId prepared_family() const {
    for (const tree::TreeFamily& family : engine_->below().families()) {
      if (family->GetName() == tree::kPreparedFamily) return family->GetID();
    }
    return ~FamilyId{0};
  }

  const std::shared_ptr<ordered::Engine> engine_;  // outlives the stream
  const std::unique_ptr<ChangeStream> stream_;
  Status status_;
};

}  // namespace

Result<std::unique_ptr<rocksdb::TransactionLogIterator>> updates_since(
    std::shared_ptr<ordered::Engine> engine, rocksdb::SequenceNumber sequence) {
  if (sequence > engine->Position()) {
    return Status::NotFound("Requested sequence not yet written in the db");
  }
  BRECCIA_TAKE(auto stream,
               wal::open_changes_at(engine->change_source(), sequence, ChangesOptions()));
  return std::unique_ptr<rocksdb::TransactionLogIterator>(
      std::make_unique<LogIterator>(std::move(engine), std::move(stream)));
}

}  // namespace breccia::facade
