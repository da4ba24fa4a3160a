#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"

/// Huge pages for files on tmpfs: a record is at a random place of a large log, and with small
/// pages every lookup walks the page tables, in a virtual machine two of them (docs/impl/wal.md,
/// "Pages of tmpfs"). Most tmpfs are mounted without them; since Linux 6.1 madvise(MADV_COLLAPSE)
/// gives a file them all the same.

namespace breccia::wal {

/// Maps a file on tmpfs, to be read and written, so that its huge pages are mapped as such.
/// Owner   munmap() ends it. Null of no bytes.
/// Errors  IOError.
[[nodiscard]] Result<std::byte*> map_tmpfs(int fd, const std::string& path, std::uint64_t bytes);

/// Gives an empty file on tmpfs `bytes` bytes of huge pages, as far as the kernel has them: what is
/// missing is left to whoever reserves the space. Pages are zero, and count as data.
/// Cost    of a MiB some 0.1 ms, a quarter of what its small pages cost; 3 ms where a virtual
///         machine gets the memory from its host first.
void make_huge_pages(int fd, std::uint64_t bytes);

/// True if files in this folder, on tmpfs, get huge pages. Leaves no file.
[[nodiscard]] bool gives_huge_pages(const std::string& dir);

}  // namespace breccia::wal
