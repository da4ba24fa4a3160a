#include "facade/db/write_batches.h"

#include "base/memory.h"
#include "base/result.h"

namespace breccia::facade {

namespace {

class Adder final : public rocksdb::WriteBatch::Handler {
 public:
  Adder(const std::function<bool(FamilyId)>& skips, batch::Requests* to) : skips_(skips), to_(to) {}

  Status PutCF(FamilyId family, const Slice& key, const Slice& value) override {
    return add(record::Op::kPut, family, key, value);
  }
  Status DeleteCF(FamilyId family, const Slice& key) override {
    return add(record::Op::kDelete, family, key, Slice());
  }
  Status SingleDeleteCF(FamilyId family, const Slice& key) override {
    return add(record::Op::kSingleDelete, family, key, Slice());
  }
  Status DeleteRangeCF(FamilyId family, const Slice& begin, const Slice& end) override {
    return add(record::Op::kDeleteRange, family, begin, end);
  }
  Status MergeCF(FamilyId family, const Slice& key, const Slice& operand) override {
    return add(record::Op::kMerge, family, key, operand);
  }
  Status PutEntityCF(FamilyId, const Slice&, const Slice&) override {
    return Status::NotSupported("wide columns: breccia's log and memtables hold plain values");
  }
  Status PutBlobIndexCF(FamilyId, const Slice&, const Slice&) override {
    return Status::NotSupported("blob indexes are RocksDB's own");
  }
  void LogData(const Slice&) override {}

  // RocksDB marks the begin of a transaction's batch so, and it means nothing by itself.
  Status MarkNoop(bool) override { return Status::OK(); }
  Status MarkBeginPrepare(bool) override { return no_prepared(); }
  Status MarkEndPrepare(const Slice&) override { return no_prepared(); }
  Status MarkRollback(const Slice&) override { return no_prepared(); }
  Status MarkCommit(const Slice&) override { return no_prepared(); }
  Status MarkCommitWithTimestamp(const Slice&, const Slice&) override { return no_prepared(); }

 private:
  Status add(record::Op op, FamilyId family, const Slice& key, const Slice& value) {
    if (skips_ && skips_(family)) return Status::OK();
    // Between here and there is RocksDB, whose code expects no exception.
    return base::or_memory_limit([&] { return to_->add_write(op, family, key, value); });
  }
  static Status no_prepared() {
    return Status::NotSupported("a batch of a prepared transaction of RocksDB's");
  }

  const std::function<bool(FamilyId)>& skips_;
  batch::Requests* to_;
};

}  // namespace

Status add_writes(const rocksdb::WriteBatch& from, const std::function<bool(FamilyId)>& skips,
                  batch::Requests* to) {
  BRECCIA_TRY(from.VerifyChecksum());
  Adder adder(skips, to);
  return from.Iterate(&adder);
}

Status write_batches(Core* core, const rocksdb::WriteOptions& options,
                     const ordered::ReadSet& reads,
                     std::span<const rocksdb::WriteBatch* const> batches) {
  std::function<bool(FamilyId)> skips;
  std::uint64_t count = 0;
  for (const rocksdb::WriteBatch* const batch : batches) count += batch->Count();
  const auto write = [&](batch::Requests* requests) {
    for (const rocksdb::WriteBatch* const batch : batches) {
      BRECCIA_TRY(add_writes(*batch, skips, requests));
    }
    return core->write(options, reads, requests);
  };
  constexpr std::uint64_t kSmallMax = 1024;
  return base::or_memory_limit([&] {
    if (options.ignore_missing_column_families) skips = core->missing_families();
    if (count < kSmallMax) return write(&batch::thread_requests());
    Batch large = core->new_batch(count);
    return write(&large.requests());
  });
}

}  // namespace breccia::facade
