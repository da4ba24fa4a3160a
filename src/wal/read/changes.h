#pragma once

#include <breccia/changes.h>

#include <memory>

#include "wal/commit_queue.h"
#include "wal/log.h"

namespace breccia::wal {

/// What a change stream reads from.
struct ChangeSource {
  Log* log;
  CommitQueue* commits;
};

/// A stream of the batches from position `from` on; 0: from the oldest that the log has.
/// Errors  NotFound: the log below was released; InvalidArgument: no batch begins or ends there.
/// Cost    reads the frames' headers from the segment's begin to `from`.
[[nodiscard]] Result<std::unique_ptr<ChangeStream>> open_changes(const ChangeSource& source,
                                                                 std::uint64_t from,
                                                                 const ChangesOptions& options);

/// The same from the first batch that ends at or above `position`, which may be any.
[[nodiscard]] Result<std::unique_ptr<ChangeStream>> open_changes_at(const ChangeSource& source,
                                                                    std::uint64_t position,
                                                                    const ChangesOptions& options);

}  // namespace breccia::wal
