#include <breccia/rocks.h>

#include <algorithm>

#include "base/memory.h"
#include "facade/db/core.h"
#include "facade/db/log_iterator.h"
#include "tree/audience.h"
#include "tree/tree.h"

/// Rocks: log, flushes, files. What copies files needs them complete, so it flushes first.

namespace breccia {

namespace {

Status no_wal_files(const char* function) {
  return Status::NotSupported(
      std::string(function) + ": RocksDB's own log is empty",
      "writes are in breccia's log: follow it with GetUpdatesSince, or Store::Changes");
}

}  // namespace

// ---- log and flushes ---------------------------------------------------------------------------

Status Rocks::Flush(const rocksdb::FlushOptions& options, Handle* handle) {
  return base::or_memory_limit([&] { return Flush(options, std::vector<Handle*>{handle}); });
}

Status Rocks::Flush(const rocksdb::FlushOptions& options, const std::vector<Handle*>& handles) {
  for (const Handle* const handle : handles) BRECCIA_TRY(core_->family(handle).status());
  if (handles.empty()) return Status::OK();
  if (options.wait) return core_->engine().flush(/*waits_for_tree=*/!options.allow_write_stall);
  return core_->flush_later();
}

Status Rocks::SyncWAL() {
  BRECCIA_TRY(core_->check_open());
  return core_->engine().SyncLog();
}

// A write with a log is handed to the operating system before it returns.
Status Rocks::FlushWAL(bool sync) { return sync ? SyncWAL() : core_->check_open(); }

Status Rocks::LockWAL() {
  BRECCIA_TRY(core_->check_open());
  core_->gate().close();
  return Status::OK();
}

Status Rocks::UnlockWAL() {
  if (core_->gate().open()) return Status::OK();
  return Status::InvalidArgument("UnlockWAL() without LockWAL()");
}

// ---- files in ----------------------------------------------------------------------------------

Status Rocks::IngestExternalFile(Handle* handle, const std::vector<std::string>& files,
                                 const rocksdb::IngestExternalFileOptions& options) {
  return base::or_memory_limit([&] {
    rocksdb::IngestExternalFileArg arg;
    arg.column_family = handle;
    arg.external_files = files;
    arg.options = options;
    return IngestExternalFiles({arg});
  });
}

Status Rocks::IngestExternalFiles(const std::vector<rocksdb::IngestExternalFileArg>& args) {
  return base::or_memory_limit([&] {
    std::vector<rocksdb::IngestExternalFileArg> of_tree = args;
    for (rocksdb::IngestExternalFileArg& arg : of_tree) {
      BRECCIA_TAKE(arg.column_family, core_->tree_handle(arg.column_family));
    }
    ordered::Engine& engine = core_->engine();
    // What was written before must be older than the files, so it goes into the tree first. With
    // the gate closed there is nothing then that a flush could move while the tree changes.
    // Listeners, which may write, hear of it when the gate is open again.
    const tree::KeptEvents events(tree::KeptEvents::Then::kTellHere);
    const facade::WriteGate::Closed closed(&core_->gate());
    BRECCIA_TRY(engine.flush(/*waits_for_tree=*/false));
    return engine.tree_changes().bring_in([&] { return engine.below().ingest_files(of_tree); });
  });
}

// ---- files out ---------------------------------------------------------------------------------

Status Rocks::GetLiveFiles(std::vector<std::string>& files, std::uint64_t* manifest_file_size,
                           bool flush_memtable) {
  BRECCIA_TRY(core_->check_open());
  if (flush_memtable) BRECCIA_TRY(core_->engine().Flush());
  return core_->tree().GetLiveFiles(files, manifest_file_size, /*flush_memtable=*/false);
}

Status Rocks::GetLiveFilesStorageInfo(const rocksdb::LiveFilesStorageInfoOptions& options,
                                      std::vector<rocksdb::LiveFileStorageInfo>* files) {
  BRECCIA_TRY(core_->check_open());
  // Whatever the options say of logs: ours is not among the files.
  BRECCIA_TRY(core_->engine().Flush());
  return core_->tree().GetLiveFilesStorageInfo(options, files);
}

Status Rocks::DeleteFile(std::string name) {
  BRECCIA_TRY(core_->check_open());
  return base::or_memory_limit([&] {
    return core_->engine().tree_changes().take_out(
        [&] { return core_->tree().DeleteFile(std::move(name)); });
  });
}

rocksdb::DB* Rocks::GetRootDB() {
  if (!core_->check_open().ok()) return this;
  core_->engine().tree_changes().stop_caching();
  return StackableDB::GetRootDB();
}

void Rocks::GetLiveFilesMetaData(std::vector<rocksdb::LiveFileMetaData>* metadata) {
  metadata->clear();
  if (!core_->check_open().ok()) return;
  core_->tree().GetLiveFilesMetaData(metadata);
  std::erase_if(*metadata, [](const rocksdb::LiveFileMetaData& file) {
    return tree::is_reserved(file.column_family_name);
  });
}

void Rocks::GetColumnFamilyMetaData(Handle* handle, rocksdb::ColumnFamilyMetaData* metadata) {
  auto tree_handle = core_->tree_handle(handle);
  if (tree_handle.ok()) core_->tree().GetColumnFamilyMetaData(tree_handle.value(), metadata);
}

void Rocks::GetAllColumnFamilyMetaData(std::vector<rocksdb::ColumnFamilyMetaData>* metadata) {
  metadata->clear();
  if (!core_->check_open().ok()) return;
  core_->tree().GetAllColumnFamilyMetaData(metadata);
  std::erase_if(*metadata, [](const rocksdb::ColumnFamilyMetaData& family) {
    return tree::is_reserved(family.name);
  });
}

Status Rocks::GetPropertiesOfAllTables(Handle* handle,
                                       rocksdb::TablePropertiesCollection* properties) {
  BRECCIA_TAKE(Handle* const tree_handle, core_->tree_handle(handle));
  return core_->tree().GetPropertiesOfAllTables(tree_handle, properties);
}

Status Rocks::GetPropertiesOfTablesInRange(Handle* handle, const rocksdb::Range* ranges,
                                           std::size_t count,
                                           rocksdb::TablePropertiesCollection* properties) {
  BRECCIA_TAKE(Handle* const tree_handle, core_->tree_handle(handle));
  return core_->tree().GetPropertiesOfTablesInRange(tree_handle, ranges, count, properties);
}

Status Rocks::GetSortedWalFiles(rocksdb::VectorLogPtr&) {
  return no_wal_files("GetSortedWalFiles");
}

Status Rocks::GetCurrentWalFile(std::unique_ptr<rocksdb::LogFile>*) {
  return no_wal_files("GetCurrentWalFile");
}

Status Rocks::GetUpdatesSince(rocksdb::SequenceNumber sequence_number,
                              std::unique_ptr<rocksdb::TransactionLogIterator>* iterator,
                              const rocksdb::TransactionLogIterator::ReadOptions&) {
  BRECCIA_TRY(core_->check_open());
  return base::or_memory_limit([&] {
    BRECCIA_TAKE(*iterator, facade::updates_since(core_->engine_for_iterator(), sequence_number));
    return Status::OK();
  });
}

}  // namespace breccia
