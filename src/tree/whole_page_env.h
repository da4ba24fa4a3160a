#pragma once

#include <rocksdb/env.h>

namespace breccia::tree {

/// An Env whose tables come into the system's cache in huge pages: what is appended to one is
/// written at each whole page's end, not as it comes. Linux caches in one piece what one write
/// brings, where the file system does so (ext4 since 6.16, XFS), and of smaller pieces it makes
/// huge pages on tmpfs alone. Who reads values at random places of mapped files walks the page
/// tables for each otherwise (docs/impl/residency.md, "Pages").
///
/// Of a table a page, at most, is not written yet until it is synced or closed; nobody reads one
/// before. All else is as with `env`.
/// Shape   `env` is the system's own; of any other it is `env` itself.
/// Owner   the process.
/// Threads any.
[[nodiscard]] rocksdb::Env* whole_page_env(rocksdb::Env* env);

/// True of the system's own Env, with or without whole pages.
[[nodiscard]] bool is_system_env(const rocksdb::Env* env);

}  // namespace breccia::tree
