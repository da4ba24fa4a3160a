#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"

/// Huge pages for files on tmpfs, and in memory that processes share: who reads at random places of
/// many gigabytes walks the page tables each time if pages are small, in a virtual machine two of
/// them (docs/impl/wal.md, "Pages of tmpfs"). Most tmpfs are mounted without them; since Linux 6.1
/// madvise(MADV_COLLAPSE) gives a file them all the same.

namespace breccia::base {

inline constexpr std::uint64_t kHugePageBytes = 2ULL << 20;

/// Maps a file so that its huge pages are mapped as such; `rights`: PROT_READ, PROT_WRITE.
/// Owner   munmap() ends it. Null of no bytes.
/// Errors  IOError.
[[nodiscard]] Result<std::byte*> map_file(int fd, const std::string& path, std::uint64_t bytes,
                                          int rights);

/// Has pages of a file at hand that was mapped to be read: huge ones where the kernel makes them of
/// small ones that are there (of tmpfs; of other files that nobody writes to if it was built so),
/// and entries in the page tables for all. Advice: what fails leaves reads slower.
/// Shape   data of map_file()
/// Cost    copies what was not huge yet, and reads what the system has not cached of the file.
void fetch_pages(const std::byte* data, std::uint64_t bytes);

/// Gives an empty file `bytes` bytes of huge pages, as far as the kernel has them: what is missing
/// is left to whoever reserves the space. Pages are zero, and count as data.
/// Cost    of a MiB some 0.1 ms, a quarter of what its small pages cost; 3 ms where a virtual
///         machine gets the memory from its host first.
void make_huge_pages(int fd, std::uint64_t bytes);

/// True if files in this folder, on tmpfs, get huge pages. Leaves no file.
[[nodiscard]] bool gives_huge_pages(const std::string& dir);

}  // namespace breccia::base
