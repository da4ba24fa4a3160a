#pragma once

#include <rocksdb/env.h>

#include <memory>
#include <string>

#include "wal/sim/sim_files.h"

namespace breccia::testing {

/// A simulated disk for Options::rocksdb.env: one power switch for the log and the tree. Threads
/// and clock are the default Env's. OPTIONS files cannot be created: nobody reads them, and to
/// write one takes a large part of an opening's time.
/// Owner   `disk` lives longer.
[[nodiscard]] std::unique_ptr<rocksdb::Env> make_sim_env(wal::SimDisk* disk);

/// The path of the log's or the tree's file in words that say what it is for: "log segment", "log
/// folder", "manifest", "table", "staged table", "mark", "tree folder", ...
[[nodiscard]] std::string kind_of(const std::string& path);

}  // namespace breccia::testing
