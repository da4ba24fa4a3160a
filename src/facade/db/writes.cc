#include <breccia/rocks.h>

#include "facade/db/core.h"
#include "facade/db/write_batches.h"

/// Rocks: writes.

namespace breccia {

Status Rocks::Put(const rocksdb::WriteOptions& options, Handle* handle, const Slice& key,
                  const Slice& value) {
  return core_->write_one(options, record::Op::kPut, handle, key, value);
}

Status Rocks::Delete(const rocksdb::WriteOptions& options, Handle* handle, const Slice& key) {
  return core_->write_one(options, record::Op::kDelete, handle, key, Slice());
}

Status Rocks::SingleDelete(const rocksdb::WriteOptions& options, Handle* handle, const Slice& key) {
  return core_->write_one(options, record::Op::kSingleDelete, handle, key, Slice());
}

Status Rocks::DeleteRange(const rocksdb::WriteOptions& options, Handle* handle, const Slice& begin,
                          const Slice& end) {
  return core_->write_one(options, record::Op::kDeleteRange, handle, begin, end);
}

Status Rocks::Merge(const rocksdb::WriteOptions& options, Handle* handle, const Slice& key,
                    const Slice& operand) {
  return core_->write_one(options, record::Op::kMerge, handle, key, operand);
}

Status Rocks::Put(const rocksdb::WriteOptions&, Handle*, const Slice&, const Slice&, const Slice&) {
  return facade::no_timestamps();
}

Status Rocks::Delete(const rocksdb::WriteOptions&, Handle*, const Slice&, const Slice&) {
  return facade::no_timestamps();
}

Status Rocks::SingleDelete(const rocksdb::WriteOptions&, Handle*, const Slice&, const Slice&) {
  return facade::no_timestamps();
}

Status Rocks::DeleteRange(const rocksdb::WriteOptions&, Handle*, const Slice&, const Slice&,
                          const Slice&) {
  return facade::no_timestamps();
}

Status Rocks::PutEntity(const rocksdb::WriteOptions&, Handle*, const Slice&,
                        const rocksdb::WideColumns&) {
  return Status::NotSupported("PutEntity: breccia's log and memtables hold plain values");
}

Status Rocks::Write(const rocksdb::WriteOptions& options, rocksdb::WriteBatch* updates) {
  if (updates == nullptr) return Status::InvalidArgument("Batch is nullptr!");
  BRECCIA_TRY(core_->check_open());
  const rocksdb::WriteBatch* const batches[] = {updates};
  return facade::write_batches(core_.get(), options, ordered::ReadSet(), batches);
}

Status Rocks::Submit(const rocksdb::WriteOptions& options, Batch* batch) {
  BRECCIA_TRY(core_->check_open());
  return core_->submit(options, batch);
}

Status Rocks::RegisterMemory(void* memory, std::size_t bytes, MemoryRegistration* registration) {
  BRECCIA_TRY(core_->check_open());
  return core_->engine().RegisterMemory(memory, bytes, registration);
}

Batch Rocks::NewBatch() { return core_->check_open().ok() ? core_->engine().NewBatch() : Batch(); }

}  // namespace breccia
