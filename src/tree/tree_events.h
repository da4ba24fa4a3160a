#pragma once

#include <rocksdb/listener.h>

#include <functional>
#include <memory>

#include "tree/audience.h"

namespace breccia::tree {

/// Listeners for the tree that hand its events on to an audience, with the database that users know
/// in the place of the tree and without what concerns breccia's own families. `on_staged` hears of
/// files that a flush has brought in, which are no ingests to a user; on the thread that brings
/// them in, before Audience::close().
///
/// RocksDB asks a listener once for each file whether it wants to hear of operations on it, so each
/// user has one of these for them.
[[nodiscard]] Audience::Users make_tree_events(
    const std::shared_ptr<Audience>& audience,
    std::function<void(const rocksdb::ExternalFileIngestionInfo&)> on_staged);

}  // namespace breccia::tree
