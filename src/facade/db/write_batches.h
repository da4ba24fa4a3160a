#pragma once

#include <breccia/family.h>
#include <breccia/status.h>
#include <rocksdb/write_batch.h>

#include <functional>
#include <span>

#include "batch/requests.h"
#include "facade/db/core.h"

namespace breccia::facade {

/// Adds the writes of `from` to `to`, in order. Blobs for the log (PutLogData) are left out, and so
/// is what is for a family of which `skips` is true.
/// Errors  Corruption: the batch is damaged; NotSupported: wide columns, or marks of prepared
///         transactions; InvalidArgument: a key or value over its limit.
Status add_writes(const rocksdb::WriteBatch& from, const std::function<bool(FamilyId)>& skips,
                  batch::Requests* to);

/// Writes the batches, one behind the other, all or nothing, if nothing of `reads` was written
/// since.
/// Errors  those of add_writes and of Core::write.
Status write_batches(Core* core, const rocksdb::WriteOptions& options,
                     const ordered::ReadSet& reads,
                     std::span<const rocksdb::WriteBatch* const> batches);

}  // namespace breccia::facade
