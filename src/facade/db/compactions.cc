#include <breccia/rocks.h>

#include "base/memory.h"
#include "facade/db/core.h"
#include "tree/install_gate.h"

/// Rocks: compactions, and what passes through to the tree.

namespace breccia {

namespace {

/// Keeps flushes from the tree while it lives.
class FlushesPaused {
 public:
  explicit FlushesPaused(facade::Core* core) : core_(core) { core_->pause_flushes(); }
  ~FlushesPaused() { (void)core_->resume_flushes(); }
  FlushesPaused(const FlushesPaused&) = delete;
  FlushesPaused& operator=(const FlushesPaused&) = delete;

 private:
  facade::Core* core_;
};

Status no_traces() { return Status::NotSupported("traces of queries: the tree does not see them"); }

}  // namespace

// ---- compactions -------------------------------------------------------------------------------

Status Rocks::CompactRange(const rocksdb::CompactRangeOptions& options, Handle* handle,
                           const Slice* begin, const Slice* end) {
  BRECCIA_TAKE(Handle* const tree_handle, core_->tree_handle(handle));
  BRECCIA_TRY(core_->engine().flush(/*waits_for_tree=*/!options.allow_write_stall));
  if (!options.change_level) {
    return core_->tree().CompactRange(options, tree_handle, begin, end);
  }
  // RocksDB 7.8 may leave overlapping files in a level if files are ingested meanwhile.
  const tree::InstallGate::LevelMove move(&core_->engine().below().gate());
  return core_->tree().CompactRange(options, tree_handle, begin, end);
}

Status Rocks::CompactFiles(const rocksdb::CompactionOptions& options, Handle* handle,
                           const std::vector<std::string>& input_file_names, int output_level,
                           int output_path_id, std::vector<std::string>* output_file_names,
                           rocksdb::CompactionJobInfo* info) {
  BRECCIA_TAKE(Handle* const tree_handle, core_->tree_handle(handle));
  const tree::InstallGate::Call call(&core_->engine().below().gate());
  return core_->tree().CompactFiles(options, tree_handle, input_file_names, output_level,
                                    output_path_id, output_file_names, info);
}

Status Rocks::SuggestCompactRange(Handle* handle, const Slice* begin, const Slice* end) {
  BRECCIA_TAKE(Handle* const tree_handle, core_->tree_handle(handle));
  return core_->tree().SuggestCompactRange(tree_handle, begin, end);
}

Status Rocks::PromoteL0(Handle* handle, int target_level) {
  BRECCIA_TAKE(Handle* const tree_handle, core_->tree_handle(handle));
  const FlushesPaused paused(core_.get());
  return core_->tree().PromoteL0(tree_handle, target_level);
}

Status Rocks::PauseBackgroundWork() {
  BRECCIA_TRY(core_->check_open());
  BRECCIA_TRY(core_->tree().PauseBackgroundWork());
  core_->pause_flushes();
  return Status::OK();
}

Status Rocks::ContinueBackgroundWork() {
  BRECCIA_TRY(core_->check_open());
  BRECCIA_TRY(core_->tree().ContinueBackgroundWork());
  return core_->resume_flushes() ? Status::OK() : Status::InvalidArgument();
}

Status Rocks::EnableAutoCompaction(const std::vector<Handle*>& handles) {
  return base::or_memory_limit([&] {
    BRECCIA_TAKE(const std::vector<Handle*> tree_handles, core_->tree_handles(handles));
    return core_->tree().EnableAutoCompaction(tree_handles);
  });
}

int Rocks::NumberLevels(Handle* handle) {
  auto tree_handle = core_->tree_handle(handle);
  return tree_handle.ok() ? core_->tree().NumberLevels(tree_handle.value()) : 0;
}

int Rocks::MaxMemCompactionLevel(Handle* handle) {
  auto tree_handle = core_->tree_handle(handle);
  return tree_handle.ok() ? core_->tree().MaxMemCompactionLevel(tree_handle.value()) : 0;
}

int Rocks::Level0StopWriteTrigger(Handle* handle) {
  return GetOptions(handle).level0_stop_writes_trigger;
}

// ---- timestamps and traces ---------------------------------------------------------------------

Status Rocks::IncreaseFullHistoryTsLow(Handle* handle, std::string timestamp) {
  BRECCIA_TAKE(Handle* const tree_handle, core_->tree_handle(handle));
  return core_->tree().IncreaseFullHistoryTsLow(tree_handle, std::move(timestamp));
}

Status Rocks::GetFullHistoryTsLow(Handle* handle, std::string* timestamp) {
  BRECCIA_TAKE(Handle* const tree_handle, core_->tree_handle(handle));
  return core_->tree().GetFullHistoryTsLow(tree_handle, timestamp);
}

Status Rocks::StartTrace(const rocksdb::TraceOptions&, std::unique_ptr<rocksdb::TraceWriter>&&) {
  return no_traces();
}

Status Rocks::EndTrace() { return no_traces(); }

Status Rocks::NewDefaultReplayer(const std::vector<Handle*>&,
                                 std::unique_ptr<rocksdb::TraceReader>&&,
                                 std::unique_ptr<rocksdb::Replayer>*) {
  return no_traces();
}

}  // namespace breccia
