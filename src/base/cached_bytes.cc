#include "base/cached_bytes.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

namespace breccia::base {

Status count_cached(int file, const std::string& path, CachedBytes* count) {
  const off_t end = lseek(file, 0, SEEK_END);
  if (end < 0) return Status::IOError("cannot read " + path, std::strerror(errno));
  if (end == 0) return Status::OK();
  const auto bytes = static_cast<std::uint64_t>(end);
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> flags((bytes + page - 1) / page);
  void* const mapped = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED) return Status::IOError("cannot map " + path, std::strerror(errno));
  const bool is_asked = mincore(mapped, bytes, flags.data()) == 0;
  munmap(mapped, bytes);
  if (!is_asked) return Status::IOError("cannot ask about the cache of " + path);
  const auto cached =
      std::count_if(flags.begin(), flags.end(), [](unsigned char one) { return one & 1; });
  count->all += flags.size() * page;
  count->cached += static_cast<std::uint64_t>(cached) * page;
  return Status::OK();
}

}  // namespace breccia::base
