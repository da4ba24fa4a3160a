#include <breccia/rocks.h>

#include "base/memory.h"
#include "facade/db/core.h"
#include "facade/db/lookups.h"
#include "facade/db/user_statistics.h"

/// Rocks: lookups and snapshots.

namespace breccia {

Status Rocks::Get(const rocksdb::ReadOptions& options, Handle* handle, const Slice& key,
                  rocksdb::PinnableSlice* value) {
  value->Reset();
  const facade::UserTimer timer(core_->user_statistics(), rocksdb::DB_GET);
  return base::or_memory_limit([&] {
    BRECCIA_TAKE(const facade::Seen seen, core_->see(options, handle));
    const std::uint64_t bytes_before = rocksdb::get_perf_context()->get_read_bytes;
    bool from_tree = false;
    Status status = facade::get(*core_, options, seen, key, value, &from_tree);
    facade::note_get(core_->user_statistics(), status, value->size(), from_tree);
    facade::set_perf_bytes(&rocksdb::PerfContext::get_read_bytes, bytes_before,
                           status.ok() ? value->size() : 0);
    return status;
  });
}

Status Rocks::Get(const rocksdb::ReadOptions& options, Handle* handle, const Slice& key,
                  rocksdb::PinnableSlice* value, std::string* timestamp) {
  if (timestamp != nullptr) timestamp->clear();
  return Get(options, handle, key, value);
}

Status Rocks::GetEntity(const rocksdb::ReadOptions& options, Handle* handle, const Slice& key,
                        rocksdb::PinnableWideColumns* columns) {
  if (handle == nullptr) {
    return Status::InvalidArgument("Cannot call GetEntity without a column family handle");
  }
  if (columns == nullptr) {
    return Status::InvalidArgument("Cannot call GetEntity without a PinnableWideColumns object");
  }
  columns->Reset();
  return base::or_memory_limit([&] {
    BRECCIA_TAKE(const facade::Seen seen, core_->see(options, handle));
    if (seen.view == nullptr) return Status::NotFound();
    // The tree may hold entities that RocksDB wrote.
    if (core_->must_skip_memory(options) || facade::is_in_tree(seen, key)) {
      return core_->tree().GetEntity(facade::tree_options(options, seen), seen.view->tree.get(),
                                     key, columns);
    }
    rocksdb::PinnableSlice value;
    bool from_tree = false;
    BRECCIA_TRY(facade::get(*core_, options, seen, key, &value, &from_tree));
    columns->SetPlainValue(value);
    return Status::OK();
  });
}

Status Rocks::GetMergeOperands(const rocksdb::ReadOptions& options, Handle* handle,
                               const Slice& key, rocksdb::PinnableSlice* operands,
                               rocksdb::GetMergeOperandsOptions* operands_options,
                               int* operand_count) {
  return base::or_memory_limit([&] {
    BRECCIA_TAKE(const facade::Seen seen, core_->see(options, handle));
    return facade::get_merge_operands(*core_, options, seen, key, operands_options, operands,
                                      operand_count);
  });
}

// ---- batched -----------------------------------------------------------------------------------

std::vector<Status> Rocks::MultiGet(const rocksdb::ReadOptions& options,
                                    const std::vector<Handle*>& handles,
                                    const std::vector<Slice>& keys,
                                    std::vector<std::string>* values) {
  std::vector<Status> statuses(keys.size());
  std::vector<rocksdb::PinnableSlice> found(keys.size());
  const auto handle = [&](std::size_t i) { return handles[i]; };
  facade::multi_get(*core_, options, {keys.size(), handle, keys.data(), /*by_key=*/false},
                    found.data(), statuses.data());
  values->resize(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    (*values)[i].assign(found[i].data(), found[i].size());
  }
  return statuses;
}

std::vector<Status> Rocks::MultiGet(const rocksdb::ReadOptions& options,
                                    const std::vector<Handle*>& handles,
                                    const std::vector<Slice>& keys,
                                    std::vector<std::string>* values,
                                    std::vector<std::string>* timestamps) {
  if (timestamps != nullptr) timestamps->resize(keys.size());
  return MultiGet(options, handles, keys, values);
}

void Rocks::MultiGet(const rocksdb::ReadOptions& options, Handle* handle, std::size_t count,
                     const Slice* keys, rocksdb::PinnableSlice* values, Status* statuses,
                     bool /*sorted_input*/) {
  const auto same = [&](std::size_t) { return handle; };
  facade::multi_get(*core_, options, {count, same, keys, /*by_key=*/true}, values, statuses);
}

void Rocks::MultiGet(const rocksdb::ReadOptions& options, Handle* handle, std::size_t count,
                     const Slice* keys, rocksdb::PinnableSlice* values, std::string* timestamps,
                     Status* statuses, bool sorted_input) {
  for (std::size_t i = 0; timestamps != nullptr && i < count; ++i) timestamps[i].clear();
  MultiGet(options, handle, count, keys, values, statuses, sorted_input);
}

void Rocks::MultiGet(const rocksdb::ReadOptions& options, std::size_t count, Handle** handles,
                     const Slice* keys, rocksdb::PinnableSlice* values, Status* statuses,
                     bool /*sorted_input*/) {
  const auto handle = [&](std::size_t i) { return handles[i]; };
  facade::multi_get(*core_, options, {count, handle, keys, /*by_key=*/true}, values, statuses);
}

void Rocks::MultiGet(const rocksdb::ReadOptions& options, std::size_t count, Handle** handles,
                     const Slice* keys, rocksdb::PinnableSlice* values, std::string* timestamps,
                     Status* statuses, bool sorted_input) {
  for (std::size_t i = 0; timestamps != nullptr && i < count; ++i) timestamps[i].clear();
  MultiGet(options, count, handles, keys, values, statuses, sorted_input);
}

bool Rocks::KeyMayExist(const rocksdb::ReadOptions& options, Handle* handle, const Slice& key,
                        std::string* value, bool* value_found) {
  const Status status = base::or_memory_limit([&] {
    rocksdb::ReadOptions cached = options;
    cached.read_tier = rocksdb::kBlockCacheTier;
    rocksdb::PinnableSlice found;
    Status read = Get(cached, handle, key, &found);
    if (value != nullptr) value->assign(found.data(), found.size());
    return read;
  });
  const bool is_open_question = status.IsIncomplete() || status.IsMemoryLimit();
  if (value_found != nullptr) *value_found = !is_open_question;
  return status.ok() || is_open_question;
}

bool Rocks::KeyMayExist(const rocksdb::ReadOptions& options, Handle* handle, const Slice& key,
                        std::string* value, std::string* timestamp, bool* value_found) {
  if (timestamp != nullptr) timestamp->clear();
  return KeyMayExist(options, handle, key, value, value_found);
}

// ---- snapshots ---------------------------------------------------------------------------------

const rocksdb::Snapshot* Rocks::GetSnapshot() {
  if (!core_->check_open().ok()) return nullptr;
  return core_->snapshots().take(core_->engine().pin());
}

void Rocks::ReleaseSnapshot(const rocksdb::Snapshot* snapshot) {
  if (snapshot != nullptr) (void)core_->snapshots().release(snapshot);
}

}  // namespace breccia
