#pragma once

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <memory>

#include "base/precedence.h"

namespace breccia::tree {

/// An Env whose tables come into the system's cache in huge pages: what is appended to one is
/// written at each whole page's end, not as it comes. Linux caches in one piece what one write
/// brings, where the file system does so (ext4 since 6.16, XFS), and of smaller pieces it makes
/// huge pages on tmpfs alone. Who reads values at random places of mapped files walks the page
/// tables for each otherwise (docs/impl/residency.md, "Pages").
///
/// Each page is on its way to the disk when it is written. What RocksDB writes with a low priority,
/// compactions for which no writer waits, gives way to what goes first (base/precedence.h).
///
/// Of a table a page, at most, is not written yet until it is synced, closed or given up; nobody
/// reads one before. What fails is said by the append that finds out, or the sync, and by all
/// behind it. All else is as with `env`.
/// Shape   `env` is the system's own; of any other it is `env` itself.
/// Owner   the process.
/// Threads any.
[[nodiscard]] rocksdb::Env* whole_page_env(rocksdb::Env* env);

/// Makes *file, which lies on that disk, one that is written by whole pages.
/// Errors  std::bad_alloc: it is what it was.
void write_by_whole_pages(std::unique_ptr<rocksdb::FSWritableFile>* file, base::Precedence* disk);

/// True of what whole_page_env() makes of the system's own Env.
[[nodiscard]] bool is_whole_page_env(const rocksdb::Env* env);

/// True of the system's own Env, with or without whole pages.
[[nodiscard]] bool is_system_env(const rocksdb::Env* env);

}  // namespace breccia::tree
