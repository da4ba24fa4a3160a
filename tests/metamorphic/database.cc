#include "database.h"

#include <utility>

#include "option_sets.h"

namespace breccia::metamorphic {

// ---- opening -----------------------------------------------------------------------------------

rocksdb::TransactionDBOptions DatabaseSubject::without_waiting() {
  rocksdb::TransactionDBOptions options;
  options.transaction_lock_timeout = 0;
  options.default_lock_timeout = 0;
  return options;
}

void DatabaseSubject::take(rocksdb::StackableDB* db,
                           std::vector<rocksdb::ColumnFamilyHandle*> handles) {
  db_.reset(db);
  handles_ = std::move(handles);
  std::size_t next = 0;
  for (auto& family : families_) {
    if (!family.has_value()) continue;
    family = Family{handles_[next]->GetID(), handles_[next]};
    ++next;
  }
}

void DatabaseSubject::close() {
  if (db_ == nullptr) return;
  for (auto* handle : handles_) db_->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
  handles_.clear();
  db_.reset();
}

Status DatabaseSubject::create_family(std::uint32_t family) {
  rocksdb::ColumnFamilyHandle* handle = nullptr;
  BRECCIA_TRY(db_->CreateColumnFamily(options_of(family), family_name(family), &handle));
  handles_.push_back(handle);
  families_[family] = Family{handle->GetID(), handle};
  return Status::OK();
}

Status DatabaseSubject::drop_family(const Op& op) {
  const Status status = db_->DropColumnFamily(handle(op.family));
  families_[op.family].reset();  // readers may still need the handle
  return status;
}

// ---- requests ----------------------------------------------------------------------------------

rocksdb::ColumnFamilyHandle* DatabaseSubject::handle_at(std::uint32_t family,
                                                        std::uint32_t snapshot) const {
  return (snapshot == kNone ? families_ : snapshots_[snapshot].families)[family]->handle;
}

Status DatabaseSubject::write(const Op& op) {
  const rocksdb::WriteOptions options = write_options(op.durability);
  auto* const in = handle(op.family);
  const Slice at = key(op.key);
  const Status status = [&] {
    switch (op.kind) {
      case Kind::kPut:
        return db_->Put(options, in, at, make_value(op.value));
      case Kind::kDelete:
        return db_->Delete(options, in, at);
      case Kind::kSingleDelete:
        return db_->SingleDelete(options, in, at);
      case Kind::kMerge:
        return db_->Merge(options, in, at, make_value(op.value));
      default:  // which databases with transactions refuse
        return db_->GetBaseDB()->DeleteRange(options, in, at, key(op.end));
    }
  }();
  wrote(op, status);
  return status;
}

Status DatabaseSubject::get(const Op& op, std::string* value) {
  return get_at(op, op.snapshot, value);
}

Status DatabaseSubject::get_at(const Op& op, std::uint32_t snapshot, std::string* value) {
  rocksdb::ReadOptions options;
  if (snapshot != kNone) options.snapshot = snapshots_[snapshot].at;
  return db_->Get(options, handle_at(op.family, snapshot), key(op.key), value);
}

void DatabaseSubject::run_range(const Op& op, std::uint32_t snapshot, History* history) {
  const Slice end = key(op.end);
  rocksdb::ReadOptions options;
  options.iterate_upper_bound = &end;
  const auto iterator = iterate(options, op.family, snapshot);
  add_range(iterator.get(), key(op.key), op.number, history);
}

Status DatabaseSubject::run_part(const Op& part, std::uint32_t snapshot, History* history) {
  if (is_write(part.kind)) return write(part);
  if (part.kind == Kind::kRange) {
    run_range(part, snapshot, history);
  } else {
    std::string value;
    const Status status = get_at(part, snapshot, &value);
    history->add_value(status.code(), value);
  }
  return Status::OK();
}

Status DatabaseSubject::run_parts(const Op& op, History* history) {
  if (op.kind == Kind::kMultiGet) return multi_get(op, history);
  if (op.kind == Kind::kRange) {
    run_range(op, op.snapshot, history);
    return Status::OK();
  }
  for (std::uint32_t again = 0; op.kind == Kind::kBatch && again <= op.number; ++again) {
    BRECCIA_TRY(run_batch(op, history));
  }
  for (const Op& part : op.parts) {
    if (op.kind == Kind::kRead) BRECCIA_TRY(run_part(part, op.snapshot, history));
  }
  return Status::OK();
}

// A WriteBatch holds no lookups. They come behind it.
Status DatabaseSubject::run_batch(const Op& op, History* history) {
  if (is_in_order(op, api_)) return submit(op, history);
  Op writes{.kind = Kind::kBatch, .durability = op.durability};
  for (const Op& part : op.parts) {
    if (is_write(part.kind)) writes.parts.push_back(part);
  }
  BRECCIA_TRY(write_batch(writes));
  for (const Op& part : op.parts) {
    if (!is_write(part.kind)) BRECCIA_TRY(run_part(part, kNone, history));
  }
  return Status::OK();
}

// Where the place of a lookup counts, each one ends a WriteBatch.
Status DatabaseSubject::submit(const Op& op, History* history) {
  Op writes{.kind = Kind::kBatch, .durability = op.durability};
  for (const Op& part : op.parts) {
    if (is_write(part.kind)) {
      writes.parts.push_back(part);
      continue;
    }
    BRECCIA_TRY(write_batch(writes));
    writes.parts.clear();
    BRECCIA_TRY(run_part(part, kNone, history));
  }
  return write_batch(writes);
}

Status DatabaseSubject::write_batch(const Op& op) {
  if (op.parts.empty()) return Status::OK();
  rocksdb::WriteBatch batch;
  for (const Op& part : op.parts) BRECCIA_TRY(add(part, &batch));
  const rocksdb::WriteOptions options = write_options(op.durability);
  // Databases with transactions refuse range deletions.
  const Status status = batch.HasDeleteRange() ? db_->GetBaseDB()->Write(options, &batch)
                                               : db_->Write(options, &batch);
  wrote(op, status);
  return status;
}

Status DatabaseSubject::add(const Op& part, rocksdb::WriteBatch* batch) const {
  auto* const in = handle(part.family);
  switch (part.kind) {
    case Kind::kPut:
      return batch->Put(in, key(part.key), make_value(part.value));
    case Kind::kDelete:
      return batch->Delete(in, key(part.key));
    case Kind::kSingleDelete:
      return batch->SingleDelete(in, key(part.key));
    case Kind::kMerge:
      return batch->Merge(in, key(part.key), make_value(part.value));
    default:
      return batch->DeleteRange(in, key(part.key), key(part.end));
  }
}

void DatabaseSubject::take_snapshot(std::uint32_t slot) {
  snapshots_[slot] = {{families_}, db_->GetSnapshot()};
}

void DatabaseSubject::release_snapshot(std::uint32_t slot) {
  db_->ReleaseSnapshot(snapshots_[slot].at);
  snapshots_[slot] = {};
}

std::unique_ptr<rocksdb::Iterator> DatabaseSubject::iterate(const rocksdb::ReadOptions& options,
                                                            std::uint32_t family,
                                                            std::uint32_t snapshot) {
  rocksdb::ReadOptions at = options;
  if (snapshot != kNone) at.snapshot = snapshots_[snapshot].at;
  return std::unique_ptr<rocksdb::Iterator>(db_->NewIterator(at, handle_at(family, snapshot)));
}

// ---- transactions ------------------------------------------------------------------------------

void DatabaseSubject::begin(const Op& op) {
  Open& open = open_[op.transaction];
  open.durability = op.durability;
  if (api_ == Api::kLocking) {
    rocksdb::TransactionOptions options;
    options.set_snapshot = op.variant;
    auto* const db = static_cast<rocksdb::TransactionDB*>(db_.get());
    open.transaction.reset(db->BeginTransaction(write_options(op.durability), options));
    return;
  }
  rocksdb::OptimisticTransactionOptions options;
  options.set_snapshot = op.variant;
  auto* const db = static_cast<rocksdb::OptimisticTransactionDB*>(db_.get());
  open.transaction.reset(db->BeginTransaction(write_options(op.durability), options));
}

Status DatabaseSubject::run_within(const Op& op, History* history) {
  for (const Op& part : op.parts) {
    run_part_within(part, open_[op.transaction].transaction.get(), history);
  }
  return Status::OK();
}

void DatabaseSubject::run_part_within(const Op& part, rocksdb::Transaction* transaction,
                                      History* history) {
  if (part.kind == Kind::kSavePoint) return transaction->SetSavePoint();
  if (part.kind == Kind::kBackToSavePoint) {
    return history->add("back", transaction->RollbackToSavePoint());
  }
  if (part.kind == Kind::kPopSavePoint) return history->add("pop", transaction->PopSavePoint());
  auto* const in = handle(part.family);
  const Slice at = key(part.key);
  rocksdb::ReadOptions options;
  switch (part.kind) {
    case Kind::kPut:
      return history->add("write", transaction->Put(in, at, make_value(part.value)));
    case Kind::kDelete:
      return history->add("write", transaction->Delete(in, at));
    case Kind::kMerge:
      return history->add("write", transaction->Merge(in, at, make_value(part.value)));
    case Kind::kRange: {
      const Slice end = key(part.end);
      options.iterate_upper_bound = &end;
      const std::unique_ptr<rocksdb::Iterator> iterator(transaction->GetIterator(options, in));
      return add_range(iterator.get(), at, part.number, history);
    }
    default: {
      if (part.number == 1) options.snapshot = transaction->GetSnapshot();
      std::string value;
      const Status status = part.variant ? transaction->GetForUpdate(options, in, at, &value)
                                         : transaction->Get(options, in, at, &value);
      return history->add_value(status.code(), value);
    }
  }
}

void DatabaseSubject::commit(const Op& op, History* history) {
  const Open open = std::exchange(open_[op.transaction], {});
  const bool writes = open.transaction->GetWriteBatch()->GetWriteBatch()->Count() > 0;
  const Status status = open.transaction->Commit();
  history->add("commit", status);
  if (writes) wrote({.kind = Kind::kCommit, .durability = open.durability}, status);
}

void DatabaseSubject::roll_back(std::uint32_t transaction) { open_[transaction] = {}; }

// ---- write batches with an index ---------------------------------------------------------------

Status DatabaseSubject::run_indexed(const Op& op, History* history) {
  rocksdb::WriteBatchWithIndex batch(rocksdb::BytewiseComparator(), 0, /*overwrite_key=*/true);
  for (const Op& part : op.parts) run_part_indexed(part, &batch, history);
  if (op.variant) return Status::OK();
  const bool writes = batch.GetWriteBatch()->Count() > 0;
  const Status status = db_->Write(write_options(op.durability), batch.GetWriteBatch());
  if (writes) wrote({.kind = Kind::kIndexed, .durability = op.durability}, status);
  return status;
}

void DatabaseSubject::run_part_indexed(const Op& part, rocksdb::WriteBatchWithIndex* batch,
                                       History* history) {
  if (part.kind == Kind::kSavePoint) return batch->SetSavePoint();
  if (part.kind == Kind::kBackToSavePoint) {
    return history->add("back", batch->RollbackToSavePoint());
  }
  if (part.kind == Kind::kPopSavePoint) return history->add("pop", batch->PopSavePoint());
  auto* const in = handle(part.family);
  const Slice at = key(part.key);
  rocksdb::ReadOptions options;
  switch (part.kind) {
    case Kind::kPut:
      return history->add("write", batch->Put(in, at, make_value(part.value)));
    case Kind::kDelete:
      return history->add("write", batch->Delete(in, at));
    case Kind::kMerge:
      return history->add("write", batch->Merge(in, at, make_value(part.value)));
    case Kind::kRange: {
      const Slice end = key(part.end);
      options.iterate_upper_bound = &end;
      const std::unique_ptr<rocksdb::Iterator> iterator(
          batch->NewIteratorWithBase(in, db_->NewIterator(options, in), &options));
      return add_range(iterator.get(), at, part.number, history);
    }
    default: {
      std::string value;
      const Status status = batch->GetFromBatchAndDB(db_.get(), options, in, at, &value);
      return history->add_value(status.code(), value);
    }
  }
}

}  // namespace breccia::metamorphic
