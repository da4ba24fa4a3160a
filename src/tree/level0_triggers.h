#pragma once

#include <rocksdb/options.h>

#include <string>
#include <unordered_map>

#include "base/result.h"

/// Triggers on the files of level 0. RocksDB counts files, and a flush adds one for each of its
/// parts: so the tree is given the user's triggers times these parts.

namespace breccia::tree {

/// A family's options as the tree is given them.
[[nodiscard]] rocksdb::ColumnFamilyOptions scaled_triggers(rocksdb::ColumnFamilyOptions options,
                                                           int flush_parts);
/// The same for options in a map.
/// Errors  InvalidArgument: a trigger is no number.
[[nodiscard]] Result<std::unordered_map<std::string, std::string>> scaled_triggers(
    std::unordered_map<std::string, std::string> options, int flush_parts);

/// A family's options as the user gave them, from the tree's.
[[nodiscard]] rocksdb::ColumnFamilyOptions given_triggers(rocksdb::ColumnFamilyOptions options,
                                                          int flush_parts);

/// The parts of a store's flushes, from the hidden family's options in an OPTIONS file: the user
/// gives that family none, so its triggers are RocksDB's defaults, scaled.
[[nodiscard]] int flush_parts_of(const rocksdb::ColumnFamilyOptions& hidden);

}  // namespace breccia::tree
