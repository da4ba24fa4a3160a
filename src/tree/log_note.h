#pragma once

#include <rocksdb/env.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

/// What of the log still says what the tree says. A file in the store's folder notes it, so that a
/// store that is opened again may read from the log what it has flushed. The note is a hint:
/// without it nothing is lost, so whatever does not fit makes it void.

namespace breccia::tree {

/// Of one family: nothing but the log's records from position `from` on has changed the tree since.
struct LogPart {
  std::uint32_t family = 0;
  std::uint64_t from = 0;
  bool has_all = false;  // the tree has nothing else
};

struct LogNote {
  std::uint64_t store_id = 0;
  std::uint64_t applied = 0;  // the watermark up to which it speaks
  /// The tree's MANIFEST. Whoever opens a database begins another one, so who has the same knows
  /// that nobody else was there.
  std::string manifest;
  std::vector<LogPart> parts;
};

/// The note's name in the store's folder.
inline constexpr char kLogNote[] = "BRECCIA_LOG";

/// The note in `path`; an empty one (store_id 0) if there is none that can be read.
[[nodiscard]] LogNote read_log_note(rocksdb::Env* env, const std::string& path);
/// Errors  IOError, NoSpace: there is this note, the one before it, or none.
Status write_log_note(rocksdb::Env* env, const std::string& path, const LogNote& note);
/// Durable on return. Errors  IOError: it may still be there.
Status remove_log_note(rocksdb::Env* env, const std::string& path);

/// The name of the MANIFEST of the database in `path`; empty if there is none.
[[nodiscard]] std::string manifest_of(rocksdb::Env* env, const std::string& path);

}  // namespace breccia::tree
